"""The casts of weights, kept while a region is open, because a network uses a weight many times between two updates.

Only leaves that require a gradient are kept: what a program holds on to anyway. A cast that recorded nothing, because
it was made under ``no_grad`` or in inference mode, would lose the gradient of whoever used it later, so casts made in
different modes are different ones; PyTorch kept one for all of them before version 2.13. A write to a weight, or to its
cast, makes the cast stale; so does new data or a new node.
"""

from __future__ import annotations

import weakref
from typing import Any, NamedTuple

from tensorplay_core.dispatch import active
from tensorplay_core.dispatch.context import STATE
from tensorplay_core.dispatch.wrapped import INNERMOST
from tensorplay_core.ops.conversion import to
from tensorplay_core.tensor.tensor import Tensor, TensorBase
from tensorplay_core.tensor.version import version_of
from tensorplay_core.types.dtype import DType


class _Cast(NamedTuple):
    """A cast, and all that must be as it was for it to be used again."""

    of: weakref.ref[TensorBase]
    array: Any
    node: Any
    version: list[Any]
    number: int
    result: Tensor
    result_number: int

    def serves(self, tensor: TensorBase) -> bool:
        """Whether it still is the cast of a tensor."""
        if self.of() is not tensor or self.array is not tensor._array or self.node is not tensor._node:
            return False
        same = self.version is tensor._version and self.version[0] == self.number
        return same and version_of(self.result)[0] == self.result_number


class CastCache:
    """The casts of one outermost region and those inside it; closed, it holds nothing and keeps nothing.

    A task that was started inside the region may go on after its end, with this very object.
    """

    __slots__ = ("__weakref__", "_casts", "_closed")

    def __init__(self) -> None:
        """See the class."""
        self._casts: dict[tuple[int, DType, bool, bool], _Cast] = {}
        self._closed = False

    def __len__(self) -> int:
        """How many casts it holds."""
        return len(self._casts)

    def cast(self, tensor: Tensor, dtype: DType) -> Tensor:
        """Returns a tensor in another dtype: the cast that is there already, if it is one of a weight."""
        if self._closed or tensor._type.special or tensor._type.dtype is dtype:
            return to(tensor, dtype=dtype)
        if active.levels or INNERMOST.get() is not None:  # what is made here may belong to a level that closes
            return to(tensor, dtype=dtype)
        node = tensor._node
        if node is None or not node.is_leaf:
            return to(tensor, dtype=dtype)
        key = (id(tensor), dtype, STATE.get().grad, STATE.get().inference)
        known = self._casts.get(key)
        if known is not None and known.serves(tensor):
            return known.result
        version = version_of(tensor)  # before the cast: a write by another thread meanwhile makes it stale
        number, array = version[0], tensor._array
        result = to(tensor, dtype=dtype)
        of: weakref.ref[TensorBase] = weakref.ref(tensor, _forgetting(weakref.ref(self), key))
        self._casts[key] = _Cast(of, array, node, version, number, result, version_of(result)[0])
        if self._closed:
            self._casts.clear()
        return result

    def clear(self) -> None:
        """Forgets all casts."""
        self._casts.clear()

    def close(self) -> None:
        """Forgets all casts and keeps none from now on."""
        self._closed = True
        self._casts.clear()


def _forgetting(cache: weakref.ref[CastCache], key: tuple[int, DType, bool, bool]) -> Any:
    """Returns what forgets the cast of a tensor that is gone, unless its place was taken by another's."""

    def forget(reference: weakref.ref[TensorBase]) -> None:
        owner = cache()
        if owner is not None and (known := owner._casts.get(key)) is not None and known.of is reference:
            owner._casts.pop(key, None)

    return forget
