"""The shape rules of convolutions and of the windows that they slide: what fits, and what the result's sizes are.

Kernels read their sizes from here too. A fast call asks no shape rule, so a kernel must refuse what does not fit by
itself; asking :func:`geometry`, which remembers, makes both refuse the same with the same words.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

from tensorplay_core.errors import ArgumentError, ShapeError, ValueRangeError, fix
from tensorplay_core.ops.shape_checks import Shape, Shaped, SizeError, as_int, as_ints, check_shape, shape_of


class Geometry(NamedTuple):
    """The sizes of one convolution, each a tuple with one number a spatial dim.

    Attributes:
        stride, padding, dilation, output_padding: as given, one number for each dim.
        transposed: whether it is a transposed convolution.
        groups: how many independent convolutions over channels it is.
        kernel: sizes of the weight.
        shape: of the result.
    """

    stride: Shape
    padding: Shape
    dilation: Shape
    output_padding: Shape
    transposed: bool
    groups: int
    kernel: Shape
    shape: Shape


def per_dim(op: str, value: Any, count: int, name: str, least: int) -> Shape:
    """Returns an int or a list of ints as one int for each of ``count`` spatial dims.

    Raises:
        ArgumentError: it is no int and no list of one or ``count`` ints.
        SizeError: one is less than ``least``.

    Example:
        >>> per_dim("conv2d", 2, 2, "stride", 1), per_dim("conv2d", (1, 2), 2, "stride", 1)
        ((2, 2), (1, 2))
    """
    given = as_ints(op, value, name)
    if len(given) not in (1, count):
        remedy = fix("one number serves all" if count > 1 else "write one number")
        raise WindowError(f"{op}: {name} {given} needs {count} number{'s' * (count > 1)}, one a spatial dim{remedy}")
    sizes = given * count if len(given) == 1 else given
    for dim, size in enumerate(sizes):
        if size < least:
            wanted = "must not be negative" if least == 0 else "must be greater than zero"
            raise SizeError(f"{op}: {name} {wanted}, but is {size} at spatial dim {dim}")
    return sizes


class WindowError(ArgumentError, ShapeError):
    """A list with another number of items than spatial dims: a TypeError, and a RuntimeError as in PyTorch."""


def window_count(size: int, kernel: int, stride: int, padding: tuple[int, int], dilation: int) -> int:
    """Returns how many windows fit into one dim; not positive where none does.

    Example:
        >>> window_count(8, 3, 2, (1, 1), 1)
        4
    """
    return (size + padding[0] + padding[1] - dilation * (kernel - 1) - 1) // stride + 1


def geometry(
    op: str,
    input: Shape,
    weight: Shape,
    bias: Shape | None,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    output_padding: Any,
    groups: Any,
) -> Geometry:
    """Returns the sizes of a convolution; ``input`` is (N, C, *sizes), ``weight`` (O, C / groups, *kernel).

    The weight of a transposed one is (C, O / groups, *kernel).

    Raises:
        ShapeError, ArgumentError: something does not fit; the message says what, and what would.
    """
    lists = [tuple(one) if one.__class__ is list else one for one in (stride, padding, dilation, output_padding)]
    return _geometry(op, tuple(input), tuple(weight), bias and tuple(bias), *lists[:3], transposed, lists[3], groups)


@functools.lru_cache(maxsize=1024)
def _geometry(
    op: str,
    input: Shape,
    weight: Shape,
    bias: Shape | None,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    output_padding: Any,
    groups: Any,
) -> Geometry:
    count = len(weight) - 2
    if count < 1 or len(input) != len(weight):
        raise ShapeError(
            f"{op}: input (N, C, *sizes) and weight (O, C, *kernel) must have the same number of dims, at least 3, but "
            f"have shapes {input} and {weight}" + fix("unsqueeze(0) makes a batch of one sample")
        )
    steps = per_dim(op, stride, count, "stride", 1)
    pads = per_dim(op, padding, count, "padding", 0)
    gaps = per_dim(op, dilation, count, "dilation", 1)
    more = per_dim(op, output_padding, count, "output_padding", 0)
    channels = _channels(op, input, weight, transposed, as_int(op, groups, "groups"))
    if bias is not None and bias != (channels,):
        raise ShapeError(f"{op}: bias must have shape ({channels},), one for each output channel, but has {bias}")
    kernel = weight[2:]
    if 0 in kernel:
        raise SizeError(f"{op}: the kernel of weight {weight} has a size of 0; sizes start at 1")
    if transposed:
        _check_output_padding(op, more, steps, gaps)
    elif any(more):
        raise ValueRangeError(f"{op}: output_padding {more} is for a transposed convolution" + fix("leave it 0"))
    sizes = []
    for d, (size, k, s, p, g) in enumerate(zip(input[2:], kernel, steps, pads, gaps, strict=True)):
        extent = g * (k - 1) + 1
        out = (size - 1) * s - 2 * p + extent + more[d] if transposed else window_count(size, k, s, (p, p), g)
        if (not transposed and size + 2 * p < extent) or out < 1 or size < 1:
            raise ShapeError(_too_small(op, d, size, p, extent, out, transposed))
        sizes.append(out)
    shape = check_shape(op, (input[0], channels, *sizes))
    return Geometry(steps, pads, gaps, more, transposed, groups, kernel, shape)


def _too_small(op: str, dim: int, size: int, padding: int, extent: int, out: int, transposed: bool) -> str:
    if transposed:
        why = f"the output size at spatial dim {dim} would be {out}, of input size {size} and padding {padding}"
        return f"{op}: {why}: too small" + fix("make padding smaller, or the input larger")
    room = f"size {size}" + (f" padded to {size + 2 * padding}" if padding else "")
    return (
        f"{op}: Kernel size can't be greater than actual input size: the kernel spans {extent} elements at spatial dim "
        f"{dim}, and the input has {room}" + fix("use a smaller kernel or dilation, or more padding")
    )


def _channels(op: str, input: Shape, weight: Shape, transposed: bool, groups: int) -> int:
    """Returns the number of output channels."""
    if groups < 1:
        raise SizeError(f"{op}: groups must be greater than zero, but is {groups}")
    channels, own, other = input[1], weight[0], weight[1]
    if own % groups:
        raise ShapeError(
            f"{op}: the first size of weight {weight} must be divisible by groups={groups}, which {own} is not"
        )
    wanted = own if transposed else other * groups
    if channels != wanted:
        spelled = f"{other} * groups={groups}" if groups > 1 and not transposed else f"{wanted}"
        raise ShapeError(
            f"{op}: input of shape {input} has {channels} channels, but weight of shape {weight} takes {spelled}"
            + fix(
                f"weight is (in_channels, out_channels / groups, *kernel): make its first size {channels}"
                if transposed
                else f"weight is (out_channels, in_channels / groups, *kernel): {channels} / groups is its second size"
            )
        )
    return other * groups if transposed else own


def _check_output_padding(op: str, more: Shape, stride: Shape, dilation: Shape) -> None:
    for d, (extra, s, g) in enumerate(zip(more, stride, dilation, strict=True)):
        if extra >= max(s, g):
            raise SizeError(
                f"{op}: output padding must be smaller than either stride or dilation, but at spatial dim {d} it is "
                f"{extra}, with stride {s} and dilation {g}"
            )


def convolution(
    op: str,
    input: Shaped,
    weight: Shaped,
    bias: Shaped | None,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    output_padding: Any,
    groups: Any,
    **keywords: Any,
) -> Shape:
    """(N, out channels, sizes): each size the number of windows that fit, or what as many windows would span."""
    added = None if bias is None else shape_of(bias)
    sizes = (stride, padding, dilation, transposed, output_padding, groups)
    return geometry(op, shape_of(input), shape_of(weight), added, *sizes).shape


def convolution_backward(
    op: str,
    grad_output: Shaped,
    input: Shaped,
    weight: Shaped,
    bias_sizes: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    output_padding: Any,
    groups: Any,
    output_mask: Any,
    **keywords: Any,
) -> tuple[Shape, Shape, Shape]:
    """The shapes of ``input``, ``weight`` and the bias, (0,) for one that ``output_mask`` leaves out."""
    x, w, bias = checked_backward(op, grad_output, input, weight, bias_sizes, output_mask)
    found = geometry(op, x, w, bias, stride, padding, dilation, transposed, output_padding, groups)
    if shape_of(grad_output) != found.shape:
        raise ShapeError(f"{op}: grad_output must have shape {found.shape}, but has {shape_of(grad_output)}")
    shapes = (x, w, found.shape[1:2])
    first, second, third = (one if wanted else (0,) for one, wanted in zip(shapes, output_mask, strict=True))
    return first, second, third


def checked_backward(
    op: str, grad_output: Any, input: Any, weight: Any, bias_sizes: Any, output_mask: Any
) -> tuple[Shape, Shape, Shape | None]:
    """Returns the shapes of input, weight and bias, once the mask is known to be one of three bools."""
    if not isinstance(output_mask, (tuple, list)) or len(output_mask) != 3:
        raise ArgumentError(f"{op}: output_mask must be three bools, for input, weight and bias, not {output_mask!r}")
    bias = None if bias_sizes is None else as_ints(op, bias_sizes, "bias_sizes")
    return shape_of(input), shape_of(weight), bias
