"""Batching rules of operators that name dims: reductions, scans, sorting, and views. The dims move up by one."""

from __future__ import annotations

import math
from typing import Any

from tensorplay_core.ops import _generated_functional as F
from tensorplay_core.ops import _generated_functional_view as view
from tensorplay_core.vmap.batching import Batch, behind, pad, results

DIMS = ("dim", "dims", "dim0", "dim1", "dim2", "dimension")
"""What operators call a dim, or a list of them."""


def pointwise(batch: Batch) -> Any:
    """Elementwise operators: tensors of fewer dims get dims of 1 between the batch and their own."""
    names = batch.tensors()
    ndim = max(map(batch.ndim, names))
    return batch.again(**{name: batch.padded(name, ndim) for name in names})


def leading(batch: Batch) -> Any:
    """Operators on the last dims, which take any number of dims before them."""
    names = batch.tensors()
    if len(names) == 1:
        return batch.again()
    ndim = max(map(batch.ndim, names))
    return batch.again(**{name: pad(batch.front(name), True, ndim) for name in names})


def shifted(batch: Batch) -> Any:
    """Operators of one tensor with dims among the arguments; a second tensor has the batch too."""
    names = batch.tensors()
    first = names[0]
    changes: dict[str, Any] = {name: batch.front(name) for name in names}
    none = not batch.ndim(first)
    if none:
        changes.update({name: x.unsqueeze(1) for name, x in changes.items() if x.ndim == 1})
    for name in DIMS:
        if name in batch.values:
            changes[name] = _shift(batch, first, batch.values[name], none)
    found = batch.again(**changes)
    return results(found, lambda r: r.squeeze(1) if r.ndim > 1 else r) if none else found


def _shift(batch: Batch, first: str, dims: Any, none: bool) -> Any:
    def one(dim: int) -> int:
        return 1 if none and dim in (0, -1) else batch.dim(first, dim)

    return tuple(map(one, dims)) if isinstance(dims, tuple) else dims if dims is None else one(dims)


def reduction(batch: Batch) -> Any:
    """Reductions over some dims, or over all of them where none is named."""
    dim, ndim = batch.values.get("dim"), batch.ndim("self")
    if dim is not None and dim != ():
        return shifted(batch)
    if dim == () and batch.op.name in ("any", "all"):  # of which PyTorch says: no dims, nothing is reduced
        return batch.again()
    if not ndim:
        return batch.again(self=batch.values["self"].unsqueeze(1), dim=(1,), keepdim=False)
    return batch.again(dim=tuple(range(1, ndim + 1)))


def flattened(batch: Batch) -> Any:
    """Reductions over one dim, or over all elements in order where none is named: ``argmax``."""
    if batch.values.get("dim") is not None:
        return shifted(batch)
    x = batch.values["self"]
    found = batch.again(self=x.reshape(batch.size, math.prod(batch.shape("self"))), dim=1, keepdim=False)
    return found.reshape(batch.size, *[1] * batch.ndim("self")) if batch.values.get("keepdim") else found


def whole(name: str) -> Any:
    """Returns the rule of an operator that reduces all elements, by the one of that name which takes dims."""

    def rule(batch: Batch) -> Any:
        x = batch.values["self"]
        dims = tuple(range(1, x.ndim))
        if not dims:
            x, dims = x.unsqueeze(1), (1,)
        return batch.again(name, self=x, dim=dims, keepdim=False)

    return rule


def median(batch: Batch) -> Any:
    """The median of all elements: that of a row. Its gradient goes to all elements that are equal to it."""
    x = batch.values["self"]
    row = x.reshape(batch.size, math.prod(batch.shape("self")))
    middle = row.detach().median(1, True)[0]
    if not row.dtype.is_inexact:
        return middle.squeeze(1)
    equal = (row == middle) | (row != row)
    least, most = (F.where(equal, row, fill) for fill in (math.inf, -math.inf))
    return F.where(middle.squeeze(1) == -math.inf, least.amin(1), most.amax(1))


def roll(batch: Batch) -> Any:
    """Rolls along dims, or all elements in order where none is named."""
    if batch.values["dims"] != ():
        return shifted(batch)
    x = batch.values["self"]
    return batch.again(self=x.reshape(batch.size, math.prod(batch.shape("self"))), dims=(1,)).reshape(x.shape)


def cat(batch: Batch) -> Any:
    """Joins tensors, all with the batch."""
    parts = tuple(map(batch.with_front, batch.values["tensors"], batch.batched["tensors"]))
    dim, ndim = batch.values["dim"], max(part.ndim for part in parts) - 1
    # A tensor of shape (0,) goes with any other, as in PyTorch, and would not with the batch before it.
    parts = tuple(part for part in parts if part.ndim - 1 == ndim or part.shape[1:] != (0,))
    return batch.again(tensors=parts, dim=behind(dim, ndim))


# -------------------------------------------------------------------------------------------------------------- views


def reshape(batch: Batch) -> Any:
    """The same elements in another shape, each element of the batch by itself."""
    shape = batch.values["shape"]
    count = math.prod(batch.shape("self"))
    if shape.count(-1) == 1 and not batch.size:  # what -1 means cannot be told from no elements at all
        rest = -math.prod(shape)
        shape = tuple(count // rest if size == -1 and rest else size for size in shape)
    return batch.again(shape=(batch.size, *shape))


def expand(batch: Batch) -> Any:
    """Repeats along dims of size 1, and along new ones before them."""
    size = batch.values["size"]
    return batch.again(self=batch.padded("self", len(size)), size=(-1, *size))


def permute(batch: Batch) -> Any:
    """Dims in another order, the batch before them."""
    return batch.again(dims=(0, *(batch.dim("self", dim) for dim in batch.values["dims"])))


def transpose(batch: Batch) -> Any:
    """Two dims that change places; of no dims nothing."""
    if not batch.ndim("self") and {batch.values["dim0"], batch.values["dim1"]} <= {0, -1}:
        return view.slice(batch.values["self"])
    return shifted(batch)


def squeeze(batch: Batch) -> Any:
    """Dims of size 1 leave, the batch stays."""
    dim = batch.values["dim"]
    if dim is not None:
        if not batch.ndim("self"):
            return view.slice(batch.values["self"])
        return batch.again(dim=tuple(batch.dim("self", d) for d in ((dim,) if isinstance(dim, int) else dim)))
    ones = tuple(i + 1 for i, size in enumerate(batch.shape("self")) if size == 1)
    return batch.again(dim=ones) if ones else view.slice(batch.values["self"])


def unsqueeze(batch: Batch) -> Any:
    """A new dim of size 1."""
    return batch.again(dim=batch.dim("self", batch.values["dim"], extra=1))


def as_strided(batch: Batch) -> Any:
    """The elements that strides give for each element of the batch, counted from where that element begins."""
    x, values = batch.values["self"], batch.values
    offset = values["storage_offset"]
    step = x.stride(0) if x.shape[0] > 1 else math.prod(x.shape[1:])
    return batch.again(
        size=(batch.size, *values["size"]),
        stride=(step, *values["stride"]),
        storage_offset=offset,
    )


def sized_backward(batch: Batch) -> Any:
    """Gradients of ``select`` and ``slice``: zeros of a shape but for a part."""
    sizes, dim = batch.values["input_sizes"], batch.values["dim"]
    dim = dim + 1 if dim >= 0 else dim + len(sizes) + 1
    return batch.again(grad=batch.front("grad"), input_sizes=(batch.size, *sizes), dim=dim)
