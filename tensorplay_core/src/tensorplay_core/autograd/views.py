"""What a recorded write to a view means for the graph, and which recorded writes are refused.

After ``v = x[0]; v.mul_(w)`` the value of ``x`` depends on ``w``. Its new node, :class:`CopySlices` as in PyTorch,
gives the gradient of the part that was written to the node of the write, and the rest to the node that ``x`` had.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tensorplay_core.autograd.node import Gradients, Node, next_number
from tensorplay_core.dispatch import active
from tensorplay_core.errors import AutogradError, fix
from tensorplay_core.tensor.views import mark_stale, path_of, refusal, restriction, root_of

if TYPE_CHECKING:
    from tensorplay_core.tensor.tensor import Tensor, TensorBase

Steps = tuple[tuple[Any, tuple[Any, ...], Mapping[str, Any]], ...]


class CopySlices(Node):
    """The node of a tensor after a recorded write to a view of it: its edges are the node before, and the write's.

    It saves how the view is taken, step by step, and the order of the tensor's dims in memory where that is not C's.
    """

    __slots__ = ()

    def backward(self, grad: Any, graph: bool) -> Gradients:
        """Returns the gradient outside of the view, and that inside."""
        steps, order = self.saved
        rest = _laid_out(grad, order)
        part = _along(rest, steps)
        if self.edges[0] is None:
            return None, part
        inside = part.clone()
        part.zero_()
        return rest, inside


def _laid_out(grad: Tensor, order: tuple[int, ...] | None) -> Tensor:
    """Returns a copy of a gradient laid out as its tensor is: a step such as ``as_strided`` speaks of memory."""
    if order is None:
        return grad.clone()
    return grad.permute(order).clone().permute(sorted(range(len(order)), key=order.__getitem__))


def _along(tensor: Tensor, steps: Steps) -> Tensor:
    """Returns the view of a tensor that some steps lead to."""
    for op, args, kwargs in steps:
        tensor = op.function(tensor, *args, **kwargs)
    return tensor


def rebase(tensor: TensorBase) -> None:
    """Passes the node that a write has given to a tensor on to the tensors that share its memory.

    The root of the views gets a node of its own; every view is stale then, the one that was written to as well.
    """
    if not tensor._type.dtype.is_inexact:  # integers have no gradient, whatever they were written from
        return
    path = path_of(tensor)
    if path:
        root = path[0].base
        node = CopySlices()
        node.number = next_number()
        node.edges = (root._node, tensor._node)
        node.type, node.shape = root._type.plain, root.shape
        node.saved = (tuple([(step.op, step.args, step.kwargs) for step in path]), _order_in_memory(root))
        root._node = node
        if active.recorded is not None:
            active.recorded(node)
    if tensor._version is not None:
        mark_stale(tensor._version)


def _order_in_memory(tensor: TensorBase) -> tuple[int, ...] | None:
    """Returns the dims from the largest stride to the smallest, None where that is their order."""
    if tensor.is_contiguous():
        return None
    strides = tensor.stride()
    order = tuple(sorted(range(len(strides)), key=lambda dim: -strides[dim]))
    return order if order != tuple(range(len(order))) else None


def requires_grad(tensor: TensorBase) -> bool:
    """Whether a write to a tensor must be recorded: it has a node, or is a view of one that has."""
    return root_of(tensor)._node is not None or tensor._node is not None


def check_write(
    who: str,
    target: TensorBase,
    did: str = "would write to it",
    remedy: str = "write in tp.no_grad(), or use the out-of-place operator.",
) -> None:
    """Refuses the recorded writes after which a gradient would be wrong, or be lost.

    Args:
        who: what writes, for the message.
        target: the tensor that is written to.
        did: what it does, or has done.
        remedy: how to do without.

    Raises:
        AutogradError: the tensor is a leaf that requires grad, or a view of one; or a view that was taken without a
            gradient, or as one of several results.
    """
    kind, origin = restriction(target)
    if origin is not None:
        raise refusal(kind, origin, f"{who} {did}")
    root = root_of(target)
    if root is not target and any(node is not None and node.is_leaf for node in (root._node, target._node)):
        what = "a view of a leaf"
    elif target._node is not None and target._node.is_leaf:
        what = "a leaf"
    else:
        return
    raise AutogradError(
        f"{who}: the tensor is {what} that requires grad; the gradient would be of a value that is gone" + fix(remedy)
    )
