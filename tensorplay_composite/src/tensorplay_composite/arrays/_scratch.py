"""Memory that kernels compute in and give back, and copies to and from it.

Memory is kept between calls, because fresh pages cost more than the copies.

A page of new memory costs a fault when it is first touched, which for blocks of half a megabyte is ten times what
filling them costs. Each thread has memory of its own, so kernels need no lock; nothing of it may be in a result.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from typing import Any

MOST = 1 << 23
"""Bytes up to which memory is kept; what is larger is new each time: its faults are little beside its use."""

SHORT = 256
"""Bytes up to which a row is copied as one element."""


def copier(xp: Any) -> Callable[[Any, Any], None]:
    """Returns ``copy(target, source)``, which is fast for arrays of the same shape whose last dim is short.

    NumPy calls a loop for each run of the last dim, which takes longer than a copy of few elements. As one element of
    as many bytes, such a run is a mere ``memmove``, and the loop goes over the dim before.

    Example:
        >>> import numpy
        >>> target, source = numpy.zeros((2, 5), "int32"), numpy.arange(6, dtype="int32").reshape(2, 3)
        >>> copier(numpy)(target[:, 1:4], source)
        >>> target.tolist()
        [[0, 0, 1, 2, 0], [0, 3, 4, 5, 0]]
    """
    numpy_itself = getattr(xp, "__name__", "") == "numpy"

    def copy(target: Any, source: Any) -> None:
        item = target.itemsize
        size = target.shape[-1] * item
        if (
            numpy_itself
            and item < size <= SHORT
            and target.strides[-1] == item == source.strides[-1]
            and target.dtype == source.dtype
        ):
            run = f"V{size}"
            target.view(run)[...] = source.view(run)
        else:
            target[...] = source

    return copy


class Scratch:
    """Memory for one family of kernels over a NumPy-like module.

    Args:
        xp: the module. Where it is not NumPy, which has no pool of its own, every piece is new.

    Example:
        >>> import numpy
        >>> scratch = Scratch(numpy)
        >>> one = scratch.take("columns", (2, 3), numpy.dtype("float32"))
        >>> other = scratch.take("columns", (6,), numpy.dtype("float32"))
        >>> one.shape, numpy.shares_memory(one, other)
        ((2, 3), True)
    """

    def __init__(self, xp: Any) -> None:
        """See the class."""
        self._xp = xp
        self._keeps = getattr(xp, "__name__", "") == "numpy"
        self._local = threading.local()

    def take(self, name: str, shape: tuple[int, ...], dtype: Any) -> Any:
        """Returns an array of any content; the next call with this name, in this thread, gives the same memory."""
        size = math.prod(shape) * dtype.itemsize
        if not self._keeps or size > MOST:
            return self._xp.empty(shape, dtype)
        kept = self._local.__dict__
        memory = kept.get(name)
        if memory is None or memory.size < size:
            memory = kept[name] = self._xp.empty(size, self._xp.uint8)
        return memory[:size].view(dtype).reshape(shape)
