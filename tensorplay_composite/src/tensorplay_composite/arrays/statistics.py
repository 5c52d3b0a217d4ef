"""Variances, norms, medians and logarithms of sums, over some or all dims.

A variance takes the mean first and then the squared distances from it, so that no digits cancel where the mean is
large. Half precisions compute in float32 and round once.
"""

from __future__ import annotations

import math
from typing import Any

from tensorplay_composite.arrays._support import Kernel, Kernels, Support, check_0d, dims_of, dtype_name, quietly
from tensorplay_core.errors import DTypeError, fix


def axis_of(name: str, array: Any, dim: Any) -> Any:
    """Returns ``dim`` as an axis argument for an array, of which one of 0 dims has none."""
    if array.ndim:
        return dims_of(dim)
    check_0d(name, dim)
    return None


def count_of(shape: tuple[int, ...], axis: Any) -> int:
    """Returns how many elements a reduction makes one of.

    Example:
        >>> count_of((2, 3, 4), None), count_of((2, 3, 4), -1), count_of((2, 3, 4), (0, 1))
        (24, 4, 6)
    """
    axes = range(len(shape)) if axis is None else (axis,) if isinstance(axis, int) else axis
    return math.prod(shape[d] for d in axes)


@quietly
def spreads(xp: Any, support: Support) -> Kernels:
    """``var`` and ``std``."""
    kind, cast, single, add_up = support.kind, support.cast, support.single, support.sum

    def spread(name: str, self: Any, dim: Any, correction: Any, keepdim: bool, root: bool) -> Any:
        what, dtype = kind[self.dtype], self.dtype
        if what not in ("half", "float", "complex"):
            raise DTypeError(
                f"{name}: the tensor is {dtype_name(dtype)}, and only floating and complex dtypes have a {name}"
                + fix("convert it: x.to(tp.float32)")
            )
        axis = axis_of(name, self, dim)
        wide = cast(self, single) if what == "half" else self
        count = count_of(wide.shape, axis)
        distance = wide - add_up(wide, axis=axis, keepdims=True) / xp.asarray(count, dtype=wide.dtype)
        if what == "complex":
            real, imag = xp.real(distance), xp.imag(distance)
            squares = real * real + imag * imag
        else:
            squares = distance * distance
        freedom = max(count - (1 if correction is None else correction), 0)
        result = add_up(squares, axis=axis, keepdims=keepdim) / xp.asarray(freedom, dtype=squares.dtype)
        result = xp.sqrt(result) if root else result
        return cast(result, dtype) if what == "half" else result

    def var(self: Any, dim: Any = None, *, correction: Any = None, keepdim: bool = False) -> Any:
        return spread("var", self, dim, correction, keepdim, False)

    def std(self: Any, dim: Any = None, *, correction: Any = None, keepdim: bool = False) -> Any:
        return spread("std", self, dim, correction, keepdim, True)

    return {"var.correction": var, "std.correction": std}


@quietly
def norms(xp: Any, support: Support, extreme: Kernel) -> Kernels:
    """``norm`` of every order, and ``logsumexp``; ``extreme`` gives the largest or the smallest with NaN first."""
    kind, cast, single, add_up, asarray = support.kind, support.cast, support.single, support.sum, xp.asarray

    def norm(self: Any, p: Any = 2, dim: Any = None, keepdim: bool = False) -> Any:
        what, dtype = kind[self.dtype], self.dtype
        if what not in ("half", "float", "complex"):
            raise DTypeError(
                f"norm: the tensor is {dtype_name(dtype)}, and only floating and complex dtypes have a norm"
                + fix("convert it: x.to(tp.float32)")
            )
        axis = axis_of("norm", self, dim)
        result = measured(cast(self, single) if what == "half" else self, 2.0 if p is None else float(p), axis, keepdim)
        return cast(result, dtype) if what == "half" else result

    def measured(self: Any, order: float, axis: Any, keepdim: bool) -> Any:
        if order == 2:
            if kind[self.dtype] != "complex":
                return xp.sqrt(add_up(self * self, axis=axis, keepdims=keepdim))
            real, imag = xp.real(self), xp.imag(self)
            return xp.sqrt(add_up(real * real + imag * imag, axis=axis, keepdims=keepdim))
        size = xp.abs(self)
        if order == 0:
            return add_up(cast(size != 0, size.dtype), axis=axis, keepdims=keepdim)
        if order == 1:
            return add_up(size, axis=axis, keepdims=keepdim)
        if math.isinf(order):
            return extreme("norm", size, axis, keepdim, order > 0)
        powers = xp.pow(size, asarray(order, dtype=size.dtype))
        return xp.pow(add_up(powers, axis=axis, keepdims=keepdim), asarray(1 / order, dtype=size.dtype))

    def logsumexp(self: Any, dim: Any, keepdim: bool = False) -> Any:
        what, dtype = kind[self.dtype], self.dtype
        axis = axis_of("logsumexp", self, dim)
        wide = cast(self, single) if what == "half" else self
        if math.prod(wide.shape):
            largest = extreme("logsumexp", wide, axis, True, True)
            base = xp.where(xp.isinf(largest), asarray(0, dtype=wide.dtype), largest)
            total = xp.log(add_up(xp.exp(wide - base), axis=axis, keepdims=True)) + base
            result = total if keepdim else xp.reshape(total, kept(wide.shape, axis))
        else:
            result = xp.log(add_up(wide, axis=axis, keepdims=keepdim))
        return cast(result, dtype) if what == "half" else result

    return {"norm": norm, "logsumexp": logsumexp}


def kept(shape: tuple[int, ...], axis: Any) -> tuple[int, ...]:
    """Returns a shape without the reduced dims.

    Example:
        >>> kept((2, 3, 4), (0, -1)), kept((2, 3), None)
        ((3,), ())
    """
    if axis is None:
        return ()
    gone = {d % len(shape) for d in ((axis,) if isinstance(axis, int) else axis)}
    return tuple(size for d, size in enumerate(shape) if d not in gone)


@quietly
def medians(xp: Any, support: Support) -> Kernels:
    """``median`` of all elements."""
    kind, cast, single = support.kind, support.cast, support.single
    small = support.widest("uint8", "int32")

    def median(self: Any) -> Any:
        what, flat = kind[self.dtype], xp.reshape(self, (-1,))
        if what in ("half", "float"):
            missing = xp.isnan(flat)
            if xp.any(missing):
                return support.copy(flat[xp.argmax(cast(missing, small))])
        place = (flat.shape[0] - 1) // 2
        if what in ("half", "bool"):
            return cast(xp.sort(cast(flat, single if what == "half" else small))[place], self.dtype)
        return support.copy(xp.partition(flat, place)[place] if support.numpy_rules else xp.sort(flat)[place])

    return {"median": median}


def kernels(xp: Any, support: Support, extreme: Kernel) -> Kernels:
    """Returns the statistics over ``xp``; ``extreme`` is as in :func:`norms`."""
    return {**spreads(xp, support), **norms(xp, support, extreme), **medians(xp, support)}
