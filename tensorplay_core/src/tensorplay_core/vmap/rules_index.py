"""Batching rules of indexing by tensors: the batch becomes one more index tensor, that of each element's own number.

The dims that are indexed are brought to the front first, so that the result has the dims of the index tensors after the
batch, wherever the indexed dims were; then they go to where the program expects them.
"""

from __future__ import annotations

import math
from typing import Any

from tensorplay_core.errors import ShapeError
from tensorplay_core.ops import _generated_functional_indexing as indexing
from tensorplay_core.ops import _generated_functional_pointwise as pointwise
from tensorplay_core.ops.creation import arange
from tensorplay_core.ops.indexing import nonzero
from tensorplay_core.ops.shape_checks import broadcast_shapes
from tensorplay_core.tensor.tensor import Tensor
from tensorplay_core.vmap.batching import Batch, pad
from tensorplay_core.vmap.loop import each, element


class Places:
    """Index tensors, and where they stand.

    Attributes:
        at: the logical dims that are indexed, in order.
        rest: those that are not.
        shape: the logical shape that the index tensors broadcast to.
        tensors: the index tensors, with the batch in front where ``batched`` says so.
        batched: whether one of them has the batch.
    """

    def __init__(self, batch: Batch, ndim: int) -> None:
        found = self._integers(batch)
        self.at = [place for place, _, _ in found]
        self.rest = [dim for dim in range(ndim) if dim not in self.at]
        shapes = [tuple(t.shape[1:] if b else t.shape) for _, t, b in found]
        self.shape = broadcast_shapes(batch.op.display_name, *shapes)
        self.batched = any(b for _, _, b in found)
        self.tensors: list[Any] = [pad(t, b, len(self.shape)) for _, t, b in found]

    @staticmethod
    def _integers(batch: Batch) -> list[tuple[int, Tensor, bool]]:
        """Returns index tensors with their dim; a mask is those of its elements that are true."""
        found: list[tuple[int, Tensor, bool]] = []
        dim = 0
        flags = batch.batched["indices"] or (False,) * len(batch.values["indices"])
        for index, batched in zip(batch.values["indices"], flags, strict=True):
            if index is None:
                dim += 1
            elif not index.dtype.is_bool:
                found.append((dim, index, batched))
                dim += 1
            elif batched:
                raise batch.refuse(
                    "a batched mask picks out another number of elements in each element of the batch",
                    "use tp.where(mask, x, other), which keeps the shape.",
                )
            else:
                columns = nonzero(index, as_tuple=True)
                found += [(dim + i, column, False) for i, column in enumerate(columns)]
                dim += index.ndim
        return found

    @property
    def contiguous(self) -> bool:
        """Whether the indexed dims follow each other, so that the result has the dims of the index in their place."""
        return self.at == list(range(self.at[0], self.at[0] + len(self.at)))

    def to_front(self, x: Tensor, batched: bool) -> Tensor:
        """Returns a view with the indexed dims first, after the batch."""
        order = [dim + batched for dim in (*self.at, *self.rest)]
        return x.permute((0, *order) if batched else order)

    def numbers(self, batch: Batch, x_batched: bool, like: Tensor) -> list[Any]:
        """Returns what indexes a tensor of :meth:`to_front`: the index tensors, and where it has the batch that too."""
        if not x_batched:
            return self.tensors
        if not self.batched:
            return [None, *self.tensors]
        own = arange(batch.size, device=like.device).reshape(batch.size, *[1] * len(self.shape))
        return [own, *self.tensors]

    def _back(self) -> list[int]:
        """Returns the order of dims from (index dims, rest) to what the program sees, batch not counted."""
        count, first = len(self.shape), self.at[0] if self.contiguous else 0
        before = sum(dim < first for dim in self.rest) if self.contiguous else 0
        rest = [count + i for i in range(len(self.rest))]
        return [*rest[:before], *range(count), *rest[before:]]

    def as_seen(self, x: Tensor) -> Tensor:
        """Returns a result as the program expects it, batch in front."""
        return x.permute(0, *(i + 1 for i in self._back()))

    def as_indexed(self, x: Tensor, batched: bool) -> Tensor:
        """Returns what is to be written, of the shape that the program sees, with the dims of the index first."""
        back = self._back()
        order = [back.index(i) + batched for i in range(len(back))]
        return x.permute((0, *order) if batched else order)


def index(batch: Batch) -> Any:
    """Gathers elements."""
    if _has_flag(batch):
        return each(batch)
    x, batched = batch.values["self"], batch.batched["self"]
    places = Places(batch, batch.ndim("self"))
    if not places.at:
        return batch.front("self")
    found = indexing.index(places.to_front(x, batched), places.numbers(batch, batched, x))
    return places.as_seen(found)


def put(batch: Batch, x: Tensor, values: Any, batched: bool, accumulate: bool) -> None:
    """Writes to a tensor with the batch in front at index tensors.

    Raises:
        ShapeError: what is written does not fit the places.
    """
    sizes = x.shape[1:]
    if (mask := _lone_mask(batch)) is not None and values.ndim == batched:
        own = bool(batch.batched["indices"]) and batch.batched["indices"][0]
        mask = mask.reshape(*mask.shape, *[1] * (len(sizes) + own - mask.ndim))
        values = values.reshape(*values.shape, *[1] * (x.ndim - 1))
        x.copy_(pointwise.where(mask, x + values if accumulate else values.to(x.dtype), x))
        return
    if _has_flag(batch):
        for i in range(batch.size):
            one = values.select(0, i) if batched else values
            x.select(0, i).index_put_(element(batch, i)["indices"], one, accumulate)
        return
    places = Places(batch, len(sizes))
    if not places.at:
        target = x.add_ if accumulate else x.copy_
        target(pad(values, batched, len(sizes)))
        return
    back = places._back()
    inside = (*places.shape, *(sizes[dim] for dim in places.rest))
    seen = tuple(inside[i] for i in back)
    if values.ndim - batched > len(seen):
        raise ShapeError(f"index_put_: values of shape {values.shape[batched:]} do not broadcast to {seen}")
    values = pad(values, batched, len(seen)).expand((batch.size, *seen) if batched else seen)
    values = places.as_indexed(values, batched)
    places.to_front(x, True).index_put_(places.numbers(batch, True, x), values, accumulate)


def _has_flag(batch: Batch) -> bool:
    """Whether a mask without dims is among the indices: a new dim of one element, or of none."""
    return any(t is not None and t.dtype.is_bool and not t.ndim for t in batch.values["indices"])


def _lone_mask(batch: Batch) -> Any:
    """Returns a mask that is the only index, so that one value for all of it needs no places."""
    indices = batch.values["indices"]
    alone = len(indices) == 1 and indices[0] is not None and indices[0].dtype.is_bool and indices[0].ndim
    return indices[0] if alone else None


def index_backward(batch: Batch) -> Any:
    """Zeros with a gradient added at index tensors."""
    grad = batch.values["grad"]
    zeros = grad.new_zeros((batch.size, *batch.values["input_sizes"]))
    put(batch, zeros, grad, batch.batched["grad"], True)
    return zeros


def searchsorted(batch: Batch) -> Any:
    """Where values would be inserted into sorted rows, which each element of the batch has its own of."""
    values = batch.front("self")
    sorter = batch.values.get("sorter")
    alone = batch.ndim("sorted_sequence") == 1
    own = batch.batched["sorted_sequence"] or batch.batched.get("sorter", False)
    if alone and not own:
        return batch.again(self=values)
    changes: dict[str, Any] = {"sorted_sequence": batch.front("sorted_sequence")}
    if sorter is not None:
        changes["sorter"] = batch.front("sorter")
    if not alone:
        return batch.again(self=values, **changes)
    flat = values.reshape(batch.size, math.prod(values.shape[1:]))
    return batch.again(self=flat, **changes).reshape(values.shape)
