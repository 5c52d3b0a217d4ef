"""What the gradients of reductions, scans and sorting are made of: operators, so they can be differentiated again.

No formula here divides by an element that may be 0: the product of all others is made of the products on both sides,
and what a scan needs is a linear recurrence from the end.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tensorplay_core.ops import _generated_functional as F
from tensorplay_core.ops.shape_checks import normalize_dim, normalize_dims
from tensorplay_core.tensor.tensor import Tensor
from tensorplay_core.tensor.wrappers import every_element

Dims = int | Sequence[int] | None
Shape = tuple[int, ...]


def _dims(dim: Dims, ndim: int) -> tuple[int, ...]:
    if not ndim:
        return ()
    if dim is None or (not isinstance(dim, int) and len(dim) == 0):
        return tuple(range(ndim))
    return normalize_dims("reduction", dim, ndim)


def _restored(value: Tensor, shape: Shape, dim: Dims, keepdim: bool) -> Tensor:
    """Returns a reduction's result, or its gradient, with dims of size 1 where ``shape`` was reduced."""
    if keepdim:
        return value
    reduced = _dims(dim, len(shape))
    return value.reshape(tuple(1 if d in reduced else size for d, size in enumerate(shape)))


def _along(x: Tensor, dim: int, start: int, end: int) -> Tensor:
    return F.slice(x, dim, start, end)


# ------------------------------------------------------------------------------------------------------------- products


def _others(x: Tensor) -> Tensor:
    """Returns for each element of the last dim the product of all others in its row."""
    size = x.shape[-1]
    if not size:
        return x
    one = F.ones((*x.shape[:-1], 1), dtype=x.dtype, device=x.device)
    before = F.cat([one, F.cumprod(_along(x, -1, 0, size - 1), -1)], -1)
    behind = F.cat([one, F.cumprod(F.flip(_along(x, -1, 1, size), -1), -1)], -1)
    return before * F.flip(behind, -1)


def _is_normal(product: Tensor) -> bool:
    """Whether no product is zero, infinite, NaN or below float32's normal numbers; nor is an element, then."""
    if product.is_meta or not product.numel():
        return False
    size = abs(product.detach())
    size = every_element(size)
    return bool(F.all(F.where(size >= 1.2e-38, size < math.inf, False)).item())


def prod_backward(grad: Tensor, self: Tensor, result: Tensor, dim: Dims, keepdim: bool) -> Tensor:
    """Multiplies the gradient of a product by the product of the other elements, right where some are 0.

    Where the product is an ordinary number, no element is 0, and the others are the quotient of the two.
    """
    shape = self.shape
    if not shape:
        return grad
    self = self.to(grad.dtype)
    if grad.dtype.itemsize > 2 and _is_normal(result):
        others = _restored(result, shape, dim, keepdim) / self
        return _restored(grad, shape, dim, keepdim) * others.conj()
    self = self.conj()
    reduced = _dims(dim, len(shape))
    kept = [d for d in range(len(shape)) if d not in reduced]
    order = [*kept, *reduced]
    rows = self.permute(order).reshape((*(shape[d] for d in kept), math.prod(shape[d] for d in reduced)))
    others = _others(rows).reshape([shape[d] for d in order]).permute([order.index(d) for d in range(len(shape))])
    return _restored(grad, shape, dim, keepdim) * others


def nansum_backward(grad: Tensor, self: Tensor, dim: Dims, keepdim: bool) -> Tensor:
    """Gives the gradient to the elements that are not NaN."""
    return F.where(self == self, _restored(grad, self.shape, dim, keepdim), 0)


def _from_the_end(factors: Tensor, terms: Tensor, dim: int) -> Tensor:
    """Returns ``s`` with ``s[i] = terms[i] + factors[i] * s[i + 1]`` along a dim, 0 beyond its end.

    In as many steps as the size has binary digits, each of which doubles how far an element has looked; Blelloch,
    "Prefix sums and their applications", 1990, section 1.4.
    """
    size, step = terms.shape[dim], 1
    while step < size:
        near = _along(factors, dim, 0, size - step)
        more = near * _along(terms, dim, step, size)
        terms = F.cat([_along(terms, dim, 0, size - step) + more, _along(terms, dim, size - step, size)], dim)
        further = near * _along(factors, dim, step, size)
        factors = F.cat([further, _along(factors, dim, size - step, size)], dim)
        step *= 2
    return terms


def cumsum_backward(grad: Tensor, dim: int) -> Tensor:
    """Adds up a gradient from the end."""
    if not grad.ndim:
        return grad
    return F.flip(F.cumsum(F.flip(grad, dim), dim), dim)


def cumprod_backward(grad: Tensor, self: Tensor, dim: int) -> Tensor:
    """The gradient of a cumulative product, right where elements are 0.

    Element i has the product of those before it, times ``grad[i] + self[i + 1] * (grad[i + 1] + ...)``.
    """
    if not self.ndim:
        return grad
    dim = normalize_dim("cumprod", dim, self.ndim)
    size = self.shape[dim]
    if not size:
        return grad
    factors = self.to(grad.dtype).conj()
    one = F.ones([1 if d == dim else n for d, n in enumerate(self.shape)], dtype=grad.dtype, device=grad.device)
    before = F.cat([one, F.cumprod(_along(factors, dim, 0, size - 1), dim)], dim)
    return before * _from_the_end(F.cat([_along(factors, dim, 1, size), one], dim), grad, dim)


# -------------------------------------------------------------------------------------------------- logarithms of sums


def logsumexp_backward(grad: Tensor, self: Tensor, result: Tensor, dim: Dims, keepdim: bool) -> Tensor:
    """Multiplies the gradient by the softmax over ``dim``; a row of -inf has the gradient 0.

    The result only keeps the powers small; their own sum divides them, so its rounding does not show.
    """
    shape = self.shape
    if not self.numel():
        return F.zeros(shape, dtype=grad.dtype, device=grad.device)
    base = _restored(result.detach(), shape, dim, keepdim)
    powers = F.exp(self.to(grad.dtype) - F.where(base == -math.inf, 0, base))
    total = powers.sum(_dims(dim, self.ndim), True)
    return powers * (_restored(grad, shape, dim, keepdim) / F.where(total == 0, 1, total))


def logcumsumexp_backward(grad: Tensor, self: Tensor, result: Tensor, dim: int) -> Tensor:
    """The gradient of ``logcumsumexp``: each step forward is a power of e that is at most 1.

    Element i has ``exp(self[i] - result[i])`` times the sum over k >= i of ``grad[k] * exp(result[i] - result[k])``.
    """
    if not self.ndim or not self.numel():
        return grad
    dim = normalize_dim("logcumsumexp", dim, self.ndim)
    size = self.shape[dim]
    self = self.to(grad.dtype)
    here, after = _along(result, dim, 0, size - 1), _along(result, dim, 1, size)
    end = F.zeros([1 if d == dim else n for d, n in enumerate(self.shape)], dtype=grad.dtype, device=grad.device)
    sums = _from_the_end(F.cat([_step(here, after), end], dim), grad, dim)
    return _fraction(self, result) * sums


def _step(here: Tensor, after: Tensor) -> Tensor:
    """Returns ``exp(here - after)``, 1 between equal ones, which may be infinite."""
    same = here == after
    return F.where(same, 1, F.exp(F.where(same, 0, here) - F.where(same, 0, after)))


def _fraction(part: Tensor, whole: Tensor) -> Tensor:
    """Returns ``exp(part - whole)``, 0 where nothing is part of nothing: both are -inf."""
    nothing = part == -math.inf
    return F.where(nothing, 0, F.exp(F.where(nothing, 0, part) - F.where(nothing, 0, whole)))


# -------------------------------------------------------------------------------------------------- elements that stand


def amax_backward(grad: Tensor, self: Tensor, result: Tensor, dim: Dims, keepdim: bool) -> Tensor:
    """Gives the gradient to the elements that equal the result, in equal parts; NaN counts as equal to NaN."""
    shape = self.shape
    result, grad = _restored(result, shape, dim, keepdim), _restored(grad, shape, dim, keepdim)
    hits = F.where(result == result, self == result, self != self).to(self.dtype)
    return grad * (hits / hits.sum(_dims(dim, len(shape)), True)) if shape else grad * hits


def cummax_backward(grad: Tensor, indices: Tensor, shape: Shape, dim: int) -> Tensor:
    """Adds the gradient of a running maximum up where its elements are."""
    if not shape or not grad.numel():
        return grad
    dim = normalize_dim("cummax", dim, len(shape))
    count, step = math.prod(shape), math.prod(shape[dim + 1 :])
    starts = F.arange(count, device=grad.device).reshape(shape)
    places = (_along(starts, dim, 0, 1) + (indices if step == 1 else indices * step)).reshape(-1)
    return F.index_backward(grad.reshape(-1), (count,), [places]).reshape(shape)


def selected_backward(grad: Tensor, indices: Tensor, shape: Shape, dim: int) -> Tensor:
    """Puts the gradient of selected elements, none of them selected twice, back where they were."""
    if not shape:
        return grad.reshape(shape)
    return F.scatter(F.zeros(shape, dtype=grad.dtype, device=grad.device), dim, indices, grad)


def selected_forward(tangent: Tensor, indices: Tensor, dim: int, keepdim: bool) -> Tensor:
    """Returns the tangents of the elements that were selected along a dim."""
    if not tangent.ndim:
        return tangent
    if keepdim:
        return F.gather(tangent, dim, indices)
    return F.gather(tangent, dim, indices.unsqueeze(dim)).squeeze(dim)


# ----------------------------------------------------------------------------------------------------------- statistics


def var_backward(grad: Tensor, self: Tensor, dim: Dims, correction: Any, keepdim: bool) -> Tensor:
    """Twice the distance from the mean over the divisor, which is infinite where that is 0, and NaN at the mean."""
    shape, reduced = self.shape, _dims(dim, self.ndim)
    count = math.prod(shape[d] for d in reduced)
    freedom = max(count - (1 if correction is None else correction), 0)
    distance = self - self.mean(reduced, True) if shape else self - self
    return _restored(grad, shape, dim, keepdim) * (2 / freedom if freedom else math.inf) * distance


def std_backward(grad: Tensor, self: Tensor, result: Tensor, dim: Dims, correction: Any, keepdim: bool) -> Tensor:
    """The gradient of the variance over twice the deviation; 0 where that is 0."""
    still = result == 0
    half = F.where(still, 0, grad / F.where(still, 1, 2 * result))
    return var_backward(half, self, dim, correction, keepdim)


def norm_backward(grad: Tensor, self: Tensor, result: Tensor, p: Any, dim: Dims, keepdim: bool) -> Tensor:
    """The gradient of a norm: the sign of an element times its part of the norm to the power of ``p - 1``.

    At a norm of 0, and for ``p`` below 1 at an element of 0, it is 0. Equal elements share that of the norms of
    infinite order. The norm of order 0 counts, and has the gradient 0.
    """
    order = 2.0 if p is None else float(p)
    shape = self.shape
    result, grad = _restored(result, shape, dim, keepdim), _restored(grad, shape, dim, keepdim)
    if order == 0:
        return F.zeros(shape, dtype=self.dtype, device=self.device)
    if order == 1:
        return self.sgn() * grad
    if math.isinf(order):
        size = abs(self)
        hits = F.where(result == result, size == result, size != size).to(grad.dtype)
        return self.sgn() * (grad * (hits / hits.sum(_dims(dim, len(shape)), True) if shape else hits))
    zero = result == 0
    safe = F.where(zero, 1, result)
    if order == 2:
        return self * F.where(zero, 0, grad / safe)
    none = self == 0
    part = F.pow(abs(F.where(none, 1, self)) / safe, order - 1)
    return self.sgn() * (F.where(zero, 0, grad) * F.where(none, 0, part))
