"""What the derivatives of distances are written in; see :mod:`helpers`.

A distance is ``r = sum(abs(d) ** p) ** (1 / p)`` of the differences d of two rows, so its slope is
``sign(d) * (abs(d) / r) ** (p - 1)``: written with the quotient, it neither overflows nor underflows.
"""

from __future__ import annotations

import math

from tensorplay_core.ops import _generated_functional as F
from tensorplay_core.tensor.tensor import Tensor
from tensorplay_core.types.dtype import float32


def powered(x: Tensor, exponent: float) -> Tensor:
    """``x ** exponent`` of numbers that are not negative, 0 at 0 with a gradient of 0 there."""
    zero = x == 0
    return F.where(zero, 0, F.where(zero, 1, x) ** exponent)


def slopes(difference: Tensor, distance: Tensor, p: float) -> Tensor:
    """How each distance (..., n, k) changes with each difference (..., n, k, m); 0 where the distance is 0.

    Of several components that are the largest of a maximum norm each has its share.
    """
    r = distance.unsqueeze(-1)
    sign = F.sign(difference)
    if p == 0:
        return sign * 0
    if p == 1:
        return sign
    if p == math.inf:
        largest = F.where(difference.abs() == r, sign, 0)
        count = largest.abs().sum(-1, True)
        return largest / F.where(count == 0, 1, count)
    return F.where(r == 0, 0, sign * powered(difference.abs() / F.where(r == 0, 1, r), p - 1))


def cdist_double_backward(
    grad: Tensor, grad_output: Tensor, x1: Tensor, x2: Tensor, p: float, cdist: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The gradients of ``(grad_output.unsqueeze(-1) * slopes).sum(-2)`` for its four tensors."""
    if x1.dtype.itemsize == 2:  # rounded once, at the end
        grad, grad_output, x1, x2, cdist = (x.to(float32) for x in (grad, grad_output, x1, x2, cdist))
        if p == math.inf:  # the largest component must equal the distance to the last bit
            cdist = F.cdist(x1, x2, p).detach()
    zero = cdist == 0
    one_over = F.where(zero, 0, 1 / F.where(zero, 1, cdist))
    weight = grad_output * one_over
    if p == 2:
        middle = x2.detach().mean(-2, True) if x2.shape[-2] else 0  # differences do not change, and keep more digits
        turn = (grad * (x1 - middle)).sum(-1, True) - grad @ (x2 - middle).transpose(-2, -1)
        turn = turn * one_over
        return turn, grad * weight.sum(-1, True), -(weight.transpose(-2, -1) @ grad), -(weight * turn)
    difference = x1.unsqueeze(-2) - x2.unsqueeze(-3)
    along = grad.unsqueeze(-2)
    turn = (along * slopes(difference, cdist, p)).sum(-1)
    if p in (0, 1, math.inf):
        return turn, grad * 0, (grad_output * 0).transpose(-2, -1) @ grad, grad_output * 0
    share = difference.abs() * one_over.unsqueeze(-1)
    bend = along * weight.unsqueeze(-1) * powered(share, p - 2) * (p - 1)
    return turn, bend.sum(-2), -bend.sum(-3), (1 - p) * weight * turn
