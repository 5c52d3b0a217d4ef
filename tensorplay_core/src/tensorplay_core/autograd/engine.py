"""The backward pass: nodes in the reverse order of their making, each once, without recursion.

A gradient that reaches a node is first made to fit the node's result: summed over the dims that were broadcast, cast to
the dtype, moved to the device. Formulas therefore say only the mathematics. Gradients of leaves are stored when the whole
pass has succeeded, so an exception leaves every ``.grad`` as it was.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush
from typing import Any

from tensorplay_core.autograd.modes import enable_grad, no_grad
from tensorplay_core.autograd.node import AccumulateGrad, Node, Output
from tensorplay_core.errors import AutogradError, fix
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
    """

    def __init__(self, *, graph: bool, retain: bool, wanted: Sequence[Node] | None = None) -> None:
        """See the class."""
        self.graph = graph
        self.retain = retain
        self.found: dict[Node, Tensor] = {}
        self._wanted = None if wanted is None else set(wanted)
        self._heap: list[int] = []
        self._nodes: dict[int, Node] = {}
        self._grads: dict[int, Any] = {}
        self._leaves: list[tuple[AccumulateGrad, Tensor]] = []

    def add(self, node: Node, grad: Tensor) -> None:
        """Adds a gradient of a node's result."""
        if grad.shape != node.shape or grad._type is not node.type:
            grad = fit(grad, node)
        number = node.number
        known = self._grads.get(number)
        if known is not None:
            self._grads[number] = known + grad
        else:
            self._grads[number] = grad
            self._nodes[number] = node
            heappush(self._heap, -number)

    def run(self) -> None:
        """Walks the graph from what was added."""
        needed = None if self._wanted is None else _leading_to(self._wanted, list(self._nodes.values()))
        with enable_grad() if self.graph else no_grad():
            while self._heap:
                number = -heappop(self._heap)
                node, grad = self._nodes.pop(number), self._grads.pop(number)
                if self._wanted is not None and node in self._wanted:
                    self.found[node] = grad
                if needed is not None and node not in needed:
                    continue
                if node.is_leaf:
                    if self._wanted is None:
                        self._leaves.append((node, grad))  # type: ignore[arg-type]
                elif node.__class__ is Output:
                    self._hand_over(node, grad)
                else:
                    self._step(node, grad, needed)
        for leaf, grad in self._leaves:
            accumulate(leaf, grad, self.graph)

    def _step(self, node: Node, grad: Any, needed: set[Node] | None) -> None:
        if node.saved is None:
            raise AutogradError(
                f"{node.name} has been walked by an earlier backward pass, which freed what it had saved"
                + fix("pass retain_graph=True to the first backward, or compute the loss again.")
            )
        if isinstance(node.shape, tuple) and grad.__class__ is list:
            grad = [self._zeros(node, i) if g is None else g for i, g in enumerate(grad)]
        grads = node.backward(grad, self.graph)
        if not self.retain and node.holds_tensors:
            node.saved = None
        for edge, g in zip(node.edges, grads, strict=True):
            if edge is not None and g is not None and (needed is None or edge in needed):
                self.add(edge, g)

    def _hand_over(self, node: Node, grad: Tensor) -> None:
        parent = node.edges[0]
        assert parent is not None and isinstance(node, Output)
        grads = self._grads.get(parent.number)
        if grads is None:
            grads = self._grads[parent.number] = [None] * len(parent.shape)
            self._nodes[parent.number] = parent
            heappush(self._heap, -parent.number)
        grads[node.index] = grad

    def _zeros(self, node: Node, index: int) -> Tensor:
        type, shape = node.type[index], node.shape[index]
        return Tensor.new_zeros(wrap(None, type), shape) if type.dtype.is_inexact else wrap(None, type)


def _leading_to(wanted: set[Node], roots: list[Node]) -> set[Node]:
    """Returns the nodes reachable from the roots that lead to a wanted one, the wanted ones included."""
    leads: dict[Node, bool] = {}
    stack = list(roots)
    while stack:
        node = stack[-1]
        if node in leads:
            stack.pop()
            continue
        waiting = [e for e in node.edges if e is not None and e not in leads]
        if waiting:
            stack.extend(waiting)
            continue
        leads[node] = node in wanted or any(e is not None and leads[e] for e in node.edges)
        stack.pop()
    return {node for node, does in leads.items() if does}


def accumulate(leaf: AccumulateGrad, grad: Tensor, graph: bool) -> None:
    """Adds a gradient to a leaf's ``.grad``; what is stored is the leaf's own, never an alias."""
    variable = leaf.variable()
    if variable is None:
        return
    old = getattr(variable, "_grad", None)
    if old is None:
        variable._grad = grad.clone() if graph else wrap(grad._type.api.copy(grad._array), grad._type)
    elif graph or old._node is not None or old._type.inference:
        with enable_grad() if graph else no_grad():
            variable._grad = old + grad
    else:
        with no_grad():
            old.add_(grad)


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
    if not isinstance(gradient, Tensor):
        raise AutogradError(f"a gradient is a Tensor or None, not {type(gradient).__name__}")
    if gradient.shape != root.shape:
        raise AutogradError(f"the gradient has shape {gradient.shape}, its tensor {root.shape}: they must be the same")
    if gradient.device != root.device:
        raise AutogradError(f"the gradient is on {gradient.device}, its tensor on {root.device}")
    if gradient.is_complex() and not root.is_complex():
        raise AutogradError(f"the gradient is {gradient.dtype.name}, its tensor real ({root.dtype.name})")
    return gradient if graph else gradient.detach()
