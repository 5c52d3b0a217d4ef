"""Independent definitions in NumPy of reductions, scans, sorting and searching; see numpy_references.py."""

from __future__ import annotations

from typing import Any

import numpy as np


def axis_of(dim: Any, x: np.ndarray) -> Any:
    if dim is None or x.ndim == 0 or (isinstance(dim, (tuple, list)) and not dim):
        return None
    return tuple(dim) if isinstance(dim, (tuple, list)) else dim


def kept(x: np.ndarray, keepdim: bool) -> bool:
    return keepdim and x.ndim > 0


def reduced(function: Any) -> Any:
    def reference(x: Any, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Any:
        return function(x, axis=axis_of(dim, x), keepdims=kept(x, keepdim))

    return reference


def truth(function: Any) -> Any:
    def reference(x: Any, dim: Any = None, keepdim: bool = False) -> Any:
        if dim == ():
            return x != 0
        return function(x != 0, axis=axis_of(dim, x), keepdims=kept(x, keepdim))

    return reference


def argmin(x: Any, dim: Any = None, keepdim: bool = False) -> Any:
    if dim is None or x.ndim == 0:
        return np.reshape(np.argmin(x), (1,) * x.ndim if keepdim else ())
    return np.argmin(x, axis=dim, keepdims=keepdim)


def logsumexp(x: Any, dim: Any, keepdim: bool = False) -> Any:
    axis = axis_of(dim, x)
    return np.logaddexp.reduce(x, axis=axis, keepdims=kept(x, keepdim)) if x.ndim else x


def spread(function: Any, with_mean: bool = False) -> Any:
    """The forms of a variance or deviation; NumPy's ``ddof`` is the correction."""

    def correction(x: Any, dim: Any = None, correction: Any = 1, keepdim: bool = False) -> Any:
        axis = axis_of(dim, x)
        value = function(x, axis=axis, ddof=1 if correction is None else correction, keepdims=kept(x, keepdim))
        return (value, np.mean(x, axis=axis, keepdims=kept(x, keepdim))) if with_mean else value

    def plain(x: Any, unbiased: bool = True) -> Any:
        return correction(x, None, int(unbiased))

    def along(x: Any, dim: Any, unbiased: bool = True, keepdim: bool = False) -> Any:
        return correction(x, dim, int(unbiased), keepdim)

    return plain, along, correction


def norm(x: Any, p: Any = 2, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Any:
    axis, size, p = axis_of(dim, x), np.abs(x), 2 if p in (None, "fro") else p
    if p == 0:
        return np.sum(size != 0, axis=axis, keepdims=kept(x, keepdim))
    if np.isinf(p):
        return (np.max if p > 0 else np.min)(size, axis=axis, keepdims=kept(x, keepdim))
    return np.sum(size**p, axis=axis, keepdims=kept(x, keepdim)) ** (1 / p)


def rows_of(x: np.ndarray, dim: int) -> tuple[np.ndarray, Any]:
    """Returns a tensor with a dim moved to the end, and what moves it back."""
    if x.ndim == 0:
        return x.reshape(1), lambda y: np.reshape(y, ())
    return np.moveaxis(x, dim, -1), lambda y: np.moveaxis(y, -1, dim)


def key(value: Any) -> tuple[bool, Any]:
    return (bool(value != value), value if value == value else 0)


def order(row: Any, descending: bool) -> list[int]:
    """Returns the stable order of a row by Python's own sort; NaN is the largest."""
    return sorted(range(len(row)), key=lambda i: key(row[i]), reverse=descending)


def ordered(x: Any, dim: int = -1, descending: bool = False, stable: bool = True) -> Any:
    rows, back = rows_of(x, dim)
    places = np.zeros(rows.shape, "int64")
    for where in np.ndindex(rows.shape[:-1]):
        places[where] = order(rows[where].tolist(), descending)
    return back(np.take_along_axis(rows, places, -1)), back(places)


def topk(x: Any, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
    if x.ndim == 0:
        return x, np.zeros((), "int64")
    return tuple(np.moveaxis(np.moveaxis(y, dim, -1)[..., :k], -1, dim) for y in ordered(x, dim, largest))


def picked(x: Any, place: Any, dim: int, keepdim: bool) -> Any:
    """Returns one place of each sorted row, and where it was."""
    values, places = ordered(x, dim)
    if x.ndim == 0:
        return values, places
    axis = dim % x.ndim
    chosen = np.zeros([1 if d == axis else n for d, n in enumerate(x.shape)], "int64")
    if chosen.size:
        chosen = np.expand_dims(np.apply_along_axis(place, axis, x), axis).astype("int64")
    results = [np.take_along_axis(y, chosen, axis) for y in (values, places)]
    return tuple(results) if keepdim else tuple(np.squeeze(y, axis) for y in results)


def middle(row: Any) -> int:
    """The place of the lower median in a sorted row, or of the first NaN."""
    numbers = int((row == row).sum())
    return (len(row) - 1) // 2 if numbers == len(row) else numbers


def median(x: Any) -> Any:
    flat = x.reshape(-1)
    return ordered(flat)[0][middle(flat)]


def quantile(x: Any, q: Any, dim: Any = None, keepdim: bool = False, interpolation: str = "linear") -> Any:
    return np.quantile(
        x, np.asarray(q), axis=None if x.ndim == 0 else dim, keepdims=kept(x, keepdim), method=interpolation
    )


def accumulated(function: Any) -> Any:
    def reference(x: Any, dim: int, dtype: Any = None) -> Any:
        if x.ndim == 0:
            return x
        wide = x.astype("int64") if x.dtype.kind in "bui" else x
        return function.accumulate(wide, axis=dim)

    return reference


def running(better: Any) -> Any:
    """The furthest element so far and its last place, one element after the other; NaN is the furthest."""

    def reference(x: Any, dim: int) -> Any:
        rows, back = rows_of(x, dim)
        values, places = rows.copy(), np.zeros(rows.shape, "int64")
        for where in np.ndindex(rows.shape[:-1]):
            for i in range(1, rows.shape[-1]):
                last, one = values[where][i - 1], rows[where][i]
                wins = one != one or (last == last and better(one, last))
                values[where][i], places[where][i] = (one, i) if wins else (last, places[where][i - 1])
        return back(values), back(places)

    return reference


def diff(x: Any, n: int = 1, dim: int = -1, prepend: Any = None, append: Any = None) -> Any:
    joined = [part for part in (prepend, x, append) if part is not None]
    return np.diff(np.concatenate(joined, dim), n, axis=dim)


def searchsorted(sequence: Any, values: Any, out_int32: bool = False, right: bool = False, side: Any = None,
                 sorter: Any = None) -> Any:  # fmt: skip
    side = side or ("right" if right else "left")
    if sequence.ndim == 1:
        return np.searchsorted(sequence, values, side=side, sorter=sorter)
    found = np.zeros(values.shape, "int64")
    for row in np.ndindex(values.shape[:-1]):
        found[row] = np.searchsorted(sequence[row], values[row], side=side)
    return found


VAR, VAR_DIM, VAR_CORRECTION = spread(np.var)
STD, STD_DIM, STD_CORRECTION = spread(np.std)
VAR_MEAN, VAR_MEAN_DIM, VAR_MEAN_CORRECTION = spread(np.var, True)
STD_MEAN, STD_MEAN_DIM, STD_MEAN_CORRECTION = spread(np.std, True)


def unique(x: Any, dim: Any, inverse: bool, counts: bool) -> Any:
    values, places, numbers = np.unique(x, return_inverse=True, return_counts=True, axis=dim, equal_nan=False)
    return values, places if inverse else np.zeros(0, "int64"), numbers if counts else np.zeros(0, "int64")


def unique_dim_consecutive(x: Any, dim: int, return_inverse: bool = False, return_counts: bool = False) -> Any:
    rows = np.moveaxis(x, dim, 0)
    first = np.array([i == 0 or bool((row != rows[i - 1]).any()) for i, row in enumerate(rows)], bool)
    inverse, none = np.cumsum(first) - 1, np.zeros(0, "int64")
    counts = np.bincount(inverse)
    return np.compress(first, x, dim), inverse if return_inverse else none, counts if return_counts else none


REFERENCES: dict[str, Any] = {
    "_unique2": lambda x, sorted=True, return_inverse=False, return_counts=False: unique(
        x, None, return_inverse, return_counts
    ),
    "unique_dim": lambda x, dim, sorted=True, return_inverse=False, return_counts=False: unique(
        x, dim, return_inverse, return_counts
    ),
    "unique_dim_consecutive": unique_dim_consecutive,
    "max.other": np.maximum,
    "min.other": np.minimum,
    "min": np.min,
    "min.dim": lambda x, dim, keepdim=False: (
        np.min(x, axis=axis_of(dim, x), keepdims=kept(x, keepdim)),
        argmin(x, dim, keepdim) if x.ndim else np.array(0),
    ),
    "argmin": lambda x, dim=None, keepdim=False: argmin(x, dim, keepdim) if x.ndim else np.array(0),
    "amax": reduced(np.max),
    "amin": reduced(np.min),
    "aminmax": lambda x, dim=None, keepdim=False: tuple(reduced(f)(x, dim, keepdim) for f in (np.min, np.max)),
    "prod": reduced(lambda x, **k: np.prod(x, **k, dtype="int64" if x.dtype.kind in "bui" else None)),
    "any": truth(np.any),
    "all": truth(np.all),
    "count_nonzero": lambda x, dim=None: np.count_nonzero(x, axis=axis_of(dim, x)),
    "nansum": reduced(lambda x, **k: np.nansum(x, **k, dtype="int64" if x.dtype.kind in "bui" else None)),
    "nanmean": reduced(np.nanmean),
    "logsumexp": logsumexp,
    "var": VAR,
    "var.dim": VAR_DIM,
    "var.correction": VAR_CORRECTION,
    "std": STD,
    "std.dim": STD_DIM,
    "std.correction": STD_CORRECTION,
    "var_mean": VAR_MEAN,
    "var_mean.dim": VAR_MEAN_DIM,
    "var_mean.correction": VAR_MEAN_CORRECTION,
    "std_mean": STD_MEAN,
    "std_mean.dim": STD_MEAN_DIM,
    "std_mean.correction": STD_MEAN_CORRECTION,
    "norm": norm,
    "norm.dtype": norm,
    "norm.str": norm,
    "linalg_vector_norm": norm,
    "median": median,
    "median.dim": lambda x, dim, keepdim=False: picked(x, middle, dim, keepdim),
    "quantile": quantile,
    "quantile.scalar": quantile,
    "cumsum": accumulated(np.add),
    "cumprod": accumulated(np.multiply),
    "logcumsumexp": accumulated(np.logaddexp),
    "cummax": running(lambda one, last: one >= last),
    "cummin": running(lambda one, last: one <= last),
    "diff": diff,
    "sort": ordered,
    "sort.stable": ordered,
    "argsort": lambda x, dim=-1, descending=False: ordered(x, dim, descending)[1],
    "argsort.stable": lambda x, dim=-1, descending=False, stable=True: ordered(x, dim, descending)[1],
    "msort": lambda x: ordered(x, 0)[0],
    "topk": topk,
    "kthvalue": lambda x, k, dim=-1, keepdim=False: picked(x, lambda row: k - 1, dim, keepdim),
    "searchsorted.Tensor": searchsorted,
    "searchsorted.Scalar": searchsorted,
    "bucketize.Tensor": lambda x, sequence, out_int32=False, right=False: searchsorted(sequence, x, right=right),
    "bucketize.Scalar": lambda x, sequence, out_int32=False, right=False: searchsorted(sequence, x, right=right),
    "bincount": lambda x, weights=None, minlength=0: np.bincount(x.astype("int64"), weights, minlength),
}

REAL = {"complex64": "float32", "complex128": "float64"}


def real(dtype: str, args: Any, kwargs: Any) -> str:
    return REAL.get(dtype, dtype)


def whole(dtype: str, args: Any, kwargs: Any) -> str:
    return "int32" if kwargs.get("out_int32") else "int64"


def added(dtype: str, args: Any, kwargs: Any) -> str:
    return dtype if "float" in dtype or "complex" in dtype else "int64"


def weighed(dtype: str, args: Any, kwargs: Any) -> str:
    if len(args) < 2 or args[1] is None:
        return "int64"
    return args[1].dtype.name if args[1].dtype.name == "float32" else "float64"


def normed(dtype: str, args: Any, kwargs: Any) -> str:
    given = kwargs.get("dtype")
    return real(dtype if given is None else given.name, args, kwargs)


PROMISED: dict[str, Any] = {
    **dict.fromkeys(("argsort", "argsort.stable", "searchsorted.Tensor", "searchsorted.Scalar"), whole),
    **dict.fromkeys(("bucketize.Tensor", "bucketize.Scalar"), whole),
    **dict.fromkeys(("var", "var.dim", "std", "std.dim"), real),
    **dict.fromkeys(("norm.dtype", "norm.str", "linalg_vector_norm"), normed),
    "nansum": lambda dtype, args, kwargs: kwargs["dtype"].name if "dtype" in kwargs else added(dtype, args, kwargs),
    "bincount": weighed,
}
"""The result's dtype where no rule of the contract says it, by operator."""


def selected(dtype: str, args: Any, kwargs: Any) -> tuple[str, str]:
    return dtype, "int64"


def with_mean(dtype: str, args: Any, kwargs: Any) -> tuple[str, str]:
    return REAL.get(dtype, dtype), dtype


PROMISED |= {
    **dict.fromkeys(("_unique2", "unique_dim", "unique_dim_consecutive"), lambda dtype, *_: (dtype, "int64", "int64")),
    **dict.fromkeys(("max.dim", "min.dim", "median.dim", "cummax", "cummin"), selected),
    **dict.fromkeys(("sort", "sort.stable", "topk", "kthvalue"), selected),
    **dict.fromkeys(("var_mean", "var_mean.dim", "var_mean.correction"), with_mean),
    **dict.fromkeys(("std_mean", "std_mean.dim", "std_mean.correction"), with_mean),
}
