"""Whether a backward pass is what runs."""

from __future__ import annotations

import sys
from types import FrameType

from tensorplay_core.autograd.engine import Pass

_WALK = Pass._walk.__code__


def in_backward() -> bool:
    """Returns whether the caller runs inside a backward pass: the engine's loop is among the frames of this thread."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_code is _WALK:
            return True
        frame = frame.f_back
    return False
