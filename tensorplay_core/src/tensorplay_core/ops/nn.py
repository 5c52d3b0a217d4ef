"""What ``tp.nn`` is: so far the functional form of neural network operators."""

from __future__ import annotations

from tensorplay_core.ops import _generated_nn_functional as functional

__all__ = ["functional"]
