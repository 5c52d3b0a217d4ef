"""A tensor without a library: a shape, a flat list of Python numbers and the name of a dtype.

References take and give these, so that nothing they say depends on the code that is under test, nor on NumPy.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tensorplay_core.testing.references.rounding import round_to
from tensorplay_core.testing.sample_specs import nest

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Array:
    """An n-d array of Python numbers.

    Attributes:
        shape: its shape.
        data: its elements in C order: bools, ints, floats or complex numbers. Those of a reference's result may be
            finer than the dtype; :data:`~tensorplay_core.testing.references.UNSPECIFIED` among them is right whatever
            is found.
        dtype: the name of its dtype.
        slack: absolute errors that a result may have besides the units in the last place, one an element: what
            summation in another order explains.

    Example:
        >>> Array.of([[1, 2], [3, 4]], "int64")
        Array(shape=(2, 2), data=[1, 2, 3, 4], dtype='int64', slack=None)
        >>> Array((), [0.1], "float32").rounded().data
        [0.10000000149011612]
    """

    shape: Shape
    data: list[Any]
    dtype: str
    slack: list[float] | None = None

    @classmethod
    def of(cls, nested: Any, dtype: str) -> Array:
        """Makes an array of nested lists, its elements cast to the dtype."""
        shape: list[int] = []
        first = nested
        while isinstance(first, list):
            shape.append(len(first))
            first = first[0] if first else None
        return cls(tuple(shape), round_to(_flat(nested), dtype), dtype)

    @classmethod
    def read(cls, tensor: Any) -> Array:
        """Copies a tensor's elements: whatever has ``shape``, ``dtype`` and ``tolist``, as ours and NumPy's do."""
        dtype = getattr(tensor.dtype, "name", None) or str(tensor.dtype).rpartition(".")[2]
        data = tensor.tolist()
        for _ in tensor.shape[1:]:
            data = list(itertools.chain.from_iterable(data))
        return cls(tuple(tensor.shape), data if tensor.shape else [data], dtype)

    @property
    def ndim(self) -> int:
        """The number of dims."""
        return len(self.shape)

    def tolist(self) -> Any:
        """Returns nested lists, or a number when it is 0-d."""
        return nest(self.data, self.shape) if self.data or not self.shape else _empty(self.shape)

    def cast(self, dtype: str) -> Array:
        """Returns the array in another dtype, itself where it has it; elements are rounded."""
        return self if dtype == self.dtype else Array(self.shape, round_to(self.data, dtype), dtype)

    def rounded(self) -> Array:
        """Returns the array with each element rounded to its dtype."""
        return Array(self.shape, round_to(self.data, self.dtype), self.dtype, self.slack)

    def broadcast(self, shape: Shape) -> list[Any]:
        """Returns the elements in C order of the array broadcast to a shape."""
        if shape == self.shape:
            return self.data
        if len(self.data) == 1:
            return self.data * math.prod(shape)
        data = self.data
        strides = strides_of((1,) * (len(shape) - self.ndim) + self.shape)
        same = [
            0 if i < len(shape) - self.ndim or self.shape[i - len(shape)] == 1 else s for i, s in enumerate(strides)
        ]
        return [data[place] for place in places(shape, same)]


def strides_of(shape: Sequence[int]) -> list[int]:
    """Returns how far apart neighbours along each dim are, in elements of C order.

    Example:
        >>> strides_of((2, 3, 4))
        [12, 4, 1]
    """
    return [math.prod(shape[i + 1 :]) for i in range(len(shape))]


def places(shape: Sequence[int], strides: Sequence[int], start: int = 0) -> Iterator[int]:
    """Yields the places of a strided view's elements in C order.

    Example:
        >>> list(places((2, 2), (1, 2)))
        [0, 2, 1, 3]
    """
    if not shape:
        return iter((start,))
    found: list[int] = [start]
    for size, stride in zip(shape, strides, strict=True):
        steps = range(0, size * stride, stride) if stride else (0,) * size
        found = [place + step for place in found for step in steps]
    return iter(found)


def broadcast_shape(*shapes: Shape) -> Shape:
    """Returns the shape that shapes broadcast to, aligned at the right.

    Raises:
        ValueError: they do not.

    Example:
        >>> broadcast_shape((2, 1), (3,), ())
        (2, 3)
    """
    result: list[int] = []
    for sizes in itertools.zip_longest(*(reversed(shape) for shape in shapes), fillvalue=1):
        wide = {size for size in sizes if size != 1}
        if len(wide) > 1:
            raise ValueError(f"shapes {', '.join(map(str, shapes))} do not broadcast")
        result.append(wide.pop() if wide else 1)
    return tuple(reversed(result))


def _flat(nested: Any) -> list[Any]:
    return [x for item in nested for x in _flat(item)] if isinstance(nested, list) else [nested]


def _empty(shape: Shape) -> Any:
    return [_empty(shape[1:]) for _ in range(shape[0])] if len(shape) > 1 else []
