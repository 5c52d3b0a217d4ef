"""The shape rules of norms, sorting and counting: what is wrong with their arguments, before anything is computed."""

from __future__ import annotations

import math
from typing import Any

from tensorplay_core.errors import ArgumentError, DimError, DTypeError, ShapeError, ValueRangeError, fix
from tensorplay_core.ops.shape_checks import Shape, Shaped, as_int, normalize_dim, normalize_dims, shape_of


def reduced(op: str, shape: Shape, dim: Any, keepdim: bool, *, empty_is_all: bool = True) -> tuple[Shape, Shape]:
    """Returns a reduction's shape, and the sizes that it reduces."""
    whole = dim is None or (empty_is_all and isinstance(dim, (tuple, list)) and not dim)
    dims = tuple(range(len(shape))) if whole else normalize_dims(op, dim, len(shape))
    gone = tuple(shape[d] for d in dims) if shape else ()
    if keepdim:
        return tuple(1 if d in dims else size for d, size in enumerate(shape)), gone
    return tuple(size for d, size in enumerate(shape) if d not in dims), gone


def norm(op: str, self: Shaped, p: Any = 2, dim: Any = None, keepdim: bool = False, **keywords: Any) -> Shape:
    """Without the dims that are reduced; a norm of infinite order has no value of no elements."""
    shape, gone = reduced(op, self.shape, dim, keepdim)
    if isinstance(p, complex):
        raise ArgumentError(f"{op}: the order of a norm is a real number, not {p!r}")
    if p is not None and math.isinf(p) and 0 in gone:
        raise ShapeError(
            f"{op}: no elements have no norm of order {p}, and the reduced dims of a tensor of shape {self.shape} "
            f"have none" + fix("check for x.numel() == 0 before")
        )
    return shape


def topk(
    op: str, self: Shaped, k: Any, dim: Any = -1, largest: Any = True, sorted: Any = True, **keywords: Any
) -> tuple[Shape, Shape]:
    """``k`` elements in the place of all along ``dim``."""
    count, d = as_int(op, k, "k"), normalize_dim(op, dim, len(self.shape))
    size = self.shape[d] if self.shape else 1
    if not 0 <= count <= size:
        raise ShapeError(
            f"{op}: selected index k out of range: k is {count}, and dim {dim} of a tensor of shape {self.shape} "
            f"has {size} element{'s' * (size != 1)}" + fix(f"k from 0 to {size}")
        )
    shape = (*self.shape[:d], count, *self.shape[d + 1 :]) if self.shape else ()
    return shape, shape


def searchsorted(op: str, sorted_sequence: Shaped, self: Shaped, **keywords: Any) -> Shape:
    """The shape of the values; a sequence of several dims has their leading ones."""
    sequence, values = shape_of(sorted_sequence), shape_of(self)
    side, right = keywords.get("side"), keywords.get("right", False)
    if side not in (None, "left", "right"):
        raise ValueRangeError(f"{op}: side must be 'left' or 'right', and is {side!r}")
    if side == "left" and right:
        raise ValueRangeError(f"{op}: side='left' and right=True contradict each other" + fix("leave one of them out"))
    if not sequence:
        raise ShapeError(f"{op}: the sorted sequence needs a dim, and has none" + fix("reshape it to (1,)"))
    if len(sequence) > 1 and sequence[:-1] != values[:-1]:
        raise ShapeError(
            f"{op}: a sequence of shape {sequence} serves values of shape {(*sequence[:-1], 'n')}, not {values}: "
            f"all dims but the last must be the same, or the sequence have one dim"
        )
    sorter = keywords.get("sorter")
    if sorter is not None and shape_of(sorter) != sequence:
        raise ShapeError(f"{op}: sorter has shape {shape_of(sorter)}, and the sequence that it sorts {sequence}")
    if sorter is not None and sorter.dtype is not None and not sorter.dtype.is_integral:
        raise DTypeError(f"{op}: sorter must be of indices, not {sorter.dtype.name}" + fix("tp.argsort gives it"))
    return values


def bincount(op: str, self: Shaped, weights: Shaped | None = None, minlength: Any = 0, **keywords: Any) -> None:
    """As many elements as the largest number says, so data decides."""
    if len(self.shape) != 1:
        raise DimError(f"{op}: takes a tensor of one dim, not of shape {self.shape}" + fix("x.reshape(-1)"))
    if self.dtype is not None and not self.dtype.is_integral:
        raise DTypeError(f"{op}: counts integers, and the tensor is {self.dtype.name}" + fix("x.to(tp.int64)"))
    if weights is not None and weights.shape != self.shape:
        raise ShapeError(f"{op}: weights have shape {weights.shape}, and the numbers beside them {self.shape}")
    if weights is not None and weights.dtype is not None and weights.dtype.is_complex:
        raise DTypeError(f"{op}: weights are real numbers, not {weights.dtype.name}")
    if as_int(op, minlength, "minlength") < 0:
        raise ValueRangeError(f"{op}: minlength must not be negative, and is {minlength}")
