"""``tp.autograd.backward`` and ``tp.autograd.grad``: what starts a backward pass."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, overload

from tensorplay_core.autograd.engine import Pass, accumulate, root_gradient
from tensorplay_core.autograd.node import Node
from tensorplay_core.errors import ArgumentError, AutogradError, fix
from tensorplay_core.tensor.tensor import Tensor, TensorBase

Tensors = Tensor | Sequence[Tensor]


def _as_tuple(value: Any, what: str) -> tuple[Any, ...]:
    if isinstance(value, TensorBase) or not hasattr(value, "__iter__"):
        value = (value,)
    values = tuple(value)
    for v in values:
        if v is not None and not isinstance(v, TensorBase):
            raise ArgumentError(f"{what} are tensors, not {type(v).__name__}")
    return values


def _start(roots: tuple[Tensor, ...], gradients: tuple[Tensor | None, ...], running: Pass) -> None:
    if len(roots) != len(gradients):
        raise ArgumentError(f"{len(roots)} tensors and {len(gradients)} gradients: there must be one for each")
    if not roots:
        raise ArgumentError("a backward pass needs at least one tensor to start from")
    for root, gradient in zip(roots, gradients, strict=True):
        if root._node is None:
            raise AutogradError(
                "the tensor does not require grad and was not computed from one that does"
                + fix("make an input with requires_grad=True, and compute outside no_grad.")
            )
        running.add(root._node, root_gradient(root, gradient, running.graph))
    running.run()


def _nodes_of(inputs: tuple[Tensor, ...]) -> list[Node]:
    nodes = []
    for i, x in enumerate(inputs):
        if x._node is None:
            raise AutogradError(
                f"input {i} (shape {x.shape}) does not require grad" + fix("call requires_grad_() on it first.")
            )
        nodes.append(x._node)
    return nodes


def backward(
    tensors: Tensors,
    grad_tensors: Tensors | Sequence[Tensor | None] | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Tensors | None = None,
) -> None:
    """Adds the gradients of ``tensors`` with respect to the graph's leaves to their ``.grad``.

    Args:
        tensors: what to differentiate.
        grad_tensors: the gradient with respect to each, of the same shape; may be left out for one-element tensors.
        retain_graph: keep what the graph has saved, so that it can be walked again; default ``create_graph``.
        create_graph: record the pass, so that the gradients can be differentiated.
        inputs: accumulate into these leaves only.

    Raises:
        AutogradError: a tensor has no graph, a gradient does not fit, the graph was freed, or a saved tensor was
            modified in place. Every ``.grad`` is then as it was.
    """
    roots = _as_tuple(tensors, "tensors")
    gradients = (None,) * len(roots) if grad_tensors is None else _as_tuple(grad_tensors, "gradients")
    retain = create_graph if retain_graph is None else retain_graph
    if inputs is None:
        _start(roots, gradients, Pass(graph=create_graph, retain=retain))
        return
    leaves = _as_tuple(inputs, "inputs")
    if not leaves:
        raise ArgumentError("inputs is empty: name at least one tensor, or leave it out")
    nodes = _nodes_of(leaves)
    if not all(node.is_leaf for node in nodes):
        raise AutogradError("inputs must be leaves: a tensor that was computed keeps no gradient")
    running = Pass(graph=create_graph, retain=retain, wanted=nodes)
    _start(roots, gradients, running)
    for leaf in dict.fromkeys(nodes):
        if leaf in running.found:
            accumulate(leaf, running.found[leaf], create_graph)  # type: ignore[arg-type]  # a leaf, as checked above


@overload
def grad(
    outputs: Tensors,
    inputs: Tensors,
    grad_outputs: Tensors | Sequence[Tensor | None] | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    allow_unused: Literal[False] | None = None,
    materialize_grads: bool = False,
) -> tuple[Tensor, ...]: ...
@overload
def grad(
    outputs: Tensors,
    inputs: Tensors,
    grad_outputs: Tensors | Sequence[Tensor | None] | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    allow_unused: bool | None = None,
    materialize_grads: bool = False,
) -> tuple[Tensor | None, ...]: ...
def grad(
    outputs: Tensors,
    inputs: Tensors,
    grad_outputs: Tensors | Sequence[Tensor | None] | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    allow_unused: bool | None = None,
    materialize_grads: bool = False,
) -> tuple[Any, ...]:
    """Returns the gradients of ``outputs`` with respect to ``inputs``, leaving every ``.grad`` alone.

    Args:
        outputs: what to differentiate.
        inputs: with respect to what; leaves or computed tensors.
        grad_outputs: the gradient with respect to each output; may be left out for one-element outputs.
        retain_graph: keep what the graph has saved; default ``create_graph``.
        create_graph: record the pass, so that the gradients can be differentiated.
        allow_unused: return None for an input that the outputs do not depend on, rather than raise.
        materialize_grads: return zeros for such an input.

    Returns:
        One gradient per input, each of its input's shape and dtype.

    Example:
        >>> import tensorplay as tp
        >>> x = tp.tensor(3.0, requires_grad=True)
        >>> tp.autograd.grad(x * x, x)
        (tensor(6.),)
    """
    roots, wanted = _as_tuple(outputs, "outputs"), _as_tuple(inputs, "inputs")
    if materialize_grads and allow_unused is False:
        raise ArgumentError("materialize_grads=True allows unused inputs; allow_unused=False contradicts it")
    gradients = (None,) * len(roots) if grad_outputs is None else _as_tuple(grad_outputs, "grad_outputs")
    nodes = _nodes_of(wanted)
    running = Pass(graph=create_graph, retain=create_graph if retain_graph is None else retain_graph, wanted=nodes)
    _start(roots, gradients, running)
    results: list[Tensor | None] = []
    for i, (x, node) in enumerate(zip(wanted, nodes, strict=True)):
        found = running.found.get(node)
        if found is None and materialize_grads:
            found = x.new_zeros(x.shape)
        if found is None and not allow_unused:
            raise AutogradError(
                f"input {i} (shape {x.shape}) was not used to compute the outputs"
                + fix("pass allow_unused=True for None, or materialize_grads=True for zeros.")
            )
        results.append(found)
    return tuple(results)
