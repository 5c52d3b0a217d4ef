"""The array of the meta device: what an array is without its elements.

A meta tensor answers everything that can be said without data: shape, dtype, strides, which memory a view shares. No
array library is needed for it. The layout of results follows NumPy and PyTorch, which agree: an elementwise result is
laid out as its operands are, and a view has the strides that its base's memory gives it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import prod
from typing import Protocol

from tensorplay_core.errors import ArgumentError, NoDataError, fix
from tensorplay_core.types.dtype import DType

Shape = tuple[int, ...]


class MetaArray:
    """The shape, strides and dtype of an array, and which memory it would share; no memory is held.

    Args:
        shape: its sizes.
        dtype: its element type.
        strides: in elements; C order without gaps when None.
        base: the array whose memory it shares; None when the memory is its own.
        offset: the place of its first element in that memory, in elements.

    Example:
        >>> from tensorplay_core.types.dtype import float32
        >>> MetaArray((2, 3), float32)
        MetaArray((2, 3), float32, strides=(3, 1))
    """

    __slots__ = ("base", "dtype", "offset", "shape", "strides")

    def __init__(
        self, shape: Shape, dtype: DType, strides: Shape | None = None, base: MetaArray | None = None, offset: int = 0
    ) -> None:
        """See the class."""
        self.shape = shape
        self.dtype = dtype
        self.strides = contiguous_strides(shape) if strides is None else strides
        self.base = base
        self.offset = offset

    @property
    def ndim(self) -> int:
        """The number of dims."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return prod(self.shape)

    def view(self, shape: Shape, strides: Shape, offset: int = 0) -> MetaArray:
        """Returns an array over the same memory, whose first element is ``offset`` elements after this one's."""
        base = self if self.base is None else self.base
        return MetaArray(shape, self.dtype, strides, base, self.offset + offset)

    def packed(self, dtype: DType) -> MetaArray:
        """Returns an array of another dtype with memory of its own, whose dims lie in the same order, without gaps."""
        return MetaArray(self.shape, dtype, like_operands(self.shape, (self,)))

    def __reduce__(self) -> tuple[Callable[..., MetaArray], tuple[Shape, DType, Shape]]:
        """Pickles and copies as an array with memory of its own."""
        return MetaArray, (self.shape, self.dtype, self.strides)

    def __repr__(self) -> str:
        """Describes the array."""
        return f"MetaArray({self.shape}, {self.dtype.name}, strides={self.strides})"


def no_data(what: str = "", fake: bool = False) -> NoDataError:
    """Returns the error for whoever asks a meta tensor, or a fake one, for its elements; ``what`` asks."""
    head = f"{what}: " if what else ""
    if fake:
        return NoDataError(
            f"{head}a fake tensor has no data, only a device, a shape, strides and a dtype"
            + fix("make a real one outside of the FakeMode block, e.g. tp.zeros(x.shape), and fill it.")
        )
    return NoDataError(
        f"{head}a meta tensor has no data, only a shape, strides and a dtype"
        + fix("make one that has, e.g. tp.zeros_like(x, device='cpu'), and fill it.")
    )


class NoArrayError(NoDataError, ArgumentError):
    """NumPy asks a meta tensor for its elements: a TypeError too, as in PyTorch."""


# -------------------------------------------------------------------------------------------------------------- strides


def contiguous_strides(shape: Sequence[int]) -> Shape:
    """Returns the strides of C order without gaps, in elements.

    Example:
        >>> contiguous_strides((2, 3, 4)), contiguous_strides((2, 0))
        ((12, 4, 1), (1, 1))
    """
    step, strides = 1, []
    for size in reversed(shape):
        strides.append(step)
        step *= size or 1
    return tuple(reversed(strides))


class Strided(Protocol):
    """What lies in memory by strides, in elements: the arrays here, and those of a backend that keeps its own."""

    shape: Shape
    strides: Shape


def is_contiguous(array: Strided) -> bool:
    """Whether the elements lie in C order without gaps; the stride of a dim of one element means nothing."""
    step = 1
    for size, stride in zip(reversed(array.shape), reversed(array.strides), strict=True):
        if size == 0:
            return True
        if size != 1 and stride != step:
            return 0 in array.shape
        step *= size
    return True


def like_operands(shape: Shape, operands: Iterable[MetaArray]) -> Shape | None:
    """Returns the strides of an elementwise result, without gaps; None for C order.

    The dims lie in the order in which the operands' do, so that a sum of two transposed matrices is transposed too.
    Where operands disagree, C order wins. This is NumPy's order "K" (``npyiter_find_best_axis_ordering`` in
    nditer_constr.c, an insertion sort from the smallest stride up), and what PyTorch's TensorIterator gives.

    Example:
        >>> from tensorplay_core.types.dtype import float32
        >>> transposed = MetaArray((2, 3), float32, (1, 2))
        >>> like_operands((2, 3), [transposed, MetaArray((3,), float32)])
        (1, 2)
    """
    scattered = [array for array in operands if array.shape]
    if all(map(is_contiguous, scattered)):
        return None
    order = innermost_first([_aligned(array, len(shape)) for array in scattered], len(shape))
    strides, step = [0] * len(shape), 1
    for dim in order:
        strides[dim] = step
        step *= shape[dim] or 1
    return tuple(strides)


def innermost_first(steps: Sequence[Sequence[int]], ndim: int) -> list[int]:
    """Returns the dims in the order in which operands have them in memory, the innermost first; see above.

    Args:
        steps: the strides of each operand in all dims, in any unit; 0 where it is repeated or has one element.
        ndim: how many dims there are.

    Example:
        >>> innermost_first([(4, 1)], 2), innermost_first([(-1, -3)], 2), innermost_first([(1, 3), (4, 1)], 2)
        ([1, 0], [0, 1], [1, 0])
    """
    order: list[int] = []
    for dim in reversed(range(ndim)):  # from the innermost dim of C order
        place = len(order)
        for before in reversed(range(len(order))):
            larger = _lies_inside(dim, order[before], steps)
            if larger is False:
                break
            place = before if larger else place
        order.insert(place, dim)
    return order


def _aligned(array: MetaArray, ndim: int) -> Shape:
    """Returns strides for all dims of a result; 0 where an operand is repeated."""
    own = [0 if size == 1 else stride for size, stride in zip(array.shape, array.strides, strict=True)]
    return (0,) * (ndim - len(own)) + tuple(own)


def _lies_inside(dim: int, other: int, steps: Sequence[Sequence[int]]) -> bool | None:
    """Whether ``dim`` has smaller strides than ``other``, a dim further inside; None when no operand can tell."""
    answer: bool | None = None
    for strides in steps:
        if strides[dim] and strides[other]:
            if abs(strides[other]) <= abs(strides[dim]):
                answer = False
            elif answer is None:
                answer = True
    return answer


def reshaped_strides(array: MetaArray, shape: Shape) -> Shape | None:
    """Returns the strides of a view in another shape; None where the memory does not allow one.

    Dims that lie one after another in memory are joined and cut anew, as ``computeStride`` in PyTorch's
    aten/src/ATen/TensorUtils.cpp does.

    Example:
        >>> from tensorplay_core.types.dtype import float32
        >>> reshaped_strides(MetaArray((2, 3, 4), float32), (6, 2, 2))
        (4, 2, 1)
        >>> reshaped_strides(MetaArray((3, 2), float32, (1, 3)), (6,)) is None
        True
    """
    if 0 in shape:
        return array.strides if shape == array.shape else contiguous_strides(shape)
    found: list[int] = []
    sizes = list(reversed(shape))
    for count, step in _chunks(array):
        chunk = 1
        while sizes and (chunk < count or sizes[0] == 1):
            found.append(chunk * step)
            chunk *= sizes.pop(0)
        if chunk != count:
            return None
    return tuple(reversed(found))


def _chunks(array: MetaArray) -> Iterable[tuple[int, int]]:
    """Yields the runs of dims that lie one after another in memory, from the last: number of elements, stride."""
    count, step = 1, None
    for size, stride in zip(reversed(array.shape), reversed(array.strides), strict=True):
        if size == 1:
            continue
        if step is None:
            count, step = size, stride
        elif stride == count * step:
            count *= size
        else:
            yield count, step
            count, step = size, stride
    yield count, 1 if step is None else step


# --------------------------------------------------------------------------------------------------------------- memory


def may_alias(a: MetaArray, b: MetaArray) -> bool:
    """Whether the stretches of memory of two arrays meet, as ``numpy.may_share_memory`` judges it."""
    if (a.base or a) is not (b.base or b) or not a.size or not b.size:
        return False
    return a.offset <= _last(b) and b.offset <= _last(a)


def _last(array: MetaArray) -> int:
    """Returns the place of the last element in memory."""
    steps = zip(array.shape, array.strides, strict=True)
    return array.offset + sum((size - 1) * stride for size, stride in steps)


def overlaps_itself(array: MetaArray) -> bool:
    """Whether two elements are the same memory, as after ``expand``."""
    if 0 in array.shape:
        return False
    return any(stride == 0 and size > 1 for size, stride in zip(array.shape, array.strides, strict=True))
