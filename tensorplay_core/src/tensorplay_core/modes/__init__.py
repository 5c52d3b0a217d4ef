"""Modes that come with TensorPlay: a log of operators, a count of their arithmetic, and tensors without data.

Each is a ``with`` block, made of what programs make their own modes of: :class:`tp.DispatchMode` and
:class:`tp.overrides.TensorPlayMode`.
"""

from __future__ import annotations

from tensorplay_core.modes.fake import FakeMode, is_fake
from tensorplay_core.modes.flops import FlopCounter
from tensorplay_core.modes.logging import Call, Logging

__all__ = ["Call", "FakeMode", "FlopCounter", "Logging", "is_fake"]
