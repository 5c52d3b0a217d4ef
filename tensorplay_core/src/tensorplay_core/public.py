"""The public names, in one place: what ``import tensorplay as tp`` offers."""

from __future__ import annotations

from importlib import import_module
from math import inf, nan, pi
from typing import Any

import tensorplay_core.ops.load  # noqa: F401  defines the operators and binds the methods of Tensor
from tensorplay_core import __version__, errors
from tensorplay_core.autograd import public as autograd
from tensorplay_core.autograd.modes import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)
from tensorplay_core.dispatch import library
from tensorplay_core.dispatch.devices import default_device as get_default_device
from tensorplay_core.errors import *  # noqa: F403
from tensorplay_core.ops import nn
from tensorplay_core.ops._generated_functional import *  # noqa: F403
from tensorplay_core.ops._generated_functional import __all__ as _functions
from tensorplay_core.ops.packets import ops
from tensorplay_core.tensor.printing import set_printoptions
from tensorplay_core.tensor.tensor import Tensor
from tensorplay_core.types.device import Device as device
from tensorplay_core.types.dtype import (
    DType as dtype,
)
from tensorplay_core.types.dtype import (
    bfloat16,
    complex64,
    complex128,
    float16,
    float32,
    float64,
    get_default_dtype,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)
from tensorplay_core.types.dtype import bool_ as bool
from tensorplay_core.types.dtype import float32 as float
from tensorplay_core.types.dtype import float64 as double
from tensorplay_core.types.dtype import int32 as int
from tensorplay_core.types.dtype import int64 as long


_LAZY = {
    "backends": "tensorplay_core.plugins.public",
    "profiler": "tensorplay_core.profiler",
    "testing": "tensorplay_core.testing",
    "explain": "tensorplay_core.ops.explain",
    "set_default_device": "tensorplay_core.ops.settings",
    "show_config": "tensorplay_core.ops.settings",
}
_FROM = ("explain", "set_default_device", "show_config")



def __getattr__(name: str) -> Any:
    if name in _LAZY:
        module = import_module(_LAZY[name])
        return getattr(module, name) if name in _FROM else module
    raise AttributeError(f"module 'tensorplay' has no attribute {name!r}")
