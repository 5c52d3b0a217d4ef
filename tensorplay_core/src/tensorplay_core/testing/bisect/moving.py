"""Arguments from one device to another, and to the host, through the devices' APIs: no operator runs meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tensorplay_core.dispatch.tensor_type import intern
from tensorplay_core.tensor.tensor import TensorBase, wrap
from tensorplay_core.types.device import Device


def mapped(value: Any, into: Callable[[Any], Any]) -> Any:
    """Returns arguments with what a function makes of each tensor in its place, also in lists and dicts."""
    if isinstance(value, TensorBase):
        return into(value)
    if isinstance(value, (tuple, list)):
        items = [mapped(item, into) for item in value]
        return items if isinstance(value, list) else tuple(items)
    if isinstance(value, dict):
        return {name: mapped(item, into) for name, item in value.items()}
    return value


def host_of(tensor: Any) -> Any:
    """Returns a NumPy array with a copy of a tensor's elements, in C order."""
    host = tensor._type.api.to_host(tensor._array)
    return host.copy(order="C")


def on(device: Device, value: Any, from_type: str) -> Any:
    """Returns arguments on another device: contiguous copies of the tensors of one device type, all else as it is."""

    def moved(tensor: Any) -> Any:
        if tensor.device.type != from_type:
            return tensor
        type = intern(device, tensor.dtype)
        return wrap(type.api.from_host(host_of(tensor), type.device.index or 0), type)

    def placed(value: Any) -> Any:
        if isinstance(value, Device):
            return device if value.type == from_type else value
        if isinstance(value, dict):
            return {name: placed(item) for name, item in value.items()}
        if isinstance(value, (tuple, list)):
            items = [placed(item) for item in value]
            return items if isinstance(value, list) else tuple(items)
        return value

    return placed(mapped(value, moved))


def tensors_of(value: Any) -> list[Any]:
    """Returns the tensors among arguments."""
    found: list[Any] = []
    mapped(value, found.append)
    return found
