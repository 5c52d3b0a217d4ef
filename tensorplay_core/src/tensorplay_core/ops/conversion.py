"""Changing dtype and device: ``Tensor.to`` and what is spelled through it."""

from __future__ import annotations

from typing import Any

from tensorplay_core.dispatch import devices
from tensorplay_core.dispatch.tensor_type import intern
from tensorplay_core.ops import direct
from tensorplay_core.ops._generated_schemas_creation import _TO_COPY
from tensorplay_core.ops._generated_schemas_pointwise import CONJ
from tensorplay_core.ops.call import call
from tensorplay_core.tensor.meta_array import MetaArray, no_data
from tensorplay_core.tensor.overrides import overridable
from tensorplay_core.tensor.tensor import Tensor, TensorBase
from tensorplay_core.types.device import Device
from tensorplay_core.types.dtype import ALL, DType, as_dtype

DTYPES = frozenset(dtype.name for dtype in ALL)
"""Names that are no device's, so that ``x.to("float64")`` is told how to write a dtype."""


@overridable
def to(
    input: Tensor,
    *target: Any,
    dtype: DType | None = None,
    device: Device | str | None = None,
    non_blocking: bool = False,
    copy: bool = False,
) -> Tensor:
    """Returns a tensor in another dtype or on another device; the tensor itself when nothing changes.

    Args:
        input: the tensor.
        target: a dtype, a device, both, or a tensor whose dtype and device to take.
        dtype: the dtype, by name.
        device: the device, by name.
        non_blocking: accepted as PyTorch does; copies wait.
        copy: copy even if nothing changes.

    Example:
        >>> import tensorplay as tp
        >>> tp.ones(2).to(tp.int64)
        tensor([1, 1])
    """
    flags = [value for value in target if isinstance(value, bool)]  # non_blocking, copy
    copy = copy or flags[1:2] == [True]
    for value in target:
        if isinstance(value, TensorBase):
            dtype, device = value.dtype, value.device
        elif isinstance(value, Device) or (isinstance(value, str) and value not in DTYPES):
            device = value
        elif not isinstance(value, bool):
            dtype = as_dtype(value)
    wanted = input.dtype if dtype is None else as_dtype(dtype)
    place = (
        input.device if device is None else devices.normalize(device if isinstance(device, Device) else Device(device))
    )
    if wanted is input.dtype and place == input.device:
        return input.clone() if copy else input
    changes = {"dtype": wanted, "device": place}
    if input.__class__ is Tensor and direct.records(input) is False:
        kernel = direct.kernel_on_tensors(_TO_COPY, input._type)
        if kernel is not None:
            return kernel(input, **changes)  # type: ignore[no-any-return]
    return call(_TO_COPY, (input,), changes)  # type: ignore[no-any-return]


@overridable
def conj(input: Tensor) -> Tensor:
    """Returns the complex conjugate; a real tensor itself.

    Example:
        >>> import tensorplay as tp
        >>> tp.conj(tp.tensor([1 + 2j]))
        tensor([1.-2.j])
    """
    if isinstance(input, TensorBase) and not input._type.dtype.is_complex:
        return input
    return call(CONJ, (input,))  # type: ignore[no-any-return]


def _copy_to(tensor: Tensor, *, dtype: DType | None = None, device: Device | None = None) -> Tensor:
    """The Composite kernel of ``_to_copy``: casts where the data is, and crosses devices through the device APIs."""
    from tensorplay_core.dispatch.context import STATE
    from tensorplay_core.tensor.tensor import wrap

    source, array = tensor._type, tensor._array
    target = intern(device or source.device, dtype or source.dtype)
    if target.device == source.device:
        array = target.api.cast(array, target.native)
    elif target.array_class is MetaArray:  # nothing of the data is wanted, so none is fetched
        array = MetaArray(tensor.shape, source.dtype, source.api.strides(array)).packed(target.dtype)
    elif source.array_class is MetaArray:
        raise no_data(f"to: cannot copy to {target.device}")
    else:
        # The narrower side casts: a device need not have the dtype that the tensor comes from.
        if target.dtype is not source.dtype and target.dtype.name in source.api.dtypes:
            array = source.api.cast(array, source.api.dtypes[target.dtype.name])
            host = source.api.to_host(array)
            array = target.api.from_host(host, target.device.index or 0)
        else:
            array = target.api.from_host(source.api.to_host(array), target.device.index or 0)
            if target.dtype is not source.dtype:
                array = target.api.cast(array, target.native)
    return wrap(array, target.inference_twin if STATE.get().inference else target)
