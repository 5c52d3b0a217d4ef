"""Comparisons of whole tensors, whose answer is one bool of Python: they wait for the device, and have no gradient."""

from __future__ import annotations

from tensorplay_core.errors import ArgumentError, fix
from tensorplay_core.ops._generated_functional_pointwise import eq
from tensorplay_core.ops._generated_schemas_logical import ISCLOSE
from tensorplay_core.ops.call import call
from tensorplay_core.tensor.overrides import overridable
from tensorplay_core.tensor.tensor import Tensor, TensorBase


@overridable
def allclose(input: Tensor, other: Tensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> bool:
    """Returns whether all elements of two tensors, which broadcast, are close: see :func:`isclose`.

    Args:
        input: a tensor.
        other: another, of the same device.
        rtol: how much of an element of ``other`` the difference may be.
        atol: how large it may be besides.
        equal_nan: NaN is close to NaN.

    Example:
        >>> import tensorplay as tp
        >>> tp.allclose(tp.tensor([1.0, 2.0]), tp.tensor([1.000001, 2.0]))
        True
        >>> tp.allclose(tp.tensor([tp.nan]), tp.tensor([tp.nan]), equal_nan=True)
        True
    """
    return _all(call(ISCLOSE, (input, other, rtol, atol, equal_nan)))


@overridable
def equal(input: Tensor, other: Tensor) -> bool:
    """Returns whether two tensors have the same shape and equal elements; NaN equals nothing.

    Example:
        >>> import tensorplay as tp
        >>> tp.equal(tp.tensor([1, 2]), tp.tensor([1, 2])), tp.equal(tp.tensor([1, 2]), tp.tensor([[1, 2]]))
        (True, False)
    """
    for value in (input, other):
        if not isinstance(value, TensorBase):
            raise ArgumentError(
                f"equal: takes two tensors, not {type(value).__name__}"
                + fix("use == for a number, element by element.")
            )
    return input.shape == other.shape and _all(eq(input, other))


def _all(mask: Tensor) -> bool:
    return bool(mask.sum().item() == mask.numel())
