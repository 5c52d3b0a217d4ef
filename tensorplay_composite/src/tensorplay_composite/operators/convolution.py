"""Convolutions: the general one and its gradients as products of matrices, and those of one, two and three dims.

A convolution multiplies the weight, as a matrix, with all windows as columns; its gradients multiply with the same
columns. A transposed convolution is the gradient of one with respect to its input.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

from tensorplay_composite.operators.windows import added, columns, cropped, padded
from tensorplay_core.errors import ShapeError, ValueRangeError, did_you_mean, fix
from tensorplay_core.ops import _generated_functional as F
from tensorplay_core.ops.shapes_convolution import Geometry, geometry, per_dim
from tensorplay_core.tensor.tensor import Tensor
from tensorplay_core.types.dtype import float32
from tensorplay_core.types.promotion import promote

Sizes = Any  # an int, or one for each spatial dim


def convolution(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Sizes,
    padding: Sizes,
    dilation: Sizes,
    transposed: bool,
    output_padding: Sizes,
    groups: int,
) -> Tensor:
    """The general convolution."""
    sizes = (stride, padding, dilation, transposed, output_padding, groups)
    found = geometry("convolution", input.shape, weight.shape, None if bias is None else bias.shape, *sizes)
    x, w, *rest = _alike(input, weight, *([] if bias is None else [bias]))
    y = _spread(x, w, found, found.shape[2:]) if transposed else _correlated(x, w, found, found.shape[2:])
    if rest:
        y = y + rest[0].reshape((1, -1) + (1,) * (weight.ndim - 2))
    return y.to(_common(input, weight, *([] if bias is None else [bias]))).contiguous()


def convolution_backward(
    grad_output: Tensor,
    input: Tensor,
    weight: Tensor,
    bias_sizes: Any,
    stride: Sizes,
    padding: Sizes,
    dilation: Sizes,
    transposed: bool,
    output_padding: Sizes,
    groups: int,
    output_mask: Any,
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of input, weight and bias."""
    sizes = (stride, padding, dilation, transposed, output_padding, groups)
    found = geometry("convolution_backward", input.shape, weight.shape, bias_sizes, *sizes)
    dtype = _common(grad_output, input, weight)
    g, x, w = _alike(grad_output, input, weight)
    first = second = third = g.new_zeros((0,))
    if output_mask[0]:
        first = _correlated(g, w, found, input.shape[2:]) if transposed else _spread(g, w, found, input.shape[2:])
    if output_mask[1]:
        second = _weighed(g, x, weight.shape, found) if transposed else _weighed(x, g, weight.shape, found)
    if output_mask[2]:
        third = g.sum((0, *range(2, g.ndim)))
    return first.to(dtype).contiguous(), second.to(dtype).contiguous(), third.to(dtype)


def _common(*tensors: Tensor) -> Any:
    return functools.reduce(promote, [t.dtype for t in tensors])


def _alike(*tensors: Tensor) -> list[Tensor]:
    """Returns tensors in the dtype that is computed in: the common one, float32 for half precisions."""
    dtype = _common(*tensors)
    wide = float32 if dtype.is_floating_point and dtype.itemsize == 2 else dtype
    return [t.to(wide) for t in tensors]


def _correlated(x: Tensor, w: Tensor, found: Geometry, count: Any) -> Tensor:
    """Slides the kernel over the input; where the convolution is transposed, its gradient does.

    ``count`` says how many windows there are; an output padding leaves room for more.
    """
    _, _, *kernel = w.shape
    groups, channels = found.groups, w.shape[0]
    cut = columns(padded(x, found.padding), kernel, count, found.stride, found.dilation)
    inner = w.shape[1] * math.prod(kernel)
    cut = cut.reshape((x.shape[0], groups, inner, math.prod(count)))
    return (w.reshape((groups, channels // groups, inner)) @ cut).reshape((x.shape[0], channels, *count))


def _spread(g: Tensor, w: Tensor, found: Geometry, sizes: Any) -> Tensor:
    """Adds the kernel, times each element, to where its window is: the transpose of :func:`_correlated`."""
    outer, own, *kernel = w.shape
    groups, samples, count = found.groups, g.shape[0], g.shape[2:]
    inner = own * math.prod(kernel)
    matrix = w.reshape((groups, outer // groups, inner)).transpose(1, 2)
    parts = matrix @ g.reshape((samples, groups, outer // groups, math.prod(count)))
    parts = parts.reshape((samples, own * groups, math.prod(kernel), *count))
    room = [n + 2 * p for n, p in zip(sizes, found.padding, strict=True)]
    return cropped(added(parts, room, kernel, found.stride, found.dilation), found.padding, sizes).clone()


def _weighed(x: Tensor, g: Tensor, shape: Any, found: Geometry) -> Tensor:
    """Multiplies every window of ``x`` with the element of ``g`` that it belongs to: the weight's gradient."""
    outer, own, *kernel = shape
    groups, samples, count = found.groups, g.shape[0], g.shape[2:]
    cut = columns(padded(x, found.padding), kernel, count, found.stride, found.dilation)
    cut = cut.reshape((samples, groups, own * math.prod(kernel), math.prod(count)))
    parts = g.reshape((samples, groups, outer // groups, math.prod(count))) @ cut.transpose(2, 3)
    return parts.sum(0).reshape(shape)


# --------------------------------------------------------------------------------------------- one, two and three dims


def batched(op: str, input: Tensor, count: int) -> bool:
    """Whether the input is a batch, rather than one sample without a batch dim.

    Raises:
        ShapeError: it is neither.
    """
    if input.ndim not in (count + 1, count + 2):
        sizes = ("L", "H, W", "D, H, W")[count - 1]
        raise ShapeError(
            f"{op}: Expected {count + 1}D (unbatched) or {count + 2}D (batched) input: (C, {sizes}) or "
            f"(N, C, {sizes}), but got {input.ndim}D, of shape {input.shape}" + fix("reshape or unsqueeze it")
        )
    return input.ndim == count + 2


def _check_weight(op: str, weight: Tensor, count: int) -> None:
    if weight.ndim != count + 2:
        raise ShapeError(f"{op}: weight must have {count + 2} dims, {count} of them the kernel's, not {weight.shape}")


def _convolved(op: str, count: int) -> Callable[..., Tensor]:
    def conv(
        input: Tensor,
        weight: Tensor,
        bias: Tensor | None = None,
        stride: Sizes = 1,
        padding: Sizes = 0,
        dilation: Sizes = 1,
        groups: int = 1,
    ) -> Tensor:
        _check_weight(op, weight, count)
        steps, gaps = per_dim(op, stride, count, "stride", 1), per_dim(op, dilation, count, "dilation", 1)
        pads = per_dim(op, padding, count, "padding", 0)
        whole = batched(op, input, count)
        x = input if whole else input.unsqueeze(0)
        y = F.convolution(x, weight, bias, steps, pads, gaps, False, (0,) * count, groups)
        return y if whole else y.squeeze(0)

    conv.__name__, conv.__doc__ = op, f"The convolution over {count} dims."
    return conv


def _named_padding(op: str, count: int) -> Callable[..., Tensor]:
    convolved = _convolved(op, count)

    def conv(
        input: Tensor,
        weight: Tensor,
        bias: Tensor | None = None,
        stride: Sizes = 1,
        padding: str = "valid",
        dilation: Sizes = 1,
        groups: int = 1,
    ) -> Tensor:
        if padding not in ("valid", "same"):
            names = ("valid", "same")
            raise ValueRangeError(
                f"{op}: padding must be 'valid' or 'same', not {padding!r}.{did_you_mean(padding, names)}"
            )
        if padding == "valid":
            return convolved(input, weight, bias, stride, 0, dilation, groups)
        _check_weight(op, weight, count)
        if set(per_dim(op, stride, count, "stride", 1)) != {1}:
            raise ValueRangeError(
                f"{op}: padding='same' is not supported for strided convolutions, and stride is {stride}"
                + fix("use stride=1, or a padding in numbers")
            )
        gaps = per_dim(op, dilation, count, "dilation", 1)
        total = [g * (k - 1) for g, k in zip(gaps, weight.shape[2:], strict=True)]
        if any(n % 2 for n in total):  # one more at the end, as in PyTorch
            batched(op, input, count)
            input = F.constant_pad_nd(input, [n for size in reversed(total) for n in (0, size % 2)])
        return convolved(input, weight, bias, stride, [n // 2 for n in total], dilation, groups)

    conv.__name__, conv.__doc__ = op, f"The convolution over {count} dims, its padding given by name."
    return conv


def _transposed(op: str, count: int) -> Callable[..., Tensor]:
    def conv_transpose(
        input: Tensor,
        weight: Tensor,
        bias: Tensor | None = None,
        stride: Sizes = 1,
        padding: Sizes = 0,
        output_padding: Sizes = 0,
        groups: int = 1,
        dilation: Sizes = 1,
    ) -> Tensor:
        _check_weight(op, weight, count)
        steps, gaps = per_dim(op, stride, count, "stride", 1), per_dim(op, dilation, count, "dilation", 1)
        pads, more = (
            per_dim(op, one, count, name, 0) for one, name in ((padding, "padding"), (output_padding, "output_padding"))
        )
        whole = batched(op, input, count)
        x = input if whole else input.unsqueeze(0)
        y = F.convolution(x, weight, bias, steps, pads, gaps, True, more, groups)
        return y if whole else y.squeeze(0)

    conv_transpose.__name__, conv_transpose.__doc__ = op, f"The transposed convolution over {count} dims."
    return conv_transpose


KERNELS: dict[str, Callable[..., Any]] = {
    "convolution": convolution,
    "convolution_backward": convolution_backward,
    **{f"conv{n}d": _convolved(f"conv{n}d", n) for n in (1, 2, 3)},
    **{f"conv{n}d.padding": _named_padding(f"conv{n}d", n) for n in (1, 2, 3)},
    "conv_transpose1d": _transposed("conv_transpose1d", 1),
    **{f"conv_transpose{n}d.input": _transposed(f"conv_transpose{n}d", n) for n in (2, 3)},
}
"""Name in the contract to Composite kernel."""
