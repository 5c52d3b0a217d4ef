"""The shape rules of padding, of windows as columns and back, and of resizing."""

from __future__ import annotations

from typing import Any

from tensorplay_core.errors import ShapeError, ValueRangeError, fix
from tensorplay_core.ops.shape_checks import Shape, Shaped, SizeError, as_ints, check_shape
from tensorplay_core.ops.typing_rules import check_fits


def pads_of(op: str, pad: Any, ndim: int, dims: int | None = None) -> tuple[tuple[int, int], ...]:
    """Returns the elements before and after each dim, from the first dim on.

    Args:
        op: the operator, for the message.
        pad: pairs from the last dim backwards, as PyTorch has them.
        ndim: how many dims the tensor has.
        dims: how many of them may be padded; all where it is not given.

    Raises:
        ValueRangeError: their number is odd.
        ShapeError: there are more than dims to pad.

    Example:
        >>> pads_of("pad", (1, 2, 3, 4), 3)
        ((0, 0), (3, 4), (1, 2))
    """
    given = as_ints(op, pad, "pad")
    if len(given) % 2:
        raise PadError(f"{op}: Length of pad must be even but instead it equals {len(given)}: a pair for each dim")
    room = ndim if dims is None else dims
    if len(given) > 2 * room:
        raise PadError(
            f"{op}: Length of pad should be no more than twice the number of dims that can be padded: {given} has "
            f"{len(given) // 2} pairs for {room} dim{'s' * (room != 1)}" + fix("leave pairs out at the end of pad")
        )
    pairs = [(given[i], given[i + 1]) for i in range(0, len(given), 2)]
    return ((0, 0),) * (ndim - len(pairs)) + tuple(reversed(pairs))


class PadError(ShapeError, ValueRangeError):
    """A list of paddings that does not fit the tensor."""


def constant_pad_nd(op: str, self: Shaped, pad: Any, value: Any = 0, **keywords: Any) -> Shape:
    """Each size with what ``pad`` adds before and after it."""
    if self.dtype is not None:
        check_fits(op, value, self.dtype)
    return padded_shape(op, self.shape, pads_of(op, pad, len(self.shape)))


def padded_shape(op: str, shape: Shape, pads: tuple[tuple[int, int], ...]) -> Shape:
    """Returns the shape with so many elements more at the ends of each dim.

    Raises:
        SizeError: more is cut off than is there.
    """
    sizes = []
    for dim, (size, (before, after)) in enumerate(zip(shape, pads, strict=True)):
        # Each end cuts at most what is there, whatever the other adds.
        if size + before + after < 0 or size + min(before, 0) + min(after, 0) < 0:
            raise SizeError(
                f"{op}: pad {before, after} cuts more off dim {dim} of shape {shape} than its {size} elements"
                + fix("cut less: negative numbers are elements that are cut off")
            )
        sizes.append(size + before + after)
    return check_shape(op, sizes)
