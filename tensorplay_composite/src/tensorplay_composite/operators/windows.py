"""Windows that slide over the last dims of a tensor: cut out, and added back, without a write to any tensor.

Convolutions, pools and ``im2col`` are made of these. The loop is over the places in a window, of which there are few,
never over windows. Where arrays cannot be written to, a write to a view would be a copy of the whole tensor.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

from tensorplay_core.ops import _generated_functional as F
from tensorplay_core.tensor.tensor import Tensor

Sizes = Sequence[int]


def places(kernel: Sizes) -> Iterator[tuple[int, ...]]:
    """Yields the places of a window in C order."""
    return itertools.product(*map(range, kernel))


def one_of_each(self: Tensor, place: Sizes, count: Sizes, stride: Sizes, dilation: Sizes) -> Tensor:
    """Returns the view that holds, of each window over the last dims, the element at a place."""
    first = self.ndim - len(count)
    for d, (k, n, s, g) in enumerate(zip(place, count, stride, dilation, strict=True)):
        self = F.slice(self, first + d, k * g, k * g + (n - 1) * s + 1 if n else k * g, s)
    return self


def columns(self: Tensor, kernel: Sizes, count: Sizes, stride: Sizes, dilation: Sizes) -> Tensor:
    """Returns the windows over the dims behind (N, C) as a tensor (N, C, places, *count)."""
    return F.stack([one_of_each(self, place, count, stride, dilation) for place in places(kernel)], 2)


def added(self: Tensor, sizes: Sizes, kernel: Sizes, stride: Sizes, dilation: Sizes) -> Tensor:
    """Returns (N, C, *sizes), to which the windows of (N, C, places, *count) are added up."""
    self = self.reshape((*self.shape[:2], *kernel, *self.shape[3:]))
    for room, k, s, g in zip(sizes, kernel, stride, dilation, strict=True):
        # The kernel's dims that are left come first, then the counts; those that are done are last.
        parts = [self.select(2, i) for i in range(k)]
        self = folded(parts, self.ndim - 1 - len(sizes), room, s, g).movedim(self.ndim - 1 - len(sizes), -1)
    return self


def folded(parts: Sequence[Tensor], dim: int, room: int, stride: int, dilation: int) -> Tensor:
    """Returns a sum over the places of a window along one dim: element ``i`` of place ``k`` goes where it came from.

    That is ``i * stride + k * dilation``. Places with the same remainder by the stride are added with a shift; the
    remainders then alternate, as the last two dims of a product of sizes do.

    Args:
        parts: for each place its tensor, with one element a window along ``dim``.
        dim: the dim of the windows, not negative.
        room: the size of the result, which all windows fit into.
        stride: steps between windows.
        dilation: steps between places.

    Example:
        >>> import tensorplay as tp
        >>> folded([tp.tensor([1.0, 2.0]), tp.tensor([10.0, 20.0])], 0, 5, 2, 1)
        tensor([ 1., 10.,  2., 20.,  0.])
    """
    rows, count = -(-room // stride), parts[0].shape[dim]
    sums: list[Tensor | None] = [None] * stride
    for k, part in enumerate(parts):
        shift, rest = divmod(k * dilation, stride)
        one, sum_ = extended(part, dim, shift, rows - shift - count), sums[rest]
        sums[rest] = one if sum_ is None else sum_ + one
    if stride == 1:
        return next(one for one in sums if one is not None)
    shape = [rows if d == dim else n for d, n in enumerate(parts[0].shape)]
    nothing = parts[0].new_zeros(shape) if None in sums else None
    every = F.stack([nothing if one is None else one for one in sums], dim + 1)  # type: ignore[misc]
    return F.slice(every.reshape((*shape[:dim], rows * stride, *shape[dim + 1 :])), dim, 0, room)


def extended(self: Tensor, dim: int, before: int, after: int, value: Any = 0) -> Tensor:
    """Returns the tensor with so many elements of one value at the ends of a dim, itself where there are none."""
    if before <= 0 and after <= 0:
        return self

    def more(count: int) -> list[Tensor]:
        shape = [count if d == dim else n for d, n in enumerate(self.shape)]
        return [self.new_full(shape, value)] if count > 0 else []

    return F.cat([*more(before), self, *more(after)], dim)


def padded(self: Tensor, padding: Sizes, value: float = 0) -> Tensor:
    """Returns the tensor with so many elements at both ends of its last dims, itself where there are none."""
    if not any(padding):
        return self
    return F.constant_pad_nd(self, [n for size in reversed(padding) for n in (size, size)], value)


def cropped(self: Tensor, padding: Sizes, sizes: Sizes) -> Tensor:
    """Returns the part of the last dims that is left without the padding."""
    first = self.ndim - len(sizes)
    for d, (start, size) in enumerate(zip(padding, sizes, strict=True)):
        if self.shape[first + d] != size:
            self = F.slice(self, first + d, start, start + size)
    return self
