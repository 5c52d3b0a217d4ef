"""Which operator has which batching rule: by its shape rule, or by name where it differs from its kind.

A shape rule says of an operator what a batching rule needs to know, so an operator that a plugin defines is batched the
moment it names one. Implicit operators decompose into others; explicit ones without a rule run their Composite kernel
on batched tensors; what has neither is called in a loop.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

from tensorplay_core.dispatch.key_set import KeySet
from tensorplay_core.dispatch.keys import DispatchKey
from tensorplay_core.dispatch.operator import Operator, Registration, location
from tensorplay_core.dispatch.registry import REGISTRY
from tensorplay_core.dispatch.wrapped import Within, levels_in
from tensorplay_core.errors import TensorPlayError, TransformError
from tensorplay_core.ops import kernels
from tensorplay_core.ops.arguments import plan_of, tensors_in, written_tensors
from tensorplay_core.ops.call import call, run_composite
from tensorplay_core.ops.levels import below
from tensorplay_core.ops.slots import CORE
from tensorplay_core.tensor.tensor import TensorBase
from tensorplay_core.tensor.wrappers import is_of, unwrap, wrap_at
from tensorplay_core.vmap import rules_dims as dims
from tensorplay_core.vmap import rules_index as indexing
from tensorplay_core.vmap import rules_linalg as linalg
from tensorplay_core.vmap import rules_nn as nn
from tensorplay_core.vmap import writes
from tensorplay_core.vmap.batching import Batch, Rule, results
from tensorplay_core.vmap.fresh import make_batched, relate_view, target
from tensorplay_core.vmap.loop import drawing_only, loop

_POINTWISE = ("same", "broadcast", "bitwise", "gelu", "hardtanh", "celu", "shrink", "clamp")
_LEADING = (
    "matrices", "square", "cholesky_ex", "solve_triangular", "of_square", "slogdet", "eigh", "eigvalsh", "svd",
    "svdvals", "qr", "transposed", "constant_pad_nd", "cdist", "cdist_backward", "attention", "attention_backward",
    "dropout_backward",
)  # fmt: skip
_FOLD = (
    "im2col", "col2im", "max_pool", "max_pool_with_indices", "pool_backward", "avg_pool", "avg_pool_backward",
)  # fmt: skip
_SHIFTED = (
    "dimwise", "max_dim", "topk", "flip", "select", "slice", "diagonal", "unbind", "split_with_sizes", "unfold",
    "select_scatter", "slice_scatter", "diagonal_scatter", "scatter_reduce",
)  # fmt: skip
BY_SHAPE: dict[str, Rule] = {
    **dict.fromkeys(_POINTWISE, dims.pointwise),
    **dict.fromkeys(_LEADING, dims.leading),
    **dict.fromkeys(_FOLD, nn.fold),
    **dict.fromkeys(_SHIFTED, dims.shifted),
    "reduction": dims.reduction,
    "norm": dims.reduction,
    "reshape": dims.reshape,
    "expand": dims.expand,
    "permute": dims.permute,
    "transpose": dims.transpose,
    "squeeze": dims.squeeze,
    "unsqueeze": dims.unsqueeze,
    "as_strided": dims.as_strided,
    "roll": dims.roll,
    "cat": dims.cat,
    "matmul": linalg.matmul,
    "mm": linalg.mm,
    "bmm": linalg.bmm,
    "mv": linalg.mv,
    "outer": linalg.outer,
    "solve": linalg.solve,
    "convolution": nn.convolution,
    "convolution_backward": nn.convolution_backward,
    "embedding": nn.embedding,
    "embedding_backward": nn.embedding_backward,
    "index": indexing.index,
    "searchsorted": indexing.searchsorted,
}
BY_NAME: dict[str, Rule] = {
    "dot": linalg.dot,
    "vdot": linalg.vdot,
    "max": dims.whole("amax"),
    "min": dims.whole("amin"),
    "median": dims.median,
    "argmax": dims.flattened,
    "argmin": dims.flattened,
    "index_backward": indexing.index_backward,
    "select_backward": dims.sized_backward,
    "slice_backward": dims.sized_backward,
}
COPIES = ("clone", "_to_copy")
SHAPE_BY_DATA = {
    "nonzero": "use tp.where(condition, a, b) in place of the indices",
    "bincount": "call it outside of vmap",
    "repeat_interleave.Tensor": "repeat by an int; or call it outside of vmap",
    "masked_select": "use tp.where(mask, x, other), which keeps the shape",
    "argwhere": "use tp.where(condition, a, b) in place of the indices",
    "_unique2": "call it outside of vmap",
    "unique_dim": "call it outside of vmap",
    "unique_dim_consecutive": "call it outside of vmap",
}
"""Operators whose results have a size that the data decides, another for each element of the batch; and the remedy."""


def by_data(batch: Batch) -> Any:
    """Refuses what has another shape for each element of the batch."""
    why = "the data decides about the shape of the result, another for each element of the batch"
    raise batch.refuse(why, f"{SHAPE_BY_DATA[batch.op.display_name]}.")


def rule_of(op: Operator) -> Rule | None:
    """Returns an operator's batching rule, None where it has none of its own."""
    if op.namespace == "tp" and op.display_name in SHAPE_BY_DATA:
        return by_data
    if "!)" in op.schema_text or "random" in op.tags:
        return None
    known = BY_NAME.get(op.display_name) if op.namespace == "tp" else None
    return known or (None if op.composite == "implicit" else BY_SHAPE.get(op.shape or ""))


def batched(op: Operator, rule: Rule) -> Callable[..., Any]:
    """Returns the Vmap kernel of an operator that has a rule."""

    def kernel(keys: KeySet, *args: Any, **kwargs: Any) -> Any:
        level = levels_in(tensors_in(args, kwargs))
        assert level is not None
        batch = Batch(op, level, args, kwargs)
        if not batch.any:
            with drawing_only("same", level) if rule is loop else nullcontext():
                return _the_same_for_all(op, level, args, kwargs)
        if plan_of(op).written:
            for tensor in written_tensors(op, args, kwargs):
                target(op, level, tensor, batched=True)
            batch = Batch(op, level, args, kwargs)  # what is written to has the batch now
        try:
            with below(level):
                found = rule(batch)
        except TensorPlayError:
            kernels.expected_shape(op, args, kwargs)  # says of one element what the rule's call said of all of them
            raise
        if plan_of(op).writes:
            return args[0]
        return _named(op, results(found, lambda r: wrap_at(level, r, batched=True) if isinstance(r, TensorBase) else r))

    return kernel


def _the_same_for_all(op: Operator, level: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Calls an operator once, with tensors that every element of the batch has the same of."""
    plan = plan_of(op)
    if plan.several_views:  # each is a view of its own, and a write to one would not find the others
        make_batched(level, args[0])
        return call(op, args, kwargs)
    with below(level):
        found = call(op, unwrap(level, args), {name: unwrap(level, value) for name, value in kwargs.items()})
    if plan.view:
        view = wrap_at(level, found)
        if is_of(level, args[0]):
            relate_view(op, args[0], view, args[1:], kwargs)
        return view
    return _named(op, results(found, lambda r: wrap_at(level, r) if isinstance(r, TensorBase) else r))


def _named(op: Operator, found: Any) -> Any:
    """Returns the results of a call as one value, of the operator's own class where there are several."""
    plan = plan_of(op)
    return plan.result_class(found) if plan.returns > 1 else found


def registrations(op: Operator) -> list[Registration]:
    """Returns what an operator gets at the Vmap keys."""
    found = []
    writer = writes.WRITERS.get(op.display_name) if op.namespace == "tp" else None
    if op.functional is not None and op.functional.composite != "implicit" and op.functional.shape in _POINTWISE:
        writer = writes.pointwise
    if "random" in op.tags and op.composite != "implicit":
        found.append(_registration(op, int(DispatchKey.VmapMode), writes.random(op), writes.random))
    elif "creation" in op.tags and op.composite != "implicit":
        found.append(_registration(op, int(DispatchKey.VmapMode), writes.creation(op), writes.creation))
    elif op.namespace == "tp" and op.name in COPIES:
        found.append(_registration(op, int(DispatchKey.VmapMode), writes.copied(op), writes.copied))
        found.append(_registration(op, "Vmap", batched(op, dims.pointwise), dims.pointwise))
    elif writer is not None:
        found.append(_registration(op, "Vmap", writes.writing(op, writer), writer))
    elif (rule := rule_of(op)) is not None:
        found.append(_registration(op, "Vmap", batched(op, rule), rule))
    elif op.composite != "implicit":
        found.append(_registration(op, "Vmap", without_rule(op), loop))
        found[0].placeholder = True  # whoever has a rule for the operator may bring it
    return found


def without_rule(op: Operator) -> Callable[..., Any]:
    """Returns the Vmap kernel of an operator without a rule: its Composite kernel on batched tensors, else the loop.

    Which, is known only at the call: a backend brings its kernels when its device is first used. A program's own
    operator is called in the loop where it has a gradient of its own, which its Composite kernel would not give, and
    where that kernel asks for values.
    """
    looped = batched(op, loop)

    def kernel(keys: KeySet, *args: Any, **kwargs: Any) -> Any:
        composite = op.kernel_at(int(DispatchKey.Composite))
        if composite is None or (op.namespace != "tp" and _has_gradient(op)):
            return looped(keys, *args, **kwargs)
        if op.namespace == "tp":
            return run_composite(op, composite, keys, args, kwargs)
        level = levels_in(tensors_in(args, kwargs))
        assert level is not None
        before = []
        for tensor in written_tensors(op, args, kwargs):
            with _where(inside := unwrap(level, tensor)):
                before.append((tensor, inside.clone()))
        try:
            return run_composite(op, composite, keys, args, kwargs)
        except TransformError:  # what it has written until then the loop writes again
            for tensor, value in before:
                with _where(inside := unwrap(level, tensor)):
                    inside.copy_(value)
        return looped(keys, *args, **kwargs)

    return kernel


def _where(tensor: Any) -> Within:
    """Returns a block in which what is made belongs to where a tensor does."""
    return Within(levels_in([tensor]))


def _has_gradient(op: Operator) -> bool:
    autograd = op.kernel_at("Autograd")
    return autograd is not None and autograd.owner != CORE


def _registration(op: Operator, slot: int | str, kernel: Callable[..., Any], rule: Any) -> Registration:
    kernel.__qualname__ = f"vmap({getattr(rule, '__name__', 'rule')})"
    return Registration(
        kernel,
        op=op.qualified_name,
        key=slot,
        owner=CORE,
        distribution=CORE,
        where=location(rule),
        level="tensor",
        with_keyset=True,
    )


def register_all() -> None:
    """Registers the rules of all operators, and of every one that is defined from now on."""
    REGISTRY.publish(added=[r for op in REGISTRY.operators.values() for r in registrations(op)])
    REGISTRY.on_define.append(lambda op: REGISTRY.publish(added=registrations(op)))
