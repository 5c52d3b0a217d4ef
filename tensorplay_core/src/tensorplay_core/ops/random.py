"""Random functions whose signature no single record has: those that leave arguments out, and the ``_like`` ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tensorplay_core.errors import ArgumentError, fix
from tensorplay_core.ops._generated_schemas_creation import RAND, RANDN
from tensorplay_core.ops._generated_schemas_random import (
    NORMAL_FLOAT_FLOAT,
    NORMAL_FLOAT_TENSOR,
    NORMAL_TENSOR_FLOAT,
    NORMAL_TENSOR_TENSOR,
    RANDINT,
)
from tensorplay_core.ops.call import call
from tensorplay_core.ops.frontend import created
from tensorplay_core.ops.shape_checks import as_ints
from tensorplay_core.tensor.overrides import overridable, seen_by_modes
from tensorplay_core.tensor.tensor import Tensor, TensorBase
from tensorplay_core.types.device import Device
from tensorplay_core.types.dtype import DType, as_dtype

Size = int | Sequence[int]


@seen_by_modes
def randint(
    low: int,
    high: int | Size | None = None,
    size: Size | None = None,
    *,
    generator: Any | None = None,
    dtype: DType | None = None,
    device: Device | str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Returns integers from ``low`` to ``high - 1``, each as likely; ``randint(high, size)`` starts at 0.

    Args:
        low: the least.
        high: one more than the largest.
        size: the shape.
        generator: a :class:`Generator`; by default the device's own numbers.
        dtype: by default int64; a floating one has the same integers.
        device: where to put it.
        requires_grad: whether operations on it are recorded.

    Raises:
        ValueRangeError: the interval is empty, or does not fit the dtype.

    Example:
        >>> import tensorplay as tp
        >>> x = tp.randint(10, (2, 100))
        >>> x.shape, bool((x >= 0).sum() == 200), bool((x < 10).sum() == 200)
        ((2, 100), True, True)
    """
    if size is None:
        if isinstance(high, (tuple, list)):
            low, high, size = 0, low, high
        else:
            raise ArgumentError(
                "randint: size is missing" + fix("write randint(high, (3,)) or randint(low, high, (3,))")
            )
    elif high is None:
        low, high = 0, low
    settings = {"generator": generator, "dtype": dtype, "device": device}
    return created(RANDINT, (low, high, as_ints("randint", size, "size")), settings, requires_grad)


@overridable
def normal(
    mean: float | Tensor,
    std: float | Tensor = 1.0,
    size: Size | None = None,
    *,
    generator: Any | None = None,
    dtype: DType | None = None,
    device: Device | str | None = None,
    requires_grad: bool = False,
    out: Tensor | None = None,
) -> Tensor:
    """Returns normal numbers, of a mean and a standard deviation for each element, or for all of a ``size``.

    Args:
        mean: one for all, or a tensor of one for each element.
        std: the same; the two broadcast together.
        size: the shape, where both are numbers.
        generator: a :class:`Generator`; by default the device's own numbers.
        dtype: by default the default float dtype, or the tensors'.
        device: where to put it; that of the tensors where there are any.
        requires_grad: whether operations on it are recorded.
        out: a tensor that receives the result.

    Raises:
        ValueRangeError: a standard deviation is negative.
        ArgumentError: ``size`` is missing, or stands beside a tensor.

    Example:
        >>> import tensorplay as tp
        >>> x = tp.normal(3.0, 0.5, (1000,))
        >>> 2.8 < x.mean().item() < 3.2
        True
        >>> tp.normal(tp.tensor([1.0, 2.0]), tp.zeros(2))
        tensor([1., 2.])
    """
    tensors = isinstance(mean, TensorBase), isinstance(std, TensorBase)
    if not any(tensors):
        if size is None:
            raise ArgumentError("normal: size is missing" + fix("write normal(mean, std, (3,)), or pass tensors"))
        settings = {"generator": generator, "dtype": dtype, "device": device}
        sizes = as_ints("normal", size, "size")
        result: Tensor = call(NORMAL_FLOAT_FLOAT, (mean, std, sizes), settings, out)
    else:
        if size is not None or dtype is not None or device is not None:
            raise ArgumentError("normal: of tensors the result has their shape, dtype and device; leave those away")
        op = {(True, True): NORMAL_TENSOR_TENSOR, (True, False): NORMAL_TENSOR_FLOAT}.get(tensors, NORMAL_FLOAT_TENSOR)
        result = call(op, (mean, std), {"generator": generator}, out)
    return result.requires_grad_() if requires_grad else result


def _settings(name: str, input: Any, dtype: Any, device: Any, generator: Any) -> dict[str, Any]:
    if not isinstance(input, TensorBase):
        raise ArgumentError(f"{name}: input must be a Tensor, not {type(input).__name__}")
    return {
        "generator": generator,
        "dtype": input.dtype if dtype is None else as_dtype(dtype),
        "device": input.device if device is None else device,
    }


@overridable
def rand_like(
    input: Tensor,
    *,
    generator: Any | None = None,
    dtype: DType | None = None,
    device: Device | str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Returns numbers uniform on [0, 1) in another tensor's shape, dtype and device.

    Example:
        >>> import tensorplay as tp
        >>> tp.rand_like(tp.zeros(2, 3, dtype=tp.float64)).dtype
        tensorplay.float64
    """
    return created(RAND, (input.shape,), _settings("rand_like", input, dtype, device, generator), requires_grad)


@overridable
def randn_like(
    input: Tensor,
    *,
    generator: Any | None = None,
    dtype: DType | None = None,
    device: Device | str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Returns standard normal numbers in another tensor's shape, dtype and device.

    Example:
        >>> import tensorplay as tp
        >>> tp.randn_like(tp.zeros(2, 3)).shape
        (2, 3)
    """
    return created(RANDN, (input.shape,), _settings("randn_like", input, dtype, device, generator), requires_grad)


@overridable
def randint_like(
    input: Tensor,
    low: int,
    high: int | None = None,
    *,
    generator: Any | None = None,
    dtype: DType | None = None,
    device: Device | str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Returns integers from ``low`` to ``high - 1`` in another tensor's shape, dtype and device.

    ``randint_like(x, high)`` starts at 0.

    Example:
        >>> import tensorplay as tp
        >>> tp.randint_like(tp.zeros(3), 4, 5)
        tensor([4., 4., 4.])
    """
    first, last = (0, low) if high is None else (low, high)
    settings = _settings("randint_like", input, dtype, device, generator)
    return created(RANDINT, (first, last, input.shape), settings, requires_grad)
