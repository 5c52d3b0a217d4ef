"""What a program sets itself with ``tensorplay.backends.configure``, and whom the settings in force are told to.

A field that Python has set lies over its environment variable until it is given back. The floors below know nothing of
settings: they read plain module variables, which are written here and nowhere else.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import Any

import attrs

from tensorplay_core.errors import ArgumentError, TensorPlayError, ValueRangeError, did_you_mean, fix
from tensorplay_core.plugins import environment
from tensorplay_core.plugins.environment import ENVIRONMENT, FALLBACKS, LONGEST, PYTHON, Settings
from tensorplay_core.plugins.info import NAME
from tensorplay_core.plugins.records import OURS

DESCRIBES = frozenset({"allow", "block", "priority", "autoload"})
"""The fields that decide which backends are there; a change of any other leaves them alone."""


def merged(overrides: Mapping[str, Any], read: Settings | None = None) -> Settings:
    """Returns the settings that the environment and a program's own give together.

    Args:
        overrides: the program's own.
        read: what the environment said when it was read; it is read now by default.

    Raises:
        EnvironmentVariableError: a variable has a value that means nothing.
    """
    settings = environment.read() if read is None else read
    values = dict(overrides)
    sources = {**settings.sources, **dict.fromkeys(values, PYTHON)}
    if "priority" in values:
        if settings.priority:
            sources["priority"] = f"{ENVIRONMENT}, {PYTHON}"
        values["priority"] = {**settings.priority, **values["priority"]}
    return attrs.evolve(settings, **values, sources=sources)


def updated(overrides: Mapping[str, Any], given: Mapping[str, Any], installed: Iterable[str]) -> dict[str, Any]:
    """Returns a program's own settings after a call of ``configure``.

    Args:
        overrides: those before.
        given: what the call was given; None gives a field back to the environment.
        installed: the names of the installed backends.

    Raises:
        ArgumentError, ValueRangeError: a value that means nothing.
    """
    after = dict(overrides)
    for field, value in given.items():
        if value is None:
            after.pop(field, None)
        elif field in ("allow", "block"):
            names = _names(field, value)
            if names is None:
                after.pop(field, None)
                if field == "allow":
                    after["allow"] = None
            else:
                after[field] = names
        elif field == "priority":
            after[field] = {**after.get(field, {}), **_priorities(value)}
        else:
            after[field] = _CHECKS[field](field, value)
    if given.get("allow") is not None and after.get("allow"):
        known = sorted({*installed, *OURS})
        for name in sorted(after["allow"]):
            if name not in known:
                raise ValueRangeError(
                    f"configure: allow names {name!r}, and no such backend is installed.{did_you_mean(name, known)}"
                    + fix(f"name some of {', '.join(known)}")
                )
    return after


def limit(where: str, timeout: float | None) -> float | None:
    """Returns the time limit that a call was given, None where there is none.

    Args:
        where: the call, for the message.
        timeout: seconds; 0 and None are no limit.

    Raises:
        ArgumentError: it is no number.
        ValueRangeError: it is negative, no number after all, or longer than any wait.
    """
    if timeout is None:
        return None
    if not isinstance(timeout, (int, float)) or isinstance(timeout, bool):
        raise ArgumentError(
            f"{where}: timeout must be a number of seconds, got {timeout!r}" + fix("pass a number, or 0 for no limit")
        )
    if not 0 <= timeout <= LONGEST:
        raise ValueRangeError(
            f"{where}: timeout must be between 0 and {LONGEST:,} seconds, got {timeout!r}" + fix("pass 0 for no limit")
        )
    return float(timeout) or None


def tell(settings: Settings, overrides: Mapping[str, Any]) -> None:
    """Writes the settings where the floors below read them."""
    from tensorplay_core.dispatch import fallbacks, misses

    fallbacks.mode = settings.fallback
    misses.trace = overrides.get("trace_kernel_miss")  # else it asks the environment at each miss
    if settings.trace or "tensorplay_core.profiler.trace" in sys.modules:
        from tensorplay_core.profiler.trace import set_process_trace

        set_process_trace(settings.trace)


def _names(field: str, value: Any) -> frozenset[str] | None:
    if isinstance(value, str):
        if not value.strip():
            return None if field == "allow" else frozenset()  # what an empty variable means
        value = value.split(",")
    if isinstance(value, Mapping) or not isinstance(value, Iterable):
        raise _kind(field, value, "names of backends, such as ['cpu', 'cuda']")
    names = []
    for name in value:
        if not isinstance(name, str):
            raise _kind(field, name, "names of backends, such as ['cpu', 'cuda']")
        if not NAME.fullmatch(name.strip()):
            raise ValueRangeError(
                f"configure: {field}: {name!r} is no backend's name" + fix("name backends as tp.backends.list() does")
            )
        names.append(name.strip())
    return frozenset(names)


def _priorities(value: Any) -> dict[str, int]:
    if not isinstance(value, Mapping):
        raise _kind("priority", value, "a mapping of names to integers, such as {'foo': 10}")
    for name, number in value.items():
        if not isinstance(number, int) or isinstance(number, bool):
            raise _kind(f"priority of {name!r}", number, "an integer")
        if abs(number) >= 10**9:
            raise ValueRangeError(
                f"configure: priority of {name!r} must have at most 9 digits, got {number}"
                + fix("rank with smaller numbers")
            )
    _names("priority", value.keys())
    return {name.strip(): number for name, number in value.items()}


def _flag(field: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise _kind(field, value, "True or False")
    return value


def _fallback(field: str, value: Any) -> str:
    if not isinstance(value, str):
        raise _kind(field, value, f"one of {', '.join(map(repr, FALLBACKS))}")
    if value not in FALLBACKS:
        near = did_you_mean(value, FALLBACKS)
        raise ValueRangeError(
            f"configure: fallback: there is no {value!r}.{near}" + fix(f"pass one of {', '.join(map(repr, FALLBACKS))}")
        )
    return value


def _timeout(field: str, value: Any) -> float | None:
    return limit("configure", value)


_CHECKS = {"autoload": _flag, "fallback": _fallback, "trace": _flag, "trace_kernel_miss": _flag, "timeout": _timeout}


def _kind(field: str, value: Any, wanted: str) -> TensorPlayError:
    return ArgumentError(
        f"configure: {field} must be {wanted}, got {value!r}"
        + fix("None gives a field back to the environment; what is not given stays as it is")
    )
