"""Products, truth, variances, norms and scans through the ufuncs' own ``reduce`` and ``accumulate``.

What the general kernels say in several arrays is said in one here, which is written to again and again.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tensorplay_composite.arrays import Kernels, quietly

LONG = 32
"""The length from which on the rows of a product are folded."""
LANES = 1024
"""The length of the rows that a large product over everything is made of: their products are vectors."""
_HAS_ELLIPSIS = np.lib.NumpyVersion(np.__version__) >= "2.3.0"


def _axis(dim: Any) -> Any:
    return dim if dim is None or dim.__class__ is int else tuple(dim) or None


@quietly
def reductions(general: Kernels) -> Kernels:
    """``prod``, ``any``, ``all`` and ``count_nonzero``."""
    product, some, every, total = np.multiply.reduce, np.logical_or.reduce, np.logical_and.reduce, np.add.reduce
    single, double, boolean, int64 = (np.dtype(name) for name in ("float32", "float64", "bool", "int64"))
    not_equal, count = np.not_equal, np.count_nonzero
    general_prod, general_any, general_all = general["prod"], general["any"], general["all"]
    general_count = general["count_nonzero"]

    def prod(self: Any, dim: Any = None, keepdim: bool = False) -> Any:
        if self.ndim and (self.dtype is single or self.dtype is double):
            axis = _axis(dim)
            if axis is None:
                flat, ones = self.reshape(-1), (1,) * (self.ndim - 1)
                self = (in_lanes(flat) if flat.size >= 4 * LANES else flat).reshape((*ones, -1))
            if axis is None or axis in (-1, self.ndim - 1):
                self = folded(self)
            return product(self, axis, None, keepdims=keepdim, out=...)
        return general_prod(self, dim, keepdim)

    def in_lanes(flat: Any) -> Any:
        """As many products as a row has elements, and those that fill no row multiplied into the first of them."""
        rest = flat.size % LANES
        products = product(flat[: flat.size - rest].reshape(-1, LANES), 0)
        if rest:
            np.multiply(products[:rest], flat[flat.size - rest :], products[:rest])
        return products

    def folded(rows: Any) -> Any:
        """Products of the halves of long rows, which are vectors where a row alone is one product after the other."""
        while (size := rows.shape[-1]) >= LONG:
            half = size // 2
            rest = rows[..., 2 * half :]
            rows = np.multiply(rows[..., :half], rows[..., half : 2 * half])
            if size % 2:
                np.multiply(rows[..., :1], rest, rows[..., :1])
        return rows

    def any(self: Any, dim: Any = None, keepdim: bool = False) -> Any:
        if self.ndim and (dim is None or dim.__class__ is int):
            return some(self if self.dtype is boolean else not_equal(self, 0), dim, None, keepdims=keepdim, out=...)
        return general_any(self, dim, keepdim)

    def all(self: Any, dim: Any = None, keepdim: bool = False) -> Any:
        if self.ndim and (dim is None or dim.__class__ is int):
            return every(self if self.dtype is boolean else not_equal(self, 0), dim, None, keepdims=keepdim, out=...)
        return general_all(self, dim, keepdim)

    def count_nonzero(self: Any, dim: Any = None) -> Any:
        if not self.ndim:
            return general_count(self, dim)
        axis, mask = _axis(dim), self if self.dtype is boolean else not_equal(self, 0)
        return np.asarray(count(mask)) if axis is None else total(mask, axis, int64)

    made = {"count_nonzero": count_nonzero}
    return {**made, "prod": prod, "any": any, "all": all} if _HAS_ELLIPSIS else made


@quietly
def spreads(general: Kernels) -> Kernels:
    """``var``, ``std``, ``norm`` and ``logsumexp`` of float32 and float64."""
    total, largest, single, double = np.add.reduce, np.maximum.reduce, np.dtype("float32"), np.dtype("float64")
    subtract, multiply, divide, root, exp, log = np.subtract, np.multiply, np.divide, np.sqrt, np.exp, np.log
    general_var, general_std = general["var.correction"], general["std.correction"]
    general_norm, general_logsumexp = general["norm"], general["logsumexp"]

    def squares(x: Any, axis: Any, keepdim: bool) -> Any:
        """The sum of squares, of rows in one pass over the memory."""
        if axis in (-1, x.ndim - 1) and axis.__class__ is int and not keepdim:
            return np.vecdot(x, x, out=...)
        return total(multiply(x, x), axis, None, keepdims=keepdim, out=...)

    def spread(self: Any, dim: Any, correction: Any, keepdim: bool) -> Any:
        axis: Any = _axis(dim)
        count = (
            self.size
            if axis is None
            else math.prod([self.shape[d] for d in ((axis,) if axis.__class__ is int else axis)])
        )
        scalar = self.dtype.type
        distance = total(self, axis, None, keepdims=True)
        divide(distance, scalar(count), distance)
        distance = subtract(self, distance)
        freedom = count - (1 if correction is None else correction)
        if axis is None and distance.flags.c_contiguous and not keepdim:
            flat = distance.reshape(-1)
            return np.asarray(divide(np.dot(flat, flat), scalar(freedom if freedom > 0 else 0)))
        result = squares(distance, axis, keepdim)
        return divide(result, scalar(freedom if freedom > 0 else 0), result)

    def plain(self: Any) -> bool:
        return bool(self.ndim and (self.dtype is single or self.dtype is double))

    def var(self: Any, dim: Any = None, *, correction: Any = None, keepdim: bool = False) -> Any:
        return (
            spread(self, dim, correction, keepdim)
            if plain(self)
            else general_var(self, dim, correction=correction, keepdim=keepdim)
        )

    def std(self: Any, dim: Any = None, *, correction: Any = None, keepdim: bool = False) -> Any:
        if not plain(self):
            return general_std(self, dim, correction=correction, keepdim=keepdim)
        result = spread(self, dim, correction, keepdim)
        return root(result, result)

    def norm(self: Any, p: Any = 2, dim: Any = None, keepdim: bool = False) -> Any:
        if not plain(self) or not (p is None or p == 2):
            return general_norm(self, p, dim, keepdim)
        axis = _axis(dim)
        if axis is None and not keepdim and self.flags.c_contiguous:
            flat = self.reshape(-1)
            return np.asarray(root(np.dot(flat, flat)))
        result = squares(self, axis, keepdim)
        return root(result, result)

    def logsumexp(self: Any, dim: Any, keepdim: bool = False) -> Any:
        if not plain(self) or not self.size:
            return general_logsumexp(self, dim, keepdim)
        axis = _axis(dim)
        base = largest(self, axis, keepdims=True)
        base[np.isinf(base)] = 0
        powers = subtract(self, base)
        result = total(exp(powers, powers), axis, None, keepdims=keepdim, out=...)
        log(result, result)
        return np.add(result, base.reshape(result.shape), result)

    made: Kernels = {"var.correction": var, "std.correction": std, "norm": norm, "logsumexp": logsumexp}
    return made if _HAS_ELLIPSIS else {}


@quietly
def scans(general: Kernels) -> Kernels:
    """The scans of float32 and float64, and the extremes of all that has an order."""
    single, double, int64 = np.dtype("float32"), np.dtype("float64"), np.dtype("int64")

    def summed(name: str, accumulate: Any) -> Any:
        other = general[name]

        def scan(self: Any, dim: int) -> Any:
            if self.ndim and dim.__class__ is int and (self.dtype is single or self.dtype is double):
                return accumulate(self, dim)
            return other(self, dim)

        return scan

    def furthest(name: str, accumulate: Any) -> Any:
        other, later = general[name], np.maximum.accumulate

        def scan(self: Any, dim: int) -> Any:
            kind = self.dtype.kind
            if not self.ndim or kind not in "biuf":
                return other(self, dim)
            values = accumulate(self, dim)
            here = np.equal(self, values)
            if kind == "f":
                here |= np.isnan(self)
            shape = [1] * self.ndim
            shape[dim] = -1
            places = np.arange(self.shape[dim], dtype=int64).reshape(shape)
            places = multiply(here, places)
            return values, later(places, dim)

        return scan

    multiply = np.multiply
    made = {"cumsum": np.add, "cumprod": np.multiply, "logcumsumexp": np.logaddexp}
    extremes = {"cummax": np.maximum, "cummin": np.minimum}
    return {
        **{name: summed(name, ufunc.accumulate) for name, ufunc in made.items()},
        **{name: furthest(name, ufunc.accumulate) for name, ufunc in extremes.items()},
    }


def kernels(general: Kernels) -> Kernels:
    """Returns the replacements; ``general`` serves the dtypes that they leave out."""
    return {**reductions(general), **spreads(general), **scans(general)}
