"""Triangular systems: blocks on the diagonal by LAPACK's ``gesv``, and the rest by matrix products.

NumPy has no ``trsm``. ``gesv`` of an upper triangle has nothing to eliminate and no rows to exchange, so what it does
is plain substitution from below; a lower triangle is an upper one with its rows and columns in reverse. Of many right
sides it makes strided copies, so there the inverse of a block serves.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from tensorplay_composite.arrays import Kernels, quietly
from tensorplay_core.ops.shapes import broadcast_shapes

BLOCK = 32
"""Rows that are solved at once: more cost LAPACK an elimination that is not needed, fewer make small products."""


@functools.cache
def _above(n: int, diagonal: int) -> Any:
    """Which elements of an n by n matrix are on or above a diagonal."""
    return np.triu(np.ones((n, n), bool), diagonal)


@quietly
def kernels(general: Kernels) -> Kernels:
    """``linalg_solve_triangular``, of the dtypes that LAPACK has."""
    otherwise = general["linalg_solve_triangular"]
    lapack: Any = np.linalg._umath_linalg
    gesv, inv, any_of, where, matmul = lapack.solve, lapack.inv, np.logical_or.reduce, np.where, np.matmul
    back = (..., slice(None, None, -1), slice(None))
    around = (..., slice(None, None, -1), slice(None, None, -1))

    def block(a: Any, b: Any, upper: bool, unitriangular: bool) -> Any:
        """The solution of one block; its matrix may be anything on the other side of the diagonal."""
        n = a.shape[-1]
        if not upper:
            a, b = a[around], b[back]
        other = np.eye(n, dtype=a.dtype) if unitriangular else a.dtype.type(0)
        a = where(_above(n, int(unitriangular)), a, other)
        if b.shape[-1] > BLOCK:  # the inverse, and one step of refinement, which gives back the digits that it loses
            inverse = inv(a)
            x = matmul(inverse, b)
            x += matmul(inverse, b - matmul(a, x))
        else:
            x = gesv(a, b)
        return x if upper else x[back]

    def linalg_solve_triangular(
        self: Any, B: Any, *, upper: bool, left: bool = True, unitriangular: bool = False
    ) -> Any:
        if self.ndim < 2 or B.ndim < 2 or self.shape[-1] != self.shape[-2] or self.dtype.char not in "fdFD":
            return otherwise(self, B, upper=upper, left=left, unitriangular=unitriangular)
        if not left:
            a, b = self.swapaxes(-2, -1), B.swapaxes(-2, -1)
            x = linalg_solve_triangular(a, b, upper=not upper, unitriangular=unitriangular)
            return np.ascontiguousarray(x.swapaxes(-2, -1))
        n = self.shape[-1]
        if B.shape[-2] != n:
            raise ValueError("the shape rule says what is wrong")
        if not unitriangular and any_of(self.diagonal(0, -2, -1) == 0, None):
            return otherwise(self, B, upper=upper)  # which says which matrix is singular
        if n <= BLOCK:
            return np.ascontiguousarray(block(self, B, upper, unitriangular))
        batch = broadcast_shapes("", self.shape[:-2], B.shape[:-2])
        result = np.empty(batch + B.shape[-2:], B.dtype)
        result[...] = B
        for start in range(0, n, BLOCK):
            first, last = (max(n - start - BLOCK, 0), n - start) if upper else (start, min(start + BLOCK, n))
            done = slice(last, None) if upper else slice(0, first)
            rows = result[..., first:last, :]
            if start:
                rows -= matmul(self[..., first:last, done], result[..., done, :])
            rows[...] = block(self[..., first:last, first:last], rows, upper, unitriangular)
        return result

    return {"linalg_solve_triangular": linalg_solve_triangular}
