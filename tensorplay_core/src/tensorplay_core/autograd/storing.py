"""What tensors are given from outside of the graph: gradients at the end of a backward pass, and other memory."""

from __future__ import annotations

import threading

from tensorplay_core.autograd.modes import enable_grad, no_grad
from tensorplay_core.dispatch import active
from tensorplay_core.dispatch.tensor_type import FAKE, Unresolved
from tensorplay_core.errors import ArgumentError, AutogradError, ShapeError, fix
from tensorplay_core.tensor.tensor import Tensor, TensorBase, wrap
from tensorplay_core.tensor.version import LIVE, alias, family_of
from tensorplay_core.tensor.views import root_of

_storing = threading.RLock()
"""Held while a tensor's ``.grad`` is read and written: several threads may back up into one leaf."""


def store(variable: TensorBase, grad: Tensor, graph: bool, owned: bool = False) -> None:
    """Adds a gradient to a tensor's ``.grad``; what is stored is the tensor's own, never an alias.

    Args:
        variable: the tensor: a leaf, or one with ``retain_grad``.
        grad: the gradient.
        graph: whether the sum must be differentiable.
        owned: whether nobody else has the gradient, so that it need not be copied.
    """
    with _storing:
        old = getattr(variable, "_grad", None)
        if grad._type.wrapper == FAKE:
            _check_fake(variable, grad)
        if graph:
            with enable_grad():
                variable._grad = grad.clone() if old is None else old + grad
        elif old is None:
            variable._grad = grad if owned else wrap(grad._type.api.copy(grad._array), grad._type)
            if active.levels and not owned:
                from tensorplay_core.tensor.dual import carry_copy

                carry_copy(grad, variable._grad)
        elif not old._type.mutable:
            with no_grad():
                variable._grad = old + grad
        elif old._version is None and old._type is grad._type and old._edge is None:
            _add_to(old, grad)  # nobody has saved or viewed it, so no version must be counted, and no node is stale
        elif old._node is None and not old._type.inference:
            try:
                old.add_(grad)
            except ShapeError:  # somebody stored an expanded tensor, whose memory cannot be written to
                variable._grad = old + grad
        else:
            with no_grad():
                variable._grad = old + grad


def _check_fake(variable: TensorBase, grad: Tensor) -> None:
    if variable._type.wrapper != FAKE:
        raise ArgumentError(
            f"backward: the gradient, of shape {grad.shape}, is fake, and the tensor that it belongs to is real"
            + fix("use mode.fake(w) in the place of a real w inside of the FakeMode block.")
        )


def exchange(tensor: TensorBase, value: TensorBase) -> None:
    """Gives a tensor the memory of another, unseen by autograd: what an assignment to ``Tensor.data`` does."""
    if not isinstance(value, TensorBase):
        raise ArgumentError(
            f"data is a Tensor, not {type(value).__name__}" + fix("make one of it with tp.tensor(...).")
        )
    cell, node = tensor._version, tensor._node
    views = [reference() for reference in cell[LIVE] or ()] if cell is not None else []
    if root_of(tensor) is not tensor or any(v is not None and v is not tensor and root_of(v) is tensor for v in views):
        raise AutogradError(
            "data: the tensor is a view or has views, which would go on with the memory that it has now"
            + fix("write the values into that memory: tensor.data.copy_(values).")
        )
    fits = value.shape == tensor.shape and value._type.plain is tensor._type.plain
    if node is not None and not fits and not (node.is_leaf and value.dtype.is_inexact):
        raise AutogradError(
            f"data: the tensor requires grad and is {tensor.dtype.name}, shape {tensor.shape}; it cannot become "
            f"{value.dtype.name}, shape {value.shape}" + fix("assign to the data of a leaf, or detach() it first.")
        )
    if (family := family_of(tensor)) is not None:
        family.members.pop(id(tensor), None)
    tensor._array = value._array
    tensor._type = value._type if node is None else value._type.plain
    alias(value, tensor)
    if node is not None and not fits:
        node.shape, node.type = tensor.shape, tensor._type
    if active.levels:
        from tensorplay_core.tensor.dual import forget

        forget(tensor)


def _add_to(total: Tensor, grad: Tensor) -> None:
    """Adds to a sum that a pass owns, of the same type and shape: by the kernel itself, unless somebody watches."""
    try:
        if active.special:
            raise Unresolved
        total._type.k_add_(total._array, grad._array)
    except Unresolved:
        total.add_(grad)
