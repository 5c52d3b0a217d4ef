"""``autograd.Function``: operations whose gradient a program writes itself, without a contract or a registration.

``forward`` runs below autograd and ``backward`` is the gradient that is recorded for it, as one node of the graph. What
``save_for_backward`` keeps is kept as the nodes of operators keep theirs: arrays with their version cell, so that a
write in between is noticed, hooks for saved tensors see them, and a pass that frees the graph frees them.
"""

from __future__ import annotations

import functools
import warnings
import weakref
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, ClassVar

from tensorplay_core.autograd.function_call import bound, push, record, tangents_of
from tensorplay_core.autograd.function_node import BackwardMissing, FunctionNode, Once
from tensorplay_core.autograd.kept import freed
from tensorplay_core.autograd.modes import no_grad
from tensorplay_core.dispatch import active
from tensorplay_core.dispatch.context import STATE
from tensorplay_core.errors import ArgumentError, AutogradError, fix
from tensorplay_core.tensor import dual
from tensorplay_core.tensor.tensor import Tensor, TensorBase

__all__ = ["BackwardMissing", "Function", "FunctionCtx", "once_differentiable"]


transformed: Callable[[Any, tuple[Any, ...]], Any] | None = None
"""Applies a Function inside of a transform that wraps its arguments; set by the floor that has such transforms."""


class FunctionCtx:
    """The ``ctx`` of ``forward``, ``setup_context``, ``backward`` and ``jvp``; it takes any attribute.

    A tensor that is set as an attribute stays as it is: nothing notices a write to it, and where it is a result of the
    Function it keeps the graph alive in a cycle until Python's collector runs. ``save_for_backward`` has neither fault.

    Attributes:
        needs_input_grad: for each argument of ``forward`` whether it is a tensor that needs a gradient.
    """

    __slots__ = (
        "__dict__", "__weakref__", "_constant", "_dirty", "_for_forward", "_materialize", "_node", "_to_save",
        "needs_input_grad",
    )  # fmt: skip

    needs_input_grad: tuple[bool, ...]

    def __init__(self, needs: tuple[bool, ...] = ()) -> None:
        """See the class."""
        self.needs_input_grad = needs
        self._to_save: tuple[Any, ...] = ()
        self._for_forward: tuple[Any, ...] | None = None
        self._dirty: tuple[Any, ...] = ()
        self._constant: tuple[Any, ...] = ()
        self._materialize = True
        self._node: weakref.ref[FunctionNode] | None = None

    def __getattr__(self, name: str) -> Any:
        """Raises, with the names of what was set."""
        known = ", ".join(self.__dict__) or "nothing"
        raise AttributeError(f"ctx has no attribute {name!r}; forward has set: {known}", name=name, obj=self)

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Keeps tensors for :attr:`saved_tensors` in ``backward``: inputs, results, or what was computed on the way.

        Args:
            tensors: tensors and None; the last call counts.

        Raises:
            ArgumentError: something else was given.
        """
        self._to_save = _tensors("save_for_backward", tensors)

    def save_for_forward(self, *tensors: Tensor | None) -> None:
        """Keeps tensors for :attr:`saved_tensors` in ``jvp``."""
        self._for_forward = _tensors("save_for_forward", tensors)

    def mark_dirty(self, *inputs: Tensor) -> None:
        """Says which inputs ``forward`` has written to; each of them must be returned."""
        self._dirty = _tensors("mark_dirty", inputs)

    def mark_non_differentiable(self, *results: Tensor) -> None:
        """Says which results have no gradient; those of an integer dtype never have one."""
        self._constant = _tensors("mark_non_differentiable", results)

    def set_materialize_grads(self, value: bool) -> None:
        """Says whether a result that no gradient reached has zeros (True, the default) or None in ``backward``."""
        self._materialize = bool(value)

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """What ``save_for_backward`` was given; in ``jvp`` what ``save_for_forward`` was given.

        Raises:
            AutogradError: one of them was modified in place since, or a backward pass has freed them.
        """
        if self._for_forward is not None:
            return self._for_forward
        node = self._node() if self._node is not None else None
        if node is None:
            return self._to_save
        if node.saved is None and node.count:
            raise freed(node)
        return tuple(None if kept is None else kept.unpacked(node) for kept in node.saved or ())


def _tensors(method: str, values: tuple[Any, ...]) -> tuple[Any, ...]:
    for i, value in enumerate(values):
        if value is not None and not isinstance(value, TensorBase):
            several = isinstance(value, (list, tuple))
            remedy = f"write {method}(*tensors), with a star" if several else "keep it as an attribute of ctx"
            raise ArgumentError(
                f"ctx.{method} takes tensors, and argument {i} is {type(value).__name__}" + fix(f"{remedy}.")
            )
    return values


class Function:
    """Base class of operations that bring their own gradient.

    A subclass defines static methods: ``forward(ctx, *args)``, or ``forward(*args)`` and ``setup_context(ctx, inputs,
    output)``; ``backward(ctx, *grads)``, which gets one gradient per result and returns one per argument, None for what
    is no tensor; and ``jvp(ctx, *tangents)`` where forward mode is wanted. It is called through :meth:`apply`. Tensors
    inside lists, tuples and dicts are not tracked.

    Example:
        >>> import tensorplay as tp
        >>> class Cube(tp.autograd.Function):
        ...     @staticmethod
        ...     def forward(ctx, x):
        ...         ctx.save_for_backward(x)
        ...         return x * x * x
        ...
        ...     @staticmethod
        ...     def backward(ctx, grad):
        ...         (x,) = ctx.saved_tensors
        ...         return grad * 3 * x * x
        >>> x = tp.tensor(2.0, requires_grad=True)
        >>> y = Cube.apply(x)
        >>> y
        tensor(8., grad_fn=<CubeBackward>)
        >>> y.backward()
        >>> x.grad
        tensor(12.)
    """

    generate_vmap_rule: ClassVar[bool] = False
    """Whether ``vmap`` may run ``forward`` and ``backward`` on the batched tensors."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Warns: the methods are static, and an object has no meaning."""
        warnings.warn(
            f"{type(self).__name__} should not be instantiated: call {type(self).__name__}.apply(...)",
            DeprecationWarning,
            stacklevel=2,
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Raises: it is the class that is called, through ``apply``."""
        name = type(self).__name__
        raise AutogradError(
            f"an object of the Function {name} cannot be called"
            + fix(f"define forward and backward as static methods, and call {name}.apply(...).")
        )

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """Computes the results; see the class."""
        raise BackwardMissing("a Function needs a forward" + fix("define it: @staticmethod def forward(ctx, ...)."))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        """Keeps on ``ctx`` what ``backward`` needs; with it ``forward`` takes no ``ctx``."""
        raise BackwardMissing("setup_context is not defined")

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        """Returns the gradients of the arguments; see the class."""
        raise BackwardMissing("backward is not defined")

    vjp = backward
    """Another name under which ``backward`` may be defined."""

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        """Returns the tangents of the results, given those of the arguments (None for what is no tensor)."""
        raise BackwardMissing("jvp is not defined")

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Calls ``forward`` and records ``backward`` as its gradient.

        Args:
            args: what ``forward`` takes after ``ctx``.
            kwargs: the same by name.

        Returns:
            What ``forward`` returned: a tensor or a tuple, whose floating tensors require grad where an argument does.

        Raises:
            AutogradError: ``forward`` wrote to a leaf, or to an input that it does not return.
            ArgumentError: ``forward`` does not take such arguments.
        """
        separate = cls.setup_context is not Function.setup_context
        if kwargs or (separate and getattr(cls.forward, "__defaults__", None)):
            args = bound(cls, separate, args, kwargs)
        if transformed is not None and active.special and (found := transformed(cls, args)) is not None:
            return found
        ctx = FunctionCtx(tuple([isinstance(a, TensorBase) and a._node is not None for a in args]))
        level = dual.current() if active.levels else None
        tangents = tangents_of(level, args) if level is not None else ()
        with no_grad(), dual.suspended() if tangents else nullcontext():
            if separate:
                output = cls.forward(*args)
                cls.setup_context(ctx, args, output)
            else:
                output = cls.forward(ctx, *args)
        several = isinstance(output, tuple)
        recording = STATE.get().grad and any(ctx.needs_input_grad)
        results = record(cls, ctx, args, output if several else (output,), several, recording)
        if level is not None and tangents:
            push(cls, ctx, level, tangents, results)
        ctx._for_forward = None
        return results if several else results[0]


def once_differentiable(backward: Callable[..., Any]) -> Callable[..., Any]:
    """Decorates a ``backward`` that cannot be differentiated: a second derivative raises rather than being wrong.

    Example:
        >>> import tensorplay as tp
        >>> class Double(tp.autograd.Function):
        ...     @staticmethod
        ...     def forward(ctx, x):
        ...         return x * 2
        ...
        ...     @staticmethod
        ...     @once_differentiable
        ...     def backward(ctx, grad):
        ...         return tp.tensor(grad.numpy() * 2)
        >>> x = tp.tensor(2.0, requires_grad=True)
        >>> (g,) = tp.autograd.grad(Double.apply(x), x, create_graph=True)
        >>> g
        tensor(2., grad_fn=<Once>)
    """

    @functools.wraps(backward)
    def once(ctx: Any, *grads: Any) -> Any:
        with no_grad():
            found = backward(ctx, *grads)
        if not STATE.get().grad:
            return found
        edges = (*(g._node for g in grads if isinstance(g, TensorBase)), *_edges(ctx))
        if not any(edges):
            return found
        return tuple(cut(g, edges) for g in found) if isinstance(found, tuple) else cut(found, edges)

    def cut(value: Any, edges: tuple[Any, ...]) -> Any:
        return Once.after(value, edges, backward) if isinstance(value, Tensor) else value

    return once


def _edges(ctx: Any) -> tuple[Any, ...]:
    """Returns what the call's gradient depends on besides the gradients it is given: the inputs of the call."""
    node = getattr(ctx, "_node", None)
    node = node() if isinstance(node, weakref.ref) else node[0] if isinstance(node, tuple) else None
    return node.edges if node is not None else ()
