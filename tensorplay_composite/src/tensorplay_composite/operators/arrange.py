"""Repeating, turning, joining and dividing, in terms of views, ``cat`` and ``index``.

All but ``roll`` and the first ``repeat_interleave`` run with autograd active, so that their gradients are those of the
operators that they call.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from tensorplay_core.errors import ShapeError, ValueRangeError, fix
from tensorplay_core.ops import _generated_functional as F
from tensorplay_core.ops.shape_checks import Shaped, as_int, as_ints, normalize_dim, normalize_dims
from tensorplay_core.ops.shapes_arrange import (
    check_repeats,
    repeated,
    roll_steps,
    tensor_split_sizes,
)
from tensorplay_core.tensor.tensor import Tensor

Split = Callable[..., Sequence[Tensor]]


# ------------------------------------------------------------------------------------------------------------ repeating


def repeat(self: Tensor, repeats: Sequence[int]) -> Tensor:
    """A copy, as a whole one after the other along each dim."""
    return _repeated("repeat", self, repeats)


def tile(self: Tensor, dims: Sequence[int]) -> Tensor:
    """The same, of the last dims where not all have a number."""
    counts = as_ints("tile", dims, "dims")
    return _repeated("tile", self, (1,) * (self.ndim - len(counts)) + counts)


def _repeated(op: str, self: Tensor, repeats: Sequence[int]) -> Tensor:
    """Repeats by expanding a dim of size 1 before each, so that one copy does it all."""
    counts, sizes = repeated(op, self.shape, repeats)
    before: list[int] = []
    after: list[int] = []
    for count, size in zip(counts, sizes, strict=True):
        if count != 1:
            before.append(1)
            after.append(count)
        before.append(size)
        after.append(size)
    shape = tuple(count * size for count, size in zip(counts, sizes, strict=True))
    whole = self.reshape(before).expand(after).clone()
    return whole if whole.shape == shape else whole.reshape(shape)


def repeat_interleave(repeats: Tensor, *, output_size: int | None = None) -> Tensor:
    """Each index as often as its number says, which only the host can count out."""
    if repeats.is_meta and output_size is not None:
        return F.empty((output_size,), dtype=F.arange(0, device="meta").dtype, device=repeats.device)
    numbers = repeats.reshape(-1).tolist()
    check_repeats(numbers, output_size)
    places = [place for place, count in enumerate(numbers) for _ in range(count)]
    return F.tensor(places, dtype=F.arange(0, device=repeats.device).dtype, device=repeats.device)


def repeat_interleave_by(
    self: Tensor, repeats: Tensor, dim: int | None = None, *, output_size: int | None = None
) -> Tensor:
    """Slices picked by the indices that the numbers make."""
    op = "repeat_interleave"
    self, d = _one_dim_at_least(op, self, dim)
    size = self.shape[d]
    if repeats.ndim > 1 or repeats.numel() not in (1, size):
        raise ShapeError(
            f"{op}: repeats must be one number, or one for each of the {size} elements along dim {d}, and has shape "
            f"{repeats.shape}"
        )
    numbers = repeats.reshape(-1)
    if numbers.numel() != size:
        numbers = numbers.expand((size,))
    return F.index_select(self, d, F.repeat_interleave(numbers, output_size=output_size))


def repeat_interleave_int(
    self: Tensor, repeats: int, dim: int | None = None, *, output_size: int | None = None
) -> Tensor:
    """Repeats by expanding a dim of size 1 behind the one that grows."""
    op = "repeat_interleave"
    self, d = _one_dim_at_least(op, self, dim)
    shape, count = self.shape, as_int(op, repeats, "repeats")
    check_repeats([count * shape[d]] if count >= 0 else [count], output_size)
    spread = self.unsqueeze(d + 1).expand((*shape[: d + 1], count, *shape[d + 1 :])).clone()
    return spread.reshape((*shape[:d], shape[d] * count, *shape[d + 1 :]))


def _one_dim_at_least(op: str, self: Tensor, dim: int | None) -> tuple[Tensor, int]:
    """Returns a tensor that has a dim, and which one is meant: its only one where none is given."""
    if dim is None:
        return self.reshape(self.numel()), 0
    d = normalize_dim(op, dim, self.ndim)
    return (self, d) if self.ndim else (self.reshape(1), 0)


# -------------------------------------------------------------------------------------------------------------- turning


def roll(self: Tensor, shifts: int | Sequence[int], dims: int | Sequence[int] = ()) -> Tensor:
    """A copy with its two ends exchanged, along each dim."""
    steps = roll_steps("roll", Shaped(self.shape), shifts, dims)
    if steps is None:  # all elements as one dim
        flat = self.reshape(-1)
        (by,) = as_ints("roll", shifts, "shifts")
        return _rolled(flat, 0, by).reshape(self.shape)
    result = self.clone()
    for dim, by in steps.items():
        result = _rolled(result, dim, by)
    return result


def _rolled(x: Tensor, dim: int, by: int) -> Tensor:
    size = x.shape[dim]
    cut = size - by % size if size else 0
    if cut == size:
        return x.clone()
    return F.cat([F.slice(x, dim, cut, size), F.slice(x, dim, 0, cut)], dim)


def rot90(self: Tensor, k: int = 1, dims: Sequence[int] = (0, 1)) -> Tensor:
    """A copy turned in a plane: two flips, or one and a transposition."""
    if self.ndim < 2:
        raise ShapeError(f"rot90: expected a tensor of at least 2 dims, and it has {self.ndim}")
    if len(dims) != 2:
        raise ShapeError(f"rot90: dims must name the 2 dims of a plane, and are {tuple(dims)}")
    first, second = normalize_dims("rot90", dims, self.ndim, name="dims")
    turns = as_int("rot90", k, "k") % 4
    if turns == 0:
        return self.clone()
    if turns == 2:
        return self.flip((first, second))
    # The flip comes last: it is the copy, and the result has memory of its own.
    return self.transpose(first, second).flip((first,) if turns == 1 else (second,))


def fliplr(self: Tensor) -> Tensor:
    """A copy with left and right exchanged."""
    if self.ndim < 2:
        raise ShapeError(f"fliplr: expected a tensor of at least 2 dims, and it has {self.ndim}" + fix("use flip(0)"))
    return self.flip((1,))


def flipud(self: Tensor) -> Tensor:
    """A copy with up and down exchanged."""
    if not self.ndim:
        raise ShapeError("flipud: expected a tensor of at least 1 dim, and it has none")
    return self.flip((0,))


# ---------------------------------------------------------------------------------------------------------------- views


def broadcast_to(self: Tensor, size: Sequence[int]) -> Tensor:
    """A view of another shape."""
    return self.expand(size)


def ravel(self: Tensor) -> Tensor:
    """All elements as one dim."""
    return self.reshape((-1,)) if self.numel() else self.reshape((0,))


def atleast_1d(self: Tensor) -> Tensor:
    """At least one dim."""
    return self.expand(self.shape) if self.ndim else self.reshape(1)


def atleast_2d(self: Tensor) -> Tensor:
    """At least two dims, new ones first."""
    return self.unsqueeze(0) if self.ndim == 1 else self.expand(self.shape) if self.ndim else self.reshape((1, 1))


def atleast_3d(self: Tensor) -> Tensor:
    """At least three dims, new ones around."""
    if self.ndim > 2:
        return self.expand(self.shape)
    shapes = {0: (1, 1, 1), 1: (1, *self.shape, 1), 2: (*self.shape, 1)}
    return self.reshape(shapes[self.ndim])


# -------------------------------------------------------------------------------------------------------------- joining


def _some(op: str, tensors: Sequence[Tensor]) -> None:
    if not tensors:
        raise ValueRangeError(f"{op}: expected a non-empty list of tensors")


def hstack(tensors: Sequence[Tensor]) -> Tensor:
    """Side by side."""
    _some("hstack", tensors)
    parts = [atleast_1d(one) if not one.ndim else one for one in tensors]
    return F.cat(parts, 0 if parts[0].ndim == 1 else 1)


def vstack(tensors: Sequence[Tensor]) -> Tensor:
    """Below each other."""
    _some("vstack", tensors)
    return F.cat([one if one.ndim > 1 else atleast_2d(one) for one in tensors], 0)


def dstack(tensors: Sequence[Tensor]) -> Tensor:
    """Behind each other."""
    _some("dstack", tensors)
    return F.cat([one if one.ndim > 2 else atleast_3d(one) for one in tensors], 2)


def column_stack(tensors: Sequence[Tensor]) -> Tensor:
    """As columns."""
    _some("column_stack", tensors)
    return F.cat([one if one.ndim > 1 else one.reshape((one.numel(), 1)) for one in tensors], 1)


# ------------------------------------------------------------------------------------------------------------- dividing


def tensor_split(self: Tensor, sections: int, dim: int = 0) -> Sequence[Tensor]:
    """So many parts, the first of them larger where they cannot be equal."""
    d, sizes = tensor_split_sizes("tensor_split", self.shape, sections, dim)
    ends = list(itertools.accumulate(sizes))
    return tuple([F.slice(self, d, end - size, end) for size, end in zip(sizes, ends, strict=True)])


def tensor_split_at(self: Tensor, indices: Sequence[int], dim: int = 0) -> Sequence[Tensor]:
    """The parts between indices."""
    return _cut("tensor_split", self, indices, dim)


def _cut(op: str, self: Tensor, indices: Sequence[int], dim: int) -> Sequence[Tensor]:
    if not self.ndim:
        raise ShapeError(
            f"{op}: expected a tensor of at least 1 dim, and it has none" + fix("reshape it to (1,) first")
        )
    d = normalize_dim(op, dim, self.ndim)
    starts = [0, *as_ints(op, indices, "indices")]
    return tuple(F.slice(self, d, start, end) for start, end in zip(starts, [*starts[1:], self.shape[d]], strict=True))


def hsplit(self: Tensor, where: int | Sequence[int]) -> Sequence[Tensor]:
    """Parts along dim 1."""
    return _split("hsplit", self, where, 1 if self.ndim != 1 else 0, 1)


def vsplit(self: Tensor, where: int | Sequence[int]) -> Sequence[Tensor]:
    """Parts along dim 0."""
    return _split("vsplit", self, where, 0, 2)


def dsplit(self: Tensor, where: int | Sequence[int]) -> Sequence[Tensor]:
    """Parts along dim 2."""
    return _split("dsplit", self, where, 2, 3)


def _split(op: str, self: Tensor, where: int | Sequence[int], dim: int, least: int) -> Sequence[Tensor]:
    if self.ndim < least:
        raise ShapeError(f"{op}: expected a tensor of at least {least} dim{'s' * (least > 1)}, and it has {self.ndim}")
    if not isinstance(where, int):
        return _cut(op, self, where, dim)
    size = self.shape[dim]
    if where < 1 or size % where:
        choices = [n for n in range(1, min(size, 64) + 1) if size % n == 0]
        raise ValueRangeError(
            f"{op}: dim {dim} of size {size} does not divide into {where} equal parts"
            + fix(f"choose one of {choices}, or use tensor_split, whose parts need not be equal")
        )
    return F.split_with_sizes(self, (size // where,) * where, dim)


KERNELS: dict[str, Callable[..., Any]] = {
    "repeat": repeat,
    "tile": tile,
    "repeat_interleave.Tensor": repeat_interleave,
    "repeat_interleave.self_Tensor": repeat_interleave_by,
    "repeat_interleave.self_int": repeat_interleave_int,
    "roll": roll,
    "rot90": rot90,
    "fliplr": fliplr,
    "flipud": flipud,
    "broadcast_to": broadcast_to,
    "ravel": ravel,
    "atleast_1d": atleast_1d,
    "atleast_2d": atleast_2d,
    "atleast_3d": atleast_3d,
    "hstack": hstack,
    "vstack": vstack,
    "dstack": dstack,
    "column_stack": column_stack,
    "tensor_split.sections": tensor_split,
    "tensor_split.indices": tensor_split_at,
    **dict.fromkeys(("hsplit.int", "hsplit.array"), hsplit),
    **dict.fromkeys(("vsplit.int", "vsplit.array"), vsplit),
    **dict.fromkeys(("dsplit.int", "dsplit.array"), dsplit),
}
"""Name in the contract to Composite kernel."""
