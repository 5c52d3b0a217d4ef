"""Windows as columns and back, channels as pixels and back, and resizing.

Resizing works along one dim after the other: each place of the result reads one or two places of the input, which are
computed in Python's numbers, so that every device has the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from tensorplay_composite.operators.windows import added, columns, cropped, padded
from tensorplay_core.errors import ArgumentError, ShapeError, ValueRangeError, did_you_mean, fix
from tensorplay_core.ops import _generated_functional as F
from tensorplay_core.ops import shapes_padding
from tensorplay_core.ops.creation import tensor
from tensorplay_core.ops.shape_checks import Shaped, as_int, as_ints
from tensorplay_core.ops.shapes_padding import windows_of
from tensorplay_core.tensor.tensor import Tensor
from tensorplay_core.types.dtype import float32

Sizes = Any  # an int, or one for each spatial dim
_LINEAR = {"linear": 1, "bilinear": 2, "trilinear": 3}
MODES = ("nearest", "nearest-exact", *_LINEAR, "area")


def im2col(self: Tensor, kernel_size: Sizes, dilation: Sizes, padding: Sizes, stride: Sizes) -> Tensor:
    """Windows as columns."""
    shape = shapes_padding.im2col("im2col", Shaped(self.shape), kernel_size, dilation, padding, stride)
    found = windows_of("im2col", self.shape[-2:], kernel_size, dilation, padding, stride)
    whole = padded(self if self.ndim == 4 else self.unsqueeze(0), found.padding)
    return columns(whole, found.kernel, found.counts, found.stride, found.dilation).reshape(shape)


def col2im(
    self: Tensor, output_size: Sizes, kernel_size: Sizes, dilation: Sizes, padding: Sizes, stride: Sizes
) -> Tensor:
    """Columns added back to where windows are."""
    sizes = (output_size, kernel_size, dilation, padding, stride)
    shape = shapes_padding.col2im("col2im", Shaped(self.shape), *sizes)
    found = windows_of("col2im", shape[-2:], kernel_size, dilation, padding, stride)
    batch = self.shape[0] if self.ndim == 3 else 1
    parts = self.reshape((batch, shape[-3], math.prod(found.kernel), *found.counts))
    room = [n + 2 * p for n, p in zip(shape[-2:], found.padding, strict=True)]
    half = self.dtype.is_floating_point and self.dtype.itemsize == 2
    total = added(parts.to(float32) if half else parts, room, found.kernel, found.stride, found.dilation)
    total = cropped(total, found.padding, shape[-2:]).reshape(shape).clone()
    return total.to(self.dtype) if half else total


# -------------------------------------------------------------------------------------------------- channels as pixels


def _factor(op: str, self: Tensor, factor: int, name: str) -> int:
    value = as_int(op, factor, name)
    if self.ndim < 3:
        raise ShapeError(f"{op}: expects input to have at least 3 dimensions, (*, C, H, W), but got shape {self.shape}")
    if value < 1:
        raise ValueRangeError(f"{op}: expects a positive {name}, but got {value}")
    return value


def pixel_shuffle(self: Tensor, upscale_factor: int) -> Tensor:
    """Channels spread over pixels."""
    r = _factor("pixel_shuffle", self, upscale_factor, "upscale_factor")
    *outer, channels, height, width = self.shape
    if channels % (r * r):
        raise ShapeError(
            f"pixel_shuffle: expects its input's 'channel' dimension to be divisible by the square "
            "of upscale_factor, but "
            f"{channels} is not divisible by {r * r}"
        )
    n = len(outer)
    parts = self.reshape((*outer, channels // (r * r), r, r, height, width))
    parts = parts.permute((*range(n), n, n + 3, n + 1, n + 4, n + 2)).clone()
    return parts.reshape((*outer, channels // (r * r), height * r, width * r))


def pixel_unshuffle(self: Tensor, downscale_factor: int) -> Tensor:
    """Pixels gathered into channels."""
    r = _factor("pixel_unshuffle", self, downscale_factor, "downscale_factor")
    *outer, channels, height, width = self.shape
    if height % r or width % r:
        raise ShapeError(
            f"pixel_unshuffle: expects height and width to be divisible by downscale_factor, but "
            f"{height, width} are not "
            f"by {r}"
        )
    n = len(outer)
    parts = self.reshape((*outer, channels, height // r, r, width // r, r))
    parts = parts.permute((*range(n), n, n + 2, n + 4, n + 1, n + 3)).clone()
    return parts.reshape((*outer, channels * r * r, height // r, width // r))


# ------------------------------------------------------------------------------------------------------------ resizing


def interpolate(
    self: Tensor,
    size: Sequence[int] | None = None,
    scale_factor: Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Tensor:
    """A tensor resized, by one of the modes."""
    _check_mode(self, mode, align_corners, antialias)
    dims = self.ndim - 2
    sizes, scales = _resized(self, size, scale_factor, bool(recompute_scale_factor))
    if mode == "area":
        pools: list[Callable[..., Tensor]] = [F.adaptive_avg_pool1d, F.adaptive_avg_pool2d, F.adaptive_avg_pool3d]
        return pools[dims - 1](self, sizes)
    half = self.dtype.is_floating_point and self.dtype.itemsize == 2
    x = self.to(float32) if half and mode in _LINEAR else self
    for d, (wanted, scale) in enumerate(zip(sizes, scales, strict=True)):
        dim, n = d + 2, self.shape[d + 2]
        step = 1 / scale if scale else n / wanted
        if mode in _LINEAR:
            x = _linear(x, dim, n, wanted, step, bool(align_corners))
        else:
            shift = 0.5 if mode == "nearest-exact" else 0.0
            x = _nearest(x, dim, n, [min(math.floor((i + shift) * step), n - 1) for i in range(wanted)])
    return x.to(self.dtype) if x.dtype is not self.dtype else x.clone() if x is self else x


def _check_mode(self: Tensor, mode: str, align_corners: bool | None, antialias: bool) -> None:
    if mode not in MODES:
        raise ValueRangeError(
            f"interpolate: unknown mode {mode!r}.{did_you_mean(str(mode), MODES)}" + fix(f"one of {', '.join(MODES)}")
        )
    if self.ndim not in (3, 4, 5) or 0 in self.shape[1:]:
        raise ShapeError(
            f"interpolate: takes (N, C, *sizes) with one to three sizes, of which only the batch "
            "may be empty, not shape "
            f"{self.shape}"
        )
    if mode in _LINEAR and _LINEAR[mode] != self.ndim - 2:
        right = next(name for name, dims in _LINEAR.items() if dims == self.ndim - 2)
        raise ShapeError(
            f"interpolate: mode {mode!r} is for {_LINEAR[mode]} spatial dims, and shape "
            f"{self.shape} has {self.ndim - 2}" + fix(f"mode={right!r}")
        )
    if align_corners is not None and mode not in _LINEAR:
        raise ValueRangeError(
            f"interpolate: align_corners can only be set with the modes {', '.join(_LINEAR)}, not with {mode!r}"
        )
    if antialias:
        raise ValueRangeError("interpolate: antialias is for the modes bilinear and bicubic of PyTorch alone; not here")
    if mode in _LINEAR and not self.dtype.is_inexact:
        raise ArgumentError(f"interpolate: mode {mode!r} takes floating dtypes, not {self.dtype.name}")


def _resized(self: Tensor, size: Any, scale_factor: Any, recompute: bool) -> tuple[list[int], list[float | None]]:
    """Returns the new sizes, and the scales where they decide which places are read."""
    dims = self.ndim - 2
    if (size is None) == (scale_factor is None):
        raise ArgumentError("interpolate: either size or scale_factor must be given, and not both")
    if size is not None:
        if recompute:
            raise ValueRangeError("interpolate: recompute_scale_factor is not meaningful with an explicit size.")
        given = as_ints("interpolate", size, "size")
        sizes = [*given] * (dims if len(given) == 1 else 1)
        _check_count("size", sizes, dims)
        if min(sizes) < 1:
            raise ValueRangeError(f"interpolate: sizes must be greater than 0, but size is {tuple(sizes)}")
        return sizes, [None] * dims
    factors = list(scale_factor) if isinstance(scale_factor, (tuple, list)) else [scale_factor]
    factors = factors * (dims if len(factors) == 1 else 1)
    _check_count("scale_factor", factors, dims)
    sizes = [math.floor(n * f) for n, f in zip(self.shape[2:], factors, strict=True)]
    if min(sizes) < 1:
        raise ValueRangeError(f"interpolate: scale_factor {factors} makes sizes {sizes} of {self.shape[2:]}: too small")
    return sizes, [None] * dims if recompute else factors


def _check_count(name: str, values: Sequence[Any], dims: int) -> None:
    if len(values) != dims:
        raise ShapeError(f"interpolate: {name} {tuple(values)} must have one number, or {dims}, one a spatial dim")


def _nearest(x: Tensor, dim: int, size: int, source: list[int]) -> Tensor:
    if source == [*range(size)]:
        return x
    times = len(source) // size
    if source == [i // times for i in range(size * times)] if times else False:
        shape = x.shape
        wide = x.unsqueeze(dim + 1).expand((*shape[: dim + 1], times, *shape[dim + 1 :]))
        return wide.reshape((*shape[:dim], size * times, *shape[dim + 1 :]))
    return F.index(x, [*(None,) * dim, tensor(source, device=x.device)])


def _linear(x: Tensor, dim: int, size: int, wanted: int, step: float, corners: bool) -> Tensor:
    if corners:
        step = (size - 1) / (wanted - 1) if wanted > 1 else 0.0
    places = [i * step if corners else max((i + 0.5) * step - 0.5, 0.0) for i in range(wanted)]
    below = [min(int(p), size - 1) for p in places]
    if places == below == [*range(size)]:
        return x
    above = [min(i + 1, size - 1) for i in below]
    weights = [min(p - i, 1.0) for p, i in zip(places, below, strict=True)]
    shape = (wanted, *(1,) * (x.ndim - dim - 1))
    real = x.dtype.real_dtype
    first, second = (
        F.index(x, [*(None,) * dim, tensor(where, device=x.device)])
        * tensor(part, dtype=real, device=x.device).reshape(shape)
        for where, part in ((below, [1 - w for w in weights]), (above, weights))
    )
    return first + second


KERNELS: dict[str, Callable[..., Any]] = {
    "im2col": im2col,
    "col2im": col2im,
    "pixel_shuffle": pixel_shuffle,
    "pixel_unshuffle": pixel_unshuffle,
    "interpolate": interpolate,
}
"""Name in the contract to Composite kernel."""
