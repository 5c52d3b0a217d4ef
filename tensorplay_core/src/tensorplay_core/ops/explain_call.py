"""Which operator call a function makes, found without running it.

A public function spreads, renames and picks overloads before it calls an operator, and only the function knows how. So
it is called, with a probe that stops at the first kernel: nothing is computed, allocated or written.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from tensorplay_core.dispatch.context import Scope
from tensorplay_core.dispatch.operator import Operator
from tensorplay_core.dispatch.registry import REGISTRY
from tensorplay_core.dispatch.resolution import Step
from tensorplay_core.errors import ArgumentError, KernelMissing, TensorPlayError, did_you_mean, fix
from tensorplay_core.ops import _generated_functional as functional
from tensorplay_core.ops import typing_rules
from tensorplay_core.ops._generated_methods import GeneratedMethods
from tensorplay_core.ops.arguments import bind, normalise, plan_of
from tensorplay_core.ops.frontend import choose
from tensorplay_core.ops.methods import OperatorMethods
from tensorplay_core.ops.packets import OpOverload, OpPacket
from tensorplay_core.types.overloads import SECOND_NAMES

_WITHOUT_A_ROAD = frozenset({"manual_seed"})
"""Public functions that do something before, or instead of, calling an operator."""


class Call(NamedTuple):
    """A call as the dispatcher sees it.

    Attributes:
        op: the operator.
        args, kwargs: normalised; numbers that act as tensors are 0-d tensors.
        given: the positional arguments as they were given.
        slow: why the call cannot take a fast path, whatever the operator has; empty when it can.
    """

    op: Operator
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    given: tuple[Any, ...]
    slow: str


class _Reached(BaseException):
    """A call is about to run its first kernel; never leaves this module. No ``except Exception`` may hold it up."""

    def __init__(self, op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        super().__init__(op.display_name)
        self.op = op
        self.args_ = args
        self.kwargs_ = kwargs


def _stop(op: Operator, step: Step, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    raise _Reached(op, args, kwargs)


def _reached(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Reached | None:
    with Scope(probe=_stop):
        try:
            function(*args, **kwargs)
        except _Reached as reached:
            return reached
        except TypeError as error:
            if isinstance(error, TensorPlayError):
                raise
            raise ArgumentError(f"explain: {error}") from None
    return None


def known_functions() -> dict[str, Callable[..., Any]]:
    """Returns the public functions that can be explained, by name."""
    return {name: getattr(functional, name) for name in functional.__all__ if name not in _WITHOUT_A_ROAD}


def target_of(what: Any) -> Callable[..., Any]:
    """Returns what to call for a function, a method, an operator or a name.

    Raises:
        ArgumentError: it is none of these; the message offers the nearest names.
    """
    what = getattr(what, "_opoverload", what)  # of what custom_op returned
    if isinstance(what, (OpOverload, OpPacket)):
        return what
    if isinstance(what, Operator):
        return OpOverload(what)
    functions = known_functions()
    if isinstance(what, str):
        return named(what)
    plain = getattr(what, "__func__", what)
    methods = {**vars(GeneratedMethods), **vars(OperatorMethods)}
    known = [*functions.values(), *methods.values(), *(op.function for op in REGISTRY.operators.values())]
    if callable(what) and any(plain is one for one in known):
        return what  # type: ignore[no-any-return]
    name = getattr(what, "__name__", repr(what))
    raise ArgumentError(
        f"explain: {name!r} is no operator of TensorPlay.{did_you_mean(name, functions)}"
        + fix("pass a function such as tp.add, an operator of tp.ops, or a name.")
    )


def named(name: str) -> Callable[..., Any]:
    """Returns what a name means: a public function, ``max.dim``, ``ns::op``, ``add_``.

    Raises:
        ArgumentError: nothing has the name; the message offers the nearest ones.
    """
    functions = known_functions()
    plain = name.removeprefix("tp.").removeprefix("tp::")
    if plain in functions:
        return functions[plain]
    qualified = plain if "::" in plain else f"tp::{plain}"
    if (op := REGISTRY.operators.get(qualified)) is not None:
        return op.function if op.is_inplace and op.function is not None else OpOverload(op)
    namespace, _, rest = qualified.partition("::")
    if any(op.namespace == namespace and op.name == rest for op in REGISTRY.operators.values()):
        return OpPacket(namespace, rest)
    known = {*functions, *(op.display_name for op in REGISTRY.operators.values())}
    raise ArgumentError(f"explain: there is no operator {name!r}.{did_you_mean(name, sorted(known))}")


def operators_of(target: Callable[..., Any]) -> tuple[Operator, ...]:
    """Returns the operators that a target can mean, read off its name."""
    if isinstance(target, OpOverload):
        return (target._op,)
    if isinstance(target, OpPacket):
        return target._operators()
    name, plain = target.__name__, getattr(target, "__func__", target)
    own = tuple(op for op in REGISTRY.operators.values() if op.function is plain)
    return own or tuple(op for op in REGISTRY.operators.values() if op.namespace == "tp" and op.name == name)


def direct(target: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
    """Binds a call without the dispatcher, for calls that it refuses: nothing serves them, or their device is not here.

    Raises:
        ArgumentError: no operator takes the arguments.
    """
    operators = operators_of(target)
    if not operators:
        raise ArgumentError(f"explain: {target!r} calls no operator with these arguments")
    if len(operators) == 1:  # where nothing is chosen, a tensor argument may be a number
        op = operators[0]
        positional, keywords = bind(op, args, {SECOND_NAMES.get(name, name): v for name, v in kwargs.items()})
    else:
        op, positional, keywords, _ = choose(target_name(target), operators, args, kwargs)
    return Call(op, *normalise(op, positional, keywords), args, "nothing serves it")


def target_name(target: Callable[..., Any]) -> str:
    """Returns what a target is called in messages."""
    return str(getattr(target, "__name__", None) or repr(target))


def find_call(target: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
    """Returns the first operator call that a target makes, as the dispatcher would run it.

    Raises:
        TensorPlayError: the arguments do not fit, or no operator is called.
    """
    try:
        reached = _reached(target, args, kwargs)
    except KernelMissing:
        call = direct(target, args, kwargs)
        return call._replace(args=typing_rules.scalars_to_tensors(call.op, call.args))
    if reached is None:
        name = getattr(target, "__name__", repr(target))
        raise ArgumentError(f"explain: {name} calls no operator with these arguments; its result needs no kernel")
    slow = "calls through tp.ops take the slow path" if isinstance(target, (OpOverload, OpPacket)) else ""
    if kwargs.get("out") is not None:
        slow = "out= is given"
    positional = {name: i for i, name in enumerate(spec.name for spec in plan_of(reached.op).positional)}
    given = list(args)
    for name, value in kwargs.items():  # tensors that are given by name: add(a, other=b)
        if positional.get(name) == len(given):
            given.append(value)
    return Call(reached.op, reached.args_, reached.kwargs_, tuple(given), slow)
