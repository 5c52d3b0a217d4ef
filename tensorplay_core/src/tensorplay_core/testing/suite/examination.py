"""The whole examination of one call: called again and on the slow path, with other numbers, and whose memory is whose.

A kernel is right for its inputs as they are when it is called, and its result is nobody else's. So inputs are given
other numbers where they lie, which shows a result that was kept by the array's identity or computed too late; inputs
and results are overwritten, which shows memory that two of them share.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

from tensorplay_core.errors import KernelMissing, TensorPlayError
from tensorplay_core.ops.arguments import plan_of
from tensorplay_core.ops.kernels import COUNTS
from tensorplay_core.ops.shapes import RULES, Shaped
from tensorplay_core.testing.references import Array
from tensorplay_core.testing.sample_specs import Named
from tensorplay_core.testing.slow_path import force_slow_path
from tensorplay_core.testing.suite.calls import Judge, Made, bits_of
from tensorplay_core.testing.suite.cases import Case, renewed
from tensorplay_core.testing.suite.given import Given
from tensorplay_core.testing.suite.outcome import Finding
from tensorplay_core.testing.suite.program import Script
from tensorplay_core.types.dtype import by_name

POISONS = (1, 0)
"""What memory is overwritten with, one after the other: whatever an element was, it changes."""


def examine(judge: Judge, case: Case) -> None:
    """Makes a call three times, so that the fast path's slot is filled, used and avoided, and judges all of it.

    Then other numbers of the same shapes are given, which must not change the results before; inputs and results are
    overwritten, which shows those that share memory.

    Raises:
        Finding: something is wrong.
        Skip: the device cannot be asked.
    """
    made = Made(judge.subject, judge.op, case)
    expected = judge.expected(case)
    function = judge.op.function
    assert function is not None
    if expected is None:
        _without_reference(judge, case, made)
        return
    written = bool(plan_of(judge.op).written)
    results: list[Any] = []
    for how, words in (("", ""), ("again", ", called again,"), ("slow", ", on the slow path,")):
        if written and results:
            made = Made(judge.subject, judge.op, case)
        with force_slow_path() if how == "slow" else nullcontext():
            result = judge.call(case, function, made.args, made.kwargs, how)
        judge.compare(case, result, expected, how, words)
        judge.inputs(case, made, words, skip=1 if written else 0)
        if not (written or plan_of(judge.op).view):
            laid(judge, case, made, result)
        results.append(result)
    if judge.subject.mutable and not written and not plan_of(judge.op).view:
        apart(judge, case, made, results)
        results = results[1:]  # the first has been overwritten
    judge.keep(case, *results)
    other = renewed(case)
    made, expected = elsewhere(judge, case, other, made, expected), judge.expected(other)
    assert expected is not None
    result = judge.call(other, function, made.args, made.kwargs)
    judge.compare(other, result, expected, words=", after the same call with other numbers,")
    judge.again()
    memory(judge, other, made, result)


def laid(judge: Judge, case: Case, made: Made, result: Any) -> None:
    """Looks at how results lie in memory: where every input is contiguous, those of a kernel lie as those of Meta do.

    A Composite operator lays its result out as its last step does, of operands that need not be contiguous.

    Raises:
        Finding: one has other strides, or is a part of something larger, which stays in memory as long as it does.
    """
    results = result if isinstance(result, tuple) else (result,)
    for i, one in enumerate(results):
        array, owner = one._array, getattr(one._array, "base", None)
        if not one.numel() or any(one is x for x in made.tensors):
            continue  # the very input, as in elsewhere
        if owner is not None and getattr(owner, "nbytes", 0) > array.nbytes:
            what = f"gives {array.nbytes} bytes that keep {owner.nbytes} in memory: the result is a part of something"
            judge.wrong(case, f"{what} larger, and has to be a copy")
        if not one.is_contiguous() and all(x.is_contiguous() for x in made.tensors) and judge.subject.kernel(judge.op):
            right = _strides_of_meta(judge, made, i)
            if right not in (None, one.stride()):
                what = f"gives a result of strides {one.stride()}, and Meta and FakeMode promise {right}"
                judge.wrong(case, f"{what} where all inputs are contiguous")


def _strides_of_meta(judge: Judge, made: Made, number: int) -> tuple[int, ...] | None:
    """Returns the strides of a result over tensors without data; None where they do not know it without."""

    def without_data(value: Any) -> Any:
        if isinstance(value, list):
            return [*map(without_data, value)]
        return value.to("meta") if isinstance(value, judge.subject.tp.Tensor) else value

    assert judge.op.function is not None
    kwargs = {name: without_data(value) for name, value in made.kwargs.items()}
    try:
        result = judge.op.function(*map(without_data, made.args), **kwargs)
    except TensorPlayError:
        return None
    return (result if isinstance(result, tuple) else (result,))[number].stride()  # type: ignore[no-any-return]


def elsewhere(judge: Judge, case: Case, other: Case, made: Made, expected: tuple[Array, ...]) -> Made:
    """Returns the inputs of a case of other numbers: where memory can be written to, the very inputs of the case.

    On the way a result is read that was computed before its inputs were written to.

    Raises:
        Finding: that result is not of the inputs as they were, or shares memory with them.
    """
    new = Made(judge.subject, judge.op, other)
    plan = plan_of(judge.op)
    if not judge.subject.mutable or plan.written or plan.view or not made.tensors:
        return new
    before = [(kept.tensor, kept.bits) for kept in judge.kept if kept.case is case]
    if any(tensor is x for tensor, _ in before for x in made.tensors):
        return new  # the very input, as conj gives of a real tensor; the dispatcher settles it, not the kernel
    assert judge.op.function is not None
    late = judge.call(case, judge.op.function, made.args, made.kwargs)
    try:
        for base, numbers in zip(made.bases, new.bases, strict=True):
            base.copy_(numbers)
    except TensorPlayError:
        return new
    if any(bits_of(tensor) != bits for tensor, bits in before):
        judge.wrong(case, SHARED)
    try:
        judge.compare(case, late, expected, words=", read after its inputs were written to,")
    except Finding as finding:
        raise Finding(finding.what, _written_program(judge, case, other)) from None
    made.before = made.bits()
    return made


def _written_program(judge: Judge, case: Case, other: Case) -> str:
    """Returns a program that writes other numbers into the inputs of a call before its result is read."""
    script = Script(judge.subject.device)
    call = script.call(judge.op, case)
    script.add(f"y = {call}")
    written = [f"x{i}" for i in range(script.made)]
    numbers = [script.name(given) for given in other.tensors[: script.made]]
    script.add(*(f"{x}.copy_({new})" for x, new in zip(written, numbers, strict=True)), "print(y)")
    return script.text()


SHARED = "gave a result that shares memory with an input: it changed when the input was written to"


def apart(judge: Judge, case: Case, made: Made, results: list[Any]) -> None:
    """Overwrites the first result of several calls, and looks at the other results and at the inputs.

    Raises:
        Finding: one changed with it, or the result cannot be written to.
    """
    pairs = zip(*(result if isinstance(result, tuple) else (result,) for result in results), strict=True)
    for one, *others in pairs:
        if not one.numel() or any(one is x for x in made.tensors):
            continue  # the very input, as in elsewhere
        before = [*map(bits_of, others)]
        for poison in POISONS:
            try:
                one.fill_(bool(poison) if one.dtype.is_bool else poison)
            except KernelMissing:
                return
            except TensorPlayError as error:
                judge.wrong(case, f"gave a result that cannot be written to: {str(error).partition(chr(10))[0]}")
            if [*map(bits_of, others)] != before:
                what = "gave two results that share memory: one changed when the other was written to"
                judge.wrong(case, what, "again")
            if made.changed() is not None:
                judge.wrong(case, "gave a result that shares memory with an input: writing to it changed the input")


def memory(judge: Judge, case: Case, made: Made, result: Any) -> None:
    """Overwrites the inputs of a call and looks whether its result changed.

    Raises:
        Finding: it did, and the schema does not say that it shares memory; or it did not, and it says so.
    """
    if not judge.subject.mutable or plan_of(judge.op).written:
        return
    results = [one for one in (result if isinstance(result, tuple) else (result,)) if one.numel()]
    if any(one is x for one in results for x in made.tensors):
        return  # the very input, as in elsewhere
    try:
        before = [*map(bits_of, results)]
        seen = []
        for poison in POISONS:
            made.overwrite(poison)
            seen.append([*map(bits_of, results)])
    except TensorPlayError:
        return
    shares = any(one != before for one in seen)
    view = plan_of(judge.op).view
    if shares and not view:
        judge.wrong(case, SHARED)
    if view and not shares and results and judge.subject.views and "may_copy" not in judge.op.tags:
        judge.wrong(case, "gave a copy: it did not change when its input was written to, and it should be a view")


def _without_reference(judge: Judge, case: Case, made: Made) -> None:
    """Judges what is promised of results that are not a function of the arguments: all but their values."""
    assert judge.op.function is not None
    size, dtype = _promised(judge, case)
    results: list[Any] = []
    for how in ("", "again"):
        results.append(judge.call(case, judge.op.function, made.args, made.kwargs, how))
        judge.calls += 1
        judge.like(case, results[-1], Array(size, [], dtype), how)
    if judge.subject.mutable:
        apart(judge, case, made, results)


def _promised(judge: Judge, case: Case) -> tuple[tuple[int, ...], str]:
    """Returns the shape and the dtype that an operator's rules promise of its only result."""
    op, named = judge.op, case.kwargs.get("dtype")
    seen = [Shaped(one.shape, by_name(one.dtype)) if isinstance(one, Given) else one for one in case.args]
    size: Any = RULES[op.shape or ""](op.display_name, *seen)
    if isinstance(named, Named):
        return size, named.name
    if op.promote == "index" or op.name in COUNTS:
        return size, judge.subject.integer
    return size, case.tensors[0].dtype if case.tensors else "float32"
