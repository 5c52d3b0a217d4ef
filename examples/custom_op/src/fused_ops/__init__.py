"""Operators that this package adds to TensorPlay; importing it is all that a program does.

``bias_silu`` comes from the contract beside this file: everything in ``_generated_*`` was written by
``tensorplay codegen``. ``polynomial`` is a Python function that became an operator when it was decorated.
"""

from fused_ops import _generated_install, kernels  # noqa: F401  the contract's operators, and what computes them
from fused_ops._generated_public import bias_silu
from fused_ops.polynomial import polynomial

__all__ = ["bias_silu", "polynomial"]
