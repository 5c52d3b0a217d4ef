"""Remainders of many float32 numbers, computed in float64, against NumPy's one by one."""

from __future__ import annotations

import numpy as np
import pytest

from tensorplay_cpu.kernels import cpu_kernels

KERNELS = cpu_kernels()
REFERENCES = {"floor_divide": np.floor_divide, "remainder": np.remainder, "fmod": np.fmod}


def numbers() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    a = (rng.standard_normal(100_000) * 5).astype(np.float32)
    b = rng.standard_normal(100_000).astype(np.float32)
    a[:40_000] = np.rint(a[:40_000] * 4)  # whole quotients, zeros of both signs
    b[:40_000] = np.where(b[:40_000] < 0, -1, 1) * np.maximum(1, np.rint(np.abs(b[:40_000]) * 3))
    return a, b


@pytest.mark.parametrize("name", REFERENCES)
def test_blocks_are_exact_signs_of_zeros_included(name: str) -> None:
    a, b = numbers()
    found, exact = KERNELS[name](a, b), REFERENCES[name](a, b)
    assert found.tobytes() == exact.tobytes()


@pytest.mark.parametrize("name", REFERENCES)
@pytest.mark.parametrize("pair", [(np.inf, 1.0), (1.0, np.inf), (1.0, 0.0), (0.0, 0.0), (np.nan, 1.0), (1e30, 1e-3)])
def test_a_block_with_an_odd_pair_is_numpys(name: str, pair: tuple[float, float]) -> None:
    a, b = numbers()
    a[70_000], b[70_000] = pair
    with np.errstate(all="ignore"):
        exact = REFERENCES[name](a, b)
    np.testing.assert_array_equal(KERNELS[name](a, b), exact)


@pytest.mark.parametrize("name", REFERENCES)
def test_layouts_and_other_dtypes(name: str) -> None:
    a, b = numbers()
    np.testing.assert_array_equal(KERNELS[name](a[::2], b[::-2]), REFERENCES[name](a[::2], b[::-2]))
    grid = a.reshape(100, 1000)
    np.testing.assert_array_equal(KERNELS[name](grid.T, b[:100]), REFERENCES[name](grid.T, b[:100]))
    np.testing.assert_array_equal(KERNELS[name](a.astype("int32"), np.int32(3)), REFERENCES[name](a.astype("int32"), 3))
