"""What the suite says about a backend: one outcome for each operator, area and dtype, and the gaps that were declared.

Both faces of the suite, pytest's and the command's, read these; nothing here knows an operator or a device.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from tensorplay_core.errors import ArgumentError, did_you_mean

OK, FAILED, GAP, NOTHING = "ok", "failed", "gap", "n/a"

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
    "plugin": "described, loaded, probed, unloaded and loaded again, also by two threads at once",
    "transfers": "to and from the cpu bit for bit, between dtypes",
    "random": "range, mean, seed and state of random numbers",
    "pickle": "pickling, copy and deepcopy",
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
    """What a backend declares not to do. An operator that works although it is declared here fails the suite.

    A key is an operator (``"softmax"``), an operator with a dtype (``"matmul[int32]"``), an operator with an area
    (``"add:out"``), or a check of the device (``"random"``). A value is the reason, for whoever reads the table.

    Attributes:
        not_implemented: nobody has written it; a kernel is welcome.
        not_yet: it is planned.
        never: the device cannot do it.
        accuracy: how many times the usual error budgets the device needs, 1 to ``LOOSEST``; the report says it.
        flushes: the device makes 0 of numbers below the smallest normal one.

    Example:
        >>> Profile(never={"matmul[int64]": "the device has no 64-bit integers"}).gaps
        {'matmul[int64]': 'never: the device has no 64-bit integers'}
    """

    not_implemented: Mapping[str, str] = field(default_factory=dict)
    not_yet: Mapping[str, str] = field(default_factory=dict)
    never: Mapping[str, str] = field(default_factory=dict)
    accuracy: float = 1.0
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

    def check_names(self, operators: list[str]) -> None:
        """Refuses gaps of operators, dtypes and areas that do not exist, and budgets that are none.

        Raises:
            ArgumentError: naming the nearest that do.
        """
        from tensorplay_core.types.dtype import by_name

        if not 1 <= self.accuracy <= LOOSEST:
            raise ArgumentError(f"Profile: accuracy is a factor of 1 to {LOOSEST}, not {self.accuracy!r}")
        for key in self.gaps:
            operator, dtype, area = parts(key)
            known = [*operators, *DEVICE_CHECKS]
            if operator not in known:
                raise ArgumentError(f"Profile: there is no operator {operator!r}.{did_you_mean(operator, known)}")
            if area and area not in AREAS:
                raise ArgumentError(f"Profile: {key!r}: the areas are {', '.join(AREAS)}.{did_you_mean(area, AREAS)}")
            if dtype:
                by_name(dtype)


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
