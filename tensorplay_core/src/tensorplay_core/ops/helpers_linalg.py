"""Functions that the derivatives of linear algebra are written in; see :mod:`helpers`."""

from __future__ import annotations

from typing import Any

from tensorplay_core.tensor.tensor import Tensor


def adjoint(matrix: Tensor) -> Tensor:
    """The conjugate transpose of the last two dims: a view of a real tensor."""
    transposed = matrix.transpose(-2, -1)
    return transposed.conj() if matrix.is_complex() else transposed


def scaled(grad: Tensor, factor: Any) -> Tensor:
    """The gradient of ``factor * x`` with respect to x, of a number that is 1 most of the time."""
    return grad if factor == 1 else grad * factor.conjugate()
