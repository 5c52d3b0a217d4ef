"""What a node keeps of a tensor, how a program can look at it, and the errors about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tensorplay_core.dispatch.tensor_type import TensorType
from tensorplay_core.errors import AutogradError, fix
from tensorplay_core.tensor.tensor import Tensor

if TYPE_CHECKING:
    from tensorplay_core.autograd.node import Node

PACKED = -1
"""The version of a saved tensor that hooks have packed: in place of the array is what unpacks it."""
DUAL = -2
"""That of one with a tangent: in place of the array is what would have been saved without, and who has the tangent."""
LEVEL = -3
"""That of a wrapper of a transform: in place of the array is what would have been saved without."""
Saved = tuple[Any, TensorType, "Node | None", list[Any], int]
"""A saved tensor: array, type, node (None for the node's own result), version cell, version when saved."""


def freed(node: Node) -> AutogradError:
    """Returns the error for a node that an earlier pass has walked."""
    return AutogradError(
        f"{node.name} has been walked by an earlier backward pass, which freed what it had saved"
        + fix("pass retain_graph=True to the first backward, or compute the loss again.")
    )


def modified(saved: Saved, of: Node, name: str) -> AutogradError:
    """Returns the error for a saved tensor that was written to."""
    array, type, _, cell, number = saved
    op = of.op.display_name if of.op is not None else of.name
    return AutogradError(
        f"{op} saved {name!r} ({type.dtype.name}, shape {tuple(array.shape)}) for its gradient at version "
        f"{number}, and it was modified in place since: it is at version {cell[0]} now"
        + fix("clone() the tensor before writing to it, or use the out-of-place operator.")
    )


def is_saved(value: Any) -> bool:
    """Whether what a node keeps is a saved tensor, rather than a number or a shape."""
    return value.__class__ is tuple and len(value) == 5 and isinstance(value[1], TensorType)


class SavedAttribute:
    """``grad_fn._saved_self``: what a node saved, as a tensor that carries its own node, or as the value it is."""

    __slots__ = ("index", "name")

    def __init__(self, index: int, name: str) -> None:
        """See the class."""
        self.index, self.name = index, name

    def __get__(self, node: Node | None, owner: type[Node]) -> Any:
        """Returns it.

        Raises:
            AutogradError: a backward pass has freed it.
        """
        if node is None:
            return self
        if node.saved is None:
            raise freed(node)
        kept = node.saved[self.index]
        if kept.__class__ is tuple and any(is_saved(one) for one in kept):
            return [self._tensor(one, node) if one is not None else None for one in kept]
        return self._tensor(kept, node) if is_saved(kept) else kept

    def _tensor(self, kept: Any, node: Node) -> Tensor:
        from tensorplay_core.autograd import node as nodes  # which is built on this module

        assert node.op is not None
        names = node.op.schema.return_names
        own = self.name in names and node.op.schema.argument(self.name) is None
        y = nodes.unpack(kept, node, self.name, True, own=own)
        if own and node.several:
            edge = nodes.GradientEdge(node, names.index(self.name))
            y._node = edge.where() if y._type.dtype.is_inexact else None
        return y
