"""The settings that steer which backends run and how, and the environment variables that they come from.

They are read at discovery and not at import, so that a wrong value is an error where backends are first needed and
``import tensorplay`` always works. A value is never half understood: it is taken whole, or refused with the valid ones.
What a program sets itself lies over them, see ``configuration``.
"""

from __future__ import annotations

import math
import os
import re
import warnings
from collections.abc import Iterable, Mapping
from typing import Any

import attrs

from tensorplay_core.errors import EnvironmentVariableError, did_you_mean, fix
from tensorplay_core.plugins.info import NAME
from tensorplay_core.plugins.records import COMPOSITE, OURS

ALLOW = "TENSORPLAY_BACKENDS"
BLOCK = "TENSORPLAY_BACKENDS_BLOCK"
PRIORITY = "TENSORPLAY_BACKENDS_PRIORITY"
AUTOLOAD = "TENSORPLAY_BACKEND_AUTOLOAD"
TIMEOUT = "TENSORPLAY_BACKEND_TIMEOUT"
FALLBACK = "TENSORPLAY_FALLBACK"
TRACE = "TENSORPLAY_TRACE"
TRACE_KERNEL_MISS = "TP_TRACE_KERNEL_MISS"

VARIABLES = {
    "allow": ALLOW,
    "block": BLOCK,
    "priority": PRIORITY,
    "autoload": AUTOLOAD,
    "fallback": FALLBACK,
    "trace": TRACE,
    "trace_kernel_miss": TRACE_KERNEL_MISS,
    "timeout": TIMEOUT,
}
"""The variable of each field of :class:`Settings`."""
FALLBACKS = ("raise", "warn", "allow")
LONGEST = 1_000_000
"""Seconds that a time limit may be long; what the system's waits can take ends somewhere above it."""
PYTHON = "configure"
"""The source of a field that ``tensorplay.backends.configure`` has set; the other one is :data:`ENVIRONMENT`."""
ENVIRONMENT = "environment"


@attrs.frozen(repr=False)
class Settings:
    """What is in force: the environment's wishes, and over them those of ``tensorplay.backends.configure``.

    Attributes:
        allow: the only backends that may run, or None for all; ``composite`` owns no device and need not be listed.
        block: backends that must not run; blocking wins over allowing.
        priority: priorities that replace those of the backends' own ``backend.yaml``.
        autoload: whether naming a device may load its backend.
        fallback: what a call does that has no kernel on its device: ``raise``, ``warn`` and run on the host, or
            ``allow`` that silently.
        trace: print every dispatch step to stderr.
        trace_kernel_miss: print the Python stack of a call that nothing serves.
        timeout: seconds that a probe may take, and that a thread waits for another one's load; None for no limit.
        sources: where each field that was set comes from: ``environment``, ``configure``, or both for priorities.

    Example:
        >>> read({"TENSORPLAY_BACKENDS_BLOCK": "cuda", "TENSORPLAY_BACKEND_TIMEOUT": "5"})
        Settings(block=cuda from TENSORPLAY_BACKENDS_BLOCK, timeout=5 s from TENSORPLAY_BACKEND_TIMEOUT)
    """

    allow: frozenset[str] | None = None
    block: frozenset[str] = frozenset()
    priority: Mapping[str, int] = attrs.field(factory=dict)
    autoload: bool = True
    fallback: str = "raise"
    trace: bool = False
    trace_kernel_miss: bool = False
    timeout: float | None = 60.0
    sources: Mapping[str, str] = attrs.field(factory=dict, eq=False)

    def blocked(self, name: str) -> str:
        """Returns why the backend may not run, or an empty string."""
        if name in self.block:
            return f"{self.origin('block')} names it"
        if self.allow is not None and name not in self.allow and name != COMPOSITE:
            allowed = ",".join(sorted(self.allow))
            if self.sources.get("allow") == PYTHON:
                return f"tensorplay.backends.configure(allow={allowed!r}) does not name it"
            return f"{ALLOW}={allowed} does not name it"
        return ""

    def remedy(self, name: str) -> str:
        """Returns what lets a blocked backend run again."""
        field = "block" if name in self.block else "allow"
        if self.sources.get(field) == PYTHON:
            change = "without" if field == "block" else "with"
            return (
                f"call tensorplay.backends.configure({field}=…) {change} {name!r}; {field}=None leaves it to"
                f" {VARIABLES[field]}"
            )
        return f"change or unset {VARIABLES[field]}, then call tensorplay.backends.refresh()"

    def origin(self, field: str) -> str:
        """Returns what a person changes to change a field: its variable, or the call that has set it."""
        source = self.sources.get(field, ENVIRONMENT)
        if source == ENVIRONMENT:
            return VARIABLES[field]
        call = f"tensorplay.backends.configure({field}=…)"
        return call if source == PYTHON else f"{VARIABLES[field]} and {call}"

    def as_dict(self) -> dict[str, Any]:
        """Returns the fields as plain values, for ``--json``."""
        return {
            **{name: getattr(self, name) for name in VARIABLES},
            "allow": None if self.allow is None else sorted(self.allow), "block": sorted(self.block),
            "priority": dict(self.priority), "sources": dict(self.sources),
        }  # fmt: skip

    def __repr__(self) -> str:
        """Shows what was set, each with its source."""
        parts = [f"{name}={self._text(name)} from {self.origin(name)}" for name in VARIABLES if name in self.sources]
        return f"Settings({', '.join(parts)})"

    def __str__(self) -> str:
        """Shows every field on a line of its own, with where it comes from."""
        rows = [(name, self._text(name), self.origin(name)) for name in VARIABLES]
        width = max(len(text) for _, text, _ in rows)
        return "\n".join(
            f"{name:<18}{text:<{width}}  {origin if name in self.sources else 'default'}" for name, text, origin in rows
        )

    def _text(self, name: str) -> str:
        value = getattr(self, name)
        if name == "timeout":
            return "no limit" if value is None else f"{value:g} s"
        if name == "priority":
            return ",".join(f"{key}={number}" for key, number in sorted(value.items())) or "none"
        if name in ("allow", "block"):
            return "all" if value is None else ",".join(sorted(value)) or "none"
        return str(value)


def read(environ: Mapping[str, str] | None = None) -> Settings:
    """Reads the variables, whole.

    Args:
        environ: where to read; the process's environment by default.

    Raises:
        EnvironmentVariableError: a value that means nothing.

    Example:
        >>> read({"TENSORPLAY_BACKENDS_PRIORITY": "foo=10"}).priority
        {'foo': 10}
    """
    environ = os.environ if environ is None else environ
    texts = {field: environ.get(variable, "").strip() for field, variable in VARIABLES.items()}
    values = {field: parse(field, text) for field, text in texts.items() if text}
    return Settings(**values, sources=dict.fromkeys(values, ENVIRONMENT))


def parse(field: str, text: str) -> Any:
    """Returns the value of a field that a variable's text means.

    Raises:
        EnvironmentVariableError: it means nothing; the message lists what does.
    """
    variable = VARIABLES[field]
    if field in ("allow", "block"):
        return _names(variable, text)
    if field == "priority":
        return _priorities(text)
    if field == "fallback":
        if text not in FALLBACKS:
            why = f"it is no such mode.{did_you_mean(text, FALLBACKS)}".removesuffix(".")
            raise _bad(variable, text, why, "raise (the default), warn and allow")
        return text
    if field == "timeout":
        return _seconds(text)
    valid = {
        "autoload": "0 (load only what tensorplay.backends.load names) and 1 (the default)",
        "trace": "0 (the default) and 1 (print every dispatch step to stderr)",
        "trace_kernel_miss": "0 (no trace, the default) and 1 (trace to stderr)",
    }
    if text not in ("0", "1"):
        raise _bad(variable, text, "it is neither", valid[field])
    return text == "1"


def warn_of_unknown(environ: Mapping[str, str] | None = None) -> None:
    """Warns of variables that look like one of ours and are none: the setting that was meant is not in force."""
    names = os.environ if environ is None else environ
    for name in sorted(names):
        if name.startswith("TENSORPLAY_BACKEND") and name not in VARIABLES.values():
            hint = did_you_mean(name, VARIABLES.values(), limit=1)
            known = hint or f" The variables are {', '.join(VARIABLES.values())}."
            warnings.warn(f"{name} is no variable of TensorPlay, so it does nothing.{known}", RuntimeWarning, 2)


def check_names(settings: Settings, installed: Iterable[str]) -> None:
    """Refuses an allow list with a name that no backend has; warns of a likely slip in the other lists.

    To block or to rank a backend that is not installed here is normal in a profile shared by several machines, so only
    a name close to an installed one is worth a word.

    Raises:
        EnvironmentVariableError: ``TENSORPLAY_BACKENDS`` names an unknown backend.
    """
    installed = sorted(installed)
    known = sorted({*installed, *OURS})
    for name in sorted(settings.allow or ()):
        if name not in known and settings.sources.get("allow") != PYTHON:  # configure has refused it, or it has gone
            raise EnvironmentVariableError(
                f"{ALLOW} names {name!r}, and no such backend is installed.{did_you_mean(name, known)}"
                f" Installed: {', '.join(installed) or 'none'}." + fix(f"correct or unset {ALLOW}")
            )
    for field, names in (("block", settings.block), ("priority", settings.priority)):
        for name in sorted(names):
            hint = did_you_mean(name, installed)
            if name not in known and hint:
                text = f"{settings.origin(field)} names {name!r}, which is not installed.{hint}"
                warnings.warn(text, RuntimeWarning, stacklevel=2)


def _names(variable: str, text: str) -> frozenset[str]:
    parts = [part.strip() for part in text.split(",")]
    for part in parts:
        if not NAME.fullmatch(part):
            raise _bad(variable, text, f"{part!r} is no backend's name", "names with commas between, such as cpu,cuda")
    return frozenset(parts)


def _priorities(text: str) -> dict[str, int]:
    priorities: dict[str, int] = {}
    for part in text.split(","):
        name, _, number = (piece.strip() for piece in part.partition("="))
        if not NAME.fullmatch(name) or not re.fullmatch(r"[+-]?[0-9]{1,9}", number):
            raise _bad(PRIORITY, text, f"{part.strip()!r} is not name=integer", "pairs such as foo=10,bar=-5")
        priorities[name] = int(number)
    return priorities


def _seconds(text: str) -> float | None:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds <= LONGEST:  # neither is it for what is no number
        valid = f"numbers above 0 up to {LONGEST:,}, such as 60 (the default), and 0 for no limit"
        raise _bad(TIMEOUT, text, "it is no number of seconds", valid)
    return seconds or None


def _bad(variable: str, text: str, why: str, valid: str) -> EnvironmentVariableError:
    return EnvironmentVariableError(
        f"{variable}={text!r} means nothing: {why}{'' if why.endswith('?') else '.'} Valid values are {valid}."
        + fix(f"correct or unset {variable}")
    )
