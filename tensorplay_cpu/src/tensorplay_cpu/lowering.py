"""From a program with dtypes to calls of NumPy: which function does a step, and where its result goes.

Two forms are made of a program. In the small one every step is the kernel of its operator, and the calls are as few as
can be. In the form for blocks a step is made of ufuncs that write into registers, which are used again as soon as what
they hold is not needed any more; the last one writes into the result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from tensorplay_composite.arrays import Kernel
from tensorplay_core.ops.program_types import TypedProgram, TypedStep, Use, Weak
from tensorplay_core.types.dtype import DType
from tensorplay_core.types.program import Operand


class Instruction(NamedTuple):
    """One call.

    Attributes:
        name: what its result is called.
        function: what computes it; None to copy the only operand, with a cast where the dtypes differ.
        operands: names of inputs, numbers or earlier results.
        dtype: the result's.
        writes: the function takes, last, an array to write to, which may be one of its operands.
    """

    name: str
    function: Kernel | None
    operands: tuple[str, ...]
    dtype: DType
    writes: bool


class Names:
    """Python names for everything in a program, made of numbers alone: none of the program's own is used.

    Inputs are ``a0``, ``a1`` …, half precisions among them ``w0`` … once they are widened, numbers ``c0`` …, steps and
    their parts ``t0`` …

    Args:
        inputs: the program's names of its tensors.
        wide: those that come in half precision.

    Attributes:
        constants: the numbers, by name; one that is not weak is passed as it is.
    """

    def __init__(self, inputs: Sequence[str], wide: Sequence[str]) -> None:
        self.constants: dict[str, Weak | Operand] = {}
        self._numbers: dict[Any, str] = {}
        self._of = {name: f"w{n}" if name in wide else f"a{n}" for n, name in enumerate(inputs)}
        self._steps = 0
        self.widened = [(f"w{n}", f"a{n}") for n, name in enumerate(inputs) if name in wide]

    def __getitem__(self, name: str) -> str:
        """Returns the name of an input or of a step."""
        if name not in self._of:
            self._of[name] = self.part()
        return self._of[name]

    def part(self) -> str:
        """Returns a new name, for a part of a step."""
        self._steps += 1
        return f"t{self._steps - 1}"

    def constant(self, number: Weak | Operand) -> str:
        """Returns the name of a number; one that occurs twice is one constant."""
        key = (repr(number.source), number.dtype) if isinstance(number, Weak) else (repr(number), None)
        if key not in self._numbers:
            name = self._numbers[key] = f"c{len(self._numbers)}"
            self.constants[name] = number
        return self._numbers[key]

    def literal(self, value: float, dtype: DType) -> str:
        """Returns the name of a number that a step is made with."""
        return self.constant(Weak(value, value, dtype))


# ----------------------------------------------------------------------------------------------------------- the forms


def lower(program: TypedProgram, kernels: Mapping[str, Kernel], names: Names, *, blocks: bool) -> list[Instruction]:
    """Returns the instructions of a program.

    Args:
        program: the program.
        kernels: the CPU's kernels, by the operator's name.
        names: gives everything its name.
        blocks: in the form for blocks, where a step may be several instructions that write into registers.
    """
    found = [Instruction(name, None, (raw,), program.compute, True) for name, raw in names.widened]
    for step in program.steps:
        kernel = kernels[step.operator]
        ufunc = isinstance(kernel, np.ufunc)
        operands = _operands(step, program, names, found, mixes=ufunc)
        expand = EXPANDED.get(step.operator) if blocks else None
        parts = None if expand is None else expand(step, operands, names)
        found += parts or [Instruction(names[step.name], kernel, operands, step.result, blocks and ufunc)]
    return found


def _operands(
    step: TypedStep, program: TypedProgram, names: Names, found: list[Instruction], *, mixes: bool
) -> tuple[str, ...]:
    """Returns the names of a step's operands, after adding the casts that they need."""
    operands = []
    arrays = [o for o in step.operands if isinstance(o, Use | Weak)]
    has = [program.dtypes[o.name] if isinstance(o, Use) else o.dtype for o in arrays]
    for operand in step.operands:
        if not isinstance(operand, Use):
            operands.append(names.constant(operand))
            continue
        dtype, name = program.dtypes[operand.name], names[operand.name]
        # A ufunc of several operands takes bool beside the dtype that it computes in.
        if dtype is not operand.dtype and not (mixes and dtype.is_bool and step.compute in has):
            found.append(Instruction(cast := names.part(), None, (name,), operand.dtype, True))
            name = cast
        operands.append(name)
    return tuple(operands)


def _sigmoid(step: TypedStep, operands: tuple[str, ...], names: Names) -> list[Instruction] | None:
    """max(e, x >= 0) / (1 + e) with e = exp(-|x|), as the CPU's kernel of sigmoid computes it."""
    (x,), dtype = operands, step.compute
    if not dtype.is_floating_point:
        return None
    size, below, e, right, top, total = (names.part() for _ in range(6))
    return [
        Instruction(size, np.absolute, (x,), dtype, True),
        Instruction(below, np.negative, (size,), dtype, True),
        Instruction(e, np.exp, (below,), dtype, True),
        Instruction(right, np.greater_equal, (x, names.literal(0.0, dtype)), dtype, True),
        Instruction(top, np.maximum, (e, right), dtype, True),
        Instruction(total, np.add, (e, names.literal(1.0, dtype)), dtype, True),
        Instruction(names[step.name], np.divide, (top, total), dtype, True),
    ]


def _relu(step: TypedStep, operands: tuple[str, ...], names: Names) -> list[Instruction] | None:
    if step.compute.is_complex or step.compute.is_bool:
        return None
    zero = names.literal(0, step.compute)
    return [Instruction(names[step.name], np.maximum, (*operands, zero), step.result, True)]


def _sgn(step: TypedStep, operands: tuple[str, ...], names: Names) -> list[Instruction] | None:
    if step.compute.is_complex or step.compute.is_bool:
        return None
    return [Instruction(names[step.name], np.sign, operands, step.result, True)]


def _pow(step: TypedStep, operands: tuple[str, ...], names: Names) -> list[Instruction] | None:
    if not step.compute.is_floating_point:
        return None
    exponent = step.operands[1]
    if isinstance(exponent, Weak) and not isinstance(exponent.source, str) and exponent.value == 2:
        return [Instruction(names[step.name], np.multiply, (operands[0], operands[0]), step.result, True)]
    return [Instruction(names[step.name], np.power, operands, step.result, True)]


def _where(step: TypedStep, operands: tuple[str, ...], names: Names) -> list[Instruction] | None:
    if step.compute.itemsize not in _BITS:
        return None
    condition, a, b = operands
    if _is_zero(step.operands[1]):
        return [Instruction(names[step.name], zero_where, (condition, b), step.result, True)]
    if _is_zero(step.operands[2]):
        return [Instruction(names[step.name], zero_elsewhere, (condition, a), step.result, True)]
    return [Instruction(names[step.name], choose, operands, step.result, True)]


def _is_zero(operand: Use | Weak | Operand) -> bool:
    """Whether an operand is a literal whose bits are all zero, which -0.0 is not."""
    return isinstance(operand, Weak) and not isinstance(operand.source, str) and str(operand.value) in _ZEROS


EXPANDED: dict[str, Callable[[TypedStep, tuple[str, ...], Names], list[Instruction] | None]] = {
    "sigmoid": _sigmoid,
    "relu": _relu,
    "sgn": _sgn,
    "pow": _pow,
    "where": _where,
}
"""Operators whose kernel allocates its result, and what writes into registers instead; None where nothing does."""

_ZEROS = ("0", "0.0", "False", "0j")
_BITS: dict[int, Any] = {1: np.dtype("int8"), 2: np.dtype("int16"), 4: np.dtype("int32"), 8: np.dtype("int64")}


_ONE = np.ones((), _BITS[1])


def choose(condition: Any, a: Any, b: Any, out: Any) -> Any:
    """``where`` with bits: b ^ ((a ^ b) & mask), four times as fast as ``np.where`` where the condition is random."""
    bits = _BITS[out.itemsize]
    b = b.view(bits)
    mask = np.empty(out.shape, bits)
    np.negative(condition.view(_BITS[1]), mask)
    np.bitwise_and(np.bitwise_xor(a.view(bits), b), mask, mask)
    return np.bitwise_xor(mask, b, out.view(bits))


def zero_where(condition: Any, b: Any, out: Any) -> Any:
    """``where(condition, 0, b)`` with bits: b & mask."""
    bits = _BITS[out.itemsize]
    mask = np.empty(out.shape, bits)
    np.subtract(condition.view(_BITS[1]), _ONE, mask)
    return np.bitwise_and(mask, b.view(bits), out.view(bits))


def zero_elsewhere(condition: Any, a: Any, out: Any) -> Any:
    """``where(condition, a, 0)`` with bits: a & mask."""
    bits = _BITS[out.itemsize]
    mask = np.empty(out.shape, bits)
    np.negative(condition.view(_BITS[1]), mask)
    return np.bitwise_and(mask, a.view(bits), out.view(bits))


# ----------------------------------------------------------------------------------------------------------- registers


class Line(NamedTuple):
    """An instruction in its place.

    Attributes:
        function: as the instruction's.
        operands: the names that are read.
        target: where the result goes: a register, a result, or else a name for memory of its own.
        writes: the function writes into its target itself.
    """

    function: Kernel | None
    operands: tuple[str, ...]
    target: str
    writes: bool


def place(
    instructions: list[Instruction], results: Sequence[str], returned: Sequence[DType]
) -> tuple[list[Line], list[DType]]:
    """Gives every instruction a register; one is free again as soon as what it holds was read for the last time.

    Args:
        instructions: the program, each of which is needed.
        results: the names of its results, which go to the arrays ``o0``, ``o1`` …
        returned: the dtypes of these arrays.

    Returns:
        The lines, and the dtypes of the registers ``r0``, ``r1`` …
    """
    last_read = {name: i for i, ins in enumerate(instructions) for name in ins.operands}
    last_read.update(dict.fromkeys(results, len(instructions)))
    places: dict[str, str] = {}
    registers: dict[str, DType] = {}
    free: dict[DType, list[str]] = {}
    if len(results) == 1:
        free[returned[0]] = ["o0"]  # the result's own memory is a register until the last instruction
    lines = []
    for i, ins in enumerate(instructions):
        operands = tuple([places.get(name, name) for name in ins.operands])
        for name in sorted(set(ins.operands)):
            if last_read[name] == i and (held := places.get(name)) in (*registers, "o0"):
                free.setdefault(registers.get(held, returned[0]), []).append(held)
        goes_to = results.index(ins.name) if ins.name in results else None
        if goes_to is not None and returned[goes_to] is ins.dtype:
            target = f"o{goes_to}"
        elif ins.writes:
            target = spare.pop() if (spare := free.get(ins.dtype)) else f"r{len(registers)}"
            if target.startswith("r"):
                registers[target] = ins.dtype
        else:
            target = ins.name
        places[ins.name] = target
        lines.append(Line(ins.function, operands, target, ins.writes))
    for i, name in enumerate(results):
        if (held := places.get(name, name)) != f"o{i}":
            lines.append(Line(None, (held,), f"o{i}", True))
    return lines, list(registers.values())
