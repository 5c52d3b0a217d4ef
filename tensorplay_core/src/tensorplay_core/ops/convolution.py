"""The public convolutions, which take a padding in numbers or by name.

Two records of the contract are one function here, and a call in which nothing is special goes straight to the operator
that both are made of: choosing among overloads and decomposing would cost a small convolution its own time again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tensorplay_core.dispatch import active
from tensorplay_core.dispatch.operator import Operator
from tensorplay_core.ops import _generated_functional_convolution as general
from tensorplay_core.ops._generated_schemas_convolution import (
    CONV1D,
    CONV1D_PADDING,
    CONV2D,
    CONV2D_PADDING,
    CONV3D,
    CONV3D_PADDING,
)
from tensorplay_core.ops.call import call
from tensorplay_core.tensor.overrides import overridable
from tensorplay_core.tensor.tensor import Tensor

_ZEROS = [0]


@overridable
def conv1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] | str = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
) -> Tensor:
    """Slides a kernel over the last dim and sums the products, over all channels of a group.

    Args:
        input: (N, C, L), or (C, L) for one sample.
        weight: (O, C / groups, K).
        bias: (O,), added to each output channel.
        stride: steps between windows.
        padding: zeros at both ends; or ``"valid"`` for none, ``"same"`` for a result of the input's size (stride 1).
        dilation: steps between the elements of a window.
        groups: how many parts the channels are cut into, each with output channels of its own.

    Returns:
        (N, O, M) with ``M = (L + 2 * padding - dilation * (K - 1) - 1) // stride + 1``, in the common dtype of the
        arguments; half precisions compute in float32.

    Raises:
        ShapeError: channels, groups or the bias do not fit, or the kernel is larger than the padded input.
        ValueRangeError: a stride or dilation is not positive, a padding is negative or no known name.

    Example:
        >>> import tensorplay as tp
        >>> x = tp.tensor([[1.0, 2.0, 3.0, 4.0]])
        >>> tp.nn.functional.conv1d(x, tp.tensor([[[1.0, 0.0, -1.0]]]))
        tensor([[-2., -2.]])
        >>> tp.nn.functional.conv1d(x, tp.tensor([[[1.0, 1.0]]]), padding="same")
        tensor([[3., 5., 7., 4.]])
    """
    return _conv(1, CONV1D, CONV1D_PADDING, input, weight, bias, stride, padding, dilation, groups)


@overridable
def conv2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] | str = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
) -> Tensor:
    """Slides a kernel over the last two dims and sums the products, over all channels of a group.

    Args:
        input: (N, C, H, W), or (C, H, W) for one sample.
        weight: (O, C / groups, KH, KW).
        bias: (O,), added to each output channel.
        stride: steps between windows, one number or one for each dim, as those below.
        padding: zeros at both ends; or ``"valid"`` for none, ``"same"`` for a result of the input's size (stride 1).
        dilation: steps between the elements of a window.
        groups: how many parts the channels are cut into, each with output channels of its own.

    Returns:
        (N, O, H, W), sizes as in :func:`conv1d`.

    Raises:
        ShapeError: channels, groups or the bias do not fit, or the kernel is larger than the padded input.
        ValueRangeError: a stride or dilation is not positive, a padding is negative or no known name.

    Example:
        >>> import tensorplay as tp
        >>> x = tp.arange(9.0).reshape(1, 3, 3)
        >>> tp.nn.functional.conv2d(x, tp.ones(1, 1, 2, 2))
        tensor([[[ 8., 12.],
                 [20., 24.]]])
        >>> tp.nn.functional.conv2d(x, tp.ones(1, 1, 1, 1), tp.tensor([1.0]), stride=2)
        tensor([[[1., 3.],
                 [7., 9.]]])
    """
    return _conv(2, CONV2D, CONV2D_PADDING, input, weight, bias, stride, padding, dilation, groups)


@overridable
def conv3d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] | str = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
) -> Tensor:
    """Slides a kernel over the last three dims; as :func:`conv2d`, with one more dim.

    Args:
        input: (N, C, D, H, W), or (C, D, H, W) for one sample.
        weight: (O, C / groups, KD, KH, KW).
        bias: (O,), added to each output channel.
        stride: steps between windows, one number or one for each dim, as those below.
        padding: zeros at both ends; or ``"valid"`` for none, ``"same"`` for a result of the input's size (stride 1).
        dilation: steps between the elements of a window.
        groups: how many parts the channels are cut into, each with output channels of its own.

    Returns:
        (N, O, D, H, W), sizes as in :func:`conv1d`.

    Raises:
        ShapeError: channels, groups or the bias do not fit, or the kernel is larger than the padded input.
        ValueRangeError: a stride or dilation is not positive, a padding is negative or no known name.

    Example:
        >>> import tensorplay as tp
        >>> tp.nn.functional.conv3d(tp.ones(1, 2, 2, 2), tp.ones(1, 1, 2, 2, 2)).tolist()
        [[[[8.0]]]]
    """
    return _conv(3, CONV3D, CONV3D_PADDING, input, weight, bias, stride, padding, dilation, groups)


def _conv(
    count: int,
    numbers: Operator,
    named: Operator,
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: int,
) -> Tensor:
    if padding.__class__ is not str:
        try:
            if not active.special and len(input._array.shape) == count + 2 == len(weight._array.shape):
                sizes = [stride, padding, dilation]
                sizes = [[one] * count if one.__class__ is int else one for one in sizes]
                if all(len(one) == count for one in sizes):
                    steps, pads, gaps = sizes
                    return general.convolution(input, weight, bias, steps, pads, gaps, False, _ZEROS * count, groups)
        except Exception:  # whatever it is, the slow path meets it again and says it properly
            pass
    op = named if padding.__class__ is str else numbers
    return call(op, (input, weight, bias, stride, padding, dilation, groups))  # type: ignore[no-any-return]
