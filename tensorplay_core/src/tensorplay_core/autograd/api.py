"""``tp.autograd.backward`` and ``tp.autograd.grad``: what starts a backward pass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, overload

from tensorplay_core.autograd.engine import Pass, root_gradient
from tensorplay_core.autograd.node import GradientEdge, Node
from tensorplay_core.dispatch.registry import REGISTRY
from tensorplay_core.errors import ArgumentError, AutogradError, ValueRangeError, fix
from tensorplay_core.tensor.overrides import overridable
from tensorplay_core.tensor.tensor import Tensor, TensorBase, wrap

Tensors = Tensor | GradientEdge | Sequence[Tensor | GradientEdge]


def _as_tuple(value: Any, what: str) -> tuple[Any, ...]:
    if isinstance(value, (TensorBase, GradientEdge)) or not hasattr(value, "__iter__"):
        value = (value,)
    values = tuple([_stand_in(v) if isinstance(v, GradientEdge) else v for v in value])
    for v in values:
        if v is not None and not isinstance(v, TensorBase):
            raise ArgumentError(
                f"{what} are tensors, not {type(v).__name__}" + fix("pass a tensor, or a sequence of tensors.")
            )
    return values


def _stand_in(edge: GradientEdge) -> Tensor:
    """Returns a tensor that stands for a place in the graph, of its shape and dtype and without memory."""
    node = edge.where()
    tensor = Tensor.new_zeros(wrap(None, node.type), ()).expand(node.shape)
    tensor._node = node
    return tensor


def _start(roots: tuple[Tensor, ...], gradients: tuple[Tensor | None, ...], running: Pass) -> None:
    if len(roots) != len(gradients):
        raise ArgumentError(
            f"{len(roots)} tensors and {len(gradients)} gradients: there must be one for each"
            + fix("pass a gradient for each tensor, None where one is implied.")
        )
    if not roots:
        raise AutogradError("a backward pass needs at least one tensor to start from")
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


@overridable
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
        inputs: accumulate into these only: leaves, or computed tensors, which then retain their gradient.

    Raises:
        AutogradError: a tensor has no graph, a gradient does not fit, the graph was freed, or a saved tensor was
            modified in place. Every ``.grad`` is then as it was.

    Example:
        >>> import tensorplay as tp
        >>> x = tp.tensor([1.0, 2.0], requires_grad=True)
        >>> tp.autograd.backward([(x * x).sum(), x.sum()])
        >>> x.grad
        tensor([3., 5.])
    """
    roots = _as_tuple(tensors, "tensors")
    gradients = (None,) * len(roots) if grad_tensors is None else _as_tuple(grad_tensors, "gradients")
    retain = create_graph if retain_graph is None else retain_graph
    if inputs is None:
        _start(roots, gradients, Pass(graph=create_graph, retain=retain))
        return
    wanted = _as_tuple(inputs, "inputs")
    if not wanted:
        raise AutogradError("backward: inputs is empty" + fix("name at least one tensor, or leave it out."))
    nodes = _nodes_of(wanted)
    for x in wanted:
        x.retain_grad()
    _start(roots, gradients, Pass(graph=create_graph, retain=retain, wanted=nodes, stores=True))


@overload
def grad(
    outputs: Tensors,
    inputs: Tensors,
    grad_outputs: Tensors | Sequence[Tensor | None] | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    allow_unused: Literal[False] | None = None,
    is_grads_batched: bool = False,
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
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple[Tensor | None, ...]: ...
@overload
def grad(
    outputs: Tensors,
    inputs: Mapping[str, Tensor],
    grad_outputs: Tensors | Sequence[Tensor | None] | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> dict[str, Tensor | None]: ...
@overridable
def grad(
    outputs: Tensors,
    inputs: Tensors | Mapping[str, Tensor],
    grad_outputs: Tensors | Sequence[Tensor | None] | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple[Any, ...] | dict[str, Any]:
    """Returns the gradients of ``outputs`` with respect to ``inputs``, leaving every ``.grad`` alone.

    Args:
        outputs: what to differentiate.
        inputs: with respect to what; leaves or computed tensors, also by name in a dict.
        grad_outputs: the gradient with respect to each output; may be left out for one-element outputs.
        retain_graph: keep what the graph has saved; default ``create_graph``.
        create_graph: record the pass, so that the gradients can be differentiated.
        allow_unused: return None for an input that the outputs do not depend on, rather than raise.
        is_grads_batched: each of ``grad_outputs`` is a batch of gradients along its first dim, and so is each result;
            the graph is walked once for each.
        materialize_grads: return zeros for such an input.

    Returns:
        One gradient per input, each of its input's shape and dtype; a dict where ``inputs`` is one.

    Raises:
        AutogradError: an output has no graph, an input needs no gradient or was not used, a gradient does not fit, the
            graph was freed, or a saved tensor was modified in place.
        ValueRangeError: ``materialize_grads`` and ``allow_unused=False``.

    Example:
        >>> import tensorplay as tp
        >>> x = tp.tensor(3.0, requires_grad=True)
        >>> tp.autograd.grad(x * x, x)
        (tensor(6.),)
    """
    if isinstance(inputs, Mapping):
        every = (grad_outputs, retain_graph, create_graph, allow_unused, is_grads_batched, materialize_grads)
        named = grad(outputs, tuple(inputs.values()), *every)
        return dict(zip(inputs, named, strict=True))
    roots, wanted = _as_tuple(outputs, "outputs"), _as_tuple(inputs, "inputs")
    if materialize_grads and allow_unused is False:
        raise ValueRangeError(
            "grad: materialize_grads=True allows unused inputs; allow_unused=False contradicts it"
            + fix("leave allow_unused out.")
        )
    if not wanted:
        raise AutogradError("grad: inputs is empty" + fix("name at least one tensor to differentiate by."))
    gradients = (None,) * len(roots) if grad_outputs is None else _as_tuple(grad_outputs, "grad_outputs")
    if is_grads_batched:
        retain = create_graph if retain_graph is None else retain_graph
        return _batched(roots, wanted, gradients, retain, create_graph, allow_unused, materialize_grads)
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


def _batched(
    roots: tuple[Tensor, ...],
    wanted: tuple[Tensor, ...],
    gradients: tuple[Tensor | None, ...],
    retain: bool,
    *options: Any,
) -> tuple[Any, ...]:
    """Returns the gradients for a batch of gradients, each stacked along a new first dim."""
    sizes = {g.shape[:1] if g is not None else () for g in gradients}
    if len(sizes) != 1 or sizes in ({()}, {(0,)}):
        shapes = ", ".join("None" if g is None else str(g.shape) for g in gradients)
        raise ArgumentError(
            f"is_grads_batched=True takes gradients with a batch along their first dim, all of one size: {shapes}"
            + fix("pass grad_outputs of shape (batch, *output.shape) for every output.")
        )
    (count,) = sizes.pop()
    graph, unused, zeros = options
    parts = []
    for i in range(count):
        one = [g[i] for g in gradients if g is not None]
        parts.append(grad(roots, wanted, one, retain or i + 1 < count, graph, unused, False, zeros))
    stack: Any = REGISTRY.operators["tp::stack"].function
    return tuple(None if column[0] is None else stack(column, 0) for column in zip(*parts, strict=True))
