"""What combining elements at an index is made of: the places it names, and the rounds in which they are combined.

The Composite kernel of ``scatter_reduce`` and its gradient share it. A place that comes often takes part in as many
rounds; which those are only the host can tell, where a device has no sorting.
"""

from __future__ import annotations

from collections.abc import Sequence

from tensorplay_core.ops import _generated_functional as F
from tensorplay_core.tensor.tensor import Tensor


def combine(reduce: str, one: Tensor, other: Tensor) -> Tensor:
    """Returns what a reduction makes of two tensors; a mean is a sum until it is divided."""
    if reduce in ("sum", "mean"):
        return one + other
    return one * other if reduce == "prod" else (F.maximum if reduce == "amax" else F.minimum)(one, other)


def flat_places(self: Tensor, dim: int, index: Tensor, src: Tensor) -> tuple[list[int], Tensor]:
    """Returns where in C order each element of an index points to, and the elements of ``src`` that go there."""
    count = self.numel()
    every = F.arange(count, device=self.device).reshape(self.shape)
    places = F.gather(every, dim, index).reshape(index.numel())
    return places.tolist(), within(src, index.shape).reshape(index.numel())


def within(src: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Returns the corner of a tensor that an index of that shape reads."""
    if src.ndim != len(shape):  # one has no dims, and the other one of size 1
        return src.reshape(shape)
    for dim, size in enumerate(shape):
        if src.shape[dim] != size:
            src = F.slice(src, dim, 0, size)
    return src


def beyond(grad: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Returns the gradient of :func:`within`: zeros around the corner."""
    if grad.ndim != len(shape):
        return grad.reshape(shape)
    for dim, size in enumerate(shape):
        if grad.shape[dim] != size:
            sizes = (*grad.shape[:dim], size, *grad.shape[dim + 1 :])
            grad = F.slice_backward(grad, sizes, dim, 0, grad.shape[dim], 1)
    return grad


def occurrences(places: Sequence[int]) -> list[tuple[list[int], list[int]]]:
    """Returns the rounds of a combination: in each every place comes once at most, with the element that goes there.

    Example:
        >>> occurrences([4, 2, 4])
        [([4, 2], [0, 1]), ([4], [2])]
    """
    seen: dict[int, int] = {}
    rounds: list[tuple[list[int], list[int]]] = []
    for source, place in enumerate(places):
        nth = seen.get(place, 0)
        seen[place] = nth + 1
        if nth == len(rounds):
            rounds.append(([], []))
        rounds[nth][0].append(place)
        rounds[nth][1].append(source)
    return rounds
