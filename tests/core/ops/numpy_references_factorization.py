"""The definitions in NumPy of decompositions and matrix norms, which test_values compares with."""

from __future__ import annotations

from typing import Any

import numpy as np


def settled(vectors: Any) -> Any:
    """The factor of each column that makes its first large component positive."""
    if not vectors.size:
        return np.ones_like(vectors[..., :1, :]) if vectors.shape[-2] else 1
    size = np.abs(vectors)
    first = np.argmax(size >= 0.75 * size.max(-2, keepdims=True), -2, keepdims=True)
    pivot = np.take_along_axis(vectors, first, -2)
    return np.conj(pivot) / np.abs(pivot)


def cholesky(x: Any, upper: bool = False) -> Any:
    return np.linalg.cholesky(x, upper=upper) if x.size else x


def cholesky_ex(x: Any, upper: bool = False, check_errors: bool = False) -> Any:
    return cholesky(x, upper), np.zeros(x.shape[:-2])


def solve(a: Any, b: Any, left: bool = True) -> Any:
    if not left:
        return np.swapaxes(solve(np.swapaxes(a, -1, -2), np.swapaxes(b, -1, -2)), -1, -2)
    if b.ndim == 1 or (a.ndim - 1 == b.ndim and b.shape == a.shape[:-1]):
        return solve(a, b[..., None])[..., 0]
    return np.linalg.solve(a, b)


def solve_triangular(a: Any, b: Any, upper: bool, left: bool = True, unitriangular: bool = False) -> Any:
    a = np.triu(a) if upper else np.tril(a)
    if unitriangular:
        a = np.where(np.eye(a.shape[-1], dtype=bool), 1, a)
    return solve(a, b, left)


def eigh(x: Any, UPLO: str = "L") -> Any:
    values, vectors = np.linalg.eigh(x, UPLO.upper())
    return values, vectors * settled(vectors)


def svd(x: Any, full_matrices: bool = True, driver: Any = None) -> Any:
    k = min(x.shape[-2:])
    u, s, vh = np.linalg.svd(x, full_matrices=full_matrices)
    if not x.size:
        return u, s, vh
    v = np.conj(np.swapaxes(vh, -1, -2))
    factor = settled(u)
    v = np.concatenate([v[..., :k] * factor[..., :k], v[..., k:] * (settled(v[..., k:]) if v.shape[-1] > k else 1)], -1)
    return u * factor, s, np.conj(np.swapaxes(v, -1, -2))


def qr(x: Any, mode: str = "reduced") -> Any:
    return tuple(np.linalg.qr(x, mode))


def triangle(factor: Any, upper: bool) -> Any:
    return np.conj(np.swapaxes(np.triu(factor), -1, -2)) if upper else np.tril(factor)


def of_factor(factor: Any, upper: bool) -> Any:
    low = triangle(factor, upper)
    return low @ np.conj(np.swapaxes(low, -1, -2))


def norm(x: Any, ord: Any = None, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Any:
    if x.ndim == 0 or (dim is None and (ord is None or x.ndim == 1)):
        result = np.linalg.norm(x.reshape(-1), ord)
        return result.reshape((1,) * x.ndim) if keepdim else result
    if ord is None and isinstance(dim, tuple):
        return np.sqrt(np.sum(np.abs(x) ** 2, axis=dim, keepdims=keepdim))
    return np.linalg.norm(x, ord, dim, keepdims=keepdim)


def matrix_norm(x: Any, ord: Any = "fro", dim: Any = (-2, -1), keepdim: bool = False, dtype: Any = None) -> Any:
    return np.linalg.norm(x, ord, tuple(dim), keepdims=keepdim)


def pinv(x: Any, rtol: Any = None, atol: Any = None, hermitian: bool = False) -> Any:
    return np.linalg.pinv(x, rcond=1e-9) if x.size else np.swapaxes(x, -1, -2)


def lstsq(a: Any, b: Any, rcond: Any = None, driver: Any = None) -> Any:
    solution = pinv(a) @ b
    residuals = np.sum(np.abs(a @ solution - b) ** 2, -2) if a.shape[-2] > a.shape[-1] else np.zeros((0,))
    return solution, residuals, np.full(a.shape[:-2], min(a.shape[-2:])), np.zeros((0,))


def cond(x: Any, p: Any = None) -> Any:
    return np.linalg.cond(x, p) if x.size else np.zeros(x.shape[:-2])


def det(x: Any) -> Any:
    return np.linalg.det(x)


REFERENCES: dict[str, Any] = {
    "linalg_cholesky": cholesky,
    "linalg_cholesky_ex": cholesky_ex,
    "linalg_solve": solve,
    "linalg_solve_triangular": solve_triangular,
    **dict.fromkeys(("linalg_inv", "inverse"), np.linalg.inv),
    **dict.fromkeys(("linalg_det", "det"), det),
    **dict.fromkeys(("linalg_slogdet", "slogdet"), lambda x: tuple(np.linalg.slogdet(x))),
    "logdet": lambda x: (lambda s: np.log(s[0]) + s[1])(np.linalg.slogdet(x)),
    "linalg_eigh": eigh,
    "linalg_eigvalsh": lambda x, UPLO="L": np.linalg.eigvalsh(x, UPLO.upper()),
    "linalg_svd": svd,
    "linalg_svdvals": lambda x, driver=None: np.linalg.svd(x, compute_uv=False),
    "linalg_qr": qr,
    "cholesky_solve": lambda b, factor, upper=False: np.linalg.solve(of_factor(factor, upper), b),
    "cholesky_inverse": lambda factor, upper=False: np.linalg.inv(of_factor(factor, upper)),
    "linalg_pinv.atol_rtol_float": pinv,
    "linalg_pinv": lambda x, rcond: pinv(x),
    "linalg_matrix_power": np.linalg.matrix_power,
    "linalg_multi_dot": np.linalg.multi_dot,
    **dict.fromkeys(("linalg_matrix_norm", "linalg_matrix_norm.str_ord"), matrix_norm),
    **dict.fromkeys(("linalg_norm", "linalg_norm.ord_str"), norm),
    **dict.fromkeys(("linalg_cond", "linalg_cond.p_str"), cond),
    "linalg_lstsq": lstsq,
}

REAL = {"complex64": "float32", "complex128": "float64"}
PROMISED: dict[str, Any] = {
    **dict.fromkeys(("linalg_slogdet", "slogdet"), lambda dtype, *_: (dtype, REAL.get(dtype, dtype))),
    "linalg_cholesky_ex": lambda dtype, *_: (dtype, "int32"),
    "linalg_eigh": lambda dtype, *_: (REAL.get(dtype, dtype), dtype),
    "linalg_svd": lambda dtype, *_: (dtype, REAL.get(dtype, dtype), dtype),
    "linalg_lstsq": lambda dtype, *_: (dtype, REAL.get(dtype, dtype), "int64", REAL.get(dtype, dtype)),
}
"""The dtypes of results that are not of one, by operator."""
