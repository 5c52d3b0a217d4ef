"""Backends that a program makes of an array module, without a package: ``tensorplay.backends.from_namespace``.

What makes a backend of a module is asked of ``composite`` through a hook, as core knows no array library. The rest is
the way of every backend: a record, a page of dispatch keys, loading, unloading.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tensorplay_core.dispatch import devices
from tensorplay_core.dispatch.keys import DispatchKey
from tensorplay_core.errors import ArgumentError, BackendError, ValueRangeError, did_you_mean, fix
from tensorplay_core.plugins.info import NAME, BackendInfo
from tensorplay_core.plugins.records import COMPOSITE, OURS, BackendRecord, Made, State
from tensorplay_core.types.dtype import ALL

if TYPE_CHECKING:
    from tensorplay_core.dispatch.device_api import DeviceAPI
    from tensorplay_core.plugins.lifecycle import BackendManager

CALL = "tensorplay.backends.from_namespace"
DTYPES = tuple(dtype.name for dtype in ALL)


def add(manager: BackendManager, xp: Any, name: str, options: Mapping[str, Any]) -> BackendRecord:
    """Makes a backend of an array module and loads it; see :func:`tensorplay.backends.from_namespace`."""
    _check_name(name)
    _check_options(options)
    known = {record.name: record for record in manager.records()}.get(name)
    made = known.made if known is not None else None
    if known is not None:
        if made is None or made.xp is not xp:
            raise _taken(known)
        if made.options == options:
            return manager.load(name)
        if known.state is not State.UNLOADED:
            raise _differs(name, made)
    composite = manager.load(COMPOSITE)
    assert composite.hooks is not None
    plugin = composite.hooks.hook.tensorplay_from_namespace(xp=xp, name=name, **options)
    if plugin is None:
        raise BackendError(
            f"{CALL}: {composite.info.label} cannot make a backend of a module" + fix("install the release of core.")
        )
    record = BackendRecord(_describe(name, composite.info, plugin.tensorplay_device()))
    record.code = Made(plugin, xp, dict(options))
    manager.add(record)
    return manager.load(name)


def _check_name(name: Any) -> None:
    if not isinstance(name, str):
        raise ArgumentError(f"from_namespace: name must be a str, not {type(name).__name__}" + fix("pass 'npx'."))
    if not NAME.fullmatch(name):
        guess = "".join(c if c.isalnum() else "_" for c in name.lower()).strip("_0123456789")
        example = guess if NAME.fullmatch(guess) else "npx"
        raise ValueRangeError(
            f"from_namespace: a device's name is a lowercase identifier, not {name!r}" + fix(f"name it {example!r}.")
        )
    ours = {key.name.lower() for key in DispatchKey} | {*OURS, *devices.built_in}
    if name in ours:
        raise ValueRangeError(
            f"from_namespace: {name!r} is a name of TensorPlay's own" + fix("choose another, such as 'npx'.")
        )


def _check_options(options: Mapping[str, Any]) -> None:
    dtypes, count = options["dtypes"], options["device_count"]
    if dtypes is not None and (not isinstance(dtypes, Mapping) or not all(isinstance(name, str) for name in dtypes)):
        raise ArgumentError(
            f"from_namespace: dtypes must be a mapping from names to the module's dtypes, not {type(dtypes).__name__}"
            + fix("pass one such as {'float32': xp.float32, 'bool': xp.bool, 'int64': xp.int64}.")
        )
    unknown = next((name for name in dtypes or () if name not in DTYPES), None)
    if unknown is not None:
        raise ValueRangeError(
            f"from_namespace: there is no dtype {unknown!r}.{did_you_mean(unknown, DTYPES)}"
            + fix(f"use names of TensorPlay's dtypes: {', '.join(DTYPES)}.")
        )
    if dtypes is not None and not ({"bool", "float32"} <= {*dtypes} and {"int32", "int64"} & {*dtypes}):
        raise ValueRangeError(
            "from_namespace: a device needs the dtypes bool, float32, and int64 or int32; dtypes has "
            + ", ".join(dtypes)
            + fix("add them.")
        )
    for name in ("mutable", "views"):
        if options[name] is not None and not isinstance(options[name], bool):
            raise ArgumentError(
                f"from_namespace: {name} must be True, False or None, not {options[name]!r}" + fix("leave it away.")
            )
    if not isinstance(count, int) or isinstance(count, bool):
        raise ArgumentError(f"from_namespace: device_count must be an int, not {type(count).__name__}" + fix("pass 1."))
    if count < 1:
        raise ValueRangeError(f"from_namespace: device_count must be 1 or more, got {count}" + fix("pass 1."))


def _taken(known: BackendRecord) -> BackendError:
    what = known.info.label if known.made is None else f"the module {_module(known.made.xp)!r}"
    return BackendError(f"from_namespace: the device {known.name!r} is that of {what}" + fix("choose another name."))


def _differs(name: str, made: Made) -> BackendError:
    given = ", ".join(f"{option}={value!r}" for option, value in made.options.items())
    return BackendError(
        f"from_namespace: the device {name!r} is made of that module with other arguments: {given}"
        + fix(f"choose another name, or call tensorplay.backends.unload({name!r}) first.")
    )


def _module(xp: Any) -> str:
    return getattr(xp, "__name__", None) or type(xp).__name__


def _describe(name: str, maker: BackendInfo, device: DeviceAPI) -> BackendInfo:
    """Returns the description; the kernels are those of composite, so its distribution is the one to turn to."""
    return BackendInfo(
        name=name,
        distribution=maker.distribution,
        version=maker.version,
        summary=f"the array module {device.device_name(0)}, made a device by {CALL}",
        mutable=device.mutable,
        views=device.views,
    )
