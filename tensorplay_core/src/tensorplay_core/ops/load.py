"""Puts the operators together: defines them, gives each its Autograd kernel, binds the methods of Tensor.

Importing this module is what makes the framework usable; nothing below this floor needs it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tensorplay_core.autograd import methods as _autograd_methods
from tensorplay_core.dispatch import devices, library
from tensorplay_core.dispatch.keys import DispatchKey
from tensorplay_core.dispatch.operator import Operator, Registration, location
from tensorplay_core.dispatch.registry import REGISTRY
from tensorplay_core.ops import _generated_functional as functional
from tensorplay_core.ops import _generated_methods as _methods
from tensorplay_core.ops import (
    autograd_kernels,
    conversion,
    host_fallback,  # noqa: F401  lends itself to the dispatcher
    subclasses,  # noqa: F401  binds its methods
)
from tensorplay_core.ops import methods as _operator_methods
from tensorplay_core.ops._generated_autograd import NODES
from tensorplay_core.ops.silence import silence
from tensorplay_core.ops.slots import CORE
from tensorplay_core.plugins.lifecycle import connect
from tensorplay_core.tensor.tensor import Tensor

if TYPE_CHECKING:
    from tensorplay_core.dispatch.below import Below

_CALLS_KERNELS = tuple(
    f"tensorplay_core.ops.{name}"
    for name in (
        "_generated_functional_",
        "_generated_inplace_",
        "_generated_operators_",
        "direct",
        "inplace",
        "kernels",
        "results",
        "scaled",
        "slots",
    )
)
_BOUND = (_autograd_methods, _methods, _operator_methods)


def _install() -> None:
    for name, module in list(sys.modules.items()):
        if name.startswith(_CALLS_KERNELS):
            silence(module)
    for op, node in NODES:
        op.node = node
    for op in REGISTRY.operators.values():
        if op.namespace != "tp":  # of a plugin that was imported before us; it says itself what its functions are
            continue
        if not op.is_inplace:
            op.function = getattr(functional, op.name, None)
        else:
            op.function = getattr(Tensor, op.name, None)
    autograd_kernels.install(REGISTRY.operators.values())
    copy = Registration(
        conversion._copy_to,
        op="tp::_to_copy",
        key=int(DispatchKey.Composite),
        owner=CORE,
        distribution=CORE,
        where=location(conversion._copy_to),
        level="tensor",
    )
    REGISTRY.publish(added=[copy])
    devices.built_in["meta"] = _start_meta
    library.adapt_below = _adapt_below


def _adapt_below(below: Below, op: Operator, level: str, found: Registration | None) -> Callable[..., Any]:
    from tensorplay_core.ops.below import adapt  # when an override first calls it: most programs have none

    return adapt(below, op, level, found)


def _start_meta() -> None:
    from tensorplay_core.ops.meta import start  # when the device is first named: most programs never do

    start()


_install()
if os.environ.get("TENSORPLAY_TRACE") == "1":  # any other value is checked when backends are discovered
    from tensorplay_core.profiler.trace import set_process_trace

    set_process_trace(True)
connect()
