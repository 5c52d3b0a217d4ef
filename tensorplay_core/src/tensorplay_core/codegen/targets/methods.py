"""Target ``methods``: what the contract puts on :class:`Tensor`, and the binary operators with their own fast path.

At run time a method is the public function itself; the type checker sees stubs with the full signature.
"""

from __future__ import annotations

from collections.abc import Iterator

from tensorplay_core.codegen.conflicts import Member
from tensorplay_core.codegen.context import HEADER, CodegenContext, constant, indent, wrapped
from tensorplay_core.codegen.contract import NativeFunction
from tensorplay_core.codegen.signatures import default_text, signature
from tensorplay_core.codegen.targets.fast_path import fast_body
from tensorplay_core.codegen.targets.functional import Module

NAME = "methods"
BINARY = {
    "add": "add",
    "sub": "sub",
    "mul": "mul",
    "div": "truediv",
    "pow": "pow",
    "floor_divide": "floordiv",
    "remainder": "mod",
    "bitwise_and": "and",
    "bitwise_or": "or",
    "bitwise_xor": "xor",
    "bitwise_left_shift": "lshift",
    "bitwise_right_shift": "rshift",
    "matmul": "matmul",
    "eq": "eq",
    "ne": "ne",
    "lt": "lt",
    "le": "le",
    "gt": "gt",
    "ge": "ge",
}
COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
UNARY = {"neg": "neg", "abs": "abs", "bitwise_not": "invert"}
SYMBOLS = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "div": "/",
    "pow": "**",
    "floor_divide": "//",
    "remainder": "%",
    "matmul": "@",
    "bitwise_and": "&",
    "bitwise_or": "|",
    "bitwise_xor": "^",
    "bitwise_left_shift": "<<",
    "bitwise_right_shift": ">>",
    "eq": "==",
    "ne": "!=",
    "lt": "<",
    "le": "<=",
    "gt": ">",
    "ge": ">=",
}


def generate(context: CodegenContext) -> Iterator[tuple[str, str]]:
    """Yields the name and the text of each file."""
    for family, functions in context.families.items():
        found = [f for f in functions if context.is_core and _is_binary(context, f)]
        if not found:
            continue
        module = Module(context, family, [], [constant(f.name) for f in found])
        module.blocks += [_operator(context, f) for f in found]
        doc = f"The {family} operators of Python, such as ``a + b``: functions with the fast path of their own."
        yield f"_generated_operators_{family}.py", module.text(doc)
    text = _Methods(context).text()
    if text:
        yield "_generated_methods.py", text


def _is_binary(context: CodegenContext, function: NativeFunction) -> bool:
    """Whether ``a + b`` and its kin get a fast path: from an operator of two tensors that has one."""
    types = [str(argument.type) for argument in function.schema.positional]
    return function.name in BINARY and types == ["Tensor", "Tensor"] and context.is_fast(function)


def _operator(context: CodegenContext, function: NativeFunction) -> list[str]:
    name = f"__{BINARY[function.name]}__"
    first, second = (a.name for a in function.schema.positional[:2])
    names = {a.name: default_text(a) for a in function.schema.keyword_only} | {first: "self", second: "other"}
    body = fast_body(context, function, names, keywords=False)
    body.append(f"return binary({constant(function.name)}, self, other)")
    body.insert(0, f'"""``self {SYMBOLS[function.name]} other``."""')
    return [f"def {name}(self: Tensor, other: Any) -> Any:", *indent(body)]


class _Methods:
    """The module of the methods, while it is made.

    Attributes:
        stubs: what the type checker sees.
        bound: what is put on Tensor.
        modules: the generated modules that this takes from, without their prefix.
    """

    def __init__(self, context: CodegenContext) -> None:
        """Goes through the contract once."""
        self.context = context
        self.stubs: list[str] = []
        self.bound: list[str] = []
        self.modules: set[str] = set()
        self.helpers: set[str] = set()
        for name, group in context.sets.items():
            methods = [m for m in group if context.is_method(m)]
            if methods and name not in context.handwritten:
                self._add(name, group, methods)
            for member in group:
                if context.is_core and not member.derived:
                    self._python_operators(member.function)

    def _add(self, name: str, group: list[Member], methods: list[Member]) -> None:
        family = group[0].function.family
        kind = "inplace" if group[0].is_inplace else "functional"
        self.modules.add(module := f"{kind}_{family}")
        aliases = [] if group[0].is_inplace else [a for m in group for a in m.function.aliases]
        own = [name] if group[0].function.short_name == group[0].function.name else []  # a method of tp.linalg's: det
        for each in dict.fromkeys([*own, *aliases]):
            for member in methods:
                mark = ["@overload"] if len(methods) > 1 else []
                out = False if member.is_inplace else None
                sig = signature(member.function, out=out, first="self", numbers=len(group) == 1)
                self.stubs += [*mark, *wrapped(f"def {each}(", list(sig.parameters), f") -> {sig.returns}: ...", 112)]
            if len(methods) > 1:
                self.stubs.append(f"def {each}(self, *args: Any, **kwargs: Any) -> Any: ...")
            if all(_self_is_first(m) for m in methods):
                self.bound.append(f"{each} = _generated_{module}.{name}")
            else:
                self._add_moved(each, methods)

    def _add_moved(self, name: str, methods: list[Member]) -> None:
        """Adds a method whose ``self`` is not the first argument of the function, as in ``x.where(condition, y)``."""
        self.modules.add(schemas := f"schemas_{methods[0].function.family}")
        self.helpers.add("pick")
        operators = ", ".join(f"_generated_{schemas}.{constant(m.label)}" for m in methods)
        outs = "".join(f'"{m.schema.overload}", ' for m in methods if m.out)
        self.bound += [
            "",
            f"def {name}(self, *args, **kwargs):",
            f'    """See ``{methods[0].schema.name}``; the tensor is its argument ``self``."""',
            *indent(
                wrapped(
                    "return pick(",
                    [f'"{name}"', f"({operators},)", "(self, *args)", "kwargs", f"({outs})", "method=True"],
                    ")",
                    112,
                )
            ),
            "",
        ]

    def _python_operators(self, function: NativeFunction) -> None:
        name, family = function.name, function.family
        if name in UNARY:
            self.stubs.append(f"def __{UNARY[name]}__(self) -> Tensor: ...")
            self.bound.append(f"__{UNARY[name]}__ = _generated_functional_{family}.{name}")
        if not _is_binary(self.context, function):
            return
        dunder = BINARY[name]
        self.modules.add(f"operators_{family}")
        ignore = "  # type: ignore[override]" if name in ("eq", "ne") else ""
        self.stubs.append(f"def __{dunder}__(self, other: Any) -> Tensor: ...{ignore}")
        self.bound.append(f"__{dunder}__ = _generated_operators_{family}.__{dunder}__")
        if name in COMPARISONS:
            return
        self.modules.add(f"functional_{family}")
        self.helpers.add("reflected")
        self.stubs.append(f"def __r{dunder}__(self, other: Any) -> Tensor: ...")
        self.bound.append(f"__r{dunder}__ = reflected(_generated_functional_{family}.{name})")
        if function.inplace:
            self.stubs.append(f"def __i{dunder}__(self, other: Any) -> Tensor: ...")
            self.bound.append(f"__i{dunder}__ = _generated_inplace_{family}.{name}_")

    def text(self) -> str:
        """Returns the module; nothing where a plugin has no methods."""
        if self.context.is_core:
            return self._of_core()
        return self._of_plugin() if self.bound else ""

    def _imports(self) -> list[str]:
        ours = [f"from {self.context.packages['ops']} import _generated_{module}" for module in sorted(self.modules)]
        helpers = ", ".join(sorted(self.helpers))
        return [*ours, *([f"from tensorplay_core.ops.frontend import {helpers}"] if helpers else [])]

    def _of_core(self) -> str:
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
            *(["from tensorplay_core.types import dtype as dtypes"] if "= dtypes." in "\n".join(self.stubs) else []),
            "from tensorplay_core.types.device import Device",
            "from tensorplay_core.types.dtype import DType",
            "",
            "if TYPE_CHECKING:",
            "",
            "    class GeneratedMethods(TensorBase):",
            '        """What the type checker sees."""',
            "",
            *indent(self.stubs, 2),
            "",
            "else:",
            *indent(self._imports()),
            "",
            "    @bind",
            "    class GeneratedMethods:",
            '        """What is put on Tensor: the public functions themselves."""',
            "",
            *indent(self.bound, 2),
        ]
        return "\n".join(body) + "\n"

    def _of_plugin(self) -> str:
        package = self.context.packages["ops"]
        body = [
            HEADER + f'"""The methods of Tensor that the contract of ``{package}`` makes."""',
            "",
            "from __future__ import annotations",
            "",
            *sorted([*self._imports(), "from tensorplay_core.ops.define import methods_of"]),
            "",
            "",
            f'@methods_of("{package}")',
            "class GeneratedMethods:",
            '    """What is put on Tensor: the public functions themselves."""',
            "",
            *indent(self.bound),
        ]
        return "\n".join(body).rstrip() + "\n"


def _self_is_first(member: Member) -> bool:
    positional = member.schema.positional
    return bool(positional) and positional[0].name == "self"
