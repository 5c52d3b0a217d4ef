"""The dtype of integers that nobody gave a dtype: int64, except on a device that does not have it.

Indices, integer sums and Python's own integers are int64 by default. A GPU without 64-bit integers could make none of
them, so there they take the widest signed integer that it has, as the array API standard allows ("the default integer
data type" may depend on the device). Where int64 was asked for by name, it is refused: a number is never narrowed
behind somebody's back.
"""

from __future__ import annotations

from collections.abc import Container

from tensorplay_core.dispatch import devices
from tensorplay_core.types import dtype as dt
from tensorplay_core.types.device import Device
from tensorplay_core.types.dtype import DType

SIGNED = (dt.int64, dt.int32, dt.int16, dt.int8)


def integer_among(dtypes: Container[str]) -> DType:
    """Returns the default integer of a device with these dtypes; int64, which it refuses, where it has no integers.

    Example:
        >>> integer_among(["bool", "int32", "float32"])
        tensorplay.int32
    """
    return next((dtype for dtype in SIGNED if dtype.name in dtypes), dt.int64)


def default_integer(device: Device) -> DType:
    """Returns the dtype of integers that nobody gave a dtype, on a device, whose backend is loaded at first use.

    Example:
        >>> default_integer(Device("cpu"))
        tensorplay.int64
    """
    return integer_among(devices.entry(device.type).api.dtypes)


def has_dtype(device: Device, dtype: DType) -> bool:
    """Whether a device has a dtype."""
    return dtype.name in devices.entry(device.type).api.dtypes
