"""Normalisation in PyTorch's forms, all of them over one operator, ``_standardize``; and that one in other operators.

The forms differ in what is averaged over and in what scales the result: a view with the right dims, and a weight of a
shape that broadcasts to it, say both. Half precisions compute in float32 throughout and are rounded once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from tensorplay_core.autograd.fitting import sum_to_shape
from tensorplay_core.autograd.modes import no_grad
from tensorplay_core.errors import DTypeError, ShapeError, ValueRangeError, fix
from tensorplay_core.ops import _generated_functional as F
from tensorplay_core.ops.direct import copy_into
from tensorplay_core.tensor.tensor import Tensor
from tensorplay_core.types.dtype import DType, float32

Three = tuple[Tensor, Tensor, Tensor]
EPSILON = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-23, "float64": 2.0**-52}
"""The distance from 1 to the next larger number, by dtype."""


# ------------------------------------------------------------------------------------------------- the operator itself


def _standardize(input: Tensor, weight: Tensor | None, bias: Tensor | None, dim: Sequence[int], eps: float) -> Three:
    """``(x - mean) * rstd * weight + bias``, with the variance of what is left after the mean was taken away."""
    wide, scale, shift = (None if one is None else _wide(one) for one in (input, weight, bias))
    assert wide is not None
    mean = wide.mean(dim, True)
    centred = wide - mean
    var = F.square(centred).mean(dim, True)
    result = centred * F.rsqrt(var + eps)
    if scale is not None:
        result = result * scale
    if shift is not None:
        result = result + shift
    return result.to(input.dtype), mean.to(input.dtype), var.to(input.dtype)


def _standardize_backward(
    grad_out: Tensor,
    input: Tensor,
    mean: Tensor,
    var: Tensor,
    weight: Tensor | None,
    dim: Sequence[int],
    affine: Sequence[int],
    eps: float,
    output_mask: Sequence[bool],
) -> Three:
    """``rstd * (g - mean(g) - h * mean(g * h))`` with ``g = grad * weight`` and the normalised ``h``; and its sums."""
    grad, wide, scale = _wide(grad_out), _wide(input), F.rsqrt(_wide(var) + eps)
    h = (wide - _wide(mean)) * scale
    nothing = input.new_zeros((0,))
    product = grad * h
    weight_grad = sum_to_shape(product, tuple(affine)).to(input.dtype) if output_mask[1] else nothing
    bias_grad = sum_to_shape(grad, tuple(affine)).to(input.dtype) if output_mask[2] else nothing
    if not output_mask[0]:
        return nothing, weight_grad, bias_grad
    if weight is not None:
        grad, product = grad * _wide(weight), product * _wide(weight)
    input_grad = (grad - grad.mean(dim, True) - h * product.mean(dim, True)) * scale
    return input_grad.to(input.dtype), weight_grad, bias_grad


def _wide(tensor: Tensor) -> Tensor:
    return tensor.to(float32) if tensor.dtype.itemsize == 2 else tensor


# ------------------------------------------------------------------------------------------------------ PyTorch's forms


def layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-05,
) -> Tensor:
    """Over the last dims; ``weight`` and ``bias`` have their shape."""
    sizes = _last_dims("layer_norm", input, normalized_shape, weight=weight, bias=bias)
    dims = tuple(range(input.ndim - len(sizes), input.ndim))
    return _in_single(lambda x, w, b: F._standardize(x, w, b, dims, eps)[0], input, weight, bias)


def rms_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None, eps: float | None = None
) -> Tensor:
    """Over the last dims; nothing is taken away."""
    sizes = _last_dims("rms_norm", input, normalized_shape, weight=weight)
    dims = tuple(range(input.ndim - len(sizes), input.ndim))
    least = EPSILON[input.dtype.name] if eps is None else eps

    def normalised(x: Tensor, w: Tensor | None, _: Tensor | None) -> Tensor:
        result = x * F.rsqrt(F.square(x).mean(dims, True) + least)
        return result if w is None else result * w

    return _in_single(normalised, input, weight, None)


def group_norm(
    input: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-05
) -> Tensor:
    """Over the channels of each group, and over all that follows them."""
    _channels("group_norm", input, weight=weight, bias=bias)
    examples, channels, *rest = input.shape
    if num_groups < 1 or channels % num_groups:
        divisors = [n for n in range(1, channels + 1) if channels % n == 0]
        raise ValueRangeError(
            f"group_norm: num_groups must divide the {channels} channels of an input of shape {input.shape}, "
            f"and is {num_groups}"
            + fix(f"use one of {', '.join(map(str, divisors)) or 'none: there are no channels'}.")
        )
    members = channels // num_groups
    affine = (num_groups, members, 1)

    def normalised(x: Tensor, w: Tensor | None, b: Tensor | None) -> Tensor:
        view = x.reshape((examples, num_groups, members, math.prod(rest)))
        w, b = (None if one is None else one.reshape(affine) for one in (w, b))
        return F._standardize(view, w, b, (2, 3), eps)[0].reshape(x.shape)

    return _in_single(normalised, input, weight, bias)


def instance_norm(
    input: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-05,
) -> Tensor:
    """Each channel of each example on its own."""
    statistics = {"running_mean": running_mean, "running_var": running_var}
    _channels("instance_norm", input, weight=weight, bias=bias, **statistics)
    if not use_input_stats:
        return _by_statistics("instance_norm", input, running_mean, running_var, weight, bias, eps)
    count = math.prod(input.shape[2:])
    _more_than_one("instance_norm", count, input, "value in each channel of each example")

    def normalised(x: Tensor, w: Tensor | None, b: Tensor | None) -> Tensor:
        view = x.reshape((*x.shape[:2], count))
        w, b = (None if one is None else one.reshape((-1, 1)) for one in (w, b))
        result, mean, var = F._standardize(view, w, b, (2,), eps)
        _move(running_mean, running_var, mean, var, momentum, count)
        return result.reshape(x.shape)

    return _in_single(normalised, input, weight, bias)


def batch_norm(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-05,
) -> Tensor:
    """Each channel over all examples."""
    statistics = {"running_mean": running_mean, "running_var": running_var}
    _channels("batch_norm", input, weight=weight, bias=bias, **statistics)
    if not training:
        return _by_statistics("batch_norm", input, running_mean, running_var, weight, bias, eps)
    examples, channels, *rest = input.shape
    inner = math.prod(rest)
    _more_than_one("batch_norm", examples * inner, input, "value in each channel")

    def normalised(x: Tensor, w: Tensor | None, b: Tensor | None) -> Tensor:
        view = x.reshape((examples, channels, inner))
        w, b = (None if one is None else one.reshape((-1, 1)) for one in (w, b))
        result, mean, var = F._standardize(view, w, b, (0, 2), eps)
        _move(running_mean, running_var, mean, var, momentum, examples * inner)
        return result.reshape(x.shape)

    return _in_single(normalised, input, weight, bias)


# ---------------------------------------------------------------------------------------------------------------- parts


def _in_single(
    function: Callable[[Tensor, Tensor | None, Tensor | None], Tensor],
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
) -> Tensor:
    """Computes half precisions in float32, so that no statistic is rounded to one; the result is the input's dtype."""
    if input.dtype.itemsize != 2:
        return function(input, weight, bias)
    w, b = (None if one is None else one.to(float32) for one in (weight, bias))
    return function(input.to(float32), w, b).to(input.dtype)


def _move(
    running_mean: Tensor | None,
    running_var: Tensor | None,
    mean: Tensor,
    var: Tensor,
    momentum: float,
    count: int,
) -> None:
    """Moves the running statistics in place; the variance is the unbiased one."""
    with no_grad():
        for running, new in ((running_mean, mean), (running_var, var * (count / max(count - 1, 1)))):
            if running is not None:
                value = new.detach().reshape((-1, running.shape[0])).mean(0).to(running.dtype)
                copy_into(running, running * (1 - momentum) + value * momentum)


def _by_statistics(
    op: str,
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None,
    bias: Tensor | None,
    eps: float,
) -> Tensor:
    """``(x - mean) / sqrt(var + eps) * weight + bias`` with statistics that are given, channel by channel."""
    if running_mean is None or running_var is None:
        missing = "running_mean" if running_mean is None else "running_var"
        switch = "training" if op == "batch_norm" else "use_input_stats"
        raise ValueRangeError(
            f"{op}: without {switch} it normalises by running_mean and running_var, and {missing} is None"
            + fix(f"pass both, or {switch}=True to use the statistics of the input.")
        )
    shape = (-1, *(1,) * (input.ndim - 2))
    dtype = float32 if input.dtype.itemsize == 2 else input.dtype
    scale = F.rsqrt(running_var.to(dtype) + eps)
    if weight is not None:
        scale = scale * weight.to(dtype)
    shift = -running_mean.to(dtype) * scale  # as in PyTorch: one multiplication and one addition for each element
    if bias is not None:
        shift = shift + bias.to(dtype)
    return F.addcmul(shift.reshape(shape), input.to(dtype), scale.reshape(shape)).to(input.dtype)


def _floating(op: str, dtype: DType) -> None:
    if not dtype.is_floating_point:
        raise DTypeError(f"{op}: takes floating dtypes, not {dtype.name}" + fix("convert with .to(tp.float32)."))


def _last_dims(op: str, input: Tensor, normalized_shape: Sequence[int], **affine: Tensor | None) -> tuple[int, ...]:
    """Returns ``normalized_shape``, which must be the last sizes of the input, and the shape of weight and bias."""
    _floating(op, input.dtype)
    sizes = tuple(normalized_shape)
    if not sizes or input.shape[-len(sizes) :] != sizes:
        last = list(input.shape[-max(1, len(sizes)) :])
        raise ShapeError(
            f"{op}: normalized_shape {list(sizes)} must be the last sizes of the input, whose shape is {input.shape}"
            + fix(f"pass normalized_shape={last}." if last else "give the input a dim.")
        )
    for name, one in affine.items():
        if one is not None and one.shape != sizes:
            raise ShapeError(f"{op}: {name} must have the shape of normalized_shape, {sizes}, and has {one.shape}")
    return sizes


def _channels(op: str, input: Tensor, **given: Tensor | None) -> None:
    """Refuses an input without channels, and tensors that have not one element a channel."""
    _floating(op, input.dtype)
    if input.ndim < 2:
        raise ShapeError(
            f"{op}: the input must be (N, C) or (N, C, ...), and has shape {input.shape}"
            + fix("add the dim of the examples with .unsqueeze(0).")
        )
    channels = input.shape[1]
    for name, one in given.items():
        if one is not None and one.shape != (channels,):
            raise ShapeError(
                f"{op}: {name} must have one element a channel, ({channels},), for an input of shape {input.shape}, "
                f"and has {one.shape}"
            )


def _more_than_one(op: str, count: int, input: Tensor, what: str) -> None:
    if count == 1:
        raise ValueRangeError(
            f"{op}: Expected more than 1 {what} when training, got input of shape {input.shape}: "
            "the mean of one value is that value, and what is left is 0"
            + fix("give it more examples, or normalise by running statistics.")
        )
