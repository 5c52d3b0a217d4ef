"""Target ``functional``: the public functions, and the modules that gather them.

A function with one result of a fixed type gets the fast path; overloaded ones choose by their arguments; creation
functions take ``requires_grad``. Where a hand-written function of the same name exists, none is generated.
"""

from __future__ import annotations

import keyword
from collections.abc import Iterator

from tensorplay_core.codegen.context import (
    BODY_CHECKS,
    HEADER,
    CodegenContext,
    constant,
    docstring,
    import_order,
    indent,
    lines,
    wrapped,
)
from tensorplay_core.codegen.contract import NativeFunction
from tensorplay_core.codegen.signatures import (
    Signature,
    default_text,
    joined,
    parameter_name,
    plural,
    signature,
    spread,
)
from tensorplay_core.codegen.targets.fast_path import fast_body, return_lines, slow_call
from tensorplay_core.errors import ContractError

NAME = "functional"
_IMPORTS = {
    "Sequence": "from collections.abc import Sequence",
    "Any": "from typing import Any",
    "overload": "from typing import overload",
    "next_number": "from tensorplay_core.autograd.node import next_number",
    "active": "from tensorplay_core.dispatch import active",
    "STATE": "from tensorplay_core.dispatch.context import STATE",
    "call": "from tensorplay_core.ops.call import call",
    "Number": "from tensorplay_core.ops.annotations import Number",
    "binary": "from tensorplay_core.ops.frontend import binary",
    "created": "from tensorplay_core.ops.frontend import created",
    "pick": "from tensorplay_core.ops.frontend import pick",
    "second_name": "from tensorplay_core.ops.frontend import second_name",
    "spread": "from tensorplay_core.ops.frontend import spread",
    "scalar_like": "from tensorplay_core.ops.typing_rules import scalar_like",
    "Tensor": "from tensorplay_core.tensor.tensor import Tensor",
    "share": "from tensorplay_core.tensor.version import share",
    "share_if_aliased": "from tensorplay_core.tensor.version import share_if_aliased",
    "version_of": "from tensorplay_core.tensor.version import version_of",
    "Device": "from tensorplay_core.types.device import Device",
    "DType": "from tensorplay_core.types.dtype import DType",
}


def generate(context: CodegenContext) -> Iterator[tuple[str, str]]:
    """Yields the name and the text of each file."""
    gathered: list[tuple[str, list[str]]] = []
    for family, functions in context.families.items():
        blocks, names = [], []
        for function in functions:
            if is_generated(context, function):
                blocks.append(_function(context, function))
                names.append(function.name)
                for alias in function.aliases:
                    blocks.append([f"{alias} = {function.name}"])
                    names.append(alias)
        if not blocks:
            continue
        constants = sorted({constant(f.base_name) for f in functions if f.name in names})
        text = "\n\n\n".join("\n".join(b) for b in blocks) + "\n"
        head = HEADER + BODY_CHECKS + f'"""The {family} functions. A function\'s first part is its fast path; '
        head += 'see ops/call.py for the slow one."""\n\n'
        head += "from __future__ import annotations\n\n" + imports(text, family, constants) + "\n\n\n"
        yield f"_generated_functional_{family}.py", head + text
        gathered.append((f"_generated_functional_{family}", names))
    yield "_generated_functional.py", _gathered(context, gathered)
    yield "_generated_public.py", _public(context)
    yield "_generated_nn_functional.py", _nn(context)


def is_generated(context: CodegenContext, function: NativeFunction) -> bool:
    """Whether a function is emitted for a record: the first overload stands for all; a method needs one too."""
    overloads = context.overloads(function)
    wanted = any(f.is_function or not f.schema.is_inplace for f in overloads)
    return function is overloads[0] and wanted and function.name not in context.handwritten


def imports(text: str, family: str, constants: list[str]) -> str:
    """Returns the imports that a generated module's text needs, in groups as ruff sorts them."""
    needed: dict[str, list[str]] = {}
    for name, statement in _IMPORTS.items():
        if _uses(text, name):
            module, _, what = statement.partition(" import ")
            needed.setdefault(module, []).append(what)
    statements = [f"{module} import {', '.join(sorted(names, key=str.lower))}" for module, names in needed.items()]
    standard = [s for s in statements if "tensorplay_core" not in s]
    ours = [s for s in statements if "tensorplay_core" in s]
    schemas = wrapped(f"from tensorplay_core.ops._generated_schemas_{family} import (", constants, ")", 0)
    ours.append("\n".join(schemas))
    ours.sort()
    return "\n\n".join("\n".join(group) for group in (standard, ours) if group)


def _uses(text: str, name: str) -> bool:
    import re

    return re.search(rf"(?<![\w.\"']){name}\b", text) is not None


def _gathered(context: CodegenContext, gathered: list[tuple[str, list[str]]]) -> str:
    modules: dict[str, list[str]] = dict(gathered)
    for name, module in context.handwritten.items():
        modules.setdefault(module, []).append(name)
    return _module('"""Every function, generated or written by hand."""', modules)


def _public(context: CodegenContext) -> str:
    """Returns the module whose functions ``tp`` offers."""
    functions = context.contract.functions
    names = {name for f in functions if is_generated(context, f) for name in (f.name, *f.aliases)}
    names = {name for name in (*names, *context.handwritten) if is_public(context, name)}
    return _module('"""The functions that ``tp`` offers."""', {"_generated_functional": sorted(names)})


def _module(doc: str, modules: dict[str, list[str]]) -> str:
    """Returns a module that only gathers names of others."""
    body = [HEADER + doc, "", "from __future__ import annotations", ""]
    for module, names in sorted(modules.items()):
        body += wrapped(f"from tensorplay_core.ops.{module} import (", sorted(names, key=import_order), ")", 0)
    everything = sorted(f'"{name}"' for names in modules.values() for name in names)
    body += ["", *wrapped("__all__ = [", everything, "]", 0)]
    return "\n".join(body) + "\n"


def is_public(context: CodegenContext, name: str) -> bool:
    """Whether ``tp`` offers a function: not one for gradients only, nor one that is a method only."""
    overloads = context.contract.overloads.get(name, ())
    internal = overloads and not any(f.is_function and "backward" not in f.tags for f in overloads)
    return not name.startswith("_") and not internal


def _nn(context: CodegenContext) -> str:
    """Returns the module that is ``tp.nn.functional``: the functions of ``python_module: nn``, and those tagged so."""
    modules: dict[str, list[str]] = {}
    for function in context.contract.functions:
        if is_generated(context, function) and ("nn" in function.tags or function.python_module == "nn"):
            names = modules.setdefault(f"_generated_functional_{function.family}", [])
            names += [function.name, *function.aliases]
    return _module('"""``tp.nn.functional``: the functions of neural networks."""', modules)


def doc_lines(context: CodegenContext, function: NativeFunction, sig: Signature) -> list[str]:
    """Returns a public function's docstring, as lines."""
    name = f"tp.nn.functional.{function.name}" if function.python_module == "nn" else f"tp.{function.name}"
    described = (function.doc or "No description.").replace("``self``", "``input``")  # the parameter's name
    text = [f"{name}({joined(sig.parameters)}) -> {sig.returns}", "", *described.splitlines()]
    rules = {
        "default": "The inputs are promoted to one dtype, which the result has.",
        "float": "Integers and bool compute in the default float dtype.",
        "bool": "The inputs are promoted to one dtype; the result is bool.",
        "sum": "Bool and integers give int64 unless ``dtype`` says otherwise.",
        "index": "The result is int64.",
    }
    if function.promote in rules:
        text += ["", rules[function.promote]]
    derivative = context.derivative(function)
    if derivative is not None:
        text += ["", "Gradients:", *(f"    {f.key}: {f.expr}" for f in derivative.formulas)]
    return docstring([*_wrapped_text(text), ""] if len(text) > 1 else text)


def _wrapped_text(text: list[str]) -> list[str]:
    import textwrap

    result = []
    for line in text:
        margin = len(line) - len(line.lstrip())
        further = " " * (margin + 4 * (margin > 0))
        result += textwrap.wrap(line, 110, subsequent_indent=further, break_long_words=False) or [""]
    return result


def _function(context: CodegenContext, function: NativeFunction) -> list[str]:
    overloads = context.overloads(function)
    if len(overloads) > 1:
        return _overloaded(context, overloads)
    sig = signature(function)
    names = {a.name: parameter_name(a) for a in function.schema.arguments}
    body = doc_lines(context, function, sig)
    several = spread(function)
    if several is not None:
        body.append(f'{several.name} = spread({plural(several)}, {several.name}, "{function.name}")')
    for name, second in sig.numpy_names:
        argument = function.schema.argument(name)
        default = default_text(argument) if argument is not None and argument.default is not None else "None"
        default = "" if default in ("None", "False") else f", {default}"
        chosen = f'second_name({name}, {second}, "{function.name}", "{second}"{default})'
        body += [f"if {second} is not None:", f"    {name} = {chosen}"]
    if "creation" in function.tags:
        keywords = ", ".join(f'"{a.name}": {a.name}' for a in function.schema.keyword_only)
        positional = ", ".join(a.name for a in function.schema.positional)
        comma = "," if len(function.schema.positional) == 1 else ""
        body.append(
            f"return created({constant(function.base_name)}, ({positional}{comma}), {{{keywords}}}, requires_grad)"
        )
    else:
        if context.is_fast(function):
            body += fast_body(context, function, names)
        body += return_lines(slow_call(function, names, out=function.out))
    return [*wrapped(f"def {function.name}(", list(sig.parameters), f") -> {sig.returns}:"), *indent(body)]


def _overloaded(context: CodegenContext, overloads: tuple[NativeFunction, ...]) -> list[str]:
    result = []
    families = {function.family for function in overloads}
    if len(families) > 1:
        place = overloads[1].location
        message = f"the overloads of '{overloads[0].name}' are in several families: {', '.join(sorted(families))}"
        raise ContractError(place.describe(message) if place is not None else message)
    for function in overloads:
        sig = signature(function)
        result += ["@overload", *wrapped(f"def {function.name}(", list(sig.parameters), f") -> {sig.returns}: ...")]
    name = overloads[0].name
    text = []
    for function in overloads:
        sig = signature(function)
        text += [f"{name}({joined(sig.parameters)}) -> {sig.returns}", "", *(function.doc or "").splitlines(), ""]
    operators = ", ".join(constant(f.base_name) for f in overloads)
    body = docstring(["tp." + text[0], *_wrapped_text(text[1:])])
    body.append(f'return pick("{name}", ({operators}), args, kwargs)')
    return [*result, f"def {name}(*args: Any, **kwargs: Any) -> Any:", *indent(body)]


def safe(name: str) -> str:
    """Returns a name that is no keyword."""
    return f"{name}_" if keyword.iskeyword(name) else name


__all__ = ["NAME", "doc_lines", "generate", "imports", "is_generated", "lines", "safe"]
