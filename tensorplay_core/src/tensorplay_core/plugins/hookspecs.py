"""The four hooks that a backend may implement, and the answer of its probe.

The hooks are the whole contract between core and a plugin module, so they carry a version of their own: a plugin's
``backend.yaml`` states the range that it was written for and is checked against :data:`API_VERSION` before its code
runs.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import attrs
import pluggy

from tensorplay_core.errors import ArgumentError, ValueRangeError, did_you_mean

if TYPE_CHECKING:
    from tensorplay_core.dispatch.device_api import DeviceAPI
    from tensorplay_core.dispatch.staging import Staging

API_VERSION = "1.0"
"""Version of the plugin API, apart from that of the distributions: the major number changes when a plugin must."""

PROJECT = "tensorplay"
PREFIX = f"{PROJECT}_"
"""What the name of every hook starts with, and of nothing else in a plugin module that resembles one."""

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


@attrs.frozen
class Availability:
    """What a probe found out: can this machine run the backend, and if not, why and what mends it.

    Attributes:
        ok: whether the backend can be used here and now.
        reason: why not, in one sentence; required when ``ok`` is false.
        device_count: how many devices there are; an ``ok`` owner of a device that counts none is taken to have one.
        fix: what the user can do about it.

    Raises:
        ArgumentError: a field of the wrong type.
        ValueRangeError: no reason for a refusal, or a negative count.

    Example:
        >>> Availability(ok=False, reason="no driver was found", fix="install the vendor's driver").reason
        'no driver was found'
    """

    ok: bool
    reason: str = ""
    device_count: int = 0
    fix: str = ""

    def __attrs_post_init__(self) -> None:
        """Refuses an answer that nobody could act on."""
        for field, kind in (("ok", bool), ("reason", str), ("device_count", int), ("fix", str)):
            value = getattr(self, field)
            if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
                raise ArgumentError(f"Availability: {field} must be {kind.__name__}, got {value!r}")
        if self.device_count < 0:
            raise ValueRangeError(f"Availability: device_count must not be negative, got {self.device_count}")
        if not self.ok and not self.reason.strip():
            raise ValueRangeError("Availability: ok=False needs a reason, one sentence that the user will read")


class Hooks:
    """The hook specifications; a plugin implements those it needs as module functions marked ``@hookimpl``."""

    @hookspec(firstresult=True)
    def tensorplay_probe(self) -> Availability | None:
        """Says whether the backend can work on this machine; must be quick and must not raise."""

    @hookspec
    def tensorplay_register(self, registry: Staging) -> None:
        """Registers kernels: ``registry.impl(op, key, fn)``; runs after the module's ``library_impl`` blocks."""

    @hookspec(firstresult=True)
    def tensorplay_device(self) -> DeviceAPI | None:
        """Returns the device API; required of the owner of a device, refused from an extender."""

    @hookspec(firstresult=True)
    def tensorplay_from_namespace(
        self,
        xp: Any,
        name: str,
        dtypes: Mapping[str, Any] | None,
        mutable: bool | None,
        views: bool | None,
        device_count: int,
    ) -> Any:
        """Returns an object with the other hooks, for a device over an array module; asked of composite alone."""

    @hookspec
    def tensorplay_unload(self) -> None:
        """Releases what the backend holds, after its kernels and its device are gone."""


FROM_NAMESPACE = "tensorplay_from_namespace"
"""A hook between core and composite, which is no part of the plugin API."""
NAMES = tuple(name for name in vars(Hooks) if name.startswith(PREFIX) and name != FROM_NAMESPACE)


def plugin_manager() -> pluggy.PluginManager:
    """Returns a fresh manager that knows the hooks; each backend has its own, so none sees another's."""
    manager = pluggy.PluginManager(PROJECT)
    manager.add_hookspecs(Hooks)
    return manager


def problems(manager: pluggy.PluginManager, plugin: Any) -> list[str]:
    """Returns what is wrong with the hooks of a registered plugin: misspelt names, and hooks without ``@hookimpl``."""
    found = []
    marked = set()
    for caller in manager.get_hookcallers(plugin) or ():
        for implementation in caller.get_hookimpls():
            marked.add(implementation.function.__name__)
            if not caller.has_spec():
                hint = did_you_mean(caller.name, NAMES, limit=1)
                found.append(f"there is no hook {caller.name!r}{_at(implementation.function)}.{hint}{_choices(NAMES)}")
    for name, value in sorted(_functions(plugin)):
        if name in marked:
            continue
        if name in NAMES:
            found.append(f"the function {name!r}{_at(value)} is not marked with @hookimpl, so it would never be called")
        elif near := difflib.get_close_matches(
            name.removeprefix(PREFIX), [hook.removeprefix(PREFIX) for hook in NAMES], 1, 0.8
        ):
            found.append(
                f"the function {name!r}{_at(value)} is no hook and not marked with @hookimpl. Did you mean"
                f" {PREFIX + near[0]!r}?"
            )
    return found


def argument_problems(plugin: Any) -> list[str]:
    """Returns which marked hooks of a plugin ask for arguments that the hook does not have."""
    found = []
    for name, value in sorted(_functions(plugin)):
        if name in NAMES and getattr(value, f"{PROJECT}_impl", None):
            passed = [each for each in inspect.signature(getattr(Hooks, name)).parameters if each != "self"]
            asked = [
                each.name
                for each in inspect.signature(value).parameters.values()
                if each.default is each.empty and each.kind is each.POSITIONAL_OR_KEYWORD and each.name != "self"
            ]
            if not set(asked) <= set(passed):
                takes = f"takes ({', '.join(passed)})" if passed else "takes no argument"
                found.append(f"the hook {name!r}{_at(value)} {takes}, and is written with ({', '.join(asked)})")
    return found


def _functions(plugin: Any) -> list[tuple[str, Any]]:
    # The plugin's own: what it imported from another package is that package's affair.
    package = str(getattr(plugin, "__module__", None) or getattr(plugin, "__name__", "")).partition(".")[0]
    return [
        (name, value)
        for name, value in (vars(plugin).items() if hasattr(plugin, "__dict__") else ())
        if name.startswith(PREFIX) and callable(value)
        if str(getattr(value, "__module__", "")).partition(".")[0] == package
    ]


def _at(function: Any) -> str:
    code = getattr(function, "__code__", None)
    return f" ({code.co_filename}:{code.co_firstlineno})" if code is not None else ""


def _choices(names: Iterable[str]) -> str:
    return f" The hooks are {', '.join(names)}."
