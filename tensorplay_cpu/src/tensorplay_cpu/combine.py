"""Combining elements at an index and rolling, through what NumPy alone has: ``ufunc.at``, and copies of slices.

``ufunc.at`` goes through the elements once where the general kernel sorts them; a roll copies each part of the result
once, where ``numpy.roll`` spends microseconds on finding out which parts there are.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from tensorplay_composite.arrays import Kernels, Support, quietly
from tensorplay_composite.arrays.combine import scattering

_AT = {
    "sum": np.add.at,
    "mean": np.add.at,
    "prod": np.multiply.at,
    "amax": np.maximum.at,
    "amin": np.minimum.at,
}


@quietly
def at_places() -> Kernels:
    """What :func:`scattering` asks for, over NumPy."""
    bincount = np.bincount

    def combined(reduce: str, flat: Any, places: Any, values: Any) -> Any:
        _AT[reduce](flat, places, values)
        return flat

    def counted(size: int, places: Any) -> Any:
        return bincount(places, minlength=size)

    return {"combined": combined, "counted": counted}


@quietly
def moving(general: Kernels) -> Kernels:
    """``roll`` of dims as copies of slices into one new array."""
    general_roll, empty = general["roll"], np.empty

    def roll(self: Any, shifts: Any, dims: Any = ()) -> Any:
        shape = self.shape
        if not shape or 0 in shape:
            return general_roll(self, shifts, dims)
        if dims.__class__ is int:
            dims = (dims,)
        if not dims:
            shifts = (shifts,) if shifts.__class__ is int else shifts
            if len(shifts) != 1:
                return general_roll(self, shifts, dims)  # which says what is wrong
            return roll(self.reshape(-1), shifts, (0,)).reshape(shape)
        if shifts.__class__ is int:
            shifts = (shifts,)
        ndim = len(shape)
        if len(shifts) != len(dims) or min(dims) < -ndim:
            return general_roll(self, shifts, dims)
        steps: dict[int, int] = {}
        for dim, by in zip(dims, shifts, strict=True):
            d = dim + ndim if dim < 0 else dim
            steps[d] = (steps.get(d, 0) + by) % shape[d]
        result = empty(shape, self.dtype)
        parts = []
        for d in range(ndim):
            by = steps.get(d, 0)
            whole = (slice(None), slice(None))
            parts.append([(slice(by, None), slice(None, -by)), (slice(None, by), slice(-by, None))] if by else [whole])
        for pairs in itertools.product(*parts):
            result[tuple([to for to, _ in pairs])] = self[tuple([source for _, source in pairs])]
        return result

    return {"roll": roll}


def kernels(general: Kernels) -> Kernels:
    """Returns the replacements; ``general`` serves what they leave out."""
    ways = at_places()
    return {**scattering(np, Support(np), ways["combined"], ways["counted"]), **moving(general)}
