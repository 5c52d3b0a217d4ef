"""Where calls meet handlers: those of public functions when a call begins, those of operators at the Python key.

A handler of functions sees what a user calls. A handler of operators sees what is left of it below autograd and
autocast: the operators that a composed one is made of, and those of a backward pass.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from tensorplay_core.dispatch import active, library
from tensorplay_core.dispatch.context import STATE, Modes, Scope
from tensorplay_core.dispatch.key_set import KeySet
from tensorplay_core.dispatch.keys import AUTOGRAD, FAMILIES, DispatchKey
from tensorplay_core.dispatch.operator import Operator
from tensorplay_core.dispatch.tensor_type import DISPATCHING
from tensorplay_core.errors import ArgumentError, fix
from tensorplay_core.ops.arguments import plan_of, tensors_in
from tensorplay_core.tensor.overrides import DISPATCH, UNASKED, handle, insert, overriding
from tensorplay_core.tensor.tensor import Tensor, TensorBase

run_fake: Callable[[Operator, tuple[Any, ...], dict[str, Any]], Any] | None = None
"""Runs an operator on fake tensors; set by whoever makes such."""
_ABOVE = AUTOGRAD | FAMILIES["Autocast"]


def public_function(op: Operator) -> Callable[..., Any]:
    """Returns what handlers know a call of an operator by: its public function, or where it has none, its overload."""
    function = op.function
    return function if function is not None else library.as_overload(op)


def ask_for_function(op: Operator, args: tuple[Any, ...], kwargs: Mapping[str, Any], out: Any) -> Any:
    """Returns what handlers answer for a call of an operator's public function, or ``UNASKED``."""
    modes = STATE.get().modes
    if modes.off or not (modes.functions or (active.subclassed and not modes.plain)):
        return UNASKED
    found = [] if modes.plain or not active.subclassed else overriding((*args, *kwargs.values(), out))
    if not found and not modes.functions:
        return UNASKED
    return handle(public_function(op), found, *as_given(op, args, kwargs, out))


def ask_strangers(op: Operator, args: tuple[Any, ...], kwargs: Mapping[str, Any], out: Any) -> Any:
    """Returns what the handlers of arguments that are no tensors answer, or ``UNASKED``."""
    modes = STATE.get().modes
    if modes.off or modes.plain:
        return UNASKED
    found = overriding((*args, *kwargs.values(), out))
    return handle(public_function(op), found, *as_given(op, args, kwargs, out)) if found else UNASKED


def as_given(
    op: Operator, args: tuple[Any, ...], kwargs: Mapping[str, Any], out: Any
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Returns a call as a user would write it: without what has its default, and with numbers as numbers."""
    plan = plan_of(op)
    given = [_number(value) for value in args]
    for spec in reversed(plan.positional[: len(given)]):
        if spec.required or not _same(given[-1], spec.default):
            break
        given.pop()
    named = {name: value for name, value in kwargs.items() if not _is_default(op, name, value)}
    if out is not None:
        named["out"] = out
    return tuple(given), named


def _is_default(op: Operator, name: str, value: Any) -> bool:
    spec = plan_of(op).by_name.get(name)
    return value is None or (spec is not None and not spec.required and _same(value, spec.default))


def _same(value: Any, default: Any) -> bool:
    return value.__class__ is default.__class__ and not isinstance(value, TensorBase) and bool(value == default)


def _number(value: Any) -> Any:
    """Returns the Python number that a call was given where it is the tensor that types keep for it."""
    if value.__class__ is not Tensor or value._array.shape:
        return value
    from tensorplay_core.autograd.saved import is_number

    return value._type.api.to_list(value._array) if is_number(value) else value


# ------------------------------------------------------------------------------------------------------ the Python key


def ask_for_operator(op: Operator, keys: KeySet, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Returns what handlers answer for a call that has come to the Python key, or ``UNASKED``.

    The open modes are asked first, the innermost before those around it, each with only those open that lie beneath;
    then the classes of the arguments. Nothing is recorded meanwhile: what comes back is recorded above.

    Raises:
        ArgumentError: every handler returned NotImplemented, or one returned what cannot be the result.
    """
    state = STATE.get()
    modes = state.modes
    found = overriding_operators(args, kwargs)
    if not modes.operators and not found and run_fake is None:
        return UNASKED
    if _decomposes(op, keys, modes):
        return UNASKED
    func, types = library.as_overload(op), tuple([type(t) for t in found])
    below = partial(Scope, exclude=state.exclude | _ABOVE, grad=False)
    for i in range(len(modes.operators) - 1, -1, -1):
        with below(modes=Modes((), modes.operators[:i], plain=True)):
            answer = modes.operators[i].__tensorplay_dispatch__(func, types, args, dict(kwargs))
        if answer is not NotImplemented:
            return _checked(op, modes.operators[i], answer)
    if run_fake is not None and any(t._type.wrapper == "fake" for t in tensors_in(args, kwargs)):
        with below(modes=Modes(plain=True)):
            return run_fake(op, args, kwargs)
    for tensor in found:
        with below(modes=Modes((), modes.operators, plain=True)):
            answer = type(tensor).__tensorplay_dispatch__(func, types, args, dict(kwargs))
        if answer is not NotImplemented:
            return _checked(op, tensor, answer)
    if not modes.operators and not found:
        return UNASKED
    asked = [f"the mode {type(mode).__name__}" for mode in reversed(modes.operators)]
    asked += [kind.__name__ for kind in types]
    raise ArgumentError(
        f"{op.display_name}: {DISPATCH} of {', '.join(asked)} returned NotImplemented"
        + fix("let one of them return func(*args, **kwargs).")
    )


def overriding_operators(args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
    """Returns the tensors of a call whose class has a handler of operators, in the order in which those are asked."""
    found: list[Any] = []
    for tensor in tensors_in(args, kwargs):
        if tensor._type.wrapper in DISPATCHING and hasattr(type(tensor), DISPATCH):
            insert(found, tensor)
    return found


def _decomposes(op: Operator, keys: KeySet, modes: Modes) -> bool:
    """Whether an implicit operator goes on as those that it is made of, which are then seen in its place."""
    if op.composite != "implicit" or op.kernel_at(int(DispatchKey.Composite)) is None:
        return False
    return not (modes.operators and modes.operators[-1].keeps(op, keys))


def _checked(op: Operator, who: Any, answer: Any) -> Any:
    plan = plan_of(op)
    fits = isinstance(answer, TensorBase) if plan.returns_tensor else True
    if plan.returns > 1:
        fits = isinstance(answer, (tuple, list)) and len(answer) == plan.returns
    if fits:
        return answer
    wanted = "a Tensor" if plan.returns_tensor else f"{plan.returns} results"
    raise ArgumentError(
        f"{op.display_name}: {DISPATCH} of {type(who).__name__} returned {type(answer).__name__}, and the operator "
        f"gives {wanted}" + fix("return what func(*args, **kwargs) returns, or the like.")
    )
