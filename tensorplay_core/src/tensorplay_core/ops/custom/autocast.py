"""Casts that programs register for an operator: the dtype that it runs in where autocast is on."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from tensorplay_core.dispatch.context import exclude
from tensorplay_core.dispatch.key_set import KeySet
from tensorplay_core.dispatch.keys import FAMILIES, OFFSETS
from tensorplay_core.dispatch.library import Library
from tensorplay_core.dispatch.operator import Operator
from tensorplay_core.errors import ArgumentError
from tensorplay_core.ops.call import redispatch
from tensorplay_core.ops.custom.registration import Op, find, key_of, library_for
from tensorplay_core.tensor.tensor import TensorBase
from tensorplay_core.types.dtype import DType, float64

_BELOW_AUTOCAST = (1 << OFFSETS["Autocast"]) - 1


def register_autocast(
    op: Op, device_type: str, cast_inputs: DType, /, *, lib: Library | None = None, override: bool = False
) -> None:
    """Makes an operator run in one dtype where autocast is on for a device.

    Args:
        op: the operator.
        device_type: the device, such as ``"cpu"``.
        cast_inputs: the floating dtype that its floating inputs are cast to (float64 ones are left alone).
        lib: what the registration leaves with; it stays for the process when None.
        override: may replace what another owner registered.

    Raises:
        RegistrationError: no such operator or device.
        ArgumentError: the dtype is not a floating one.
    """
    frame = sys._getframe(1)
    where = f"{frame.f_code.co_filename}:{frame.f_lineno}"
    autocast_at(find(op), device_type, cast_inputs, str(frame.f_globals.get("__name__")), where, lib, override)


def autocast_at(
    op: Operator, device_type: str, dtype: Any, owner: str, where: str, lib: Library | None, override: bool = False
) -> None:
    """Registers a cast, for callers who know whose it is: there is no function that would tell."""
    if not isinstance(dtype, DType) or not dtype.is_floating_point:
        raise ArgumentError(f"register_autocast: cast_inputs is a floating dtype such as tp.bfloat16, not {dtype!r}")
    slot = key_of(device_type) + OFFSETS["Autocast"]
    kernel = _autocast_kernel(op, device_type, dtype)
    library = library_for(op, owner, lib)
    library.impl_at(op.qualified_name, kernel, [slot], where, override=override, level="tensor", with_keyset=True)


def _autocast_kernel(op: Operator, device_type: str, dtype: DType) -> Callable[..., Any]:
    def cast(value: Any) -> Any:
        if value.__class__ is tuple:
            return tuple([cast(item) for item in value])
        if not isinstance(value, TensorBase) or not value.is_floating_point() or value.dtype in (float64, dtype):
            return value
        return value.to(dtype) if value.device.type == device_type else value  # type: ignore[attr-defined]

    def autocast(keys: KeySet, *args: Any, **kwargs: Any) -> Any:
        with exclude(FAMILIES["Autocast"]):
            args, kwargs = cast(args), {name: cast(value) for name, value in kwargs.items()}
            return redispatch(op, KeySet(keys.bits & _BELOW_AUTOCAST, keys.page), args, kwargs)

    autocast.__qualname__ = f"cast_to_{dtype.name}"
    return autocast
