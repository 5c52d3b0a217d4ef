"""The backward pass: nodes in the reverse order of their making, each once, without recursion.

A gradient that reaches a node is first made to fit the node's result: summed over the dims that were broadcast, cast to
the dtype, moved to the device. Formulas therefore say only the mathematics. Gradients of leaves are stored when the
whole pass has succeeded, so an exception leaves every ``.grad`` as it was.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from heapq import heappop, heappush
from typing import Any

from tensorplay_core.autograd.modes import enable_grad, no_grad
from tensorplay_core.autograd.node import LEAF, OUTPUT, SAVING, AccumulateGrad, Node, Output
from tensorplay_core.dispatch import active
from tensorplay_core.dispatch.tensor_type import Unresolved
from tensorplay_core.errors import AutogradError, ShapeError, fix
from tensorplay_core.tensor.tensor import Tensor, wrap


def fit(grad: Tensor, node: Node) -> Tensor:
    """Returns a gradient in the shape, dtype and device of a node's result.

    Raises:
        AutogradError: the shape cannot be what the node's result was broadcast to.
    """
    if grad.shape != node.shape:
        grad = sum_to_shape(grad, node.shape)
    if grad._type is not node.type:
        if grad.is_complex() and not node.type.dtype.is_complex:
            grad = grad.real()
        if grad._type.dtype is not node.type.dtype or grad.device != node.type.device:
            grad = grad.to(dtype=node.type.dtype, device=node.type.device)
    return grad


def sum_to_shape(grad: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Sums a tensor over the dims in which ``shape`` was broadcast to it.

    Example:
        >>> import tensorplay as tp
        >>> sum_to_shape(tp.ones(2, 3), (3,))
        tensor([2., 2., 2.])
    """
    extra = grad.ndim - len(shape)
    dims = [*range(extra), *(i + extra for i, n in enumerate(shape) if n == 1 and grad.shape[i + extra] != 1)]
    if extra < 0 or any(n != 1 and n != grad.shape[i + extra] for i, n in enumerate(shape)):
        raise AutogradError(f"a gradient of shape {grad.shape} reached a tensor of shape {shape}")
    return grad.sum(dims, keepdim=True).reshape(shape) if dims else grad.reshape(shape)


class Pass:
    """One backward pass.

    Args:
        graph: record the pass itself, so that gradients can be differentiated.
        retain: keep what nodes saved.
        wanted: nodes whose gradients to return; None to store gradients in leaves.

    Attributes:
        found: the gradients of the leaves that were reached, and of the wanted nodes.
    """

    __slots__ = ("_pending", "_sums", "_waiting", "_wanted", "found", "graph", "retain")

    found: dict[Any, Tensor]
    _sums: dict[Any, Tensor]
    """Of the gradients in ``found``, those that are sums which this pass made, so that it may write to them."""
    _pending: dict[int, list[Any]]
    """Number of a node to [node, the sum of its gradients so far]."""
    _waiting: list[int]
    """The keys of ``_pending`` as a heap: the node that was made last comes first."""

    def __init__(self, *, graph: bool, retain: bool, wanted: Sequence[Node] | None = None) -> None:
        """See the class."""
        self.graph = graph
        self.retain = retain
        self.found = {}
        self._wanted = None if wanted is None else set(wanted)
        self._sums = {}
        self._pending = {}
        self._waiting = []

    def add(self, node: Node, grad: Tensor) -> None:
        """Adds a gradient of a node's result."""
        if grad._array.shape != node.shape or grad._type is not node.type:
            grad = fit(grad, node)
        if node.kind == LEAF:
            known = self.found.get(node)
            self.found[node] = grad if known is None else known + grad
        elif (pending := self._pending.get(node.number)) is not None:
            pending[1] = pending[1] + grad
        else:
            self._pending[node.number] = [node, grad]
            heappush(self._waiting, node.number)

    def run(self) -> None:
        """Walks the graph from what was added."""
        needed = None
        if self._wanted is not None:
            needed = _leading_to(self._wanted, [node for node, _ in self._pending.values()])
        if self.graph:
            with enable_grad():
                self._walk(needed)
        else:  # saved tensors come back without their nodes, so nothing can be recorded: no scope is needed
            self._walk(needed)
        if self._wanted is None:
            for leaf, grad in self.found.items():
                accumulate(leaf, grad, self.graph, owned=leaf in self._sums)

    def _walk(self, needed: set[Node] | None) -> None:
        """Runs every node that has a gradient, in order.

        One loop with :meth:`add` inlined, because a graph of small tensors spends its time here. ``after`` is the node
        that comes next along a chain: while nothing else waits it does not pass through the heap.
        """
        waiting, pending, found, graph, retain = self._waiting, self._pending, self.found, self.graph, self.retain
        sums = self._sums
        apply = active.applying
        inner = () if self._wanted is None else {node for node in self._wanted if node.kind != LEAF}
        selective = bool(inner) or needed is not None
        node: Node | None = None
        after_grad: Any = None
        try:
            while waiting:
                node, grad = pending.pop(heappop(waiting))
                while node is not None:
                    if selective:
                        if node in inner:
                            found[node] = grad
                        if needed is not None and not any(edge in needed for edge in node.edges):
                            break  # nothing below it is wanted
                    kind = node.kind
                    if kind > SAVING:
                        if kind == OUTPUT:
                            self._hand_over(node, grad)
                            break
                        if not node.takes_none:
                            grad = [self._zeros(node, i) if g is None else g for i, g in enumerate(grad)]
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
        pending[1][node.index] = grad

    def _zeros(self, node: Node, index: int) -> Tensor:
        type, shape = node.type[index], node.shape[index]
        return Tensor.new_zeros(wrap(None, type), shape) if type.dtype.is_inexact else wrap(None, type)


def freed(node: Node) -> AutogradError:
    """Returns the error for a node that an earlier pass has walked."""
    return AutogradError(
        f"{node.name} has been walked by an earlier backward pass, which freed what it had saved"
        + fix("pass retain_graph=True to the first backward, or compute the loss again.")
    )


def _add_to(total: Tensor, grad: Tensor) -> None:
    """Adds to a sum that a pass owns, of the same type and shape: by the kernel itself, unless somebody watches."""
    try:
        if active.special:
            raise Unresolved
        total._type.k_add_(total._array, grad._array)
    except Unresolved:
        total.add_(grad)


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


_storing = threading.RLock()
"""Held while a leaf's ``.grad`` is read and written: several threads may back up into one leaf."""


def accumulate(leaf: AccumulateGrad, grad: Tensor, graph: bool, owned: bool = False) -> None:
    """Adds a gradient to a leaf's ``.grad``; what is stored is the leaf's own, never an alias.

    Args:
        leaf: the leaf's node.
        grad: the gradient.
        graph: whether the sum must be differentiable.
        owned: whether nobody else has the gradient, so that it need not be copied.
    """
    variable = leaf.variable()
    if variable is None:
        return
    with _storing:
        old = getattr(variable, "_grad", None)
        if graph:
            with enable_grad():
                variable._grad = grad.clone() if old is None else old + grad
        elif old is None:
            variable._grad = grad if owned else wrap(grad._type.api.copy(grad._array), grad._type)
        elif not old._type.mutable:
            with no_grad():
                variable._grad = old + grad
        elif old._version is None and old._type is grad._type and old._node is None:
            _add_to(old, grad)  # nobody has saved or viewed it, so no version must be counted
        elif old._node is None and not old._type.inference:
            try:
                old.add_(grad)
            except ShapeError:  # somebody stored an expanded tensor, whose memory cannot be written to
                variable._grad = old + grad
        else:
            with no_grad():
                variable._grad = old + grad


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
        return root.new_ones(root.shape)
    if not graph and gradient.__class__ is Tensor and gradient._type is root._type and gradient.shape == root.shape:
        return gradient if gradient._node is None else gradient.detach()
    if not isinstance(gradient, Tensor):
        raise AutogradError(f"a gradient is a Tensor or None, not {type(gradient).__name__}")
    if gradient.shape != root.shape:
        raise AutogradError(f"the gradient has shape {gradient.shape}, its tensor {root.shape}: they must be the same")
    if gradient.device != root.device:
        raise AutogradError(f"the gradient is on {gradient.device}, its tensor on {root.device}")
    if gradient.is_complex() and not root.is_complex():
        raise AutogradError(f"the gradient is {gradient.dtype.name}, its tensor real ({root.dtype.name})")
    return gradient if graph else gradient.detach()
