"""Batching rules of convolutions, pooling and windows: the batch is folded into a dim that they have."""

from __future__ import annotations

from typing import Any

from tensorplay_core.errors import DimError
from tensorplay_core.ops import _generated_functional_pointwise as pointwise
from tensorplay_core.ops.creation import arange
from tensorplay_core.tensor.tensor import Tensor
from tensorplay_core.vmap.batching import Batch, moved, results
from tensorplay_core.vmap.loop import each


def fold(batch: Batch) -> Any:
    """Operators on samples in the first dim: the samples of all elements of the batch are those of one call.

    Without a dim of samples the batch itself is one.
    """
    names = batch.tensors()
    spatial = 3 if "3d" in batch.op.name else 2
    if batch.ndim("self") < spatial + (batch.op.name != "col2im"):
        return batch.again(**{name: batch.front(name) for name in names})  # refused, as without vmap
    samples = spatial + 2 if batch.op.name != "col2im" else 3
    if batch.ndim("self") != samples:
        return batch.again(**{name: batch.front(name) for name in names})
    together = {name: batch.front(name) for name in names}
    count = together["self"].shape[1]
    folded = {name: x.reshape(batch.size * x.shape[1], *x.shape[2:]) for name, x in together.items()}
    return results(batch.again(**folded), lambda r: r.reshape(batch.size, count, *r.shape[1:]))


def _into(tensor: Tensor, dim: int) -> Tensor:
    """Returns a tensor whose batch is the outer part of another of its dims."""
    x = moved(tensor, 0, dim)
    return x.reshape(*x.shape[:dim], x.shape[dim] * x.shape[dim + 1], *x.shape[dim + 2 :])


def _out_of(tensor: Tensor, dim: int, size: int) -> Tensor:
    """Returns a tensor with the batch in front that was the outer part of a dim."""
    shape = tensor.shape
    rest = shape[dim] // size if size else 0
    return moved(tensor.reshape(*shape[:dim], size, rest, *shape[dim + 1 :]), dim, 0)


def convolution(batch: Batch) -> Any:
    """Of samples alone: one call of all of them. Of weights too: groups, one for each element of the batch."""
    values, batched = batch.values, batch.batched
    bias = values["bias"]
    if not batched["weight"]:
        x = values["input"]
        if not batched["input"]:
            found = batch.with_front(batch.again(bias=None), False)
        else:
            plain = None if batched["bias"] else bias
            found = batch.again(input=x.reshape(batch.size * x.shape[1], *x.shape[2:]), bias=plain)
            found = found.reshape(batch.size, x.shape[1], *found.shape[1:])
            if plain is bias:
                return found
    else:
        x, groups = _into(batch.front("input"), 1), values["groups"] * batch.size
        found = batch.again(input=x, weight=_into(values["weight"], 0), bias=None, groups=groups)
        found = _out_of(found, 1, batch.size)
    if bias is None:
        return found
    bias = batch.front("bias")
    return found + bias.reshape(bias.shape[0], 1, bias.shape[1], *[1] * (found.ndim - 3))


def convolution_backward(batch: Batch) -> Any:
    """The gradients, with a group for each element of the batch."""
    values, size = batch.values, batch.size
    sizes = values["bias_sizes"]
    found = batch.again(
        grad_output=_into(batch.front("grad_output"), 1),
        input=_into(batch.front("input"), 1),
        weight=_into(batch.front("weight"), 0),
        bias_sizes=(sizes[0] * size,) if sizes else sizes,
        groups=values["groups"] * size,
    )
    wanted = values["output_mask"]
    return tuple(
        _out_of(one, dim, size) if asked else batch.with_front(one, False)
        for one, dim, asked in zip(found, (1, 0, 0), wanted, strict=True)
    )


def embedding(batch: Batch) -> Any:
    """Rows of one table, or of a table for each element of the batch: they are one table of all rows."""
    weight = batch.values["weight"]
    if not batch.batched["weight"]:
        return batch.again()
    table = weight.reshape(weight.shape[0] * weight.shape[1], *weight.shape[2:])
    indices, padding = batch.front("indices"), batch.values["padding_idx"]
    outside = (indices < 0) | (indices >= weight.shape[1])  # they would be rows of other tables
    rows = pointwise.where(outside, table.shape[0], _apart(batch, indices, weight.shape[1]))
    try:
        found = batch.again(weight=table, indices=rows, padding_idx=-1)
    except DimError:
        return each(batch)  # which says which row of which table it is
    if padding < 0:
        return found
    return pointwise.where((indices == padding).unsqueeze(-1), found.detach(), found)  # whose rows have no gradient


def _apart(batch: Batch, indices: Tensor, rows: int) -> Tensor:
    """Returns indices into the rows of all tables, which follow each other."""
    first = arange(0, batch.size * rows, rows, dtype=indices.dtype, device=indices.device) if rows else None
    return indices if first is None else indices + first.reshape(batch.size, *[1] * (indices.ndim - 1))


def embedding_backward(batch: Batch) -> Any:
    """The gradients of the tables, as that of one table of all rows."""
    values, rows = batch.values, batch.values["num_weights"]
    indices, grad, padding = batch.front("indices"), batch.front("grad_output"), values["padding_idx"]
    if padding >= 0:
        grad = pointwise.where((indices == padding).unsqueeze(-1), 0, grad)
    found = batch.again(
        grad_output=grad, indices=_apart(batch, indices, rows), num_weights=rows * batch.size, padding_idx=-1
    )
    return found.reshape(batch.size, rows, *found.shape[1:])
