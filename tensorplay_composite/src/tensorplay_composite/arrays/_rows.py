"""How windows of stride 1 lie in one long row of padded images, and which of their places are worth a copy."""

from __future__ import annotations

import functools
import itertools
import math
from typing import NamedTuple

Sizes = tuple[int, ...]
Pads = tuple[tuple[int, int], ...]


class Row(NamedTuple):
    """How the windows of stride 1 lie in the row of images, with padding between their rows and between them.

    What pads the end of a row of an image pads the start of the next one too.

    Attributes:
        sizes: of an image with the padding behind it.
        lead: how many zeros are before the first image.
        copied: the shifts that are copied side by side.
        read: the shifts that are not copied, each of which goes with every copied one.
        reach: how many elements are read behind the last window's first.
    """

    sizes: Sizes
    lead: int
    copied: tuple[int, ...]
    read: tuple[int, ...]
    reach: int


@functools.lru_cache(maxsize=1024)
def row_of(sizes: Sizes, kernel: Sizes, pads: Pads, dilation: Sizes, uncopied: int) -> Row:
    """Returns the shifts of a window's places; those of the first ``uncopied`` dims stay where they are.

    Example:
        >>> row_of((3, 4), (2, 3), ((0, 1), (1, 1)), (1, 1), 1)
        Row(sizes=(4, 5), lead=1, copied=(0, 1, 2), read=(0, 5), reach=7)
    """
    dims = [*zip(sizes, kernel, pads, dilation, strict=True)]
    # A window may also start in the padding alone, where there is more of it than the kernel reaches over.
    padded = tuple([max(n + max(pad), n + sum(pad) - g * (k - 1)) for n, k, pad, g in dims])
    steps = [math.prod(padded[d + 1 :]) for d in range(len(padded))]
    lead = sum(pad[0] * step for pad, step in zip(pads, steps, strict=True))
    shifts = [[k * g * step for k in range(n)] for (_, n, _, g), step in zip(dims, steps, strict=True)]
    read, copied = (tuple(map(sum, itertools.product(*part))) for part in (shifts[:uncopied], shifts[uncopied:]))
    return Row(padded, lead, copied, read, max(read[-1] + copied[-1], lead))


@functools.lru_cache(maxsize=1024)
def cheapest(kernel: Sizes, channels: int, outer: int) -> int:
    """Returns how many of the first dims are not copied, so that copies of channels and sums of results are fewest.

    Example:
        >>> [cheapest((3, 3), *channels) for channels in ((1, 16), (16, 8), (16, 1))]
        [0, 1, 2]
    """
    costs = []
    for uncopied in {0, len(kernel) - 1, len(kernel)}:
        copies, sums = math.prod(kernel[uncopied:]), math.prod(kernel[:uncopied]) - 1
        costs.append((channels * copies * (copies > 1) + 1.2 * outer * sums, uncopied))
    return min(costs)[1]
