"""A call of an ``autograd.Function``: its arguments, what it wrote to, its node, its tangents."""

from __future__ import annotations

import warnings
import weakref
from typing import TYPE_CHECKING, Any

from tensorplay_core.autograd import views
from tensorplay_core.autograd.function_node import attach, node_class
from tensorplay_core.autograd.node import MULTIPLE, PLAIN, PLAIN_MULTIPLE, SAVING, next_number
from tensorplay_core.dispatch import active
from tensorplay_core.dispatch.operator import location
from tensorplay_core.errors import ArgumentError, AutogradError, ForwardMissing, fix
from tensorplay_core.tensor import dual
from tensorplay_core.tensor.tensor import Tensor, TensorBase, wrap

if TYPE_CHECKING:
    from tensorplay_core.autograd.function import Function, FunctionCtx


def bound(cls: type[Function], separate: bool, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """Returns the arguments of ``forward`` by position; with ``setup_context`` also those that have defaults."""
    import inspect  # here, because it costs a third of the import of the package

    before = () if separate else (None,)  # in the place of ctx
    try:
        call = inspect.signature(cls.forward).bind(*before, *args, **kwargs)
    except TypeError as error:
        raise ArgumentError(
            f"{cls.__name__}.apply: {error}" + fix(f"see its forward ({location(cls.forward)}).")
        ) from None
    given = len(call.arguments)
    call.apply_defaults()
    if call.kwargs:
        raise ArgumentError(
            f"{cls.__name__}.apply: forward ({location(cls.forward)}) has keyword-only arguments "
            f"({', '.join(call.kwargs)}), which cannot be tracked" + fix("take the '*' out of its signature.")
        )
    values = call.args[len(before) :]
    if separate:
        return values
    last = max(i for i, name in enumerate(call.arguments) if name in kwargs or i < len(before) + len(args))
    return values[: max(last + 1 - len(before), given - len(before))]


def record(
    cls: type[Function],
    ctx: FunctionCtx,
    args: tuple[Any, ...],
    outputs: tuple[Any, ...],
    several: bool,
    recording: bool,
) -> tuple[Any, ...]:
    """Returns the results of a call as the program gets them, with the node where one is recorded."""
    inputs = {id(a) for a in args if isinstance(a, TensorBase)}
    dirty = _dirty(cls, ctx, inputs, outputs, recording)
    constant = {id(t) for t in ctx._constant}
    node = None
    if recording:
        plain, saving = (PLAIN_MULTIPLE, MULTIPLE) if several else (PLAIN, SAVING)
        node = node_class(cls, saving if ctx._to_save else plain)()
        node.number = next_number()
        node.ctx = ctx
        node.places = tuple([i for i, a in enumerate(args) if isinstance(a, TensorBase)])
        node.arguments = len(args)
        node.edges = tuple([args[i]._node for i in node.places])
        node.save(ctx._to_save, args, outputs)
    results = attach(node, outputs, several, inputs, dirty, constant)
    if node is not None:
        ctx._node = weakref.ref(node)
        if active.recorded is not None:
            active.recorded(node)
    ctx._to_save = ctx._dirty = ctx._constant = ()
    return results


def _dirty(
    cls: type[Function], ctx: FunctionCtx, inputs: set[int], outputs: tuple[Any, ...], recording: bool
) -> set[int]:
    """Returns the identities of the inputs that were written to.

    Raises:
        AutogradError: one is a leaf that requires grad, or is not returned.
    """
    if not ctx._dirty:
        return set()
    where = f"{cls.__name__} ({location(cls.forward)})"
    returned = {id(y) for y in outputs}
    for tensor in ctx._dirty:
        if id(tensor) not in returned:
            raise AutogradError(
                f"{where} marked a tensor of shape {tensor.shape} as dirty and did not return it"
                + fix("return every input that forward has written to.")
            )
        if id(tensor) not in inputs:
            warnings.warn(
                f"{where}: mark_dirty is for inputs, and a tensor of shape {tensor.shape} is none", stacklevel=4
            )
        elif recording:
            views.check_write(where, tensor, "wrote to it", "pass x.clone(), or call it in tp.no_grad().")
    return {id(t) for t in ctx._dirty if id(t) in inputs}


def tangents_of(level: dual.Level, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Returns what ``jvp`` is given, zeros for a tensor without a tangent; nothing where no argument has one."""
    found = [level.tangent_of(a) if isinstance(a, TensorBase) else None for a in args]
    if not any(t is not None for t in found):
        return ()
    return tuple(
        [
            Tensor.new_zeros(wrap(None, a._type), a.shape) if t is None and isinstance(a, TensorBase) else t
            for a, t in zip(args, found, strict=True)
        ]
    )


def push(
    cls: type[Function], ctx: FunctionCtx, level: dual.Level, tangents: tuple[Any, ...], results: tuple[Any, ...]
) -> None:
    """Gives the results the tangents that ``jvp`` computes.

    Raises:
        AutogradError: there is no ``jvp``, or it returned something else than one tangent for each result.
    """
    from tensorplay_core.autograd.function import Function as Base  # at run time: it is made of this module

    if cls.jvp is Base.jvp:
        raise ForwardMissing(
            f"{cls.__name__} ({location(cls.forward)}) has no jvp, so no tangent can pass through it"
            + fix("define it: @staticmethod def jvp(ctx, *tangents).")
        )
    where = f"{cls.__name__}: its jvp ({location(cls.jvp)})"
    with dual.suspended():
        found = cls.jvp(ctx, *tangents)
    given = found if isinstance(found, tuple) else (found,)
    if len(given) != len(results):
        raise AutogradError(
            f"{where} returned {len(given)} tangents, and forward {len(results)} results"
            + fix("return one for each, and None for what is no tensor or has no tangent.")
        )
    for i, (tangent, y) in enumerate(zip(given, results, strict=True)):
        if tangent is None:
            if isinstance(y, TensorBase):
                level.drop(y)
            continue
        if not isinstance(y, Tensor) or not isinstance(tangent, Tensor):
            raise AutogradError(
                f"{where} returned {type(tangent).__name__} as the tangent of result {i}, a {type(y).__name__}"
                + fix("a tangent is a tensor, of a tensor; return None otherwise.")
            )
        if tangent.shape != y.shape:
            raise AutogradError(
                f"{where} returned a tangent of shape {tangent.shape} for result {i}, whose shape is {y.shape}"
                + fix("return one of the result's shape, e.g. with .expand().")
            )
        level.set(y, tangent if tangent._type is y._type else tangent.to(dtype=y.dtype, device=y.device))
