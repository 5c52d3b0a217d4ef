"""What ``tp.autograd.graph`` is: a function that draws a graph, and PyTorch's names for looking into one.

The module can be called, ``tp.autograd.graph(loss)``, so it is of a class of its own.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from types import ModuleType
from typing import Any, Literal, cast

from tensorplay_core.autograd import hooks
from tensorplay_core.autograd.hooks import RemovableHandle
from tensorplay_core.autograd.node import GradientEdge, Node, Output
from tensorplay_core.autograd.saved import (
    allow_mutation_on_saved_tensors,
    disable_saved_tensors_hooks,
    save_on_cpu,
    saved_tensors_hooks,
)
from tensorplay_core.errors import ArgumentError, AutogradError, ValueRangeError, fix
from tensorplay_core.tensor.tensor import Tensor, TensorBase
from tensorplay_core.tensor.version import version_of
from tensorplay_core.tensor.views import count

__all__ = [
    "GradientEdge",
    "Node",
    "allow_mutation_on_saved_tensors",
    "disable_saved_tensors_hooks",
    "get_gradient_edge",
    "increment_version",
    "register_multi_grad_hook",
    "save_on_cpu",
    "saved_tensors_hooks",
]


def get_gradient_edge(tensor: Tensor) -> GradientEdge:
    """Returns the place of a tensor in the graph, which ``backward`` and ``grad`` take in place of the tensor.

    Raises:
        AutogradError: the tensor does not require grad.

    Example:
        >>> import tensorplay as tp
        >>> x = tp.tensor(3.0, requires_grad=True)
        >>> y = x * x
        >>> edge = tp.autograd.graph.get_gradient_edge(y)
        >>> del y
        >>> tp.autograd.grad(edge, x)
        (tensor(6.),)
    """
    if not isinstance(tensor, TensorBase):
        raise ArgumentError(
            f"get_gradient_edge takes a tensor, not {type(tensor).__name__}"
            + fix("call it with one tensor of the graph at a time.")
        )
    node = tensor._node
    if node is None:
        raise AutogradError(
            "get_gradient_edge: the tensor does not require grad, so it is in no graph"
            + fix("call requires_grad_() on it first.")
        )
    return GradientEdge(node.parent, node.index) if isinstance(node, Output) else GradientEdge(node)


def register_multi_grad_hook(
    tensors: Sequence[Tensor], fn: Callable[..., None], *, mode: Literal["all", "any"] = "all"
) -> RemovableHandle:
    """Calls a function once in each backward pass that computes the gradient of one of several tensors.

    Args:
        tensors: the tensors, all of which require grad.
        fn: takes a list with one gradient per tensor, None where the pass computes none; with ``"any"`` the first.
        mode: ``"all"`` to wait until the pass has computed every one that it will compute, ``"any"`` for the first.

    Returns:
        A handle whose ``remove()`` takes the hook away; it is also a context manager.

    Example:
        >>> import tensorplay as tp
        >>> x, y = tp.ones((), requires_grad=True), tp.ones((), requires_grad=True)
        >>> _ = tp.autograd.graph.register_multi_grad_hook([x, y], print)
        >>> (x * 2).backward()
        [tensor(2.), None]
    """
    if mode not in ("all", "any"):
        raise ValueRangeError(
            f"register_multi_grad_hook: mode is 'all' or 'any', not {mode!r}"
            + fix("pass mode='any' for the first gradient alone, or leave it out.")
        )
    if not callable(fn):
        raise ArgumentError(
            f"register_multi_grad_hook: fn is a function, not {type(fn).__name__}"
            + fix("pass the tensors first, then what takes the list of their gradients.")
        )
    if isinstance(tensors, TensorBase):
        raise ArgumentError(
            "register_multi_grad_hook: tensors is a sequence of tensors, not one tensor"
            + fix("put it into a list, or use its register_hook.")
        )
    found = list(tensors)
    for i, tensor in enumerate(found):
        if not isinstance(tensor, TensorBase) or tensor._node is None:
            raise AutogradError(
                f"register_multi_grad_hook: tensor {i} does not require grad, so no gradient will reach it"
                + fix("leave it out, or call requires_grad_() on it first.")
            )
    return hooks.join(found, fn, mode == "all")


def increment_version(tensor: Tensor | Iterable[Tensor]) -> None:
    """Tells autograd that tensors were written to by something that it does not see.

    A backward pass that needs a value from before then raises rather than compute from the new one.

    Example:
        >>> import tensorplay as tp
        >>> x = tp.ones(2, requires_grad=True)
        >>> h = x * 1
        >>> y = (h * h).sum()
        >>> tp.autograd.graph.increment_version(h)
        >>> y.backward()
        Traceback (most recent call last):
            ...
        tensorplay_core.errors.AutogradError: mul saved ... modified in place since: it is at version 1 now...
    """
    many = isinstance(tensor, Iterable) and not isinstance(tensor, TensorBase)
    for one in cast("Iterable[Tensor]", tensor if many else (tensor,)):
        if not isinstance(one, TensorBase):
            raise ArgumentError(
                f"increment_version takes tensors, not {type(one).__name__}" + fix("pass a tensor or a list of them.")
            )
        count(version_of(one))


class _Graph(ModuleType):
    """The class of this module."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Draws the graph that led to tensors; see :func:`tensorplay_core.autograd.drawing.draw`."""
        from tensorplay_core.autograd.drawing import draw

        return draw(*args, **kwargs)


sys.modules[__name__].__class__ = _Graph
