"""Formulas' helpers of rolling and of combining elements at an index: in operators, so they can be differentiated."""

from __future__ import annotations

from collections.abc import Sequence

from tensorplay_core.ops import _generated_functional as F
from tensorplay_core.ops.combining import beyond, flat_places, occurrences, within
from tensorplay_core.ops.shape_checks import normalize_dim
from tensorplay_core.tensor.tensor import Tensor

Dims = int | Sequence[int]


def roll_backward(grad: Tensor, shifts: Dims, dims: Dims) -> Tensor:
    """Rolls the other way."""
    back = -shifts if isinstance(shifts, int) else [-shift for shift in shifts]
    return F.roll(grad, back, dims)


def unfold_backward(grad: Tensor, shape: tuple[int, ...], dimension: int, size: int, step: int) -> Tensor:
    """Adds up what the windows that an element is in pass back."""
    if not shape:
        return grad.sum() if size else grad.new_zeros(())
    d = normalize_dim("unfold", dimension, len(shape))
    windows = grad.shape[d]
    places = F.arange(windows, device=grad.device).reshape((windows, 1)) * step + F.arange(size, device=grad.device)
    return F.index_backward(grad.movedim(-1, d + 1), shape, [*(None,) * d, places])


def scatter_reduce_backward(
    grad: Tensor,
    self: Tensor,
    dim: int,
    index: Tensor,
    src: Tensor,
    reduce: str,
    include_self: bool,
    result: Tensor,
) -> tuple[Tensor, Tensor]:
    """Returns the gradients of ``self`` and ``src``; of equal extremes each gets an equal part, as in PyTorch."""
    if not index.numel():
        return grad, src.new_zeros(src.shape)
    dim = normalize_dim("scatter_reduce", dim, self.ndim)
    if reduce == "prod" and not self.is_meta:  # its rounds are told from the data; its shapes are those of a sum
        backward = _prod_backward_by_slices if index._type.wraps else _prod_backward
        return backward(grad, self, dim, index, src, include_self)
    if reduce in ("amax", "amin"):
        return _extreme_backward(grad, self, dim, index, src, include_self, result)
    if reduce == "mean":
        ones = grad.new_full(index.shape, 1)
        start = grad.new_full(self.shape, 1) if include_self else grad.new_zeros(self.shape)
        counts = F.scatter_add(start, dim, index, ones)
        grad = grad / F.where(counts.real() == 0, 1, counts)
    kept = grad if include_self else F.scatter(grad, dim, index, 0)
    return kept, beyond(F.gather(grad, dim, index), src.shape)


def _extreme_backward(
    grad: Tensor, self: Tensor, dim: int, index: Tensor, src: Tensor, include_self: bool, result: Tensor
) -> tuple[Tensor, Tensor]:
    """Gives the gradient to the elements that equal the extreme, in equal parts; NaN counts as equal to NaN."""
    value, used = F.gather(result, dim, index), within(src, index.shape)
    source = _same(used, value).to(grad.dtype)
    own = _same(self, result).to(grad.dtype)
    if not include_self:
        own = F.scatter(own, dim, index, 0)
    part = grad / F.scatter_add(own, dim, index, source)
    return own * part, beyond(source * F.gather(part, dim, index), src.shape)


def _same(one: Tensor, other: Tensor) -> Tensor:
    return F.where(other == other, one == other, one != one)


def _prod_backward(
    grad: Tensor, self: Tensor, dim: int, index: Tensor, src: Tensor, include_self: bool
) -> tuple[Tensor, Tensor]:
    """Multiplies all factors of a place but one, from the front and from the back: nothing is divided by what may be 0.

    The rounds are those of :func:`occurrences`: a place's first factor is ``self``, its second the first that ``index``
    sends there, and so on.
    """
    places, values = flat_places(self, dim, index, src)
    flat, rounds = self.reshape(self.numel()), occurrences(places)
    steps = [tuple(F.tensor(numbers, device=self.device) for numbers in one) for one in rounds]
    touched = steps[0][0]  # the first round has every place once
    prefix = flat if include_self else F.index_put(flat, [touched], flat.new_full((), 1))
    before = []
    for where, source in steps:
        own = F.index(prefix, [where])
        before.append(own)
        prefix = F.index_put(prefix, [where], own * F.index(values, [source]))
    suffix = flat.new_full(flat.shape, 1)
    flat_grad = grad.reshape(grad.numel())
    parts = []
    for (where, source), own in zip(reversed(steps), reversed(before), strict=True):
        after = F.index(suffix, [where])
        parts.append(F.index(flat_grad, [where]) * (own * after).conj())
        suffix = F.index_put(suffix, [where], after * F.index(values, [source]))
    order = F.cat([source for _, source in reversed(steps)], 0)
    gathered = F.index_backward(F.cat(parts, 0), (index.numel(),), [order])
    kept = flat_grad * suffix.conj()
    if not include_self:
        kept = F.index_put(kept, [touched], kept.new_zeros(()))
    return kept.reshape(self.shape), beyond(gathered.reshape(index.shape), src.shape)


def _prod_backward_by_slices(
    grad: Tensor, self: Tensor, dim: int, index: Tensor, src: Tensor, include_self: bool
) -> tuple[Tensor, Tensor]:
    """Does the same for an index whose elements cannot be told, as that of a batch, in as many rounds as it is long.

    A slice of an index along ``dim`` names no place twice.
    """
    if not self.ndim:
        alone = (grad.reshape(1), self.reshape(1), dim, index.reshape(1), src.reshape(1), include_self)
        kept, given = _prod_backward_by_slices(*alone)
        return kept.reshape(()), given.reshape(src.shape)
    used = within(src, index.shape)
    steps = [(index.narrow(dim, k, 1), used.narrow(dim, k, 1)) for k in range(index.shape[dim])]
    prefix, before = self if include_self else F.scatter(self, dim, index, 1), []
    for where, values in steps:
        own = F.gather(prefix, dim, where)
        before.append(own)
        prefix = F.scatter(prefix, dim, where, own * values)
    suffix, parts = self.new_full(self.shape, 1), []
    for (where, values), own in zip(reversed(steps), reversed(before), strict=True):
        after = F.gather(suffix, dim, where)
        parts.append(F.gather(grad, dim, where) * (own * after).conj())
        suffix = F.scatter(suffix, dim, where, after * values)
    kept = grad * suffix.conj()
    if not include_self:
        kept = F.scatter(kept, dim, index, 0)
    return kept, beyond(F.cat(parts[::-1], dim), src.shape)
