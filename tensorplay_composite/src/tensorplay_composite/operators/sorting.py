"""What a sort serves: its other forms, selecting by order, and searching in what is sorted by halving."""

from __future__ import annotations

from typing import Any

from tensorplay_core.dispatch.integers import default_integer, has_dtype
from tensorplay_core.errors import DTypeError, ShapeError, ValueRangeError, fix
from tensorplay_core.ops import _generated_functional as F
from tensorplay_core.ops.creation import tensor
from tensorplay_core.ops.shape_checks import Shaped, as_int, normalize_dim
from tensorplay_core.ops.shapes import RULES
from tensorplay_core.tensor.tensor import Tensor
from tensorplay_core.tensor.wrappers import every_element
from tensorplay_core.types.dtype import float32, float64, int32, int64
from tensorplay_core.types.promotion import with_scalar


def sort(self: Tensor, dim: int = -1, descending: bool = False) -> tuple[Tensor, Tensor]:
    """Batcher's bitonic network of exchanges, which a device runs side by side; the place decides between equal ones.

    K. E. Batcher, "Sorting networks and their applications", 1968, https://doi.org/10.1145/1468075.1468121.
    """
    d = normalize_dim("sort", dim, self.ndim)
    integer = F.arange(0, device=self.device).dtype
    if not self.ndim or not self.numel():
        return self.clone(), F.zeros(self.shape, dtype=integer, device=self.device)
    rows = self.movedim(d, -1)
    size, lead = rows.shape[-1], rows.shape[:-1]
    padded = 1 << (size - 1).bit_length()
    known = rows == rows
    values = F.where(known, rows.to(integer if self.dtype.is_bool else self.dtype), 0)
    groups = F.where(known, 0, -1 if descending else 1).to(integer)  # NaN before or behind the numbers
    if padded > size:
        rest = (*lead, padded - size)
        values = F.cat([values, F.zeros(rest, dtype=values.dtype, device=self.device)], -1)
        groups = F.cat([groups, F.full(rest, 2, dtype=integer, device=self.device)], -1)
    keys = [groups, values, F.arange(padded, device=self.device).expand((*lead, padded))]
    width = 2
    while width <= padded:
        step = width // 2
        while step:
            keys = _exchanged(keys, width, step, descending)
            step //= 2
        width *= 2
    indices = F.slice(keys[2], -1, 0, size)
    return F.gather(rows, -1, indices).movedim(-1, d).contiguous(), indices.movedim(-1, d).contiguous()


def _exchanged(keys: list[Tensor], width: int, step: int, descending: bool) -> list[Tensor]:
    """Exchanges the elements that are ``step`` apart and in the wrong order; every second ``width`` is turned."""
    shape = keys[0].shape
    blocks = shape[-1] // (2 * step)
    pairs = [key.reshape((*shape[:-1], blocks, 2, step)) for key in keys]
    first, second = [pair.select(-2, 0) for pair in pairs], [pair.select(-2, 1) for pair in pairs]
    further = first[1] < second[1] if descending else first[1] > second[1]
    behind = F.where(first[1] == second[1], first[2] > second[2], further)
    behind = F.where(first[0] == second[0], behind, first[0] > second[0])
    run = width // (2 * step)
    turns = tensor([[True], [False]], device=keys[0].device).expand((max(blocks // (2 * run), 1), 2, run))
    up = F.slice(turns.reshape((-1, 1)), 0, 0, blocks)
    swap = behind == up
    return [
        F.stack([F.where(swap, b, a), F.where(swap, a, b)], -2).reshape(shape)
        for a, b in zip(first, second, strict=True)
    ]


def topk(self: Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> tuple[Tensor, Tensor]:
    """The first of what is sorted."""
    RULES["topk"]("topk", Shaped(self.shape, self.dtype), k, dim, largest, sorted)
    values, indices = F.sort(self, dim, largest)
    if not self.ndim:
        return values, indices
    return F.slice(values, dim, 0, k).clone(), F.slice(indices, dim, 0, k).clone()


def bincount(self: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Tensor:
    """Ones, or weights, added up where the numbers say."""
    given = None if weights is None else Shaped(weights.shape, weights.dtype)
    RULES["bincount"]("bincount", Shaped(self.shape, self.dtype), given, minlength)
    count = self.numel()
    if count and (least := int(F.min(self).item())) < 0:
        raise ValueRangeError(f"bincount: counts numbers from 0 on, and {least} is among them" + fix("x - x.min()"))
    length = max(int(F.max(self).item()) + 1 if count else 0, as_int("bincount", minlength, "minlength"))
    if weights is None:
        weights = F.ones(self.shape, dtype=F.arange(0, device=self.device).dtype, device=self.device)
    elif weights.dtype not in (float32, float64):
        weights = weights.to(float64 if has_dtype(self.device, float64) else float32)
    return F.index_backward(weights, (length,), [self])


def sort_stable(self: Tensor, *, stable: bool | None, dim: int = -1, descending: bool = False) -> tuple[Tensor, Tensor]:
    """Every sort is stable."""
    return F.sort(self, dim, descending)


def argsort(self: Tensor, dim: int = -1, descending: bool = False) -> Tensor:
    """The indices of a sort."""
    return F.sort(self, dim, descending)[1]


def argsort_stable(self: Tensor, *, stable: bool, dim: int = -1, descending: bool = False) -> Tensor:
    """Every sort is stable."""
    return F.sort(self, dim, descending)[1]


def msort(self: Tensor) -> Tensor:
    """Along the first dim."""
    return F.sort(self, 0)[0]


def kthvalue(self: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """One place of what is sorted."""
    d, place = normalize_dim("kthvalue", dim, self.ndim), as_int("kthvalue", k, "k")
    size = self.shape[d] if self.ndim else 1
    if not 1 <= place <= size:
        raise ShapeError(
            f"kthvalue: selected number k out of range for dim {dim} of a tensor of shape {self.shape}: k is {place}"
            + fix(f"k from 1 to {size}" if size else "that dim is empty: check x.shape before")
        )
    values, indices = F.sort(self, dim)
    if not self.ndim:
        return values, indices
    if keepdim:
        values, indices = F.slice(values, d, place - 1, place), F.slice(indices, d, place - 1, place)
    else:
        values, indices = values.select(d, place - 1), indices.select(d, place - 1)
    return values.clone(), indices.clone()  # else all that was sorted stays in memory


def searchsorted_tensor(
    sorted_sequence: Tensor,
    self: Tensor,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Tensor | None = None,
) -> Tensor:
    """The forms with other words for the same, and the search by halving for a device that has none."""
    RULES["searchsorted"](
        "searchsorted.Tensor",
        Shaped(sorted_sequence.shape, sorted_sequence.dtype),
        Shaped(self.shape, self.dtype),
        right=right,
        side=side,
        sorter=None if sorter is None else Shaped(sorter.shape, sorter.dtype),
    )
    if not out_int32 and side is None and sorter is None:
        return _halved(sorted_sequence, self, right)
    if sorter is not None:
        size = sorted_sequence.shape[-1]
        if sorter.numel() and not sorter.is_meta and not _below(every_element(sorter), size):
            raise ValueRangeError(
                f"searchsorted: sorter has indices out of range for {size} elements"
                + fix("tp.argsort(sequence) sorts it")
            )
        sorted_sequence = F.gather(sorted_sequence, -1, sorter)
    found = F.searchsorted(sorted_sequence, self, right=right or side == "right")
    return found.to(int32) if out_int32 else found


def _below(places: Tensor, size: int) -> bool:
    return bool(((places >= 0) * (places < size)).all())


def _halved(sequence: Tensor, values: Tensor, right: bool) -> Tensor:
    """How many elements stand before each value, found bit by bit from the highest."""
    flat = values.reshape(-1) if sequence.ndim == 1 else values
    size = sequence.shape[-1]
    count = F.zeros(flat.shape, dtype=F.arange(0, device=values.device).dtype, device=values.device)
    for bit in reversed(range(size.bit_length() if flat.numel() else 0)):
        more = count + (1 << bit)
        last = F.gather(sequence, -1, F.minimum(more, size) - 1)
        stands_behind = (last > flat) if right else (last >= flat)
        count = F.where(F.where(stands_behind, False, more <= size), more, count)
    return count.reshape(values.shape)


def searchsorted_scalar(
    sorted_sequence: Tensor,
    self: Any,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Tensor | None = None,
) -> Tensor:
    """Of one number, as a tensor without dims."""
    value = _number("searchsorted", self, sorted_sequence)
    return F.searchsorted(sorted_sequence, value, out_int32=out_int32, right=right, side=side, sorter=sorter)


def bucketize_tensor(self: Tensor, boundaries: Tensor, *, out_int32: bool = False, right: bool = False) -> Tensor:
    """A search in a sequence of one dim."""
    if boundaries.ndim != 1:
        raise ShapeError(f"bucketize: boundaries must have one dim, and have shape {boundaries.shape}")
    return F.searchsorted(boundaries, self, out_int32=out_int32, right=right)


def bucketize_scalar(self: Any, boundaries: Tensor, *, out_int32: bool = False, right: bool = False) -> Tensor:
    """Of one number, as a tensor without dims."""
    value = _number("bucketize", self, boundaries)
    return bucketize_tensor(value, boundaries, out_int32=out_int32, right=right)


def _number(op: str, value: Any, like: Tensor) -> Tensor:
    """Returns a number as a tensor of the dtype that it has in common with the sequence."""
    if like.dtype.is_complex or value.__class__ is complex:
        raise DTypeError(f"{op}: complex numbers have no order" + fix("compare .abs() or .real()."))
    dtype = with_scalar(like.dtype, value.__class__)
    return F.full((), value, dtype=default_integer(like.device) if dtype is int64 else dtype, device=like.device)
