"""Pools in other operators: largest elements and means of windows, their gradients, and windows of adaptive size.

A pool over several dims is one over each of them in turn, for largest elements and for sums alike.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

from tensorplay_composite.operators.windows import extended, folded
from tensorplay_core.errors import ShapeError, fix
from tensorplay_core.ops import _generated_functional as F
from tensorplay_core.ops.creation import tensor
from tensorplay_core.ops.helpers_pooling import max_pool_scattered
from tensorplay_core.ops.shapes_convolution import per_dim
from tensorplay_core.ops.shapes_pooling import Pool, divisors, places, pool
from tensorplay_core.tensor.tensor import Tensor
from tensorplay_core.types.dtype import DType, float32

Sizes = Any  # an int, or one for each spatial dim


def least(dtype: DType) -> Any:
    """Returns the least number of a dtype."""
    if dtype.is_floating_point:
        return -math.inf
    return -(1 << (8 * dtype.itemsize - 1)) if dtype.is_signed else 0


def _along(found: Pool) -> list[tuple[int, ...]]:
    """Returns for each dim its size, kernel, stride, padding, dilation and number of windows."""
    return [*zip(*found[:6], strict=True)]


def _cut(self: Tensor, dim: int, part: slice) -> Tensor:
    return F.slice(self, dim, part.start, part.stop, part.step)


def _window_elements(self: Tensor, dim: int, sizes: tuple[int, ...], value: Any) -> list[Tensor]:
    """Returns for each place of the windows along a dim the elements there, ``value`` in the padding."""
    n, kernel, stride, padding, dilation, count = sizes
    reach = (count - 1) * stride + dilation * (kernel - 1) + 1
    whole = extended(self, dim, padding, reach - n - padding, value)
    starts = [k * dilation for k in range(kernel)]
    return [_cut(whole, dim, slice(start, start + (count - 1) * stride + 1, stride)) for start in starts]


def _reduced(self: Tensor, found: Pool, function: Callable[[Tensor, Tensor], Tensor], value: Any) -> Tensor:
    """Reduces each window, along one dim after the other; the padding has ``value``."""
    first = self.ndim - len(found.size)
    for d, sizes in enumerate(_along(found)):
        self = functools.reduce(function, _window_elements(self, first + d, sizes, value))
    return self


def _largest(self: Tensor, found: Pool) -> Tensor:
    """The largest element of each window."""
    best = _reduced(self, found, F.maximum, least(self.dtype))
    return best.clone() if max(found.kernel) == 1 else best


def _pooled(op: str, dims: int, indices: bool) -> Callable[..., Any]:
    def max_pool(
        self: Tensor,
        kernel_size: Sizes,
        stride: Sizes = (),
        padding: Sizes = 0,
        dilation: Sizes = 1,
        ceil_mode: bool = False,
    ) -> Any:
        found = pool(op, self.shape, dims, kernel_size, stride, padding, dilation, ceil_mode)
        best = _largest(self, found)
        return (best, _places_of(self, best, found)) if indices else best

    max_pool.__name__, max_pool.__doc__ = op, f"The largest elements of windows over {dims} dims."
    return max_pool


def _places_of(self: Tensor, best: Tensor, found: Pool) -> Tensor:
    """The place of the largest element of each window: the first that equals it; of NaNs the last, as in PyTorch."""
    result = F.zeros(best.shape, dtype=F.arange(1, device=self.device).dtype, device=self.device)
    every = places(found)
    for chosen, missing in ((every[::-1], False), (every if self.dtype.is_floating_point else [], True)):
        for windows, elements, place in chosen:
            element, largest = _cuts(self, elements), _cuts(best, windows)
            hit = element != element if missing else element == largest
            first = hit.ndim - len(found.size)
            for d, (part, count) in enumerate(zip(windows[1:], found.counts, strict=True)):
                hit = extended(hit, first + d, part.start, count - part.stop, False)
            result = F.where(hit, _grid(found, place, self), result)
    return result


def _cuts(self: Tensor, cuts: Any) -> Tensor:
    """Returns the view that slices of the last dims give; ``cuts`` starts with ``...``."""
    first = self.ndim - len(cuts) + 1
    for d, part in enumerate(cuts[1:]):
        self = _cut(self, first + d, part)
    return self


def _grid(found: Pool, place: tuple[int, ...], like: Tensor) -> Tensor:
    """For each window the number, in C order, of the element at a place of it."""
    total: Any = None
    for d, (k, (_, _, stride, padding, dilation, count)) in enumerate(zip(place, _along(found), strict=True)):
        step, start = math.prod(found.size[d + 1 :]), k * dilation - padding
        end = (start + count * stride) * step
        numbers = F.arange(start * step, end, stride * step, device=like.device)
        numbers = numbers.reshape((count, *(1,) * (len(place) - 1 - d)))
        total = numbers if total is None else total + numbers
    return total


def _pooled_backward(op: str, dims: int) -> Callable[..., Tensor]:
    def max_pool_backward(
        grad_output: Tensor,
        self: Tensor,
        kernel_size: Sizes,
        stride: Sizes = (),
        padding: Sizes = 0,
        dilation: Sizes = 1,
        ceil_mode: bool = False,
    ) -> Tensor:
        found = pool(op, self.shape, dims, kernel_size, stride, padding, dilation, ceil_mode)
        indices = _places_of(self, _largest(self, found), found)
        return max_pool_scattered(grad_output, self.shape, indices, dims)

    max_pool_backward.__name__, max_pool_backward.__doc__ = op, "Gradients at the places of the largest elements."
    return max_pool_backward


# ---------------------------------------------------------------------------------------------------------------- means


def _divided(total: Tensor, found: Pool, include_pad: bool, divisor: int | None) -> Tensor:
    """Divides the sum of each window by the number of elements that count."""
    if divisor is not None:
        return total / divisor
    for d, counts in enumerate(divisors(found, include_pad)):
        if len({*counts}) == 1:
            total = total / counts[0] if counts[0] != 1 else total
            continue
        real = total.dtype.real_dtype
        by = tensor([float(n) for n in counts], dtype=real, device=total.device)
        total = total / by.reshape([-1] + [1] * (len(found.size) - 1 - d))
    return total


def _wide(self: Tensor) -> Tensor:
    """Returns half precisions in float32."""
    return self.to(float32) if self.dtype.is_floating_point and self.dtype.itemsize == 2 else self


def _averaged(op: str, dims: int) -> Callable[..., Tensor]:
    def avg_pool(
        self: Tensor,
        kernel_size: Sizes,
        stride: Sizes = (),
        padding: Sizes = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> Tensor:
        found = pool(op, self.shape, dims, kernel_size, stride, padding, 1, ceil_mode)
        total = _divided(_reduced(_wide(self), found, F.add, 0), found, count_include_pad, divisor_override)
        return self.clone() if total is self else total.to(self.dtype)

    avg_pool.__name__, avg_pool.__doc__ = op, f"The means of windows over {dims} dims."
    return avg_pool


def _averaged_backward(op: str, dims: int) -> Callable[..., Tensor]:
    def avg_pool_backward(
        grad_output: Tensor,
        self: Tensor,
        kernel_size: Sizes,
        stride: Sizes,
        padding: Sizes,
        ceil_mode: bool,
        count_include_pad: bool,
        divisor_override: int | None,
    ) -> Tensor:
        found = pool(op, self.shape, dims, kernel_size, stride, padding, 1, ceil_mode)
        total = _divided(_wide(grad_output), found, count_include_pad, divisor_override)
        first = self.ndim - dims
        for d, (n, kernel, stride, padding, _, count) in enumerate(_along(found)):
            room = max(n + padding, (count - 1) * stride + kernel)
            spread = folded([total] * kernel, first + d, room, stride, 1)
            total = _cut(spread, first + d, slice(padding, padding + n, 1))
        return total.clone() if total.dtype is grad_output.dtype else total.to(grad_output.dtype)

    avg_pool_backward.__name__, avg_pool_backward.__doc__ = op, "Gradients spread over windows, divided as they were."
    return avg_pool_backward


# --------------------------------------------------------------------------------------------------- one dim, adaptive


def _widened(op: str, self: Tensor) -> Tensor:
    """Returns (N, C, L) or (C, L) with a dim of size 1 before the last."""
    if self.ndim not in (2, 3):
        raise ShapeError(
            f"{op}: Expected 2D or 3D input, (C, L) or (N, C, L), but got shape {self.shape}"
            + fix("reshape or unsqueeze it")
        )
    return self.unsqueeze(-2)


def max_pool1d(
    self: Tensor,
    kernel_size: Sizes,
    stride: Sizes = (),
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
) -> Tensor:
    """The largest elements of windows over one dim."""
    sizes = _one_dim("max_pool1d", self, kernel_size, stride, padding, dilation, ceil_mode)
    return F.max_pool2d(_widened("max_pool1d", self), *sizes).squeeze(-2)


def max_pool1d_with_indices(
    self: Tensor,
    kernel_size: Sizes,
    stride: Sizes = (),
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
) -> tuple[Tensor, Tensor]:
    """The same with their places."""
    op = "max_pool1d_with_indices"
    sizes = _one_dim(op, self, kernel_size, stride, padding, dilation, ceil_mode)
    values, indices = F.max_pool2d_with_indices(_widened(op, self), *sizes)
    return values.squeeze(-2), indices.squeeze(-2)


def _one_dim(op: str, self: Tensor, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool) -> Any:
    found = pool(op, self.shape, 1, kernel, stride, padding, dilation, ceil_mode)
    return (1, *found.kernel), (1, *found.stride), (0, *found.padding), (1, *found.dilation), ceil_mode


def avg_pool1d(
    self: Tensor,
    kernel_size: Sizes,
    stride: Sizes = (),
    padding: Sizes = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor:
    """The means of windows over one dim."""
    kernel, steps, pads, _, _ = _one_dim("avg_pool1d", self, kernel_size, stride, padding, 1, ceil_mode)
    wide = _widened("avg_pool1d", self)
    return F.avg_pool2d(wide, kernel, steps, pads, ceil_mode, count_include_pad).squeeze(-2)


def _adaptive(op: str, dims: int) -> Callable[..., Tensor]:
    averaged = {1: "avg_pool1d", 2: "avg_pool2d", 3: "avg_pool3d"}[dims]

    def adaptive_avg_pool(self: Tensor, output_size: Sizes) -> Tensor:
        sizes = self.shape[self.ndim - dims :]
        if self.ndim not in (dims + 1, dims + 2) or 0 in self.shape[self.ndim - dims - 1 :]:
            raise ShapeError(
                f"{op}: Expected {dims + 1}D or {dims + 2}D input, of which only the batch may be empty, but got shape "
                f"{self.shape}" + fix("reshape or unsqueeze it")
            )
        wanted = per_dim(op, output_size, dims, "output_size", 0)
        last = tuple(range(self.ndim - dims, self.ndim))
        if set(wanted) == {1}:
            return self.mean(last, True)
        if 0 not in wanted and not any(n % m for n, m in zip(sizes, wanted, strict=True)):
            return getattr(F, averaged)(self, [n // m for n, m in zip(sizes, wanted, strict=True)])
        total = _wide(self)
        for dim, n, m in zip(last, sizes, wanted, strict=True):
            rows = [F.slice(total, dim, i * n // m, -(-(i + 1) * n // m)).mean(dim, True) for i in range(m)]
            total = F.cat(rows, dim) if rows else F.slice(total, dim, 0, 0)
        return total.to(self.dtype)

    adaptive_avg_pool.__name__, adaptive_avg_pool.__doc__ = op, f"Means of adaptive windows over {dims} dims."
    return adaptive_avg_pool


KERNELS: dict[str, Callable[..., Any]] = {
    "max_pool1d": max_pool1d,
    "max_pool1d_with_indices": max_pool1d_with_indices,
    "avg_pool1d": avg_pool1d,
    **{f"max_pool{n}d": _pooled(f"max_pool{n}d", n, False) for n in (2, 3)},
    **{f"max_pool{n}d_with_indices": _pooled(f"max_pool{n}d_with_indices", n, True) for n in (2, 3)},
    **{f"max_pool{n}d_backward": _pooled_backward(f"max_pool{n}d_backward", n) for n in (2, 3)},
    **{f"avg_pool{n}d": _averaged(f"avg_pool{n}d", n) for n in (2, 3)},
    **{f"avg_pool{n}d_backward": _averaged_backward(f"avg_pool{n}d_backward", n) for n in (2, 3)},
    **{f"adaptive_avg_pool{n}d": _adaptive(f"adaptive_avg_pool{n}d", n) for n in (1, 2, 3)},
}
"""Name in the contract to Composite kernel."""
