"""Runs operators that are given by ``math`` alone on raw arrays, with the kernels that a backend has anyway.

:func:`emitter` is one line for a backend over any NumPy-like module. It makes a pass over memory for every step; a
backend that can do better, by blocks or by compiling, brings an emitter of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tensorplay_composite.arrays._support import Kernel, Support, dtype_name, silent
from tensorplay_core.ops.program_types import TypedProgram, Use, Weak, fitted, numbers_of, typed
from tensorplay_core.ops.shapes import broadcast_shapes
from tensorplay_core.ops.typing_rules import cache_key
from tensorplay_core.types.dtype import DType, by_name
from tensorplay_core.types.program import Number, Program
from tensorplay_core.types.promotion import NOT_PROMOTED

KEPT = 64
"""How many plans and constants a kernel keeps: numbers that change at every call must not fill the memory."""


def emitter(xp: Any, kernels: Mapping[str, Kernel]) -> Callable[[Program], Kernel | None]:
    """Returns an emitter over an array module.

    Args:
        xp: the module, as for :func:`tensorplay_composite.arrays.kernels`.
        kernels: the backend's kernels by the operator's name; what they cannot do is left to Composite.

    Returns:
        What ``m.emitter`` takes.

    Example:
        >>> import numpy
        >>> from tensorplay_composite.arrays import kernels
        >>> emit = emitter(numpy, kernels(numpy))
        >>> softsign = Program(
        ...     inputs=("self",), keywords=(), numbers=(), scalar_steps=(),
        ...     steps=(("t0", "abs", "self"), ("t1", "add", 1, "t0"), ("t2", "div", "self", "t1")), results=("t2",),
        ... )
        >>> emit(softsign)(numpy.float32([-1.0, 3.0]))
        array([-0.5 ,  0.75], dtype=float32)
    """
    support = Support(xp)

    def emit(program: Program) -> Kernel | None:
        if not program.operators() <= kernels.keys() or not set(program.inputs).difference(program.numbers):
            return None
        made: Kernel = silent(_kernel)(Plans(program, xp, support), support, kernels)
        made.__module__ = __name__
        return made

    emit.__qualname__ = "emitter"
    return emit


def _kernel(plans: Plans, support: Support, kernels: Mapping[str, Kernel]) -> Kernel:
    """Returns the kernel; its frame calls the steps' kernels, so it must be one that no warning is told of."""

    def emitted(*args: Any, **keywords: Any) -> Any:
        call = plans.call(args, keywords)
        values = {name: call.cast(array, call.plan.dtypes[name]) for name, array in call.tensors.items()}
        for step in call.plan.steps:
            values[step.name] = kernels[step.operator](*[call.operand(o, values) for o in step.operands])
        return call.results(values)

    return emitted


class Plans:
    """What a kernel remembers: its program for each dtype that it has met, and the numbers as arrays."""

    def __init__(self, program: Program, xp: Any, support: Support) -> None:
        self.program = program
        self.xp = xp
        self.support = support
        self.tensors = tuple([i for i, name in enumerate(program.inputs) if name not in program.numbers])
        promoted = [i for i in self.tensors if program.inputs[i] not in NOT_PROMOTED]
        self.first = (promoted or self.tensors)[0]
        self._plans: dict[Any, TypedProgram] = {}
        self._constants: dict[Any, Any] = {}

    def call(self, args: tuple[Any, ...], keywords: Mapping[str, Any]) -> Call:
        """Returns a call, taken apart."""
        program = self.program
        numbers = numbers_of(program, args, keywords) if program.numbers or program.scalar_steps else {}
        native = args[self.first].dtype
        dtype = by_name(dtype_name(native))
        by_value = not dtype.is_inexact  # whether a number fits integers depends on its value
        key = (dtype, *[(v.__class__, cache_key(v) if by_value else None) for v in numbers.values()])
        plan = self._plans.get(key)
        if plan is None:
            plan = keep(self._plans, key, typed(self.program, dtype, numbers))
        tensors = {self.program.inputs[i]: args[i] for i in self.tensors}
        return Call(self, plan, tensors, numbers, {dtype: native})

    def constant(self, number: Weak, numbers: Mapping[str, Number], device: Any) -> Any:
        """Returns a number as a 0-d array on a device."""
        source, dtype = number.source, number.dtype
        value = fitted(numbers[source], dtype) if source.__class__ is str and dtype.is_inexact else number.value
        key = (dtype, value.__class__, cache_key(value), device)
        found = self._constants.get(key)
        if found is None:
            found = keep(self._constants, key, self.xp.asarray(value, dtype=self.support.native(dtype.name)))
        return found


class Call:
    """One call of an emitted kernel.

    Attributes:
        plan: its program, with dtypes.
        tensors, numbers: its arguments by name.
    """

    __slots__ = ("_device", "_native", "_plans", "numbers", "plan", "tensors")

    def __init__(
        self,
        plans: Plans,
        plan: TypedProgram,
        tensors: dict[str, Any],
        numbers: Mapping[str, Any],
        native: dict[DType, Any],
    ) -> None:
        self._plans = plans
        self.plan = plan
        self.tensors = tensors
        self.numbers = numbers
        self._native = native
        device = getattr(next(iter(tensors.values())), "device", None)
        self._device = getattr(device, "id", None)  # of several devices, each has its own constants

    def cast(self, array: Any, dtype: DType) -> Any:
        """Returns an array in a dtype: the array itself where it has it."""
        native = self._native.get(dtype)
        if native is None:
            native = self._native[dtype] = self._plans.support.native(dtype.name)
        return array if array.dtype == native else self._plans.support.cast(array, native)

    def operand(self, wanted: Any, values: Mapping[str, Any]) -> Any:
        """Returns what a step takes: an array, a number as one, or a number as it is."""
        if wanted.__class__ is Use:
            return self.cast(values[wanted.name], wanted.dtype)
        if wanted.__class__ is Weak:
            return self._plans.constant(wanted, self.numbers, self._device)
        return self.numbers[wanted] if wanted.__class__ is str else wanted

    def results(self, values: Mapping[str, Any]) -> Any:
        """Returns the results in their dtypes, in the shape that all inputs broadcast to, and with their own memory."""
        xp, copy = self._plans.xp, self._plans.support.copy
        shape = broadcast_shapes("", *[tuple(t.shape) for t in self.tensors.values()])
        taken, found = list(self.tensors.values()), []
        for wanted, dtype in zip(self.plan.results, self.plan.returned, strict=True):
            result = self.cast(self.operand(wanted, values), dtype)
            if tuple(result.shape) != shape:
                result = copy(xp.broadcast_to(result, shape))
            elif wanted.__class__ is Weak or any(result is other for other in taken):
                result = copy(result)
            taken.append(result)
            found.append(result)
        return found[0] if len(found) == 1 else tuple(found)


def keep(cache: dict[Any, Any], key: Any, value: Any) -> Any:
    """Returns a value after putting it into a cache that is emptied when it is full."""
    if len(cache) >= KEPT:
        cache.clear()
    cache[key] = value
    return value
