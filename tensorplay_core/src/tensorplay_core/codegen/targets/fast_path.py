"""The body of a generated function: the fast path inline, and the call of the slow path behind it.

The functional, in-place and methods targets share it. Why it is inlined rather than called: a Python frame costs 60-80
ns, and the whole of a call has to stay near twice NumPy's own 190 ns.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from tensorplay_core.codegen.context import PLAIN, CodegenContext, constant, indent, tuple_lines, wrapped
from tensorplay_core.codegen.contract import Derivative, NativeFunction
from tensorplay_core.codegen.signatures import default_text, promoted, takes_numbers
from tensorplay_core.codegen.targets.node_plan import Plan, owned, plan
from tensorplay_core.types.promotion import NOT_PROMOTED, PLAIN_NUMBERS, SCALARS, SCALED
from tensorplay_core.types.schema import Argument, BaseType

RESULT_TYPES = {
    "default": "same_type",
    "keep": "same_type",
    "float": "float_type",
    "bool": "bool_type",
    "sum": "sum_type",
    "index": "index_type",
    "real": "real_type",
}
_NUMBERS = f"({', '.join(one.__name__ for one in PLAIN_NUMBERS)})"
_SCALARS = f"({', '.join(one.__name__ for one in SCALARS)})"
_INTS = (BaseType.INT, BaseType.SYMINT)
_CLASSES = {BaseType.BOOL: "bool", BaseType.INT: "int", BaseType.SYMINT: "int", BaseType.STR: "str"}
CONSTANTS = ("None", "True", "False")
"""Defaults of which there is one, so that identity is the question."""


def fast_body(
    context: CodegenContext, function: NativeFunction, names: Mapping[str, str], *, keywords: bool = True
) -> list[str]:
    """Returns the statements of the fast path; they fall through to what follows them when the path does not apply.

    Args:
        context: the contract.
        function: the operator.
        names: argument to the Python text that stands for it: the parameter, or a default where there is none.
        keywords: whether the function has the keyword-only parameters and ``out``.
    """
    if function.composite == "implicit" or function.schema.is_multi_view:
        return _on_tensors(context, function, names, keywords)
    tensors = [a for a in function.schema.positional if a.type.is_tensor]
    listed = _listed(function)
    typed = promoted(function) or tuple(tensors)
    first = names[typed[0].name] if listed is None or typed else f"{names[listed.name]}[0]"
    derivative = context.derivative(function)
    body = scalar_lines(function, names)
    body += [
        "try:",
        f"    t = {first}._type",
        *indent(_list_lines(listed, names)),
        *indent(condition(_conditions(context, function, names, typed, derivative, keywords))),
        *indent(_kernel_and_result(context, function, names, derivative, keywords), 2),
        "except Exception:  # whatever it is, the slow path meets it again and says it properly",
        "    pass",
    ]
    return body


def _listed(function: NativeFunction) -> Argument | None:
    """Returns the argument that is a list of tensors, if there is one."""
    return next((a for a in function.schema.positional if a.type.is_tensor_list), None)


def _list_lines(listed: Argument | None, names: Mapping[str, str]) -> list[str]:
    """Returns the statement that takes a list's arrays, without those of tensors of another type than is usual."""
    if listed is None:
        return []
    name, wanted = names[listed.name], f"t.{NOT_PROMOTED[listed.name]}" if listed.name in NOT_PROMOTED else "t"
    if listed.type.item.is_optional:
        return [f"a = [None if x is None else x._array for x in {name} if x is None or x._type is {wanted}]"]
    return [f"a = [x._array for x in {name} if x._type is {wanted}]"]


def _on_tensors(
    context: CodegenContext, function: NativeFunction, names: Mapping[str, str], keywords: bool
) -> list[str]:
    """Returns the statements that run what takes the tensors themselves: a Composite kernel, or what makes more views.

    The type's slot holds it. It gets what the slow path would give it: a tensor for a number, a tuple for a list, and
    the default dtype.
    """
    first, *others = function.schema.positional
    conditions = []
    for argument in others:
        name = names[argument.name]
        if argument.type.is_tensor_list:
            conditions += _all_tensors(name, argument.type.item.is_optional)
        if argument.type.is_tensor:
            absent = f"{name} is None or " if argument.type.is_optional else ""
            one = f"{absent}{name}.__class__ is Tensor"
            conditions.append(f"({one})" if absent else one)
    conditions += _usual_values(context, function, names, keywords)
    arguments = [owned(a, names[a.name]) for a in function.schema.positional]
    arguments += _passed(context, function, names, keywords)
    if first.type.is_tensor_list:
        conditions += _all_tensors(names[first.name], first.type.item.is_optional)
    item = "[0]" * first.type.is_tensor_list
    slot = f"{names[first.name]}{item}._type.{context.slot_name(function)}"
    return [
        *scalar_lines(function, names),
        "try:",
        *indent(condition([*conditions, "not active.special"])),
        *indent(_returning(slot, arguments), 2),
        "except Exception:  # whatever it is, the slow path meets it again and says it properly",
        "    pass",
    ]


def _all_tensors(name: str, optional: bool) -> list[str]:
    """Returns the conditions that a list is one, which can be read twice, and that its items are tensors."""
    item = "x is None or x.__class__ is Tensor" if optional else "x.__class__ is Tensor"
    return [f"len([x for x in {name} if {item}]) == len({name})"]


def _returning(function: str, arguments: list[str]) -> list[str]:
    """Returns the statement that returns what a call gives, which the type checker takes for Any."""
    first, *rest = wrapped(f"return {function}(", arguments, ")", 76)
    return [f"{first}  # type: ignore[no-any-return]", *rest]


def condition(conditions: list[str], width: int = 112) -> list[str]:
    """Returns the head of an ``if``, one condition a line where they do not fit on one."""
    one = f"if {' and '.join(conditions)}:"
    if len(one) <= width:
        return [one]
    parts = [line for i, one in enumerate(conditions) for line in _alternatives("and " * (i > 0), one, width)]
    return ["if (", *indent(parts), "):"]


def _alternatives(head: str, one: str, width: int) -> list[str]:
    """Returns a condition as one line, or, of several in parentheses that are too long, as one line each."""
    if len(one) <= width - 12 or not one.startswith("("):
        return [f"{head}{one}"]
    first, *others = re.split(r" or (?![^(]*\))", one[1:-1])
    return [f"{head}(", f"    {first}", *(f"    or {other}" for other in others), ")"]


def scalar_lines(function: NativeFunction, names: Mapping[str, str]) -> list[str]:
    """Returns the statements that turn Python numbers into cached 0-d tensors."""
    if not takes_numbers(function):
        return []
    typed = promoted(function)
    pairs = list(zip(typed[1:], [typed[0]] * len(typed), strict=False))
    if any(a.name in NOT_PROMOTED for a in function.schema.positional):
        pairs.insert(0, (typed[0], typed[1]))
    pairs += [(a, typed[0]) for a in function.schema.positional if a.type.is_tensor and a.type.is_optional]
    lines = []
    for number, beside in pairs:
        absent = f"{names[number.name]} is not None and " * number.type.is_optional
        lines += [
            f"if {absent}{names[number.name]}.__class__ is not Tensor:",
            f"    {names[number.name]} = scalar_like({names[beside.name]}, {names[number.name]})",
        ]
    return lines


def _conditions(
    context: CodegenContext,
    function: NativeFunction,
    names: Mapping[str, str],
    typed: tuple[Argument, ...],
    derivative: Derivative | None,
    keywords: bool,
) -> list[str]:
    listed = _listed(function)
    conditions = [f"t is {names[a.name]}._type" for a in typed[1:]]
    conditions += [f"len(a) == len({names[listed.name]})"] if listed else []
    optional = [names[a.name] for a in function.schema.positional if a.type.is_tensor and a.type.is_optional]
    conditions += [f"({name} is None or t is {name}._type)" for name in optional]
    unpromoted = [a for a in function.schema.positional if a.type.is_tensor and a.name in NOT_PROMOTED]
    conditions += [f"{names[a.name]}._type is t.{NOT_PROMOTED[a.name]}" for a in unpromoted]
    conditions += _usual_values(context, function, names, keywords)
    if derivative is None and not _never_differentiable(function):
        conditions += [f"{names[a.name]}._edge is None" for a in typed]
        conditions += [f"not any([x._edge for x in {names[listed.name]}])"] if listed and not typed else []
        conditions += [f"({name} is None or {name}._edge is None)" for name in optional]
    return [*conditions, "not active.special"]  # a special type's slots stay unresolved, and so send the call away


def _usual_values(
    context: CodegenContext, function: NativeFunction, names: Mapping[str, str], keywords: bool
) -> list[str]:
    """Returns the conditions that keywords, dtypes and devices have their defaults, or values that a kernel takes."""
    passed = context.passed_keywords(function) if keywords else ()
    asked = context.asked_numbers(function)
    conditions = defaults(context, function, names)
    for argument in (*function.schema.positional, *(function.schema.keyword_only if keywords else ())):
        if argument.name in passed:
            conditions.append(plain(argument, names[argument.name], any_number=function.composite == "implicit"))
        elif argument.default is not None and (argument.kwarg_only or str(argument.type) in ("ScalarType?", "Device?")):
            conditions += usual(argument, names[argument.name])
        elif is_value(argument) and argument not in asked and not (function.schema.is_view and argument.type.is_list):
            conditions.append(value_class(argument, names[argument.name]))
    if "*out" in names and keywords:
        conditions.append(f"{names['*out']} is None")
    return conditions


def defaults(context: CodegenContext, function: NativeFunction, names: Mapping[str, str]) -> list[str]:
    """Returns the conditions that numbers have their defaults, of which the shape rule would say nothing."""
    asked = [(names[a.name], default_text(a)) for a in context.asked_numbers(function)]
    return [test for name, default in asked for test in (f"{name}.__class__ in {_NUMBERS}", f"{name} == {default}")]


def is_value(argument: Argument) -> bool:
    """Whether an argument is a number, a bool, a text or ints: a kernel would take whatever is there for that."""
    base = argument.type.base
    return base in _INTS if argument.type.is_list else base in PLAIN or base in _INTS


def value_class(argument: Argument, name: str) -> str:
    """Returns the condition that a value is what its schema says; of a tensor the gradient would be lost."""
    if argument.type.is_list:
        none = [f"{name} is None"] * argument.type.is_optional
        one = [f"{name}.__class__ is int"] * (argument.type.list_size is not None)
        return f"({' or '.join([*none, *one, f'ints({name})'])})" if none or one else f"ints({name})"
    if argument.type.base is not BaseType.SCALAR:
        return plain(argument, name, any_number=True)
    condition = f"{name}.__class__ in {_SCALARS}"
    return f"({name} is None or {condition})" if argument.type.is_optional else condition


def plain(argument: Argument, name: str, *, any_number: bool) -> str:
    """Returns the condition that a value is one which the kernel takes as it is.

    A number beside tensors without fractions could change the dtype of the result, unless the kernel takes tensors.
    """
    base, floating = argument.type.base, "" if any_number else " and t is t.float_type"
    if base is BaseType.SCALAR:
        condition = f"{name}.__class__ in {_NUMBERS}{floating}"
    elif base is BaseType.FLOAT:
        condition = f"{name}.__class__ in {_NUMBERS}"
    else:
        condition = f"{name}.__class__ is {_CLASSES[base]}"
    if argument.type.is_optional:
        return f"({name} is None or {condition})"
    if base is BaseType.SCALAR and argument.default is not None and floating:
        return f"(({' and '.join(usual(argument, name))}) or ({condition}))"
    return condition


def usual(argument: Argument, name: str) -> list[str]:
    """Returns the conditions that a value is its default; a number's class comes first, for a tensor compares to it."""
    default = default_text(argument)
    same = f"{name} {'is' if default in CONSTANTS else '=='} {default}"
    if argument.type.base is not BaseType.SCALAR or default in CONSTANTS:
        return [same]
    assert argument.default is not None
    return [f"{name}.__class__ is {argument.default.plain.__class__.__name__}", same]


def _passed(context: CodegenContext, function: NativeFunction, names: Mapping[str, str], keywords: bool) -> list[str]:
    """Returns the keyword arguments of the kernel's call."""
    return [f"{name}={names[name]}" for name in context.passed_keywords(function)] if keywords else []


def _never_differentiable(function: NativeFunction) -> bool:
    return function.promote in ("bool", "index")


def _kernel_and_result(
    context: CodegenContext,
    function: NativeFunction,
    names: Mapping[str, str],
    derivative: Derivative | None,
    keywords: bool,
) -> list[str]:
    if len(function.schema.returns) == 1 and _listed(function) is None:
        return [*_kernel_call(context, function, names, keywords), *_result(context, function, names, derivative)]
    if len(function.schema.returns) == 1:
        lines = [*_kernel_call(context, function, names, keywords), *_result(context, function, names, None)[:-1]]
        return [*lines, *_recording(context, function, names, derivative, keywords), "return y"]
    # The slot of an operator with several results makes tensors of them, and their node records itself.
    given = [*_arrays(function, names), *_passed(context, function, names, keywords)]
    lines = wrapped(f"y = t.{context.slot_name(function)}(", given, ")", 108)
    return [
        *lines,
        *_recording(context, function, names, derivative, keywords),
        "return y  # type: ignore[no-any-return]",
    ]


def _recording(
    context: CodegenContext,
    function: NativeFunction,
    names: Mapping[str, str],
    derivative: Derivative | None,
    keywords: bool,
) -> list[str]:
    """Returns the statements that have the node of a call record itself, where a result should have one."""
    if derivative is None:
        return []
    inputs = {a.name: a for a in function.schema.positional}
    present = [_has_node(inputs[n], names[n]) for n in plan(derivative).inputs]
    anyone = " or ".join(present)
    recorded = ["y", *(owned(a, names[a.name]) for a in function.schema.positional)]
    recorded += _passed(context, function, names, keywords)
    anyone = f"({anyone})" if len(present) > 1 else anyone
    return [
        *condition([anyone, "(not active.grad_off or STATE.get().grad)"]),
        *indent(wrapped(f"{constant(function.base_name)}.node.record(", recorded, ")", 104)),
    ]


def _has_node(argument: Argument, name: str) -> str:
    if argument.type.is_tensor_list:
        return f"any([x._edge for x in {name}])"
    if argument.type.is_optional:
        return f"({name} is not None and {name}._edge is not None)"
    return f"{name}._edge is not None"


def _arrays(function: NativeFunction, names: Mapping[str, str]) -> list[str]:
    return [
        "a" if a.type.is_tensor_list else _read(a, names[a.name], "_array") if a.type.is_tensor else names[a.name]
        for a in function.schema.positional
    ]


def _kernel_call(
    context: CodegenContext, function: NativeFunction, names: Mapping[str, str], keywords: bool
) -> list[str]:
    given = [*_arrays(function, names), *_passed(context, function, names, keywords)]
    return [
        *wrapped(f"r = t.{context.slot_name(function)}(", given, ")", 108),
        "if r.__class__ is not t.array_class:",
        "    r = t.as_array(r)",
    ]


def _read(argument: Argument, name: str, attribute: str) -> str:
    """Returns the text that reads an attribute of a tensor, which may be None where its type says so."""
    return f"None if {name} is None else {name}.{attribute}" if argument.type.is_optional else f"{name}.{attribute}"


def _result(
    context: CodegenContext, function: NativeFunction, names: Mapping[str, str], derivative: Derivative | None
) -> list[str]:
    # A view has the very type of its base, so that one of an inference tensor is one itself, wherever it is taken.
    is_view = function.schema.is_view
    type = "t" if is_view else f"t.{RESULT_TYPES[function.promote]}"
    lines = ["y = Tensor()", "y._array = r", f"y._type = o = {type}"]
    inference = ["if active.inference and STATE.get().inference:", "    y._type = o.inference_twin"]
    if not is_view:
        lines.append("y._version = None")
    else:
        lines += _sharing(function, names)
        inference = []
    if derivative is None:
        return [*lines, "y._edge = None", *inference, "return y"]
    node = plan(derivative)
    edges = {name: f"n{i}" for i, name in enumerate(node.inputs)}
    arguments = {a.name: a for a in function.schema.positional}
    lines += [f"{edges[name]} = {_read(arguments[name], names[name], '_edge')}" for name in node.inputs]
    present = " or ".join(f"{edge} is not None" for edge in edges.values())
    present = f"({present})" if len(edges) > 1 else present
    lines += condition([present, "(not active.grad_off or STATE.get().grad)"], 104)
    lines += indent(_attach(node, function, names, edges))
    return [*lines, "else:", *indent(["y._edge = None", *inference]), "return y"]


def _sharing(function: NativeFunction, names: Mapping[str, str]) -> list[str]:
    """Returns the statements that make a result a view; inline where its base has views and gradients are on."""
    first, *others = function.schema.positional
    base = names[first.name]
    taken = ", ".join([constant(function.base_name), *(owned(a, names[a.name]) for a in others)])
    if "may_copy" in function.tags:
        return [f"share_if_aliased({base}, y, {taken})"]
    return [
        f"v = {base}._version",
        "if v is None or not v[1] or active.grad_off:",
        f"    share({base}, y, {taken})",
        "else:",
        "    y._version = v",
        f"    y._view = ({base}, {taken})",
        "    v[1].append(ref(y))",
        "    if len(v[1]) > v[2]:",
        "        prune(v)",
    ]


def _attach(node: Plan, function: NativeFunction, names: Mapping[str, str], edges: dict[str, str]) -> list[str]:
    every = [edges[name] for name in node.inputs]
    types = {a.name: f"t.{NOT_PROMOTED[a.name]}" if a.name in NOT_PROMOTED else "t" for a in function.schema.positional}
    items = node.fast_items(names, edges, types)
    return [
        *(["y._version = w = [0, False]"] if node.saves_result else []),
        f"y._edge = n = {constant(function.base_name)}.node()",
        "n.number = next_number()",
        f"n.edges = ({', '.join(every)}{',' if len(every) == 1 else ''})",
        "n.type = o",
        "n.shape = r.shape",
        *tuple_lines("n.saved = ", items, 96),
    ]


def return_lines(text: str, deeper: int = 0) -> list[str]:
    """Returns the statement that returns a call's result, which the type checker takes for Any."""
    ignore = "  # type: ignore[no-any-return]"
    head, _, arguments = text.partition("(")
    if len(text) + deeper <= 76:
        return [f"return {text}{ignore}"]
    inside = arguments[:-1]
    if len(inside) + deeper <= 110:
        return [f"return {head}({ignore}", f"    {inside}", ")"]
    parts = re.split(r", (?=[({])", inside)  # the operator, its positional arguments, its keywords
    body = [line for part in parts for line in _broken(part, deeper)]
    return [f"return {head}({ignore}", *indent(body), ")"]


def _broken(part: str, deeper: int) -> list[str]:
    """Returns one argument of a call as one line or, a tuple that is too long, as several."""
    if len(part) + deeper <= 106 or not part.startswith("("):
        return [f"{part},"]
    return wrapped("(", part[1:-1].split(", "), "),", 106 - deeper)


def slow_call(
    function: NativeFunction, names: Mapping[str, str], *, name: str | None = None, out: str | None = None
) -> str:
    """Returns the call of the slow path, ``out`` being the parameter of that name where there is one."""
    positional = ", ".join(names[a.name] for a in function.schema.positional)
    comma = "," if len(function.schema.positional) == 1 else ""
    keywords = ", ".join(f'"{a.name}": {names[a.name]}' for a in function.schema.keyword_only)
    rest = f", {{{keywords}}}" if keywords else ", None" if out else ""
    how = "scaled" if SCALED in function.tags else "call"
    return f"{how}({name or constant(function.base_name)}, ({positional}{comma}){rest}{f', {out}' if out else ''})"
