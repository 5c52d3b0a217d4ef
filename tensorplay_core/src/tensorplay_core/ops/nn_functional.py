"""Functions of ``tp.nn.functional`` alone: what PyTorch writes in Python over its operators, with more arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tensorplay_core.ops import _generated_functional_padding as padding_
from tensorplay_core.ops import _generated_functional_pooling as pooling
from tensorplay_core.tensor.overrides import overridable
from tensorplay_core.tensor.tensor import Tensor

Sizes = int | Sequence[int]


@overridable
def max_pool1d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """Returns the largest element of each window over the last dim.

    Args:
        input: (N, C, L), or (C, L) for one sample.
        kernel_size: the elements of a window.
        stride: steps between windows; the kernel's size where it is left out.
        padding: minus infinities at both ends, at most half of the kernel's extent.
        dilation: steps between the elements of a window.
        ceil_mode: a last window may reach beyond the end.
        return_indices: also return the place of each, an int64 tensor.

    Raises:
        ShapeError, ValueRangeError: no window fits, or a size is not allowed.

    Example:
        >>> import tensorplay as tp
        >>> tp.nn.functional.max_pool1d(tp.tensor([[1.0, 3.0, 2.0, 2.0]]), 2, return_indices=True)
        (tensor([[3., 2.]]), tensor([[1, 2]]))
    """
    function: Any = pooling.max_pool1d_with_indices if return_indices else pooling.max_pool1d
    return function(input, kernel_size, () if stride is None else stride, padding, dilation, ceil_mode)


@overridable
def max_pool2d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """Returns the largest element of each window over the last two dims.

    Args:
        input: (N, C, H, W), or (C, H, W) for one sample.
        kernel_size: the elements of a window; one number or one for each dim, as those below.
        stride: steps between windows; the kernel's size where it is left out.
        padding: minus infinities at both ends, at most half of the kernel's extent.
        dilation: steps between the elements of a window.
        ceil_mode: a last window may reach beyond the end.
        return_indices: also return the place of each in C order of the last two dims, an int64 tensor.

    Raises:
        ShapeError, ValueRangeError: no window fits, or a size is not allowed.

    Example:
        >>> import tensorplay as tp
        >>> x = tp.tensor([[[1.0, 2.0, 5.0], [4.0, 3.0, 0.0]]])
        >>> tp.nn.functional.max_pool2d(x, 2, stride=1, return_indices=True)
        (tensor([[[4., 5.]]]), tensor([[[3, 2]]]))
    """
    function: Any = pooling.max_pool2d_with_indices if return_indices else pooling.max_pool2d
    return function(input, kernel_size, () if stride is None else stride, padding, dilation, ceil_mode)


@overridable
def max_pool3d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """Returns the largest element of each window over the last three dims; as :func:`max_pool2d`, with one more dim.

    Args:
        input: (N, C, D, H, W), or (C, D, H, W) for one sample.
        kernel_size: the elements of a window; one number or one for each dim, as those below.
        stride: steps between windows; the kernel's size where it is left out.
        padding: minus infinities at both ends, at most half of the kernel's extent.
        dilation: steps between the elements of a window.
        ceil_mode: a last window may reach beyond the end.
        return_indices: also return the place of each in C order of the last three dims, an int64 tensor.

    Raises:
        ShapeError, ValueRangeError: no window fits, or a size is not allowed.

    Example:
        >>> import tensorplay as tp
        >>> tp.nn.functional.max_pool3d(tp.arange(8.0).reshape(1, 2, 2, 2), 2)
        tensor([[[[7.]]]])
    """
    function: Any = pooling.max_pool3d_with_indices if return_indices else pooling.max_pool3d
    return function(input, kernel_size, () if stride is None else stride, padding, dilation, ceil_mode)


@overridable
def unfold(input: Tensor, kernel_size: Sizes, dilation: Sizes = 1, padding: Sizes = 0, stride: Sizes = 1) -> Tensor:
    """Returns the windows over the last two dims as columns.

    Args:
        input: (N, C, H, W), or (C, H, W) for one sample.
        kernel_size: the elements of a window; one number or one for each dim, as those below.
        dilation: steps between the elements of a window.
        padding: zeros at both ends.
        stride: steps between windows.

    Returns:
        (N, C * places of a window, windows), in the dtype of ``input``.

    Raises:
        ShapeError, ValueRangeError: no window fits, or a size is not allowed.

    Example:
        >>> import tensorplay as tp
        >>> tp.nn.functional.unfold(tp.tensor([[[1, 2, 3]]]), (1, 2))
        tensor([[1, 2],
                [2, 3]])
    """
    return padding_.im2col(input, kernel_size, dilation, padding, stride)


@overridable
def fold(
    input: Tensor,
    output_size: Sizes,
    kernel_size: Sizes,
    dilation: Sizes = 1,
    padding: Sizes = 0,
    stride: Sizes = 1,
) -> Tensor:
    """Adds columns back to where :func:`unfold` takes them from; what lies in several windows is summed.

    Args:
        input: (N, C * places of a window, windows), or without N for one sample.
        output_size: (H, W), or one number for both.
        kernel_size: the elements of a window; one number or one for each dim, as those below.
        dilation: steps between the elements of a window.
        padding: zeros at both ends, which are not in the result.
        stride: steps between windows.

    Returns:
        (N, C, H, W), in the dtype of ``input``.

    Raises:
        ShapeError, ValueRangeError: the columns are not those of such windows, or a size is not allowed.

    Example:
        >>> import tensorplay as tp
        >>> tp.nn.functional.fold(tp.tensor([[1, 2], [2, 3]]), (1, 3), (1, 2))
        tensor([[[1, 4, 3]]])
    """
    return padding_.col2im(input, output_size, kernel_size, dilation, padding, stride)
