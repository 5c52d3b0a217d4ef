"""What the shape rules are made of: sizes, dims and broadcasting, checked with messages that name the remedy.

Everything that takes a size or a dim from a user comes through here, so that a float, a bool, a negative size or a dim
out of range is refused with one wording everywhere, before anything is computed or written.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, TypeAlias

from tensorplay_core.errors import ArgumentError, DimError, ShapeError, ValueRangeError, fix
from tensorplay_core.types.dtype import DType

Shape: TypeAlias = tuple[int, ...]
MAX_DIMS = 64
MAX_ELEMENTS = 2**63 - 1


class SizeError(ShapeError, ValueRangeError):
    """A size or a step whose value is not allowed: a RuntimeError as in PyTorch, and a ValueError as in NumPy."""


class Shaped(NamedTuple):
    """What a shape rule sees of a tensor.

    Attributes:
        shape: its sizes.
        dtype: its dtype; None where nobody knows it yet.
    """

    shape: Shape
    dtype: DType | None = None


def check_real(op: str, name: str, value: Any) -> None:
    """Checks that a number can be compared.

    Raises:
        ArgumentError: it is complex.
    """
    if isinstance(value, complex):
        raise ArgumentError(f"{op}: {name} must be a real number, not {value!r}")


def shape_of(value: Any) -> Shape:
    """Returns the shape of a :class:`Shaped`; a Python scalar's is ``()``."""
    return value.shape if isinstance(value, Shaped) else ()


def base_name(op: str) -> str:
    """Returns an operator's name without namespace and overload: ``max`` for ``tp::max.dim``."""
    return op.rpartition("::")[2].partition(".")[0]


def as_int(op: str, value: Any, name: str) -> int:
    """Returns ``value`` as an int; anything with ``__index__`` is one, a bool and a float are not.

    Raises:
        ArgumentError: ``value`` is no integer.
    """
    if value.__class__ is int:
        return value
    if not isinstance(value, bool):
        try:
            return operator.index(value)
        except TypeError:
            pass
    remedy = ""
    if isinstance(value, bool) or (isinstance(value, float) and math.isfinite(value) and value == int(value)):
        remedy = fix(f"write {int(value)}")
    elif isinstance(value, float):
        remedy = fix("round it yourself: int(...) cuts, round(...) rounds, // divides integers")
    raise ArgumentError(f"{op}: {name} must be an int, not {value!r} ({type(value).__name__}){remedy}")


def as_ints(op: str, values: Any, name: str) -> tuple[int, ...]:
    """Returns an int or a sequence of ints as a tuple of ints.

    Raises:
        ArgumentError: something in it is no integer.
    """
    if isinstance(values, (tuple, list)):
        for value in values:
            if value.__class__ is not int:
                return tuple(as_int(op, v, f"{name}[{i}]") for i, v in enumerate(values))
        return tuple(values)
    if isinstance(values, Sequence) and not isinstance(values, (str, bytes)):
        return as_ints(op, tuple(values), name)
    return (as_int(op, values, name),)


def check_shape(op: str, shape: Iterable[int]) -> Shape:
    """Returns ``shape``, once it is known that a tensor can have it.

    Raises:
        ShapeError: it has more than 2**63 - 1 elements or more than 64 dims.
    """
    shape = tuple(shape)
    if len(shape) > MAX_DIMS:
        raise ShapeError(f"{op}: the result would have {len(shape)} dims; a tensor has at most {MAX_DIMS}")
    # Strides are products of the other sizes, so a size of 0 does not excuse them.
    count = math.prod([size or 1 for size in shape])
    if count > MAX_ELEMENTS:
        raise ShapeError(
            f"{op}: shape {shape} is too large: {count} elements (about {float(count):.1e}) are more than 2**63 - 1"
            if count < 10**300
            else f"{op}: shape {shape} is too large: it has more than 2**63 - 1 elements"
        )
    return shape


def as_sizes(op: str, size: Any, *, name: str = "size") -> Shape:
    """Returns sizes that a user gave (an int, a tuple or a list) as a shape.

    Args:
        op: the operator, for the message.
        size: an int, or a sequence of ints; whatever has ``__index__`` counts as an int.
        name: the argument, for the message.

    Raises:
        ArgumentError: a size is no int (a bool and a float are refused).
        SizeError: a size is negative.
        ShapeError: there are more than 2**63 - 1 elements or more than 64 dims.

    Example:
        >>> as_sizes("zeros", [2, 3]), as_sizes("zeros", 4), as_sizes("zeros", ())
        ((2, 3), (4,), ())
    """
    sizes = as_ints(op, size, name)
    for position, value in enumerate(sizes):
        if value < 0:
            what = f"{name} {sizes}" if len(sizes) > 1 else name
            raise SizeError(
                f"{op}: {what} has a negative size {value} at dim {position}; sizes start at 0"
                if len(sizes) > 1
                else f"{op}: {what} must not be negative, but is {value}"
            )
    return check_shape(op, sizes)


def normalize_dim(op: str, dim: Any, ndim: int, *, name: str = "dim", of: str = "the tensor") -> int:
    """Returns ``dim`` counted from the front. A 0-d tensor accepts -1 and 0, as if it had one dim.

    ``name`` is the argument's and ``of`` what has the dims, for the message.

    Raises:
        ArgumentError: ``dim`` is no int.
        DimError: ``dim`` is not in ``-ndim .. ndim - 1``.

    Example:
        >>> normalize_dim("sum", -1, 3)
        2
    """
    value = as_int(op, dim, name)
    bound = ndim or 1
    if not -bound <= value < bound:
        dims = f"{ndim} dim{'' if ndim == 1 else 's'}"
        raise DimError(
            f"{op}: Dimension out of range (expected to be in range of [{-bound}, {bound - 1}], but got {value}): "
            f"{of if name == 'dim' else f'{name} is a dim of a tensor that'} has {dims}"
        )
    return value + bound if value < 0 else value


def normalize_dims(op: str, dims: Any, ndim: int, *, name: str = "dim") -> tuple[int, ...]:
    """Returns dims counted from the front, in the order given.

    Args:
        op: the operator, for the message.
        dims: an int or a sequence of ints; None means all dims, an empty sequence none.
        ndim: how many dims the tensor has.
        name: the argument, for the message.

    Raises:
        ArgumentError: a dim is no int.
        DimError: a dim is out of range.
        ShapeError: a dim is named twice.

    Example:
        >>> normalize_dims("sum", (0, -1), 3), normalize_dims("sum", None, 2)
        ((0, 2), (0, 1))
    """
    if dims is None:
        return tuple(range(ndim))
    given = as_ints(op, dims, name)
    result: list[int] = []
    for value in given:
        dim = normalize_dim(op, value, ndim, name=name)
        if dim in result:
            first = given[result.index(dim)]
            twice = f"{value} twice" if first == value else f"{first} and {value} are the same"
            raise ShapeError(f"{op}: dim {dim} appears multiple times in the list of dims {given}: {twice}")
        result.append(dim)
    return tuple(result)


def broadcast_shapes(op: str, *shapes: Shape) -> Shape:
    """Returns the shape that ``shapes`` broadcast to, by the rules of NumPy and PyTorch.

    Raises:
        ShapeError: two sizes differ and neither is 1.

    Example:
        >>> broadcast_shapes("add", (2, 3), (3,), ())
        (2, 3)
    """
    result: Shape = ()
    for shape in shapes:
        if shape == result or not shape:
            continue
        if len(shape) > len(result):
            result = (1,) * (len(shape) - len(result)) + result
        offset = len(result) - len(shape)
        merged = list(result)
        for dim, size in enumerate(shape, offset):
            if size != merged[dim]:
                if merged[dim] == 1:
                    merged[dim] = size
                elif size != 1:
                    raise _no_broadcast(op, shapes)
        result = tuple(merged)
    return check_shape(op, result)


def _no_broadcast(op: str, shapes: tuple[Shape, ...]) -> ShapeError:
    """Explains the first pair of shapes that clash, at their last clashing dim."""
    for j, b in enumerate(shapes):
        for a in shapes[:j]:
            ndim = max(len(a), len(b))
            for back in range(1, min(len(a), len(b)) + 1):
                if a[-back] != b[-back] and 1 not in (a[-back], b[-back]):
                    names = f"shapes {a} and {b}"
                    return ShapeError(
                        f"{op}: {names} do not broadcast: dim {ndim - back} is {a[-back]} against {b[-back]}, "
                        f"and neither is 1{_unsqueeze_hint(a, b)}"
                    )
    return ShapeError(f"{op}: shapes {', '.join(map(str, shapes))} do not broadcast together")


def _fits(a: Shape, b: Shape) -> bool:
    return all(x == y or 1 in (x, y) for x, y in zip(reversed(a), reversed(b), strict=False))


def _unsqueeze_hint(a: Shape, b: Shape) -> str:
    """Offers the commonest remedy, dims of size 1 at the end of the shorter shape, where it helps."""
    short, long = (a, b) if len(a) < len(b) else (b, a)
    padded = short + (1,) * (len(long) - len(short))
    if len(short) < len(long) and _fits(padded, long):
        how = "unsqueeze(-1)" if len(long) - len(short) == 1 else f"reshape{padded}"
        return fix(f"dims are matched from the last one; if {short} belongs to the first dims, make it {padded}: {how}")
    return fix("dims are matched from the last one; give the tensor that should repeat a size of 1 there")


def broadcasts_to(source: Shape, target: Shape) -> bool:
    """Says whether ``source`` broadcasts to exactly ``target``."""
    if len(source) > len(target):
        return False
    return all(s in (1, t) for s, t in zip(reversed(source), reversed(target), strict=False))


def check_broadcasts_to(op: str, name: str, source: Shape, target: Shape, of: str) -> None:
    """Checks that the argument ``name``, of shape ``source``, broadcasts to exactly ``target``, the shape of ``of``.

    Raises:
        ShapeError: it does not.
    """
    if not broadcasts_to(source, target):
        raise ShapeError(
            f"{op}: {name} has shape {source}, which does not broadcast to {target}, the shape of {of}"
            + fix(f"dims are matched from the last one; give {name} a size of 1 where it should repeat")
        )


def check_write(op: str, source: Shape, target: Shape) -> None:
    """Checks that ``source`` broadcasts to exactly ``target``, as a write into a tensor of that shape demands.

    Raises:
        ShapeError: it does not.
    """
    if broadcasts_to(source, target):
        return
    raise ShapeError(
        f"{op}: shape {source} does not broadcast to {target}, the shape of the tensor that is written to; "
        f"an in-place operation never changes a shape"
        + fix("use the operator without the underscore, or expand the tensor that is written to first")
    )
