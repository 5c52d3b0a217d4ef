"""The way from a level of gradients to the level below: what a backend key means for its wrappers.

``grad`` and ``jvp`` wrap their inputs where they nest in another transform, so that a tensor of theirs has an Autograd
key of its own whatever lies below. At the backend key the wrappers of the highest level are taken off and the operator
is called again, which the level below interprets: another transform, or at last a kernel on arrays.
"""

from __future__ import annotations

from typing import Any

from tensorplay_core.dispatch import wrapped
from tensorplay_core.dispatch.context import STATE, Scope, State
from tensorplay_core.dispatch.keys import AUTOGRAD
from tensorplay_core.dispatch.operator import Operator
from tensorplay_core.dispatch.wrapped import BATCHED, Level, Within
from tensorplay_core.errors import TransformError, fix
from tensorplay_core.ops import kernels
from tensorplay_core.ops.arguments import plan_of, written_tensors
from tensorplay_core.ops.call import call
from tensorplay_core.tensor import dual
from tensorplay_core.tensor.tensor import TensorBase
from tensorplay_core.tensor.version import version_of
from tensorplay_core.tensor.views import count
from tensorplay_core.tensor.wrappers import is_of, unwrap, wrap_at


class GradLevel(Level):
    """A level of gradients or of tangents.

    Attributes:
        grad: whether gradients were recorded around it.
        excluded: the Autograd keys that were excluded around it, as in inference mode.
        dual: the level of tangents that was open around it.
        suspended: whether tangents were computed around it, so that none were looked at.
    """

    __slots__ = ("dual", "excluded", "grad", "suspended")

    def __init__(self, transform: str) -> None:
        super().__init__("grad", transform)
        self.grad = STATE.get().grad
        self.excluded = STATE.get().exclude & AUTOGRAD
        self.dual = dual.open_level()
        self.suspended = not dual.enabled()


def as_called(state: State) -> State:
    """Returns the state in which an operator was called, from that in which a layer continues the call below it.

    The Autograd keys that a level of gradients has excluded are its own: the level below has its turn still to come.
    """
    while state.exclude & AUTOGRAD and not state.inference and state.beneath is not None:
        state = state.beneath
    return state


class _Below:
    """A ``with`` block in which everything is as it was around a level; no_grad of the program holds there too."""

    __slots__ = ("_level", "_scope", "_suspended", "_within")

    def __init__(self, level: Level) -> None:
        self._level = level

    def __enter__(self) -> None:
        level = self._level
        self._within = Within(level.outer)
        self._within.__enter__()
        self._scope: Any = None
        if isinstance(level, GradLevel):
            state = STATE.get()
            excluded = state.exclude & ~AUTOGRAD | level.excluded
            grad = as_called(state).grad and level.grad
            if (excluded, grad) != (state.exclude, state.grad):
                self._scope = Scope(exclude=excluded, grad=grad)
                self._scope.__enter__()
            self._suspended = dual.open_level(), dual.enabled()
            dual.enter(level.dual)
            dual.enable(not level.suspended)

    def __exit__(self, *raised: Any) -> None:
        if isinstance(self._level, GradLevel):
            dual.enter(self._suspended[0])
            dual.enable(self._suspended[1])
            if self._scope is not None:
                self._scope.__exit__(*raised)
        self._within.__exit__(*raised)


def below(level: Level) -> _Below:
    """Returns a block in which what is called belongs to what is around a level."""
    return _Below(level)


wrapped.below = below


def interpret(op: Operator, level: Level, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Calls an operator with what the wrappers of a level of gradients hold, and wraps what it returns."""
    assert level.kind != BATCHED, f"{op.display_name}: a batched tensor reached a backend key"
    plan = plan_of(op)
    written = written_tensors(op, args, kwargs) if plan.written else ()
    for tensor in written:
        if not is_of(level, tensor):
            raise TransformError(
                f"{level.transform}: {op.display_name} would write to a tensor of shape {tensor.shape} that is not of "
                "the transformed function: what is written has a derivative, and the tensor has no place for it"
                + fix("clone() the tensor inside of the function, or use the out-of-place operator.")
            )
    cells = kernels.before_writes(op, args, kwargs) if written else ()
    kept = {name: unwrap(level, value) for name, value in kwargs.items()}
    with below(level):
        result = call(op, tuple([unwrap(level, value) for value in args]), kept)
    for cell, number in cells:
        if cell[0] == number:
            count(cell)
    payloads = {id(t._array.tensor if is_of(level, t) else t): t for t in written}

    def as_wrapper(value: Any) -> Any:
        if isinstance(value, TensorBase):
            if (given := payloads.get(id(value))) is not None:
                return given
            y = wrap_at(level, value)
            if plan.view and is_of(level, args[0]) and y._type.api.may_alias(args[0]._array, y._array):
                y._version = version_of(args[0])
            return y
        return value

    if isinstance(result, (tuple, list)):
        parts = [as_wrapper(value) for value in result]
        return plan.result_class(parts) if plan.returns > 1 else result.__class__(parts)
    return as_wrapper(result)
