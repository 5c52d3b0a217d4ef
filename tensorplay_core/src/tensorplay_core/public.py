"""The public names, in one place: what ``import tensorplay as tp`` offers."""

from __future__ import annotations

from importlib import import_module
from math import inf, nan, pi
from typing import Any

import tensorplay_core.ops.load  # noqa: F401  defines the operators and binds the methods of Tensor
from tensorplay_core import errors, library
from tensorplay_core.autocast.mode import (
    autocast,
    clear_autocast_cache,
    get_autocast_dtype,
    is_autocast_available,
    is_autocast_cache_enabled,
    is_autocast_enabled,
    set_autocast_cache_enabled,
    set_autocast_dtype,
    set_autocast_enabled,
)
from tensorplay_core.autograd import public as autograd
from tensorplay_core.autograd.modes import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)
from tensorplay_core.dispatch.devices import default_device as get_default_device
from tensorplay_core.ops import _generated_public as functions
from tensorplay_core.ops import (
    linalg,
    nn,
    special,
)
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

__all__ = [
    "Tensor",
    "autocast",
    "autograd",
    "bfloat16",
    "bool",
    "clear_autocast_cache",
    "complex64",
    "complex128",
    "device",
    "double",
    "dtype",
    "enable_grad",
    "errors",
    "float",
    "float16",
    "float32",
    "float64",
    "get_autocast_dtype",
    "get_default_device",
    "get_default_dtype",
    "inf",
    "inference_mode",
    "int",
    "int8",
    "int16",
    "int32",
    "int64",
    "is_autocast_available",
    "is_autocast_cache_enabled",
    "is_autocast_enabled",
    "is_grad_enabled",
    "is_inference_mode_enabled",
    "library",
    "linalg",
    "long",
    "nan",
    "nn",
    "no_grad",
    "ops",
    "pi",
    "set_autocast_cache_enabled",
    "set_autocast_dtype",
    "set_autocast_enabled",
    "set_grad_enabled",
    "set_printoptions",
    "special",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
]
NAMES = (*__all__, *errors.__all__, *functions.__all__)
"""Everything public; a list of its own, because a type checker reads ``__all__`` only where it is written out."""

LAZY = {
    "DispatchMode": "tensorplay_core.tensor.modes",
    "modes": "tensorplay_core.modes",
    "overrides": "tensorplay_core.overrides",
    "Generator": "tensorplay_core.ops.generators",
    "asarray": "tensorplay_core.ops.exchange",
    "from_dlpack": "tensorplay_core.ops.exchange",
    "frombuffer": "tensorplay_core.ops.exchange",
    "load_file": "tensorplay_core.ops.files",
    "load_metadata": "tensorplay_core.ops.files",
    "save_file": "tensorplay_core.ops.files",
    "accelerator": "tensorplay_core.ops.accelerator",
    "amp": "tensorplay_core.autocast.amp",
    "backends": "tensorplay_core.plugins.public",
    "profiler": "tensorplay_core.profiler",
    "testing": "tensorplay_core.testing",
    "utils": "tensorplay_core.utils",
    "explain": "tensorplay_core.ops.explain",
    "get_rng_state": "tensorplay_core.ops.settings",
    "is_anomaly_check_nan_enabled": "tensorplay_core.autograd.anomaly",
    "is_anomaly_enabled": "tensorplay_core.autograd.anomaly",
    "initial_seed": "tensorplay_core.ops.settings",
    "seed": "tensorplay_core.ops.settings",
    "set_default_device": "tensorplay_core.ops.settings",
    "set_rng_state": "tensorplay_core.ops.settings",
    "show_config": "tensorplay_core.ops.settings",
    "vmap": "tensorplay_core.vmap",
    "func": "tensorplay_core.func",
}
_MODULES = ("accelerator", "amp", "backends", "func", "modes", "overrides", "profiler", "testing", "utils")


def __getattr__(name: str) -> Any:
    """Serves what is imported only when it is used."""
    if name in LAZY:
        module = import_module(LAZY[name])
        return module if name in _MODULES else getattr(module, name)
    for module in (functions, errors):
        if name in module.__all__:
            return getattr(module, name)
    raise AttributeError(f"module 'tensorplay' has no attribute {name!r}")
