"""The body of a generated function: the fast path inline, and the call of the slow path behind it.

The functional, in-place and methods targets share it. Why it is inlined rather than called: a Python frame costs 60-80
ns, and the whole of a call has to stay near twice NumPy's own 190 ns.
"""

from __future__ import annotations

from collections.abc import Mapping

from tensorplay_core.codegen.context import CodegenContext, constant, indent, tuple_lines, wrapped
from tensorplay_core.codegen.contract import Derivative, NativeFunction
from tensorplay_core.codegen.signatures import NOT_PROMOTED, default_text, promoted, takes_numbers
from tensorplay_core.codegen.targets.node_plan import Plan, owned, plan
from tensorplay_core.types.schema import Argument

RESULT_TYPES = {
    "default": "same_type",
    "keep": "same_type",
    "float": "float_type",
    "bool": "bool_type",
    "sum": "sum_type",
    "index": "index_type",
    "real": "real_type",
}


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
    if function.composite == "implicit":
        return _decomposing(context, function, names)
    tensors = [a for a in function.schema.positional if a.type.is_tensor]
    typed = promoted(function) or tuple(tensors)
    first = names[typed[0].name]
    derivative = context.derivative(function)
    body = scalar_lines(function, names)
    body += [
        "try:",
        f"    t = {first}._type",
        f"    if {' and '.join(_conditions(function, names, typed, derivative, keywords))}:",
        *indent(_kernel_call(context, function, names), 2),
        *indent(_result(context, function, names, derivative), 2),
        "except Exception:  # whatever it is, the slow path meets it again and says it properly",
        "    pass",
    ]
    return body


def _decomposing(context: CodegenContext, function: NativeFunction, names: Mapping[str, str]) -> list[str]:
    """Returns the statements that run an operator's Composite kernel, which the type's slot holds."""
    first, *others = (names[a.name] for a in function.schema.positional)
    call = f"{first}._type.{context.slot_name(function)}({', '.join([first, *others])})"
    return [
        "try:",
        "    if not active.special:",
        f"        return {call}  # type: ignore[no-any-return]",
        "except Exception:  # whatever it is, the slow path meets it again and says it properly",
        "    pass",
    ]


def scalar_lines(function: NativeFunction, names: Mapping[str, str]) -> list[str]:
    """Returns the statements that turn Python numbers into cached 0-d tensors."""
    if not takes_numbers(function):
        return []
    typed = promoted(function)
    pairs = list(zip(typed[1:], [typed[0]] * len(typed), strict=False))
    if any(a.name in NOT_PROMOTED for a in function.schema.positional):
        pairs.insert(0, (typed[0], typed[1]))
    lines = []
    for number, beside in pairs:
        lines += [
            f"if {names[number.name]}.__class__ is not Tensor:",
            f"    {names[number.name]} = scalar_like({names[beside.name]}, {names[number.name]})",
        ]
    return lines


def _conditions(
    function: NativeFunction,
    names: Mapping[str, str],
    typed: tuple[Argument, ...],
    derivative: Derivative | None,
    keywords: bool,
) -> list[str]:
    conditions = [f"t is {names[a.name]}._type" for a in typed[1:]]
    unpromoted = [a for a in function.schema.positional if a.name in NOT_PROMOTED]
    conditions += [f"{names[a.name]}._type is t.bool_type" for a in unpromoted]
    for argument in (*function.schema.positional, *(function.schema.keyword_only if keywords else ())):
        if argument.default is not None and (argument.kwarg_only or str(argument.type) in ("ScalarType?", "Device?")):
            name = names[argument.name]
            is_none = argument.default.value is None
            conditions.append(f"{name} is None" if is_none else f"{name} == {default_text(argument)}")
    if "*out" in names and keywords:
        conditions.append(f"{names['*out']} is None")
    if derivative is None and not _never_differentiable(function):
        conditions += [f"{names[a.name]}._edge is None" for a in typed]
    return [*conditions, "not active.special"]  # a special type's slots stay unresolved, and so send the call away


def _never_differentiable(function: NativeFunction) -> bool:
    return function.promote in ("bool", "index")


def _kernel_call(context: CodegenContext, function: NativeFunction, names: Mapping[str, str]) -> list[str]:
    arguments = [f"{names[a.name]}._array" if a.type.is_tensor else names[a.name] for a in function.schema.positional]
    return [
        *wrapped(f"r = t.{context.slot_name(function)}(", arguments, ")", 108),
        "if r.__class__ is not t.array_class:",
        "    r = t.as_array(r)",
    ]


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
    lines += [f"{edges[name]} = {names[name]}._edge" for name in node.inputs]
    present = " or ".join(f"{edge} is not None" for edge in edges.values())
    present = f"({present})" if len(edges) > 1 else present
    lines.append(f"if {present} and (not active.grad_off or STATE.get().grad):")
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
    types = {a.name: "t.bool_type" if a.name in NOT_PROMOTED else "t" for a in function.schema.positional}
    items = node.fast_items(names, edges, types)
    return [
        *(["y._version = w = [0, False]"] if node.saves_result else []),
        f"y._edge = n = {constant(function.base_name)}.node()",
        "n.number = next_number()",
        f"n.edges = ({', '.join(every)}{',' if len(every) == 1 else ''})",
        "n.type = o",
        "n.shape = r.shape",
        *tuple_lines("n.saved = ", items, 104),
    ]


def return_lines(text: str) -> list[str]:
    """Returns the statement that returns a call's result, which the type checker takes for Any."""
    ignore = "  # type: ignore[no-any-return]"
    head, _, arguments = text.partition("(")
    if len(text) <= 76:
        return [f"return {text}{ignore}"]
    return [f"return {head}({ignore}", f"    {arguments[:-1]}", ")"]


def slow_call(
    function: NativeFunction, names: Mapping[str, str], *, name: str | None = None, out: str | None = None
) -> str:
    """Returns the call of the slow path, ``out`` being the parameter of that name where there is one."""
    positional = ", ".join(names[a.name] for a in function.schema.positional)
    comma = "," if len(function.schema.positional) == 1 else ""
    keywords = ", ".join(f'"{a.name}": {names[a.name]}' for a in function.schema.keyword_only)
    rest = f", {{{keywords}}}" if keywords else ", None" if out else ""
    return f"call({name or constant(function.base_name)}, ({positional}{comma}){rest}{f', {out}' if out else ''})"
