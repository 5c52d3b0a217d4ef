"""References of padding: for each element of the result the place that it comes from."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from tensorplay_core.testing.references.array import Array, strides_of
from tensorplay_core.testing.references.reference import Reference
from tensorplay_core.testing.references.rounding import round_to


def _padded(self: Array, pad: Sequence[int], source: Callable[[int, int], int | None], filler: Any) -> Array:
    """Takes each element from where ``source`` says, given a place along a dim and the dim's size; None is filled."""
    pairs = [(pad[i], pad[i + 1]) for i in range(0, len(pad), 2)]
    pairs += [(0, 0)] * (self.ndim - len(pairs))
    pairs.reverse()
    shape = tuple(size + before + after for size, (before, after) in zip(self.shape, pairs, strict=True))
    steps, data = strides_of(self.shape), []
    for place in itertools.product(*map(range, shape)):
        at = [
            i - before if 0 <= i - before < size else source(i - before, size)
            for i, (before, _), size in zip(place, pairs, self.shape, strict=True)
        ]
        where = sum(i * step for i, step in zip(at, steps, strict=True)) if None not in at else None  # type: ignore[operator, misc]
        data.append(filler if where is None else self.data[where])
    return Array(shape, data, self.dtype)


def constant_pad_nd(self: Array, pad: Sequence[int], value: Any = 0) -> Array:
    """A constant around the tensor."""
    return _padded(self, pad, lambda i, size: None, round_to([value], self.dtype)[0])


_MODES: dict[str, Callable[[int, int], int]] = {
    "reflect": lambda i, size: -i if i < 0 else 2 * (size - 1) - i,
    "replicate": lambda i, size: 0 if i < 0 else size - 1,
    "circular": lambda i, size: i % size,
}


def pad(self: Array, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> Array:
    """A constant or parts of the tensor around it."""
    if mode == "constant":
        return constant_pad_nd(self, pad, value or 0)
    if mode == "circular":  # what is left after cutting goes round
        self, pad = constant_pad_nd(self, [min(n, 0) for n in pad]), [max(n, 0) for n in pad]
    return _padded(self, pad, _MODES[mode], None)


REFERENCES: dict[str, Reference] = {
    "constant_pad_nd": Reference(constant_pad_nd, {}, bits=True),
    "pad": Reference(pad, {}, bits=True),
}
