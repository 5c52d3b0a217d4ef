"""From a schema to the Python signature of its public function: names, annotations and defaults, in PyTorch's order."""

from __future__ import annotations

import json
import keyword
from collections.abc import Iterable, Mapping
from functools import lru_cache

import attrs

from tensorplay_core.codegen.contract_model import NativeFunction
from tensorplay_core.types.dtype import in_schema
from tensorplay_core.types.overloads import spread_argument
from tensorplay_core.types.promotion import BROADCASTING, NOT_PROMOTED
from tensorplay_core.types.schema import Argument, BaseType, Type

NUMPY_NAMES = {"dim": "axis", "keepdim": "keepdims"}
"""Spellings that PyTorch takes too."""
_TENSOR = Type(BaseType.TENSOR)
_PYTHON = {
    BaseType.TENSOR: "Tensor",
    BaseType.SCALAR: "Number",
    BaseType.INT: "int",
    BaseType.SYMINT: "int",
    BaseType.FLOAT: "float",
    BaseType.BOOL: "bool",
    BaseType.STR: "str",
    BaseType.SCALAR_TYPE: "DType",
    BaseType.DEVICE: "Device | str",
    BaseType.LAYOUT: "str",
    BaseType.MEMORY_FORMAT: "str",
    BaseType.GENERATOR: "Any",
}


def parameter_name(argument: Argument) -> str:
    """Returns an argument's name in Python: PyTorch calls a function's ``self`` ``input``, and ``from`` is a word."""
    if argument.name == "self":
        return "input"
    return f"{argument.name}_" if is_reserved(argument.name) else argument.name


def is_reserved(name: str) -> bool:
    """Whether Python has another use for a name, so that no parameter can have it."""
    return keyword.iskeyword(name) or name == "__debug__"


def parameter_names(function: NativeFunction) -> dict[str, str]:
    """Returns each argument's name in Python, no two of them the same.

    Where a signature has an argument ``input`` besides ``self``, that one keeps its name, and so does ``self``; and so
    does a ``self`` behind the ``*``.
    """
    arguments = function.schema.arguments
    names = {a.name: parameter_name(a) for a in arguments}
    if "self" in names and ("input" in [a.name for a in arguments] or function.schema.self_argument is None):
        names["self"] = "self"
    for argument in arguments:
        if is_reserved(argument.name):
            while list(names.values()).count(names[argument.name]) > 1:
                names[argument.name] += "_"
    return names


def takes_numbers(function: NativeFunction) -> bool:
    """Whether tensor arguments may be Python numbers: where there are two, and they share a dtype."""
    return (
        function.promote in ("default", "float", "bool")
        and function.shape in BROADCASTING
        and sum(a.type.base is BaseType.TENSOR and a.name not in NOT_PROMOTED for a in function.schema.positional) > 1
    )


def promoted(function: NativeFunction) -> tuple[Argument, ...]:
    """Returns the tensor arguments that share one dtype."""
    return tuple(a for a in function.schema.positional if a.type == _TENSOR and a.name not in NOT_PROMOTED)


def spread(function: NativeFunction) -> Argument | None:
    """Returns the argument that may be written as several: the last positional, if a list of ints of any length."""
    return spread_argument(function.schema)


def annotation(function: NativeFunction, argument: Argument, *, numbers: bool = True) -> str:
    """Returns the annotation of an argument; ``numbers`` where a number may stand for a tensor: not among overloads."""
    base = _PYTHON[argument.type.base]
    if argument.type.is_list:
        item = f"{base} | None" if argument.type.item.is_optional else base
        base = f"Sequence[{item}]"
        if argument.type.list_size is not None:
            base = f"{_PYTHON[argument.type.base]} | {base}"
    elif (
        numbers
        and argument.type.base is BaseType.TENSOR
        and argument.alias is None
        and takes_numbers(function)
        and (argument.type.is_optional or (argument in promoted(function) and len(promoted(function)) > 1))
    ):
        base = "Tensor | Number"
    return (
        f"{base} | None"
        if argument.type.is_optional or (argument.default is not None and argument.default.value is None)
        else base
    )


def default_text(argument: Argument) -> str:
    """Returns the Python text of an argument's default.

    Example:
        >>> from tensorplay_core.types.schema import parse_schema
        >>> schema = parse_schema("f(Tensor x, int reduction=Mean, Layout? layout=strided, float p=inf) -> Tensor")
        >>> [default_text(argument) for argument in schema.arguments[1:]]
        ['1', '"strided"', 'inf']
    """
    assert argument.default is not None
    return _text_of(argument.default.plain, argument.type.base is BaseType.SCALAR_TYPE)


def _text_of(value: object, is_dtype: bool) -> str:
    if isinstance(value, str) and is_dtype:
        return f"dtypes.{'bool_' if value == 'bool' else in_schema(value).name}"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, tuple):
        return f"({', '.join(_text_of(v, is_dtype) for v in value)}{',' if len(value) == 1 else ''})"
    return repr(value)


@attrs.frozen
class Signature:
    """A public function's signature.

    Attributes:
        parameters: as Python text, ``*`` included.
        returns: the annotation of the result.
        names: argument to parameter.
        numpy_names: parameter to its second spelling.
        spread: the parameter that may be written as several arguments, or None.
    """

    parameters: tuple[str, ...]
    returns: str
    names: Mapping[str, str]
    numpy_names: tuple[tuple[str, str], ...]
    spread: str | None


@lru_cache(maxsize=16_384)  # several targets ask for the same one
def signature(
    function: NativeFunction, *, out: bool | None = None, first: str | None = None, numbers: bool = True
) -> Signature:
    """Returns the signature of an operator's public function.

    Args:
        function: the operator.
        out: whether it takes ``out=``; the contract's word when None.
        first: what stands first in place of the argument ``self``, or of the first one where there is no ``self``.
        numbers: whether a number may stand for a tensor where PyTorch takes one.
    """
    schema = function.schema
    names = parameter_names(function)
    several = spread(function)
    own = schema.self_argument or (schema.positional[0] if schema.positional else None)
    positional = [] if first is None else [first]
    for argument in schema.positional:
        if first is not None and argument is own:
            continue
        if argument is several:
            positional.append(f"*{plural(argument, names.values())}: int | Sequence[int]")
            continue
        positional.append(_parameter(function, argument, names, numbers))
    if first is not None and own is not None and several is own:
        several = None
    keyword_only = [_parameter(function, a, names, numbers) for a in schema.keyword_only]
    if several is not None:
        keyword_only.insert(0, f"{names[several.name]}: Sequence[int] | None = None")
    if function.out if out is None else out:
        keyword_only.append(f"out: {out_annotation(function)} | None = None")
    if takes_requires_grad(function):
        keyword_only.append("requires_grad: bool = False")
    second = tuple(
        (a.name, NUMPY_NAMES[a.name])
        for a in schema.positional
        if a.name in NUMPY_NAMES and a.default is not None and NUMPY_NAMES[a.name] not in names.values()
    )
    keyword_only += [f"{other}: {_second_annotation(function, name)} = None" for name, other in second]
    star = ["*"] if keyword_only and several is None else []
    collected = plural(several, names.values()) if several is not None else None
    return Signature((*positional, *star, *keyword_only), returns(function), names, second, collected)


def _parameter(function: NativeFunction, argument: Argument, names: Mapping[str, str], numbers: bool) -> str:
    text = f"{names[argument.name]}: {annotation(function, argument, numbers=numbers)}"
    return text + (f" = {default_text(argument)}" if argument.default is not None else "")


def takes_requires_grad(function: NativeFunction) -> bool:
    """Whether a creation function takes ``requires_grad`` besides what its signature says."""
    return "creation" in function.tags and function.schema.argument("requires_grad") is None


def out_annotation(function: NativeFunction) -> str:
    """Returns the annotation of ``out``: a tensor, or a tuple of as many as there are results."""
    count = len(function.schema.returns)
    return "Tensor" if count == 1 else f"tuple[{', '.join(['Tensor'] * count)}]"


def _second_annotation(function: NativeFunction, name: str) -> str:
    argument = function.schema.argument(name)
    assert argument is not None
    text = annotation(function, argument)
    return text if text.endswith("| None") else f"{text} | None"


def plural(argument: Argument, taken: Iterable[str] = ()) -> str:
    """Returns the name of the parameter that collects a spread argument, one that is not taken."""
    name = f"{argument.name.removesuffix('s')}s_" if argument.name.endswith("s") else f"{argument.name}s"
    taken = set(taken)
    while name in taken or is_reserved(name):
        name += "_"
    return name


def returns(function: NativeFunction) -> str:
    """Returns the annotation of the result.

    Example:
        >>> from tensorplay_core.types.schema import parse_schema
        >>> f = NativeFunction(schema=parse_schema("f(Tensor x) -> (Tensor values, Tensor[] parts, int n)"))
        >>> returns(f)
        'tuple[Tensor, Sequence[Tensor], int]'
    """
    found = [_returned(result.type) for result in function.schema.returns]
    if function.schema.is_view and function.schema.returns_list:
        return "tuple[Tensor, ...]"
    if not found:
        return "None"
    return found[0] if len(found) == 1 else f"tuple[{', '.join(found)}]"


def _returned(type: Type) -> str:
    item = _PYTHON[type.base]
    if type.is_list:
        item = f"Sequence[{item} | None]" if type.item.is_optional else f"Sequence[{item}]"
    return f"{item} | None" if type.is_optional else item


def joined(parameters: Iterable[str]) -> str:
    """Returns parameters as one text, without annotations of what a reader sees at once; for docstrings."""
    names = [p.partition(":")[0] + (" = " + p.rpartition(" = ")[2] if " = " in p else "") for p in parameters]
    return ", ".join(name.replace(" = ", "=") for name in names)
