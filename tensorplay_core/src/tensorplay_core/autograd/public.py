"""What ``tp.autograd`` is."""

from __future__ import annotations

from tensorplay_core.autograd.api import backward, grad
from tensorplay_core.autograd.gradcheck import gradcheck, gradgradcheck
from tensorplay_core.autograd.modes import enable_grad, inference_mode, no_grad, set_grad_enabled
from tensorplay_core.autograd.node import Node

__all__ = [
    "Node",
    "backward",
    "enable_grad",
    "grad",
    "gradcheck",
    "gradgradcheck",
    "inference_mode",
    "no_grad",
    "set_grad_enabled",
]
