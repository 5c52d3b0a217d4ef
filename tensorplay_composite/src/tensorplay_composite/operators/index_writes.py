"""Slices and elements put, added or combined at the places of an index.

All but ``scatter_reduce`` run with autograd active and are ``index_put`` with an index that spans the other dims, so
their gradients are its own. The in-place forms write where they are told to, without a copy of the whole.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tensorplay_core.errors import DimError, DTypeError, ShapeError, fix
from tensorplay_core.ops import _generated_functional as F
from tensorplay_core.ops._generated_schemas_indexing import INDEX_PUT_
from tensorplay_core.ops.combining import combine, flat_places, occurrences
from tensorplay_core.ops.direct import written
from tensorplay_core.ops.shape_checks import Shaped, broadcast_shapes, normalize_dim
from tensorplay_core.ops.shapes_scatter import check_integers, check_scatter
from tensorplay_core.tensor.tensor import Tensor
from tensorplay_core.types.dtype import bool_

Key = list[Tensor | None]


def argwhere(self: Tensor) -> Tensor:
    """The places of what is not zero."""
    return F.nonzero(self)  # type: ignore[return-value]


def take_along_dim(self: Tensor, indices: Tensor, dim: int | None = None) -> Tensor:
    """A gather of two tensors that broadcast in the other dims."""
    op = "take_along_dim"
    check_integers(op, "indices", indices.dtype)
    if dim is None:
        return F.gather(self.reshape(self.numel()), 0, indices.reshape(indices.numel()))
    if self.ndim != indices.ndim:
        raise ShapeError(
            f"{op}: indices must have as many dims as the tensor, {self.ndim}, and has {indices.ndim}"
            + fix("leave dim away to see both as one dim, or insert dims of size 1")
        )
    d = normalize_dim(op, dim, self.ndim)
    if not self.ndim:
        return F.gather(self, d, indices)
    others = broadcast_shapes(op, _without(self.shape, d), _without(indices.shape, d))
    wide = self.expand((*others[:d], self.shape[d], *others[d:]))
    return F.gather(wide, d, indices.expand((*others[:d], indices.shape[d], *others[d:])))


def _without(shape: tuple[int, ...], dim: int) -> tuple[int, ...]:
    return shape[:dim] + shape[dim + 1 :]


# --------------------------------------------------------------------------------------------------------------- slices


def index_add(self: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: Any = 1) -> Tensor:
    """A copy with slices added."""
    target, key, values = _along("index_add", self, dim, index, source)
    values = _scaled("index_add", values, alpha)
    if self.dtype.is_inexact and self.dtype.itemsize > 2:  # the halves would round twice
        return (target + F.index_backward(values, target.shape, key)).reshape(self.shape)
    return target.clone().index_put_(key, values, True).reshape(self.shape)


def index_add_(self: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: Any = 1) -> Tensor:
    """Slices added in place."""
    target, key, values = _along("index_add_", self, dim, index, source)
    _put(target, key, _scaled("index_add_", values, alpha), True)
    return self


def _scaled(op: str, values: Tensor, alpha: Any) -> Tensor:
    if alpha == 1:
        return values
    scaled = values * alpha
    if scaled.dtype is not values.dtype:
        raise DTypeError(f"{op}: alpha {alpha!r} is no number of the tensor's dtype, {values.dtype.name}")
    return scaled


def index_copy(self: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    """A copy with slices replaced."""
    return index_copy_(self.clone(), dim, index, source, op="index_copy")


def index_copy_(self: Tensor, dim: int, index: Tensor, source: Tensor, *, op: str = "index_copy_") -> Tensor:
    """Slices replaced in place."""
    target, key, values = _along(op, self, dim, index, source)
    _put(target, key, values, False)
    return self


def _put(target: Tensor, key: Key, values: Tensor, accumulate: bool) -> None:
    """``target.index_put_``, by its kernel at once where no layer would see the call."""
    near = all(one is None or one.device == target.device for one in key)
    arrays = [None if one is None else one._array for one in key]
    if not near or not written(INDEX_PUT_, target, values, arrays, values._array, accumulate):
        target.index_put_(key, values, accumulate)


def _along(op: str, self: Tensor, dim: int, index: Tensor, source: Tensor) -> tuple[Tensor, Key, Tensor]:
    """Returns what is written to, at least of one dim, the index of the slices, and the slices themselves.

    Raises:
        DTypeError: the index is no integer, or ``source`` of another dtype than ``self``.
        ShapeError: the slices do not fit, one for each index.
    """
    d = normalize_dim(op, dim, self.ndim)
    flat = _flat_index(op, index)
    if source.dtype is not self.dtype:
        raise DTypeError(
            f"{op}: source is {source.dtype.name}, and self {self.dtype.name}"
            + fix(f"convert it: source.to(tp.{self.dtype.name})")
        )
    shape = self.shape or (1,)
    wanted = (*shape[:d], flat.numel(), *shape[d + 1 :])
    if source.shape != wanted and not (source.ndim == 0 and wanted == (1,)):
        raise ShapeError(
            f"{op}: source must have shape {wanted}: that of self {self.shape}, with one slice along dim {d} for each "
            f"index; it has shape {source.shape}"
        )
    target = self if self.ndim else self.reshape(1)
    return target, [*(None,) * d, flat], source if source.ndim else source.reshape(1)


def _flat_index(op: str, index: Tensor) -> Tensor:
    check_integers(op, "index", index.dtype)
    if index.ndim > 1:
        raise DimError(f"{op}: index must have one dim or none, and has shape {index.shape}")
    return index if index.ndim else index.reshape(1)


def index_fill(self: Tensor, dim: int, index: Tensor, value: Any) -> Tensor:
    """A copy with slices of one value."""
    return index_fill_(self.clone(), dim, index, value, op="index_fill")


def index_fill_(self: Tensor, dim: int, index: Tensor, value: Any, *, op: str = "index_fill_") -> Tensor:
    """Slices of one value, in place."""
    d = normalize_dim(op, dim, self.ndim)
    flat = _flat_index(op, index)
    if isinstance(value, Tensor):
        if value.ndim:
            raise ShapeError(f"{op}: value must be a number or a tensor without dims, not one of shape {value.shape}")
        # Of a repeated index the value is there once: a mask says so, and the value's gradient is right.
        mask = F.zeros(self.shape[d] if self.ndim else 1, dtype=bool_, device=self.device)
        mask.index_put_([flat], F.ones((), dtype=bool_, device=self.device))
        mask = mask.reshape([-1 if k == d else 1 for k in range(self.ndim)])
        return self.copy_(F.where(mask, value.to(self.dtype, self.device), self))
    target = self if self.ndim else self.reshape(1)
    target.index_put_([*(None,) * d, flat], self.new_full((), value))
    return self


def put(self: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    """A copy with elements at places that count through all dims."""
    check_integers("put", "index", index.dtype)
    if source.numel() != index.numel():
        raise ShapeError(
            f"put: source must have as many elements as index, {index.numel()}, and has {source.numel()} "
            f"(shapes {source.shape} and {index.shape})"
        )
    if source.dtype is not self.dtype:
        raise DTypeError(f"put: source is {source.dtype.name}, and self {self.dtype.name}")
    count = index.numel()
    flat = self.reshape(self.numel())
    return F.index_put(flat, [index.reshape(count)], source.reshape(count), accumulate).reshape(self.shape)


# ------------------------------------------------------------------------------------------------------------- elements


def scatter_reduce(
    self: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    """Combines in rounds, of which each takes one more element for every place that has one left."""
    check_scatter("scatter_reduce", _shaped(self), dim, _shaped(index), _shaped(src), reduce)
    if self.is_meta or not index.numel():
        return self.clone()
    places, values = flat_places(self, dim, index, src)
    flat = self.reshape(self.numel())
    rounds = occurrences(places)
    if not include_self:  # the first of each place replaces what was there
        first, rounds = rounds[0], rounds[1:]
        flat = _step(flat, values, first, None)
    for one in rounds:
        flat = _step(flat, values, one, reduce)
    if reduce == "mean":
        flat = _averaged(flat, places, include_self)
    return flat.reshape(self.shape)


def _step(flat: Tensor, values: Tensor, one: tuple[list[int], list[int]], reduce: str | None) -> Tensor:
    """Combines, or replaces, some elements with as many others; no place comes twice."""
    where, source = (F.tensor(numbers, device=flat.device) for numbers in one)
    new = F.index(values, [source])
    if reduce is not None:
        new = combine(reduce, F.index(flat, [where]), new)
    return F.index_put(flat, [where], new)


def _averaged(total: Tensor, places: Sequence[int], include_self: bool) -> Tensor:
    counts = [int(include_self)] * total.numel()
    for place in places:
        counts[place] += 1
    divisor = F.tensor([max(count, 1) for count in counts], device=total.device)
    if total.dtype.is_inexact:
        return (total / divisor).to(total.dtype)
    numbers = [value // count for value, count in zip(total.tolist(), divisor.tolist(), strict=True)]
    return F.tensor(numbers, dtype=total.dtype, device=total.device)


def _shaped(tensor: Tensor) -> Shaped:
    return Shaped(tensor.shape, tensor.dtype)


KERNELS: dict[str, Callable[..., Any]] = {
    "argwhere": argwhere,
    "take_along_dim": take_along_dim,
    "index_add": index_add,
    "index_add_": index_add_,
    "index_copy": index_copy,
    "index_copy_": index_copy_,
    **dict.fromkeys(("index_fill.int_Scalar", "index_fill.int_Tensor"), index_fill),
    **dict.fromkeys(("index_fill_.int_Scalar", "index_fill_.int_Tensor"), index_fill_),
    "put": put,
    "scatter_reduce.two": scatter_reduce,
}
"""Name in the contract to Composite kernel."""
