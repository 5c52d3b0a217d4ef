"""What the suite says about a backend: one outcome for each operator, area and dtype, and the gaps that were declared.

Both faces of the suite, pytest's and the command's, read these; nothing here knows an operator or a device.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from tensorplay_core.errors import ArgumentError, did_you_mean, fix

OK, FAILED, GAP, NOTHING = "ok", "failed", "gap", "n/a"

IDLE = fix("take it out of the profile.")
WHOLE = fix("declare it by its name alone.")
LOOSEST = 64
"""The largest factor of error budgets that a profile may ask for: beyond it, wrong results would pass."""

AREAS: dict[str, str] = {
    "forward": "results on samples of every dtype against the reference, repeated, on both paths",
    "layouts": "fresh random inputs of several sizes that are not contiguous",
    "large": "inputs of more than 2**17 elements",
    "gradient": "gradients against finite differences, or the cpu's",
    "second": "gradients of gradients",
    "inplace": "the variant that writes into its first argument",
    "out": "the variant that writes into out=",
    "errors": "bad calls raise before anything is written",
    "threads": "the same calls in two threads",
}
"""The areas that an operator is checked in, and what each is about."""

DEVICE_CHECKS: dict[str, str] = {
    "plugin": "described, loaded, probed, unloaded and loaded again, by two threads at once, under warning filters",
    "transfers": "to and from the cpu bit for bit, between dtypes; what fits no dtype",
    "random": "range, distribution, resolution, seed and state of random numbers",
    "pickle": "pickling, copy and deepcopy",
    "memory": "hundreds of calls with different numbers keep none of them",
    "views": "writes through views that overlap, and those that must be refused",
    "formulas": "what its emitter makes of formulas that the contract has not",
}
"""What is checked of a device apart from its operators."""


class Outcome(NamedTuple):
    """What one check found.

    Attributes:
        operator: the operator, or the device's check.
        area: one of ``AREAS``, or "device".
        status: "ok", "failed", "gap" (it was declared) or "n/a" (there is nothing to check).
        dtype: the dtype that was checked; empty where there are several.
        calls: how many calls were compared.
        what: what is wrong, or the reason of the gap.
        program: a short Python program that shows it.
        refused: it failed because the backend refused the call, rather than by a wrong result.
    """

    operator: str
    area: str
    status: str
    dtype: str = ""
    calls: int = 0
    what: str = ""
    program: str = ""
    refused: bool = False

    def as_dict(self) -> dict[str, object]:
        """Returns plain values, for ``--json``."""
        return {name: value for name, value in self._asdict().items() if value not in ("", False) or name == "operator"}


class Finding(Exception):
    """Something that is wrong, found in the middle of a check.

    Attributes:
        what: what is wrong.
        program: a program that shows it.
        refused: the backend refused the call.
    """

    def __init__(self, what: str, program: str = "", *, refused: bool = False) -> None:
        """See the class."""
        super().__init__(what)
        self.what, self.program, self.refused = what, program, refused


@dataclass(frozen=True)
class Profile:
    """What a backend declares not to do. What works although it is declared fails the suite, and so does an idle gap.

    A gap is idle where nothing is checked that falls under it, such as one in a dtype that the operator does not take.

    A key is an operator (``"softmax"``), an operator with a dtype (``"matmul[int32]"``), an operator with an area
    (``"add:out"``), or a check of the device (``"random"``). A value is the reason, for whoever reads the table.

    Attributes:
        not_implemented: nobody has written it; a kernel is welcome.
        not_yet: it is planned.
        never: the device cannot do it.
        accuracy: how many times the usual error budgets the device needs, 1 to ``LOOSEST``, in all operators or by
            the operator's name; the report says it.
        flushes: the device makes 0 of numbers below the smallest normal one.

    Example:
        >>> Profile(never={"matmul[int64]": "the library multiplies no matrices of integers"}).gaps
        {'matmul[int64]': 'never: the library multiplies no matrices of integers'}
    """

    not_implemented: Mapping[str, str] = field(default_factory=dict)
    not_yet: Mapping[str, str] = field(default_factory=dict)
    never: Mapping[str, str] = field(default_factory=dict)
    accuracy: float | Mapping[str, float] = 1.0
    flushes: bool = False

    @property
    def gaps(self) -> dict[str, str]:
        """Each key with its kind and reason.

        Raises:
            ArgumentError: a key is declared twice, or without a reason.
        """
        found: dict[str, str] = {}
        for kind, declared in (
            ("not implemented", self.not_implemented), ("not yet", self.not_yet), ("never", self.never),
        ):  # fmt: skip
            for key, reason in declared.items():
                if key in found:
                    raise ArgumentError(f"Profile: {key!r} is declared twice: {found[key]}; {kind}: {reason}")
                if not isinstance(reason, str) or not reason.strip():
                    raise ArgumentError(f"Profile: the gap {key!r} ({kind}) needs a reason, a text for a reader")
                found[key] = f"{kind}: {reason}"
        return found

    def factor(self, operator: str) -> float:
        """Returns how many times the usual error budgets an operator may use, and its in-place variant with it.

        Example:
            >>> profile = Profile(accuracy={"div": 1.5})
            >>> profile.factor("div"), profile.factor("div_"), profile.factor("add")
            (1.5, 1.5, 1.0)
        """
        if not isinstance(self.accuracy, Mapping):
            return self.accuracy
        name, dot, overload = operator.partition(".")
        return self.accuracy.get(operator, self.accuracy.get(f"{name.removesuffix('_')}{dot}{overload}", 1.0))

    @property
    def lesser(self) -> str:
        """What is declared of the accuracy, in words; empty where that is the usual one."""
        factors = self.accuracy if isinstance(self.accuracy, Mapping) else {"": self.accuracy}
        said = [f"{n:g} times the usual errors{name and f' of {name}'}" for name, n in factors.items() if n > 1]
        return " and ".join(said + ["0 for numbers below the smallest normal one"] * self.flushes)

    def check_names(self, operators: list[str], dtypes: Collection[str] | None = None) -> None:
        """Refuses gaps of operators, dtypes and areas that do not exist or are not checked, and budgets that are none.

        Args:
            operators: the names that there are.
            dtypes: those of the device; None takes every dtype for one of them.

        Raises:
            ArgumentError: naming the nearest that do.
        """
        from tensorplay_core.types.dtype import by_name

        factors = self.accuracy if isinstance(self.accuracy, Mapping) else {"": self.accuracy}
        for operator, factor in factors.items():
            if operator and operator not in operators:
                raise ArgumentError(f"Profile: there is no operator {operator!r}.{did_you_mean(operator, operators)}")
            if not 1 <= factor <= LOOSEST:
                raise ArgumentError(f"Profile: accuracy is a factor of 1 to {LOOSEST}, not {factor!r}")
        for key in self.gaps:
            operator, dtype, area = parts(key)
            known = [*operators, *DEVICE_CHECKS]
            if operator not in known:
                raise ArgumentError(f"Profile: there is no operator {operator!r}.{did_you_mean(operator, known)}")
            if area and area not in AREAS:
                raise ArgumentError(f"Profile: {key!r}: the areas are {', '.join(AREAS)}.{did_you_mean(area, AREAS)}")
            if dtype and by_name(dtype).name not in ((dtype,) if dtypes is None else dtypes):
                raise ArgumentError(f"Profile: {key!r}: the device has no {dtype}, so nothing is checked in it" + IDLE)
            if area == "errors":
                raise ArgumentError(f"Profile: {key!r}: a bad call must raise, whatever a device lacks" + IDLE)
            if operator in DEVICE_CHECKS and key != operator:
                raise ArgumentError(f"Profile: {key!r}: a check of the device has no dtypes and areas" + WHOLE)


def parts(key: str) -> tuple[str, str, str]:
    """Returns the operator, the dtype and the area of a gap's key; empty texts where it names none.

    Example:
        >>> parts("matmul[int32]"), parts("max.dim:out")
        (('matmul', 'int32', ''), ('max.dim', '', 'out'))
    """
    rest, _, area = key.partition(":")
    operator, _, dtype = rest.removesuffix("]").partition("[")
    return operator, dtype, area


class Gaps:
    """Sets outcomes against the gaps that were declared, and tells at the end which of those work.

    Args:
        profile: the declared gaps.
    """

    def __init__(self, profile: Profile) -> None:
        """See the class."""
        self.declared = profile.gaps

    def of(self, outcome: Outcome) -> str | None:
        """Returns the key of the gap that an outcome falls under, or None."""
        for key in self.declared:
            operator, dtype, area = parts(key)
            if operator != outcome.operator or (dtype and dtype != outcome.dtype):
                continue
            if not area or area == outcome.area:
                return key
        return None

    def whole(self, operator: str) -> bool:
        """Whether an operator is declared as a gap in every dtype and area."""
        return operator in self.declared

    def judge(self, outcome: Outcome) -> Iterator[Outcome]:
        """Yields an outcome as it is with the gaps: a refusal that was declared is a gap, a success is a failure."""
        key = self.of(outcome)
        if key is None or outcome.status == NOTHING or outcome.area == "errors":
            yield outcome
        elif outcome.status == OK:
            what = f"it is declared as a gap ({key!r}: {self.declared[key]}), and it works: take it out of the profile"
            yield outcome._replace(status=FAILED, what=what)
        elif outcome.refused:
            yield outcome._replace(status=GAP, what=self.declared[key], program="")
        else:
            what = f"{outcome.what}\nIt is declared as a gap ({key!r}), which must refuse rather than be wrong."
            yield outcome._replace(what=what)

    def idle(self, name: str, area: str, outcomes: Iterable[Outcome]) -> Iterator[Outcome]:
        """Yields a failure for each gap under which nothing fell in the area that must show it.

        Args:
            name: the operator, or the device's check.
            area: what was run: a gap without an area must show in "forward", one of a device's check in "device".
            outcomes: all that it gave.
        """
        checked = {outcome.dtype for outcome in outcomes if outcome.status != NOTHING}
        for key, said in self.declared.items():
            operator, dtype, of = parts(key)
            if operator != name or area not in ("device", of or "forward") or (dtype in checked if dtype else checked):
                continue
            what = f"it is declared as a gap ({key!r}: {said}), and there is nothing to check of it{IDLE}"
            yield Outcome(name, area, FAILED, dtype, what=what)
