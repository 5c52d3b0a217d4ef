"""Every derivative record of the contract against finite differences: no record, and no input of one, can escape.

The operators come from the registry and their inputs from ``tensorplay_core.testing.samples``, so a new record is
checked the moment it exists. What is left out is named here with its reason, and the names are checked too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import tensorplay as tp
from tensorplay_core.autograd.node import Node, NoFormula, Output
from tensorplay_core.dispatch.operator import Operator
from tensorplay_core.dispatch.registry import REGISTRY
from tensorplay_core.testing.samples import Sample, samples
from tensorplay_core.types.schema import BaseType

pytestmark = pytest.mark.filterwarnings("error")  # no warning of NumPy reaches the user

REAL_ONLY = {
    "tp::cross_entropy": "a loss is a real number, and its logits are compared",
    "tp::log_softmax": "the largest element is subtracted, and complex numbers have no order",
    "tp::max": "complex numbers have no order",
    "tp::max.dim": "complex numbers have no order",
    "tp::relu": "complex numbers have no order",
    "tp::softmax": "the largest element is subtracted, and complex numbers have no order",
}
"""Operators whose kernels take no complex tensor, each with its reason; those that are tagged so join below."""

WITHOUT_RECORD: dict[str, str] = {}
"""Operators from floating tensors to floating tensors that have no gradient on purpose, each with its reason."""

OPERATORS = dict(REGISTRY.operators)
COUNTS: Counter[str] = Counter()


def has_tensors(op: Operator) -> bool:
    return any(a.type.base is BaseType.TENSOR for a in op.schema.arguments)


def source(op: Operator) -> Operator:
    """The operator whose samples and derivative record an operator uses: an in-place variant has those of its form."""
    return op.functional or op


DIFFERENTIABLE = {
    name: op
    for name, op in OPERATORS.items()
    if op.namespace == "tp" and (source(op).node is not None or (op.composite == "implicit" and has_tensors(op)))
}
REAL_ONLY |= {
    name: "its record is tagged so"
    for name, op in DIFFERENTIABLE.items()
    if op.functional is None and {"ordered", "real"} & {*op.tags}
}


def inexact(values: Any) -> Iterator[tp.Tensor]:
    for value in values:
        if isinstance(value, (list, tuple)):
            yield from inexact(value)
        elif isinstance(value, tp.Tensor) and value.dtype.is_inexact:
            yield value


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

    return function, [t.requires_grad_() for t in inexact((*args, *kwargs.values()))]


def calls(op: Operator, dtype: str) -> Iterator[tuple[Sample, Callable[..., Any], list[tp.Tensor]]]:
    """Yields the smooth samples of an operator, an in-place one's only where it can write the result."""
    for sample in samples(source(op), dtype=dtype):
        if not sample.smooth:
            continue
        function, tensors = call_of(op, sample)
        if op.functional is not None:
            plain = OPERATORS[source(op).qualified_name].function(*sample.build(tp)[0], **sample.build(tp)[1])
            if plain.shape != sample.args[0].shape or plain.dtype is not tensors[0].dtype:
                continue
        yield sample, function, tensors


def node_of(result: Any) -> Node | None:
    """The node of an operator's call, from the first of its results that has one."""
    results = result if isinstance(result, (tuple, list)) else (result,)
    node = next((y._node for y in results if isinstance(y, tp.Tensor) and y._node is not None), None)
    return node.edges[0] if isinstance(node, Output) else node


def check(op: Operator, dtype: str) -> None:
    reached = 0
    for sample, function, tensors in calls(op, dtype):
        place = f"{op.display_name}, {dtype}, sample {sample.name!r}"
        try:
            assert tp.autograd.gradcheck(function, tensors)
            assert tp.autograd.gradgradcheck(function, tensors)
        except Exception as error:
            raise AssertionError(f"{place}: {error}") from error
        reached += 1
    assert reached, f"{op.display_name}: no smooth sample reaches its derivative"
    COUNTS[f"gradcheck and gradgradcheck, {dtype}"] += reached
    COUNTS[f"operators, {dtype}"] += 1


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_real_gradients_of_both_orders(name):
    check(DIFFERENTIABLE[name], "float64")


@pytest.mark.parametrize(
    "name", [n for n, op in DIFFERENTIABLE.items() if op.functional is None and n not in REAL_ONLY]
)
def test_complex_gradients_of_both_orders(name):
    check(DIFFERENTIABLE[name], "complex128")


@pytest.mark.parametrize("name", REAL_ONLY)
def test_what_is_real_only_refuses_complex_tensors(name):
    op = DIFFERENTIABLE[name]
    assert not list(samples(source(op), dtype="complex128")), (
        f"{name} has complex samples: check its gradient with them"
    )
    sample = next(s for s in samples(source(op), dtype="float64") if s.args[0].shape != () and 0 not in s.args[0].shape)
    args, kwargs = sample.build(tp)
    with pytest.raises(tp.TensorPlayError):
        op.function(args[0].to(tp.complex128), *args[1:], **kwargs)


@pytest.mark.parametrize("name", [name for name, op in OPERATORS.items() if op.node is not None])
def test_every_differentiable_input_of_a_record_is_reached(name):
    op = OPERATORS[name]
    reached: set[int] = set()
    count = 0
    for dtype in ("float64", "complex128"):  # the function of a record may return a real tensor as it is
        for _, function, tensors in calls(op, dtype):
            node = node_of(function(*tensors))
            if isinstance(node, op.node):
                count = max(count, len(node.edges))
                reached |= {i for i, edge in enumerate(node.edges) if edge is not None}
    assert count, f"{name}: no smooth sample records its node"
    missing = set(range(count)) - reached
    assert not missing, f"{name}: input {missing} is differentiated in no sample"
    COUNTS["records"] += 1


@pytest.mark.parametrize("name", [name for name, op in OPERATORS.items() if has_tensors(op)])
def test_no_floating_operator_is_without_a_record(name):
    op = OPERATORS[name]
    declared = op.differentiable is not None and not any(op.differentiable)
    if source(op).node is not None or op.composite == "implicit" or declared:
        assert name not in WITHOUT_RECORD, f"{name} needs no exception any more"
        return
    function, tensors = call_of(op, next(samples(source(op), dtype="float64")))
    result = function(*tensors)
    floating = list(inexact(result if isinstance(result, (tuple, list)) else (result,)))
    assert not (tensors and floating) or name in WITHOUT_RECORD, (
        f"{name} takes and gives floating tensors and has no derivative record; "
        "write one, declare it not differentiable, or name it in WITHOUT_RECORD with the reason"
    )


def test_what_is_declared_not_differentiable_records_nothing():
    seen = 0
    for name, op in OPERATORS.items():
        if op.differentiable is None or any(op.differentiable):
            continue
        function, tensors = call_of(op, next(samples(op, dtype="float64")))
        assert not function(*tensors).requires_grad, name
        seen += 1
    assert seen >= 7


def test_an_operator_without_a_formula_runs_and_refuses_to_back_up():
    library = tp.library.Library("derivatives_test", "DEF")
    library.define("twice(Tensor x) -> Tensor")
    library.impl("twice", lambda x: 2 * x, "CPU")
    x = tp.tensor([1.0, 2.0], requires_grad=True)
    y = tp.ops.derivatives_test.twice(x)
    assert y.tolist() == [2.0, 4.0]
    assert isinstance(y._node, NoFormula)
    with pytest.raises(tp.AutogradError, match="derivatives_test::twice has no gradient formula"):
        y.sum().backward()
    assert x.grad is None
    library.close()


def test_report(capsys):
    """Prints what was checked; the last test of the file."""
    with capsys.disabled():
        counts = ", ".join(f"{name}: {n}" for name, n in sorted(COUNTS.items()))
        print(f"\nderivatives: {counts}; skipped: 0; real only, with a reason: {len(REAL_ONLY)}")
