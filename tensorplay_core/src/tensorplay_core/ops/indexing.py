"""Indexing: ``x[i]`` as the view operators and the gather that it stands for, and ``x[i] = v``.

Integers, slices, ``None`` and ``...`` become views; integer and bool tensors, and lists of them, one gather.
"""

from __future__ import annotations

import operator
from typing import Any

from tensorplay_core.dispatch import active
from tensorplay_core.dispatch.integers import default_integer, has_dtype
from tensorplay_core.dispatch.tensor_type import TensorType
from tensorplay_core.errors import ArgumentError, DimError, ValueRangeError, fix
from tensorplay_core.ops import _generated_functional_indexing as indexing
from tensorplay_core.ops import _generated_functional_pointwise as pointwise
from tensorplay_core.ops import _generated_functional_view as view
from tensorplay_core.ops import direct
from tensorplay_core.ops._generated_schemas_indexing import INDEX, INDEX_PUT_, NONZERO
from tensorplay_core.ops.call import call
from tensorplay_core.ops.creation import tensor
from tensorplay_core.ops.direct import copy_into, written
from tensorplay_core.ops.shape_checks import as_int
from tensorplay_core.ops.typing_rules import holds, scalar_tensor
from tensorplay_core.tensor.overrides import UNASKED, ask, overridable
from tensorplay_core.tensor.tensor import Tensor, wrap
from tensorplay_core.types.device import Device
from tensorplay_core.types.dtype import int64


class KeyTypeError(ArgumentError, IndexError):
    """What cannot be an index: a TypeError, and an IndexError as in PyTorch and NumPy."""


class StepError(DimError, ValueRangeError):
    """A slice that does not go forward: an IndexError like all wrong keys, and a ValueError as in PyTorch."""


@overridable
def nonzero(input: Tensor, *, as_tuple: bool = False) -> Tensor | tuple[Tensor, ...]:
    """Returns the places of the elements that are not zero, in C order.

    Args:
        input: the tensor.
        as_tuple: one tensor of indices for each dim, which can index ``input``, instead of one row for each element.

    Returns:
        An int64 tensor of shape (elements, dims), or a tuple of as many of shape (elements,) as there are dims.

    Example:
        >>> import tensorplay as tp
        >>> x = tp.tensor([[0, 1], [2, 0]])
        >>> tp.nonzero(x)
        tensor([[0, 1],
                [1, 0]])
        >>> x[tp.nonzero(x, as_tuple=True)]
        tensor([1, 2])
    """
    if as_tuple and isinstance(input, Tensor) and not input.ndim:
        input = view.unsqueeze(input, 0)
    rows: Tensor = call(NONZERO, (input,))
    return view.unbind(rows, 1) if as_tuple else rows


# ------------------------------------------------------------------------------------------------------------ the key


def _expanded(key: Any, ndim: int) -> list[Any]:
    """Returns an index as a list of items with ``...`` replaced by whole slices."""
    items = [_as_item(item) for item in key] if isinstance(key, tuple) else [_as_item(key)]
    used = ellipses = 0
    where = len(items)
    for position, item in enumerate(items):
        if item is Ellipsis:
            ellipses, where = ellipses + 1, position
        else:
            used += _dims_used(item)
    if ellipses > 1:
        raise DimError("index: at most one ... can stand in an index")
    if used > ndim:
        raise DimError(f"index: too many indices: {used} indices for a tensor of {ndim} dims")
    return [*items[:where], *[slice(None)] * (ndim - used), *items[where + 1 :]]


def _as_item(item: Any) -> Any:
    """Returns one index as None, an Ellipsis, a slice, an int, a bool or a tensor."""
    if item is None or item is Ellipsis or isinstance(item, (slice, int)):
        return item
    if isinstance(item, (list, tuple, range)):
        index = _from_sequence(item)
    elif isinstance(item, Tensor):
        index = item
    elif hasattr(item, "__array_interface__"):
        index = tensor(item, device="cpu")
    else:
        try:
            return operator.index(item)
        except TypeError:
            raise _wrong_type(item) from None
    if not (index.dtype.is_integral or index.dtype.is_bool):
        raise DimError(
            f"index: an index tensor is of an integer dtype or bool, not {index.dtype.name}"
            + fix("convert it: .to(tp.int64), or compare it for a mask.")
        )
    if not index._array.shape and index.dtype.is_integral and not index.is_meta and not index._type.wraps:
        return int(index.item())  # selects, as in PyTorch: the result is a view
    return index


def _from_sequence(item: Any) -> Tensor:
    """Returns a list, tuple or range of indices as a tensor on the cpu, whatever the default device."""

    def plain(value: Any) -> Any:
        if isinstance(value, Tensor):
            return value.tolist()
        return list(map(plain, value)) if isinstance(value, (list, tuple, range)) else value

    def refuse(values: Any) -> None:
        for value in values:
            if isinstance(value, list):
                refuse(value)
            elif value is None or isinstance(value, (slice, str)) or value is Ellipsis:
                raise _wrong_type(value, " in a list" + fix("index with a tuple: x[0, :], or x[tuple(key)]."))

    values = plain(item)
    refuse(values)
    index = tensor(values, device="cpu")
    return index.to(int64) if index.numel() == 0 else index


def _wrong_type(item: Any, where: str = "") -> KeyTypeError:
    return KeyTypeError(
        f"index: an index is an int, a slice, None, ..., a tensor or a list, not {type(item).__name__}{where}"
    )


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
        remedy = f"reverse it with flip: x.flip({dim})" if step else "leave the step away"
        raise StepError(f"index: a slice's step is positive, not {step}" + fix(remedy))
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


def _on(device: Device, gathers: list[Tensor | None]) -> list[Tensor | None]:
    """Returns index tensors without whole dims at the end, all on a device."""
    while gathers and gathers[-1] is None:
        gathers.pop()
    return [g if g is None or g.device == device else _moved(g, device) for g in gathers]


# --------------------------------------------------------------------------------------------------- reading, writing


def _getitem(self: Tensor, key: Any) -> Tensor:
    """Returns ``self[key]``: a view unless an index tensor, list or mask takes part."""
    if active.special or active.subclassed:
        answer = ask(_getitem, (self, key), {}, among=_with_items(self, key))
        if answer is not UNASKED:
            return answer  # type: ignore[no-any-return]
    if key.__class__ is int:
        if not self._array.shape:
            raise DimError("index: a 0-d tensor cannot be indexed" + fix("use .item() for its value."))
        return view.select(self, 0, key)
    x, gathers = _through_views(self, _expanded(key, self.ndim))
    gathers = _on(x._type.device, gathers)
    if gathers:
        return _gathered(x, gathers)
    return x if x is not self else view.slice(x, 0, None, None, 1) if x.ndim else view.reshape(x, ())


def _with_items(self: Any, key: Any, *values: Any) -> tuple[Any, ...]:
    """Returns where the tensors of an index are, for whoever asks their classes."""
    return (self, *(key if isinstance(key, tuple) else (key,)), *values)


def _gathered(x: Tensor, gathers: list[Tensor | None]) -> Tensor:
    """Returns ``tp.index(x, gathers)``, at once where nobody else has a say."""
    type = x._type
    try:
        recorded = direct.records(x)
        if recorded is not None and (kernel := direct.kernel(INDEX, type)) is not None:
            result = kernel(x._array, [None if g is None else g._array for g in gathers])
            result = type.as_array(result) if result.__class__ is not type.array_class else result
            y = wrap(result, type.same_type)
            if recorded:
                INDEX.node.record(y, x, gathers)
            return y
    except Exception:  # whatever it is, the call meets it again and says it properly
        pass
    return indexing.index(x, gathers)


def _setitem(self: Tensor, key: Any, value: Any) -> None:
    """Writes ``value`` to ``self[key]``, broadcast and, but for a tensor at index tensors, cast.

    Raises:
        DimError: the key does not fit the tensor; nothing is written.
        ShapeError: the value does not fit what the key picks out; nothing is written.
        DTypeError: index tensors take part, and the value is a tensor of another dtype.
        AutogradError: the tensor is a leaf that requires grad, or a view of one.
    """
    if active.special or active.subclassed:
        answer = ask(_setitem, (self, key, value), {}, among=_with_items(self, key, value))
        if answer is not UNASKED:
            return
    x, gathers = _through_views(self, _expanded(key, self.ndim))
    gathers = _on(x._type.device, gathers)
    source = value if isinstance(value, Tensor) else _constant(self._type, value)
    if not gathers:
        copy_into(x, _without_leading(source, x.ndim))
        return
    if source._type is not x._type and not source.ndim:
        source = source.to(self.dtype, self.device)
    source = _without_leading(source, 0)
    arrays = [None if g is None else g._array for g in gathers]
    if not written(INDEX_PUT_, x, source, arrays, source._array, False):
        x.index_put_(gathers, source)


def _constant(type: TensorType, value: Any) -> Tensor:
    """Returns what is no tensor as one of a type; plain numbers that it holds are made once."""
    kind, dtype = value.__class__, type.dtype
    if not type.inference and (
        (kind is float and dtype.is_floating_point) or (kind is int and dtype.is_integral and holds(dtype, value))
    ):
        return scalar_tensor(value, dtype, type.device)
    return tensor(value, dtype=dtype, device=type.device)


def _without_leading(source: Tensor, ndim: int) -> Tensor:
    """Drops leading dims of size 1 beyond ``ndim`` dims, as PyTorch does."""
    while source.ndim > ndim and source.shape[0] == 1:
        source = view.select(source, 0, 0)
    return source


_getitem.__name__, _setitem.__name__ = "__getitem__", "__setitem__"  # what handlers are told
