"""The operators under test are called through core, on CPU tensors."""

from __future__ import annotations

import pytest

import tensorplay_core.ops.load  # noqa: F401  (binds the methods of Tensor)
from tensorplay_core.dispatch import devices


@pytest.fixture(scope="session", autouse=True)
def cpu():
    return devices.entry("cpu")
