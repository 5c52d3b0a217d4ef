"""The shape rules of the pools: how many windows fit, and which elements of a padded dim each of them has.

Kernels read their sizes from here too, as those of convolutions do from :mod:`shapes_convolution`.
"""

from __future__ import annotations

import functools
import itertools
from typing import Any, NamedTuple

from tensorplay_core.errors import DTypeError, ShapeError, ValueRangeError, fix
from tensorplay_core.ops.shape_checks import Shape, Shaped, SizeError, check_shape, shape_of
from tensorplay_core.ops.shapes_convolution import per_dim


class Pool(NamedTuple):
    """The sizes of one pool, each a tuple with one number a spatial dim.

    Attributes:
        size: of the input.
        kernel, stride, padding, dilation: of the windows.
        counts: how many windows there are.
        shape: of the result.
    """

    size: Shape
    kernel: Shape
    stride: Shape
    padding: Shape
    dilation: Shape
    counts: Shape
    shape: Shape


class Part(NamedTuple):
    """The windows along one dim that have an element at one place of theirs, and those elements.

    Attributes:
        windows: the slice of the windows.
        elements: the slice of the dim.
    """

    windows: slice
    elements: slice


def pool(
    op: str,
    input: Shape,
    dims: int,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    dilation: Any = 1,
    ceil_mode: bool = False,
) -> Pool:
    """Returns the sizes of a pool over the last ``dims`` dims, behind channels and perhaps a batch.

    Raises:
        ShapeError, ValueRangeError: something does not fit; the message says what, and what would.
    """
    lists = [tuple(one) if one.__class__ is list else one for one in (kernel_size, stride, padding, dilation)]
    return _pool(op, tuple(input), dims, *lists, bool(ceil_mode))


@functools.lru_cache(maxsize=1024)
def _pool(
    op: str, input: Shape, dims: int, kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool
) -> Pool:
    if len(input) not in (dims + 1, dims + 2) or 0 in input[len(input) - dims - 1 :]:
        names = ("L", "H, W", "D, H, W")[dims - 1]
        raise ShapeError(
            f"{op}: Expected {dims + 1}D or {dims + 2}D input, (C, {names}) or (N, C, {names}), of "
            "which only the batch "
            f"may be empty, but got shape {input}" + fix("reshape or unsqueeze it")
        )
    kernel = per_dim(op, kernel_size, dims, "kernel_size", 1)
    steps = kernel if stride is None or stride == () else per_dim(op, stride, dims, "stride", 1)
    pads, gaps = per_dim(op, padding, dims, "padding", 0), per_dim(op, dilation, dims, "dilation", 1)
    size, count = input[len(input) - dims :], []
    for d, (n, k, s, p, g) in enumerate(zip(size, kernel, steps, pads, gaps, strict=True)):
        extent = g * (k - 1) + 1
        if p > extent // 2:
            raise SizeError(
                f"{op}: padding should be at most half of the kernel's extent, but at spatial dim {d} "
                f"it is {p}, and the "
                f"kernel spans {extent}" + fix("pad with nn.functional.pad before")
            )
        windows = (n + 2 * p - extent + (s - 1 if ceil_mode else 0)) // s + 1
        if ceil_mode and (windows - 1) * s >= n + p:
            windows -= 1  # a window starts in the input or in the padding before it
        if windows < 1:
            raise ShapeError(
                f"{op}: Output size is too small: the kernel spans {extent} elements at spatial dim "
                f"{d}, and the input has "
                f"size {n}{f' padded to {n + 2 * p}' if p else ''}" + fix("use a smaller kernel, or more padding")
            )
        if g > 1 and p:
            _check_filled(op, d, n, k, s, p, g, windows)
        count.append(windows)
    shape = check_shape(op, (*input[: len(input) - dims], *count))
    return Pool(size, kernel, steps, pads, gaps, tuple(count), shape)


def _check_filled(op: str, dim: int, n: int, k: int, s: int, p: int, g: int, windows: int) -> None:
    """Refuses a window whose dilated places all lie in the padding, which has no largest element."""
    for i in range(windows):
        start = i * s - p
        if not any(0 <= start + j * g < n for j in range(k)):
            raise ShapeError(
                f"{op}: window {i} along spatial dim {dim} has no element of the input, which has size {n} there: with "
                f"padding {p} and dilation {g} all of its {k} places are padding" + fix("use less padding or dilation")
            )


@functools.lru_cache(maxsize=1024)
def parts(size: int, kernel: int, stride: int, padding: int, dilation: int, count: int) -> tuple[Part, ...]:
    """Returns for each place of a window along one dim which windows have an element there; others have padding.

    Example:
        >>> [(part.windows, part.elements) for part in parts(3, 2, 2, 0, 1, 2)]
        [(slice(0, 2, 1), slice(0, 3, 2)), (slice(0, 1, 1), slice(1, 2, 2))]
    """
    found = []
    for k in range(kernel):
        shift = k * dilation - padding
        first = max(0, -(shift // stride))
        last = max(first, min(count, (size - 1 - shift) // stride + 1))
        start = first * stride + shift
        end = start + (last - first - 1) * stride + 1 if last > first else start
        found.append(Part(slice(first, last, 1), slice(start, end, stride)))
    return tuple(found)


def places(found: Pool) -> list[tuple[tuple[slice, ...], tuple[slice, ...], tuple[int, ...]]]:
    """Returns for each place of a window, in C order: the windows, their elements there, and the place."""
    return [*_places(found)]


@functools.lru_cache(maxsize=256)
def _places(found: Pool) -> tuple[tuple[tuple[slice, ...], tuple[slice, ...], tuple[int, ...]], ...]:
    dims = zip(*(found.size, found.kernel, found.stride, found.padding, found.dilation, found.counts), strict=True)
    along = [[*enumerate(parts(*sizes))] for sizes in dims]
    made = []
    for chosen in itertools.product(*along):
        windows = (..., *(part.windows for _, part in chosen))
        elements = (..., *(part.elements for _, part in chosen))
        made.append((windows, elements, tuple(k for k, _ in chosen)))
    return tuple(made)  # type: ignore[arg-type]


def divisors(found: Pool, include_pad: bool) -> list[list[int]]:
    """Returns for each dim how many elements each window counts along it.

    What lies beyond the padding never counts: a window that ``ceil_mode`` lets reach there is shorter.

    Example:
        >>> divisors(pool("avg_pool1d", (1, 7), 1, 2, 3, 0, 1, True), True)
        [[2, 2, 1]]
    """
    counted = []
    for n, k, s, p, count in zip(found.size, found.kernel, found.stride, found.padding, found.counts, strict=True):
        starts = [i * s - p for i in range(count)]
        if include_pad:
            counted.append([min(start + k, n + p) - start for start in starts])
        else:
            counted.append([min(start + k, n) - max(start, 0) for start in starts])
    return counted


# ------------------------------------------------------------------------------------------------------------ the rules


def dims_of(op: str) -> int:
    """Returns the number of spatial dims that an operator's name says: 2 for ``max_pool2d_backward``.

    Example:
        >>> dims_of("max_pool2d_backward")
        2
    """
    return int(op[op.index("pool") + 4])


def max_pool(op: str, self: Shaped, *sizes: Any, **keywords: Any) -> Shape:
    """The shape of ``self`` with the number of windows in the place of the last sizes."""
    return pool(op, self.shape, dims_of(op), *_filled(sizes, (None, 0, 1, False), keywords)).shape


def max_pool_with_indices(op: str, self: Shaped, *sizes: Any, **keywords: Any) -> tuple[Shape, Shape]:
    """The same for values and indices."""
    shape = max_pool(op, self, *sizes, **keywords)
    return shape, shape


def pool_backward(op: str, grad_output: Shaped, self: Shaped, *sizes: Any, **keywords: Any) -> Shape:
    """The shape of ``self``."""
    return _checked_grad(op, grad_output, self, max_pool(op, self, *sizes, **keywords))


def avg_pool(
    op: str,
    self: Shaped,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
    **keywords: Any,
) -> Shape:
    """The shape of ``self`` with the number of windows in the place of the last sizes."""
    check_divisor(op, divisor_override)
    if self.dtype is not None and not self.dtype.is_inexact:
        raise DTypeError(
            f"{op}: takes floating and complex dtypes, not {self.dtype.name}: integers have no mean"
            + fix("convert with .to(dtype).")
        )
    return pool(op, self.shape, dims_of(op), kernel_size, stride, padding, 1, ceil_mode).shape


def avg_pool_backward(op: str, grad_output: Shaped, self: Shaped, *sizes: Any, **keywords: Any) -> Shape:
    """The shape of ``self``."""
    return _checked_grad(op, grad_output, self, avg_pool(op, self, *sizes, **keywords))


def check_divisor(op: str, divisor: int | None) -> None:
    """Refuses to divide by 0.

    Raises:
        ValueRangeError: the divisor is 0.
    """
    if divisor == 0:
        raise DivisorError(f"{op}: divisor must be not zero" + fix("leave divisor_override out for the mean"))


class DivisorError(ValueRangeError, ShapeError):
    """A divisor of 0: a ValueError, and a RuntimeError as in PyTorch."""


def _filled(sizes: tuple[Any, ...], defaults: tuple[Any, ...], keywords: dict[str, Any]) -> list[Any]:
    names = ("kernel_size", "stride", "padding", "dilation", "ceil_mode")
    given = dict(zip(names, sizes, strict=False)) | keywords
    return [given["kernel_size"], *(given.get(name, value) for name, value in zip(names[1:], defaults, strict=True))]


def _checked_grad(op: str, grad_output: Shaped, self: Shaped, shape: Shape) -> Shape:
    if shape_of(grad_output) != shape:
        raise ShapeError(f"{op}: grad_output must have shape {shape}, but has {shape_of(grad_output)}")
    return self.shape
