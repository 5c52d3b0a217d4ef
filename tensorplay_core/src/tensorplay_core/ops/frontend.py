"""What generated functions call besides the fast path and the slow path: names, spreading, overloads, reflection."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tensorplay_core.dispatch.operator import Operator
from tensorplay_core.errors import ArgumentError, fix
from tensorplay_core.ops import direct
from tensorplay_core.ops.arguments import bind, python_scalar
from tensorplay_core.ops.call import call
from tensorplay_core.tensor.tensor import Tensor, TensorBase
from tensorplay_core.types.device import Device
from tensorplay_core.types.dtype import DType
from tensorplay_core.types.overloads import SECOND_NAMES, Candidate, best, candidate
from tensorplay_core.types.promotion import SCALARS


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


def ints(values: Any) -> bool:
    """Whether a value is a tuple or a list of ints alone; anything else the slow path reads, or refuses.

    Example:
        >>> ints((2, 3)), ints([]), ints((True,)), ints(2)
        (True, True, False, False)
    """
    if values.__class__ is tuple or values.__class__ is list:
        for value in values:  # a generator would take twice as long
            if value.__class__ is not int:
                break
        else:
            return True
    return False


def created(
    op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any], requires_grad: bool, out: Any = None
) -> Tensor:
    """Calls a creation operator; what ``out`` is decides what is made, where nothing else is said."""
    if isinstance(out, TensorBase):
        own = {"dtype": out.dtype, "device": out.device}
        kwargs = {name: own.get(name) if value is None else value for name, value in kwargs.items()}
    result: Tensor | None = direct.created(op, args, kwargs) if out is None else None
    if result is None:
        result = call(op, args, kwargs, out)
    return result.requires_grad_() if requires_grad else result


def pick(
    name: str,
    overloads: tuple[Operator, ...],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    outs: tuple[str, ...] = (),
    *,
    method: bool = False,
) -> Any:
    """Calls the overload that the arguments mean; see :func:`choose`."""
    op, positional, keywords, out = choose(name, overloads, args, kwargs, outs, method=method)
    return call(op, positional, keywords, out)


def choose(
    name: str,
    overloads: tuple[Operator, ...],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    outs: tuple[str, ...] = (),
    *,
    method: bool = False,
) -> tuple[Operator, tuple[Any, ...], dict[str, Any], Any]:
    """Returns the overload that arguments mean, by the rule of :mod:`tensorplay_core.types.overloads`, and its call.

    Args:
        name: the function, for messages.
        overloads: what there is to choose from; their order does not matter.
        args: the positional arguments.
        kwargs: the others, by any spelling.
        outs: the overload names of those whose function takes ``out=``.
        method: the first argument is ``self``, wherever the signatures have it.

    Returns:
        The operator, its positional arguments, those given by keyword, and ``out``.

    Raises:
        ArgumentError: none fits, and the message lists them all; or several do, equally well.
    """
    kinds = tuple([kind_of(a) for a in args])
    by_name = tuple([(k, kind_of(v)) for k, v in kwargs.items()]) if kwargs else ()
    # The rule sees kinds alone, so what it once said of some kinds it will always say.
    decisions = overloads[0].__dict__.setdefault("decisions", {})
    decision = decisions.get((overloads, outs, method, kinds, by_name))
    if decision is None:
        _refuse_twice(name, kwargs)
        candidates = [candidate(op.schema, out=op.overload in outs, method=method) for op in overloads]
        found = best(candidates, kinds, dict(by_name))
        if len(found) != 1:
            raise _none_or_several(name, [overloads[i] for i in found], overloads, args, kwargs)
        decision = overloads[found[0]], candidates[found[0]]
        decisions[overloads, outs, method, kinds, by_name] = decision
    op, chosen = decision
    keywords = {chosen.name_of(k) or k: v for k, v in kwargs.items()} if kwargs else {}
    out = keywords.pop("out", None) if op.overload in outs else None
    if chosen.spread and len(args) >= len(chosen.names) and _one_by_one(args, chosen):
        last = len(chosen.names) - 1
        args = (*args[:last], args[last:])
    if method:
        keywords.update(zip(chosen.names, args, strict=False))
        args = ()
    return op, *bind(op, args, keywords), out


def _one_by_one(args: tuple[Any, ...], chosen: Candidate) -> bool:
    """Whether a list is given as several arguments, rather than as one."""
    return len(args) > len(chosen.names) or kind_of(args[-1]) == "int"


KINDS = {Tensor: "tensor", bool: "bool", int: "int", float: "float", complex: "complex", str: "str", DType: "dtype"}
KINDS |= {Device: "device", type(None): "None"}
"""The kinds of what has no more to it than its class says, but for a tensor's dims."""


def kind_of(value: Any) -> str:
    """Returns the kind of a value, as :data:`tensorplay_core.types.overloads.PRECEDENCE` names it.

    Example:
        >>> kind_of(2), kind_of((2, 3)), kind_of(None), kind_of([])
        ('int', '[int]', 'None', '[]')
    """
    kind = KINDS.get(value.__class__)
    if kind == "tensor" or (kind is None and isinstance(value, TensorBase)):
        return "tensor" if value.shape else "0-d tensor"
    if kind is not None:
        return kind
    number = python_scalar(value)
    if number is not None:  # of NumPy, or of a class derived from a number's
        return next(KINDS[scalar] for scalar in SCALARS if isinstance(number, scalar))
    if isinstance(value, type):
        return "dtype" if value in SCALARS else "object"
    if hasattr(value, "__index__") and not hasattr(value, "__len__"):
        return "int"
    return _kind_of_list(value) if isinstance(value, Sequence) else "object"


def _kind_of_list(values: Sequence[Any]) -> str:
    """Returns the kind of a list, which is that of its most general item."""
    if isinstance(values, str):
        return "str"
    kinds = {kind_of(v) for v in values}
    if not kinds:
        return "[]"
    if kinds <= {"tensor", "0-d tensor", "None"}:
        return "[tensor, None]" if "None" in kinds else "[tensor]"
    if kinds == {"int", "0-d tensor"}:
        return "[int]"
    for general in ("complex", "float", "int", "bool"):
        if general in kinds and kinds <= {"bool", "int", "float", "complex"}:
            return f"[{general}]"
    return "[str]" if kinds == {"str"} else "[object]"


def _refuse_twice(name: str, kwargs: dict[str, Any]) -> None:
    for second, first in SECOND_NAMES.items():
        if second in kwargs and first in kwargs:
            raise ArgumentError(f"{name}: {first} and {second} are the same argument; give one of them")


def _none_or_several(
    name: str,
    found: list[Operator],
    overloads: tuple[Operator, ...],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> ArgumentError:
    given = ", ".join([type(a).__name__ for a in args] + [f"{k}={type(v).__name__}" for k, v in kwargs.items()])
    if found:
        remedy = fix(f"call one of them by its own name, such as tp.ops.{found[0].namespace}.{found[0].name}.")
        says = f"{name}: ({given}) could mean several overloads. These fit equally well:"
    else:
        remedy, says = "", f"{name}: no overload takes ({given}). There are:"
    listed = "\n  ".join(str(op.schema) for op in found or overloads)
    return ArgumentError(f"{says}\n  {listed}{remedy}")


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
