"""Puts the operators together: defines them, gives each its Autograd kernel, binds the methods of Tensor.

Importing this module is what makes the framework usable; nothing below this floor needs it.
"""

from __future__ import annotations

import sys

from tensorplay_core.autograd import methods as _autograd_methods
from tensorplay_core.dispatch import devices
from tensorplay_core.dispatch.keys import DispatchKey
from tensorplay_core.dispatch.operator import Registration, location
from tensorplay_core.dispatch.registry import REGISTRY
from tensorplay_core.ops import _generated_functional as functional
from tensorplay_core.ops import _generated_methods as _methods
from tensorplay_core.ops import autograd_kernels, conversion
from tensorplay_core.ops import methods as _operator_methods
from tensorplay_core.ops._generated_autograd import NODES
from tensorplay_core.ops.silence import silence
from tensorplay_core.ops.slots import CORE
from tensorplay_core.plugins.lifecycle import connect
from tensorplay_core.tensor.tensor import Tensor

_CALLS_KERNELS = tuple(
    f"tensorplay_core.ops.{name}"
    for name in (
        "_generated_functional_",
        "_generated_inplace_",
        "_generated_operators_",
        "kernels",
        "results",
        "slots",
        "inplace",
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


def _start_meta() -> None:
    from tensorplay_core.ops.meta import start  # when the device is first named: most programs never do

    start()


_install()
connect()
