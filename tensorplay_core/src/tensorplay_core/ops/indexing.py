"""Indexing: ``x[i]`` as the view operators and the gather that it stands for, and ``x[i] = v``.

Integers, slices, ``None`` and ``...`` become views; integer and bool tensors, and lists of them, one gather.
"""

from __future__ import annotations

import operator
from typing import Any

from tensorplay_core.dispatch.context import STATE
from tensorplay_core.dispatch.integers import default_integer, has_dtype
from tensorplay_core.errors import ArgumentError, AutogradError, DimError, fix
from tensorplay_core.ops import _generated_functional_indexing as indexing
from tensorplay_core.ops import _generated_functional_pointwise as pointwise
from tensorplay_core.ops import _generated_functional_view as view
from tensorplay_core.ops.creation import tensor
from tensorplay_core.ops.shape_checks import as_int
from tensorplay_core.tensor.tensor import Tensor
from tensorplay_core.tensor.version import version_of
from tensorplay_core.types.device import Device


def _is_array(item: Any) -> bool:
    return isinstance(item, (Tensor, list)) or hasattr(item, "__array_interface__")


def _expanded(key: Any, ndim: int) -> list[Any]:
    """Returns an index as a list of items with ``...`` replaced by whole slices."""
    items = list(key) if isinstance(key, tuple) else [key]
    items = [_as_item(item) for item in items]
    used = sum(_dims_used(item) for item in items if item is not Ellipsis)
    if sum(item is Ellipsis for item in items) > 1:
        raise DimError("index: at most one ... can stand in an index")
    if used > ndim:
        raise DimError(f"index: {used} indices for a tensor of {ndim} dims")
    where = next((i for i, item in enumerate(items) if item is Ellipsis), len(items))
    return [*items[:where], *[slice(None)] * (ndim - used), *items[where + 1 :]]


def _as_item(item: Any) -> Any:
    if item is None or item is Ellipsis or isinstance(item, (slice, int)):
        return item
    if _is_array(item):
        index = item if isinstance(item, Tensor) else tensor(item, device="cpu")  # whatever the default device
        if index.numel() == 0 and isinstance(item, list):
            index = index.to(_int64())
        if not (index.dtype.is_integral or index.dtype.is_bool):
            raise DimError(f"index: an index tensor is of an integer dtype or bool, not {index.dtype.name}")
        return index
    try:
        return operator.index(item)
    except TypeError:
        raise ArgumentError(
            f"index: an index is an int, a slice, None, ..., a tensor or a list, not {type(item).__name__}"
        ) from None


def _int64() -> Any:
    from tensorplay_core.types.dtype import int64

    return int64


def _dims_used(item: Any) -> int:
    if item is None or isinstance(item, bool):
        return 0
    if isinstance(item, Tensor) and item.dtype.is_bool:
        return item.ndim
    return 1


def _through_views(x: Tensor, items: list[Any]) -> tuple[Tensor, list[Tensor | None]]:
    """Applies everything but index tensors as views; returns the view and the index tensors by its dims."""
    dim = 0
    gathers: list[Tensor | None] = []
    for item in items:
        if item is None:
            x = view.unsqueeze(x, dim)
            gathers.append(None)
            dim += 1
        elif isinstance(item, bool):  # as a 0-d mask: a new dim of size 1 or 0
            x = view.unsqueeze(x, dim)
            gathers.append(tensor([0] if item else [], dtype=default_integer(x.device), device=x.device))
            dim += 1
        elif isinstance(item, int):
            x = view.select(x, dim, item)
        elif isinstance(item, slice):
            if item != slice(None):
                x = _sliced(x, dim, item)
            gathers.append(None)
            dim += 1
        else:
            gathers.append(item)
            dim += item.ndim if item.dtype.is_bool else 1
    return x, gathers


def _bound(value: Any) -> int:
    return operator.index(value) if hasattr(value, "__index__") else as_int("index", value, "a bound of a slice")


def _sliced(x: Tensor, dim: int, item: slice) -> Tensor:
    parts = [p if p is None else _bound(p) for p in (item.start, item.stop, item.step)]
    step = 1 if parts[2] is None else parts[2]
    if step < 1:
        raise DimError(f"index: a slice's step is positive, not {step}" + fix("reverse with an index tensor."))
    return view.slice(x, dim, parts[0], parts[1], step)


def _moved(index: Tensor, device: Device) -> Tensor:
    """Returns an index tensor on a device, in its default integer where it does not have the index's dtype.

    What does not fit there becomes its largest or least integer, so that it is still out of range.
    """
    if has_dtype(device, index.dtype):
        return index.to(device=device)
    narrow = default_integer(device)
    limit = 1 << (8 * narrow.itemsize - 1)
    if index.dtype.itemsize >= narrow.itemsize:
        index = pointwise.minimum(index, limit - 1)
        if index.dtype.is_signed:
            index = pointwise.maximum(index, -limit)
    return index.to(narrow, device)


def _getitem(self: Tensor, key: Any) -> Tensor:
    """Returns ``self[key]``: a view unless an index tensor, list or mask takes part."""
    if key.__class__ is int:
        if not self._array.shape:
            raise DimError("index: a 0-d tensor cannot be indexed" + fix("use .item() for its value."))
        return view.select(self, 0, key)
    x, gathers = _through_views(self, _expanded(key, self.ndim))
    while gathers and gathers[-1] is None:
        gathers.pop()
    if gathers:
        gathers = [g if g is None or g.device == x.device else _moved(g, x.device) for g in gathers]
        return indexing.index(x, gathers)
    return x if x is not self else view.slice(x, 0, None, None, 1) if x.ndim else view.reshape(x, ())


def _setitem(self: Tensor, key: Any, value: Any) -> None:
    """Writes ``value`` to ``self[key]``.

    Raises:
        AutogradError: a gradient would have to flow through the write, or an index tensor takes part.
    """
    cell = version_of(self)
    shared = cell[1]
    try:
        _write(self, key, value)
    finally:
        cell[1] = shared  # the views that the write went through are gone


def _write(self: Tensor, key: Any, value: Any) -> None:
    base = self.detach() if not self.requires_grad else self
    x, gathers = _through_views(base, _expanded(key, self.ndim))
    if any(g is not None for g in gathers):
        raise AutogradError(
            "setitem: writing through an index tensor is not supported yet"
            + fix("use tp.where, or write through slices.")
        )
    source = value if isinstance(value, Tensor) else tensor(value, dtype=self.dtype, device=self.device)
    while source.ndim > x.ndim and source.shape[0] == 1:
        source = view.select(source, 0, 0)
    if x is base:  # all of it: no view stands between, so the tensor itself can take the node of what is written
        x = self
    elif STATE.get().grad and (self._node is not None or source._node is not None):
        raise AutogradError(
            "setitem: a part of a tensor shares memory with a view, and gradients through such a write are not "
            "supported yet" + fix("build the result with tp.where or tp.cat, or write in tp.no_grad().")
        )
    x.copy_(source)
