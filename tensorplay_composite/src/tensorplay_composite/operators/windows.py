"""Windows that slide over the last dims of a tensor: cut out, and added back, in views alone.

Convolutions, pools and ``im2col`` are made of these two. The loop is over the places in a window, of which there are
few, never over windows.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

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
    total = self.new_zeros((*self.shape[:2], *sizes))
    for i, place in enumerate(places(kernel)):
        one_of_each(total, place, self.shape[3:], stride, dilation).add_(self.select(2, i))
    return total


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
