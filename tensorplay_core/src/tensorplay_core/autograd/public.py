"""What ``tp.autograd`` is."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tensorplay_core.autograd.api import backward, grad
from tensorplay_core.autograd.modes import enable_grad, inference_mode, no_grad, set_grad_enabled
from tensorplay_core.autograd.node import Node

if TYPE_CHECKING:
    from tensorplay_core.autograd import forward_ad, function, functional, graph
    from tensorplay_core.autograd.anomaly import (
        detect_anomaly,
        is_anomaly_check_nan_enabled,
        is_anomaly_enabled,
        set_detect_anomaly,
    )
    from tensorplay_core.autograd.function import Function
    from tensorplay_core.autograd.gradcheck import GradcheckError, gradcheck, gradgradcheck

__all__ = [
    "Function",
    "GradcheckError",
    "Node",
    "backward",
    "detect_anomaly",
    "enable_grad",
    "forward_ad",
    "function",
    "functional",
    "grad",
    "gradcheck",
    "gradgradcheck",
    "graph",
    "inference_mode",
    "is_anomaly_check_nan_enabled",
    "is_anomaly_enabled",
    "no_grad",
    "set_detect_anomaly",
    "set_grad_enabled",
]

LAZY = {
    "Function": "tensorplay_core.autograd.function:Function",
    "GradcheckError": "tensorplay_core.autograd.gradcheck:GradcheckError",
    "detect_anomaly": "tensorplay_core.autograd.anomaly:detect_anomaly",
    "check_operator": "tensorplay_core.testing.check_operator:check_operator",
    "forward_ad": "tensorplay_core.autograd.forward_ad",
    "function": "tensorplay_core.autograd.function",
    "functional": "tensorplay_core.autograd.functional",
    "gradcheck": "tensorplay_core.autograd.gradcheck:gradcheck",
    "gradgradcheck": "tensorplay_core.autograd.gradcheck:gradgradcheck",
    "graph": "tensorplay_core.autograd.graph",
    "is_anomaly_check_nan_enabled": "tensorplay_core.autograd.anomaly:is_anomaly_check_nan_enabled",
    "is_anomaly_enabled": "tensorplay_core.autograd.anomaly:is_anomaly_enabled",
    "set_detect_anomaly": "tensorplay_core.autograd.anomaly:set_detect_anomaly",
}
"""Names that are imported when they are first used: a module, or ``module:name``."""


def __getattr__(name: str) -> Any:
    """Serves what is imported only when it is used."""
    if name not in LAZY:
        raise AttributeError(f"module 'tensorplay.autograd' has no attribute {name!r}", name=name)
    module, _, attribute = LAZY[name].partition(":")
    found = import_module(module)
    value = globals()[name] = getattr(found, attribute) if attribute else found
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *LAZY})
