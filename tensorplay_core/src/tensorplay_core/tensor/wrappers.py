"""Making wrapper tensors, and looking into them."""

from __future__ import annotations

from typing import Any

from tensorplay_core.dispatch.tensor_type import intern
from tensorplay_core.dispatch.wrapped import BATCHED, Level, Wrapped
from tensorplay_core.tensor.tensor import Tensor, TensorBase, wrap


def wrap_at(level: Level, tensor: TensorBase, *, batched: bool = False) -> Tensor:
    """Returns a tensor as its wrapper of a level.

    Args:
        level: the level.
        tensor: of the levels below.
        batched: whether its first dim is the batch of the level.
    """
    type = tensor._type
    inference = type.inference and level.kind == BATCHED  # a level of gradients records, whatever lies below
    return wrap(Wrapped(level, tensor, batched), intern(type.device, type.dtype, type.layout, inference, level.kind))


def is_of(level: Level, value: Any) -> bool:
    """Whether a value is a wrapper of a level."""
    return isinstance(value, TensorBase) and value._type.wraps and value._array.level is level


def unwrap(level: Level, value: Any) -> Any:
    """Returns a value with the wrappers of one level replaced by what they hold, those in tuples and lists too."""
    if isinstance(value, TensorBase):
        return value._array.tensor if is_of(level, value) else value
    if value.__class__ is tuple or value.__class__ is list:
        return value.__class__([unwrap(level, item) for item in value])
    return value


def moved(tensor: Any, source: int, target: int) -> Tensor:
    """Returns a tensor with one dim at another place, as a view."""
    order = [i for i in range(tensor.ndim) if i != source]
    order.insert(target, source)
    found: Tensor = tensor if source == target else tensor.permute(order)
    return found


def every_element(tensor: Any) -> Any:
    """Returns a tensor with all elements that a check of values must look at: those of the whole batch under ``vmap``.

    Example:
        >>> import tensorplay as tp
        >>> every_element(tp.ones(2))
        tensor([1., 1.])
    """
    while tensor._type.wraps:
        tensor = tensor._array.tensor
    return tensor


def text_of(tensor: TensorBase) -> str:
    """Returns how a wrapper prints: what it holds, with its level."""
    payload: Wrapped = tensor._array
    level = payload.level
    inside = repr(payload.tensor).replace("\n", "\n    ")
    if level.kind != BATCHED:
        return f"GradTensor(level={level.depth}, value=\n    {inside}\n)"
    dim = "batch_dim=0" if payload.batched else "no batch_dim"
    closed = "" if level.open else ", closed"
    return f"BatchedTensor(level={level.depth}{closed}, {dim}, value=\n    {inside}\n)"
