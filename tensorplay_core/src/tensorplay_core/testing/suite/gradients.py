"""Gradients of both orders: against finite differences in float64, or against the cpu's where the device lacks it.

Finite differences need no formula, so they find a wrong one as well as a wrong kernel that only a gradient uses.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from tensorplay_core.autograd.api import grad
from tensorplay_core.autograd.gradcheck import gradcheck, gradgradcheck
from tensorplay_core.dispatch.operator import Operator
from tensorplay_core.errors import AutogradError
from tensorplay_core.testing.close import assert_close
from tensorplay_core.testing.differentiation import (
    is_declared_constant,
)
from tensorplay_core.testing.sample_features import (
    in_domain,
)
from tensorplay_core.testing.suite.calls import REFUSALS, Judge, Made, Skip, over
from tensorplay_core.testing.suite.cases import Case, on_samples
from tensorplay_core.testing.suite.given import Given, mapped
from tensorplay_core.testing.suite.outcome import Finding, Outcome
from tensorplay_core.testing.suite.program import Script, call_text
from tensorplay_core.testing.suite.subject import Subject
from tensorplay_core.types.dtype import by_name
from tensorplay_core.types.schema import BaseType

DTYPES = ("float64", "complex128")
QUICK_CASES = 3
RTOL, ATOL = 1e-4, 1e-5
"""What a float32 gradient may differ from the cpu's."""
CPU = "cpu"


def has_gradient(op: Operator) -> bool:
    """Whether an operator promises a gradient: it has a record, or is written in operators that have."""
    takes = any(a.type.base is BaseType.TENSOR for a in op.schema.arguments)
    if "random" in op.tags:  # differences of what is drawn say nothing
        return False
    return op.node is not None or (op.composite == "implicit" and takes and not is_declared_constant(op))


def gradient(subject: Subject, op: Operator) -> Iterator[Outcome]:
    """The gradients of smooth samples."""
    yield from _of_order(subject, op, "gradient", gradcheck)


def second(subject: Subject, op: Operator) -> Iterator[Outcome]:
    """The gradients of the gradients of smooth samples."""
    yield from _of_order(subject, op, "second", gradgradcheck)


def _of_order(subject: Subject, op: Operator, area: str, check: Callable[..., Any]) -> Iterator[Outcome]:
    dtypes = [dtype for dtype in DTYPES[: 1 if subject.quick else None] if subject.has(dtype)]
    if not dtypes and subject.has("float32"):
        yield from _against_cpu(subject, op, area)
    for dtype in dtypes:
        judge = Judge(subject, op)
        found = (case for case in on_samples(subject, op, dtype, area) if case.smooth)
        cases = itertools.islice(found, QUICK_CASES if subject.quick else None)
        yield from over(judge, area, dtype, cases, partial(_differences, judge, check))


def _differences(judge: Judge, check: Callable[..., Any], case: Case) -> None:
    """Compares one case with finite differences.

    Raises:
        Finding: the gradient is wrong, or cannot be computed.
    """
    function, leaves = function_of(judge, case)
    if not leaves:
        raise Skip
    results = _results(function(*leaves))
    if not results:  # bools or integers, which have no gradient
        raise Skip
    if not any(y.requires_grad for y in results):
        raise Finding(f"{call_text(judge.op, case)} loses the gradient", _program(judge, case, check))
    judge.calls += 1
    try:
        check(function, leaves)
    except Exception as error:
        what = f"{call_text(judge.op, case)}: {type(error).__name__}: {error}"
        refused = isinstance(error, REFUSALS) and not isinstance(error, AutogradError)
        raise Finding(what, _program(judge, case, check), refused=refused) from error


def function_of(judge: Judge, case: Case) -> tuple[Callable[..., Any], list[Any]]:
    """Returns a case as a function of its floating tensors, and these."""
    made = Made(judge.subject, judge.op, case)
    tensor = judge.subject.tp.Tensor

    def put(value: Any, new: Iterator[Any]) -> Any:
        if isinstance(value, list):
            return [put(item, new) for item in value]
        return next(new) if isinstance(value, tensor) and value.dtype.is_inexact else value

    def function(*leaves: Any) -> Any:
        new = iter(leaves)
        assert judge.op.function is not None
        args = in_domain(judge.op, [put(value, new) for value in made.args])
        if made.written:
            args[0] = args[0].clone()
        return judge.op.function(*args, **{name: put(value, new) for name, value in made.kwargs.items()})

    leaves = [x.detach().requires_grad_() for x in made.tensors if x.dtype.is_inexact]
    try:
        function(*leaves)
    except Exception as error:
        refused = isinstance(error, REFUSALS)
        what = f"{call_text(judge.op, case)} raised {type(error).__name__} with inputs that require grad: {error}"
        raise Finding(what, _program(judge, case, gradcheck), refused=refused) from error
    return function, leaves


def _results(result: Any) -> list[Any]:
    results = result if isinstance(result, (tuple, list)) else (result,)
    return [one for one in results if one.dtype.is_inexact]


def _program(judge: Judge, case: Case, check: Callable[..., Any]) -> str:
    script = Script(judge.subject.device)
    call = script.call(judge.op, case)
    names = [f"x{i}" for i, given in enumerate(case.tensors) if by_name(given.dtype).is_inexact]
    if judge.op.schema.mutates:
        call = call.replace("x0.", "x0.clone().", 1)
    script.add(*(f"{name}.requires_grad_()" for name in names))
    script.add(f"print(tp.autograd.{check.__name__}(lambda {', '.join(names)}: {call}, [{', '.join(names)}]))")
    return script.text()


# ------------------------------------------------------------------------------------------------- without float64


def _against_cpu(subject: Subject, op: Operator, area: str) -> Iterator[Outcome]:
    judge, host = Judge(subject, op), Judge(Subject(CPU, seed=subject.seed), op)

    def check(case: Case) -> None:
        here, there = (_gradients(one, case, area == "second") for one in (judge, host))
        judge.calls += 1
        try:
            assert_close(here, there, rtol=RTOL, atol=ATOL, check_device=False)
        except AssertionError as error:
            what = f"{call_text(op, case)}: its gradient is not the cpu's: {error}"
            raise Finding(what, _program(judge, case, gradcheck)) from None

    cases = (case for case in on_samples(subject, op, "float32", area) if case.smooth)
    yield from over(judge, area, "float32", itertools.islice(cases, QUICK_CASES if subject.quick else None), check)


def _gradients(judge: Judge, case: Case, twice: bool) -> list[Any]:
    """Returns the gradients of a weighted sum of a case's results, or the gradients of those."""
    function, leaves = function_of(judge, case)
    if not leaves or not _results(function(*leaves)):  # bools or integers have no gradient
        raise Skip
    try:
        roots = [y for y in _results(function(*leaves)) if y.requires_grad]
        weights = [_weights(judge.subject, y) for y in roots]
        found = grad(roots, leaves, weights, create_graph=twice, allow_unused=True)
        if twice:
            again = [g for g in found if g is not None and g.requires_grad]
            found = grad(again, leaves, [_weights(judge.subject, g) for g in again], allow_unused=True) if again else ()
    except Exception as error:
        what = f"{call_text(judge.op, case)}: its gradient raised {type(error).__name__}: {error}"
        refused = isinstance(error, REFUSALS)
        raise Finding(what, _program(judge, case, gradcheck), refused=refused) from error
    return [None if g is None else g.detach().tolist() for g in found]


def _weights(subject: Subject, y: Any) -> Any:
    count = y.numel()
    given = Given(tuple(y.shape), [0.5 + 0.25 * (k % 7) for k in range(count)], "float32")
    return mapped(given, lambda one: one.build(subject.tp, subject.device)[0])
