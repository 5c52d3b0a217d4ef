"""Functions that the formulas of ``derivatives.yaml`` call, made of operators, so that they can be differentiated."""

from __future__ import annotations

import tensorplay as tp


def bias_silu_backward(grad: tp.Tensor, z: tp.Tensor) -> tp.Tensor:
    """Returns the gradient of ``z * sigmoid(z)``."""
    s = tp.sigmoid(z)
    return grad * s * (1 + z * (1 - s))
