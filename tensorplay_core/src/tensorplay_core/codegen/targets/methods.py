"""Target ``methods``: what the contract puts on :class:`Tensor`, and the binary operators with their own fast path.

At run time a method is the public function itself; the type checker sees stubs with the full signature.
"""

from __future__ import annotations

from collections.abc import Iterator

from tensorplay_core.codegen.context import BODY_CHECKS, HEADER, CodegenContext, constant, indent, wrapped
from tensorplay_core.codegen.contract import NativeFunction
from tensorplay_core.codegen.signatures import default_text, signature
from tensorplay_core.codegen.targets.fast_path import fast_body
from tensorplay_core.codegen.targets.functional import imports
from tensorplay_core.codegen.targets.schemas import inplace_name

NAME = "methods"
BINARY = {
    "add": "add",
    "sub": "sub",
    "mul": "mul",
    "div": "truediv",
    "pow": "pow",
    "matmul": "matmul",
    "eq": "eq",
    "ne": "ne",
    "lt": "lt",
    "le": "le",
    "gt": "gt",
    "ge": "ge",
}
COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
UNARY = {"neg": "neg", "abs": "abs"}


def generate(context: CodegenContext) -> Iterator[tuple[str, str]]:
    """Yields the name and the text of each file."""
    for family, functions in context.families.items():
        found = [f for f in functions if f.name in BINARY and context.is_fast(f)]
        if not found:
            continue
        text = "\n\n\n".join("\n".join(_operator(context, f)) for f in found) + "\n"
        head = HEADER + BODY_CHECKS + f'"""The {family} operators of Python, such as ``a + b``: '
        head += 'functions with the fast path of their own."""\n\n'
        constants = sorted(constant(f.name) for f in found)
        head += "from __future__ import annotations\n\n" + imports(text, family, constants)
        yield f"_generated_operators_{family}.py", head + "\n\n\n" + text
    yield "_generated_methods.py", _methods(context)


def _operator(context: CodegenContext, function: NativeFunction) -> list[str]:
    name = f"__{BINARY[function.name]}__"
    first, second = (a.name for a in function.schema.positional[:2])
    names = {a.name: default_text(a) for a in function.schema.keyword_only} | {first: "self", second: "other"}
    body = fast_body(context, function, names, keywords=False)
    body.append(f"return binary({constant(function.name)}, self, other)")
    body.insert(0, f'"""``self {_symbol(function.name)} other``."""')
    return [f"def {name}(self: Tensor, other: Any) -> Any:", *indent(body)]


def _symbol(name: str) -> str:
    symbols = {"add": "+", "sub": "-", "mul": "*", "div": "/", "pow": "**", "matmul": "@"}
    return symbols.get(name) or {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}[name]


def _methods(context: CodegenContext) -> str:
    stubs: list[str] = []
    bound: list[str] = []
    modules: set[str] = set()
    for function in context.contract.functions:
        functional = f"_generated_functional_{function.family}"
        writes = f"_generated_inplace_{function.family}"
        overloads = context.overloads(function)
        methods = [f for f in overloads if f.is_method and not f.schema.is_inplace]
        if methods and function is overloads[0] and function.name not in context.handwritten:
            for name in (function.name, *function.aliases):
                stubs += [line for each in methods for line in _stub(each, name, len(methods) > 1)]
                if len(methods) > 1:
                    stubs.append(f"def {name}(self, *args: Any, **kwargs: Any) -> Any: ...")
                bound.append(f"{name} = {functional}.{function.name}")
                modules.add(functional)
        if function.inplace or (function.is_method and function.schema.is_inplace):
            name = inplace_name(function) if function.inplace else function.name
            stubs += _stub(function, name, False, out=False)
            bound.append(f"{name} = {writes}.{name}")
            modules.add(writes)
        more, module = _python_operators(context, function)
        stubs += more[0]
        bound += more[1]
        modules |= module
    body = [
        HEADER + '"""The methods and operators of Tensor that the contract makes."""',
        "",
        "from __future__ import annotations",
        "",
        "from collections.abc import Sequence",
        "from typing import TYPE_CHECKING, Any, overload",
        "",
        "from tensorplay_core.ops.annotations import Number",
        "from tensorplay_core.tensor.tensor import Tensor, TensorBase, bind",
        "from tensorplay_core.types.device import Device",
        "from tensorplay_core.types.dtype import DType",
        "",
        "if TYPE_CHECKING:",
        "",
        "    class GeneratedMethods(TensorBase):",
        '        """What the type checker sees."""',
        "",
        *indent(stubs, 2),
        "",
        "else:",
        *indent([f"from tensorplay_core.ops import {module}" for module in sorted(modules)]),
        "    from tensorplay_core.ops.frontend import reflected",
        "",
        "    @bind",
        "    class GeneratedMethods:",
        '        """What is put on Tensor: the public functions themselves."""',
        "",
        *indent(bound, 2),
    ]
    return "\n".join(body) + "\n"


def _stub(function: NativeFunction, name: str, overloaded: bool, out: bool | None = None) -> list[str]:
    sig = signature(function, out=out, first="self")
    mark = ["@overload"] if overloaded else []
    return [*mark, *wrapped(f"def {name}(", list(sig.parameters), f") -> {sig.returns}: ...", 112)]


def _python_operators(
    context: CodegenContext, function: NativeFunction
) -> tuple[tuple[list[str], list[str]], set[str]]:
    stubs, bound, modules = [], [], set()
    name = function.name
    if name in UNARY:
        functional = f"_generated_functional_{function.family}"
        stubs.append(f"def __{UNARY[name]}__(self) -> Tensor: ...")
        bound.append(f"__{UNARY[name]}__ = {functional}.{name}")
    if name in BINARY and context.is_fast(function):
        dunder = BINARY[name]
        module = f"_generated_operators_{function.family}"
        modules.add(module)
        ignore = "  # type: ignore[override]" if name in ("eq", "ne") else ""
        stubs.append(f"def __{dunder}__(self, other: Any) -> Tensor: ...{ignore}")
        bound.append(f"__{dunder}__ = {module}.__{dunder}__")
        if name not in COMPARISONS:
            stubs.append(f"def __r{dunder}__(self, other: Any) -> Tensor: ...")
            bound.append(f"__r{dunder}__ = reflected(_generated_functional_{function.family}.{name})")
            modules.add(f"_generated_functional_{function.family}")
            if function.inplace:
                stubs.append(f"def __i{dunder}__(self, other: Any) -> Tensor: ...")
                bound.append(f"__i{dunder}__ = _generated_inplace_{function.family}.{inplace_name(function)}")
    return (stubs, bound), modules
