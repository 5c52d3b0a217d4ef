"""Rules of forward mode: how the tangents of a call's results come from those of its inputs.

A generated rule is a function in ``_generated_forward_<family>.py``, beside the nodes of that family, and is loaded
when a tangent first meets its operator. An operator without one is *transposed*: the gradient that its node computes is
linear in the gradient of the result, and the transpose of that linear map is the map of tangents. Differentiating the
node's ``backward`` once more gives it, exactly, for whatever has a gradient that can be differentiated.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from tensorplay_core.autograd.api import grad
from tensorplay_core.autograd.fitting import fit
from tensorplay_core.autograd.kept import DUAL, PACKED, is_saved
from tensorplay_core.autograd.modes import enable_grad
from tensorplay_core.autograd.node import Gradients, Node, Output, next_number
from tensorplay_core.dispatch.context import STATE
from tensorplay_core.dispatch.key_set import KeySet
from tensorplay_core.dispatch.operator import Operator
from tensorplay_core.dispatch.tensor_type import TensorType
from tensorplay_core.errors import ForwardMissing, fix
from tensorplay_core.ops.arguments import plan_of, tensors_in
from tensorplay_core.tensor import dual
from tensorplay_core.tensor.dual import Level, same_layout, suspended
from tensorplay_core.tensor.tensor import Tensor, TensorBase, wrap
from tensorplay_core.tensor.wrappers import wrap_at

_OFFSET = "storage_offset"
"""The argument of views that are taken of memory rather than of a tensor."""
_NODES, _FORWARD = "._generated_nodes_", "._generated_forward_"
Tangents = tuple["Tensor | None", ...]


class Rule:
    """How an operator's tangents come about.

    Attributes:
        kind: ``result`` (its record says it), ``linear``, ``elementwise`` or ``transposed``.
        runs_kernel: whether the rule runs the kernel at Autograd itself, see :class:`TransposedKernel`.
    """

    kind = ""
    runs_kernel = False

    def tangents(self, level: Level, result: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tangents:
        """Returns the tangent of each result, None for one that has none; it runs while the level is suspended.

        Args:
            level: where the inputs' tangents are.
            result: what the call returned.
            args: its positional arguments, as they were before a write.
            kwargs: the keyword-only ones.
        """
        raise NotImplementedError

    def run(self, level: Level, keys: KeySet, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Tangents]:
        """Returns the results of a call as well, of a rule that runs the kernel itself."""
        raise NotImplementedError


class Generated(Rule):
    """A rule from the operator's derivative record.

    Args:
        kind: where the generator has it from.
        inputs: the names of the inputs that have tangents, in the order in which the function takes them.
        function: takes the result, the tangents, and the arguments; returns a tangent, or one for each result.
    """

    op: Operator

    def __init__(self, kind: str, inputs: tuple[str, ...], function: Callable[..., Any]) -> None:
        """See the class."""
        self.kind, self.inputs, self.function = kind, inputs, function

    def tangents(self, level: Level, result: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tangents:
        """See the base class."""
        specs = plan_of(self.op).positional
        named = {spec.name: value for spec, value in zip(specs, args, strict=True)} | kwargs
        tangents = [_tangents_of(level, named.get(name)) for name in self.inputs]
        found = self.function(tangents, result, *args, **kwargs)
        return found if found.__class__ is tuple else (found,)


def _tangents_of(level: Level, value: Any) -> Any:
    if value.__class__ is tuple:
        return [_tangents_of(level, item) for item in value]
    return level.tangent_of(value) if isinstance(value, TensorBase) else None


# what generated rules call


def total(*terms: Tensor | None) -> Tensor | None:
    """Returns the sum of terms, without those that are absent."""
    sum_: Tensor | None = None
    for term in terms:
        if term is not None:
            sum_ = term if sum_ is None else sum_ + term
    return sum_


def filled(tangent: Any, primal: Any) -> Any:
    """Returns a tangent, zeros where there is none; of a list one for each item."""
    if tangent.__class__ is list:
        return [filled(t, p) for t, p in zip(tangent, primal, strict=True)]
    if tangent is None and primal is not None:
        return primal.new_zeros(primal.shape)
    return tangent


def conjugate(value: Any) -> Any:
    """Returns the complex conjugate, which of real numbers is the number itself."""
    return value.conj() if value.is_complex() else value


class View(Rule):
    """The tangent of a view is the same view of the tangent, and shares its memory."""

    kind = "linear"

    def __init__(self, op: Operator) -> None:
        """Takes the operator."""
        self.op = op

    def tangents(self, level: Level, result: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tangents:
        """See the base class."""
        tangent = level.tangent_of(args[0])
        if tangent is None:
            return (None,) * (len(result) if isinstance(result, (tuple, list)) else 1)
        found = view_of(self.op, tangent, args, kwargs)
        return tuple(found) if isinstance(found, (tuple, list)) else (found,)


def view_of(op: Operator, tangent: Tensor, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Returns the view of a tangent that a call takes of its tensor; of both the memory is read alike.

    Raises:
        ForwardMissing: the call says where in memory the view's elements are, and the tangent has them elsewhere.
    """
    from tensorplay_core.ops.call import call  # here, for calls stand on this module

    primal, *rest = args
    names = [spec.name for spec in plan_of(op).positional[1:]]
    if _OFFSET in names:
        if not same_layout(tangent, primal):
            raise ForwardMissing(
                f"{op.display_name}: the tensor (shape {primal.shape}, strides {primal.stride()}) has gaps in memory, "
                f"and its tangent (strides {tangent.stride()}) has none" + fix("call it on .contiguous() or a clone().")
            )
        place = names.index(_OFFSET)
        if rest[place] is not None:
            rest[place] += tangent.storage_offset() - primal.storage_offset()
    return call(op, (tangent, *rest), kwargs)


dual.view_of = view_of


class _Through(Node):
    """Stands between an input and the node that is transposed: tells two inputs with one node apart."""

    __slots__ = ()

    def backward(self, grad: Any, graph: bool) -> Gradients:
        """Hands the gradient on."""
        return (grad,)


def _through(tensor: Tensor) -> Tensor:
    """Returns a tensor over the same memory with a node of its own, whether or not the tensor has one."""
    other = wrap(tensor._array, tensor._type)
    node = other._node = _Through()
    node.number = next_number()
    node.edges, node.type, node.shape, node.saved = (tensor._node,), tensor._type, tensor.shape, ()
    return other


class Transposed(Rule):
    """The transpose of what a node class computes; the node is made again, over the inputs that have tangents."""

    kind = "transposed"

    def __init__(self, node: Any) -> None:
        """Takes the node class of a derivative record."""
        self.node = node

    def tangents(self, level: Level, result: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tangents:
        """See the base class."""
        inputs = _Inputs(level, args)
        several = isinstance(result, (tuple, list))
        results = [wrap(r._array, r._type) for r in (result if several else (result,))]
        with enable_grad():
            self.node.record(results if several else results[0], *inputs.args, **kwargs)
        return transposed(results, inputs)


class TransposedKernel(Rule):
    """The transpose of what the node of a registered gradient computes; only its kernel at Autograd can make one."""

    kind = "transposed"
    runs_kernel = True

    def __init__(self, kernel: Callable[..., Any]) -> None:
        """Takes the kernel at Autograd."""
        self.kernel = kernel

    def run(self, level: Level, keys: KeySet, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Tangents]:
        """See the base class."""
        recorded = STATE.get().grad and any(t._node is not None for t in tensors_in(args, kwargs))
        inputs = _Inputs(level, args)
        for tensor, tangent in zip(inputs.given, inputs.known, strict=True):
            level.set(tensor, tangent)
        with enable_grad():
            result = self.kernel(keys, *inputs.args, **kwargs)
        results = list(result) if isinstance(result, (tuple, list)) else [result]
        with suspended():
            tangents = transposed(results, inputs)
        if not recorded:
            for tensor in results:
                if isinstance(tensor, TensorBase):
                    tensor._node = None
        return result, tangents


class _Inputs:
    """The arguments of a call, those that have tangents with a node of their own each.

    Attributes:
        args: the arguments.
        given: the tensors among them that have tangents.
        known: those tangents.
        recorded: whether anything here has a node already, so that the tangents must have one.
    """

    def __init__(self, level: Level, args: tuple[Any, ...]) -> None:
        self.level = level
        self.given: list[Tensor] = []
        self.known: list[Tensor] = []
        self.recorded = False
        self.args = tuple(map(self._given, args))

    def _given(self, value: Any) -> Any:
        if value.__class__ is tuple:
            return tuple(map(self._given, value))
        if not isinstance(value, Tensor):
            return value
        tangent = self.level.tangent_of(value)
        self.recorded = self.recorded or value._node is not None
        if tangent is None:
            return value
        self.recorded = self.recorded or tangent._node is not None
        self.given.append(_through(value))
        self.known.append(tangent)
        return self.given[-1]


def transposed(results: list[Any], inputs: _Inputs) -> Tangents:
    """Returns the tangents of results whose node was made over ``inputs``."""
    nodes = [r._node if isinstance(r, TensorBase) else None for r in results]
    first = next((node for node in nodes if node is not None), None)
    if first is None:
        return (None,) * len(results)
    several = isinstance(first, Output)
    node = first.parent if isinstance(first, Output) else first
    grads, leaves = _cotangents(inputs.level, node, nodes)
    with enable_grad():
        answers = node.backward(grads if several else grads[0], True)
        places = {id(x._node): tangent for x, tangent in zip(inputs.given, inputs.known, strict=True)}
        pairs = [
            (fit(answer, edge), tangent)
            for answer, edge in zip(answers, node.edges, strict=True)
            if answer is not None and edge is not None and (tangent := places.get(id(edge))) is not None
        ]
    pairs = [(answer, tangent) for answer, tangent in pairs if answer._node is not None]
    # What lies below a wrapper may be recorded, and the wrapper does not show it.
    keep = STATE.get().grad and (inputs.recorded or inputs.level.wraps is not None)
    wanted = [leaf for leaf in leaves if leaf is not None]
    found: list[Any] = [None] * len(wanted)
    if pairs:
        found = list(grad([a for a, _ in pairs], wanted, [t for _, t in pairs], create_graph=keep, allow_unused=True))
    with_zeros = [leaf.new_zeros(leaf.shape) if f is None else f for leaf, f in zip(wanted, found, strict=True)]
    tangents = iter(with_zeros)
    return tuple(None if leaf is None else next(tangents) for leaf in leaves)


def _zeros_at(level: Level, type: TensorType, shape: tuple[int, ...]) -> Tensor:
    """Returns zeros that require grad, of the level that the inputs are of."""
    zeros = Tensor.new_zeros(wrap(None, type), shape)
    return (zeros if level.wraps is None else wrap_at(level.wraps, zeros)).requires_grad_()


def _cotangents(level: Level, node: Node, nodes: list[Node | None]) -> tuple[list[Any], list[Any]]:
    """Returns what ``backward`` is given, and the leaves among it: a zero that requires grad for each result.

    The values do not matter, since ``backward`` is linear in them.
    """
    if all(n is node for n in nodes):
        leaf = _zeros_at(level, node.type, node.shape)
        return [leaf], [leaf]
    grads: list[Any] = []
    leaves: list[Any] = []
    for i, (type, shape) in enumerate(zip(node.type, node.shape, strict=True)):
        known = nodes[i] if i < len(nodes) else None
        if known is not None:
            leaves.append(_zeros_at(level, type, shape))
            grads.append(leaves[-1])
            continue
        leaves.append(None)
        zeros = Tensor.new_zeros(wrap(None, type), shape) if type.dtype.is_inexact else wrap(None, type)
        grads.append(None if node.takes_none else zeros)
    return grads, leaves


def keep_results(level: Level, result: Any) -> None:
    """Lets the node of a call find the tangents of its results, which were not known when it saved them."""
    results = tuple(result) if isinstance(result, (tuple, list)) else (result,)
    node = next((r._node for r in results if isinstance(r, TensorBase) and r._node is not None), None)
    if node is not None:
        node = node.parent if isinstance(node, Output) else node
        if _saves_result(node, results):
            tangents = tuple(level.tangent_of(r) if isinstance(r, TensorBase) else None for r in results)
            level.keep_results(node, tangents)


def _saves_result(node: Node, results: tuple[Any, ...]) -> bool:
    """Whether a node may have saved a result of its call; of what hooks have packed nobody can tell."""
    if node.saved.__class__ is not tuple:
        return node.saved is not None
    arrays = [r._array for r in results if isinstance(r, TensorBase)]
    saved = [item for item in node.saved if is_saved(item)]
    return any(item[3][0] in (PACKED, DUAL) for item in saved) or any(
        item[0] is array for item in saved for array in arrays
    )


# which rule


def of(op: Operator, kernel: Callable[..., Any]) -> Rule:
    """Returns the rule of an operator, found at its first call with a tangent.

    Args:
        op: the operator.
        kernel: what serves it at Autograd: a registered gradient, or core's own.

    Raises:
        ForwardMissing: it has no gradient.
    """
    registered = getattr(kernel, "node", None)
    if registered is not None:
        return TransposedKernel(kernel)
    source = op.functional or op
    rule: Rule | None = source.__dict__.get("forward")
    if rule is None:
        if plan_of(source).view:
            rule = source.__dict__["forward"] = View(source)
            return rule
        if source.node is None:
            from tensorplay_core.ops.forward import missing

            raise missing(op, "it has no gradient formula either")
        rule = source.__dict__["forward"] = _generated(source) or Transposed(source.node)
    return rule


def described(op: Operator) -> tuple[str, str] | None:
    """Returns where an operator's tangents come from, and the rule in words; None where it has none of its own.

    Example:
        >>> import tensorplay as tp
        >>> described(tp.ops.tp.exp.default._op)
        ('elementwise', 'result: self_t * result')
    """
    registered = op.kernel_at("Autograd")
    try:
        rule = of(op, registered.function if registered is not None else described)
    except ForwardMissing:
        return None
    if isinstance(rule, Generated):
        lines = [line.strip() for line in (rule.function.__doc__ or "").splitlines()[2:]]
        return rule.kind, " ".join(line for line in lines if line)
    if isinstance(rule, View):
        return rule.kind, f"the same {op.name} of the tangent"
    return rule.kind, "the gradient, differentiated with respect to what it starts from"


def _generated(op: Operator) -> Rule | None:
    """Returns the generated rule: its module lies beside that of the operator's node."""
    name = op.node.__module__.replace(_NODES, _FORWARD)
    if _FORWARD not in name or (name not in sys.modules and find_spec(name) is None):
        return None
    key = f"{op.name}.{op.overload}" if op.overload else op.name
    rules: dict[str, Generated] = import_module(name).RULES
    rule = rules.get(key)
    if rule is not None:
        rule.op = op
    return rule
