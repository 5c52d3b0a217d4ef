"""What ``tp.utils`` is: tools around the tensors, in PyTorch's places."""

from __future__ import annotations

from tensorplay_core.autograd import checkpoint

__all__ = ["checkpoint"]
