"""``tp.library``: operators, kernels and gradients that programs and plugins register.

A module of its own above the floors, because what it offers comes from several of them. All but the two names that
plugins need at their import is loaded when it is asked for.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from tensorplay_core.dispatch.library import Library as Library
from tensorplay_core.dispatch.library import library_impl as library_impl

if TYPE_CHECKING:
    from tensorplay_core.ops.custom.autocast import register_autocast as register_autocast
    from tensorplay_core.ops.custom.batching import register_vmap as register_vmap
    from tensorplay_core.ops.custom.definition import CustomOpDef as CustomOpDef
    from tensorplay_core.ops.custom.definition import custom_op as custom_op
    from tensorplay_core.ops.custom.infer_schema import infer_schema as infer_schema
    from tensorplay_core.ops.custom.registration import define as define
    from tensorplay_core.ops.custom.registration import impl as impl
    from tensorplay_core.ops.custom.registration import register_autograd as register_autograd
    from tensorplay_core.ops.custom.registration import register_fake as register_fake
    from tensorplay_core.ops.custom.registration import register_kernel as register_kernel
    from tensorplay_core.testing.opcheck import opcheck as opcheck

_WHERE = {
    "CustomOpDef": "ops.custom.definition",
    "custom_op": "ops.custom.definition",
    "define": "ops.custom.registration",
    "impl": "ops.custom.registration",
    "infer_schema": "ops.custom.infer_schema",
    "opcheck": "testing.opcheck",
    "register_autocast": "ops.custom.autocast",
    "register_autograd": "ops.custom.registration",
    "register_fake": "ops.custom.registration",
    "register_kernel": "ops.custom.registration",
    "register_vmap": "ops.custom.batching",
}
__all__ = ["Library", "library_impl", *_WHERE]


def __getattr__(name: str) -> Any:
    """Serves what is imported only when it is used."""
    if (module := _WHERE.get(name)) is None:
        from tensorplay_core.errors import did_you_mean

        near = did_you_mean(name, __all__).rstrip()
        raise AttributeError(
            f"module {__name__!r} has no attribute {name!r}.{near}".removesuffix("."),
            name=name,
            obj=sys.modules[__name__],
        )
    value = globals()[name] = getattr(import_module(f"tensorplay_core.{module}"), name)
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
