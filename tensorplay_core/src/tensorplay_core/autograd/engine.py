"""The backward pass: nodes in the reverse order of their making, each once, without recursion.

A gradient that reaches a node is first made to fit the node's result: summed over the dims that were broadcast, cast to
the dtype, moved to the device. Formulas therefore say only the mathematics. Gradients of leaves are stored when the
whole pass has succeeded, so an exception leaves every ``.grad`` as it was.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any

from tensorplay_core.autograd.fitting import fit
from tensorplay_core.autograd.kept import freed
from tensorplay_core.autograd.modes import enable_grad
from tensorplay_core.autograd.node import (
    MULTIPLE,
    OUTPUT,
    PLAIN,
    RETAINED,
    SAVING,
    WATCHED,
    WATCHED_LEAVES,
    Node,
    Output,
)
from tensorplay_core.autograd.storing import store
from tensorplay_core.dispatch import active
from tensorplay_core.dispatch.context import STATE, Scope
from tensorplay_core.dispatch.tensor_type import Unresolved
from tensorplay_core.errors import ArgumentError, AutogradError, fix
from tensorplay_core.tensor.tensor import Tensor, TensorBase, wrap

if TYPE_CHECKING:
    from tensorplay_core.autograd.hooks import Joint


class Pass:
    """One backward pass.

    Args:
        graph: record the pass itself, so that gradients can be differentiated.
        retain: keep what nodes saved.
        wanted: nodes whose gradients are looked for; None for every leaf.
        stores: whether gradients of leaves go into their ``.grad``; unless told, where no node is looked for.

    Attributes:
        found: the gradients of the leaves that were reached, and of the wanted nodes.
        joint: the gradients that have arrived for hooks on several tensors; None while there are none.
    """

    __slots__ = ("_kept", "_pending", "_stores", "_sums", "_waiting", "_wanted", "found", "graph", "joint", "retain")

    found: dict[Any, Tensor]
    joint: dict[Joint, list[Tensor | None]] | None
    _sums: dict[Any, Tensor]
    """Of the gradients in ``found``, those that are sums which this pass made, so that it may write to them."""
    _kept: list[tuple[TensorBase, Tensor]] | None
    """The tensors with ``retain_grad`` that were passed, and their gradients."""
    _pending: dict[int, list[Any]]
    """Number of a node to [node, the sum of its gradients so far]."""
    _waiting: list[int]
    """The keys of ``_pending`` as a heap: the node that was made last comes first."""

    def __init__(
        self, *, graph: bool, retain: bool, wanted: Sequence[Node] | None = None, stores: bool = False
    ) -> None:
        """See the class."""
        self.graph = graph
        self.retain = retain
        self.found = {}
        self.joint = self._kept = None
        self._wanted = None if wanted is None else set(wanted)
        self._stores = stores or wanted is None
        self._sums = {}
        self._pending = {}
        self._waiting = []

    def add(self, node: Node, grad: Tensor) -> None:
        """Adds a gradient of a node's result."""
        if grad._array.shape != node.shape or grad._type is not node.type:
            grad = fit(grad, node)
        if node.number > 0:
            known = self.found.get(node)
            self.found[node] = grad if known is None else known + grad
        elif (pending := self._pending.get(node.number)) is not None:
            pending[1] = pending[1] + grad
        else:
            self._pending[node.number] = [node, grad]
            heappush(self._waiting, node.number)

    def run(self) -> None:
        """Walks the graph from what was added, then stores what it has found.

        Nothing is stored before every node and every hook has succeeded. Autocast is off meanwhile: formulas compute in
        the dtypes that the forward pass has chosen.
        """
        if active.special and STATE.get().autocast:
            with Scope(autocast=None):
                self.run()
            return
        if RETAINED:
            _hooks().settle()
        captures, needed = {}, None
        if self._wanted is not None:
            captures = _captures(self._wanted)
            ends = {*captures, *(node for node in self._wanted if node.number > 0)}
            needed = _leading_to(ends, [node for node, _ in self._pending.values()])
        if self.graph:
            with enable_grad():
                self._walk(captures, needed)
        else:  # saved tensors come back without their nodes, so nothing can be recorded: no scope is needed
            self._walk(captures, needed)
        watched = [node for node in self.found if node.number > 0 and node.kind > WATCHED] if WATCHED_LEAVES else ()
        if watched or self.joint:
            self._call_hooks(watched)
        if self._stores:
            sums, graph = self._sums, self.graph
            for node, grad in self.found.items():
                if node.number > 0 and (variable := node.variable()) is not None:
                    store(variable, grad, graph, node in sums)
        if self._kept is not None:
            for variable, grad in self._kept:
                store(variable, grad, self.graph)
        if self._stores:
            for node in watched:
                _hooks().after_storing(node, self.found[node], self.graph)

    def _call_hooks(self, leaves: Sequence[Node]) -> None:
        """Runs the hooks on leaves, whose gradients become their own, and those that wait for all gradients."""
        hooks, found = _hooks(), self.found
        for leaf in leaves:
            grad = found[leaf]
            if not self.graph and self._sums.pop(leaf, None) is None:
                grad = wrap(grad._type.api.copy(grad._array), grad._type)
            grad = hooks.arrive(leaf, grad, self)
            found[leaf] = hooks.before_storing(leaf, grad, self.graph) if self._stores else grad
        for joint, grads in (self.joint or {}).items():
            joint.finish(grads, self.graph)

    def _arrive(self, node: Node, grad: Any) -> Any:
        """Returns the gradient of a watched node's result after the hooks on it."""
        if node.several:
            return grad
        hooks = _hooks()
        grad = hooks.arrive(node, grad, self)
        if (tensor := hooks.retained(node)) is not None:
            self._kept = self._kept or []
            self._kept.append((tensor, grad))
        return grad

    def _walk(self, captures: dict[Node, list[tuple[Node, int | None]]], needed: set[Node] | None) -> None:
        """Runs every node that has a gradient, in order.

        One loop with :meth:`add` inlined, because a graph of small tensors spends its time here. ``after`` is the node
        that comes next along a chain: while nothing else waits it does not pass through the heap.
        """
        waiting, pending, found, graph, retain = self._waiting, self._pending, self.found, self.graph, self.retain
        sums = self._sums
        apply = active.checking or active.applying
        selective = bool(captures) or needed is not None
        node: Node | None = None
        after_grad: Any = None
        try:
            while waiting:
                node, grad = pending.pop(heappop(waiting))
                while node is not None:
                    kind = node.kind
                    if selective or kind > SAVING:
                        if kind >= WATCHED:
                            grad = self._arrive(node, grad)
                            kind -= WATCHED
                        if selective:
                            for key, i in captures.get(node, ()):
                                if (value := grad if i is None else grad[i]) is not None:
                                    found[key] = value
                            if needed is not None and not any(edge in needed for edge in node.edges):
                                break  # nothing below it is wanted
                        if kind == OUTPUT:
                            self._hand_over(node, grad)
                            break
                        if kind >= MULTIPLE:
                            if not node.takes_none:
                                grad = [self._zeros(node, i) if g is None else g for i, g in enumerate(grad)]
                            kind = SAVING if kind == MULTIPLE else PLAIN  # as one with a single result from here on
                    grads = node.backward(grad, graph) if apply is None else apply(node, grad, graph)
                    pointwise = node.pointwise
                    after = None
                    i = -1
                    for edge in node.edges:
                        i += 1  # not zip, which is slower for one or two edges
                        if edge is None:
                            continue
                        g = grads[i]
                        if g is None or (selective and needed is not None and edge not in needed):
                            continue
                        # Asking an array for its shape makes a tuple each time; where it is known, it is not asked.
                        shape = node.shape if pointwise or g is grad else g._array.shape
                        if shape != edge.shape or g._type is not edge.type:
                            g = fit(g, edge)
                        number = edge.number
                        if number > 0:  # a leaf
                            if (total := sums.get(edge)) is not None:
                                try:  # as _add_to does
                                    if active.special:
                                        raise Unresolved
                                    edge.type.k_add_(total._array, g._array)
                                except Unresolved:
                                    total.add_(g)
                            elif (known := found.get(edge)) is None:
                                found[edge] = g
                            else:
                                found[edge] = total = known + g
                                if not graph and edge.type.mutable:
                                    sums[edge] = total
                        elif after is None and not waiting:
                            after, after_grad = edge, g
                        elif edge is after:
                            after_grad = after_grad + g
                        elif (entry := pending.get(number)) is not None:
                            entry[1] = entry[1] + g
                        else:
                            pending[number] = [edge, g]
                            heappush(waiting, number)
                    if kind and not retain:
                        node.saved = None
                    node, grad = after, after_grad
                    if node is not None and waiting:
                        pending[node.number] = [node, grad]
                        heappush(waiting, node.number)
                        break
        except TypeError:
            if node is not None and node.saved is None:  # what a freed node's formula raises when it unpacks
                raise freed(node) from None
            raise

    def _hand_over(self, node: Node, grad: Tensor) -> None:
        """Gives the gradient of one result of several to the operator's node."""
        parent = node.edges[0]
        assert parent is not None and isinstance(node, Output)
        pending = self._pending.get(parent.number)
        if pending is None:
            pending = self._pending[parent.number] = [parent, [None] * len(parent.shape)]
            heappush(self._waiting, parent.number)
        known = pending[1][node.index]  # of the same result unpacked from what its node saved
        pending[1][node.index] = grad if known is None else known + grad

    def _zeros(self, node: Node, index: int) -> Tensor | None:
        type, shape = node.type[index], node.shape[index]
        return Tensor.new_zeros(wrap(None, type), shape) if type.dtype.is_inexact else None


def _hooks() -> Any:
    from tensorplay_core.autograd import hooks  # here, because few programs need them

    return hooks


def _captures(wanted: set[Node]) -> dict[Node, list[tuple[Node, int | None]]]:
    """Returns the nodes at which the gradients of wanted nodes are seen, and which of the node's gradients it is.

    Several nodes can stand for one result of an operator with several, so it is seen where their gradients meet.
    """
    found: dict[Node, list[tuple[Node, int | None]]] = {}
    for node in wanted:
        if isinstance(node, Output):
            found.setdefault(node.parent, []).append((node, node.index))
        elif node.number < 0:
            found.setdefault(node, []).append((node, None))
    return found


def _leading_to(wanted: set[Node], roots: list[Node]) -> set[Node] | None:
    """Returns the nodes that lead from the roots to a wanted one, those included; None when every node does."""
    reachable, stack, every_leaf = set(roots), list(roots), True
    while stack:
        node = stack.pop()
        if not node.edges and node not in wanted:
            every_leaf = False
        for edge in node.edges:
            if edge is not None and edge not in reachable:
                reachable.add(edge)
                stack.append(edge)
    if every_leaf:
        return None
    leads = set()
    for node in sorted(reachable, key=lambda n: -n.number):  # inputs before what was computed from them
        if node in wanted or any(edge in leads for edge in node.edges):
            leads.add(node)
    return leads


def _without_node(gradient: Tensor) -> Tensor:
    detached = gradient.detach()
    if active.levels:
        from tensorplay_core.tensor.dual import carry

        carry(gradient, detached)
    return detached


def root_gradient(root: Tensor, gradient: Tensor | None, graph: bool) -> Tensor:
    """Returns the gradient that a backward pass starts with at a root.

    Raises:
        AutogradError: none was given for a root that is not a scalar, or it does not fit the root.
    """
    if gradient is None:
        if root.numel() != 1:
            raise AutogradError(
                f"a gradient is implied only for a tensor of one element; this one has shape {root.shape}"
                + fix("reduce it, e.g. with .sum(), or pass the gradient.")
            )
        if root.is_complex():
            raise AutogradError(
                f"a gradient is implied only for a real tensor; this one is {root.dtype.name}"
                + fix("take .real() or .abs() of it, or pass the gradient.")
            )
        return root.new_ones(root.shape)
    alike = gradient.__class__ is Tensor and gradient._type is root._type
    if not graph and alike and gradient._array.shape == root._array.shape:
        return gradient if gradient._node is None else _without_node(gradient)
    if not isinstance(gradient, Tensor):
        raise ArgumentError(
            f"a gradient is a Tensor or None, not {type(gradient).__name__}"
            + fix("make one of it with tp.tensor(...).")
        )
    if gradient.shape != root.shape:
        raise AutogradError(
            f"the gradient has shape {gradient.shape}, its tensor {root.shape}: they must be the same"
            + fix(f"bring it to that shape, e.g. with .expand({root.shape}).")
        )
    if gradient.device != root.device:
        raise AutogradError(
            f"the gradient is on {gradient.device}, its tensor on {root.device}"
            + fix(f"move it with .to({str(root.device)!r}).")
        )
    if gradient.is_complex() and not root.is_complex():
        raise AutogradError(
            f"the gradient is {gradient.dtype.name}, its tensor real ({root.dtype.name})" + fix("take its .real().")
        )
    return gradient if graph else _without_node(gradient)
