"""What generated functions call besides the fast path and the slow path: names, spreading, overloads, reflection."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tensorplay_core.dispatch.operator import Operator
from tensorplay_core.errors import ArgumentError, fix
from tensorplay_core.ops.arguments import bind, plan_of, python_scalar
from tensorplay_core.ops.call import call
from tensorplay_core.tensor.tensor import Tensor, TensorBase

SECOND_NAMES = {"axis": "dim", "keepdims": "keepdim", "input": "self"}


def second_name(first: Any, second: Any, op: str, name: str, default: Any = None) -> Any:
    """Returns the value of an argument that was given under NumPy's name.

    Args:
        first: the value under PyTorch's name.
        second: the value under NumPy's.
        op: the function, for the message.
        name: NumPy's name.
        default: what ``first`` is when it was not given.

    Raises:
        ArgumentError: it was given under both.
    """
    if first is not None and first is not False and first != default:
        raise ArgumentError(f"{op}: {SECOND_NAMES[name]} and {name} are the same argument; give one of them")
    return second


def spread(several: tuple[Any, ...], one: Any, op: str) -> Any:
    """Returns a list that was given as several arguments, as one sequence, or by name.

    Example:
        >>> spread((2, 3), None, "zeros"), spread(((2, 3),), None, "zeros"), spread((), [2], "zeros")
        ((2, 3), (2, 3), [2])
    """
    if one is not None:
        if several:
            raise ArgumentError(f"{op}: the sizes are given twice, by position and by name")
        return one
    if len(several) == 1 and isinstance(several[0], (tuple, list)):
        return several[0]
    return several


def created(op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any], requires_grad: bool) -> Tensor:
    """Calls a creation operator."""
    result: Tensor = call(op, args, kwargs)
    return result.requires_grad_() if requires_grad else result


def pick(name: str, overloads: tuple[Operator, ...], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Calls the overload that the arguments fit.

    Raises:
        ArgumentError: none fits; the message lists them all.
    """
    for second, first in SECOND_NAMES.items():
        if second in kwargs:
            value = kwargs.pop(second)
            if first in kwargs:
                raise ArgumentError(f"{name}: {first} and {second} are the same argument; give one of them")
            kwargs[first] = value
    for op in overloads:
        if len(args) > len(plan_of(op).positional):
            continue  # before bind, which would word an error that nobody reads
        try:
            positional, keywords = bind(op, args, kwargs)
        except ArgumentError:
            continue
        if _fits(op, positional):
            return call(op, positional, keywords)
    given = ", ".join([type(a).__name__ for a in args] + [f"{k}={type(v).__name__}" for k, v in kwargs.items()])
    listed = "\n  ".join(str(op.schema) for op in overloads)
    raise ArgumentError(f"{name}: no overload takes ({given}). There are:\n  {listed}")


def _fits(op: Operator, args: tuple[Any, ...]) -> bool:
    for spec, value in zip(plan_of(op).positional, args, strict=True):
        if spec.kind == "Tensor" and not spec.is_list and not isinstance(value, TensorBase) and value is not None:
            return False
        if spec.kind in ("int", "bool") and isinstance(value, TensorBase) and value.shape:
            return False
        if spec.kind in ("Scalar", "float") and not spec.is_list and isinstance(value, TensorBase):
            return False
        if spec.kind == "int" and isinstance(value, (bool, str, float)):
            return False
    return True


def binary(op: Operator, self: Tensor, other: Any) -> Any:
    """Serves a binary operator of Python when its fast path does not apply; strangers get NotImplemented."""
    if not isinstance(other, TensorBase):
        number = python_scalar(other)
        if number is None:
            return _stranger(op.display_name, other)
        other = number
    return call(op, (self, other))


def _stranger(name: str, other: Any) -> Any:
    """Returns NotImplemented, so that Python asks the other side; an array of NumPy has no answer that says why."""
    if hasattr(other, "__array_interface__"):
        raise ArgumentError(
            f"{name}: a Tensor and a NumPy array ({type(other).__name__}) do not mix in an expression"
            + fix("convert the array with tp.tensor(...), which copies, or the tensor with .numpy()")
        )
    return NotImplemented


def reflected(function: Callable[..., Tensor]) -> Callable[[Tensor, Any], Any]:
    """Returns the method for ``2 - x``, from the function for ``x - y``."""
    from tensorplay_core.ops.typing_rules import scalar_like

    def reflected_operator(self: Tensor, other: Any) -> Any:
        number = python_scalar(other)
        if number is None:
            return _stranger(function.__name__, other)
        return function(scalar_like(self, number), self)

    return reflected_operator
