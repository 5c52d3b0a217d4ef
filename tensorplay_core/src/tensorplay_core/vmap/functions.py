"""``autograd.Function`` under transforms: level by level, so that each gets its node, its batch or its tangent.

``forward`` runs without gradients, so a call that left a level out would lose its gradient in silence. At a level of
gradients the Function is applied to what lies below, and ``setup_context`` is asked again for this level. Under
``vmap`` its own rule serves, or one that is made of ``forward`` and ``backward``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tensorplay_core.autograd import function as functions
from tensorplay_core.autograd.function import Function, FunctionCtx
from tensorplay_core.autograd.function_call import push, record, tangents_of
from tensorplay_core.autograd.modes import no_grad
from tensorplay_core.dispatch import active
from tensorplay_core.dispatch.context import STATE
from tensorplay_core.dispatch.operator import location
from tensorplay_core.dispatch.wrapped import BATCHED, Level, levels_in
from tensorplay_core.errors import TransformError, fix
from tensorplay_core.ops.levels import below
from tensorplay_core.ops.rule_results import in_dims_of, info_of, wrap_result
from tensorplay_core.tensor import dual
from tensorplay_core.tensor.pytree import tree_flatten, tree_map
from tensorplay_core.tensor.tensor import TensorBase
from tensorplay_core.tensor.wrappers import is_of, unwrap, wrap_at
from tensorplay_core.vmap.api import vmap


def transformed(cls: type[Function], args: tuple[Any, ...]) -> Any:
    """Applies a Function whose arguments have wrappers among them; None where they have not.

    Raises:
        TransformError: the Function does not say what the transform needs to know.
    """
    level = levels_in([a for a in args if isinstance(a, TensorBase)])
    if level is None:
        return None
    if cls.setup_context is Function.setup_context:
        raise TransformError(
            f"{cls.__name__} ({location(cls.forward)}) cannot be used inside of {level.transform}: its forward takes "
            "ctx, which is of one level"
            + fix("write forward(*args) without ctx, and setup_context(ctx, inputs, output).")
        )
    return _batched(cls, level, args) if level.kind == BATCHED else _recorded(cls, level, args)


functions.transformed = transformed


def _recorded(cls: type[Function], level: Level, args: tuple[Any, ...]) -> Any:
    with below(level):
        found = cls.apply(*[unwrap(level, a) for a in args])
    several = isinstance(found, tuple)
    outputs = tuple([wrap_at(level, y) if isinstance(y, TensorBase) else y for y in (found if several else (found,))])
    ctx = FunctionCtx(tuple([isinstance(a, TensorBase) and a._node is not None for a in args]))
    tangent_level = dual.current() if active.levels else None
    tangents = tangents_of(tangent_level, args) if tangent_level is not None else ()
    with no_grad():
        cls.setup_context(ctx, args, outputs if several else outputs[0])
    results = record(cls, ctx, args, outputs, several, STATE.get().grad and any(ctx.needs_input_grad))
    if tangent_level is not None and tangents:
        push(cls, ctx, tangent_level, tangents, results)
    ctx._for_forward = None  # its wrappers are of a level that is closed when backward is called
    return results if several else results[0]


def _batched(cls: type[Function], level: Level, args: tuple[Any, ...]) -> Any:
    rule = getattr(cls, "vmap", None)
    dims = in_dims_of(level, args)
    inside = tuple(unwrap(level, a) for a in args)
    if not any(is_of(level, leaf) and leaf._array.batched for leaf in tree_flatten(args)[0]):
        with below(level):
            found = cls.apply(*inside)
        return tree_map(lambda y: wrap_at(level, y) if isinstance(y, TensorBase) else y, found)
    if cls.generate_vmap_rule:
        with below(level):
            found = _rule_of(cls, dims, level).apply(*inside)
        return wrap_result(cls.__name__, level, (found, 0))
    if rule is None:
        raise TransformError(
            f"vmap: {cls.__name__} ({location(cls.forward)}) says nothing about batches"
            + fix("set generate_vmap_rule = True in it, or define @staticmethod def vmap(info, in_dims, *args).")
        )
    with below(level):
        returned = rule(info_of(level), dims, *inside)
    return wrap_result(cls.__name__, level, returned)


def _rule_of(cls: type[Function], dims: tuple[Any, ...], level: Level) -> type[Function]:
    """Returns a Function of batches, whose ``forward`` and ``backward`` are those of a Function under ``vmap``."""

    def again(ctx: Any, saved: Any, which: int) -> FunctionCtx:
        inner, rest = FunctionCtx(ctx.needs_input_grad), iter(saved)
        inner.__dict__.update(ctx.kept)
        inner._for_forward = tuple([None if none else next(rest) for none in ctx.nones[which]])
        return inner

    class Batched(Function):
        generate_vmap_rule = True  # the levels around have batches of batches

        @staticmethod
        def forward(*args: Any) -> Any:
            return vmap(lambda *a: cls.forward(*a), dims, randomness=level.randomness)(*args)

        @staticmethod
        def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
            kept: dict[str, Any] = {}

            def capture(inputs: Any, output: Any) -> Any:
                inner = FunctionCtx(ctx.needs_input_grad)
                cls.setup_context(inner, inputs, output)
                kept.update(inner.__dict__)
                both = inner._to_save, inner._to_save if inner._for_forward is None else inner._for_forward
                nones[:] = [[t is None for t in some] for some in both]
                return tuple(tuple(t for t in some if t is not None) for some in both)

            nones: list[list[bool]] = []
            saved, forward = vmap(capture, (dims, 0), randomness=level.randomness)(inputs, output)
            ctx.save_for_backward(*saved)
            ctx.save_for_forward(*forward)
            ctx.kept, ctx.nones = kept, nones

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            one = _mapped(lambda saved, grads: cls.backward(again(ctx, saved, 0), *grads), 0, level)
            return tuple(
                g if g is None or dim is not None else g.sum(0)
                for g, dim in zip(one(ctx.saved_tensors, grads), dims, strict=True)
            )

        if cls.jvp is not Function.jvp:

            @staticmethod
            def jvp(ctx: Any, *tangents: Any) -> Any:
                where = tuple(None if t is None else d for t, d in zip(tangents, dims, strict=True))
                one = _mapped(lambda saved, tangents: cls.jvp(again(ctx, saved, 1), *tangents), (0, where), level)
                return one(ctx.saved_tensors, tangents)

    Batched.__name__ = f"Batched{cls.__name__}"
    return Batched


def _mapped(function: Callable[..., Any], in_dims: Any, level: Level) -> Callable[..., tuple[Any, ...]]:
    """Returns a function of a batch from one that returns a tensor, or several of which some may be None."""

    def batched(*args: Any) -> tuple[Any, ...]:
        missing: list[bool] = []

        def one(*inside: Any) -> Any:
            found = function(*inside)
            found = found if isinstance(found, tuple) else (found,)
            missing[:] = [value is None for value in found]
            return tuple(value for value in found if value is not None)

        found = iter(vmap(one, in_dims, randomness=level.randomness)(*args))
        return tuple(None if none else next(found) for none in missing)

    return batched
