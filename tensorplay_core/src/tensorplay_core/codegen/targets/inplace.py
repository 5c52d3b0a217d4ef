"""Target ``inplace``: the in-place variants, ``add_`` and its kin, and the operators that only write.

Their fast path serves a tensor that shares its memory with nobody and records nothing. It never runs a kernel twice:
the only exception that leads from it to the slow path is raised before anything is written.
"""

from __future__ import annotations

from collections.abc import Iterator

from tensorplay_core.codegen.context import BODY_CHECKS, HEADER, CodegenContext, constant, docstring, indent, wrapped
from tensorplay_core.codegen.contract import NativeFunction
from tensorplay_core.codegen.signatures import default_text, joined, parameter_name, promoted, signature, takes_numbers
from tensorplay_core.codegen.targets.fast_path import return_lines, scalar_lines, slow_call
from tensorplay_core.codegen.targets.functional import imports
from tensorplay_core.codegen.targets.schemas import inplace_name

NAME = "inplace"


def generate(context: CodegenContext) -> Iterator[tuple[str, str]]:
    """Yields the name and the text of each file."""
    for family, functions in context.families.items():
        found = [f for f in functions if f.inplace or f.schema.is_inplace]
        if not found:
            continue
        text = "\n\n\n".join("\n".join(_function(context, f)) for f in found) + "\n"
        constants = sorted(constant(inplace_name(f) if f.inplace else f.base_name) for f in found)
        head = HEADER + BODY_CHECKS + f'"""The {family} functions that write to their first argument."""\n\n'
        head += "from __future__ import annotations\n\n"
        more = "from tensorplay_core.dispatch.tensor_type import Unresolved\n" if "Unresolved" in text else ""
        ops = "from tensorplay_core.ops."
        head += imports(text, family, constants).replace(ops, more + ops, 1)
        yield f"_generated_inplace_{family}.py", head + "\n\n\n" + text


def _function(context: CodegenContext, function: NativeFunction) -> list[str]:
    sig = signature(function, out=False, first="input: Tensor")
    name = inplace_name(function) if function.inplace else function.base_name
    names = {a.name: parameter_name(a) for a in function.schema.arguments}
    doc = [f"{name}({joined(sig.parameters)}) -> Tensor", ""]
    if function.inplace:
        doc += [f"The in-place form of :func:`{function.name}`: writes to ``input`` and returns it.", ""]
    else:
        doc += [function.doc or "No description.", ""]
    body = docstring(doc)
    if function.inplace and context.is_fast(function):
        body += _fast(function, names)
    body += return_lines(slow_call(function, names, name=constant(name)))
    return [*wrapped(f"def {name}(", list(sig.parameters), ") -> Tensor:"), *indent(body)]


def _fast(function: NativeFunction, names: dict[str, str]) -> list[str]:
    typed = promoted(function)
    others = [names[a.name] for a in typed[1:]]
    numbers = [names[a.name] for a in typed[1:]] if takes_numbers(function) else []
    conditions = [f"{x}.__class__ is Tensor" for x in numbers]
    conditions += [f"t is {x}._type" for x in others]
    for argument in function.schema.keyword_only:
        assert argument.default is not None
        compares = "is" if argument.default.value is None else "=="
        conditions.append(f"{names[argument.name]} {compares} {default_text(argument)}")
    nodes = " and ".join(f"{x}._node is None" for x in ("input", *others))
    conditions += ["not (active.special or active.inference or t.inference)"]
    conditions += ["(v is None or not v[1])"]
    conditions += [f"({nodes} or active.grad_off and not STATE.get().grad)"]
    conditions += [f"({x}._array.shape == input._array.shape or not {x}._array.shape)" for x in others]
    arguments = ", ".join(f"{x}._array" for x in ("input", *others))
    slot = f"k_{inplace_name(function).replace('.', '__')}"
    return [
        *scalar_lines(function, names),
        "try:",
        "    t = input._type",
        "    v = input._version",
        *indent(_condition(conditions)),
        f"        t.{slot}({arguments})",
        "        if v is not None:",
        "            v[0] += 1",
        "        return input",
        "except (AttributeError, Unresolved):  # raised before anything is written",
        "    pass",
    ]


def _condition(conditions: list[str]) -> list[str]:
    one = f"if {' and '.join(conditions)}:"
    if len(one) <= 112:
        return [one]
    return ["if (", f"    {conditions[0]}", *(f"    and {c}" for c in conditions[1:]), "):"]
