"""A backend's device API as core calls it: told which device is meant, and its failures are errors that say whose.

A probe may have said that a device works when it does not, or the device may have gone away since; then the first that
fails is a method of the plugin, deep inside a call that the user wrote. Where there are several devices, the library
behind must know which one a call is about. One object in front of the plugin's sees to both, for every place that calls
it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from types import FunctionType
from typing import Any

from tensorplay_core.dispatch.device_api import ON_ARRAYS, DeviceAPI
from tensorplay_core.errors import BackendError, TensorPlayError, fix

_PASSES = (TensorPlayError, MemoryError, RecursionError)
_OF_THE_DATA = {"from_list": (ValueError, OverflowError), "from_dlpack": (Exception,)}
"""What a method raises because of the data that it is given; its caller puts it into words."""
_UNGUARDED = frozenset({"as_array", "may_alias"})
"""What the fast path calls, where a frame more is too much; where ``as_array`` fails a kernel's result is to blame."""
_METHODS = tuple(
    name for name, value in vars(DeviceAPI).items() if isinstance(value, FunctionType) and not name.startswith("_")
)


class GuardedDevice:
    """Stands for a device API: the same attributes, and methods whose failures are a :class:`BackendError`.

    Args:
        api: what the plugin's ``tensorplay_device`` returned.
        type: the device type.
        distribution: the distribution that brought it.
        index: which of several devices it stands for: each method that makes or reads arrays runs while that one is the
            library's current device. None where there is one, and where the caller says which.
    """

    def __init__(self, api: DeviceAPI, type: str, distribution: str, index: int | None = None) -> None:
        """See the class."""
        self._api = api
        self._type = type
        self._distribution = distribution
        self._index = index
        for name in _METHODS:
            method = getattr(api, name)
            if index is not None and name in ON_ARRAYS:
                method = _placed(api, index, method)
            self.__dict__[name] = method if name in _UNGUARDED else _guarded(self, name, method)

    def __getattr__(self, name: str) -> Any:
        """Returns what else the API has: its attributes, and what the plugin added."""
        return getattr(self.__dict__["_api"], name)


def _placed(api: DeviceAPI, index: int, method: Callable[..., Any]) -> Callable[..., Any]:
    def placed(*args: Any, **kwargs: Any) -> Any:
        with api.device(index):
            return method(*args, **kwargs)

    return placed


def _guarded(device: GuardedDevice, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    passes = _PASSES + _OF_THE_DATA.get(name, ())

    def guarded(*args: Any, **kwargs: Any) -> Any:
        try:
            return method(*args, **kwargs)
        except passes:
            raise
        except Exception as error:
            raise failed(device, name, args, kwargs, error) from error

    return guarded


def failed(
    device: GuardedDevice, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], error: Exception
) -> BackendError:
    """Returns the error for a method of a device API that raised, caught in the frame that called the method."""
    code = vars(DeviceAPI)[name].__code__
    given = {**dict(zip(code.co_varnames[1 : code.co_argcount], args, strict=False)), **kwargs}
    index = given.get("index", device._index)
    which = f"{device._type}:{index}" if isinstance(index, int) else device._type
    text = f"{error.__class__.__name__}: {error}".removesuffix(": ")
    backend = f"{device._distribution}{_place(error, device._api)}"
    return BackendError(
        f"Device {which!r} failed: {name} of its backend ({backend}) raised {text}"
        + fix(f"see what {device._distribution} requires, or report it to the authors of {device._distribution}")
    )


def _place(error: Exception, api: DeviceAPI) -> str:
    """Returns where it was raised: the innermost line of the backend's package, or else of the method's."""
    frames: list[tuple[str, str, int]] = []
    trace = error.__traceback__.tb_next if error.__traceback__ is not None else None
    while trace is not None:
        module = str(trace.tb_frame.f_globals.get("__name__", ""))
        if module != __name__:
            frames.append((module.partition(".")[0], trace.tb_frame.f_code.co_filename, trace.tb_lineno))
        trace = trace.tb_next
    backend = api.__class__.__module__.partition(".")[0]
    for wanted in (backend, *(package for package, _, _ in frames[:1])):
        for package, file, line in reversed(frames):
            if package == wanted:
                folders = file.replace(os.sep, "/").split("/")
                start = len(folders) - 1 - folders[::-1].index(package) if package in folders else 0
                return f", {'/'.join(folders[start:])}:{line}"
    return ""
