"""The shape rules of repeating and rolling, and what their Composite kernels ask before they begin.

They are apart from those of views because they speak of counts: how often, how far, how many windows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tensorplay_core.errors import DimError, DTypeError, ShapeError, ValueRangeError, fix
from tensorplay_core.ops.shape_checks import (
    Shape,
    Shaped,
    SizeError,
    as_int,
    as_ints,
    check_shape,
    normalize_dim,
)


def repeated(op: str, shape: Shape, repeats: Any) -> tuple[Shape, Shape]:
    """Returns how often each dim is repeated, and the sizes with as many leading ones as there are new dims.

    Raises:
        SizeError: a number is negative.
        ShapeError: there are fewer numbers than dims, or the result would be too large.

    Example:
        >>> repeated("repeat", (3,), (4, 2))
        ((4, 2), (1, 3))
    """
    counts = as_ints(op, repeats, "repeats")
    new = len(counts) - len(shape)
    if new < 0:
        raise ShapeError(
            f"{op}: repeats {counts} has {len(counts)} numbers, and a tensor of shape {shape} needs at least "
            f"{len(shape)}, one for each dim" + fix("use tile, which takes fewer")
        )
    if any(count < 0 for count in counts):
        raise SizeError(f"{op}: repeats start at 0, and are {counts}")
    sizes = (1,) * new + shape
    check_shape(op, [count * size for count, size in zip(counts, sizes, strict=True)])
    return counts, sizes


def check_repeats(numbers: Sequence[int], output_size: int | None) -> None:
    """Refuses numbers of repeats that are negative, or do not add up to the size that is given.

    Raises:
        ValueRangeError: they do not.
    """
    least = min(numbers, default=0)
    if least < 0:
        raise ValueRangeError(f"repeat_interleave: repeats start at 0, and one of them is {least}")
    if output_size is not None and sum(numbers) != output_size:
        raise ValueRangeError(
            f"repeat_interleave: output_size is {output_size}, and the repeats add up to {sum(numbers)}"
            + fix(f"leave it away, or give {sum(numbers)}")
        )


def repeat_interleave(op: str, repeats: Shaped, output_size: Any = None, **keywords: Any) -> Shape | None:
    """One dim, whose size is the sum of the repeats: known where ``output_size`` says it."""
    if len(repeats.shape) > 1:
        raise ShapeError(f"{op}: repeats must have one dim, and has shape {repeats.shape}")
    if repeats.dtype is not None and not repeats.dtype.is_integral:
        raise DTypeError(
            f"{op}: repeats must be integers, not {repeats.dtype.name}" + fix("convert it: repeats.to(tp.int64)")
        )
    if output_size is None:
        return None
    size = as_int(op, output_size, "output_size")
    if size < 0:
        raise SizeError(f"{op}: output_size must not be negative, but is {size}")
    return (size,)


def roll(op: str, self: Shaped, shifts: Any, dims: Any = (), **keywords: Any) -> Shape:
    """The shape of ``self``."""
    roll_steps(op, self, shifts, dims)
    return self.shape


def roll_steps(op: str, self: Shaped, shifts: Any, dims: Any) -> dict[int, int] | None:
    """Returns how far each dim is rolled; None where the elements are one dim, which goes by the only shift.

    Raises:
        ShapeError: there is not one shift for each dim.
        DimError: a dim is out of range.

    Example:
        >>> roll_steps("roll", Shaped((3, 4)), (1, 2, 3), (0, -1, 0)), roll_steps("roll", Shaped((3,)), 1, ())
        ({0: 4, 1: 2}, None)
    """
    by, along = as_ints(op, shifts, "shifts"), as_ints(op, dims, "dims")
    if not by:
        raise ShapeError(f"{op}: shifts is empty" + fix("give one number, or one for each dim"))
    if not along and len(by) == 1:
        return None
    if len(by) != len(along):
        raise ShapeError(
            f"{op}: shifts and dimensions must align: shifts {by} has {len(by)} numbers, dims {along} has {len(along)}"
        )
    steps: dict[int, int] = {}
    for dim, step in zip(along, by, strict=True):
        d = normalize_dim(op, dim, len(self.shape), name="dims")
        if self.shape:  # of 0 dims there is nothing to move
            steps[d] = steps.get(d, 0) + step
    return steps


def window_counts(op: str, shape: Shape, dimension: Any, size: Any, step: Any) -> tuple[int, int]:
    """Returns the dim along which windows are taken, and how many there are.

    Raises:
        DimError, ValueRangeError: no window fits.

    Example:
        >>> window_counts("unfold", (7,), 0, 3, 2)
        (0, 3)
    """
    d = normalize_dim(op, dimension, len(shape), name="dimension")
    length, width, by = (shape[d] if shape else 1), as_int(op, size, "size"), as_int(op, step, "step")
    if width < 0:
        raise ValueRangeError(f"{op}: size is 0 or more, and it is {width}")
    if width > length:
        raise DimError(f"{op}: size {width} is larger than dim {d}, which has {length} elements")
    if by < 1:
        raise ValueRangeError(f"{op}: step is 1 or more, and it is {by}")
    return d, (length - width) // by + 1


def tensor_split_sizes(op: str, shape: Shape, sections: Any, dim: Any) -> tuple[int, tuple[int, ...]]:
    """Returns the dim that is divided, and the sizes of its parts, of which the first may be larger by one.

    Raises:
        ShapeError: there is no dim.
        ValueRangeError: there are no parts.

    Example:
        >>> tensor_split_sizes("tensor_split", (7,), 3, 0)
        (0, (3, 2, 2))
    """
    if not shape:
        raise ShapeError(
            f"{op}: expected a tensor of at least 1 dim, and it has none" + fix("reshape it to (1,) first")
        )
    d, count = normalize_dim(op, dim, len(shape)), as_int(op, sections, "sections")
    if count < 1:
        raise ValueRangeError(f"{op}: the number of sections is 1 or more, and it is {count}")
    least, larger = divmod(shape[d], count)
    return d, (least + 1,) * larger + (least,) * (count - larger)


def unfold(op: str, self: Shaped, dimension: Any, size: Any, step: Any, **keywords: Any) -> Shape:
    """As many windows along ``dimension`` as fit, and their size as the last dim."""
    d, windows = window_counts(op, self.shape, dimension, size, step)
    shape = self.shape
    return check_shape(op, (*shape[:d], *((windows,) if shape else ()), *shape[d + 1 :], as_int(op, size, "size")))
