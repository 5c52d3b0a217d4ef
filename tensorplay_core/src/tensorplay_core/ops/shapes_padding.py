"""The shape rules of padding, of windows as columns and back, and of resizing."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from tensorplay_core.errors import ShapeError, ValueRangeError, fix
from tensorplay_core.ops.shape_checks import Shape, Shaped, SizeError, as_ints, check_shape
from tensorplay_core.ops.shapes_convolution import per_dim, window_count
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


class Windows(NamedTuple):
    """The windows of ``im2col``, with one number for each of the two dims.

    Attributes:
        kernel, dilation, padding, stride: as given.
        counts: how many there are.
    """

    kernel: Shape
    dilation: Shape
    padding: Shape
    stride: Shape
    counts: Shape


def windows_of(op: str, sizes: Shape, kernel_size: Any, dilation: Any, padding: Any, stride: Any) -> Windows:
    """Returns how windows lie over two dims.

    Raises:
        ShapeError, ValueRangeError: a number is not allowed, or no window fits.
    """
    kernel, gaps = per_dim(op, kernel_size, 2, "kernel_size", 1), per_dim(op, dilation, 2, "dilation", 1)
    pads, steps = per_dim(op, padding, 2, "padding", 0), per_dim(op, stride, 2, "stride", 1)
    dims = zip(sizes, kernel, steps, pads, gaps, strict=True)
    count = tuple(window_count(n, k, s, (p, p), g) for n, k, s, p, g in dims)
    if min(count) < 1:
        raise ShapeError(
            f"{op}: no window fits: sizes {sizes}, padded by {pads}, have room for {count} windows "
            f"of kernel {kernel} with "
            f"dilation {gaps} and stride {steps}" + fix("use a smaller kernel, or more padding")
        )
    return Windows(kernel, gaps, pads, steps, count)


def im2col(op: str, self: Shaped, kernel_size: Any, dilation: Any, padding: Any, stride: Any, **keywords: Any) -> Shape:
    """(N, C * places, windows), without N where ``self`` has none."""
    shape = self.shape
    if len(shape) not in (3, 4) or 0 in shape[-3:]:
        raise ShapeError(
            f"{op}: Expected 3D or 4D (batch mode) tensor, (C, H, W) or (N, C, H, W), of which only the batch may be "
            f"empty, but got shape {shape}" + fix("reshape or unsqueeze it")
        )
    found = windows_of(op, shape[-2:], kernel_size, dilation, padding, stride)
    return check_shape(op, (*shape[:-3], shape[-3] * math.prod(found.kernel), math.prod(found.counts)))


def col2im(
    op: str,
    self: Shaped,
    output_size: Any,
    kernel_size: Any,
    dilation: Any,
    padding: Any,
    stride: Any,
    **keywords: Any,
) -> Shape:
    """(N, C, H, W), without N where ``self`` has none."""
    sizes = per_dim(op, output_size, 2, "output_size", 1)
    found = windows_of(op, sizes, kernel_size, dilation, padding, stride)
    places, windows, shape = math.prod(found.kernel), math.prod(found.counts), self.shape
    if len(shape) not in (2, 3) or 0 in shape[-2:]:
        raise ShapeError(
            f"{op}: Expected 2D or 3D (batch mode) tensor, (C * places, windows) or (N, C * places, windows), of which "
            f"only the batch may be empty, but got shape {shape}" + fix("reshape or unsqueeze it")
        )
    if shape[-2] % places:
        raise ShapeError(
            f"{op}: the size {shape[-2]} at dim -2 of shape {shape} must be divisible by the {places} places of kernel "
            f"{found.kernel}"
        )
    if shape[-1] != windows:
        raise ShapeError(
            f"{op}: the size {shape[-1]} at dim -1 of shape {shape} must be {windows}, the number of windows over "
            f"output_size {sizes}"
        )
    return check_shape(op, (*shape[:-2], shape[-2] // places, *sizes))
