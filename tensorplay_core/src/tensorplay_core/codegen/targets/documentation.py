"""Target ``documentation``: a page for each family of operators, and a table of them all.

Everything on a page is read off the contract and, for rules that are written by hand, off the text of their modules; so
a page cannot say what the code does not do. The examples are records' own, and the tests run each page.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tensorplay_core.codegen.context import DOCS_HEADER, CodegenContext
from tensorplay_core.codegen.contract import NativeFunction
from tensorplay_core.codegen.signatures import joined, parameter_names, promoted, signature

NAME = "documentation"
FOLDER = "docs"
_TITLES = {"nn": "Neural network operators", "linalg": "Linear algebra operators", "view": "View and shape operators"}
DTYPES = {
    "default": "the inputs are promoted to one dtype, which the result has",
    "float": "the inputs are promoted to one dtype, which the result has; integers and bool compute in the default "
    "float dtype",
    "bool": "the inputs are promoted to one dtype; the result is bool",
    "keep": "the input's, which the result has",
    "sum": "the input's, which the result has; bool and integers sum as int64",
    "index": "the result is int64",
    "real": "the input's, which the result has; of a complex input the matching float dtype",
    "none": "nothing is promoted",
}
"""The promote rules in words."""
_OF_ONE = {
    "default": DTYPES["keep"],
    "float": f"{DTYPES['keep']}; integers and bool compute in the default float dtype",
    "bool": "the result is bool",
}
"""Those of an operator with one input."""
_REFUSED = {
    "ordered": "complex numbers, which have no order, are refused", "real": "complex numbers are refused",
    "numeric": "bool is refused",
}  # fmt: skip
AUTOCAST = {
    "lower_precision_fp": "computes in the dtype that autocast is open with",
    "fp32": "computes in float32",
    "promote": "computes in the widest floating dtype among the inputs",
    "banned": "refused",
}
"""The policies in words."""


def generate(context: CodegenContext) -> Iterator[tuple[str, str]]:
    """Yields the name and the text of each page."""
    pages = Pages(context)
    yield "index.md", pages.index()
    for family in context.families:
        yield f"{family}.md", pages.family(family)


class Pages:
    """Writes pages; knows what pages refer to.

    Args:
        context: what to document.
    """

    def __init__(self, context: CodegenContext) -> None:
        """See the class."""
        self.context = context
        self.shape_rules = _first_lines(context)
        self.handwritten = _parameters(context)
        self.page_of = {
            name: f.family
            for f in reversed(context.contract.functions)
            if is_public(f)
            for name in (f.base_name, f.name)
        }

    def index(self) -> str:
        """Returns the table of all operators."""
        public = sorted((f for f in self.context.contract.functions if is_public(f)), key=lambda f: f.base_name)
        families = [f"- [{title(family)}]({family}.md)" for family in self.context.families]
        rows = [
            f"| [`{f.base_name}`]({f.family}.md#{anchor(f.base_name)}) | {_cell(_sentence(self.described(f, '')))} "
            f"| {f.family} |"
            for f in public
        ]
        return "\n".join(
            [
                DOCS_HEADER.rstrip(),
                "# The operators",
                "",
                "Each family has a page; each operator a section, with an example that the tests run.",
                "",
                *families,
                "",
                "| operator | what it does | family |",
                "|---|---|---|",
                *rows,
                "",
            ]
        )

    def family(self, family: str) -> str:
        """Returns the page of a family."""
        functions = self.context.families[family]
        public = [f for f in functions if is_public(f)]
        internal = [f for f in functions if not is_public(f)]
        body = [DOCS_HEADER.rstrip(), f"# {title(family)}", "", "[All operators](index.md)"]
        if any(f.example for f in public):
            body += ["", "The examples on this page begin with", "", "```pycon", ">>> import tensorplay as tp", "```"]
        for function in public:
            body += ["", *self.section(function)]
        if internal:
            body += [
                "",
                "## Internal operators",
                "",
                "What gradients and other operators are written in; reached through `tp.ops.tp`.",
                "",
                "| operator | what it does |",
                "|---|---|",
                *(f"| {_code(str(f.schema))} | {_cell(self.prose(f.doc, family))} |" for f in internal),
            ]
        return "\n".join(body) + "\n"

    def section(self, function: NativeFunction) -> list[str]:
        """Returns the section of one operator."""
        rows = [
            ("call", _code(self.call(function))),
            ("also", "<br>".join(_code(form) for form in self.forms(function))),
            ("schema", _code(str(function.schema))),
            ("formula", _code(function.math) if function.math else ""),
            ("gradient", self.gradient(function)),
            ("dtype", self.dtype(function)),
            ("shape", self.shape(function)),
            ("kernels", self.kernels(function)),
            ("autocast", AUTOCAST.get(function.autocast, "")),
        ]
        example = ["```pycon", *function.example.splitlines(), "```", ""] if function.example else []
        table = ["| | |", "|---|---|", *(f"| {label} | {_cell(text)} |" for label, text in rows if text)]
        return [f"## {function.base_name}", "", self.described(function, function.family), "", *example, *table]

    def call(self, function: NativeFunction) -> str:
        """Returns the Python form of a call."""
        if not function.is_function:
            return self.method(function, function.name)
        sig, name = signature(function), f"{self.place(function)}.{function.short_name}"
        if (written := self.handwritten.get(function.name)) is not None and not function.schema.overload:
            return f"{name}({written}) -> {sig.returns}"
        return f"{name}({joined(sig.parameters)}) -> {sig.returns}"

    def forms(self, function: NativeFunction) -> list[str]:
        """Returns the other ways to call an operator: as a method, in place, by another name."""
        found = []
        short = function.short_name != function.name
        if function.is_method and function.is_function and not short:
            found.append(self.method(function, function.name))
        if function.inplace and (function.is_method or self.context.plugin is None):
            found.append(self.method(function, f"{function.name}_"))
        elif function.inplace:
            parameters = joined(signature(function, out=False).parameters)
            found.append(f"{self.place(function)}.{function.name}_({parameters})")
        place = "tp" if short else self.place(function)
        return found + [f"{place}.{alias}(…)" for alias in function.aliases]

    def place(self, function: NativeFunction) -> str:
        """Returns the module that offers a function."""
        if self.context.plugin is not None:
            return self.context.packages["ops"]
        return function.place

    def method(self, function: NativeFunction, name: str) -> str:
        """Returns the Python form of a method."""
        sig = signature(function, out=False, first="self")
        return f"x.{name}({joined(sig.parameters[1:])})"

    def gradient(self, function: NativeFunction) -> str:
        """Returns the derivative formulas, or why there are none."""
        derivative = self.context.contract.derivative_of(function)
        if derivative is None:
            if not any(a.type.holds_tensors for a in function.schema.arguments):
                return "none: no input is a tensor"
            if function.composite == "implicit":
                return "that of the operators that it is made of"
            return "none is declared: the backward pass raises"
        if not derivative.is_differentiable:
            return "none: the result is declared not differentiable"
        lines = [f"{_code(f.key)}: {_code(str(f.expr))}" for f in derivative.formulas]
        lines += [f"{_code(name)}: declared not differentiable" for name in derivative.not_differentiable]
        if derivative.symbolic:
            lines.append("found from the formula")
        return "<br>".join(lines)

    def dtype(self, function: NativeFunction) -> str:
        """Returns the promote rule in words."""
        if "creation" in function.tags:
            numbers = any(str(a.type) == "Scalar" for a in function.schema.positional)
            other = "that of the numbers" if numbers else "the default dtype"
            return f"`dtype`, else {'int64' if function.name == 'randperm' else other}"
        several = len(promoted(function)) > 1 or any(a.type.is_tensor_list for a in function.schema.positional)
        rule = (DTYPES if several else {**DTYPES, **_OF_ONE})[function.promote]
        return "; ".join([rule, *(text for tag, text in _REFUSED.items() if tag in function.tags)])

    def shape(self, function: NativeFunction) -> str:
        """Returns the shape rule's name, and what it says of itself."""
        if function.shape is None:
            return ""
        line = self.shape_rules.get(function.shape, "")
        return f"`{function.shape}`: {self.prose(line[:1].lower() + line[1:], '')}" if line else f"`{function.shape}`"

    def kernels(self, function: NativeFunction) -> str:
        """Returns which backends promise a kernel, and what serves the others."""
        parts = [", ".join(function.dispatch)] if function.dispatch else []
        if function.math:
            parts.append("made from the formula on every backend")
        elif function.composite == "implicit":
            parts.append("Composite: decomposes into other operators, whose kernels run")
        elif function.composite == "explicit":
            parts.append("Composite elsewhere" if parts else "Composite, on every backend")
        elif "device" in function.tags and not parts:
            parts.append("the device API of both devices")
        return "; ".join(parts) or "none is promised"

    def prose(self, text: str, family: str) -> str:
        """Returns a record's text in Markdown: code in single backticks, and references as links."""
        text = re.sub(r":\w+:`([\w.]+)`", lambda m: self._reference(m[1], family), " ".join(text.split()))
        return text.replace("``", "`")

    def described(self, function: NativeFunction, family: str) -> str:
        """Returns what an operator does, in the words of its call."""
        text = self.prose(function.doc, family) or "No description."
        return text.replace("`self`", f"`{parameter_names(function)['self']}`") if _has_input(function) else text

    def _reference(self, name: str, family: str) -> str:
        name = name.rpartition(".")[2] if name not in self.page_of else name
        page = self.page_of.get(name)
        if page is None:
            return f"`{name}`"
        place = "" if page == family else f"{page}.md"
        return f"[`{name}`]({place}#{anchor(name)})"


def is_public(function: NativeFunction) -> bool:
    """Whether an operator is meant to be called by users."""
    return not function.name.startswith("_") and "backward" not in function.tags


def title(family: str) -> str:
    """Returns the title of a family's page.

    Example:
        >>> title("reduction"), title("nn"), title("")
        ('Reduction operators', 'Neural network operators', 'Operators')
    """
    return _TITLES.get(family) or f"{family.replace('_', ' ')} operators".strip().capitalize()


def anchor(heading: str) -> str:
    """Returns the anchor that GitHub gives to a heading.

    Example:
        >>> anchor("max.dim"), anchor("fill_")
        ('maxdim', 'fill_')
    """
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


def _has_input(function: NativeFunction) -> bool:
    """Whether a function calls its ``self`` by another name."""
    return function.is_function and function.schema.argument("self") is not None


def _sentence(text: str) -> str:
    """Returns the first sentence."""
    return re.split(r"(?<=[\w)`])\. (?=[A-Z`])", " ".join(text.split()))[0].removesuffix(".")


def _code(text: str) -> str:
    return f"`{text}`"


def _cell(text: str) -> str:
    """Returns a text that stands in a table."""
    return text.replace("|", "\\|").replace("\n", " ")


def _functions(path: Path) -> list[ast.FunctionDef]:
    """Returns the functions of a module that is written by hand, from its text; none where there is no such file."""
    if not path.exists():
        return []
    return [n for n in ast.parse(path.read_text(encoding="utf-8")).body if isinstance(n, ast.FunctionDef)]


def _first_lines(context: CodegenContext) -> dict[str, str]:
    """Returns the first docstring lines of the shape rules, core's and a plugin's own, without the last full stop."""
    folders = (context.ops, context.out) if context.plugin is not None else (context.ops,)
    found = {}
    for path in [path for folder in folders for path in sorted(folder.glob("shapes*.py"))]:
        for function in _functions(path):
            doc = ast.get_docstring(function) or ""
            found[function.name] = doc.partition("\n\n")[0].replace("\n", " ").removesuffix(".")
    return found


def _parameters(context: CodegenContext) -> dict[str, str]:
    """Returns the parameters of the functions that are written by hand, without annotations."""
    folder = context.ops if context.plugin is None else context.out
    found = {}
    for name, module in context.handwritten.items():
        for function in _functions(folder / f"{module.rpartition('.')[2]}.py"):
            if function.name == name:
                for argument in ast.walk(function.args):
                    if isinstance(argument, ast.arg):
                        argument.annotation = None
                found[name] = ast.unparse(function.args)
    return found
