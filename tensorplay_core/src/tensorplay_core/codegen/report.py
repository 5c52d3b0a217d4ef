"""What a contract gives and what it does not: the account that ``tensorplay codegen --report`` prints.

A variant that was asked for and left out, a function that somebody wrote by hand, an operator without a gradient: each
is listed with its reason, so that nothing is missing in silence.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import attrs

from tensorplay_core.codegen.context import CodegenContext
from tensorplay_core.codegen.contract import NativeFunction

RAISES = "works forward, raises on backward: it has no derivative record, and nothing says why"


@attrs.frozen
class Skipped:
    """A variant that is not emitted: what, of which operator, and why."""

    variant: str
    name: str
    operator: str
    reason: str


@attrs.frozen
class WithoutGradient:
    """An operator without a derivative.

    Attributes:
        operator: its name.
        reason: why it has none, in words.
        declared: whether the contract gives that reason; if not, a backward pass through it raises.
    """

    operator: str
    reason: str
    declared: bool


@attrs.frozen
class Report:
    """The account.

    Attributes:
        operators: how many records there are.
        inplace: how many in-place variants are made besides.
        skipped: variants that are not.
        handwritten: function to the file that has it.
        written, symbolic: how many derivatives come from records, and how many from ``math``.
        without: the operators that have none.
    """

    operators: int
    inplace: int
    skipped: tuple[Skipped, ...]
    handwritten: dict[str, str]
    written: int
    symbolic: int
    without: tuple[WithoutGradient, ...]

    def as_json(self) -> dict[str, Any]:
        """Returns plain values."""
        return attrs.asdict(self)


def report(context: CodegenContext) -> Report:
    """Returns the account of a contract."""
    contract = context.contract
    gradients = [d for f in contract.functions if (d := context.derivative(f)) is not None]
    without = [f for f in contract.functions if context.derivative(f) is None]
    return Report(
        operators=len(contract.functions),
        inplace=sum(f.inplace for f in contract.functions),
        skipped=tuple(Skipped(s.variant, s.name, s.function.base_name, s.reason) for s in context.skipped),
        handwritten={name: _file(context, module) for name, module in sorted(context.handwritten.items())},
        written=sum(not d.symbolic for d in gradients),
        symbolic=sum(d.symbolic for d in gradients),
        without=tuple(WithoutGradient(f.base_name, *_reason(context, f)) for f in without),
    )


def _file(context: CodegenContext, module: str) -> str:
    """Returns the file of a hand-written module, from the folder of its package on."""
    folder = context.ops if context.is_core else context.out
    return f"{folder.name}/{Path(*module.split('.')).name}.py"


def _reason(context: CodegenContext, function: NativeFunction) -> tuple[str, bool]:
    """Returns why an operator has no derivative, and whether the contract says so."""
    schema = function.schema
    record = context.contract.derivative_of(function)
    if record is not None and not any(record.output_differentiability):
        return f"no result has a gradient: output_differentiability at {_short(record.location)}", True
    if record is not None:
        return f"no input has a gradient: not_differentiable at {_short(record.location)}", True
    if function.composite == "implicit":
        return "composite: implicit, its gradient is that of the operators it is made of", True
    if not any(r.type.holds_tensors for r in schema.returns) and not schema.mutates:
        return "no result is a tensor", True
    if not schema.tensor_arguments:
        return "no input is a tensor", True
    if schema.mutates:
        written = ", ".join(schema.mutates)
        return f"it only writes, to {written}; a backward pass through it raises", True
    return RAISES, False


def _short(location: object) -> str:
    return Path(str(location)).name
