"""What the derivatives of normalisation are written in.

With ``r = 1 / sqrt(var + eps)`` and ``h = (x - mean) * r`` the gradients of ``h * weight + bias`` are, where
``g = grad * weight``, ``r * (g - mean(g) - h * mean(g * h))`` for the input, and sums of ``grad * h`` and ``grad`` for
the other two. The statistics are results with gradients of their own, so what depends on the input by way of them is
theirs to carry, and each formula takes them as they are given.
"""

from __future__ import annotations

from collections.abc import Sequence

from tensorplay_core.ops import _generated_functional as F
from tensorplay_core.tensor.tensor import Tensor

Maybe = Tensor | None


def standardize_backward(
    grads: Sequence[Maybe],
    input: Tensor,
    mean: Tensor,
    var: Tensor,
    weight: Maybe,
    bias: Maybe,
    dim: Sequence[int],
    eps: float,
    needs: tuple[bool, bool, bool],
) -> tuple[Maybe, Maybe, Maybe]:
    """The gradients of ``_standardize`` for what needs one, given those of its result, mean and variance."""
    grad, to_mean, to_var = grads
    found: list[Maybe] = [None, None, None]
    if grad is not None:
        shape = next((one.shape for one in (weight, bias) if one is not None), ())
        parts = F._standardize_backward(grad, input, mean, var, weight, dim, shape, eps, needs)
        found = [one if needed else None for one, needed in zip(parts, needs, strict=True)]
    if needs[0] and (to_mean is not None or to_var is not None):
        count = max(input.numel() // max(mean.numel(), 1), 1)
        total = found[0]
        if to_mean is not None:
            part = (to_mean / count).expand(input.shape)
            total = part if total is None else total + part
        if to_var is not None:
            part = (input - mean) * (to_var * (2 / count))
            total = part if total is None else total + part
        found[0] = total
    return found[0], found[1], found[2]


def standardize_double_backward(
    grads: Sequence[Maybe],
    grad_out: Tensor,
    input: Tensor,
    mean: Tensor,
    var: Tensor,
    weight: Maybe,
    dim: Sequence[int],
    eps: float,
    output_mask: Sequence[bool],
) -> tuple[Maybe, Maybe, Maybe, Maybe, Maybe]:
    """The gradients of ``_standardize_backward``, whose results depend on ``h`` and on ``r`` besides the gradient.

    With ``v``, ``u`` and ``t`` the gradients of its three results, and ``P(a) = a - mean(a) - h * mean(a * h)``,
    these are the derivatives of ``sum(v * r * P(g)) + sum(u * grad * h) + sum(t * grad)``.
    """
    v, u, t = (one if wanted else None for one, wanted in zip(grads, output_mask, strict=True))
    rstd = F.rsqrt(var + eps)
    centred = input - mean
    h = centred * rstd
    to_grad: Maybe = None
    to_h: Maybe = None
    to_rstd: Maybe = None
    to_weight: Maybe = None

    def plus(total: Maybe, part: Tensor) -> Tensor:
        return part if total is None else total + part

    if v is not None:
        g = grad_out if weight is None else grad_out * weight
        v_h, g_h = (v * h).mean(dim, True), (g * h).mean(dim, True)
        projected = v - v.mean(dim, True) - h * v_h
        to_g = projected * rstd
        to_grad = to_g if weight is None else to_g * weight
        to_weight = None if weight is None else to_g * grad_out
        to_h = -rstd * (g * v_h + v * g_h)
        to_rstd = (projected * g).sum(dim, True)
    if u is not None:
        to_grad, to_h = plus(to_grad, u * h), plus(to_h, u * grad_out)
    if t is not None:
        to_grad = plus(to_grad, t.expand(grad_out.shape))
    if to_h is None:
        return to_grad, None, None, None, to_weight
    to_input = to_h * rstd
    through_h = (to_h * centred).sum(dim, True)
    to_rstd = plus(to_rstd, through_h)
    return to_grad, to_input, -to_input.sum(dim, True), to_rstd * rstd * rstd * rstd * -0.5, to_weight
