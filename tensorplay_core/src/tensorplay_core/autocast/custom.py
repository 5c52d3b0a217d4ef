"""Autocast for ``autograd.Function``: which dtype ``forward`` computes in, and ``backward`` in the same region.

A backward pass runs with autocast off, since formulas compute in the dtypes that the forward pass has chosen. A
Function's own ``backward`` is written like any other code, which wants the region that its ``forward`` had.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from tensorplay_core.autocast.mode import autocast, check_device_type, get_autocast_dtype, is_autocast_enabled
from tensorplay_core.errors import ArgumentError, AutocastError, fix
from tensorplay_core.ops.conversion import to
from tensorplay_core.tensor.tensor import TensorBase
from tensorplay_core.types import dtype as dt
from tensorplay_core.types.dtype import DType


def custom_fwd(fwd: Any = None, *, device_type: str, cast_inputs: DType | None = None) -> Any:
    """Decorates the ``forward`` of a Function, which takes ``ctx``, for use where autocast may be on.

    Args:
        fwd: the static method's function.
        device_type: the device type whose autocast is meant.
        cast_inputs: where autocast is on, cast the floating inputs on that device to this dtype, float64 apart, and run
            ``forward`` with autocast off. Without it, ``forward`` runs with autocast as it is.

    Raises:
        ArgumentError: ``cast_inputs`` is no floating dtype.
        AutocastError: there is no such device type.

    Example:
        >>> import tensorplay as tp
        >>> class Square(tp.autograd.Function):
        ...     @staticmethod
        ...     @tp.amp.custom_fwd(device_type="cpu", cast_inputs=tp.float32)
        ...     def forward(ctx, x):
        ...         ctx.save_for_backward(x)
        ...         return x * x
        ...
        ...     @staticmethod
        ...     @tp.amp.custom_bwd(device_type="cpu")
        ...     def backward(ctx, grad):
        ...         return 2 * ctx.saved_tensors[0] * grad
        >>> with tp.autocast("cpu"):
        ...     Square.apply(tp.ones(2, dtype=tp.bfloat16)).dtype
        tensorplay.float32
    """
    check_device_type("custom_fwd", device_type)
    if cast_inputs is not None and not (isinstance(cast_inputs, DType) and cast_inputs.is_floating_point):
        raise ArgumentError(
            f"custom_fwd: cast_inputs is a floating dtype, not {cast_inputs!r}" + fix("pass tp.float32 or another one.")
        )
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)

    @functools.wraps(fwd)
    def decorated(ctx: Any, *args: Any, **kwargs: Any) -> Any:
        on = is_autocast_enabled(device_type)
        kept = on and cast_inputs is None, get_autocast_dtype(device_type)
        ctx._autocast = {**getattr(ctx, "_autocast", {}), device_type: kept}
        if not on or cast_inputs is None:
            return fwd(ctx, *args, **kwargs)
        with autocast(device_type, enabled=False):
            return fwd(ctx, *_cast(args, device_type, cast_inputs), **_cast(kwargs, device_type, cast_inputs))

    return decorated


def custom_bwd(bwd: Any = None, *, device_type: str) -> Any:
    """Decorates the ``backward`` of a Function: it runs with autocast as its ``forward`` did; see :func:`custom_fwd`.

    Args:
        bwd: the static method's function.
        device_type: the one that :func:`custom_fwd` was given.

    Raises:
        AutocastError: there is no such device type; or, at the call, ``forward`` is not decorated.
    """
    check_device_type("custom_bwd", device_type)
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)

    @functools.wraps(bwd)
    def decorated(ctx: Any, *args: Any, **kwargs: Any) -> Any:
        known = getattr(ctx, "_autocast", {}).get(device_type)
        if known is None:
            raise AutocastError(
                f"custom_bwd: nobody has kept how autocast was for {device_type!r} in forward"
                + fix(f"decorate forward with custom_fwd(device_type={device_type!r}).")
            )
        enabled, dtype = known
        with autocast(device_type, dtype, enabled):
            return bwd(ctx, *args, **kwargs)

    return decorated


def _cast(value: Any, device_type: str, dtype: DType) -> Any:
    """Returns the floating tensors of a device in another dtype, those in lists, tuples and mappings too."""
    if isinstance(value, TensorBase):
        tensor: Any = value
        known = tensor._type
        casts = known.dtype.is_floating_point and known.dtype is not dt.float64 and known.device.type == device_type
        return to(tensor, dtype=dtype) if casts else tensor
    if isinstance(value, Mapping):
        return {key: _cast(one, device_type, dtype) for key, one in value.items()}
    if value.__class__ is list or value.__class__ is tuple:
        return value.__class__([_cast(one, device_type, dtype) for one in value])
    return value
