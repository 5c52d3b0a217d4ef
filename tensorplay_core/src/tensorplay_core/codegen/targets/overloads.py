"""Target ``overloads``: what a type checker and an editor see of ``tp.ops``, every operator with its full signature.

At run time the objects are made when they are asked for (``ops/packets.py``), so these modules hold stubs alone: one
signature an operator, in the words of the schema, and nothing that an import would have to pay for.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Collection, Iterator

import attrs

from tensorplay_core.codegen.context import HEADER, CodegenContext, import_order, indent, wrapped
from tensorplay_core.codegen.contract import NativeFunction
from tensorplay_core.codegen.signatures import annotation, default_text, is_reserved, returns

NAME = "overloads"
_WIDTH = 120
_MODULES = {
    "collections.abc": ("Sequence",),
    "typing": ("Any", "overload"),
    "tensorplay_core.ops.annotations": ("Number",),
    "tensorplay_core.ops.overload_types": ("one", "packet"),
    "tensorplay_core.ops.packets": ("Namespace", "OpPacket"),
    "tensorplay_core.tensor.tensor": ("Tensor",),
    "tensorplay_core.types.device": ("Device",),
    "tensorplay_core.types.dtype": ("DType",),
}
_TYPES = ("Any", "DType", "Device", "Number", "Sequence", "Tensor", "bool", "float", "int", "str", "tuple")
"""What signatures are written in. An overload may be called so (``softmax.int``, ``add.Tensor``) and hides the type."""
_NEEDED = ("Namespace", "OpPacket", "one", "overload", "packet", "staticmethod")
"""Names of the stubs themselves: an operator or overload so called goes without one."""


@attrs.frozen
class _Stub:
    """One operator: its own or its in-place form.

    Attributes:
        name: of the packet.
        function: the record.
        writes: whether it is the in-place form.
    """

    name: str
    function: NativeFunction
    writes: bool = False

    @property
    def overload(self) -> str:
        """Its name in the packet."""
        return self.function.schema.overload or "default"

    @property
    def is_possible(self) -> bool:
        """Whether Python can spell it (``random_.from`` is none), and it hides nothing that stubs are made of."""
        return not any(keyword.iskeyword(name) or name in _NEEDED for name in (self.name, self.overload))


def generate(context: CodegenContext) -> Iterator[tuple[str, str]]:
    """Yields the name and the text of each file."""
    packets: dict[str, list[_Stub]] = {}
    for function in context.contract.functions:
        forms = [_Stub(f"{function.name}_", function, writes=True)] if function.inplace else []
        for stub in (_Stub(function.name, function), *forms):
            if stub.is_possible:
                packets.setdefault(stub.name, []).append(stub)
    families: dict[str, list[list[_Stub]]] = {}
    for overloads in packets.values():
        families.setdefault(overloads[0].function.family, []).append(overloads)
    for family, found in families.items():
        yield f"_generated_overloads_{family}.py", _family(family, found)
    yield "_generated_overloads.py", _gathered(context, sorted(families))


def _class_name(family: str) -> str:
    return f"{family.title().replace('_', '')}Overloads"


def _family(family: str, packets: list[list[_Stub]]) -> str:
    hidden = {overloads[0].name for overloads in packets}.intersection(_TYPES)
    stubs = [line for overloads in packets for line in _packet(overloads, hidden)]
    text = "\n".join(stubs)
    aliases = [f"_{name} = {name}" for name in _TYPES if f"_{name}" in text and re.search(rf"(?<!\w)_{name}\b", text)]
    text += "\n".join(["", *aliases, "Namespace"])
    imports = [
        f"from {module} import {', '.join(sorted(used, key=import_order))}"
        for module, names in _MODULES.items()
        if (used := [name for name in names if re.search(rf"(?<!\w){name}\b(?![(:])", text)])
    ]
    standard = [line for line in imports if " tensorplay_core." not in line]
    body = [
        HEADER + f'"""The {family} operators of ``tp.ops``, as a type checker sees them."""',
        "",
        "from __future__ import annotations",
        "",
        "from typing import TYPE_CHECKING",
        "",
        "if TYPE_CHECKING:",
        *indent([*standard, *([""] if standard else []), *(line for line in imports if line not in standard), ""]),
        *indent([*aliases, ""] if aliases else []),
        f"    class {_class_name(family)}(Namespace):",
        f'        """The {family} operators."""',
        "",
        *indent(stubs, 2),
    ]
    return "\n".join(body) + "\n"


def _gathered(context: CodegenContext, families: list[str]) -> str:
    modules = [f"from {context.module(f'_generated_overloads_{f}')} import {_class_name(f)}" for f in families]
    bases = [_class_name(f) for f in families] or ["object"]
    body = [
        HEADER + '"""Every operator of ``tp.ops.tp``, as a type checker sees it."""',
        "",
        "from __future__ import annotations",
        "",
        "from typing import TYPE_CHECKING",
        "",
        "if TYPE_CHECKING:",
        *indent([*modules, ""]),
        *indent(wrapped("class GeneratedOverloads(", bases, "):", _WIDTH - 4)),
        '        """Names that are not here, such as those of a plugin, are packets without a signature."""',
    ]
    return "\n".join(body) + "\n"


def _packet(overloads: list[_Stub], hidden: Collection[str]) -> list[str]:
    """Returns the stub of one name: a signature, or a class where it has overload names."""
    name = overloads[0].name
    if len(overloads) == 1 and overloads[0].overload == "default":
        return _signature(["@packet", "@staticmethod"], name, overloads[0], hidden, 8)
    hidden = {*hidden, *{stub.overload for stub in overloads}.intersection(_TYPES)}
    body = []
    for stub in overloads:
        body += _signature(["@one", "@staticmethod"], stub.overload, stub, hidden, 12)
    mark = ["@overload"] if len(overloads) > 1 else []
    for stub in overloads:
        body += _signature(mark, "__call__", stub, hidden, 12, first="_")
    if mark:
        anything = "_Any" if "Any" in hidden else "Any"
        body.append(f"def __call__(_, *args: {anything}, **kwargs: {anything}) -> {anything}: ...")
    return [f"class _{name}_overloads(OpPacket):", *indent(body), "", f"{name}: _{name}_overloads"]


def _signature(
    marks: list[str], name: str, stub: _Stub, hidden: Collection[str], margin: int, first: str = ""
) -> list[str]:
    """Returns one signature as the schema has it, in Python, filled into lines."""
    function, arguments = stub.function, stub.function.schema.arguments
    pieces = [first] if first else []
    for i, argument in enumerate(sorted(arguments, key=lambda a: a.kwarg_only)):
        if argument.kwarg_only and "*" not in pieces:
            pieces.append("*")
        type = _visible("Tensor" if stub.writes and i == 0 else annotation(function, argument), hidden)
        default = f" = {_literal(default_text(argument))}" if argument.default is not None else ""
        name_ = f"{argument.name}_" if is_reserved(argument.name) else argument.name
        pieces.append(f"{name_}: {type}{default}")
    end = f") -> {_visible(returns(function), hidden)}: ..."
    one = f"def {name}({', '.join(pieces)}{end}"
    if len(one) <= _WIDTH - margin:
        return [*marks, one]
    filled = [""]
    for i, piece in enumerate(pieces):
        tail = "," if i < len(pieces) - 1 else ""
        if filled[-1] and len(filled[-1] + piece + tail) + 1 > _WIDTH - margin - 4:
            filled.append("")
        filled[-1] += f" {piece}{tail}" if filled[-1] else piece + tail
    return [*marks, f"def {name}(", *indent(filled), end]


def _literal(text: str) -> str:
    """Returns a default where it is a literal; ``...`` for a name that the stubs would have to import."""
    return text if re.fullmatch(r"""None|True|False|[-+\d.e(), ]+|"[^"]*\"""", text) else "..."


def _visible(type: str, hidden: Collection[str]) -> str:
    """Returns an annotation with another name for what the class that it stands in hides."""
    return re.sub(r"\w+", lambda m: f"_{m[0]}" if m[0] in hidden else m[0], type)
