"""The kernels at the Autograd keys: what each operator's layer above the backends does.

Every operator has one from the moment it is defined. It either records the node of its derivative record, or lets an
implicit operator decompose, or passes a non-differentiable one through, or records a node that raises on backward: a
gradient is never silently lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tensorplay_core.autograd import views
from tensorplay_core.autograd.modes import enable_grad
from tensorplay_core.autograd.node import Node, NoFormula, record, save
from tensorplay_core.dispatch import active
from tensorplay_core.dispatch.context import STATE
from tensorplay_core.dispatch.key_set import KeySet
from tensorplay_core.dispatch.keys import DispatchKey
from tensorplay_core.dispatch.misses import kernel_missing
from tensorplay_core.dispatch.operator import Operator, Registration, location
from tensorplay_core.dispatch.registry import REGISTRY
from tensorplay_core.ops import inplace
from tensorplay_core.ops.arguments import plan_of, tensors_in, written_tensors
from tensorplay_core.ops.call import below_autograd, call, redispatch, run, run_composite
from tensorplay_core.ops.kernels import check_keeps_shape
from tensorplay_core.ops.slots import CORE
from tensorplay_core.tensor import views as relations
from tensorplay_core.tensor.tensor import Tensor, another, wrap
from tensorplay_core.tensor.version import share_memory
from tensorplay_core.tensor.views import relate, restrict


def records(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether a call must be recorded: gradients are on, and an input has a node."""
    return STATE.get().grad and any(t._node is not None for t in tensors_in(args, kwargs))


def distinct(op: Operator, result: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Returns a result that can take a node: where a kernel on tensors gave back an input, another tensor over it."""
    inputs = {id(t) for t in tensors_in(args, kwargs)}

    def other(value: Any) -> Any:
        if not isinstance(value, Tensor) or id(value) not in inputs:
            return value
        return another(value)

    if isinstance(result, (tuple, list)):
        return plan_of(op).result_class(list(map(other, result))) if inputs & {id(r) for r in result} else result
    return other(result)


def as_views(op: Operator, result: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Returns the result of a view operator, which knows now how it was taken from the first argument.

    What a kernel on tensors made of views within has been said where gradients are off, and of those.
    """
    result = distinct(op, result, args, kwargs)
    several = not isinstance(result, Tensor)
    for view in result if several else (result,):
        if share_memory(args[0], view):
            relate(args[0], view, op, args[1:], kwargs, several=several)
    return result


def formula(op: Operator) -> Callable[..., Any]:
    """Returns the kernel of an operator with a derivative record."""

    def autograd(keys: KeySet, /, *args: Any, **kwargs: Any) -> Any:
        result = redispatch(op, below_autograd(keys), args, kwargs)
        if plan_of(op).view:
            result = as_views(op, result, args, kwargs)
        if records(args, kwargs):
            result = distinct(op, result, args, kwargs)
            op.node.record(result, *args, **kwargs)
        return result

    return autograd


def non_differentiable(op: Operator) -> Callable[..., Any]:
    """Returns the kernel of an operator whose results never have a gradient."""

    def autograd(keys: KeySet, /, *args: Any, **kwargs: Any) -> Any:
        return redispatch(op, below_autograd(keys), args, kwargs)

    return autograd


def implicit(op: Operator) -> Callable[..., Any]:
    """Returns the kernel of an operator that decomposes: recorded through the operators it is composed of.

    A view does so even where nothing is recorded, for what it is a view of may take a gradient by a later write.
    """

    def autograd(keys: KeySet, /, *args: Any, **kwargs: Any) -> Any:
        recording, is_view = records(args, kwargs), plan_of(op).view
        composite = op.kernel_at(int(DispatchKey.Composite)) if recording or is_view else None
        if composite is None:
            if recording:  # a backend's kernel alone would lose the gradient
                raise kernel_missing(op, keys, "its gradient is that of its Composite kernel, and Composite has none")
            return redispatch(op, below_autograd(keys), args, kwargs)
        result = run_composite(op, composite, keys, args, kwargs)
        if is_view and isinstance(result, (tuple, list)) and STATE.get().grad:
            restrict(result)
        return result

    return autograd


def no_formula(op: Operator) -> Callable[..., Any]:
    """Returns the kernel of an operator without a record: works forward, raises on backward."""

    def autograd(keys: KeySet, /, *args: Any, **kwargs: Any) -> Any:
        result = redispatch(op, below_autograd(keys), args, kwargs)
        if plan_of(op).view:
            result = as_views(op, result, args, kwargs)
        if records(args, kwargs):
            result = distinct(op, result, args, kwargs)
            node = NoFormula()
            node.operator = op
            node.saved = ()
            several = result if isinstance(result, (tuple, list)) else ()  # an operator may return nothing, or a number
            outputs = result if isinstance(result, Tensor) else tuple(r for r in several if isinstance(r, Tensor))
            record(node, tuple(tensors_in(args, kwargs)), outputs)
        return result

    return autograd


def records_write(target: Tensor, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether a call that writes to a tensor must be recorded; the tensor may be a view of one that has a node."""
    return STATE.get().grad and (views.requires_grad(target) or records(args, kwargs))


def in_place(op: Operator) -> Callable[..., Any]:
    """Returns the kernel of an operator that writes to its first argument."""
    source = op.functional or op

    def autograd(keys: KeySet, self: Tensor, /, *args: Any, **kwargs: Any) -> Tensor:
        if not records_write(self, args, kwargs):
            result: Tensor = redispatch(op, below_autograd(keys), (self, *args), kwargs)
            return result
        views.check_write(op.display_name, self)
        # A formula must see the overwritten tensor, and whatever shares its memory, as they were before the write.
        node: type[Node] | None = source.node
        saves = node is not None and plan_of(source).positional[0].name in node.saves_input
        if node is not None:
            _check_saved(source, node, args)
        before = _as_it_was(self) if saves else wrap(self._array, self._type, self._node)
        args = tuple([_as_it_was(a) if isinstance(a, Tensor) and share_memory(a, self) else a for a in args])
        redispatch(op, below_autograd(keys), (self, *args), kwargs)
        if node is None:
            missing = NoFormula()
            missing.operator = op
            missing.saved = ()
            record(missing, (before, *tensors_in(args, kwargs)), self)
        else:
            recorded = self._node
            try:
                node.record(self, before, *args, **kwargs)  # type: ignore[attr-defined]
            except BaseException:  # of a hook for what nodes save
                self._node = recorded
                raise
        views.rebase(self)
        return self

    return autograd


def _check_saved(op: Operator, node: type[Node], args: tuple[Any, ...]) -> None:
    """Raises for an argument that a write's node could not save, while nothing is written yet."""
    for spec, value in zip(plan_of(op).positional[1:], args, strict=False):
        if spec.name in node.saves_input and isinstance(value, Tensor) and value._type.inference:
            save(value)


def in_place_of_implicit(op: Operator) -> Callable[..., Any]:
    """Returns the kernel of the in-place variant of an operator that decomposes: what that gives is copied."""
    functional = op.functional
    assert functional is not None

    def autograd(keys: KeySet, self: Tensor, /, *args: Any, **kwargs: Any) -> Tensor:
        if not records_write(self, args, kwargs):
            written: Tensor = redispatch(op, below_autograd(keys), (self, *args), kwargs)
            return written
        inplace.check(op, (self, *args), kwargs)
        result = run(functional, keys, (self, *args), kwargs)
        check_keeps_shape(op, result.shape, self)
        return run(REGISTRY.operators["tp::copy_"], keys, (self, result, False), {})  # type: ignore[no-any-return]

    return autograd


def implicit_write(op: Operator) -> Callable[..., Any]:
    """Returns the kernel of an operator that writes to its first argument and decomposes: what it calls is recorded."""
    decomposed = implicit(op)

    def autograd(keys: KeySet, self: Tensor, /, *args: Any, **kwargs: Any) -> Tensor:
        if records_write(self, args, kwargs) and not records((self, *args), kwargs):
            views.check_write(op.display_name, self)  # a view, whose base alone has a node
            composite = op.kernel_at(int(DispatchKey.Composite))
            if composite is not None:
                return run_composite(op, composite, keys, (self, *args), kwargs)  # type: ignore[no-any-return]
        return decomposed(keys, self, *args, **kwargs)  # type: ignore[no-any-return]

    return autograd


def mutating(op: Operator) -> Callable[..., Any]:
    """Returns the kernel of an operator that writes to some of its arguments, whichever they are.

    What was written to depends on all inputs by no known formula, so it gets a node that raises on backward.
    """

    def autograd(keys: KeySet, /, *args: Any, **kwargs: Any) -> Any:
        written = written_tensors(op, args, kwargs)
        if not (records(args, kwargs) or (STATE.get().grad and any(map(views.requires_grad, written)))):
            return redispatch(op, below_autograd(keys), args, kwargs)
        for target in written:
            views.check_write(op.display_name, target)
        inputs = tuple(tensors_in(args, kwargs))
        result = redispatch(op, below_autograd(keys), args, kwargs)
        several = result if isinstance(result, (tuple, list)) else (result,)
        known = {id(t) for t in written}
        node = NoFormula()
        node.operator = op
        node.saved = ()
        record(node, inputs, (*written, *(r for r in several if isinstance(r, Tensor) and id(r) not in known)))
        for target in written:
            views.rebase(target)
        return result

    return autograd


def _as_it_was(tensor: Tensor) -> Tensor:
    same = wrap(tensor._type.api.copy(tensor._array), tensor._type, tensor._node)
    if active.levels:
        from tensorplay_core.tensor.dual import carry_copy

        carry_copy(tensor, same)
    return same


def _returns_self(op: Operator) -> bool:
    """Whether an operator writes to its first argument alone and returns that; read off the text, which costs less."""
    arguments, _, returns = op.schema_text.rpartition("->")
    return op.is_inplace and arguments.count("!)") == 1 and returns.count("!)") == 1 and "," not in returns


def default_kernel(op: Operator) -> tuple[Callable[..., Any], str]:
    """Returns the Autograd kernel that an operator gets, and where it comes from."""
    if "!)" in op.schema_text and not (op.functional is not None or _returns_self(op)):
        return mutating(op), location(mutating)
    if op.is_inplace and op.functional is not None and op.functional.composite == "implicit":
        return in_place_of_implicit(op), location(in_place_of_implicit)
    if op.is_inplace and op.functional is None and op.node is None and op.composite == "implicit":
        return implicit_write(op), location(implicit_write)
    if op.is_inplace:
        source = op.functional or op
        return in_place(op), location(source.node.backward if source.node is not None else in_place)
    if op.differentiable is not None and not any(op.differentiable):
        return non_differentiable(op), location(non_differentiable)
    if op.node is not None:
        return formula(op), location(op.node.backward)
    if op.composite == "implicit":
        return implicit(op), location(implicit)
    return no_formula(op), location(no_formula)


def registrations(op: Operator) -> list[Registration]:
    """Returns what core registers for an operator: its Autograd kernel, and an in-place variant's Composite one."""
    function, where = default_kernel(op)
    function.__qualname__ = op.node.__name__ if op.node is not None else f"{function.__qualname__.partition('.')[0]}"
    found = [_registration(op, "Autograd", function, where)]
    found[0].placeholder = where == location(no_formula)  # whoever has a gradient for the operator may bring it
    if op.functional is not None:
        kernel = inplace.through_functional(op)
        found.append(_registration(op, int(DispatchKey.Composite), kernel, location(kernel)))
    return found


def _registration(op: Operator, slot: int | str, function: Callable[..., Any], where: str) -> Registration:
    return Registration(
        function,
        op=op.qualified_name,
        key=slot,
        owner=CORE,
        distribution=CORE,
        where=where,
        level="tensor",
        with_keyset=True,
    )


def _replay(base: Any, op: Operator, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Node | None:
    with enable_grad():
        result: Tensor = call(op, (base, *args), dict(kwargs))
    return result._node


relations.replay = _replay


def install(operators: Iterable[Operator]) -> None:
    """Registers core's kernels for operators, and for every one that is defined from now on."""
    REGISTRY.publish(added=[r for op in operators for r in registrations(op)])
    REGISTRY.on_define.append(lambda op: REGISTRY.publish(added=registrations(op)))
