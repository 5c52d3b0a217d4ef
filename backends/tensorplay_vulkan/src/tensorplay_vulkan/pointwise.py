"""Pointwise operators: a program becomes one shader, however many steps it has.

An operator with a formula brings its program. One without is a program of one step, so both kinds run the same way.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

from tensorplay_core.errors import DTypeError, fix
from tensorplay_core.ops.program_types import TypedProgram, Weak, fitted, numbers_of, typed
from tensorplay_core.ops.shapes import broadcast_shapes
from tensorplay_core.ops.typing_rules import cache_key
from tensorplay_core.types.dtype import DType, by_name
from tensorplay_core.types.program import Program
from tensorplay_core.types.promotion import NOT_PROMOTED
from tensorplay_vulkan import wgsl
from tensorplay_vulkan.array import DTYPES, VulkanArray
from tensorplay_vulkan.elementwise import run
from tensorplay_vulkan.gpu import Gpu

KEPT = 64
"""How many plans a kernel keeps: numbers that change at every call must not fill the memory."""

BINARY = (
    *("add", "sub", "mul", "div", "pow", "maximum", "minimum"),
    *("eq", "ne", "lt", "le", "gt", "ge"),
    *("fmod", "remainder", "floor_divide", "atan2", "hypot", "logaddexp", "copysign", "clamp_min", "clamp_max"),
    *("bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_left_shift", "bitwise_right_shift"),
)
UNARY = (
    *("neg", "abs", "sgn", "conj", "real", "clone", "exp", "expm1", "log", "log1p"),
    *("sin", "cos", "sqrt", "tanh", "sigmoid", "relu"),
    *("floor", "ceil", "trunc", "round", "tan", "sinh", "cosh", "asin", "acos", "atan", "asinh", "acosh", "atanh"),
    *("exp2", "log2", "log10", "signbit", "isnan", "isinf", "isfinite", "bitwise_not"),
)
NAMES = {"pow": ("self", "exponent"), "where": ("condition", "self", "other")}


def word_of(value: Any, dtype: str) -> int:
    """Returns the word that holds a number of a dtype.

    Example:
        >>> word_of(True, "bool"), word_of(-1, "int32"), hex(word_of(1.0, "float32"))
        (1, 4294967295, '0x3f800000')
    """
    if dtype == "float32":
        return int(struct.unpack("<I", struct.pack("<f", value))[0])
    return int(value) & 0xFFFFFFFF


def kernels(gpu: Gpu) -> dict[str, Any]:
    """Returns a kernel for every pointwise operator that has none of its own formula."""
    made = {name: Pointwise(gpu, name, one_step(name, NAMES.get(name, ("self",)))) for name in UNARY}
    for name in BINARY:
        made[name] = Pointwise(gpu, name, one_step(name, NAMES.get(name, ("self", "other"))))
    made["where"] = Pointwise(gpu, "where", one_step("where", NAMES["where"]))
    return {name: named(name, kernel_of(made[name])) for name in made}


def named(name: str, kernel: Any) -> Any:
    """Gives a kernel the operator's name, for who reads a trace."""
    kernel.__name__ = kernel.__qualname__ = name
    return kernel


def one_step(operator: str, inputs: tuple[str, ...]) -> Program:
    """Returns the program that is one operator."""
    return Program(inputs, (), (), (), (("t0", operator, *inputs),), ("t0",))


def emitter(gpu: Gpu) -> Any:
    """Returns what ``m.emitter`` takes: a program becomes a kernel, unless it has more arrays than a shader can."""

    def emit(program: Program) -> Any:
        arrays = [name for name in program.inputs if name not in program.numbers]
        known = program.operators() <= wgsl.FLOAT.keys()
        if not known or not arrays or 1 + len(arrays) + len(program.results) > gpu.buffers:
            return None
        return kernel_of(Pointwise(gpu, "", program))

    emit.__qualname__ = "emitter"
    return emit


def kernel_of(pointwise: Pointwise) -> Any:
    """Returns the kernel with as many parameters as the program has inputs, so that its signature can be checked."""
    call = pointwise.call
    count, keywords = len(pointwise.program.inputs), pointwise.program.keywords
    if not keywords and count == 1:

        def unary(self: Any) -> Any:
            return call((self,), {})

        return unary
    if not keywords and count == 2:

        def binary(self: Any, other: Any) -> Any:
            return call((self, other), {})

        return binary

    if not keywords and count == 3:

        def ternary(first: Any, second: Any, third: Any) -> Any:
            return call((first, second, third), {})

        return ternary

    def kernel(*args: Any, **keywords: Any) -> Any:
        return call(args, keywords)

    return kernel


class Pointwise:
    """A program on this device: its plan for each dtype that it has met.

    Args:
        gpu: where it runs.
        name: the operator's, for messages.
        program: what is computed.
    """

    def __init__(self, gpu: Gpu, name: str, program: Program) -> None:
        self.gpu = gpu
        self.name = name
        self.program = program
        self._tensors = tuple(i for i, name in enumerate(program.inputs) if name not in program.numbers)
        promoted = [i for i in self._tensors if program.inputs[i] not in NOT_PROMOTED]
        self._first = (promoted or self._tensors)[0]
        self._plans: dict[Any, tuple[TypedProgram, Any]] = {}

    def call(self, args: tuple[Any, ...], keywords: Mapping[str, Any]) -> Any:
        """Returns the result, or a tuple of several, each with a buffer of its own.

        Raises:
            DTypeError: an operator does not take the dtype.
        """
        program = self.program
        numbers = numbers_of(program, args, keywords) if program.numbers or program.scalar_steps else {}
        arrays = [args[i] for i in self._tensors]
        plan, signature = self._plan(by_name(args[self._first].dtype.name), numbers)
        constants = [word_of(_value(weak, numbers), weak.dtype.name) for weak in _weak(plan)]
        shape = arrays[0].shape
        if any(array.shape != shape for array in arrays):
            shape = broadcast_shapes("", *[array.shape for array in arrays])
        results = [self.gpu.empty(shape, DTYPES[dtype.name]) for dtype in plan.returned]
        given = tuple([array.dtype.name for array in arrays])
        run(self.gpu, (signature, given), self._body(plan, arrays), results, arrays, constants)
        return results[0] if len(results) == 1 else tuple(results)

    def _plan(self, dtype: DType, numbers: Mapping[str, Any]) -> tuple[TypedProgram, Any]:
        by_value = not dtype.is_inexact  # whether a number fits integers depends on its value
        key = (dtype, *[(v.__class__, cache_key(v) if by_value else None) for v in numbers.values()])
        found = self._plans.get(key)
        if found is None:
            plan = typed(self.program, dtype, numbers)
            for step in plan.steps:
                self._check(step.operator, step.compute.name)
            if len(self._plans) >= KEPT:
                self._plans.clear()
            found = self._plans[key] = (plan, _signature(plan))
        return found

    def _check(self, operator: str, dtype: str) -> None:
        if operator not in wgsl.EXPRESSIONS[dtype]:
            raise DTypeError(
                f"{self.name or operator}: {operator} does not take {dtype} tensors"
                + fix("convert them: .to(tp.float32)" if dtype == "int32" else "convert them: .to(tp.int32)")
            )

    def _body(self, plan: TypedProgram, arrays: list[VulkanArray]) -> Any:
        names = [self.program.inputs[i] for i in self._tensors]
        dtypes = [array.dtype.name for array in arrays]

        def body(words: list[str], constants: int) -> tuple[list[str], list[str]]:
            places = {id(weak): constants + i for i, weak in enumerate(_weak(plan))}
            variables = {name: f"x{i}" for i, name in enumerate(names)}
            variables.update({step.name: f"t{i}" for i, step in enumerate(plan.steps)})
            has = dict(plan.dtypes)
            lines = []
            for name, dtype, word in zip(names, dtypes, words, strict=True):
                value = wgsl.cast(wgsl.load(dtype, word), dtype, has[name].name)
                lines.append(f"let {variables[name]} = {value};")

            def operand(wanted: Any) -> str:
                if wanted.__class__ is Weak:
                    return wgsl.load(wanted.dtype.name, f"p[{places[id(wanted)]}]")
                return wgsl.cast(variables[wanted.name], has[wanted.name].name, wanted.dtype.name)

            for step in plan.steps:
                expression = wgsl.EXPRESSIONS[step.compute.name][step.operator]
                lines.append(f"let {variables[step.name]} = {expression(*map(operand, step.operands))};")
            found = []
            for wanted, returned in zip(plan.results, plan.returned, strict=True):
                value = wgsl.cast(operand(wanted), wanted.dtype.name, returned.name)
                found.append(wgsl.store(returned.name, value))
            return lines, found

        return body


def _weak(plan: TypedProgram) -> list[Weak]:
    """Returns the numbers of a program in the order of their places among the parameters."""
    operands = [operand for step in plan.steps for operand in step.operands]
    return [operand for operand in (*operands, *plan.results) if operand.__class__ is Weak]


def _signature(plan: TypedProgram) -> Any:
    """Returns what the code of a plan depends on: its numbers are parameters, so their dtypes alone."""

    def kind(operand: Any) -> Any:
        return operand.dtype.name if operand.__class__ is Weak else (operand.name, operand.dtype.name)

    steps = tuple((s.name, s.operator, s.compute.name, tuple(map(kind, s.operands))) for s in plan.steps)
    inputs = tuple((name, dtype.name) for name, dtype in plan.dtypes.items())
    return inputs, steps, tuple(map(kind, plan.results)), tuple(dtype.name for dtype in plan.returned)


def _value(weak: Weak, numbers: Mapping[str, Any]) -> Any:
    if weak.source.__class__ is str and weak.dtype.is_inexact:
        return fitted(numbers[weak.source], weak.dtype)
    return weak.value
