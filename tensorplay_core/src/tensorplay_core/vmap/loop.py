"""What serves an operator without a batching rule: a loop over the batch. Right, slow, and said once."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from tensorplay_core.dispatch.operator import Operator
from tensorplay_core.dispatch.wrapped import Level
from tensorplay_core.ops import _generated_functional as F
from tensorplay_core.ops.arguments import plan_of
from tensorplay_core.ops.host_fallback import level_of_the_caller
from tensorplay_core.tensor.tensor import Tensor, TensorBase
from tensorplay_core.vmap.batching import Batch


class VmapLoopWarning(UserWarning):
    """An operator has no batching rule, so it is called once for each element of the batch."""


UNRULED: ContextVar[Level | None] = ContextVar("tensorplay_vmap_unruled", default=None)
"""A level around a call of an operator without a rule, which cannot draw the random numbers that the level wants."""
_said: set[Operator] = set()


def loop(batch: Batch) -> Any:
    """Calls the operator for each element of the batch, and stacks the results."""
    op = batch.op
    if op not in _said:
        warnings.warn(
            f"vmap: {op.display_name} has no batching rule, and is called once for each element of the batch; give it "
            f'one with tp.library.register_vmap("{op.qualified_name}", rule)',
            VmapLoopWarning,
            stacklevel=level_of_the_caller(),
        )
        _said.add(op)
    with drawing_only("different", batch.level):
        return each(batch)


@contextmanager
def drawing_only(randomness: str, level: Level) -> Iterator[None]:
    """A block in which random numbers are drawn only if that is what a level means."""
    token = UNRULED.set(UNRULED.get() if level.randomness == randomness else level)
    try:
        yield
    finally:
        UNRULED.reset(token)


def each(batch: Batch) -> Any:
    """Calls the operator for each element of the batch, as rules do for what is too rare for a better way."""
    if not batch.size:
        return _of_none(batch)
    found = [batch.again(**element(batch, i)) for i in range(batch.size)]
    if plan_of(batch.op).writes:
        return batch.values[plan_of(batch.op).positional[0].name]
    return _stacked(found)


def element(batch: Batch, i: int) -> dict[str, Any]:
    """Returns the arguments of one element of the batch."""

    def one(value: Any, batched: Any) -> Any:
        if batched.__class__ is tuple:
            return tuple(map(one, value, batched))
        return value.select(0, i) if batched else value

    return {name: one(value, batch.batched[name]) for name, value in batch.values.items()}


def _stacked(found: list[Any]) -> Any:
    first = found[0]
    if isinstance(first, TensorBase):
        return F.stack(found, 0)
    if isinstance(first, (tuple, list)):
        return [_stacked([one[i] for one in found]) for i in range(len(first))]
    return first


def _of_none(batch: Batch) -> Any:
    """Returns results without elements, of the shape that one made of zeros has."""

    def zeros(value: Any, batched: Any) -> Any:
        if batched.__class__ is tuple:
            return tuple(map(zeros, value, batched))
        return value.new_zeros(value.shape[1:]) if batched else value

    def none(value: Any) -> Any:
        if isinstance(value, (tuple, list)):
            return [none(item) for item in value]
        return value.new_zeros((0, *value.shape)) if isinstance(value, Tensor) else value

    return none(batch.again(**{name: zeros(value, batch.batched[name]) for name, value in batch.values.items()}))
