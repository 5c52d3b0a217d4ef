"""How much memory results take, and when it is given back.

What is counted is the memory that kernels return: the bytes of every array that a step at a backend key gives back and
that none of its arguments has already, for as long as an array over it lives. A view and a result in place are no new
memory. What a kernel takes and gives back while it runs is not seen, nor is what a device's allocator keeps. The
profiler keeps nothing alive: it is told by weak references when memory is gone.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from time import perf_counter
from typing import Any


class Memory:
    """The memory of the results of a profile.

    Attributes:
        changes: ``(time, bytes)`` of everything that was taken and given back, in order.
    """

    __slots__ = ("__weakref__", "_live", "changes")

    def __init__(self) -> None:
        """See the class."""
        self.changes: list[tuple[float, int]] = []
        self._live: dict[int, weakref.ref[Any]] = {}

    def allocated(self, result: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
        """Returns how many bytes of a step's results are new memory, and begins to watch it."""
        given: set[int] | None = None
        total = 0
        for tensor in _tensors(result):
            owner = owner_of(tensor._array)
            known = self._live.get(id(owner))
            if known is not None and known() is owner:
                continue
            if given is None:
                given = {id(owner_of(one._array)) for one in _tensors((*args, *kwargs.values()))}
            if id(owner) in given:
                continue
            size = int(tensor.nbytes)
            self._watch(owner, tensor, size)
            total += size
        return total

    def _watch(self, owner: Any, tensor: Any, size: int) -> None:
        number = id(owner)
        changes, live = self.changes, self._live

        def gone(reference: weakref.ref[Any]) -> None:
            if live.get(number) is reference:
                del live[number]
                changes.append((perf_counter(), -size))

        try:
            live[number] = weakref.ref(owner, gone)
        except TypeError:  # an array class without weak references: the tensor stands for it
            live[number] = weakref.ref(tensor, gone)
        changes.append((perf_counter(), size))

    def stop(self) -> None:
        """Watches nothing any longer."""
        self._live.clear()

    def live(self) -> Iterator[tuple[float, int]]:
        """Yields when the sum changed, and the bytes from then on."""
        total = 0
        for when, change in sorted(self.changes, key=lambda one: one[0]):
            total += change
            yield when, total

    @property
    def peak(self) -> int:
        """The most bytes at one time."""
        return max((total for _, total in self.live()), default=0)


def owner_of(array: Any) -> Any:
    """Returns what has the memory of an array: the array itself, or the one, or the buffer, that it is a view of.

    Example:
        >>> import numpy
        >>> x = numpy.zeros((2, 3))
        >>> owner_of(x[0].T) is owner_of(x) is x
        True
    """
    cls = array.__class__
    while (base := getattr(array, "base", None)).__class__ is cls:
        array = base
    buffer = getattr(array, "buffer", None)
    return array if buffer is None or callable(buffer) else buffer


def _tensors(value: Any) -> Iterator[Any]:
    if isinstance(value, (tuple, list)):
        for one in value:
            yield from _tensors(one)
    elif hasattr(value, "_type") and hasattr(value, "_array"):  # this floor knows no tensor class
        yield value
