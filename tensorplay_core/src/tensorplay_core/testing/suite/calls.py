"""Making a call and judging it: its results against the reference, and everything that it must leave alone.

Nothing is taken on trust. Results are read back at once and again after later calls, so what is computed late, kept or
given out twice is found; inputs are compared bit for bit with what they were, with the memory between their elements.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from tensorplay_core.dispatch.operator import Operator
from tensorplay_core.errors import KernelMissing, TensorPlayError
from tensorplay_core.ops.arguments import plan_of
from tensorplay_core.testing.references import Array, Reference, reference
from tensorplay_core.testing.references.rounding import round_to
from tensorplay_core.testing.sample_specs import Named
from tensorplay_core.testing.suite.cases import Case
from tensorplay_core.testing.suite.given import Given, for_reference, literal
from tensorplay_core.testing.suite.outcome import FAILED, NOTHING, OK, Finding, Outcome
from tensorplay_core.testing.suite.program import call_text, program_of, shown
from tensorplay_core.testing.suite.subject import Subject

LIMIT = 2
"""After so many failures of one operator, area and dtype the next one is tried."""

REFUSALS = (TensorPlayError, NotImplementedError)
"""What a backend raises that says that it does not do something."""
ENDS = (KeyboardInterrupt, SystemExit, GeneratorExit)
"""What ends a run; all else is a finding, a panic of a library in Rust too, which is no ``Exception``."""


class Skip(Exception):
    """A case that this device cannot be asked for."""


class Made:
    """The tensors of a case on the device.

    Args:
        subject: the device.
        op: the operator.
        case: the call.

    Attributes:
        args, kwargs: what the operator is called with.
        tensors: the tensors among them.

    Raises:
        Skip: an input cannot be made, because an operator that makes it is missing; its own check says so.
    """

    def __init__(self, subject: Subject, op: Operator, case: Case) -> None:
        """Makes them."""
        self.subject, self.shared = subject, case.shared
        self.tensors, self.bases = [], []  # type: tuple[list[Any], list[Any]]
        try:
            self.args = tuple(self._make(value) for value in case.args)
            self.kwargs = {name: self._make(value) for name, value in case.kwargs.items()}
        except KernelMissing as error:
            raise Skip from error
        self.written = len(plan_of(op).written)
        self.before = self.bits()

    def _make(self, value: Any) -> Any:
        if isinstance(value, Given) and self.shared and self.tensors:
            return self.tensors[0]
        if isinstance(value, Given):
            tensor, base = value.build(self.subject.tp, self.subject.device)
            self.tensors.append(tensor)
            self.bases.append(base)
            return tensor
        if isinstance(value, Named):
            return value.build(self.subject.tp, self.subject.device)
        return [self._make(item) for item in value] if isinstance(value, list) else value

    def bits(self) -> list[bytes]:
        """Returns the whole memory of every tensor."""
        return [bits_of(base) for base in self.bases]

    def overwrite(self, value: int) -> None:
        """Fills all memory of every tensor."""
        for base in self.bases:
            base.fill_(bool(value) if base.dtype.is_bool else value)

    def changed(self, skip: int = 0) -> int | None:
        """Returns the number of a tensor that is not what it was, or None; the first ``skip`` may be."""
        for i, (now, before) in enumerate(zip(self.bits(), self.before, strict=True)):
            if i >= skip and now != before:
                return i
        return None


def bits_of(tensor: Any) -> bytes:
    """Returns a tensor's elements as bytes, so that NaN equals itself and 0.0 is not -0.0."""
    return tensor._type.api.to_host(tensor._array).tobytes()  # type: ignore[no-any-return]


class Kept(NamedTuple):
    """A result that is looked at again later."""

    case: Case
    tensor: Any
    bits: bytes


class Judge:
    """Judges the calls of one operator in one dtype.

    Args:
        subject: the device.
        op: the operator.

    Attributes:
        reference: what knows the right results; None for operators whose results are not a function of their arguments.
        kept: the results so far, for :meth:`again`.
        calls: how many calls were judged.
    """

    def __init__(self, subject: Subject, op: Operator) -> None:
        """See the class."""
        self.subject, self.op = subject, op
        self.reference: Reference | None = reference(op.display_name)
        self.kept: list[Kept] = []
        self.calls = 0

    def expected(self, case: Case) -> tuple[Array, ...] | None:
        """Returns the right results; None where they are not a function of the arguments.

        Raises:
            Skip: the device has not the dtype of a result.
        """
        if self.reference is None:
            if "random" in self.op.tags or self.op.name == "empty":
                return None
            raise Finding(f"{self.op.display_name}: there is no reference for it in tensorplay_core.testing.references")
        kwargs = {name: for_reference(value) for name, value in case.kwargs.items() if name != "device"}
        results = tuple(map(self._suited, self.reference(*map(for_reference, case.args), **kwargs)))
        if not self.subject.has(*(one.dtype for one in results)):
            raise Skip
        return results

    def _suited(self, one: Array) -> Array:
        """Returns a result as a device without int64 has it."""
        integer = self.subject.integer
        return one.cast(integer) if one.dtype == "int64" and integer != "int64" else one

    def call(self, case: Case, function: Callable[..., Any], args: Any, kwargs: Any, how: str = "") -> Any:
        """Calls a function; what it raises is a finding."""
        try:
            return function(*args, **kwargs)
        except ENDS:
            raise
        except BaseException as error:
            what = f"{call_text(self.op, case)} raised {type(error).__name__}: {error}"
            refused = isinstance(error, REFUSALS)
            program = program_of(self.op, case, self.subject.device, how)
            raise Finding(what, program, refused=refused) from error

    def compare(self, case: Case, result: Any, expected: tuple[Array, ...], how: str = "", words: str = "") -> None:
        """Compares the result of a call with what is right.

        Raises:
            Finding: it differs in number, class, device, dtype, shape or values.
        """
        self.calls += 1
        results = result if isinstance(result, tuple) else (result,)
        if not isinstance(results, tuple) or len(results) != len(expected):
            self.wrong(case, f"gives {type(result).__name__}, not {len(expected)} results", how, words)
        for i, (one, right) in enumerate(zip(results, expected, strict=True)):
            which = f" (result {i})" if len(expected) > 1 else ""
            self.like(case, one, right, how, words + which)
            assert self.reference is not None
            profile = self.subject.profile
            factor = profile.factor(self.op.display_name)
            wrong = self.reference.mismatches(Array.read(one), right, factor=factor, flush=profile.flushes)
            found = list(wrong)
            if found:
                first = found[0]
                count = len(right.data)
                many = f"; {len(found)} of {count} elements are wrong" if count > 1 else ""
                where = f"element {first.place} " if count > 1 else ""
                what = (
                    f"gives {literal(first.actual)} where {literal(first.expected)} is right: {where}is off by "
                    f"{first.error:.3g}, allowed {first.allowed:.3g}{many}"
                )
                self.wrong(case, what, how, words + which, right)

    def like(self, case: Case, one: Any, right: Array, how: str = "", words: str = "") -> None:
        """Compares all but the values of a result.

        Raises:
            Finding: class, device, dtype or shape is wrong.
        """
        if not isinstance(one, self.subject.tp.Tensor):
            self.wrong(case, f"gives {type(one).__name__}, not a Tensor", how, words)
        for what, found, wanted in (
            ("device", str(one.device), self.subject.place),
            ("dtype", one.dtype.name, right.dtype),
            ("shape", tuple(one.shape), tuple(right.shape)),
            ("own dtype on the device", self.subject.api.dtype_name(one._array), right.dtype),
            ("own shape on the device", tuple(one._array.shape), tuple(right.shape)),
        ):
            if found != wanted:
                self.wrong(case, f"gives a result of {what} {found}, and it should be {wanted}", how, words)
        if right.dtype == "bool" and right.data and not {*bits_of(one)} <= {0, 1}:
            self.wrong(
                case, "gives bools whose bytes are neither 0 nor 1: what computes with them goes wrong", how, words
            )

    def wrong(self, case: Case, what: str, how: str = "", words: str = "", right: Array | None = None) -> None:
        """Raises a finding about a call."""
        wanted = f"should be {shown(round_to(right.data, right.dtype))}" if right is not None else ""
        program = program_of(self.op, case, self.subject.device, how, wanted)
        raise Finding(f"{call_text(self.op, case)}{words} {what}", program)

    def keep(self, case: Case, *results: Any) -> None:
        """Remembers results, to be looked at after later calls."""
        for result in results:
            for one in result if isinstance(result, tuple) else (result,):
                self.kept.append(Kept(case, one, bits_of(one)))

    def again(self) -> None:
        """Looks at every result once more.

        Raises:
            Finding: one has changed since: its memory was given out twice, or it was not computed yet.
        """
        for case, tensor, before in self.kept:
            if bits_of(tensor) != before:
                what = "gave a result that changed when other calls were made: each call needs memory of its own"
                self.wrong(case, what, "again")

    def inputs(self, case: Case, made: Made, words: str = "", skip: int = 0) -> None:
        """Compares the inputs with what they were.

        Raises:
            Finding: one was written to.
        """
        i = made.changed(skip)
        if i is not None:
            self.wrong(case, f"wrote to its input number {i}, which the signature does not declare", words=words)


def over(judge: Judge, area: str, dtype: str, cases: Iterator[Case], check: Callable[[Case], Any]) -> Iterator[Outcome]:
    """Runs a check over cases; yields its failures, or that all is well, or that there was nothing to check.

    Args:
        judge: whose calls are counted, and whose results are looked at again at the end.
        area: the area.
        dtype: the dtype.
        cases: what to check.
        check: raises a :class:`Finding`, or :class:`Skip`.
    """
    name, failures = judge.op.display_name, 0

    def failed(finding: Finding) -> Outcome:
        return Outcome(name, area, FAILED, dtype, judge.calls, finding.what, finding.program, finding.refused)

    for case in cases:
        try:
            check(case)
        except Skip:
            continue
        except Finding as finding:
            failures += 1
            yield failed(finding)
            if failures == LIMIT:
                return
    try:
        judge.again()
    except Finding as finding:
        failures += 1
        yield failed(finding)
    if not failures:
        yield Outcome(name, area, OK if judge.calls else NOTHING, dtype, judge.calls)
