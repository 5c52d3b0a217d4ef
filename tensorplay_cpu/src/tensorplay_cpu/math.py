"""Kernels of operators that are given by ``math`` alone: straight-line calls of NumPy, in blocks that fit the cache.

A kernel is a Python function that is put together at its first call, because nothing else costs as little as what it
calls: a loop over a list of steps takes a third longer on small arrays. Its text is made of numbered names alone; no
name and no value of a program is ever part of it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from types import FunctionType
from typing import Any

import numpy as np

from tensorplay_composite.arrays import Kernel
from tensorplay_core.errors import TensorPlayError
from tensorplay_core.ops.program_types import TypedProgram, Use, Weak, fitted, numbers_of, typed
from tensorplay_core.ops.typing_rules import cache_key
from tensorplay_core.types.dtype import DType, by_name
from tensorplay_core.types.program import Number, Program
from tensorplay_core.types.promotion import NOT_PROMOTED
from tensorplay_cpu.blocks import in_blocks
from tensorplay_cpu.lowering import Instruction, Line, Names, lower, place
from tensorplay_cpu.pointwise import FEW

KEPT = 64
"""How many forms and calls a kernel keeps: numbers that change at every call must not fill the memory."""
SINGLE, BOOL = np.dtype("float32"), np.dtype("bool")
_building = threading.Lock()


def emitter(kernels: Mapping[str, Kernel]) -> Callable[[Program], Kernel | None]:
    """Returns the CPU's emitter.

    Args:
        kernels: the CPU's kernels by the operator's name; a program whose steps they cannot do is left to Composite.

    Example:
        >>> from tensorplay_cpu.kernels import cpu_kernels
        >>> cube = Program(
        ...     inputs=("self",), keywords=(), numbers=(), scalar_steps=(),
        ...     steps=(("t0", "mul", "self", "self"), ("t1", "mul", "t0", "self")), results=("t1",),
        ... )
        >>> emitter(cpu_kernels())(cube)(np.float32([2.0, -3.0]))
        array([  8., -27.], dtype=float32)
    """

    def emit(program: Program) -> Kernel | None:
        if not program.operators() <= kernels.keys() or not set(program.inputs).difference(program.numbers):
            return None
        return Emitted(program, kernels).kernel

    emit.__qualname__ = "emit"
    return emit


def define(parameters: str, lines: Sequence[str], names: dict[str, Any]) -> FunctionType:
    """Returns a function of that text; it calls raw kernels, so it has no module that a warning could be told of."""
    made: dict[str, Any] = {}
    text = f"def kernel({parameters}):\n    " + "\n    ".join(lines)
    names["__name__"] = None
    exec(compile(text, __file__.removesuffix(".py") + " (emitted)", "exec"), names, made)
    kernel: FunctionType = made["kernel"]
    kernel.__module__ = __name__
    return kernel


_UNBUILT = define("*args, **keywords", ["return first(args, keywords)"], {}).__code__


class Emitted:
    """One program: the kernel, and the forms that it has been given for the dtypes that it has met.

    Attributes:
        kernel: the kernel. Its code is replaced at the first call, by that which is fastest for small float32 arrays
            and the numbers of that call, and sends everything else to :meth:`run`.
    """

    def __init__(self, program: Program, kernels: Mapping[str, Kernel]) -> None:
        self.program = program
        self.kernels = kernels
        inputs = program.inputs
        self.tensors = tuple([i for i, name in enumerate(inputs) if name not in program.numbers])
        self.numbers = tuple([i for i, name in enumerate(inputs) if name in program.numbers])
        self.first = next((i for i in self.tensors if inputs[i] not in NOT_PROMOTED), self.tensors[0])
        self.conditions = tuple([n for n, i in enumerate(self.tensors) if inputs[i] in NOT_PROMOTED])
        self._forms: dict[Any, Form] = {}
        self._calls: dict[Any, tuple[Form, list[Any]]] = {}
        self._built = False
        self._names: dict[str, Any] = {"__name__": None, "first": self._first_call, "general": self.run}
        self.kernel = FunctionType(_UNBUILT, self._names, "emitted")
        self.kernel.__module__ = __name__

    def run(self, args: tuple[Any, ...], keywords: Mapping[str, Any]) -> Any:
        """Computes for arrays of any size and dtype, and any numbers."""
        native = args[self.first].dtype
        key = native
        if self.numbers or keywords:  # as text, in which 1, 1.0 and True differ, and 0.0 and -0.0
            key = (native, repr([args[i] for i in self.numbers]), repr(keywords))
        known = self._calls.get(key)
        if known is None:
            numbers = numbers_of(self.program, args, keywords)
            form = self._form(native, numbers)
            known = _keep(self._calls, key, (form, self._arrays(form, numbers)))
        tensors = [args[i] for i in self.tensors]
        for n in self.conditions:
            if tensors[n].dtype is not BOOL:
                tensors[n] = tensors[n].astype(BOOL)
        return known[0].run(tensors, known[1])

    def _form(self, native: Any, numbers: Mapping[str, Number]) -> Form:
        """Returns the program for arrays of a dtype, and numbers of some classes."""
        dtype = by_name(native.name)
        by_value = not dtype.is_inexact  # whether a number fits integers depends on its value
        key = (dtype, *[(v.__class__, cache_key(v) if by_value else None) for v in numbers.values()])
        found: Form | None = self._forms.get(key)
        if found is None:
            inputs = [self.program.inputs[i] for i in self.tensors]
            found = _keep(self._forms, key, Form(inputs, typed(self.program, dtype, numbers), native, self.kernels))
        return found

    def _arrays(self, form: Form, numbers: Mapping[str, Number]) -> list[Any]:
        """Returns the numbers of a form as 0-d arrays: a Python number costs NumPy twice the operation."""
        found: list[Any] = []
        for number in form.names.constants.values():
            if not isinstance(number, Weak):
                found.append(numbers[number] if isinstance(number, str) else number)
                continue
            source, dtype = number.source, number.dtype
            given = isinstance(source, str) and dtype.is_inexact  # integers have a form for every value
            found.append(np.array(fitted(numbers[str(source)], dtype) if given else number.value, dtype.name))
        return found

    def _first_call(self, args: tuple[Any, ...], keywords: Mapping[str, Any]) -> Any:
        with _building:
            if not self._built:
                self._become_fast(args)
                self._built = True
        return self.kernel(*args, **keywords)

    def _become_fast(self, args: tuple[Any, ...]) -> None:
        """Replaces the kernel's code: another function that calls the fast one would cost a twentieth of the call."""
        program = self.program
        parameters = [f"a{self.tensors.index(i)}" if i in self.tensors else f"n{i}" for i in range(len(args))]
        everything = f"({', '.join(parameters)},), {'keywords' if program.keywords else '{}'}"
        lines = [f"return general({everything})"]
        numbers = numbers_of(program, args, {})
        form: Form | None
        try:
            form = self._form(SINGLE, numbers)
        except TensorPlayError:  # complex numbers
            form = None
        if form is not None and form.whole:
            guards = [f"a{n}.size > {FEW}" for n in range(len(self.tensors))]
            guards += [f"{parameters[self.first]}.dtype is not single"]
            guards += [f"a{n}.dtype is not boolean" for n in self.conditions]
            # The same object is the same number: a default, or a literal in the caller's code.
            guards += [f"n{i} is not same{i}" for i in self.numbers]
            guards += ["keywords"] * bool(program.keywords)
            lines = [f"if {' or '.join(guards)}:", f"    {lines[0]}", *form.small_lines]
            self._names.update(form.objects, single=SINGLE, boolean=BOOL)
            self._names.update({f"same{i}": args[i] for i in self.numbers})
            self._names.update(zip(form.names.constants, self._arrays(form, numbers), strict=True))
        text = ", ".join([*parameters, *["**keywords"] * bool(program.keywords)])
        self.kernel.__code__ = define(text, lines, self._names).__code__


class Form:
    """A program for arrays of one dtype.

    Attributes:
        names: Python names for what is in it.
        objects: what its lines name, functions and dtypes.
        whole: whether every result is a step that depends on all inputs, so that the shape comes out by itself.
        small_lines: the text of the function for small arrays.
    """

    def __init__(
        self, inputs: Sequence[str], program: TypedProgram, native: Any, kernels: Mapping[str, Kernel]
    ) -> None:
        half = program.compute.name != native.name
        self.names = names = Names(inputs, [i for i in inputs if half and i not in NOT_PROMOTED])
        self.objects: dict[str, Any] = {}
        self.whole = _is_whole(inputs, program)
        self._native = native
        self._returned = tuple(map(self._dtype, program.returned))
        small = lower(program, kernels, names, blocks=False)
        blocks = lower(program, kernels, names, blocks=True)
        results = [names[r.name] if isinstance(r, Use) else names.constant(r) for r in program.results]
        self.small_lines = self._small_text(small, results, program) if self.whole else []
        lines, registers = place(blocks, results, program.returned)
        self._registers = tuple(map(self._dtype, registers))
        arrays = [f"a{n}" for n in range(len(inputs))]
        memory = [f"r{n}" for n in range(len(registers))] + [f"o{n}" for n in range(len(results))]
        self._small_parameters = ", ".join([*arrays, *names.constants])
        self._block_parameters = ", ".join([*arrays, *names.constants, *memory])
        self._block_lines = [self._block_text(line) for line in lines]
        self._small: Kernel | None = None
        self._block: Kernel | None = None

    def run(self, tensors: list[Any], constants: list[Any]) -> Any:
        """Computes for arrays of this dtype."""
        if self.whole and max([t.size for t in tensors]) <= FEW:
            if self._small is None:
                self._small = define(self._small_parameters, self.small_lines, dict(self.objects))
            return self._small(*tensors, *constants)
        if self._block is None:
            self._block = define(self._block_parameters, self._block_lines, dict(self.objects))
        results = in_blocks(self._block, tensors, constants, self._registers, self._returned)
        return results[0] if len(results) == 1 else results

    def _dtype(self, dtype: DType) -> Any:
        return self._native if dtype.name == self._native.name else np.dtype(dtype.name)

    def _named(self, value: Any) -> str:
        for name, known in self.objects.items():
            if known is value:
                return name
        name = f"f{len(self.objects)}"
        self.objects[name] = value
        return name

    def _call(self, function: Kernel, operands: Sequence[str]) -> str:
        return f"{self._named(function)}({', '.join(operands)})"

    def _cast(self, operand: str, dtype: DType) -> str:
        return f"{operand}.astype({self._named(self._dtype(dtype))})"

    def _small_text(self, instructions: list[Instruction], results: list[str], program: TypedProgram) -> list[str]:
        lines = []
        for ins in instructions:
            function = ins.function
            value = self._cast(ins.operands[0], ins.dtype) if function is None else self._call(function, ins.operands)
            lines.append(f"{ins.name} = {value}")
        values = [
            name if r.dtype is dtype else self._cast(name, dtype)
            for name, r, dtype in zip(results, program.results, program.returned, strict=True)
        ]
        return [*lines, f"return {', '.join(values)}"]

    def _block_text(self, line: Line) -> str:
        if line.function is None:
            return f"{line.target}[...] = {line.operands[0]}"
        if line.writes:
            return self._call(line.function, (*line.operands, line.target))
        fills = "[...]" if line.target.startswith("o") else ""
        return f"{line.target}{fills} = {self._call(line.function, line.operands)}"


def _is_whole(inputs: Sequence[str], program: TypedProgram) -> bool:
    depends = {name: {name} for name in inputs}
    for step in program.steps:
        depends[step.name] = set().union(*[depends[o.name] for o in step.operands if isinstance(o, Use)])
    results = [r.name for r in program.results if isinstance(r, Use) and r.name not in inputs]
    return len(set(results)) == len(program.results) and all(len(depends[r]) == len(inputs) for r in results)


def _keep(cache: dict[Any, Any], key: Any, value: Any) -> Any:
    if len(cache) >= KEPT:
        cache.clear()
    cache[key] = value
    return value
