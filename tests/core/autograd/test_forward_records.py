"""Forward mode against reverse mode, over every operator that has a gradient: neither can be wrong without the other.

The product of the Jacobian and a direction is also the gradient, with respect to ``u``, of what a backward pass makes
of ``u``. Both are computed for every sample, with ties and at the edges too, of one input alone and of all together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tensorplay as tp
from tensorplay_core.dispatch.operator import Operator
from tensorplay_core.dispatch.registry import REGISTRY
from tensorplay_core.ops import forward_rules
from tensorplay_core.testing.differentiation import is_declared_constant
from tensorplay_core.testing.samples import Sample, samples
from tensorplay_core.types.schema import BaseType

fwAD = tp.autograd.forward_ad
pytestmark = pytest.mark.filterwarnings("error")
COUNTS: Counter[str] = Counter()
ONE_STAYS = frozenset({"tp::index_copy", "tp::index_copy_", "tp::index_put", "tp::index_put_", "tp::scatter.src"})
"""Of several values for one place one stays, and its tangent with it; gradients go to all of them, as in PyTorch."""
LEFT_OUT = frozenset({"tp::_embedding", "tp::embedding"})
"""Their gradient leaves out a padding row, or divides one by how often it is read, on purpose; the tangent does not."""


def source(op: Operator) -> Operator:
    return op.functional or op


def has_tensors(op: Operator) -> bool:
    return any(a.type.base is BaseType.TENSOR for a in op.schema.arguments)


OPERATORS = {
    name: op
    for name, op in REGISTRY.operators.items()
    if op.namespace == "tp" and (source(op).node is not None or (op.composite == "implicit" and has_tensors(op)))
}


def inexact(values: Any) -> Iterator[tp.Tensor]:
    for value in values:
        if isinstance(value, (list, tuple)):
            yield from inexact(value)
        elif isinstance(value, tp.Tensor) and value.dtype.is_inexact:
            yield value


def results(found: Any) -> list[tp.Tensor]:
    return list(inexact(found if isinstance(found, (list, tuple)) else (found,)))


def call_of(op: Operator, sample: Sample) -> tuple[Callable[..., Any], list[tp.Tensor]]:
    """Returns a sample as a function of its floating tensors, and these."""
    args, kwargs = sample.build(tp)

    def put(value: Any, new: Iterator[tp.Tensor]) -> Any:
        if isinstance(value, (list, tuple)):
            return [put(v, new) for v in value]
        return next(new) if isinstance(value, tp.Tensor) and value.dtype.is_inexact else value

    def function(*tensors: tp.Tensor) -> Any:
        new = iter(tensors)
        first, *rest = [put(value, new) for value in args]
        if op.is_inplace:
            first = first.clone()
        return op.function(first, *rest, **{name: put(value, new) for name, value in kwargs.items()})

    return function, list(inexact((*args, *kwargs.values())))


def calls(op: Operator, dtype: str) -> Iterator[tuple[Sample, Callable[..., Any], list[tp.Tensor]]]:
    for sample in samples(source(op), dtype=dtype):
        function, tensors = call_of(op, sample)
        if not tensors or (op.qualified_name in ONE_STAYS | LEFT_OUT and not sample.smooth):
            continue
        try:
            with tp.no_grad():
                found = results(function(*tensors))
        except tp.DTypeError:  # complex numbers, where there are none
            continue
        except tp.ShapeError:
            if op.functional is None:
                raise
            continue  # an in-place variant cannot write a result of another shape
        if not all(np.isfinite(x.numpy()).all() for x in (*tensors, *found)):
            continue  # infinity times zero depends on which comes first
        yield sample, function, tensors


def directions(tensors: list[tp.Tensor], shift: float) -> list[tp.Tensor]:
    """Returns tensors that differ in every element, of some tensors' shapes and dtypes."""
    found = []
    for i, x in enumerate(tensors):
        steps = tp.arange(x.numel(), dtype=tp.float64) * (0.37 + i) + shift
        direction = (tp.sin(steps) + 0.2).reshape(x.shape).to(x.dtype)
        found.append(direction * (1 + 0.5j) if x.is_complex() else direction)
    return found


def forward(function: Callable[..., Any], tensors: list[tp.Tensor], tangents: list[tp.Tensor | None]) -> list[Any]:
    """Returns the tangents of the results, None for one that has none."""
    with fwAD.dual_level():
        given = [x.detach() if t is None else fwAD.make_dual(x, t) for x, t in zip(tensors, tangents, strict=True)]
        return [fwAD.unpack_dual(y).tangent for y in results(function(*given))]


def reverse(function: Callable[..., Any], tensors: list[tp.Tensor], tangents: list[tp.Tensor | None]) -> list[Any]:
    """Returns the same from two backward passes, None for a result that has no gradient."""
    chosen = [x.detach().requires_grad_(t is not None) for x, t in zip(tensors, tangents, strict=True)]
    inputs = [x for x in chosen if x.requires_grad]
    found = results(function(*chosen))
    given = [y for y in found if y.requires_grad]
    us = [tp.zeros(y.shape, dtype=y.dtype, requires_grad=True) for y in given]
    if not given:
        return [None] * len(found)
    grads = tp.autograd.grad(given, inputs, us, create_graph=True, allow_unused=True)
    pairs = [(g, t) for g, t in zip(grads, (t for t in tangents if t is not None), strict=True) if g is not None]
    pairs = [(g, t) for g, t in pairs if g.requires_grad]
    products: Any = [None] * len(us)
    if pairs:
        products = tp.autograd.grad([g for g, _ in pairs], us, [t for _, t in pairs], allow_unused=True)
    filled = iter(tp.zeros(u.shape, dtype=u.dtype) if p is None else p for u, p in zip(us, products, strict=True))
    return [next(filled) if y.requires_grad else None for y in found]


def check(op: Operator, dtype: str) -> None:
    for sample, function, tensors in calls(op, dtype):
        every = directions(tensors, 1.0)
        alone = [[t if i == k else None for i, t in enumerate(every)] for k in range(len(every))]
        for tangents in [every, *(alone if len(alone) > 1 else [])]:
            place = f"{op.display_name}, {dtype}, sample {sample.name!r}, tangents {[t is not None for t in tangents]}"
            try:
                compare(forward(function, tensors, tangents), reverse(function, tensors, tangents))
            except Exception as error:
                raise AssertionError(f"{place}: {type(error).__name__}: {error}") from error
            COUNTS[dtype] += 1
        COUNTS[op.qualified_name] += 1


def compare(forward: list[Any], reverse: list[Any]) -> None:
    assert len(forward) == len(reverse)
    for tangent, product in zip(forward, reverse, strict=True):
        if product is None or tangent is None:
            assert tangent is None or not tangent.numpy().any(), "a tangent, and no gradient"
            assert product is None, "a gradient, and no tangent"
            continue
        assert (tangent.dtype, tangent.shape) == (product.dtype, product.shape)
        tp.testing.assert_close(tangent, product, rtol=1e-9, atol=1e-11, equal_nan=True)


@pytest.mark.parametrize("name", OPERATORS)
def test_the_tangent_of_every_operator_is_what_its_gradient_says(name: str) -> None:
    op = OPERATORS[name]
    check(op, "float64")
    check(op, "complex128")
    assert COUNTS[name] or is_declared_constant(op), f"{name}: no sample reaches its rule"
    if op.functional is None and op.node is not None:
        assert isinstance(op.__dict__["forward"], forward_rules.Rule), f"{name}: its rule was not called"


def test_a_wrong_rule_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    op = OPERATORS["tp::exp"]
    wrong = forward_rules.Generated("result", ("self",), lambda tangents, result, self: tangents[0] * self)
    wrong.op = op
    monkeypatch.setitem(op.__dict__, "forward", wrong)
    with pytest.raises(AssertionError, match="exp, float64, sample"):
        check(op, "float64")
