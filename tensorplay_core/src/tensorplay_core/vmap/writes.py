"""Batching rules of operators that write to their first argument, and of random ones and new tensors.

Those that only have an in-place form are here; ``add_`` and its like compute out of place and then copy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tensorplay_core.dispatch.key_set import KeySet
from tensorplay_core.dispatch.keys import DispatchKey
from tensorplay_core.dispatch.operator import Operator
from tensorplay_core.dispatch.wrapped import BATCHED, INNERMOST, Level, levels_in
from tensorplay_core.errors import TransformError, fix
from tensorplay_core.ops import _generated_functional as F
from tensorplay_core.ops.arguments import plan_of, tensors_in
from tensorplay_core.ops.call import call, run
from tensorplay_core.ops.kernels import check_inplace
from tensorplay_core.ops.levels import below
from tensorplay_core.tensor.tensor import Tensor
from tensorplay_core.tensor.views import bump
from tensorplay_core.tensor.wrappers import is_of, wrap_at
from tensorplay_core.vmap.batching import Batch, pad, results
from tensorplay_core.vmap.fresh import target
from tensorplay_core.vmap.loop import UNRULED
from tensorplay_core.vmap.rules_index import put

Writer = Callable[[Batch, Tensor], Any]


def copy(batch: Batch, x: Tensor) -> None:
    """``copy_``: the source broadcasts."""
    x.copy_(pad(batch.values["src"], batch.batched["src"], x.ndim - 1))


def same_for_all(batch: Batch, x: Tensor) -> None:
    """``fill_``, ``zero_``: numbers alone."""
    batch.again(self=x)


def index_put(batch: Batch, x: Tensor) -> None:
    """``index_put_``."""
    put(batch, x, batch.values["values"], batch.batched["values"], bool(batch.values["accumulate"]))


def pointwise(batch: Batch, x: Tensor) -> None:
    """``mul_`` and its like: the operator itself, which keeps what its gradient needs of the value before."""
    names = [name for name in batch.tensors() if name != "self"]
    batch.again(self=x, **{name: batch.padded(name, x.ndim - 1) for name in names})


WRITERS: dict[str, Writer] = {
    "copy_": copy,
    "fill_": same_for_all,
    "zero_": same_for_all,
    "index_put_": index_put,
}


def writing(op: Operator, writer: Writer) -> Callable[..., Any]:
    """Returns the Vmap kernel of an operator that writes to its first argument."""

    def kernel(keys: KeySet, self: Tensor, /, *args: Any, **kwargs: Any) -> Tensor:
        level = levels_in(tensors_in((self, *args), kwargs))
        assert level is not None
        if writer is not same_for_all:  # a dim too many would be taken for the batch
            check_inplace(op, (self, *args), kwargs)
        batch = Batch(op, level, (self, *args), kwargs)
        x = target(op, level, self, batched=batch.any)
        with below(level):
            if is_of(level, self) and self._array.batched:
                writer(batch, x)
            else:
                batch.again()
        bump(self)
        return self

    return kernel


# ----------------------------------------------------------------------------------------------- random, new tensors


def creation(op: Operator) -> Callable[..., Any]:
    """Returns the kernel at VmapMode of an operator that makes tensors: they belong to the innermost level.

    Under ``vmap`` there is one for all elements of the batch, see :mod:`fresh`.
    """

    def kernel(keys: KeySet, *args: Any, **kwargs: Any) -> Any:
        level = INNERMOST.get()
        if level is None:
            return run(op, keys.below(DispatchKey.VmapMode), args, kwargs)
        with below(level):
            return wrap_at(level, call(op, args, kwargs))

    return kernel


def copied(op: Operator) -> Callable[..., Any]:
    """Returns the kernel at VmapMode of an operator that copies: a copy is the function's own, whatever it is of."""
    made = creation(op)

    def kernel(keys: KeySet, *args: Any, **kwargs: Any) -> Any:
        level = INNERMOST.get()
        if level is None or _is_of_or_above(level, args):
            return run(op, keys.below(DispatchKey.VmapMode), args, kwargs)
        return made(keys, *args, **kwargs)

    return kernel


def _is_of_or_above(level: Level, args: tuple[Any, ...]) -> bool:
    """Whether a tensor is of a level or one inside of it, so that the call comes to that one first."""
    highest = levels_in(tensors_in(args, {}))
    return highest is not None and highest.number >= level.number


def random(op: Operator) -> Callable[..., Any]:
    """Returns the kernel at VmapMode of a random operator: what ``randomness`` says."""

    def kernel(keys: KeySet, *args: Any, **kwargs: Any) -> Any:
        level = INNERMOST.get()
        if (around := UNRULED.get()) is not None:
            raise _not_meant(op) if around.randomness == "error" else _without_rule(op, around.randomness)
        if level is None:
            return run(op, keys.below(DispatchKey.VmapMode), args, kwargs)
        if level.kind != BATCHED:  # of gradients, which have nothing to do with it
            if _is_of_or_above(level, args):
                return run(op, keys.below(DispatchKey.VmapMode), args, kwargs)
            with below(level):
                found = call(op, args, kwargs)
            return found if plan_of(op).writes else results(found, lambda r: wrap_at(level, r))
        return _drawn(op, level, args, kwargs)

    return kernel


def _drawn(op: Operator, level: Level, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if level.randomness == "error":
        raise _not_meant(op)
    batch = Batch(op, level, args, kwargs)
    different = level.randomness == "different"
    if plan_of(op).writes:
        return _draw_into(op, level, batch, args, different)
    with below(level):
        if not different and not batch.any:
            return results(batch.again(), lambda r: wrap_at(level, r))
        drawn = _different(batch) if different else _same(batch)
    return results(drawn, lambda r: wrap_at(level, r, batched=True))


def _not_meant(op: Operator) -> TransformError:
    return TransformError(
        f"vmap: {op.display_name} is random, and vmap cannot know whether each element of the batch is meant "
        "to get numbers of its own" + fix("pass randomness='different' or randomness='same' to vmap.")
    )


def _without_rule(op: Operator, randomness: str) -> TransformError:
    numbers = "the same numbers" if randomness == "different" else "other numbers"
    return TransformError(
        f"vmap: {op.display_name} would draw {numbers} for each element of the batch, which randomness={randomness!r} "
        "does not mean, because the operator that calls it has no batching rule" + fix("give that operator one.")
    )


def _draw_into(op: Operator, level: Level, batch: Batch, args: tuple[Any, ...], different: bool) -> Any:
    """Fills a tensor with random numbers."""
    self, batched = args[0], batch.any or different
    x = target(op, level, self, batched=batched) if batched or is_of(level, self) else self
    with below(level):
        if not is_of(level, self) or not self._array.batched:
            batch.again(self=x)
        elif different:
            pointwise(batch, x)
        else:
            if any(batch.batched[name] for name in batch.tensors() if name != "self"):
                raise _not_the_same(batch)
            drawn = batch.again(self=x.new_empty(x.shape[1:]))
            x.copy_(drawn)
    bump(self)
    return self


def _different(batch: Batch) -> Any:
    """Draws for every element of the batch."""
    values, op = batch.values, batch.op
    if "size" in values:
        return batch.again(size=(batch.size, *values["size"]))
    if op.name == "randperm":
        return F.stack([batch.again() for _ in range(batch.size)], 0)
    names = batch.tensors()
    if op.name == "multinomial":
        x = batch.front("self")
        rows = x.reshape(batch.size * (x.shape[1] if x.ndim == 3 else 1), x.shape[-1])
        found = batch.again(self=rows)
        return found.reshape(*x.shape[:-1], found.shape[-1])
    ndim = max(map(batch.ndim, names))
    return batch.again(**{name: batch.with_front(batch.padded(name, ndim), batch.batched[name]) for name in names})


def _same(batch: Batch) -> Any:
    """Draws once, for batched tensors whose values do not decide about the numbers."""
    if batch.op.name == "native_dropout":
        x = batch.values["input"]
        scaled, mask = batch.again(input=x.new_ones(x.shape[1:]))
        return x * scaled, mask.unsqueeze(0).expand(batch.size, *mask.shape)
    if batch.op.qualified_name == "tp::bernoulli.p":
        x = batch.values["self"]
        one = batch.again(self=x.new_empty(x.shape[1:]))
        return one.unsqueeze(0).expand(batch.size, *one.shape)
    raise _not_the_same(batch)


def _not_the_same(batch: Batch) -> TransformError:
    return batch.refuse(
        "the probabilities are batched, so the numbers of the elements of the batch cannot be the same",
        "pass randomness='different'.",
    )
