"""Batching rules of products and solvers: the batch is one more dim in front, as they have any number of."""

from __future__ import annotations

from typing import Any

from tensorplay_core.ops import _generated_functional_linalg as linalg
from tensorplay_core.tensor.tensor import Tensor
from tensorplay_core.vmap.batching import Batch, pad


def product(left: Any, left_batched: bool, right: Any, right_batched: bool) -> Tensor:
    """Returns ``left @ right`` of tensors with or without the batch in front, which the result has.

    Vectors get the dim that makes them matrices, and lose it again.
    """
    row = left.ndim - left_batched == 1
    column = right.ndim - right_batched == 1
    if not right_batched and right.ndim <= 2:
        return linalg.matmul(left, right)  # a matrix, or a vector, that every element of the batch meets
    left = left.unsqueeze(-2) if row else left
    right = right.unsqueeze(-1) if column else right
    ndim = max(left.ndim - left_batched, right.ndim - right_batched)
    found = linalg.matmul(pad(left, left_batched, ndim), pad(right, right_batched, ndim))
    found = found.squeeze(-2) if row else found
    return found.squeeze(-1) if column else found


def _named(first: str, second: str) -> Any:
    def rule(batch: Batch) -> Any:
        return product(batch.values[first], batch.batched[first], batch.values[second], batch.batched[second])

    return rule


matmul = _named("self", "other")
mm = _named("self", "mat2")
mv = _named("self", "vec")
dot = _named("self", "tensor")


def bmm(batch: Batch) -> Any:
    """Products of matrices, pair by pair."""
    return linalg.matmul(batch.values["self"], batch.values["mat2"]) if _all(batch) else mm(batch)


def _all(batch: Batch) -> bool:
    return all(batch.batched[name] for name in batch.tensors())


def vdot(batch: Batch) -> Any:
    """The product of vectors, the first one conjugated."""
    return product(batch.values["self"].conj(), batch.batched["self"], batch.values["other"], batch.batched["other"])


def outer(batch: Batch) -> Any:
    """Every product of an element of one vector and one of another."""
    return batch.front("self").unsqueeze(-1) * batch.front("vec2").unsqueeze(-2)


def solve(batch: Batch) -> Any:
    """Solves for matrices, or for a vector, which is a matrix of one column meanwhile."""
    b, vector = batch.front("B"), batch.ndim("B") == 1
    a_shape, b_shape = batch.shape("A"), batch.shape("B")
    vector = vector or (len(b_shape) == len(a_shape) - 1 and b_shape == a_shape[:-1])  # vectors, one for each matrix
    b = b.unsqueeze(-1) if vector else b
    ndim = max(batch.ndim("A"), b.ndim - 1)
    found = batch.again(A=pad(batch.front("A"), True, ndim), B=pad(b, True, ndim))
    return found.squeeze(-1) if vector else found
