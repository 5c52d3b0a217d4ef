"""Gathering, scattering and masking, in terms of ``index``, ``index_put_`` and ``where``.

All but ``index_put_`` run with autograd active, so their gradients are those of the three.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tensorplay_core.errors import DimError, DTypeError, ShapeError, fix
from tensorplay_core.ops import _generated_functional as F
from tensorplay_core.ops.shape_checks import broadcast_shapes, normalize_dim
from tensorplay_core.ops.shapes_indexing import check_picked
from tensorplay_core.tensor.tensor import Tensor
from tensorplay_core.tensor.wrappers import every_element

Indices = Sequence[Tensor | None]


def index_put_(self: Tensor, indices: Indices, values: Tensor, accumulate: bool = False) -> Tensor:
    """Writes by means of gathering, for a device without a kernel of its own.

    Of several values for one place the last one stays. Which that is can only be told on the host.
    """
    shape, count = self.shape, self.numel()
    places = F.index(F.arange(count, device=self.device).reshape(shape), indices)
    check_picked("index_put_", values.shape, places.shape)
    spread = values.expand(places.shape)
    if accumulate:
        return self.add_(F.index_backward(spread, shape, indices))
    if not places.numel():
        return self
    last = {place: source for source, place in enumerate(places.reshape(-1).tolist())}
    hit = F.reshape(_integers([place in last for place in range(count)], self).ne(0), shape)
    source = _integers([last.get(place, 0) for place in range(count)], self)
    return self.copy_(F.where(hit, F.index(spread.reshape(-1), [source]).reshape(shape), self))


def _integers(values: Sequence[int], like: Tensor) -> Tensor:
    from tensorplay_core.ops.creation import tensor

    return tensor([int(value) for value in values], dtype=F.arange(0, device=like.device).dtype, device=like.device)


def index_put(self: Tensor, indices: Indices, values: Tensor, accumulate: bool = False) -> Tensor:
    """A copy that is written to."""
    return self.clone().index_put_(indices, values, accumulate)


def index_select(self: Tensor, dim: int, index: Tensor) -> Tensor:
    """The slices along a dim that an index names."""
    d = normalize_dim("index_select", dim, self.ndim)
    _check_index("index_select", index)
    if index.ndim > 1:
        raise DimError(f"index_select: index must have one dim or none, and has shape {index.shape}")
    if not self.ndim:
        if index.numel() != 1:
            raise DimError(f"index_select: of a tensor without dims one element is selected, not {index.numel()}")
        return F.index(self.reshape(1), [index.reshape(1)]).reshape(())
    return F.index(self, [*(None,) * d, index.reshape(-1)])


def _check_index(op: str, index: Tensor) -> None:
    if not index.dtype.is_integral:
        raise DTypeError(
            f"{op}: index must be of an integer dtype, not {index.dtype.name}" + fix("convert it: index.to(tp.int64)")
        )


def _check_mask(op: str, mask: Tensor) -> None:
    if not mask.dtype.is_bool:
        raise DTypeError(f"{op}: mask must be bool, not {mask.dtype.name}" + fix("compare: mask != 0"))


def masked_select(self: Tensor, mask: Tensor) -> Tensor:
    """The elements where a mask is true."""
    _check_mask("masked_select", mask)
    shape = broadcast_shapes("masked_select", self.shape, mask.shape)
    return F.index(_spread(self, shape), [_spread(mask, shape)]).reshape(-1)


def _spread(x: Tensor, shape: tuple[int, ...]) -> Tensor:
    return x if x.shape == shape else x.expand(shape)


def masked_fill(self: Tensor, mask: Tensor, value: Any) -> Tensor:
    """One value where a mask is true."""
    _check_mask("masked_fill", mask)
    if isinstance(value, Tensor):
        if value.ndim:
            raise ShapeError(
                f"masked_fill: value must be a number or a tensor without dims, not one of shape {value.shape}"
                + fix("use tp.where(mask, value, x)")
            )
        value = value.to(self.dtype)
    else:
        value = self.new_full((), value)
    return F.where(mask, value, self)


def masked_scatter(self: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """The first elements of a source where a mask is true."""
    _check_mask("masked_scatter", mask)
    if source.dtype is not self.dtype:
        raise DTypeError(
            f"masked_scatter: source is {source.dtype.name}, and self {self.dtype.name}"
            + fix(f"convert it: source.to(tp.{self.dtype.name})")
        )
    shape = broadcast_shapes("masked_scatter", self.shape, mask.shape)
    mask = _spread(mask, shape)
    if not mask._type.wraps:
        wanted = int(mask.sum().item())
        _check_source(source, wanted)
        return F.index_put(_spread(self, shape), [mask], F.slice(source.reshape(-1), 0, 0, wanted))
    # Under vmap the mask may be true another number of times for each element of the batch.
    if not mask.numel():
        return _spread(self, shape).clone()
    number = mask.reshape(mask.numel()).cumsum(0)  # of each true element, from 1
    _check_source(source, int(F.max(every_element(number)).item()))
    if not source.numel():
        return _spread(self, shape).clone()
    taken = F.index(source.reshape(-1), [F.clamp(number - 1, 0, source.numel() - 1)])
    return F.where(mask, taken.reshape(shape), self)


def _check_source(source: Tensor, wanted: int) -> None:
    if source.numel() < wanted:
        raise ShapeError(f"masked_scatter: mask is true {wanted} times, and source has {source.numel()} elements")


def _check_sizes(op: str, self: Tensor, dim: int, index: Tensor, src: Tensor | None) -> None:
    """Refuses an index that has other dims than what it indexes, or is larger in a dim that it does not index."""
    for name, tensor, free in (("self", self, dim), ("src", src, None)):
        if tensor is None:
            continue
        sizes = zip(index.shape, tensor.shape, strict=False)
        large = any(n > m for k, (n, m) in enumerate(sizes) if k != free)
        if large or (index.ndim or 1) != (tensor.ndim or 1):
            apart = "" if free is None else f" apart from dim {free}"
            raise ShapeError(
                f"{op}: index (shape {index.shape}) must have as many dims as {name} (shape {tensor.shape}) "
                f"and be no larger{apart}"
            )


def _grid(dim: int, index: Tensor) -> list[Tensor | None]:
    """Returns an index for each dim: its own places, and ``index`` along ``dim``."""
    ndim, found = index.ndim, []  # type: int, list[Tensor | None]
    for k in range(max(ndim, 1)):
        if k == dim:
            found.append(index)
        else:
            places = F.arange(index.shape[k], device=index.device)
            found.append(places.reshape([-1 if i == k else 1 for i in range(ndim)]))
    return found


def gather(self: Tensor, dim: int, index: Tensor) -> Tensor:
    """The elements at the places of an index."""
    d = normalize_dim("gather", dim, self.ndim)
    _check_index("gather", index)
    if not index.numel():
        return F.slice(self.reshape(-1), 0, 0, 0).clone().reshape(index.shape)
    _check_sizes("gather", self, d, index, None)
    return F.index(self if self.ndim else self.reshape(1), _grid(d, index))


def scatter(self: Tensor, dim: int, index: Tensor, src: Any) -> Tensor:
    """Elements, or one number, at the places of an index."""
    return _scattered("scatter", self, dim, index, src, False)


def scatter_add(self: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    """Elements added at the places of an index."""
    return _scattered("scatter_add", self, dim, index, src, True)


def _scattered(op: str, self: Tensor, dim: int, index: Tensor, src: Any, accumulate: bool) -> Tensor:
    d = normalize_dim(op, dim, self.ndim)
    _check_index(op, index)
    source = src if isinstance(src, Tensor) else None
    if source is not None and source.dtype is not self.dtype:
        raise DTypeError(
            f"{op}: src is {source.dtype.name}, and self {self.dtype.name}"
            + fix(f"convert it: src.to(tp.{self.dtype.name})")
        )
    if not index.numel():
        return self.clone()
    _check_sizes(op, self, d, index, source)
    if source is None:
        values = self.new_full((), src)
    else:
        values = source.reshape(index.shape) if source.ndim != index.ndim else source
        for k, size in enumerate(index.shape):
            values = values if values.shape[k] == size else F.slice(values, k, 0, size)
    if not self.ndim:
        return F.index_put(self.reshape(1), _grid(d, index), values, accumulate).reshape(())
    return F.index_put(self, _grid(d, index), values, accumulate)


def take(self: Tensor, index: Tensor) -> Tensor:
    """The elements of all dims, seen as one."""
    _check_index("take", index)
    return F.index(self.reshape(math.prod(self.shape)), [index])
