"""Operator signatures from Python's type hints.

A custom operator's function says everything that a schema says, once it is annotated; reading it there keeps the two
from drifting apart. Hints may be strings, as ``from __future__ import annotations`` makes them.
"""

from __future__ import annotations

import inspect
import numbers
import sys
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, NoReturn

from tensorplay_core.dispatch.operator import location
from tensorplay_core.errors import SchemaError, did_you_mean, fix
from tensorplay_core.tensor.tensor import Tensor, TensorBase
from tensorplay_core.types.device import Device
from tensorplay_core.types.dtype import DType

UNKNOWN = "unknown"
_BASES: Mapping[Any, str] = {
    Tensor: "Tensor",
    TensorBase: "Tensor",
    int: "int",
    float: "float",
    bool: "bool",
    str: "str",
    DType: "ScalarType",
    Device: "Device",
    numbers.Number: "Scalar",
}
_SEQUENCES = (list, tuple, Sequence)
_LONG = "tensorplay_core.tensor.tensor."
_KINDS = (bool, int, float, complex)
_SUPPORTED = (
    "tp.Tensor, int, float, bool, str, tp.dtype, tp.device, a number of any kind (int | float | bool), each also with "
    "'| None', and list[...], Sequence[...] or tuple[..., ...] of them"
)
_RESULTS = "tp.Tensor, int, float, bool, a number of any kind, list[tp.Tensor], a tuple of these, or None"


class _Type(NamedTuple):
    """A type of the schema language as text, in two halves: an alias annotation stands between them."""

    base: str
    suffix: str = ""


class _Unsupported(Exception):
    """A hint that has no counterpart, with what to write instead."""


class Reader:
    """Reads the signature of one function.

    Args:
        function: what to read.
        names: where names in string annotations are looked for besides the function's globals.
    """

    def __init__(self, function: Callable[..., Any], names: Mapping[str, Any]) -> None:
        """See the class."""
        self.function = function
        self.name = getattr(function, "__name__", type(function).__name__)
        try:
            self.signature = inspect.signature(function)
        except (TypeError, ValueError) as error:
            raise SchemaError(
                f"infer_schema: {self.name} has no signature that Python knows: {error}"
                + fix("wrap it in a def with type hints, or pass schema=.")
            ) from None
        self._globals = getattr(inspect.unwrap(function), "__globals__", {})
        self._names = names

    def fail(self, what: str, remedy: str) -> NoReturn:
        """Raises a SchemaError that names the function and its line."""
        signature = str(self.signature).replace(_LONG, "tp.")
        raise SchemaError(f"infer_schema: {what}, in {self.name}{signature} ({location(self.function)})" + fix(remedy))

    def schema(self, mutates: str | frozenset[str]) -> str:
        """Returns the signature without a name: ``(Tensor x, int n=1) -> Tensor``."""
        parameters, parts, keywords = self.signature.parameters, [], False
        if not isinstance(mutates, str):
            for name in sorted(mutates - set(parameters)):
                self.fail(
                    f"mutates_args names {name!r}, which is no parameter.{did_you_mean(name, parameters)}",
                    f"name parameters: {', '.join(parameters) or 'there are none'}.",
                )
        for place, parameter in enumerate(parameters.values()):
            if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
                self.fail(
                    f"parameter '{str(parameter).replace(_LONG, 'tp.')}' is {parameter.kind.description}, which no "
                    "schema has",
                    "make it an ordinary parameter, or a list: xs: list[tp.Tensor].",
                )
            if parameter.kind is parameter.KEYWORD_ONLY and not keywords:
                keywords = True
                parts.append("*")
            parts.append(self._argument(parameter, place, mutates))
        return f"({', '.join(parts)}) -> {self._returns()}"

    def tuples(self) -> frozenset[str]:
        """Returns the parameters that want a sequence as a tuple; the others get lists."""
        return frozenset(
            name
            for name, parameter in self.signature.parameters.items()
            if parameter.annotation is not parameter.empty
            and any(typing.get_origin(hint) is tuple for hint in _without_none(self._resolved(name, parameter)))
        )

    def _resolved(self, name: str, parameter: inspect.Parameter) -> Any:
        return self._resolve(parameter.annotation, f"parameter {name!r}")

    def _argument(self, parameter: inspect.Parameter, place: int, mutates: str | frozenset[str]) -> str:
        name = parameter.name
        if parameter.annotation is parameter.empty:
            self.fail(f"parameter {name!r} has no type hint", f"annotate it with one of: {_SUPPORTED}.")
        hint = self._resolved(name, parameter)
        try:
            base, suffix = _type(hint)
        except _Unsupported as error:
            self.fail(
                f"parameter {name!r} is annotated {_shown(hint)}, {error}", f"annotate it with one of: {_SUPPORTED}."
            )
        if mutates == UNKNOWN and base == "Tensor":
            base = f"Tensor(a{place}!)"
        elif mutates != UNKNOWN and name in mutates:
            if base != "Tensor":
                self.fail(
                    f"mutates_args names {name!r}, which is {_shown(hint)}: only tensors are mutated",
                    "leave it out of mutates_args.",
                )
            base = f"Tensor(a{place}!)"
        written = f"{base}{suffix} {name}"
        return written if parameter.default is parameter.empty else f"{written}={self._default(parameter, hint)}"

    def _default(self, parameter: inspect.Parameter, hint: Any) -> str:
        value = parameter.default
        text = _literal(value)
        if text is None:
            self.fail(
                f"parameter {parameter.name!r} has the default {value!r} ({type(value).__name__}), which no schema has",
                "give it None, a number, a string, a tp.dtype, a tp.device, or a list of these.",
            )
        from tensorplay_core.types.schema import parse_schema

        base, suffix = _type(hint)
        try:
            parse_schema(f"f({base}{suffix} x={text}) -> ()")
        except SchemaError:
            self.fail(
                f"parameter {parameter.name!r} is annotated {_shown(hint)}, and its default is {value!r}",
                "make the hint and the default agree, for example with '| None'.",
            )
        return text

    def _returns(self) -> str:
        annotation = self.signature.return_annotation
        if annotation is inspect.Signature.empty:
            self.fail("there is no hint for what it returns", f"annotate it, '-> tp.Tensor'; supported are {_RESULTS}.")
        hint = self._resolve(annotation, "the return value")
        if hint is None or hint is type(None):
            return "()"
        try:
            if typing.get_origin(hint) is tuple and Ellipsis not in typing.get_args(hint):
                items = typing.get_args(hint)
                if len(items) < 2:
                    raise _Unsupported("a tuple of one")
                return f"({', '.join(_result(item) for item in items)})"
            return _result(hint)
        except _Unsupported as error:
            self.fail(f"the return value is annotated {_shown(hint)}, {error}", f"supported are {_RESULTS}.")

    def _resolve(self, hint: Any, what: str) -> Any:
        """Returns a hint without strings in it, however deep."""
        if isinstance(hint, typing.ForwardRef):
            hint = hint.__forward_arg__
        if isinstance(hint, str):
            try:
                hint = eval(hint, {**self._names, **self._globals})
            except Exception as error:
                self.fail(
                    f"the hint {hint!r} of {what} means nothing here ({type(error).__name__}: {error})",
                    "import what it names at the top of the module, or write the hint without quotes.",
                )
            return self._resolve(hint, what)
        arguments = typing.get_args(hint)
        if not arguments or typing.get_origin(hint) is typing.Literal:
            return hint
        if typing.get_origin(hint) is typing.Annotated:
            return self._resolve(arguments[0], what)
        resolved = tuple(self._resolve(argument, what) for argument in arguments)
        if resolved == arguments:
            return hint
        if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
            return typing.Union[resolved]  # noqa: UP007  # a union of a tuple of types has no other spelling
        return types.GenericAlias(typing.get_origin(hint), resolved)


def infer_schema(
    prototype_function: Callable[..., Any], /, *, mutates_args: str | Iterable[str], op_name: str | None = None
) -> str:
    """Returns the schema that a function's type hints say.

    Args:
        prototype_function: an annotated function.
        mutates_args: the names of the tensors that it writes to, or ``"unknown"`` for all of them.
        op_name: the operator's name; without it the schema begins with its arguments.

    Raises:
        SchemaError: a hint or a default has no counterpart in the schema language; the message names the parameter, the
            function's line, and what is supported.

    Example:
        >>> import tensorplay as tp
        >>> def scale(x: tp.Tensor, by: float = 2.0, *, out: tp.Tensor | None = None) -> tp.Tensor: ...
        >>> tp.library.infer_schema(scale, mutates_args=(), op_name="scale")
        'scale(Tensor x, float by=2.0, *, Tensor? out=None) -> Tensor'
    """
    text = Reader(prototype_function, sys._getframe(1).f_locals).schema(as_mutates(mutates_args))
    return text if op_name is None else f"{op_name}{text}"


def as_mutates(mutates_args: str | Iterable[str]) -> str | frozenset[str]:
    """Returns ``mutates_args`` as a set of names, or ``"unknown"``.

    Raises:
        SchemaError: another string, which would be taken apart into letters.
    """
    if not isinstance(mutates_args, str):
        names = list(mutates_args) if isinstance(mutates_args, Iterable) else [mutates_args]
        if not all(isinstance(name, str) for name in names):
            raise SchemaError(
                f"mutates_args is a collection of names or 'unknown', not {mutates_args!r}"
                + fix("write mutates_args=() where nothing is written to.")
            )
        return frozenset(names)
    if mutates_args != UNKNOWN:
        raise SchemaError(
            f"mutates_args is a collection of names or 'unknown', not {mutates_args!r}"
            + fix(f"write mutates_args={{{mutates_args!r}}}, with a comma or braces.")
        )
    return UNKNOWN


def _without_none(hint: Any) -> list[Any]:
    if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
        return [item for item in typing.get_args(hint) if item is not type(None)]
    return [hint]


def _type(hint: Any) -> _Type:
    """Returns the schema type of a resolved hint."""
    members = _without_none(hint)
    optional = "?" if len(members) < len(typing.get_args(hint)) and _is_union(hint) else ""
    if len(members) > 1:
        if not set(members) <= set(_KINDS):
            raise _Unsupported("and a union means either None or a number of any kind")
        return _Type("Scalar", optional)
    (member,) = members
    origin = typing.get_origin(member)
    if origin in _SEQUENCES:
        items = typing.get_args(member)
        if origin is tuple and (len(items) != 2 or items[1] is not Ellipsis):
            raise _Unsupported("a tuple of fixed length; a list of any length is tuple[..., ...]")
        item = _type(items[0])
        if "[]" in item.suffix:
            raise _Unsupported("a list of lists, which no schema has")
        return _Type(item.base, f"{item.suffix}[]{optional}")
    try:
        known = _BASES.get(member)
    except TypeError:  # not hashable, so no type
        known = None
    if known is None:
        raise _Unsupported(_why_not(member))
    return _Type(known, optional)


def _is_union(hint: Any) -> bool:
    return isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union


def _why_not(hint: Any) -> str:
    if isinstance(hint, DType):
        return f"a dtype and no type; for a number write Python's own {hint.name.rstrip('0123456789')}"
    if hint in _SEQUENCES or hint is typing.Any:
        return "which does not say of what; write for example list[tp.Tensor]"
    if hint is complex:
        return "which no schema has alone; a number of any kind is int | float | complex"
    return "which has no counterpart in a schema"


def _result(hint: Any) -> str:
    base, suffix = _type(hint)
    if suffix not in ("", "[]") or base in ("str", "ScalarType", "Device") or (suffix and base != "Tensor"):
        raise _Unsupported("which no operator returns")
    return base + suffix


def _literal(value: Any) -> str | None:
    """Returns a default as the schema language writes it, None when it cannot."""
    if value is None or isinstance(value, (bool, int)):
        return repr(value)
    if isinstance(value, float):
        return repr(value) if value == value and value != -float("inf") else None
    if isinstance(value, DType):
        return value.name
    if isinstance(value, (str, Device)):
        text = str(value).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
        return f'"{text}"'
    if isinstance(value, (list, tuple)):
        items = [_literal(item) for item in value]
        return None if None in items else f"[{', '.join(map(str, items))}]"
    return None


def _shown(hint: Any) -> str:
    if isinstance(hint, type) and not typing.get_args(hint):
        name = hint.__qualname__ if hint.__module__ == "builtins" else f"{hint.__module__}.{hint.__qualname__}"
        return name.replace(_LONG, "tp.")
    return str(hint).replace(_LONG, "tp.")
