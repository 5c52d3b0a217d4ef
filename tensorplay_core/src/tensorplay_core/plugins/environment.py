"""The environment variables that steer which backends are found and loaded.

They are read at discovery and not at import, so that a wrong value is an error where backends are first needed and
``import tensorplay`` always works. A value is never half understood: it is taken whole, or refused with the valid ones.
"""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Iterable, Mapping

import attrs

from tensorplay_core.dispatch.misses import trace_misses
from tensorplay_core.errors import EnvironmentVariableError, did_you_mean, fix
from tensorplay_core.plugins.records import COMPOSITE, OURS

ALLOW = "TENSORPLAY_BACKENDS"
BLOCK = "TENSORPLAY_BACKENDS_BLOCK"
PRIORITY = "TENSORPLAY_BACKENDS_PRIORITY"
AUTOLOAD = "TENSORPLAY_BACKEND_AUTOLOAD"

_NAME = re.compile(r"[a-z][a-z0-9_]*")


@attrs.frozen
class Settings:
    """What the environment asks for.

    Attributes:
        allow: the only backends that may run, or None for all; ``composite`` owns no device and need not be listed.
        block: backends that must not run; blocking wins over allowing.
        priority: priorities that replace those of the backends' own ``backend.yaml``.
        autoload: whether naming a device may load its backend.
    """

    allow: frozenset[str] | None = None
    block: frozenset[str] = frozenset()
    priority: Mapping[str, int] = attrs.field(factory=dict)
    autoload: bool = True

    def blocked(self, name: str) -> str:
        """Returns why the backend may not run, or an empty string."""
        if name in self.block:
            return f"{BLOCK} names it"
        if self.allow is not None and name not in self.allow and name != COMPOSITE:
            return f"{ALLOW}={','.join(sorted(self.allow))} does not name it"
        return ""


def read(environ: Mapping[str, str] | None = None) -> Settings:
    """Reads the four variables, and looks whether the one that the dispatcher reads at each miss means anything.

    Args:
        environ: where to read; the process's environment by default.

    Raises:
        EnvironmentVariableError: a value that means nothing.

    Example:
        >>> read({"TENSORPLAY_BACKENDS_PRIORITY": "foo=10"}).priority
        {'foo': 10}
    """
    if environ is None:
        environ = os.environ
        trace_misses()
    allow = environ.get(ALLOW, "").strip()
    return Settings(
        allow=_names(ALLOW, allow) if allow else None,
        block=_names(BLOCK, environ.get(BLOCK, "")),
        priority=_priorities(environ.get(PRIORITY, "")),
        autoload=_flag(AUTOLOAD, environ.get(AUTOLOAD, "")),
    )


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
        if name not in known:
            raise EnvironmentVariableError(
                f"{ALLOW} names {name!r}, and no such backend is installed.{did_you_mean(name, known)}"
                f" Installed: {', '.join(installed) or 'none'}." + fix(f"correct or unset {ALLOW}")
            )
    for variable, names in ((BLOCK, settings.block), (PRIORITY, settings.priority)):
        for name in sorted(names):
            hint = did_you_mean(name, installed)
            if name not in known and hint:
                warnings.warn(f"{variable} names {name!r}, which is not installed.{hint}", RuntimeWarning, stacklevel=2)


def _names(variable: str, text: str) -> frozenset[str]:
    parts = [part.strip() for part in text.split(",")] if text.strip() else []
    for part in parts:
        if not _NAME.fullmatch(part):
            raise _bad(variable, text, f"{part!r} is no backend's name", "names with commas between, such as cpu,cuda")
    return frozenset(parts)


def _priorities(text: str) -> dict[str, int]:
    priorities: dict[str, int] = {}
    for part in text.split(",") if text.strip() else ():
        name, _, number = (piece.strip() for piece in part.partition("="))
        if not _NAME.fullmatch(name) or not re.fullmatch(r"[+-]?[0-9]{1,9}", number):
            raise _bad(PRIORITY, text, f"{part.strip()!r} is not name=integer", "pairs such as foo=10,bar=-5")
        priorities[name] = int(number)
    return priorities


def _flag(variable: str, text: str) -> bool:
    if text.strip() not in ("", "0", "1"):
        valid = "0 (load only what tensorplay.backends.load names) and 1 (the default)"
        raise _bad(variable, text, "it is neither", valid)
    return text.strip() != "0"


def _bad(variable: str, text: str, why: str, valid: str) -> EnvironmentVariableError:
    return EnvironmentVariableError(
        f"{variable}={text!r} means nothing: {why}. Valid values are {valid}." + fix(f"correct or unset {variable}")
    )
