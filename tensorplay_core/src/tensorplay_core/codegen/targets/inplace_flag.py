"""The functions of ``tp.nn.functional`` that take ``inplace=``, as PyTorch's activations do.

A record with the tag ``inplace_flag`` asks for it. Such a function is a choice between two that there are anyway, so it
is made here, once, and not in every fast path.
"""

from __future__ import annotations

from collections.abc import Iterable

from tensorplay_core.codegen.context import CodegenContext, docstring, indent, wrapped
from tensorplay_core.codegen.contract import NativeFunction
from tensorplay_core.codegen.signatures import joined, signature

TAG = "inplace_flag"
FUNCTIONS = "functions"
"""What the generated module calls the module of all functions."""


def flagged(context: CodegenContext) -> list[NativeFunction]:
    """Returns the operators whose function takes the flag: those that ask for it, and have an in-place variant."""
    return [f for f in context.contract.functions if TAG in f.tags and f.inplace]


def imports(context: CodegenContext, functions: Iterable[NativeFunction]) -> list[str]:
    """Returns the import statements that the definitions need, without those of the in-place functions."""
    signatures = [signature(f, out=False) for f in functions]
    text = " ".join(parameter for sig in signatures for parameter in sig.parameters)
    found = [f"from {context.packages['ops']} import _generated_functional as {FUNCTIONS}"]
    if "Number" in text:
        found.append("from tensorplay_core.ops.annotations import Number")
    return [*found, "from tensorplay_core.tensor.tensor import Tensor"]


def definition(function: NativeFunction) -> list[str]:
    """Returns the function."""
    sig = signature(function, out=False)
    parameters = [*sig.parameters, "inplace: bool = False"]
    names = [sig.names[a.name] for a in function.schema.positional]
    first = names[0]
    doc = [
        f"tp.nn.functional.{function.name}({joined(tuple(parameters))}) -> Tensor",
        "",
        f"{(function.doc or '').rstrip()}",
        "",
        f"With ``inplace`` the result is written to ``{first}``, which is returned.",
        "",
    ]
    doc = [line.replace("``self``", f"``{first}``") for line in doc]
    call = f"({', '.join(names)})"
    body = [
        *docstring(doc),
        "if inplace:",
        f"    return {function.name}_{call}",
        f"return {FUNCTIONS}.{function.name}{call}",
    ]
    return [*wrapped(f"def {function.name}(", parameters, ") -> Tensor:"), *indent(body)]
