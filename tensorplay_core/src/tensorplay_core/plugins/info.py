"""What a backend says about itself without running: the validated content of its ``backend.yaml``.

The file is data that anyone may have written, so every field is checked, all problems are reported at once with their
lines, and a field that we do not know is an error with the nearest names rather than a silent slip.
"""

from __future__ import annotations

import re
import reprlib
from collections.abc import Callable, Mapping
from typing import Any

import attrs

from tensorplay_core.errors import BackendError, did_you_mean
from tensorplay_core.plugins.records import COMPOSITE

NAME = re.compile(r"[a-z][a-z0-9_]*")
"""A backend's name is matched whole, never as a prefix: ``cpux`` and ``cudalike`` are devices of their own."""

DEFAULT_API = ">=1,<2"

SHOWN = 10
"""How many problems of one file a message lists."""

_CLAUSE = re.compile(r"(>=|<=|==|!=|~=|>|<)\s*([0-9]+(?:\.[0-9]+)*)")


@attrs.frozen
class BackendInfo:
    """Description of one backend.

    Attributes:
        name: the device type, or the extender's name.
        distribution: the distribution that provides it, and its ``version``.
        module: the entry point's value.
        summary: one line for people.
        api: the range of plugin API versions that it was written for.
        priority: its place among backends; among overriding kernels the higher one wins.
        extends: devices or layouts to which it adds kernels; ``*`` is every device.
        mutable: whether arrays can be written in place.
        views: whether slicing an array shares its memory.
        requirements: what it needs beyond Python packages, for people.
        url: where to read on.
        file: the file that said so, empty when there was none.
    """

    name: str
    distribution: str
    version: str = "unknown"
    module: str = ""
    summary: str = ""
    api: str = DEFAULT_API
    priority: int = 0
    extends: tuple[str, ...] = ()
    mutable: bool = True
    views: bool = True
    requirements: tuple[str, ...] = ()
    url: str = ""
    file: str = ""

    @property
    def label(self) -> str:
        """The distribution with its version, where that is known."""
        return f"{self.distribution} {self.version}" if self.version != "unknown" else self.distribution

    @property
    def devices(self) -> tuple[str, ...]:
        """The device types that it owns: its own name, or none for an extender."""
        return () if self.extends or self.name == COMPOSITE else (self.name,)

    def extends_device(self, device_type: str) -> bool:
        """Whether it adds kernels to a device of that type."""
        return device_type in self.extends or "*" in self.extends


def parse(info: BackendInfo, text: str | bytes, file: str) -> BackendInfo:
    """Returns ``info`` with the fields that a ``backend.yaml`` gives.

    Args:
        info: name, distribution, version and module, with defaults for the rest.
        text: the file's content.
        file: how to call the file in messages.

    Raises:
        BackendError: the file is no YAML, or fields are unknown, repeated or of the wrong form; it lists all of them.
    """
    fields, lines, problems = _load(text, file)
    choices = f" The fields are {', '.join(FIELDS)}"
    for name, value in fields.items():
        check = FIELDS.get(name)
        if check is None:
            hint = did_you_mean(str(name), FIELDS)
            problem = f"unknown field {_short(name)}.{hint or choices}"
        else:
            expected = check(value)
            problem = f"{name} must be {expected}, got {_short(value)}" if expected else ""
        if problem:
            problems.append(f"{file}:{lines.get(name, 1)}: {problem}")
    if len(problems) > SHOWN:
        problems[SHOWN:] = [f"and {len(problems) - SHOWN} more"]
    if len(problems) > 1:
        raise BackendError("\n  - ".join(["it has several problems:", *problems]))
    if problems:
        raise BackendError(problems[0])
    values: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()
    }
    return attrs.evolve(info, file=file, **values)


def api_problem(api: str, version: str) -> str:
    """Returns why a plugin for the API range ``api`` does not fit API ``version``, or an empty string.

    Example:
        >>> api_problem(">=1,<2", "1.0")
        ''
        >>> api_problem(">=2", "1.0")
        'it needs plugin API >=2, and this TensorPlay has 1.0'
    """
    if all(_holds(operator, bound, version) for operator, bound in _CLAUSE.findall(api)):
        return ""
    return f"it needs plugin API {api}, and this TensorPlay has {version}"


def _load(text: str | bytes, file: str) -> tuple[dict[Any, Any], dict[Any, int], list[str]]:
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        node = yaml.compose(text, Loader=loader)
        fields = yaml.load(text, Loader=loader)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        line = mark.line + 1 if mark is not None else 1
        parts = [getattr(error, part, None) for part in ("context", "problem", "reason")]
        text = ", ".join(filter(None, parts)) or str(error)
        raise BackendError(f"{file}:{line}: not valid YAML: {text}") from error
    if fields is None:
        return {}, {}, []
    if not isinstance(fields, Mapping) or not isinstance(node, yaml.MappingNode):
        raise BackendError(f"{file}:1: must be a mapping of fields, got {type(fields).__name__}")
    lines: dict[Any, int] = {}
    problems = []
    for key, _ in node.value:
        line = key.start_mark.line + 1
        if key.value in lines:
            problems.append(f"{file}:{line}: the field {key.value!r} is given twice, first in line {lines[key.value]}")
        lines.setdefault(key.value, line)
    return dict(fields), lines, problems


def _short(value: Any) -> str:
    # A few lines of YAML with aliases can be a value whose whole text would fill the memory.
    shortened = reprlib.Repr()
    shortened.maxlevel, shortened.maxstring, shortened.maxother = 2, 60, 60
    return shortened.repr(value)


def _holds(operator: str, bound: str, version: str) -> bool:
    low, have = _numbers(bound), _numbers(version)
    width = max(len(low), len(have))
    low, have = low + (0,) * (width - len(low)), have + (0,) * (width - len(have))
    if operator == "~=":
        fixed = max(bound.count("."), 1)
        return have >= low and have[:fixed] == low[:fixed]
    return {
        ">=": have >= low, "<=": have <= low, "==": have == low, "!=": have != low, ">": have > low, "<": have < low,
    }[operator]  # fmt: skip


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def _text(value: Any) -> str:
    return "" if isinstance(value, str) and "\n" not in value.strip() else "one line of text"


def _api(value: Any) -> str:
    clauses = value.split(",") if isinstance(value, str) else [""]
    good = all(_CLAUSE.fullmatch(clause.strip()) for clause in clauses)
    return "" if good else 'a range in quotes such as ">=1,<2" (operators: >= <= > < == != ~=)'


def _integer(value: Any) -> str:
    return "" if isinstance(value, int) and not isinstance(value, bool) else "an integer"


def _boolean(value: Any) -> str:
    return "" if isinstance(value, bool) else "true or false"


def _extends(value: Any) -> str:
    names = value if isinstance(value, list) else [None]
    good = all(isinstance(name, str) and (name == "*" or NAME.fullmatch(name)) for name in names)
    return "" if good else "a list of device types or layouts, each a lowercase identifier (or '*' for every device)"


def _texts(value: Any) -> str:
    good = isinstance(value, list) and all(isinstance(item, str) for item in value)
    return "" if good else "a list of texts"


def _url(value: Any) -> str:
    good = isinstance(value, str) and re.fullmatch(r"https?://\S+", value)
    return "" if good else "an address that starts with https:// or http://"


FIELDS: dict[str, Callable[[Any], str]] = {
    "summary": _text,
    "api": _api,
    "priority": _integer,
    "extends": _extends,
    "mutable": _boolean,
    "views": _boolean,
    "requirements": _texts,
    "url": _url,
}
"""Field to check; a check returns what it expected, or an empty string when the value is good."""
