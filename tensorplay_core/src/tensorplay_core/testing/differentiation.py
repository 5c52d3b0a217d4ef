"""Calls of operators as functions of their floating tensors, and the checks that gradients are held to.

``check_operator`` and the tests of every derivative record are made of these. Finite differences say what a first or
second gradient is where the operator is smooth; forward against reverse mode says that the two agree everywhere, at
kinks and ties too, for a Jacobian applied from either side is one matrix.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from tensorplay_core import public as tp
from tensorplay_core.autograd import forward_ad
from tensorplay_core.autograd.api import grad
from tensorplay_core.autograd.jacobians import flat, tensor_of
from tensorplay_core.autograd.jacobians import inexact as floating
from tensorplay_core.autograd.node import Node, Output
from tensorplay_core.dispatch.operator import Operator
from tensorplay_core.tensor.tensor import Tensor
from tensorplay_core.testing.sample_features import in_domain, is_finite
from tensorplay_core.testing.sample_specs import Sample, TensorSpec
from tensorplay_core.testing.samples import samples
from tensorplay_core.types.schema import BaseType


class Called(NamedTuple):
    """A sample as a function of its floating tensors.

    Attributes:
        sample: the sample.
        function: calls the operator; an in-place one writes to a copy of its first argument.
        tensors: the floating tensors, which require grad.
    """

    sample: Sample
    function: Callable[..., Any]
    tensors: list[Tensor]


def source(op: Operator) -> Operator:
    """Returns whose samples and derivative record an operator uses: an in-place variant has those of its form."""
    return op.functional or op


def takes_tensors(op: Operator) -> bool:
    """Whether an argument is a tensor or a list of them."""
    return any(a.type.base is BaseType.TENSOR for a in op.schema.arguments)


def is_differentiable(op: Operator) -> bool:
    """Whether an operator has a gradient: a record, a registration, or a composition of operators that have."""
    if op.differentiable is not None and not any(op.differentiable):
        return False
    if "random" in op.tags:  # a difference of two draws says nothing; the gradients are 0
        return False
    return source(op).node is not None or (source(op).composite == "implicit" and takes_tensors(op))


def is_declared_constant(op: Operator) -> bool:
    """Whether an operator says that none of its results has a gradient; an in-place variant refuses instead."""
    return op.functional is None and op.differentiable is not None and not any(op.differentiable)


def inexact(values: Any) -> Iterator[Tensor]:
    """Yields the floating and complex tensors of nested values."""
    for value in values:
        if isinstance(value, (list, tuple)):
            yield from inexact(value)
        elif isinstance(value, Tensor) and value.dtype.is_inexact:
            yield value


def called(op: Operator, sample: Sample, device: str = "cpu") -> Called:
    """Returns a sample as a function of its floating tensors."""
    args, kwargs = sample.build(tp, device)
    return called_with(op, sample, args, kwargs)


def called_with(op: Operator, sample: Sample, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Called:
    """Returns a call of given arguments as a function of their floating tensors."""
    from tensorplay_core.ops.packets import OpOverload

    public = op.function if op.function is not None else OpOverload(op)

    def put(value: Any, new: Iterator[Tensor]) -> Any:
        if isinstance(value, (list, tuple)):
            return [put(v, new) for v in value]
        return next(new) if isinstance(value, Tensor) and value.dtype.is_inexact else value

    def function(*tensors: Tensor) -> Any:
        new = iter(tensors)
        given = in_domain(op, [put(value, new) for value in args])
        if op.is_inplace and given:
            given[0] = given[0].clone()
        return public(*given, **{name: put(value, new) for name, value in kwargs.items()})

    return Called(sample, function, [t.requires_grad_() for t in inexact((*args, *kwargs.values()))])


def calls(op: Operator, dtype: str) -> Iterator[Called]:
    """Yields an operator's samples that have a gradient; an in-place one's only where it can write the result."""
    form = source(op)
    for sample in samples(form, dtype=dtype):
        if not is_finite(sample):
            continue
        call = called(op, sample)
        if op.functional is not None and not _can_be_written(form, sample, call):
            continue
        yield call


def _can_be_written(form: Operator, sample: Sample, call: Called) -> bool:
    result = called(form, sample).function(*[t.detach() for t in call.tensors])
    first = sample.args[0]
    return bool(
        isinstance(first, TensorSpec)
        and result.shape == first.shape
        and result.dtype.name == first.dtype
        and first.layout != "expanded"
    )


def node_of(result: Any) -> Node | None:
    """Returns the node of an operator's call, from the first of its results that has one."""
    results = result if isinstance(result, (tuple, list)) else (result,)
    node = next((y._node for y in results if isinstance(y, Tensor) and y._node is not None), None)
    return node.edges[0] if isinstance(node, Output) else node


def forward_agrees(function: Callable[..., Any], tensors: list[Tensor]) -> str | None:
    """Compares forward with reverse mode: ``u · (J v)`` with ``(Jᵀ u) · v``, for numbers u and v drawn once.

    Returns:
        What is wrong, or None.
    """
    draw = random.Random(1)
    outputs = floating(function(*tensors))
    us = [_drawn(y, draw) for y in outputs]
    vs = [_drawn(x, draw) for x in tensors]
    roots = [(y, u) for y, u in zip(outputs, us, strict=True) if y._node is not None]
    reverse = 0.0
    if roots:
        found = grad([y for y, _ in roots], tensors, [u for _, u in roots], allow_unused=True)
        reverse = sum(_dot(g, v) for g, v in zip(found, vs, strict=True) if g is not None)
    with forward_ad.dual_level():
        duals = [forward_ad.make_dual(x.detach(), v) for x, v in zip(tensors, vs, strict=True)]
        tangents = [forward_ad.unpack_dual(y).tangent for y in floating(function(*duals))]
    for y, t in zip(outputs, tangents, strict=True):
        if t is not None and (t.shape != y.shape or t.dtype is not y.dtype):
            return f"a tangent is {t.dtype.name} {t.shape}, its result {y.dtype.name} {y.shape}"
    forward = sum(_dot(u, t) for u, t in zip(us, tangents, strict=True) if t is not None)
    if reverse == forward or (reverse != reverse and forward != forward):
        return None
    if abs(reverse - forward) <= 1e-8 + 1e-8 * max(abs(reverse), abs(forward)):
        return None
    return f"u·(J v) is {forward!r} by forward mode, and (Jᵀ u)·v {reverse!r} by reverse mode"


def _drawn(like: Tensor, draw: random.Random) -> Tensor:
    values: list[Any] = [draw.uniform(0.5, 1.5) for _ in range(like.numel())]
    if like.is_complex():
        values = [complex(value, draw.uniform(-1.5, -0.5)) for value in values]
    return tensor_of(values, like.detach())


def _dot(a: Tensor, b: Tensor) -> float:
    """Returns Re(conj(a) · b), what a gradient and a direction make."""
    return float(sum((complex(p).conjugate() * q).real for p, q in zip(flat(a), flat(b), strict=True)))
