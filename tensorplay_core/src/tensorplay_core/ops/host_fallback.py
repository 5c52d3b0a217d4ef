"""Running a call on the host: its tensors are copied to the cpu, the operator runs there, its results are copied back.

Whether a call may is decided in :mod:`tensorplay_core.dispatch.fallbacks`. Autograd has seen the call on its own device
already, so what runs on the cpu runs below it, and the gradient is that of the operator. Each call costs the copies,
which is why it happens only where TENSORPLAY_FALLBACK asks for it, and is counted.
"""

from __future__ import annotations

import sys
import threading
import warnings
from typing import Any

from tensorplay_core.dispatch import devices, fallbacks
from tensorplay_core.dispatch.context import STATE, exclude
from tensorplay_core.dispatch.integers import default_integer
from tensorplay_core.dispatch.key_set import KeySet
from tensorplay_core.dispatch.keys import AUTOGRAD, FAMILIES
from tensorplay_core.dispatch.operator import Operator
from tensorplay_core.dispatch.tensor_type import intern
from tensorplay_core.errors import DTypeError, fix
from tensorplay_core.ops import call, typing_rules
from tensorplay_core.ops.arguments import plan_of, tensors_in
from tensorplay_core.tensor.tensor import Tensor, TensorBase, wrap
from tensorplay_core.tensor.version import Step, share_as
from tensorplay_core.types.device import Device
from tensorplay_core.types.dtype import int64

HOST = Device("cpu")
OURS = "tensorplay"
"""What the import names of our packages, and by custom those of backends, begin with."""

_warned: set[tuple[str, str]] = set()
_lock = threading.Lock()


def run(op: Operator, keys: KeySet, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Runs a call on the cpu, and returns its results on the call's device.

    Args:
        op: the operator; it writes to no argument, and its results share memory with one only where the device has no
            views of its own.
        keys: the keys of the call, of which its device's backend key is the lowest.
        args: all positional arguments; tensors on the device, or 0-d ones on the cpu.
        kwargs: the keyword-only arguments that differ from their defaults. A device among them is where results go.

    Raises:
        DTypeError: a dtype is one that the cpu or the device does not have.
        BackendError: the device cannot copy to the host, or from it.
    """
    key = keys.lowest
    if fallbacks.mode == "warn":
        _warn(op, fallbacks.device_type_of(key))
    fallbacks.count(op, key, "host")
    host = devices.entry(HOST.type)
    moved: dict[int, Tensor] = {}
    on_host = _move(op, args, moved)
    keywords = {name: _move(op, value, moved) for name, value in kwargs.items()}
    if not any(True for _ in tensors_in(args, kwargs)):
        on_host, keywords = _created_on_host(op, on_host, keywords)
    # The dispatcher is past the layers of this call: neither may a layer of the cpu's see it.
    layers = AUTOGRAD | (FAMILIES["Autocast"] if STATE.get().autocast else 0)
    with exclude(layers):
        result = call.run(op, KeySet(1 << host.key, host.page), on_host, keywords)
    result = _back(op, result, _device(op, args, kwargs), kwargs.get("dtype") is not None)
    if plan_of(op).view:
        _as_views(op, args, kwargs, result)
    return result


def _as_views(op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
    """Makes what came from the host views of the first argument, on a device whose views are copies anyway."""
    base = args[0]
    several = isinstance(result, (list, tuple))
    for i, part in enumerate(result if several else (result,)):
        share_as(base, part, Step(op, args[1:], kwargs, base.shape, part.shape, i if several else None))


def _device(op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Device:
    """Returns where the results go: the device that is asked for, else that of the call."""
    for value in (*kwargs.values(), *args):
        if value.__class__ is Device:
            return devices.normalize(value)
    tensors = list(tensors_in(args, kwargs))
    return typing_rules.device_of(tensors) if tensors else devices.normalize(devices.default_device())


def _created_on_host(op: Operator, args: Any, kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Returns the arguments of a call without tensors, which names its device or takes the default one, for the cpu."""
    plan = plan_of(op)
    kwargs = {**kwargs, **{spec.name: HOST for spec in plan.keyword if spec.kind == "Device"}}
    return tuple([HOST if spec.kind == "Device" else v for spec, v in zip(plan.positional, args, strict=True)]), kwargs


def _move(op: Operator, value: Any, moved: dict[int, Tensor]) -> Any:
    """Returns an argument as the cpu takes it; a tensor that is given twice is copied once."""
    if value.__class__ is tuple:
        return tuple([_move(op, item, moved) for item in value])
    if value.__class__ is Device:
        return HOST
    if not isinstance(value, TensorBase) or value._type.device.type == HOST.type:
        return value
    known = moved.get(id(value))
    if known is None:
        known = moved[id(value)] = _copied(op, value, HOST)
    return known


def _back(op: Operator, result: Any, device: Device, asked: bool) -> Any:
    """Returns the results of the call on the cpu on another device: a tensor, several, a list of them, or numbers.

    An int64 that was not ``asked`` for is the cpu's default integer, and becomes the device's.
    """
    if isinstance(result, list):
        return [_back(op, item, device, asked) for item in result]
    if isinstance(result, tuple):
        return plan_of(op).result_class([_back(op, item, device, asked) for item in result])
    if not isinstance(result, TensorBase) or result._type.device == device:
        return result
    source, integer = result._type, default_integer(device)
    if source.dtype is int64 and integer is not int64 and not asked:
        narrow = intern(source.device, integer)
        result = wrap(source.api.cast(result._array, narrow.native), narrow)
    return _copied(op, result, device)


def _copied(op: Operator, tensor: TensorBase, device: Device) -> Tensor:
    """Returns a copy on another device, of the same dtype, that no gradient flows through."""
    source, dtype = tensor._type, tensor._type.dtype
    known = devices.entry(device.type).api.dtypes
    if dtype.name not in known:
        does = "needs the host to take" if device == HOST else "has run on the host, and gives"
        raise DTypeError(
            f"{op.display_name}: {does} {dtype.name}, which device {device.type!r} does not have; it has "
            f"{', '.join(known)}" + fix("convert the arguments with .to(dtype) to a dtype that both have.")
        )
    target = intern(device, dtype)
    array = target.api.from_host(source.api.to_host(tensor._array), device.index or 0)
    if target.api.dtype_name(array) != dtype.name:  # a host array of a dtype that NumPy itself does not have
        array = target.api.cast(array, target.native)
    return wrap(array, target.inference_twin if STATE.get().inference else target)


def _warn(op: Operator, device_type: str) -> None:
    """Warns once per operator and device type, at the line that called TensorPlay."""
    known = (op.qualified_name, device_type)
    with _lock:
        if known in _warned:
            return
        _warned.add(known)
    message = (
        f"{op.display_name}: {devices.entry(device_type).distribution} has no kernel of it for {device_type!r}, nor "
        "has Composite; it runs on the host, its tensors copied there and back at each call"
    )
    remedy = (
        "TENSORPLAY_FALLBACK=allow silences this, TENSORPLAY_FALLBACK=raise makes it an error; in Python "
        "tp.backends.configure(fallback='allow')."
    )
    try:
        warnings.warn(message + fix(remedy), RuntimeWarning, stacklevel=level_of_the_caller())
    except BaseException:  # a filter that makes errors of warnings: the next call is to be told as well
        with _lock:
            _warned.discard(known)
        raise


def level_of_the_caller() -> int:
    """Returns the ``stacklevel`` by which whoever calls this function warns the first caller outside TensorPlay.

    A module whose name is None is ours too: that is how :mod:`tensorplay_core.ops.silence` keeps C code from warning.
    """
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None:
        name = frame.f_globals.get("__name__")
        if name is not None and name != OURS and not name.startswith((f"{OURS}.", f"{OURS}_")):
            break
        frame, level = frame.f_back, level + 1
    return level


fallbacks.on_host = run
