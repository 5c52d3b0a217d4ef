"""How a gradient is made to fit the tensor that it is of: formulas say only the mathematics."""

from __future__ import annotations

from tensorplay_core.autograd.node import Node
from tensorplay_core.errors import AutogradError
from tensorplay_core.tensor.tensor import Tensor


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
