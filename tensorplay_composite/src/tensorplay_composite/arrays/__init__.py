"""Kernels written once over an array module, bound when a backend registers them.

``kernels(xp)`` gives a NumPy-like module ``xp`` the operators of the contract, and :class:`ArrayDevice` the rest of
what a device needs. Together they are a whole backend; one that knows better replaces some of the kernels with its own:
``{**kernels(xp), **its_own}``. ``emitter(xp, kernels)`` makes of these the operators that are given by ``math`` alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tensorplay_composite.arrays import (
    activation,
    combine,
    convolution,
    creation,
    distance,
    elementary,
    factorization,
    indexing,
    linalg,
    nn,
    padding,
    pointwise,
    pooling,
    reduction,
    scan,
    sorting,
    view,
)
from tensorplay_composite.arrays._support import Kernel, Kernels, Support, quietly
from tensorplay_composite.arrays.device import ArrayDevice
from tensorplay_composite.arrays.math import emitter
from tensorplay_composite.arrays.random import HostRandom

__all__ = ["ArrayDevice", "HostRandom", "Kernel", "Kernels", "Support", "emitter", "kernels", "quietly"]

_FAMILIES = (
    pointwise,
    elementary,
    reduction,
    view,
    indexing,
    linalg,
    distance,
    nn,
    activation,
    scan,
    sorting,
    factorization,
    convolution,
    padding,
    pooling,
    combine,
)


def kernels(
    xp: Any,
    *,
    random: HostRandom | None = None,
    mutable: bool | None = None,
    dtypes: Mapping[str, Any] | None = None,
) -> Kernels:
    """Returns a kernel for every operator that a backend owes, by its name in the contract.

    Args:
        xp: a module like NumPy: NumPy itself, CuPy, or one that follows the Python array API standard.
        random: where random numbers come from; ``ArrayDevice.random`` of the same device, so that ``manual_seed``
            reaches it.
        mutable: arrays can be written to, as :class:`ArrayDevice` says. Where they cannot, a kernel of an operator that
            writes returns what it would have written.
        dtypes: dtype name to native dtype, where the device has fewer than the module.

    Returns:
        Functions of raw arrays of ``xp``. Some are the module's own (``"add": xp.add``), the others closures over it.

    Example:
        >>> import numpy
        >>> kernels(numpy)["add"] is numpy.add
        True
    """
    support = Support(xp, mutable, dtypes)
    made: Kernels = {}
    for family in _FAMILIES:
        made.update(family.kernels(xp, support))
    made.update(creation.kernels(xp, support, HostRandom() if random is None else random))
    return {name: support.hushed(kernel) for name, kernel in made.items()}
