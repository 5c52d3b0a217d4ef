"""Target ``inplace``: the in-place variants, ``add_`` and its kin, and the operators that only write.

Their fast path serves a tensor that shares its memory with nobody and records nothing. It never runs a kernel twice:
the only exception that leads from it to the slow path is raised before anything is written.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

from tensorplay_core.codegen.conflicts import Member
from tensorplay_core.codegen.context import CodegenContext, constant, docstring, indent, wrapped
from tensorplay_core.codegen.signatures import (
    Signature,
    joined,
    parameter_names,
    promoted,
    signature,
    spread,
    takes_numbers,
)
from tensorplay_core.codegen.targets.choosing import Overload, choosing, own_functions
from tensorplay_core.codegen.targets.fast_path import (
    condition,
    defaults,
    is_value,
    plain,
    return_lines,
    scalar_lines,
    slow_call,
    usual,
    value_class,
)
from tensorplay_core.codegen.targets.functional import Module

NAME = "inplace"


def generate(context: CodegenContext) -> Iterator[tuple[str, str]]:
    """Yields the name and the text of each file."""
    families: dict[str, dict[str, list[Member]]] = {}
    for name, group in context.sets.items():
        if (
            group[0].is_inplace
            and name not in context.handwritten
            and any(m.derived or m.function.variants for m in group)
        ):
            families.setdefault(group[0].function.family, {})[name] = group
    for family, groups in families.items():
        constants = [constant(m.label) for group in groups.values() for m in group]
        module = Module(context, family, list(groups), constants)
        for name, group in groups.items():
            one = len(group) == 1
            module.blocks += [_function(module, group[0])] if one else _overloaded(module, name, group)
        yield (
            f"_generated_inplace_{family}.py",
            module.text(f"The {family} functions that write to their first argument."),
        )


def writing_signature(member: Member, *, numbers: bool = True) -> Signature:
    """Returns the signature of a function that writes: its first argument is no number, and it has no ``out``."""
    function = member.function
    if not member.derived:
        return signature(function, numbers=numbers)
    target = parameter_names(function)[function.schema.arguments[0].name]
    if function.schema.self_argument not in (None, function.schema.arguments[0]):
        return signature(function, out=False, numbers=numbers)
    return signature(function, out=False, first=f"{target}: Tensor", numbers=numbers)


def _function(module: Module, member: Member) -> list[str]:
    function, sig = member.function, writing_signature(member)
    name = member.label.partition(".")[0]
    doc = [f"{name}({joined(sig.parameters)}) -> {sig.returns}", ""]
    if member.derived:
        target = sig.names[function.schema.arguments[0].name]
        doc += [f"The in-place form of :func:`{function.name}`: writes to ``{target}`` and returns it.", ""]
    else:
        doc += [*(function.doc or "No description.").splitlines(), ""]
    parameters = dict(sig.names) | ({"*": sig.spread} if sig.spread is not None else {})
    body = docstring(doc) + module.body(lambda names: _statements(module.context, member, sig, names), parameters)
    return [*wrapped(f"def {name}(", list(sig.parameters), f") -> {sig.returns}:"), *indent(body)]


def _statements(context: CodegenContext, member: Member, sig: Signature, names: Mapping[str, str]) -> list[str]:
    function, body = member.function, []
    several = spread(function)
    if several is not None and sig.spread is not None:
        size = names[several.name]
        body.append(f'{size} = spread({names["*"]}, {size}, "{function.name}_")')
    if member.derived and context.writes_fast(function):
        body += _fast(context, member, names)
    return body + return_lines(slow_call(function, names, name=constant(member.label)))


def _overloaded(module: Module, name: str, group: list[Member]) -> list[list[str]]:
    result, text, choices = [], [], []
    for member in group:
        sig = writing_signature(member, numbers=False)
        result += ["@overload", *wrapped(f"def {name}(", list(sig.parameters), f") -> {sig.returns}: ...")]
        text.append(f"{name}({joined(sig.parameters)}) -> {sig.returns}")
        sig = writing_signature(member)
        parameters = dict(sig.names) | ({"*": sig.spread} if sig.spread is not None else {})
        choices.append(Overload(member.label, sig, parameters, partial(_statements, module.context, member, sig)))
    body = docstring([text[0], "", *text[1:], "", "Writes to the first argument and returns it.", ""])
    body += module.body(lambda names: choosing(name), {})
    own = own_functions(module.body, name, choices, [])
    return [*own, [*result, f"def {name}(*args: Any, **kwargs: Any) -> Any:", *indent(body)]]


def _fast(context: CodegenContext, member: Member, names: Mapping[str, str]) -> list[str]:
    function = member.function
    typed = promoted(function)
    optional = [a for a in function.schema.positional if a.type.is_tensor and a.type.is_optional]
    target, others = names[typed[0].name], [names[a.name] for a in (*typed[1:], *optional)]
    conditions = [f"{x}.__class__ is Tensor" for x in (others if takes_numbers(function) else [])]
    conditions += [f"t is {x}._type" for x in others]
    conditions += defaults(context, function, names)
    passed = context.passed_keywords(function)
    for argument in function.schema.arguments:
        if argument.name in passed:
            conditions.append(plain(argument, names[argument.name], any_number=False))
        elif argument.kwarg_only or str(argument.type) in ("ScalarType?", "Device?"):
            conditions += usual(argument, names[argument.name])
        elif is_value(argument) and argument not in context.asked_numbers(function):
            conditions.append(value_class(argument, names[argument.name]))
    nodes = " and ".join(f"{x}._edge is None" for x in (target, *others))
    conditions += ["not (active.special or active.inference or t.inference)"]
    conditions += ["(v is None or not v[1] or not is_viewed(v))"]
    conditions += [f"({nodes} or active.grad_off and not STATE.get().grad)"]
    conditions += [f"({x}._array.shape == {target}._array.shape or not {x}._array.shape)" for x in others]
    arguments = [f"{names[a.name]}._array" if a.type.is_tensor else names[a.name] for a in function.schema.positional]
    arguments += [f"{name}={names[name]}" for name in passed]
    slot = context.slot_name(function, inplace=True)
    return [
        *scalar_lines(function, names),
        "try:",
        f"    t = {target}._type",
        f"    v = {target}._version",
        *indent(condition(conditions)),
        *indent(wrapped(f"t.{slot}(", arguments, ")", 108), 2),
        "        if v is not None:",
        "            v[0] += 1",
        f"        return {target}",
        "except (AttributeError, Unresolved):  # raised before anything is written",
        "    pass",
    ]
