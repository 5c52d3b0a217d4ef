"""Checkpointing: what a part of a program saves for the backward pass is computed again there, and not kept.

A checkpoint opens saved-tensor hooks around a function. What its nodes save becomes a place, a :class:`Holder`; when a
backward pass asks for the first of them, the function runs again, with hooks that put what is saved this time into the
places, in the same order. It stops as soon as the last place is filled.

The function's arguments are saved as a node saves them, and outside the checkpoint's own hooks. So a checkpoint inside
a checkpoint keeps nothing of what the outer one computes again, and an argument that was written to is noticed.

Reference: PyTorch's ``torch.utils.checkpoint`` with ``use_reentrant=False``, whose arguments and checks these are.
"""

from __future__ import annotations

import io
import threading
import weakref
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, ExitStack, nullcontext, suppress
from typing import Any

from tensorplay_core.autograd.modes import enable_grad
from tensorplay_core.autograd.node import Node, save, unpack
from tensorplay_core.autograd.saved import saved_tensors_hooks
from tensorplay_core.dispatch import devices
from tensorplay_core.dispatch.context import STATE, Scope
from tensorplay_core.dispatch.wrapped import levels_in
from tensorplay_core.errors import ArgumentError, AutogradError, TransformError, fix
from tensorplay_core.tensor.tensor import Tensor, TensorBase
from tensorplay_core.types.device import Device

__all__ = ["CheckpointError", "checkpoint", "checkpoint_sequential"]

Contexts = Callable[[], tuple[AbstractContextManager[Any], AbstractContextManager[Any]]]
Metadata = dict[str, Any]


class CheckpointError(AutogradError):
    """What a checkpoint computed again differs from what it computed first."""


class _Enough(BaseException):
    """Ends a recomputation whose places are all filled; no error, so nothing may catch it as one."""


class Holder:
    """The place of one tensor that a node inside a checkpoint saved.

    Attributes:
        value: the tensor, from the recomputation until it is asked for.
    """

    __slots__ = ("__weakref__", "value")

    def __init__(self) -> None:
        """See the class."""
        self.value: Tensor | None = None


class Arguments(Node):
    """Stands for the call in messages about its arguments; it is in no graph."""

    __slots__ = ()

    @property
    def name(self) -> str:
        """What messages call it."""
        return "checkpoint"


class Frame:
    """One call of a checkpoint.

    Attributes:
        places: of each tensor that was saved, its holder, if a node still has it, and what it was like.
        log: what ran, for ``debug``.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        *,
        preserve_rng_state: bool,
        again: AbstractContextManager[Any],
        compare: bool,
        early_stop: bool,
        log: io.StringIO | None,
    ) -> None:
        """See the class."""
        self.function, self.again, self.compare, self.early_stop, self.log = function, again, compare, early_stop, log
        self.args = [_kept(a) for a in args]
        self.kwargs = {name: _kept(a) for name, a in kwargs.items()}
        self.autocast = STATE.get().autocast
        self.device = devices.default_device()
        self.random = _random_states((*args, *kwargs.values())) if preserve_rng_state else {}
        self.places: list[tuple[weakref.ref[Holder], Metadata]] = []
        self._recomputing = threading.RLock()
        self._level = levels_in(v for v in (*args, *kwargs.values()) if isinstance(v, TensorBase))

    def pack(self, tensor: Tensor) -> Holder:
        """Gives a saved tensor its place.

        Raises:
            TransformError: the arguments are of a transform that will have returned when the function runs again.
        """
        if self._level is not None:
            raise TransformError(
                f"checkpoint: it is called inside of {self._level.transform}, which has returned when the backward "
                "pass computes again what is not kept" + fix("put it around the transform: checkpoint(tp.vmap(f), x).")
            )
        holder = Holder()
        self.places.append((weakref.ref(holder), _metadata(tensor)))
        return holder

    def unpack(self, holder: Holder) -> Tensor:
        """Returns the tensor of a place, and computes it again first where that has not been done."""
        with self._recomputing:
            if holder.value is None:
                self.recompute()
            value, holder.value = holder.value, None
        assert value is not None
        return value

    def recompute(self) -> None:
        """Runs the function again, and fills the places.

        Raises:
            CheckpointError: it saved another number of tensors, or others than at first.
        """
        found: list[Metadata] = []

        def pack(tensor: Tensor) -> Tensor:
            i = len(found)
            found.append(_metadata(tensor))
            if i < len(self.places) and (holder := self.places[i][0]()) is not None:
                holder.value = tensor
            if self.early_stop and len(found) == len(self.places):
                raise _Enough
            return tensor

        log = io.StringIO()
        args = [_back(a) for a in self.args]
        kwargs = {name: _back(a) for name, a in self.kwargs.items()}
        with ExitStack() as stack:
            enter = stack.enter_context
            enter(_Random(self.random))
            enter(Scope(autocast=self.autocast))
            enter(self.device)
            enter(enable_grad())
            enter(_logged(log if self.log is not None else None))
            enter(self.again)
            enter(saved_tensors_hooks(pack, lambda tensor: tensor))
            with suppress(_Enough):
                self.function(*args, **kwargs)
        self._check(found, log)

    def _check(self, found: list[Metadata], log: io.StringIO) -> None:
        story = ""
        if self.log is not None:
            story = f"\nOperators of the first run:\n{self.log.getvalue()}"
            story += f"Operators of the recomputation:\n{log.getvalue()}"
        if len(found) != len(self.places):
            raise CheckpointError(
                "checkpoint: a different number of tensors was saved when the function ran again.\n"
                f"Number of tensors saved first: {len(self.places)}\n"
                f"Number of tensors saved by the recomputation: {len(found)}{story}" + _same()
            )
        if not self.compare:
            return
        differing = [
            f"tensor at position {i}:\nsaved first: {_line(first)}\nrecomputed: {_line(again)}"
            for i, ((_, first), again) in enumerate(zip(self.places, found, strict=True))
            if first != again
        ]
        if differing:
            raise CheckpointError(
                "checkpoint: tensors that the function saved when it ran again differ from those that it saved first.\n"
                + "\n".join(differing)
                + story
                + _same()
            )


def _same() -> str:
    return fix(
        "let the function do the same at each call: no global that changes, no write to its inputs; debug=True lists "
        "the operators of both runs."
    )


def _metadata(tensor: TensorBase) -> Metadata:
    return {"shape": tensor.shape, "dtype": tensor.dtype, "device": tensor.device}


def _line(metadata: Metadata) -> str:
    return f"{metadata['dtype'].name}, shape {metadata['shape']}, on {metadata['device']}"


def _kept(value: Any) -> Any:
    """Returns an argument as a node would keep it."""
    if not isinstance(value, TensorBase) or value._type.inference:
        return value, None
    return None, save(value)


def _back(kept: tuple[Any, Any]) -> Any:
    value, saved = kept
    return value if saved is None else unpack(saved, Arguments(), "argument", True)


def _logged(log: io.StringIO | None) -> AbstractContextManager[Any]:
    if log is None:
        return nullcontext()
    from tensorplay_core.profiler import trace

    return trace(log)


def _random_states(values: Iterable[Any]) -> dict[Device, Any]:
    """Returns the states of the random numbers of the cpu and of the devices of tensors."""
    found = {v.device for v in values if isinstance(v, TensorBase) and not v.is_meta}
    return {device: _api(device).get_rng_state(device.index or 0) for device in {Device("cpu"), *found}}


def _api(device: Device) -> Any:
    return devices.entry(device.type).api


class _Random:
    """A scope in which the random numbers go on from kept states, and afterwards from where they were."""

    def __init__(self, states: dict[Device, Any]) -> None:
        self._states = states

    def __enter__(self) -> None:
        self._before = {device: _api(device).get_rng_state(device.index or 0) for device in self._states}
        self._set(self._states)

    def __exit__(self, *exception: object) -> None:
        self._set(self._before)

    def _set(self, states: dict[Device, Any]) -> None:
        for device, state in states.items():
            _api(device).set_rng_state(state, device.index or 0)


def checkpoint(
    function: Callable[..., Any],
    *args: Any,
    use_reentrant: bool = False,
    context_fn: Contexts | None = None,
    determinism_check: str = "default",
    debug: bool = False,
    early_stop: bool = True,
    preserve_rng_state: bool = True,
    **kwargs: Any,
) -> Any:
    """Calls a function, keeps nothing of what it saves for the backward pass, and computes that again there.

    It costs a second forward, and saves the memory between. The function must do the same at each call. It works under
    ``backward`` and ``grad``, with ``create_graph``, and inside another checkpoint.

    Args:
        function: what to call.
        *args: its arguments.
        use_reentrant: must be False. PyTorch's older variant, which True stands for there, runs a second backward pass
            inside the first and cannot serve ``autograd.grad``.
        context_fn: returns two context managers, one for the first run and one for the recomputation.
        determinism_check: ``"default"`` to compare shape, dtype and device of what is saved, ``"none"`` not to.
        debug: list the operators of both runs in an error; slow.
        early_stop: end the recomputation as soon as everything is there.
        preserve_rng_state: draw the same random numbers in the recomputation, of the cpu and of the arguments' devices.
        **kwargs: further arguments of the function.

    Returns:
        What the function returns.

    Raises:
        CheckpointError: in the backward pass, where the recomputation differs; every ``.grad`` is as it was.
        TransformError: an argument is a batched tensor, or of another transform that wraps, and a node saves something.

    Example:
        >>> import tensorplay as tp
        >>> from tensorplay.utils.checkpoint import checkpoint
        >>> x = tp.tensor([1.0, 2.0], requires_grad=True)
        >>> y = checkpoint(lambda t: (t * t).exp(), x)
        >>> y.sum().backward()
        >>> x.grad
        tensor([  5.4366, 218.3926])
    """
    if use_reentrant:
        raise ArgumentError(
            "checkpoint: use_reentrant=True is not supported; it cannot serve autograd.grad, nested checkpoints, or "
            "arguments without gradients" + fix("leave it out: use_reentrant=False does all that it does.")
        )
    if determinism_check not in ("default", "none"):
        raise ArgumentError(
            f"checkpoint: determinism_check is 'default' or 'none', not {determinism_check!r}"
            + fix("leave it out for 'default'.")
        )
    if not callable(function):
        raise ArgumentError(
            f"checkpoint takes a function first, not {type(function).__name__}"
            + fix("pass the function and its arguments, without calling it: checkpoint(f, x).")
        )
    if not STATE.get().grad:
        return function(*args, **kwargs)
    first, again = _contexts(context_fn)
    log = io.StringIO() if debug else None
    frame = Frame(
        function,
        args,
        kwargs,
        preserve_rng_state=preserve_rng_state,
        again=again,
        compare=determinism_check == "default",
        early_stop=early_stop,
        log=log,
    )
    with first, _logged(log), saved_tensors_hooks(frame.pack, frame.unpack):
        return function(*args, **kwargs)


def _contexts(given: Contexts | None) -> tuple[AbstractContextManager[Any], AbstractContextManager[Any]]:
    """Returns the context managers of the first run and of the recomputation."""
    if given is None:
        return nullcontext(), nullcontext()
    found = given()
    if not (isinstance(found, tuple) and len(found) == 2 and all(hasattr(c, "__enter__") for c in found)):
        raise ArgumentError(
            f"checkpoint: context_fn returned {found!r:.50}"
            + fix("return two context managers: one for the first run, one for the recomputation.")
        )
    return found


def checkpoint_sequential(functions: Any, segments: int, input: Any, use_reentrant: bool = False, **kwargs: Any) -> Any:
    """Calls functions one after another, in segments that are checkpoints each but the last.

    Args:
        functions: the functions, or a module whose ``children()`` they are.
        segments: how many segments.
        input: the argument of the first function.
        use_reentrant: must be False, as for :func:`checkpoint`.
        **kwargs: ``preserve_rng_state``.

    Returns:
        What the last function returns.

    Example:
        >>> import tensorplay as tp
        >>> from tensorplay.utils.checkpoint import checkpoint_sequential
        >>> x = tp.tensor(0.5, requires_grad=True)
        >>> checkpoint_sequential([tp.exp, tp.sin, tp.exp, tp.cos], 2, x).backward()
        >>> x.grad
        tensor(0.1455)
    """
    preserve = kwargs.pop("preserve_rng_state", True)
    if kwargs:
        raise ArgumentError(
            f"checkpoint_sequential got unexpected arguments: {', '.join(kwargs)}"
            + fix("pass preserve_rng_state alone; the other options are those of checkpoint, around each segment.")
        )
    steps = list(functions.children()) if hasattr(functions, "children") else list(functions)
    if not 1 <= segments <= max(1, len(steps)):
        count = len(steps)
        raise ArgumentError(
            f"checkpoint_sequential: {count} functions make 1 to {count} segments, not {segments}"
            + fix("pass a number in that range; a good one is about the root of the number of functions.")
        )
    size = max(1, len(steps) // segments)

    def run(start: int, end: int) -> Callable[[Any], Any]:
        def through(value: Any) -> Any:
            for step in steps[start:end]:
                value = step(value)
            return value

        return through

    last = size * (segments - 1)
    for start in range(0, last, size):
        step = run(start, start + size)
        input = checkpoint(step, input, use_reentrant=use_reentrant, preserve_rng_state=preserve)
    return run(last, len(steps))(input)
