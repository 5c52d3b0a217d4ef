"""What a sort serves: its other forms, selecting by order, and searching in what is sorted by halving."""

from __future__ import annotations

from typing import Any

from tensorplay_core.errors import DTypeError, ShapeError, ValueRangeError, fix
from tensorplay_core.ops import _generated_functional as F
from tensorplay_core.ops.shape_checks import Shaped, as_int, normalize_dim
from tensorplay_core.ops.shapes import RULES
from tensorplay_core.tensor.tensor import Tensor
from tensorplay_core.types.dtype import int32
from tensorplay_core.types.promotion import with_scalar


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
        return F.slice(values, d, place - 1, place), F.slice(indices, d, place - 1, place)
    return values.select(d, place - 1), indices.select(d, place - 1)


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
        "searchsorted",
        Shaped(sorted_sequence.shape, sorted_sequence.dtype),
        Shaped(self.shape, self.dtype),
        right=right,
        side=side,
        sorter=None if sorter is None else Shaped(sorter.shape, sorter.dtype),
    )
    if not out_int32 and side is None and sorter is None:
        return _halved(sorted_sequence, self, right)
    if sorter is not None:
        if sorter.numel() and not bool(((sorter >= 0) * (sorter < sorted_sequence.shape[-1])).all()):
            raise ValueRangeError(
                f"searchsorted: sorter has indices out of range for {sorted_sequence.shape[-1]} elements"
                + fix("tp.argsort(sequence) sorts it")
            )
        sorted_sequence = F.gather(sorted_sequence, -1, sorter)
    found = F.searchsorted(sorted_sequence, self, right=right or side == "right")
    return found.to(int32) if out_int32 else found


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
    return F.full((), value, dtype=with_scalar(like.dtype, value.__class__), device=like.device)
