"""The CPU's kernels and its device, without registering anything: the plugin registers them, tests call them."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from tensorplay_composite.arrays import ArrayDevice, Kernels, kernels
from tensorplay_composite.arrays.device import native_dtypes
from tensorplay_cpu import (
    attend,
    attention,
    combine,
    distance,
    dropout,
    elementary,
    loss,
    normalization,
    pointwise,
    reduction,
    remainders,
    shape,
    softmax,
    sorting,
    statistics,
    triangular,
)

DEVICE = ArrayDevice(
    np,
    dtypes={**native_dtypes(np), "bfloat16": np.dtype(ml_dtypes.bfloat16)},
    shares_memory_with_host=True,
    name=f"CPU (NumPy {np.__version__})",
)


def cpu_kernels() -> Kernels:
    """Returns the kernels of the CPU: the general ones, and in their place those that NumPy does better."""
    general = kernels(np, random=DEVICE.random)
    families = (
        pointwise, elementary, reduction, statistics, shape, combine, sorting, normalization, loss, attention,
        softmax, distance, attend, triangular,
    )  # fmt: skip
    own = {name: kernel for family in families for name, kernel in family.kernels(general).items()}
    return {**general, **own, **remainders.kernels(), **dropout.kernels(DEVICE.random)}
