"""The shape rules of indexing and joining: select, slice, index, the sizes that a gradient is scattered into, cat.

Only shapes are judged here. Whether the values of an index tensor are in range is known to the kernel alone, and how
many elements a bool mask picks depends on data, so there the rule answers None.
"""

from __future__ import annotations

import builtins
from typing import Any

from tensorplay_core.errors import ArgumentError, DimError, DTypeError, ShapeError, ValueRangeError, fix
from tensorplay_core.ops.shape_checks import (
    Shape,
    Shaped,
    SizeError,
    as_int,
    as_sizes,
    broadcast_shapes,
    check_shape,
    normalize_dim,
)


def select(op: str, self: Shaped, dim: Any, index: Any, **keywords: Any) -> Shape:
    """One index along ``dim``, which disappears."""
    shape = self.shape
    if not shape:
        raise DimError(f"{op}: a 0-d tensor has no dim to index" + fix("use .item() for its value"))
    d = normalize_dim(op, dim, len(shape))
    i = as_int(op, index, "index")
    size = shape[d]
    if not -size <= i < size:
        valid = f"valid: {-size} to {size - 1}" if size else "that dim is empty"
        raise DimError(f"{op}: index {i} is out of range at dim {d} of shape {shape} ({valid})")
    return shape[:d] + shape[d + 1 :]


def slice(
    op: str, self: Shaped, dim: Any = 0, start: Any = None, end: Any = None, step: Any = 1, **keywords: Any
) -> Shape:
    """``start:end:step`` along ``dim``; bounds beyond the ends are cut, as in Python."""
    shape = self.shape
    if not shape:
        raise DimError(f"{op}: a 0-d tensor has no dim to slice" + fix("use x[None] or x.reshape(1) for a 1-d one"))
    d = normalize_dim(op, dim, len(shape))
    first = None if start is None else as_int(op, start, "start")
    last = None if end is None else as_int(op, end, "end")
    stride = 1 if step is None else as_int(op, step, "step")
    if stride <= 0:
        raise SizeError(f"{op}: step must be greater than zero, but is {stride}")
    count = len(range(*builtins.slice(first, last, stride).indices(shape[d])))
    return (*shape[:d], count, *shape[d + 1 :])


def index(op: str, self: Shaped, indices: Any, **keywords: Any) -> Shape | None:
    """Index tensors, one a dim from the first; None keeps a dim whole; a bool mask makes the shape depend on data.

    Index tensors broadcast together. Their shape stands where the first of them stood if they are neighbours, else in
    front, as in NumPy and PyTorch.
    """
    shape = self.shape
    if not isinstance(indices, (list, tuple)) or isinstance(indices, Shaped):
        raise ArgumentError(f"{op}: indices must be a list of index tensors and None, not {indices!r}")
    dim = 0
    masks = False
    dims: list[int] = []
    for position, one in enumerate(indices):
        width = _check_index(op, one, position, dim, shape)
        if one is not None:
            dims.append(dim)
            masks = masks or (one.dtype is not None and one.dtype.is_bool)
        dim += width
    if not dims:
        return shape
    arrays = [one for one in indices if one is not None]
    plain = [one.shape for one in arrays if one.dtype is None or not one.dtype.is_bool]
    try:
        picked = broadcast_shapes(op, *plain)
    except ShapeError:
        named = ", ".join(map(str, plain))
        raise DimError(
            f"{op}: shape mismatch: indexing tensors could not be broadcast together with shapes {named}"
            + fix("index tensors are matched element by element; for a grid give them shapes (n, 1) and (m,)")
        ) from None
    empty = [] if masks else [d for d in dims if not shape[d]]
    if empty and 0 not in picked:
        raise DimError(f"{op}: index is out of bounds for dim {empty[0]} of size 0 (shape {shape}): it has no elements")
    if masks:
        return None
    rest = [size for d, size in enumerate(shape) if d not in dims]
    together = dims[-1] - dims[0] + 1 == len(dims)
    front = dims[0] if together else 0
    return check_shape(op, (*rest[:front], *picked, *rest[front:]))


def _check_index(op: str, one: Any, position: int, dim: int, shape: Shape) -> int:
    """Checks one index against the dim it stands at, and returns how many dims it consumes."""
    mask = one is not None and one.dtype is not None and one.dtype.is_bool
    width = len(one.shape) if mask else 1
    if dim + width > len(shape):
        raise DimError(f"{op}: too many indices for a tensor of {len(shape)} dims (shape {shape})")
    if mask:
        if one.shape != shape[dim : dim + width]:
            at = f"dim {dim}" if width == 1 else f"dims {dim} to {dim + width - 1}"
            raise DimError(
                f"{op}: the shape of the mask {one.shape} at index {position} does not match "
                f"{shape[dim : dim + width]}, {at} of the indexed tensor {shape}"
            )
    elif one is not None and one.dtype is not None and not one.dtype.is_integral:
        raise DTypeError(
            f"{op}: tensors used as indices must be integer or bool, but index {position} is {one.dtype.name}"
            + fix("convert it: .to(tp.int64)")
        )
    return width


def input_sizes(op: str, grad: Shaped, input_sizes: Any, *rest: Any, **keywords: Any) -> Shape:
    """The shape of the tensor whose gradient this is."""
    return as_sizes(op, input_sizes, name="input_sizes")


def cat(op: str, tensors: Any, dim: Any = 0, **keywords: Any) -> Shape:
    """The sum of the sizes along ``dim``; the other sizes must agree."""
    if isinstance(tensors, Shaped) or not isinstance(tensors, (list, tuple)):
        raise ArgumentError(f"{op}: tensors must be a list or a tuple of tensors" + fix("write cat([a, b])"))
    if not tensors:
        raise ValueRangeError(f"{op}: expected a non-empty list of tensors")
    shapes = [one.shape for one in tensors]
    for position, shape in enumerate(shapes):
        if not shape:
            raise ShapeError(
                f"{op}: zero-dimensional tensor (at position {position}) cannot be concatenated"
                + fix("give it a dim first: x.reshape(1) or x.unsqueeze(0)")
            )
    first = next((shape for shape in shapes if shape != (0,)), shapes[0])
    d = normalize_dim(op, dim, len(first))
    # An empty 1-d tensor joins anything and adds nothing, as in PyTorch.
    joined = [(position, shape) for position, shape in enumerate(shapes) if shape != (0,)] or [(0, first)]
    origin = joined[0][0]
    for position, shape in joined:
        if len(shape) != len(first):
            raise ShapeError(
                f"{op}: tensors must have the same number of dims: tensor {origin} has shape {first}, "
                f"tensor {position} has shape {shape}"
            )
        for k, (a, b) in enumerate(zip(first, shape, strict=True)):
            if k != d and a != b:
                raise ShapeError(
                    f"{op}: sizes must match except in dim {d}: tensor {origin} has shape {first}, "
                    f"tensor {position} has shape {shape}; dim {k} is {a} against {b}"
                )
    total = sum(shape[d] for _, shape in joined)
    return check_shape(op, (*first[:d], total, *first[d + 1 :]))


def index_put(op: str, self: Shaped, indices: Any, values: Shaped, accumulate: Any = False, **keywords: Any) -> Shape:
    """The shape of ``self``; ``values`` broadcasts to what the indices pick out, and has the dtype of ``self``."""
    picked = index(op, self, indices)
    if values.dtype is not None and values.dtype is not self.dtype and self.dtype is not None:
        raise DTypeError(
            f"{op}: values is {values.dtype.name}, and the tensor that is written to {self.dtype.name}"
            + fix(f"convert it: values.to(tp.{self.dtype.name})")
        )
    if picked is not None:
        check_picked(op, values.shape, picked)
    return self.shape


def check_picked(op: str, values: Shape, picked: Shape) -> None:
    """Refuses values that do not broadcast to what an index picks out.

    Raises:
        ShapeError: they do not.
    """
    sizes = picked[len(picked) - len(values) :] if len(values) <= len(picked) else ()
    if len(values) > len(picked) or any(n not in (1, m) for n, m in zip(values, sizes, strict=True)):
        raise ShapeError(
            f"{op}: shape mismatch: a value of shape {values} cannot be broadcast to the indexing result, {picked}"
            + fix("its dims are matched from the last one, and each is of the same size or 1")
        )


def unknown(op: str, self: Shaped, *rest: Any, **keywords: Any) -> None:
    """A shape that depends on the elements."""
