"""Which dtypes a program's steps compute in: what every emitter must agree on, worked out in one place.

A program says nothing of dtypes. Its steps are operators of the contract, so each has that operator's promote rule, and
numbers are weak: they take the dtype of what they meet. An integer beside a float number is an error rather than a
result of another dtype than the operator promises.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from tensorplay_core.dispatch.operator import Operator
from tensorplay_core.dispatch.registry import REGISTRY
from tensorplay_core.errors import DTypeError, TensorPlayError, ValueRangeError, fix
from tensorplay_core.ops.arguments import plan_of
from tensorplay_core.ops.typing_rules import compute_dtype, holds, wrapped_integer
from tensorplay_core.types import dtype as dt
from tensorplay_core.types.dtype import DType
from tensorplay_core.types.program import Number, Operand, Program, Step
from tensorplay_core.types.promotion import NOT_PROMOTED, promote, with_scalar

LARGEST = {"float32": 3.4028235677973366e38, "float64": math.inf}
"""The smallest number that rounds to infinity in a dtype."""


class Use(NamedTuple):
    """An input or an earlier step, and the dtype that it is needed in."""

    name: str
    dtype: DType


class Weak(NamedTuple):
    """A number as a 0-d array.

    Attributes:
        source: the literal, or the name of a number, whose value may change from call to call.
        value: the number as the dtype has it.
        dtype: what it takes from what it meets.
    """

    source: Operand
    value: Number
    dtype: DType


class TypedStep(NamedTuple):
    """A step with dtypes; an operand that is neither ``Use`` nor ``Weak`` is a number, or its name, that stays one."""

    name: str
    operator: str
    operands: tuple[Use | Weak | Operand, ...]
    compute: DType
    result: DType


class TypedProgram(NamedTuple):
    """A program for inputs of one dtype.

    Attributes:
        compute: what its tensors are cast to first: float32 for half precisions, else the inputs' dtype.
        dtypes: the dtype of each input and each step.
        steps: the steps that the results need.
        results: what is returned.
        returned: the dtypes to return it in.
    """

    compute: DType
    dtypes: dict[str, DType]
    steps: tuple[TypedStep, ...]
    results: tuple[Use | Weak, ...]
    returned: tuple[DType, ...]


# ------------------------------------------------------------------------------------------------------------- numbers


def numbers_of(program: Program, args: Sequence[Any], keywords: Mapping[str, Any]) -> dict[str, Number]:
    """Returns the numbers of a call by name, those included that ``scalar_steps`` make of them.

    Args:
        program: the program.
        args: the call's positional arguments.
        keywords: the keyword-only ones that the call changes.

    Example:
        >>> steps = (("t0", "mul", "self", "s0"),)
        >>> halved = Program(("self", "n"), (), ("n",), (("s0", "div", "n", 2),), steps, ("t0",))
        >>> numbers_of(halved, (None, 3), {})
        {'n': 3, 's0': 1.5}
    """
    numbers = {name: value for name, value in zip(program.inputs, args, strict=True) if name in program.numbers}
    numbers.update(program.keywords)
    numbers.update(keywords)
    for name, operator, *operands in program.scalar_steps:
        known = [numbers.get(o, 0) if o.__class__ is str else o for o in operands]
        numbers[str(name)] = scalar(str(operator), *known)
    return numbers


def scalar(operator: str, *operands: Any) -> Any:
    """Computes with numbers as elements do, where Python raises: infinities and NaN are results.

    Example:
        >>> scalar("div", 1, 0.0), scalar("pow", 0, -1)
        (inf, inf)
    """
    try:
        return _SCALAR[operator](*operands)
    except OverflowError:
        if complex in map(type, operands):
            return complex(math.nan, math.nan)
        return _overflown(*operands) if operator == "pow" else _SCALAR[operator](*map(_as_float, operands))
    except ZeroDivisionError:
        return _divided_by_zero(*(operands if operator == "div" else (1, operands[0] ** -operands[1])))


def _power(base: Any, exponent: Any) -> Any:
    result = base**exponent
    # Python leaves the reals for a root of a negative number; elements do not.
    return math.nan if result.__class__ is complex and complex not in (base.__class__, exponent.__class__) else result


def _as_float(value: Any) -> Any:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _overflown(base: Any, exponent: Any) -> float:
    odd = float(exponent).is_integer() and exponent % 2 == 1
    return -math.inf if odd and base < 0 else math.inf


def _divided_by_zero(dividend: Any, divisor: Any) -> Any:
    if complex in (dividend.__class__, divisor.__class__) or dividend != dividend or not dividend:
        return math.nan
    return math.copysign(math.inf, dividend) * math.copysign(1.0, divisor)


_SCALAR: dict[str, Callable[..., Any]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "pow": _power,
    "neg": lambda a: -a,
}


def fitted(value: Any, dtype: DType) -> Any:
    """Returns a number as a dtype has it, so that no array library warns or refuses: integers wrap, floats overflow.

    Raises:
        TypeError: it is no number of the dtype's kind.
        ValueRangeError: a float dtype cannot hold so long an integer.

    Example:
        >>> fitted(300, dt.uint8), fitted(-1e39, dt.float32), fitted(2, dt.float64)
        (44, -inf, 2.0)
    """
    kind = value.__class__
    if kind not in (bool, int, float, complex) or with_scalar(dtype, kind) is not dtype:
        raise TypeError(f"{value!r} is no number for {dtype.name}")
    if dtype.is_bool:
        return value
    if dtype.is_integral:
        return wrapped_integer(int(value), dtype)
    if dtype.is_complex:
        return complex(value)
    try:
        number = float(value)
    except OverflowError as error:
        raise ValueRangeError(f"{value!r} does not fit {dtype.name}: {error}") from None
    return math.copysign(math.inf, number) if abs(number) >= LARGEST.get(dtype.name, math.inf) else number


# -------------------------------------------------------------------------------------------------------------- dtypes


def typed(program: Program, dtype: DType, numbers: Mapping[str, Number], name: str = "") -> TypedProgram:
    """Returns a program with the dtypes that its steps compute in.

    Args:
        program: the program.
        dtype: that of its tensors; those called ``condition`` are bool.
        numbers: what :func:`numbers_of` returns for the call.
        name: the operator's, for messages.

    Raises:
        DTypeError: a number does not go with the dtype, or a step's operator does not take it.

    Example:
        >>> square = Program(("self",), (), (), (), (("t0", "mul", "self", "self"),), ("t0",))
        >>> typed(square, dt.bfloat16, {}).compute
        tensorplay.float32
    """
    compute = dt.float32 if dtype.is_floating_point and dtype.itemsize == 2 else dtype
    dtypes = {i: dt.bool_ if i in NOT_PROMOTED else compute for i in program.inputs if i not in program.numbers}
    steps = []
    try:
        for number in program.numbers:  # named as the caller knows it, before any step that is made of it
            if numbers.get(number).__class__ is complex:
                _weak(number, compute, numbers)
        for step in _needed(program):
            steps.append(_typed_step(step, compute, dtypes, numbers))
            dtypes[steps[-1].name] = steps[-1].result
        results = tuple(_result(operand, compute, dtypes, numbers) for operand in program.results)
    except TensorPlayError as error:
        if not name:
            raise
        raise type(error)(f"{name}: {error}") from None
    returned = tuple([dtype if r.dtype is compute else r.dtype for r in results])
    return TypedProgram(compute, dtypes, tuple(steps), results, returned)


def _needed(program: Program) -> list[Step]:
    """Returns the steps that the results depend on."""
    wanted = set(program.results)
    steps = []
    for step in reversed(program.steps):
        if step[0] in wanted:
            steps.append(step)
            wanted.update(step[2:])
    return steps[::-1]


def _result(operand: Operand, compute: DType, dtypes: Mapping[str, DType], numbers: Mapping[str, Number]) -> Use | Weak:
    if operand.__class__ is str and operand in dtypes:
        return Use(operand, dtypes[operand])
    return _weak(operand, dt.bool_ if operand.__class__ is bool else compute, numbers)


def _number(source: Operand, numbers: Mapping[str, Number]) -> Number:
    return numbers[source] if isinstance(source, str) else source


def _weak(source: Operand, dtype: DType, numbers: Mapping[str, Number]) -> Weak:
    value = _number(source, numbers)
    if with_scalar(dtype, value.__class__) is not dtype:
        wanted = with_scalar(dt.float32 if dtype.is_integral or dtype.is_bool else dtype, value.__class__)
        named = f"{source} is {value!r}" if isinstance(source, str) else f"its formula has the number {value!r}"
        raise DTypeError(
            f"{named}, and {dtype.name} tensors compute with numbers of their own kind"
            + fix(f"convert the tensors with .to(tp.{wanted.name}).")
        )
    return Weak(source, fitted(value, dtype), dtype)


def _typed_step(step: Step, compute: DType, dtypes: Mapping[str, DType], numbers: Mapping[str, Number]) -> TypedStep:
    name, operator, *operands = step
    op = REGISTRY.find(str(operator))
    specs = plan_of(op).positional
    tensors = [(i, o) for i, o in enumerate(operands) if specs[i].kind == "Tensor"]
    taking_part = [o for i, o in tensors if specs[i].name not in NOT_PROMOTED]
    common, inner = _step_dtypes(op, taking_part, compute, dtypes, numbers)
    typed_operands: list[Any] = list(operands)
    for i, operand in tensors:
        wanted = dt.bool_ if specs[i].name in NOT_PROMOTED else inner
        if isinstance(operand, str) and operand in dtypes:
            typed_operands[i] = Use(operand, wanted)
        elif op.promote == "bool" and (beyond := _beyond(_number(operand, numbers), common)) is not None:
            typed_operands[i] = Weak(operand, beyond, inner)
        else:
            typed_operands[i] = _weak(operand, wanted, numbers)
    result = {"bool": dt.bool_, "real": inner.real_dtype}.get(op.promote, inner)
    return TypedStep(str(name), str(operator), tuple(typed_operands), inner, result)


def _step_dtypes(
    op: Operator, operands: list[Any], compute: DType, dtypes: Mapping[str, DType], numbers: Mapping[str, Number]
) -> tuple[DType, DType]:
    """Returns the dtype that a step's operands have in common, and that which its operator's rule makes of it."""
    common: DType | None = None
    values = []
    for operand in operands:
        if operand.__class__ is str and operand in dtypes:
            common = dtypes[operand] if common is None else promote(common, dtypes[operand])
        else:
            values.append(_number(operand, numbers))
    # A comparison's result among numbers is 0 or 1 of the dtype that everything else has.
    if common is None or (common.is_bool and any(v.__class__ is not bool for v in values)):
        common = compute
    inner = compute_dtype(op, common)
    if common.is_bool and not inner.is_bool:
        inner = compute_dtype(op, compute)  # as precise as the rest of the program
    widens = any(v.__class__ is float or _beyond(v, inner) is not None for v in values)
    if op.promote == "bool" and widens and (inner.is_integral or inner.is_bool):
        return common, with_scalar(inner, float)  # the result is bool all the same
    return common, inner


def _beyond(value: Any, dtype: DType) -> float | None:
    """Returns what an integer that a dtype cannot hold is to its tensors when compared, an infinity; else None."""
    if value.__class__ is not int or not dtype.is_integral or holds(dtype, value):
        return None
    return math.inf if value > 0 else -math.inf


# --------------------------------------------------------------------------------------------------------------- calls


def check_numbers(op: Operator, dtype: DType, args: tuple[Any, ...], keywords: Mapping[str, Any]) -> None:
    """Refuses a call of an operator with ``math`` whose numbers do not go with its tensors.

    Raises:
        DTypeError: naming the operator, the number and the remedy.
    """
    program = op.math
    assert program is not None
    if dtype.is_floating_point and not any(v.__class__ is complex for v in (*args, *keywords.values())):
        return  # every real number goes with them
    typed(program, dtype, numbers_of(program, args, keywords), op.display_name)


def asks_numbers(op: Operator) -> bool:
    """Whether an operator's shape rule looks at its numbers, so that it is asked at every call."""
    return op.math is not None and bool(op.math.numbers) and op.shape not in ("same", "broadcast")


def takes_any_number(op: Operator, dtype: DType) -> bool:
    """Whether every real number goes with tensors of a dtype, so that a kernel may be called unasked.

    Numbers that the shape rule looks at are no exception: fast calls have their defaults.
    """
    return not (op.math is not None and op.math.numbers) or compute_dtype(op, dtype).is_inexact
