"""Target ``functional``: the public functions, and the modules that gather them.

A function with one result of a fixed type gets the fast path; overloaded ones choose by their arguments; creation
functions take ``requires_grad``. Where a hand-written function of the same name exists, none is generated.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from tensorplay_core.codegen.context import (
    BODY_CHECKS,
    HEADER,
    CodegenContext,
    constant,
    docstring,
    import_order,
    indent,
    wrapped,
)
from tensorplay_core.codegen.contract import NativeFunction
from tensorplay_core.codegen.hygiene import BUILTINS, LOCALS, apart
from tensorplay_core.codegen.signatures import (
    Signature,
    default_text,
    joined,
    signature,
    spread,
    takes_requires_grad,
)
from tensorplay_core.codegen.targets import inplace_flag
from tensorplay_core.codegen.targets.choosing import Overload, choosing, own_functions
from tensorplay_core.codegen.targets.fast_path import fast_body, return_lines, slow_call

NAME = "functional"
_IMPORTS = {
    "Sequence": "from collections.abc import Sequence",
    "inf": "from math import inf",
    "Any": "from typing import Any",
    "ref": "from weakref import ref",
    "overload": "from typing import overload",
    "next_number": "from tensorplay_core.autograd.node import next_number",
    "active": "from tensorplay_core.dispatch import active",
    "STATE": "from tensorplay_core.dispatch.context import STATE",
    "Unresolved": "from tensorplay_core.dispatch.tensor_type import Unresolved",
    "Number": "from tensorplay_core.ops.annotations import Number",
    "call": "from tensorplay_core.ops.call import call",
    "binary": "from tensorplay_core.ops.frontend import binary",
    "created": "from tensorplay_core.ops.frontend import created",
    "second_name": "from tensorplay_core.ops.frontend import second_name",
    "spread": "from tensorplay_core.ops.frontend import spread",
    "ints": "from tensorplay_core.ops.frontend import ints",
    "OverloadSet": "from tensorplay_core.ops.overload_set import OverloadSet",
    "scalar_like": "from tensorplay_core.ops.typing_rules import scalar_like",
    "scaled": "from tensorplay_core.ops.scaled import scaled",
    "Tensor": "from tensorplay_core.tensor.tensor import Tensor",
    "is_viewed": "from tensorplay_core.tensor.version import is_viewed",
    "prune": "from tensorplay_core.tensor.version import prune",
    "share": "from tensorplay_core.tensor.views import share",
    "share_if_aliased": "from tensorplay_core.tensor.views import share_if_aliased",
    "version_of": "from tensorplay_core.tensor.version import version_of",
    "dtypes": "from tensorplay_core.types import dtype as dtypes",
    "Device": "from tensorplay_core.types.device import Device",
    "DType": "from tensorplay_core.types.dtype import DType",
}
_OWN = LOCALS | BUILTINS | set(_IMPORTS)
_USED_NAME = re.compile(r"(?<![\w.\"'])[A-Za-z_]\w*")
_DOCSTRING = re.compile(r'"""(?:[^"\\]|\\.|"(?!""))*"""', re.S)


class Module:
    """A generated module of functions, while it is made: its text, what it defines, and what it must import."""

    def __init__(self, context: CodegenContext, family: str, names: list[str], constants: list[str]) -> None:
        """Begins a module.

        Args:
            context: what to generate from.
            family: of its operators.
            names: what it will define.
            constants: the operators' objects that it may use.
        """
        self.context, self.family = context, family
        self.own = _OWN.union(constants)
        self.shadowed = self.own.intersection(names) - LOCALS
        self.constants = set(constants)
        self.renamed: dict[str, str] = {}
        self.blocks: list[list[str]] = []

    def body(self, build: object, names: Mapping[str, str]) -> list[str]:
        """Returns a function's statements, in which no local or import has the name of a parameter."""
        lines, renamed = apart(build, names, self.own, self.shadowed)  # type: ignore[arg-type]
        self.renamed |= {new: old for new, old in renamed.items() if old not in LOCALS}
        return lines

    def text(self, doc: str) -> str:
        """Returns the module."""
        text = "\n\n\n".join("\n".join(block) for block in self.blocks) + "\n"
        head = HEADER + BODY_CHECKS + f'"""{doc}"""\n\nfrom __future__ import annotations\n\n'
        return head + self._imports(text) + "\n\n\n" + text

    def _imports(self, text: str) -> str:
        """Returns the imports, in groups as ruff sorts them."""
        used = set(_USED_NAME.findall(_DOCSTRING.sub("", text))) - self.shadowed
        needed: dict[str, list[str]] = {}
        for name in [n for n in _IMPORTS if n in used]:
            module, _, what = _IMPORTS[name].partition(" import ")
            needed.setdefault(module, []).append(what)
        schemas = []
        for new, old in self.renamed.items():
            if old in self.constants:
                schemas.append(f"{old} as {new}")
            else:
                module, _, what = _IMPORTS.get(old, f"from builtins import {old}").partition(" import ")
                needed.setdefault(module, []).append(f"{what.partition(' as ')[0]} as {new}")
        statements = [f"{module} import {', '.join(sorted(names, key=str.lower))}" for module, names in needed.items()]
        standard = [s for s in statements if "tensorplay_core" not in s]
        ours = [s for s in statements if "tensorplay_core" in s]
        schemas = sorted([*schemas, *(c for c in self.constants if c in used)])
        if schemas:
            module = self.context.module(f"_generated_schemas_{self.family}")
            ours.append("\n".join(wrapped(f"from {module} import (", schemas, ")", 0)))
        return "\n\n".join("\n".join(group) for group in (standard, sorted(ours)) if group)


def generate(context: CodegenContext) -> Iterator[tuple[str, str]]:
    """Yields the name and the text of each file."""
    gathered: dict[str, list[str]] = {}
    for family, functions in context.families.items():
        found = [f for f in functions if is_generated(context, f)]
        if not found:
            continue
        names = [name for f in found for name in (f.name, *_aliases(context, f))]
        constants = [constant(f.base_name) for g in found for f in context.overloads(g)]
        module = Module(context, family, names, constants)
        for function in found:
            module.blocks += _function(module, function)
            module.blocks += [[f"{alias} = {function.name}"] for alias in _aliases(context, function)]
        doc = f"The {family} functions. A function's first part is its fast path; see ops/call.py for the slow one."
        yield f"_generated_functional_{family}.py", module.text(doc)
        gathered[context.module(f"_generated_functional_{family}")] = names
    for name, where in _writing(context).items():
        gathered.setdefault(where, []).append(name)
    yield "_generated_functional.py", _gathered(context, gathered)
    yield "_generated_public.py", _public(context)
    nn = _nn(context)
    if nn or context.is_core:
        doc = '"""``tp.nn.functional``: the functions of neural networks."""'
        yield "_generated_nn_functional.py", _module(doc, nn, *_with_flag(context))
    for place in sorted({f.place for f in context.contract.functions if f.short_name != f.name}):
        yield f"_generated_{place.removeprefix('tp.')}.py", _renamed(context, place)


def _aliases(context: CodegenContext, function: NativeFunction) -> list[str]:
    """Returns the other names of a function; an overload's alias is one of the whole function."""
    return list(dict.fromkeys(alias for f in context.overloads(function) for alias in f.aliases))


def is_generated(context: CodegenContext, function: NativeFunction) -> bool:
    """Whether a function is emitted for a record: the first overload stands for all; a method needs one too."""
    overloads = context.overloads(function)
    wanted = not function.schema.is_inplace and any(f.variants for f in overloads)
    return function is overloads[0] and wanted and function.name not in context.handwritten


def _writing(context: CodegenContext) -> dict[str, str]:
    """Returns the functions that write to their first argument and are no methods only, each with its module."""
    found = {}
    for name, group in context.sets.items():
        explicit = any(m.function.is_function for m in group if not m.derived)
        derived = any(not context.is_method(m) for m in group if m.derived)
        if group[0].is_inplace and (explicit or derived) and name not in context.handwritten:
            found[name] = context.module(f"_generated_inplace_{group[0].function.family}")
    return found


def _gathered(context: CodegenContext, gathered: dict[str, list[str]]) -> str:
    modules = dict(gathered)
    for name, module in context.handwritten.items():
        modules[module] = [*modules.get(module, ()), name]
    return _module('"""Every function, generated or written by hand."""', modules)


def _public(context: CodegenContext) -> str:
    """Returns the module whose functions ``tp``, or a plugin's package, offers."""
    functions = context.contract.functions
    names = {name for f in functions if is_generated(context, f) for name in (f.name, *_aliases(context, f))}
    names = {name for name in (*names, *context.handwritten, *_writing(context)) if is_public(context, name)}
    names -= {f.name for f in functions if f.short_name != f.name}  # tp.linalg has linalg_det, as det
    offers = "``tp``" if context.is_core else f"``{context.packages['ops']}``"
    doc = f'"""The functions that {offers} offers."""'
    return _module(doc, {context.module("_generated_functional"): sorted(names)} if names else {})


def _module(
    doc: str,
    modules: dict[str, list[str]],
    imports: Sequence[str] = (),
    definitions: Mapping[str, list[str]] | None = None,
) -> str:
    """Returns a module that gathers names of others, and may define some functions over them."""
    body = [HEADER + doc, "", "from __future__ import annotations", ""]
    definitions = definitions or {}
    gathered = [
        "\n".join(wrapped(f"from {m} import (", sorted(n, key=import_order), ")", 0)) for m, n in modules.items()
    ]
    body += sorted([*imports, *gathered], key=lambda statement: statement.split()[1])
    everything = sorted([f'"{name}"' for names in modules.values() for name in names] + [f'"{n}"' for n in definitions])
    if not everything:
        return "\n".join([*body, "__all__: list[str] = []"]) + "\n"
    body += ["", *wrapped("__all__ = [", everything, "]", 0)]
    for lines in definitions.values():
        body += ["", "", *lines]
    return "\n".join(body) + "\n"


def is_public(context: CodegenContext, name: str) -> bool:
    """Whether ``tp`` offers a function: not one for gradients only, nor one that is a method only."""
    overloads = context.contract.overloads.get(name, ())
    internal = overloads and not any(f.is_function and "backward" not in f.tags for f in overloads)
    return not name.startswith("_") and not internal


def _nn(context: CodegenContext) -> dict[str, list[str]]:
    """Returns what is in ``tp.nn.functional``: the functions of ``python_module: nn``, and those tagged so."""
    modules: dict[str, list[str]] = {}
    for name, module in context.nn_functions.items():
        modules.setdefault(module, []).append(name)
    for function in context.contract.functions:
        if ("nn" not in function.tags and function.python_module != "nn") or function.name in context.nn_functions:
            continue
        if is_generated(context, function):
            flag = inplace_flag.TAG in function.tags and function.inplace
            kind, name = ("inplace", f"{function.name}_") if flag else ("functional", function.name)
            names = modules.setdefault(context.module(f"_generated_{kind}_{function.family}"), [])
            names += [name, *_aliases(context, function)]
        elif function.name in context.handwritten and function is context.overloads(function)[0]:
            modules.setdefault(context.handwritten[function.name], []).append(function.name)
    return modules


def _with_flag(context: CodegenContext) -> tuple[list[str], dict[str, list[str]]]:
    """Returns imports and definitions of the functions of ``tp.nn.functional`` that take ``inplace=``."""
    functions = inplace_flag.flagged(context)
    imports = inplace_flag.imports(context, functions) if functions else []
    return imports, {f.name: inplace_flag.definition(f) for f in functions}


def _renamed(context: CodegenContext, place: str) -> str:
    """Returns a module of functions that have shorter names there: ``linalg_det`` is ``tp.linalg.det``."""
    body = [HEADER + f'"""The functions of ``{place}``."""', "", "from __future__ import annotations", ""]
    found = [f for f in context.contract.functions if f.place == place and is_generated(context, f)]
    for family in sorted({f.family for f in found}):
        names = sorted(f"{f.name} as {f.short_name}" for f in found if f.family == family)
        body += wrapped(f"from {context.module(f'_generated_functional_{family}')} import (", names, ")", 0)
    everything = sorted(f'"{f.short_name}"' for f in found)
    return "\n".join([*body, "", *wrapped("__all__ = [", everything, "]", 0)]) + "\n"


def doc_lines(context: CodegenContext, function: NativeFunction, sig: Signature) -> list[str]:
    """Returns a public function's docstring, as lines."""
    name = f"{_place(context, function)}.{function.short_name}"
    described = _described(function, sig) or "No description."
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
    if function.math:
        text += ["", "Formula:", f"    {function.math}"]
    derivative = context.derivative(function)
    if derivative is not None:
        text += ["", "Gradients:", *(f"    {f.key}: {f.expr}" for f in derivative.formulas)]
    text += _example_lines(function)
    return docstring([*_wrapped_text(text), ""] if len(text) > 1 else text)


def _described(function: NativeFunction, sig: Signature) -> str:
    """Returns what a record says of its operator, with the names that the parameters have."""
    said = function.doc or ""
    return said.replace("``self``", "``input``") if sig.names.get("self") == "input" else said


def _place(context: CodegenContext, function: NativeFunction) -> str:
    if not context.is_core:
        return context.packages["ops"]
    return function.place


def _example_lines(*functions: NativeFunction) -> list[str]:
    """Returns the part of a docstring with the examples of an operator, or of its overloads."""
    examples = [line for function in functions for line in function.example.splitlines()]
    return ["", "Example:", *indent([">>> import tensorplay as tp", *examples])] if examples else []


def _wrapped_text(text: list[str]) -> list[str]:
    result = []
    for line in text:
        margin = len(line) - len(line.lstrip())
        further = " " * (margin + 4 * (margin > 0))
        if len(line) <= 110 and "\t" not in line:
            result.append(line.rstrip())
            continue
        result += textwrap.wrap(
            line, 110, subsequent_indent=further, break_long_words=False, break_on_hyphens=False
        ) or [""]
    return result


def _function(module: Module, function: NativeFunction) -> list[list[str]]:
    """Returns a function as blocks of a module: one, or those of its overloads and itself."""
    context = module.context
    overloads = context.overloads(function)
    if len(overloads) > 1:
        return _overloaded(module, overloads)
    sig = signature(function)
    body = doc_lines(context, function, sig)
    body += module.body(lambda names: _statements(context, function, sig, names), _parameters(function, sig))
    return [[*wrapped(f"def {function.name}(", list(sig.parameters), f") -> {sig.returns}:"), *indent(body)]]


def _parameters(function: NativeFunction, sig: Signature) -> dict[str, str]:
    """Returns what stands for each argument, and for the parameters that the signature does not have."""
    names = dict(sig.names)
    names |= {f"*{second}": second for _, second in sig.numpy_names}
    names |= {"*": sig.spread} if sig.spread is not None else {}
    names |= {"*out": "out"} if function.out else {}
    names |= {"*requires_grad": "requires_grad"} if takes_requires_grad(function) else {}
    return names


def _statements(
    context: CodegenContext, function: NativeFunction, sig: Signature, names: Mapping[str, str]
) -> list[str]:
    body = []
    several = spread(function)
    if several is not None:
        size = names[several.name]
        given = names["*"]
        call = f'{size} = spread({given}, {size}, "{function.name}")'
        # Of a view the usual call, with two sizes or more, is told here: the call costs a tenth of it.
        usual = [f"if {size} is None and len({given}) > 1:", f"    {size} = {given}  # type: ignore[assignment]"]
        body += [*usual, "else:", f"    {call}"] if function.schema.is_view else [call]
    for name, second in sig.numpy_names:
        argument = function.schema.argument(name)
        default = default_text(argument) if argument is not None and argument.default is not None else "None"
        default = "" if default in ("None", "False") else f", {default}"
        first, other = names[name], names[f"*{second}"]
        chosen = f'second_name({first}, {other}, "{function.name}", "{second}"{default})'
        body += [f"if {other} is not None:", f"    {first} = {chosen}"]
    if takes_requires_grad(function):
        return [*body, *_creation(function, names)]
    if context.is_fast(function):
        body += fast_body(context, function, names)
    return body + return_lines(slow_call(function, names, out=names.get("*out")))


def _creation(function: NativeFunction, names: Mapping[str, str]) -> list[str]:
    keywords = ", ".join(f'"{a.name}": {names[a.name]}' for a in function.schema.keyword_only)
    positional = ", ".join(names[a.name] for a in function.schema.positional)
    comma = "," if len(function.schema.positional) == 1 else ""
    arguments = [f"({positional}{comma})", f"{{{keywords}}}", names["*requires_grad"]]
    arguments += [names["*out"]] if function.out else []
    return [f"return created({constant(function.base_name)}, {', '.join(arguments)})"]


def _overloaded(module: Module, overloads: tuple[NativeFunction, ...]) -> list[list[str]]:
    context, name = module.context, overloads[0].name
    result, text, choices = [], [], []
    for function in overloads:
        sig = signature(function, numbers=False)
        result += ["@overload", *wrapped(f"def {name}(", list(sig.parameters), f") -> {sig.returns}: ...")]
        text += [
            f"{function.short_name}({joined(sig.parameters)}) -> {sig.returns}", "",
            *_described(function, sig).splitlines(), "",
        ]  # fmt: skip
        sig = signature(function)
        statements = partial(_statements, context, function, sig)
        choices.append(Overload(function.base_name, sig, _parameters(function, sig), statements))
    text = [*text[:-1], *_example_lines(*overloads), ""]
    body = docstring([f"{_place(context, overloads[0])}.{text[0]}", *_wrapped_text(text[1:])])
    fast = next((f for f in overloads if context.is_fast(f) and _has_one_form(context, f)), None)
    names = signature(fast).names if fast is not None else {}
    body += module.body(lambda names: [*_plain_call(context, fast, names), *choosing(name)], dict(names))
    own = own_functions(module.body, name, choices, [f.schema.overload for f in overloads if f.out])
    return [*own, [*result, f"def {name}(*args: Any, **kwargs: Any) -> Any:", *indent(body)]]


def _has_one_form(context: CodegenContext, function: NativeFunction) -> bool:
    """Whether a call without keywords means a record, and has one form only: no positional argument may be left out."""
    given = all(a.default is not None for a in function.schema.keyword_only)
    return given and context.is_told_apart(function) and all(a.default is None for a in function.schema.positional)


def _plain_call(context: CodegenContext, function: NativeFunction | None, names: Mapping[str, str]) -> list[str]:
    """Returns the fast path of a call that has no keywords, where it can mean one overload only."""
    if function is None:
        return []
    given = [names[a.name] for a in function.schema.positional]
    names = {**names, **{a.name: default_text(a) for a in function.schema.keyword_only}}
    return [
        f"if not kwargs and len(args) == {len(given)}:",
        f"    {', '.join(given)}{',' * (len(given) == 1)} = args",
        *indent(fast_body(context, function, names, keywords=False)),
    ]


__all__ = ["NAME", "Module", "doc_lines", "generate", "is_generated", "is_public"]
