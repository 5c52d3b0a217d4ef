"""The right results of the contract's operators, in Python's own arithmetic.

A kernel is not compared with another kernel, which may share its mistake, nor with an array library, which may be what
it is made of: a reference is plain loops over Python numbers, with :mod:`math` and :mod:`cmath`. Its error budget says
how far from it a kernel may be. Written to be read and believed, not to be fast; 100,000 elements of a pointwise
operator take a tenth of a second.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tensorplay_core.testing.references import (
    activation,
    arrange,
    attention,
    classes,
    convolution,
    creation,
    elementary,
    factorization,
    indexing,
    linalg,
    losses,
    nn,
    normalization,
    padding,
    parts,
    pointwise,
    pooling,
    products,
    ranges,
    reduction,
    resizing,
    scans,
    scatter,
    shrinkage,
    sorting,
    statistics,
    views,
)
from tensorplay_core.testing.references.array import Array
from tensorplay_core.testing.references.creation import PROPERTIES
from tensorplay_core.testing.references.reference import Mismatch, Reference
from tensorplay_core.testing.references.rounding import UNSPECIFIED, format_of, ulp_of
from tensorplay_core.types.dtype import by_name

__all__ = ["PROPERTIES", "UNSPECIFIED", "Array", "Mismatch", "Reference", "names", "reference"]

_CATEGORY = {"b": 0, "u": 1, "i": 1, "f": 2, "c": 3}
_FAMILIES = (
    activation,
    attention,
    classes,
    creation,
    elementary,
    indexing,
    linalg,
    nn,
    attention,
    losses,
    normalization,
    parts,
    pointwise,
    reduction,
    scatter,
    shrinkage,
    views,
    scans,
    sorting,
    statistics,
    factorization,
    products,
    convolution,
    padding,
    pooling,
    arrange,
    ranges,
    resizing,
)
_TABLE: dict[str, Reference] = {name: entry for family in _FAMILIES for name, entry in family.REFERENCES.items()}


def names() -> list[str]:
    """Returns the names of the operators that have a reference of their own."""
    return sorted(_TABLE)


def reference(op_name: str) -> Reference | None:
    """Returns the reference of an operator, None where there is none.

    That of an in-place variant is made of the operator's: the same result, cast to the dtype of what is written to.

    Args:
        op_name: its name, such as ``"add"``, ``"max.dim"`` or ``"add_"``.

    Example:
        >>> halves = reference("div")(Array.of([1, 2], "int64"), 2)
        >>> halves
        (Array(shape=(2,), data=[0.5, 1.0], dtype='float32', slack=None),)
        >>> reference("add_")(Array.of([1.0], "float16"), Array.of([0.1], "float32"))[0].dtype
        'float16'
    """
    found = _TABLE.get(op_name)
    if found is not None or not op_name.endswith("_") or (base := _TABLE.get(op_name[:-1])) is None:
        return found
    return Reference(_inplace(base), base.ulps, base.bits)


def _inplace(base: Reference) -> Callable[..., Array]:
    def written(self: Array, *args: Any, **kwargs: Any) -> Array:
        (result,) = base(self, *args, **kwargs)
        if _CATEGORY[by_name(result.dtype).kind] > _CATEGORY[by_name(self.dtype).kind]:
            raise TypeError(f"a result of {result.dtype} cannot be written to {self.dtype}")
        if result.shape != self.shape:
            raise ValueError(f"a result of shape {result.shape} cannot be written to one of {self.shape}")
        form = format_of(result.dtype)
        if result.dtype == self.dtype or form is None:
            return result.cast(self.dtype)
        # It was rounded to its own dtype first.
        slack = result.slack or [0.0] * len(result.data)
        slack = [s + ulp_of(form, x) for s, x in zip(slack, result.data, strict=True)]
        return Array(result.shape, result.data, self.dtype, slack)

    return written
