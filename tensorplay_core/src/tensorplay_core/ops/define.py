"""How generated modules define operators and put them in force, core's at import and a plugin's when it is imported.

Every operator with a fast path gets its slot in the tensor types. A plugin's package may be imported again, or
reloaded: what it defines then replaces its own, and nobody else's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

from tensorplay_core.dispatch.operator import Operator, location
from tensorplay_core.dispatch.registry import REGISTRY
from tensorplay_core.dispatch.tensor_type import add_slot
from tensorplay_core.errors import RegistrationError, fix

if TYPE_CHECKING:
    from tensorplay_core.types.program import Program

_methods: dict[str, str] = {}
"""Method of Tensor to the package that put it there, of those that are not core's."""


def operator(
    schema: str,
    *,
    shape: str | Callable[..., Any] | None = None,
    promote: str = "none",
    composite: str = "none",
    autocast: str = "none",
    tags: tuple[str, ...] = (),
    promises: Mapping[str, str] | None = None,
    fast: bool = False,
    passes: tuple[str, ...] = (),
    differentiable: bool = True,
    math: Program | None = None,
    owner: str = "",
    where: str = "",
) -> Operator:
    """Defines an operator of a contract."""
    op = Operator(
        schema,
        shape=None if callable(shape) else shape,
        promote=promote,
        composite=composite,
        autocast=autocast,
        tags=tags,
        promises={key: (kernel,) for key, kernel in (promises or {}).items()},
        math=math,
        where=where,
    )
    if callable(shape):
        op.shape = _rule(op, shape, owner)
    op.fast = fast
    op.passes = frozenset(passes)
    if not differentiable:
        op.differentiable = (False,)
    return _enter(op, owner)


def inplace(functional: Operator, *, fast: bool = True) -> Operator:
    """Defines the in-place variant of an operator; ``fast``: its function has a fast path where the operator's has."""
    head, _, rest = functional.schema_text.partition("(")
    name, dot, overload = head.partition(".")
    arguments, _, _ = rest.rpartition(") -> ")
    arguments = arguments.replace("Tensor ", "Tensor(a!) ", 1)
    op = Operator(
        f"{name}_{dot}{overload}({arguments}) -> Tensor(a!)",
        shape=functional.shape,
        promote=functional.promote,
        composite="explicit",
        tags=functional.tags,
        functional=functional,
        where=functional.where,
    )
    op.fast = functional.fast and fast
    op.passes = functional.passes
    op.differentiable = functional.differentiable
    return _enter(op, functional.owner)


def _enter(op: Operator, owner: str) -> Operator:
    op.owner = owner
    if op.fast:
        add_slot(op.slot)
    known = REGISTRY.operators.get(op.qualified_name) if owner else None
    if known is None or known.owner != owner:
        return REGISTRY.define(op)
    if known.schema_text == op.schema_text:  # the same again: whoever has it, or a kernel for it, keeps it
        for name in ("shape", "promote", "composite", "autocast", "tags", "promises", "math", "where"):
            setattr(known, name, getattr(op, name))
        known.passes = op.passes
        known.fast, known.differentiable, known.functional = op.fast, op.differentiable, op.functional
        return known
    REGISTRY.remove(known)
    return REGISTRY.define(op)


def _rule(op: Operator, rule: Callable[..., Any], owner: str) -> str:
    """Makes a plugin's function a shape rule, and returns its name.

    Raises:
        RegistrationError: it cannot be called as a rule is.
    """
    import inspect  # here, because core's own rules are names: `import tensorplay` does without it

    from tensorplay_core.ops.shapes import RULES

    schema = op.schema
    signature = inspect.signature(rule)
    try:
        signature.bind(op.name, *schema.positional, **{a.name: a for a in schema.keyword_only})
    except TypeError as error:
        wanted = ", ".join(["op", *(a.name for a in schema.positional), *(["**keywords"] * bool(schema.keyword_only))])
        raise RegistrationError(
            f"{op.display_name}: its shape rule is {rule.__name__}{signature} ({location(rule)}): {error}"
            + fix(f"write {rule.__name__}({wanted}): the operator's name, then its arguments.")
        ) from None
    name = f"{owner}.{rule.__name__}"
    RULES[name] = rule
    return name


def definitions(package: str) -> tuple[Callable[..., Operator], Callable[[Operator], Operator]]:
    """Returns :func:`operator` and :func:`inplace` for the generated modules of a plugin's package."""

    def operator_of_package(schema: str, **fields: Any) -> Operator:
        return operator(schema, owner=package, where=location(None), **fields)

    return operator_of_package, inplace


def methods_of(package: str) -> Callable[[type], type]:
    """Returns a decorator that puts the methods of a plugin's class on Tensor.

    Raises:
        RegistrationError: Tensor has one of them from somebody else; none is put there then.
    """
    from tensorplay_core.tensor.tensor import Tensor, bind

    def decorate(methods: type) -> type:
        names = [name for name in vars(methods) if not name.startswith("__")]
        for name in names:
            if hasattr(Tensor, name) and _methods.get(name) != package:
                raise RegistrationError(
                    f"{package} puts the method {name!r} on Tensor, which has it from {_methods.get(name, 'core')}"
                    + fix("take `method` out of the record's variants, and generate the package anew.")
                )
        _methods.update(dict.fromkeys(names, package))
        return bind(methods)

    return decorate


def install(package: str, namespace: str, nodes: Sequence[tuple[Any, Any]], modules: Sequence[ModuleType]) -> None:
    """Puts the operators of a plugin's contract in force: their gradients and their public functions.

    Args:
        package: the plugin's package.
        namespace: of its operators.
        nodes: operator and node class.
        modules: its generated functions, those that call kernels first.
    """
    from tensorplay_core.ops import autograd_kernels
    from tensorplay_core.ops.silence import silence

    own = [op for op in REGISTRY.operators.values() if op.namespace == namespace and op.owner == package]
    recorded = dict(nodes)
    for op in own:
        op.node = recorded.get(op)
        op.function = next((f for m in modules if (f := getattr(m, op.name, None)) is not None), None)
    REGISTRY.publish(added=[r for op in own for r in autograd_kernels.registrations(op)])
    for module in modules:
        silence(module)
