"""The array of the device: a stretch of a GPU buffer, seen with a shape and strides.

An array knows nothing but where its elements lie; whatever is done with them is a shader's work. Views share the
buffer, and a buffer lives as long as an array refers to it. Every element takes four bytes, a bool too: WGSL can
address nothing smaller, and two threads that write to one word would lose each other's bits.
"""

from __future__ import annotations

from math import prod
from typing import Any, NamedTuple

from tensorplay_core.tensor.meta_array import contiguous_strides

Shape = tuple[int, ...]

ITEMSIZE = 4


class VulkanDType(NamedTuple):
    """A dtype that shaders compute in.

    Attributes:
        name: as TensorPlay calls it, and NumPy.
        wgsl: as WGSL calls it.
        host: the NumPy dtype of the words in a buffer.
    """

    name: str
    wgsl: str
    host: str

    def __repr__(self) -> str:
        """Returns its name, for messages."""
        return self.name


BOOL = VulkanDType("bool", "bool", "uint32")
INT32 = VulkanDType("int32", "i32", "int32")
FLOAT32 = VulkanDType("float32", "f32", "float32")

DTYPES = {dtype.name: dtype for dtype in (BOOL, INT32, FLOAT32)}


class VulkanArray:
    """An array on the GPU.

    Args:
        buffer: the ``wgpu.GPUBuffer`` that holds the elements, each in a word of its own.
        shape: its sizes.
        dtype: its element type.
        strides: in elements; C order without gaps when None.
        offset: the place of its first element in the buffer, in elements.
    """

    __slots__ = ("buffer", "dtype", "offset", "shape", "strides")

    def __init__(
        self, buffer: Any, shape: Shape, dtype: VulkanDType, strides: Shape | None = None, offset: int = 0
    ) -> None:
        """See the class."""
        self.buffer = buffer
        self.shape = shape
        self.dtype = dtype
        self.strides = contiguous_strides(shape) if strides is None else strides
        self.offset = offset

    @property
    def ndim(self) -> int:
        """The number of dims."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return prod(self.shape)

    def view(self, shape: Shape, strides: Shape, offset: int = 0) -> VulkanArray:
        """Returns an array over the same buffer, whose first element is ``offset`` elements after this one's."""
        return VulkanArray(self.buffer, shape, self.dtype, strides, self.offset + offset)

    def last(self) -> int:
        """Returns the place of its last element in the buffer."""
        return self.offset + sum((size - 1) * step for size, step in zip(self.shape, self.strides, strict=True))

    def __repr__(self) -> str:
        """Describes the array without reading it."""
        return f"VulkanArray({self.shape}, {self.dtype.name}, strides={self.strides}, offset={self.offset})"
