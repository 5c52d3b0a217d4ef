"""From a schema to the Python signature of its public function: names, annotations and defaults, in PyTorch's order."""

from __future__ import annotations

import json
from collections.abc import Iterable

import attrs

from tensorplay_core.codegen.contract import NativeFunction
from tensorplay_core.types.schema import Argument, BaseType, Identifier

NUMPY_NAMES = {"dim": "axis", "keepdim": "keepdims"}
"""Spellings that PyTorch takes too."""
NOT_PROMOTED = ("condition",)
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
    """Returns an argument's name in Python: PyTorch calls a function's ``self`` ``input``."""
    return "input" if argument.name == "self" else argument.name


def takes_numbers(function: NativeFunction) -> bool:
    """Whether tensor arguments may be Python numbers: where there are two, and they share a dtype."""
    return (
        function.promote in ("default", "float", "bool")
        and len(promoted(function)) > 1
        and function.shape == "broadcast"
    )


def promoted(function: NativeFunction) -> tuple[Argument, ...]:
    """Returns the tensor arguments that share one dtype."""
    return tuple(a for a in function.schema.positional if str(a.type) == "Tensor" and a.name not in NOT_PROMOTED)


def spread(function: NativeFunction) -> Argument | None:
    """Returns the argument that may be written as several: the last positional, if a list of ints of any length."""
    last = function.schema.positional[-1] if function.schema.positional else None
    if last is None or last.default is not None or str(last.type) not in ("int[]", "SymInt[]"):
        return None
    return last


def annotation(function: NativeFunction, argument: Argument) -> str:
    """Returns the annotation of an argument."""
    base = _PYTHON[argument.type.base]
    if argument.type.is_list:
        item = f"{base} | None" if argument.type.item.is_optional else base
        base = f"Sequence[{item}]"
        if argument.type.list_size is not None:
            base = f"{_PYTHON[argument.type.base]} | {base}"
    elif argument in promoted(function) and takes_numbers(function):
        base = "Tensor | Number"
    return (
        f"{base} | None"
        if argument.type.is_optional or (argument.default is not None and argument.default.value is None)
        else base
    )


def default_text(argument: Argument) -> str:
    """Returns the Python text of an argument's default."""
    assert argument.default is not None
    value = argument.default.value
    if isinstance(value, Identifier):
        value = value.name
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    return repr(tuple(value)) if isinstance(value, (list, tuple)) else repr(value)


@attrs.frozen
class Signature:
    """A public function's signature.

    Attributes:
        parameters: as Python text, ``*`` included.
        returns: the annotation of the result.
        numpy_names: parameter to its second spelling.
        spread: the parameter that may be written as several arguments, or None.
    """

    parameters: tuple[str, ...]
    returns: str
    numpy_names: tuple[tuple[str, str], ...]
    spread: str | None


def signature(function: NativeFunction, *, out: bool | None = None, first: str | None = None) -> Signature:
    """Returns the signature of an operator's public function.

    Args:
        function: the operator.
        out: whether it takes ``out=``; the contract's word when None.
        first: a replacement for the first parameter, such as ``self`` for a method's stub.
    """
    schema = function.schema
    several = spread(function)
    positional = []
    for argument in schema.positional:
        if argument is several:
            positional.append(f"*{plural(argument)}: int | Sequence[int]")
            continue
        text = f"{parameter_name(argument)}: {annotation(function, argument)}"
        positional.append(text + (f" = {default_text(argument)}" if argument.default is not None else ""))
    if first is not None:
        positional[0] = first
    keyword = [
        f"{a.name}: {annotation(function, a)} = {default_text(a)}"
        if a.default is not None
        else f"{a.name}: {annotation(function, a)}"
        for a in schema.keyword_only
    ]
    if several is not None:
        keyword.insert(0, f"{several.name}: Sequence[int] | None = None")
    if function.out if out is None else out:
        keyword.append("out: Tensor | None = None")
    if "creation" in function.tags:
        keyword.append("requires_grad: bool = False")
    names = tuple(
        (a.name, NUMPY_NAMES[a.name]) for a in schema.positional if a.name in NUMPY_NAMES and a.default is not None
    )
    keyword += [f"{second}: {_second_annotation(function, name)} = None" for name, second in names]
    star = ["*"] if keyword and several is None else []
    return Signature((*positional, *star, *keyword), returns(function), names, plural(several) if several else None)


def _second_annotation(function: NativeFunction, name: str) -> str:
    argument = function.schema.argument(name)
    assert argument is not None
    text = annotation(function, argument)
    return text if text.endswith("| None") else f"{text} | None"


def plural(argument: Argument) -> str:
    """Returns the name of the parameter that collects a spread argument."""
    return f"{argument.name.removesuffix('s')}s_" if argument.name.endswith("s") else f"{argument.name}s"


def returns(function: NativeFunction) -> str:
    """Returns the annotation of the result."""
    count = len(function.schema.returns)
    if count == 0:
        return "None"
    return "Tensor" if count == 1 else f"tuple[{', '.join(['Tensor'] * count)}]"


def joined(parameters: Iterable[str]) -> str:
    """Returns parameters as one text, without annotations of what a reader sees at once; for docstrings."""
    names = [p.partition(":")[0] + (" = " + p.rpartition(" = ")[2] if " = " in p else "") for p in parameters]
    return ", ".join(name.replace(" = ", "=") for name in names)
