"""Functions that return as many tensors as they are asked for, which no signature of the contract says."""

from __future__ import annotations

from tensorplay_core.ops import _generated_functional_view as view
from tensorplay_core.ops._generated_schemas_sorting import _UNIQUE2, UNIQUE_DIM, UNIQUE_DIM_CONSECUTIVE
from tensorplay_core.ops.call import call
from tensorplay_core.tensor.overrides import overridable
from tensorplay_core.tensor.tensor import Tensor


@overridable
def unique(
    input: Tensor,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Tensor | tuple[Tensor, ...]:
    """Returns the elements that differ, or the slices along a dim, each once and in order.

    NaN differs from NaN. The gradient of an element goes to the first of those that equal it; PyTorch has none.

    Args:
        input: the tensor.
        sorted: they are in order whatever it says; in PyTorch they may not be.
        return_inverse: also where in the result each element of ``input`` is, int64: in the shape of ``input``, or
            one for each slice.
        return_counts: also how often each occurs, int64.
        dim: compares slices along it; by default the elements of the flattened tensor.

    Returns:
        The values, or a tuple of them and what else was asked for.

    Raises:
        DTypeError: the dtype is complex, which has no order.
        DimError: the tensor has no such dim.

    Example:
        >>> import tensorplay as tp
        >>> tp.unique(tp.tensor([3, 1, 3]))
        tensor([1, 3])
        >>> tp.unique(tp.tensor([3, 1, 3]), return_inverse=True, return_counts=True)
        (tensor([1, 3]), tensor([1, 0, 1]), tensor([1, 2]))
        >>> tp.unique(tp.tensor([[1, 2], [0, 5], [1, 2]]), dim=0)
        tensor([[0, 5],
                [1, 2]])
    """
    if dim is None:
        found = call(_UNIQUE2, (input, sorted, return_inverse, return_counts))
    else:
        found = call(UNIQUE_DIM, (input, dim, sorted, return_inverse, return_counts))
    return _asked(found, return_inverse, return_counts)


@overridable
def unique_consecutive(
    input: Tensor, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Tensor | tuple[Tensor, ...]:
    """Returns the first of each run of equal elements, or of equal slices along a dim.

    Args:
        input: the tensor.
        return_inverse: also which run each element of ``input``, or each slice, is in, int64.
        return_counts: also how long each run is, int64.
        dim: compares slices along it; by default the elements of the flattened tensor.

    Returns:
        The values, or a tuple of them and what else was asked for.

    Raises:
        DimError: the tensor has no such dim.

    Example:
        >>> import tensorplay as tp
        >>> tp.unique_consecutive(tp.tensor([1, 1, 2, 1]), return_counts=True)
        (tensor([1, 2, 1]), tensor([2, 1, 1]))
    """
    if dim is None:
        flat = view.reshape(input, (-1,))
        values, inverse, counts = call(UNIQUE_DIM_CONSECUTIVE, (flat, 0, return_inverse, return_counts))
        found = values, inverse.reshape(input.shape) if return_inverse else inverse, counts
    else:
        found = call(UNIQUE_DIM_CONSECUTIVE, (input, dim, return_inverse, return_counts))
    return _asked(found, return_inverse, return_counts)


def _asked(found: tuple[Tensor, ...], return_inverse: bool, return_counts: bool) -> Tensor | tuple[Tensor, ...]:
    if not (return_inverse or return_counts):
        return found[0]
    asked = (True, return_inverse, return_counts)
    return tuple([one for one, wanted in zip(found, asked, strict=True) if wanted])
