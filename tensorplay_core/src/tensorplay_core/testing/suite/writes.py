"""What writes: in-place variants and ``out=``. The right elements, where they belong, and nothing else.

The tensor that is written to lies between other elements, which must stay; it is filled with what is no result, so a
kernel that writes nothing is found; and a call that cannot be must raise before it writes.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterator
from functools import partial
from random import Random
from typing import Any

from tensorplay_core.dispatch.operator import Operator
from tensorplay_core.errors import TensorPlayError
from tensorplay_core.testing.references import Array, reference
from tensorplay_core.testing.suite.calls import REFUSALS, Judge, Made, Skip, bits_of, over
from tensorplay_core.testing.suite.cases import Case, on_samples
from tensorplay_core.testing.suite.given import FILLER, LAYOUTS, Given
from tensorplay_core.testing.suite.outcome import Finding, Outcome
from tensorplay_core.testing.suite.program import Script, call_text, shown
from tensorplay_core.testing.suite.subject import Subject, inplace_of
from tensorplay_core.types.dtype import by_name

CATEGORY = {"b": 0, "u": 1, "i": 1, "f": 2, "c": 3}
"""A result may be written to a tensor of its own kind or of a later one."""


def inplace(subject: Subject, op: Operator) -> Iterator[Outcome]:
    """The in-place variant on every sample; it refuses those whose result does not fit into the first argument."""
    variant = inplace_of(op)
    assert variant is not None
    for dtype in subject.checked_dtypes:
        judge = Judge(subject, variant)
        judge.reference = reference(op.display_name)
        for outcome in over(
            judge,
            "inplace",
            dtype,
            on_samples(subject, op, dtype, "inplace"),
            partial(_in_place, judge),
        ):
            yield outcome._replace(operator=op.display_name)


def _in_place(judge: Judge, case: Case) -> None:
    target = case.args[0]
    results = judge.expected(case)
    if results is None or not isinstance(target, Given):
        raise Skip
    right = results[0]
    fits = right.shape == target.shape and _storable(right.dtype, target.dtype)
    alone = target.layout != "expanded" or target.plain
    if not (fits and alone):
        _refuses(judge, case)
        return
    right = right if right.dtype == target.dtype else _cast(right, target.dtype)
    assert judge.op.function is not None
    for words in ("", ", called again,"):
        made = Made(judge.subject, judge.op, case)
        result = judge.call(case, judge.op.function, made.args, made.kwargs)
        judge.compare(case, made.tensors[0], (right,), words=words)
        if result is not made.tensors[0]:
            judge.wrong(case, "gives another tensor than its first argument", words=words)
        judge.inputs(case, made, words, skip=1)
        _stays(judge, case, target, made.bases[0], words)
        judge.keep(case, result)


def _cast(right: Array, dtype: str) -> Array:
    return Array(right.shape, right.rounded().cast(dtype).data, dtype, right.slack)


def _storable(result: str, target: str) -> bool:
    return CATEGORY[by_name(result).kind] <= CATEGORY[by_name(target).kind]


def _refuses(judge: Judge, case: Case) -> None:
    """Makes a call that must raise before it writes."""
    made = Made(judge.subject, judge.op, case)
    assert judge.op.function is not None
    try:
        judge.op.function(*made.args, **made.kwargs)
    except TensorPlayError as error:
        judge.calls += 1
        if made.changed() is not None:
            judge.wrong(case, f"wrote to its input before it raised {type(error).__name__}")
        return
    except Exception as error:
        judge.wrong(case, f"raised {type(error).__name__}, which is not TensorPlay's: {error}")
    judge.wrong(case, "should raise: its result does not fit into the tensor that it writes to")


def _stays(judge: Judge, case: Case, target: Given, base: Any, words: str) -> None:
    """Looks at what lies between the elements of a tensor that was written to."""
    if target.plain or target.layout not in ("strided", "inner"):
        return
    host = base._type.api.to_host(base._array)
    between = host[1::2] if target.layout == "strided" else host[..., 1::2]
    wanted = True if by_name(target.dtype).is_bool else FILLER
    if not bool((between == wanted).all()):
        judge.wrong(case, "wrote between the elements of a tensor that is not contiguous", words=words)


# ----------------------------------------------------------------------------------------------------------- out=


def has_out(op: Operator) -> bool:
    """Whether an operator's function takes ``out=``."""
    return op.function is not None and "out" in inspect.signature(op.function).parameters


def out(subject: Subject, op: Operator) -> Iterator[Outcome]:
    """``out=`` on every sample, filled with what is no result, also where it is not contiguous."""
    for dtype in subject.checked_dtypes:
        judge = Judge(subject, op)
        rng = subject.rng(op.display_name, dtype, "out layouts")
        yield from over(
            judge, "out", dtype, on_samples(subject, op, dtype, "out"),
            partial(_out, judge, rng),
        )  # fmt: skip


def _out(judge: Judge, rng: Random, case: Case) -> None:
    results = judge.expected(case)
    if results is None or len(results) != 1:
        raise Skip
    right, function = results[0], judge.op.function
    assert function is not None
    given = Given(right.shape, _poison(right), right.dtype, rng.choice(LAYOUTS))
    for words in (" with out=", " with out=, called again,"):
        made, target = Made(judge.subject, judge.op, case), made_of(judge, given)
        result = _calls_out(judge, case, made, target[0], given)
        try:
            judge.compare(case, target[0], (right,), words=words)
            if result is not target[0]:
                judge.wrong(case, "gives another tensor than out", words=words)
            judge.inputs(case, made, words)
            _stays(judge, case, given, target[1], words)
        except Finding as finding:
            wanted = f"should be {shown(right.rounded().data)}"
            raise Finding(finding.what, out_program(judge, case, given, wanted)) from None
    _wrong_out(judge, case, right)


def _calls_out(judge: Judge, case: Case, made: Made, target: Any, given: Given) -> Any:
    assert judge.op.function is not None
    try:
        return judge.op.function(*made.args, **made.kwargs, out=target)
    except Exception as error:
        what = f"{call_text(judge.op, case)} with out= raised {type(error).__name__}: {error}"
        refused = isinstance(error, REFUSALS)
        raise Finding(what, out_program(judge, case, given), refused=refused) from error


def _wrong_out(judge: Judge, case: Case, right: Array) -> None:
    """Gives an ``out`` of another shape: that is an error, and nothing is written."""
    shape = (*right.shape, 2)
    given = Given(shape, [_poison_of(right.dtype)] * math.prod(shape), right.dtype)
    made, target = Made(judge.subject, judge.op, case), made_of(judge, given)[0]
    before = bits_of(target)
    assert judge.op.function is not None
    try:
        judge.op.function(*made.args, **made.kwargs, out=target)
    except TensorPlayError:
        if bits_of(target) == before:
            return
    except Exception as error:
        judge.wrong(
            case, f"with an out of shape {shape} raised {type(error).__name__}, which is not TensorPlay's: {error}"
        )
    what = f"{call_text(judge.op, case)} with an out of shape {shape} must raise, and write nothing before"
    raise Finding(what, out_program(judge, case, given))


def made_of(judge: Judge, given: Given) -> tuple[Any, Any]:
    """Makes a tensor that is written to, and what it lies in."""
    try:
        return given.build(judge.subject.tp, judge.subject.device)
    except NotImplementedError as error:
        raise Skip from error


def _poison(right: Array) -> list[Any]:
    return [_poison_of(right.dtype)] * len(right.data)


def _poison_of(dtype: str) -> Any:
    kind = by_name(dtype).kind
    return {"b": True, "f": math.nan, "c": complex(math.nan, math.nan)}.get(kind, FILLER)


def out_program(judge: Judge, case: Case, given: Given, wanted: str = "") -> str:
    """Returns a program that shows a call with ``out=``."""
    script = Script(judge.subject.device)
    script.add(f"out = {given.text(judge.subject.device)}")
    call = script.call(judge.op, case, "out=out")
    script.add(call, "print(out)", *([f"# {wanted}"] if wanted else []))
    return script.text()
