"""Forward mode at the Autograd keys: while a dual level is open, calls give their results tangents.

The dispatcher hands the kernels at the Autograd keys to :func:`run` then. Below them nothing knows of tangents: a
kernel computes the value, a rule (:mod:`forward_rules`) the tangent, and the rule's own calls see no tangents, since a
level has no other level inside. What a rule returns is made to fit its result here, as the engine fits gradients, so
rules say only the mathematics.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from tensorplay_core.dispatch.context import STATE
from tensorplay_core.dispatch.key_set import KeySet
from tensorplay_core.dispatch.keys import DispatchKey
from tensorplay_core.dispatch.misses import kernel_missing
from tensorplay_core.dispatch.operator import Operator, Registration
from tensorplay_core.dispatch.registry import REGISTRY
from tensorplay_core.errors import ForwardMissing, fix
from tensorplay_core.ops import call, forward_rules, inplace
from tensorplay_core.ops.arguments import plan_of, tensors_in
from tensorplay_core.ops.autograd_kernels import distinct
from tensorplay_core.ops.slots import CORE
from tensorplay_core.tensor.dual import Level, carry, carry_copy, current, laid_out_as, same_layout, suspended
from tensorplay_core.tensor.tensor import Tensor, wrap
from tensorplay_core.tensor.version import share_memory


def run(op: Operator, registration: Registration, keys: KeySet, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Runs a kernel at an Autograd key in the open level.

    Raises:
        ForwardMissing: an input has a tangent, and nothing says what becomes of it.
    """
    kernel, level = registration.function, current()
    if level is None:
        return kernel(keys, *args, **kwargs)
    plan = plan_of(op)
    if not any(level.tangent_of(t) is not None for t in tensors_in(args, kwargs)):
        result = kernel(keys, *args, **kwargs)
        if plan.view:
            _remember(op, level, result, args, kwargs)
        return result
    own = registration.owner == CORE
    if not own and not hasattr(kernel, "node"):
        return _foreign(op, registration, keys, args, kwargs, level)
    decomposes = own and op.node is None and op.composite == "implicit"
    if decomposes and op.functional is None:
        return _decomposed(op, keys, args, kwargs)
    if plan.written:
        return _writing(op, level, kernel, keys, args, kwargs)
    if own and op.differentiable is not None and not any(op.differentiable):
        return kernel(keys, *args, **kwargs)
    return _functional(op, level, kernel, keys, args, kwargs)


def refuse_out(op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> None:
    """Refuses ``out=`` where a tensor of the call has a tangent, as PyTorch does.

    Raises:
        ForwardMissing: one has.
    """
    level = current()
    if level is None:
        return
    outs = tuple(out) if isinstance(out, (list, tuple)) else (out,)
    if any(level.tangent_of(t) is not None for t in tensors_in((*args, *outs), kwargs)):
        raise ForwardMissing(
            f"{op.display_name}: out= takes no tangents, and a tensor of the call has one"
            + fix("leave out= away, and copy_() the result to where it belongs.")
        )


def missing(op: Operator, why: str) -> ForwardMissing:
    """Returns the error for an operator through which tangents cannot pass."""
    return ForwardMissing(
        f"{op.display_name} has no rule for tangents: {why}"
        + fix(
            f'give it a gradient: tp.library.register_autograd("{op.qualified_name}", backward, setup_context=...), or '
            "a derivative record in its contract; or detach() its inputs."
        )
    )


def _decomposed(op: Operator, keys: KeySet, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Runs an implicit operator's Composite kernel above autograd: the operators in it have rules."""
    composite = op.kernel_at(int(DispatchKey.Composite))
    if composite is None:
        raise kernel_missing(op, keys, "its tangent is that of its Composite kernel, and Composite has none")
    return call.run_composite(op, composite, keys, args, kwargs)


def _foreign(
    op: Operator,
    registration: Registration,
    keys: KeySet,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    level: Level,
) -> Any:
    """Runs a program's own kernel at Autograd: what it calls has rules, unless it goes below autograd at once."""
    function = registration.function
    result = function(keys, *args, **kwargs) if registration.with_keyset else function(*args, **kwargs)
    for tensor in tensors_in(_as_tuple(result), {}):
        if tensor._type.dtype.is_inexact and level.tangent_of(tensor) is None:
            where = f"{registration.distribution}, {registration.where}"
            raise missing(op, f"its kernel at Autograd ({where}) gave a result without one")
    return result


# results


def _functional(
    op: Operator, level: Level, kernel: Callable[..., Any], keys: KeySet, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    rule = forward_rules.of(op, kernel)
    result, plan = None, plan_of(op)
    inputs = {id(t): t for t in tensors_in(args, kwargs)}
    if rule.runs_kernel:
        result, tangents = rule.run(level, keys, args, kwargs)
    else:
        result = _apart(op, kernel(keys, *args, **kwargs), inputs)
        with suspended():
            tangents = rule.tangents(level, result, args, kwargs)
    given = [t for x in inputs.values() if (t := level.tangent_of(x)) is not None]
    for tensor, tangent in zip(_as_tuple(result), tangents, strict=True):
        if tangent is not None and isinstance(tensor, Tensor) and tensor._type.dtype.is_inexact:
            with suspended():
                tangent = fit(tangent, tensor)
                if not plan.view:
                    tangent = owned(tangent, tensor, given)
            level.set(tensor, tangent)
    if plan.view:
        _remember(op, level, result, args, kwargs)
    forward_rules.keep_results(level, result)
    return result


def _as_tuple(result: Any) -> tuple[Any, ...]:
    return tuple(result) if isinstance(result, (tuple, list)) else (result,)


def _apart(op: Operator, result: Any, inputs: dict[int, Any]) -> Any:
    """Returns a result that can take a tangent of its own: where it is an input, another tensor over it."""
    same = any(id(r) in inputs for r in _as_tuple(result))
    return distinct(op, result, tuple(inputs.values()), {}) if same else result


def fit(tangent: Tensor, tensor: Tensor) -> Tensor:
    """Returns a tangent in the shape, dtype and device of its tensor; complex numbers lose their imaginary part."""
    if tangent.is_complex() and not tensor.is_complex():
        tangent = tangent.real()
    if tangent.dtype is not tensor.dtype or tangent.device != tensor.device:
        tangent = tangent.to(dtype=tensor.dtype, device=tensor.device)
    return tangent if tangent.shape == tensor.shape else tangent.expand(tensor.shape)


def owned(tangent: Tensor, tensor: Tensor, others: list[Tensor]) -> Tensor:
    """Returns a tangent that can be written to, laid out as its tensor, so that views of both go alike.

    Args:
        tangent: the tangent.
        tensor: what it is of.
        others: tangents that it must not share memory with.
    """
    if (tensor._type.wraps or same_layout(tangent, tensor)) and not any(_share(tangent, other) for other in others):
        return tangent
    return laid_out_as(tensor, tangent)


def _share(one: Tensor, other: Tensor) -> bool:
    """Whether a write to one tensor can reach another; where arrays share no memory, their tensors still may."""
    if share_memory(one, other):
        return True
    return one._type.wrapper is other._type.wrapper and one._type.api.may_alias(one._array, other._array)


# writes


def _writing(
    op: Operator, level: Level, kernel: Callable[..., Any], keys: KeySet, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    target = args[0] if args else None
    simple = plan_of(op).written == (plan_of(op).positional[0].name,) if args else False
    if not simple or not isinstance(target, Tensor):
        raise missing(op, "it writes to its arguments, and no formula says what")
    if not target._type.dtype.is_inexact:
        return kernel(keys, *args, **kwargs)
    functional = op.functional
    if functional is not None and functional.node is None and functional.composite == "implicit":
        inplace.check(op, args, kwargs)
        copy = REGISTRY.operators["tp::copy_"]
        return call.run(copy, keys, (target, call.run(functional, keys, args, kwargs), False), {})
    rule = forward_rules.of(op, kernel)
    before = _as_they_were(level, target, args)
    result = kernel(keys, *args, **kwargs)
    with suspended():
        (tangent, *_) = rule.tangents(level, target, before, kwargs)
        tangent = None if tangent is None else fit(tangent, target)
    if tangent is not None:
        write(level, target, tangent)
    forward_rules.keep_results(level, target)
    return result


def _as_they_were(level: Level, target: Tensor, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Returns arguments as they are before a write, for the rule: copies of those whose memory it reaches.

    Their tangents are copies too where the rule is recorded, for it may save them, and the write reaches them.
    """
    tensors = list(tensors_in(args, {}))
    nodes = [t._node for t in (*tensors, *map(level.tangent_of, tensors)) if t is not None]
    recorded = STATE.get().grad and any(node is not None for node in nodes)

    def kept(value: Any) -> Any:
        if value.__class__ is tuple:
            return tuple(map(kept, value))
        if isinstance(value, Tensor) and share_memory(value, target):
            same = wrap(value._type.api.copy(value._array), value._type, value._node)
            (carry_copy if recorded else carry)(value, same)
            return same
        return value

    return tuple(map(kept, args))


def write(level: Level, tensor: Tensor, tangent: Tensor) -> None:
    """Writes a tangent to where its tensor's is, so that views see it; a base without one gets zeros first."""
    if tensor._type.wraps:
        with suspended():
            level.write(tensor, tangent)
        return
    known = level.tangent_of(tensor)
    if known is None and not level.is_plain(tensor) and (root := level.root_of(tensor)) is not tensor:
        with suspended():
            level.set(root, laid_out_as(root, root.new_zeros(root.shape)))
        known = level.tangent_of(tensor)
    with suspended():
        if known is None:
            level.set(tensor, laid_out_as(tensor, tangent))
        else:
            known.copy_(tangent)


# views


def _remember(op: Operator, level: Level, result: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Notes which results are views of the first argument: a write to either reaches the tangents of both."""
    base = args[0]

    def replay(tangent: Tensor, item: int | None = None) -> Tensor:
        found = forward_rules.view_of(op, tangent, args, kwargs)
        return found if item is None else found[item]  # type: ignore[no-any-return]

    several = isinstance(result, (tuple, list))
    for i, view in enumerate(_as_tuple(result)):
        if isinstance(view, Tensor) and share_memory(view, base):
            level.remember(view, base, partial(replay, item=i if several else None))
