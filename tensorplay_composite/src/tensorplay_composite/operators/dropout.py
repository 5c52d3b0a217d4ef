"""Dropout in its forms, over ``native_dropout``, which keeps its mask for the gradient.

The numbers are those of ``rand`` in float32, drawn by the input's device, so a seed drops the same elements on every
device and in every dtype.
"""

from __future__ import annotations

import math

from tensorplay_core.errors import DTypeError, ShapeError, fix
from tensorplay_core.ops import _generated_functional as F
from tensorplay_core.ops.shapes_dropout import check_probability
from tensorplay_core.tensor.tensor import Tensor
from tensorplay_core.types.dtype import bool_, float32

LEAST = -1.7580993408473766
"""The limit of ``selu`` at minus infinity."""


def native_dropout(input: Tensor, p: float, train: bool | None) -> tuple[Tensor, Tensor]:
    """The result and the mask of what stays."""
    if train is False:
        return input.clone(), F.ones(input.shape, dtype=bool_, device=input.device)
    mask = F.rand(input.shape, dtype=float32, device=input.device) >= p
    return native_dropout_backward(input, mask, 1 / (1 - p) if p < 1 else 0.0), mask


def native_dropout_backward(grad_output: Tensor, mask: Tensor, scale: float) -> Tensor:
    """``grad_output * mask * scale``."""
    wide = grad_output.to(float32) if grad_output.dtype.itemsize == 2 else grad_output
    return (wide * (mask.to(wide.dtype) * scale)).to(grad_output.dtype)


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Each element on its own."""
    return _dropped("dropout", input, p, training, inplace)


def _dropped(op: str, input: Tensor, p: float, training: bool, inplace: bool) -> Tensor:
    _check(op, input, p)
    if not training or not p:
        return input
    if not inplace:
        return F.native_dropout(input, p, True)[0]
    mask = F.native_dropout(F.ones(input.shape, dtype=input.dtype, device=input.device), p, True)[0]
    return input.mul_(mask)


def dropout1d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Whole channels of (N, C, L) or (C, L)."""
    return _channels("dropout1d", input, p, training, inplace, (2, 3), 2)


def dropout2d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Whole channels of (N, C, H, W), and of (N, C, L)."""
    return _channels("dropout2d", input, p, training, inplace, (3, 4), 0)


def dropout3d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Whole channels of (N, C, D, H, W) or (C, D, H, W)."""
    return _channels("dropout3d", input, p, training, inplace, (4, 5), 4)


def _channels(
    op: str, input: Tensor, p: float, training: bool, inplace: bool, ndims: tuple[int, int], unbatched: int
) -> Tensor:
    """Drops whole channels; of an input of ``unbatched`` dims the first is the channels."""
    _check(op, input, p)
    if input.ndim not in ndims:
        raise ShapeError(
            f"{op}: takes an input of {ndims[0]} or {ndims[1]} dims, and its shape is {input.shape}"
            + fix("dropout drops single elements of any shape.")
        )
    if not training:
        return input
    leading = 1 if input.ndim == unbatched else 2
    shape = (*input.shape[:leading], *(1,) * (input.ndim - leading))
    noise = F.native_dropout(F.ones(shape, dtype=input.dtype, device=input.device), p, True)[0]
    return input.mul_(noise) if inplace else input * noise


def alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """Replaces elements by the least value of ``selu``, and keeps mean and variance."""
    _check("alpha_dropout", input, p)
    if not training:
        return input
    if p == 1:
        return input.zero_() if inplace else input * 0
    a = 1 / math.sqrt((LEAST * LEAST * p + 1) * (1 - p))
    stays = F.native_dropout(F.ones(input.shape, dtype=float32, device=input.device), p, True)[1]
    kept = stays.to(input.dtype) * a
    shift = F.where(stays, a * -LEAST * p, a * LEAST * (1 - p)).to(input.dtype)
    return input.mul_(kept).add_(shift) if inplace else input * kept + shift


def _check(op: str, input: Tensor, p: float) -> None:
    check_probability(op, p)
    if not input.dtype.is_inexact:
        raise DTypeError(f"{op}: takes floating dtypes, not {input.dtype.name}" + fix("convert with .to(tp.float32)."))
