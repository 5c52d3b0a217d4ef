"""What the tests on a GPU share: they skip, and say why, where there is no adapter."""

from __future__ import annotations

import numpy as np
import pytest

import tensorplay as tp
from tensorplay_core.errors import TensorPlayError


@pytest.fixture(scope="session")
def adapter() -> None:
    """Skips a test where the backend is not installed, or has nothing to run on."""
    try:
        tp.zeros(1, device="vulkan")
    except TensorPlayError as error:
        pytest.skip(str(error).partition("\n")[0])


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)
