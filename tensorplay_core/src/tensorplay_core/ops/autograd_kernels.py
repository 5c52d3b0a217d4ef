"""The kernels at the Autograd keys: what each operator's layer above the backends does.

Every operator has one from the moment it is defined. It either records the node of its derivative record, or lets an
implicit operator decompose, or passes a non-differentiable one through, or records a node that raises on backward: a
gradient is never silently lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from tensorplay_core.autograd.node import Node, NoFormula, record
from tensorplay_core.dispatch.context import STATE
from tensorplay_core.dispatch.key_set import KeySet
from tensorplay_core.dispatch.keys import DispatchKey
from tensorplay_core.dispatch.misses import kernel_missing
from tensorplay_core.dispatch.operator import Operator, Registration, location
from tensorplay_core.dispatch.registry import REGISTRY
from tensorplay_core.errors import AutogradError, fix
from tensorplay_core.ops import inplace
from tensorplay_core.ops.arguments import plan_of, tensors_in, written_tensors
from tensorplay_core.ops.call import below_autograd, redispatch, run_composite
from tensorplay_core.ops.slots import CORE
from tensorplay_core.tensor.tensor import Tensor, wrap
from tensorplay_core.tensor.version import alias


def records(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether a call must be recorded: gradients are on, and an input has a node."""
    return STATE.get().grad and any(t._node is not None for t in tensors_in(args, kwargs))


def distinct(op: Operator, result: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Returns a result that can take a node: where a kernel on tensors gave back an input, another tensor over it."""
    inputs = {id(t) for t in tensors_in(args, kwargs)}

    def other(value: Any) -> Any:
        if not isinstance(value, Tensor) or id(value) not in inputs:
            return value
        same = wrap(value._array, value._type)
        alias(value, same)
        return same

    if isinstance(result, (tuple, list)):
        return plan_of(op).result_class(list(map(other, result))) if inputs & {id(r) for r in result} else result
    return other(result)


def formula(op: Operator) -> Callable[..., Any]:
    """Returns the kernel of an operator with a derivative record."""

    def autograd(keys: KeySet, /, *args: Any, **kwargs: Any) -> Any:
        result = redispatch(op, below_autograd(keys), args, kwargs)
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
    """Returns the kernel of an operator that decomposes: recorded through the operators it is composed of."""

    def autograd(keys: KeySet, /, *args: Any, **kwargs: Any) -> Any:
        if not records(args, kwargs):
            return redispatch(op, below_autograd(keys), args, kwargs)
        composite = op.kernel_at(int(DispatchKey.Composite))
        if composite is None:  # a backend's kernel alone would lose the gradient
            raise kernel_missing(op, keys, "its gradient is that of its Composite kernel, and Composite has none")
        return run_composite(op, composite, keys, args, kwargs)

    return autograd


def no_formula(op: Operator) -> Callable[..., Any]:
    """Returns the kernel of an operator without a record: works forward, raises on backward."""

    def autograd(keys: KeySet, /, *args: Any, **kwargs: Any) -> Any:
        result = redispatch(op, below_autograd(keys), args, kwargs)
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


def check_inplace(op: Operator, target: Tensor, recording: bool) -> None:
    """Refuses the in-place writes after which a gradient would be wrong.

    Raises:
        AutogradError: the tensor is a leaf that requires grad, or shares memory with a view.
    """
    if not recording:
        return
    if target._node is not None and target._node.is_leaf:
        raise AutogradError(
            f"{op.display_name}: the tensor is a leaf that requires grad; writing to it would change what its gradient "
            "is of" + fix("write in tp.no_grad(), or use the out-of-place operator.")
        )
    if target._version is not None and target._version[1]:
        raise AutogradError(
            f"{op.display_name}: the tensor shares memory with a view, and gradients through such a write are not "
            "supported yet" + fix("use the out-of-place operator, or clone() the tensor before writing to it.")
        )


def in_place(op: Operator) -> Callable[..., Any]:
    """Returns the kernel of an operator that writes to its first argument."""
    source = op.functional or op

    def autograd(keys: KeySet, self: Tensor, /, *args: Any, **kwargs: Any) -> Tensor:
        recording = records((self, *args), kwargs)
        check_inplace(op, self, recording)
        if not recording:
            result: Tensor = redispatch(op, below_autograd(keys), (self, *args), kwargs)
            return result
        inplace.check(op, (self, *args), kwargs)
        # A formula must see the overwritten tensor, and whatever shares its memory, as they were before the write.
        node: type[Node] | None = source.node
        saves = node is not None and node.saves_input
        before = _as_it_was(self) if saves else wrap(self._array, self._type, self._node)
        args = tuple([_as_it_was(a) if _shares_memory(a, self) else a for a in args])
        redispatch(op, below_autograd(keys), (self, *args), kwargs)
        if node is None:
            missing = NoFormula()
            missing.operator = op
            missing.saved = ()
            record(missing, (before, *tensors_in(args, kwargs)), self)
        else:
            node.record(self, before, *args, **kwargs)  # type: ignore[attr-defined]
        return self

    return autograd


def mutating(op: Operator) -> Callable[..., Any]:
    """Returns the kernel of an operator that writes to some of its arguments, whichever they are.

    What was written to depends on all inputs by no known formula, so it gets a node that raises on backward.
    """

    def autograd(keys: KeySet, /, *args: Any, **kwargs: Any) -> Any:
        if not records(args, kwargs):
            return redispatch(op, below_autograd(keys), args, kwargs)
        written = written_tensors(op, args, kwargs)
        for target in written:
            check_inplace(op, target, True)
        inputs = tuple(tensors_in(args, kwargs))
        result = redispatch(op, below_autograd(keys), args, kwargs)
        several = result if isinstance(result, (tuple, list)) else (result,)
        known = {id(t) for t in written}
        node = NoFormula()
        node.operator = op
        node.saved = ()
        record(node, inputs, (*written, *(r for r in several if isinstance(r, Tensor) and id(r) not in known)))
        return result

    return autograd


def _as_it_was(tensor: Tensor) -> Tensor:
    return wrap(tensor._type.api.copy(tensor._array), tensor._type, tensor._node)


def _shares_memory(value: Any, target: Tensor) -> bool:
    """Whether a write to ``target`` changes ``value``; tensors that share memory share their version cell."""
    if not isinstance(value, Tensor):
        return False
    return value is target or (value._version is not None and value._version is target._version)


def _returns_self(op: Operator) -> bool:
    """Whether an operator writes to its first argument alone and returns that; read off the text, which costs less."""
    arguments, _, returns = op.schema_text.rpartition("->")
    return op.is_inplace and arguments.count("!)") == 1 and returns.count("!)") == 1 and "," not in returns


def default_kernel(op: Operator) -> tuple[Callable[..., Any], str]:
    """Returns the Autograd kernel that an operator gets, and where it comes from."""
    if "!)" in op.schema_text and not (op.functional is not None or _returns_self(op)):
        return mutating(op), location(mutating)
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


def install(operators: Iterable[Operator]) -> None:
    """Registers core's kernels for operators, and for every one that is defined from now on."""
    REGISTRY.publish(added=[r for op in operators for r in registrations(op)])
    REGISTRY.on_define.append(lambda op: REGISTRY.publish(added=registrations(op)))
