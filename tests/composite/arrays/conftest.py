"""Every test of an array kernel runs on the general kernels over NumPy and on the CPU's own."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from tensorplay_composite.arrays import HostRandom, kernels
from tensorplay_cpu.kernels import cpu_kernels


@pytest.fixture(scope="session", params=["general", "cpu"])
def k(request):
    return kernels(np, random=HostRandom(0)) if request.param == "general" else cpu_kernels()


@pytest.fixture(scope="session")
def bf16():
    return np.dtype(ml_dtypes.bfloat16)
