"""References of products, truth, extremes, variances, norms and medians: loops over the elements along some dims.

What a kernel may be off by follows from its sums: the error of a mean shows in each distance from it, that of a sum of
powers in its root. NaN wins every comparison.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tensorplay_core.testing.references import reduction
from tensorplay_core.testing.references.array import Array, Shape
from tensorplay_core.testing.references.elementwise import budget
from tensorplay_core.testing.references.ieee import cabs
from tensorplay_core.testing.references.pointwise import REFERENCES as POINTWISE
from tensorplay_core.testing.references.reduction import groups, reduced
from tensorplay_core.testing.references.reference import Reference
from tensorplay_core.testing.references.rounding import Format, accumulator_of, round_to
from tensorplay_core.testing.references.sums import growth, total
from tensorplay_core.testing.references.views import dims_of
from tensorplay_core.types.dtype import by_name


def rows_of(self: Array, dim: Any, keepdim: bool) -> tuple[list[list[Any]], Shape]:
    """Returns the elements that are made one each, and the shape of the results."""
    dims = dims_of(dim, self.ndim)
    return groups(self, dims), reduced(self.shape, dims, keepdim)


def size_of(value: Any) -> float:
    """Returns a magnitude."""
    return cabs(value) if value.__class__ is complex else abs(value)


def _inexact(self: Array) -> Format:
    if not by_name(self.dtype).is_inexact:
        raise TypeError(f"integers have none, and the dtype is {self.dtype}")
    return accumulator_of(self.dtype)


def real_name(dtype: str) -> str:
    """Returns the name of the dtype of magnitudes."""
    return by_name(dtype).real_dtype.name


# ------------------------------------------------------------------------------------------------ products, truth, sums


def prod(self: Array, dim: Any = None, keepdim: bool = False, *, dtype: str | None = None) -> Array:
    """The product; of bool and integers in int64 unless ``dtype`` is given."""
    self = self if dtype is None else self.cast(dtype)
    rows, shape = rows_of(self, dim, keepdim)
    if not by_name(self.dtype).is_inexact:
        wide = round_to([math.prod(int(x) for x in row) for row in rows], "int64")
        return Array(shape, wide, "int64").cast(dtype or "int64")
    form = accumulator_of(self.dtype)
    one: Any = 1 + 0j if by_name(self.dtype).is_complex else 1.0
    data = [math.prod(row, start=one) for row in rows]
    slack = [2 * len(row) * (form.eps * size_of(x) + form.tiny * form.eps) for row, x in zip(rows, data, strict=True)]
    return Array(shape, data, self.dtype, slack)


def _truth(test: Callable[[Any], bool]) -> Callable[..., Array]:
    def reference(self: Array, dim: Any = None, keepdim: bool = False) -> Array:
        if dim is not None and not isinstance(dim, int) and not len(dim):
            return Array(self.shape, [x != 0 for x in self.data], "bool")
        rows, shape = rows_of(self, dim, keepdim)
        return Array(shape, [test(x != 0 for x in row) for row in rows], "bool")

    return reference


def count_nonzero(self: Array, dim: Any = None) -> Array:
    """How many are not zero."""
    rows, shape = rows_of(self, dim, False)
    return Array(shape, [len([x for x in row if x != 0]) for row in rows], "int64")


def _known(self: Array) -> tuple[Array, Array]:
    known = [x == x for x in self.data]
    data = [x if x == x else type(x)(0) for x in self.data]
    return Array(self.shape, data, self.dtype), Array(self.shape, known, "bool")


def nansum(self: Array, dim: Any = None, keepdim: bool = False, *, dtype: str | None = None) -> Array:
    """The sum with 0 for NaN."""
    return reduction.sum(_known(self)[0], dim, keepdim, dtype=dtype)


def nanmean(self: Array, dim: Any = None, keepdim: bool = False, *, dtype: str | None = None) -> Array:
    """The mean of what is not NaN."""
    values, known = _known(self if dtype is None else self.cast(dtype))
    _inexact(values)
    sums, counts = reduction.sum(values, dim, keepdim), reduction.sum(known, dim, keepdim).data
    assert sums.slack is not None
    data = [x / n if n else math.nan for x, n in zip(sums.data, counts, strict=True)]
    return Array(sums.shape, data, sums.dtype, [s / (n or 1) for s, n in zip(sums.slack, counts, strict=True)])


# ------------------------------------------------------------------------------------------------------------- extremes


def furthest(row: list[Any], largest: bool) -> int:
    """Returns where the first NaN is, else where the largest or smallest element is first."""
    best = 0
    for place, value in enumerate(row):
        if value != value:
            return place
        if (value > row[best]) if largest else (value < row[best]):
            best = place
    return best


def _over(self: Array, dim: Any, keepdim: bool, largest: bool) -> tuple[Array, Array]:
    if by_name(self.dtype).is_complex:
        raise TypeError("complex numbers have no order")
    rows, shape = rows_of(self, dim, keepdim)
    if not all(rows):
        raise ValueError("nothing is the largest of nothing")
    found = [furthest(row, largest) for row in rows]
    values = [row[place] for row, place in zip(rows, found, strict=True)]
    return Array(shape, values, self.dtype), Array(shape, found, "int64")


def aminmax(self: Array, *, dim: int | None = None, keepdim: bool = False) -> tuple[Array, Array]:
    """Both."""
    return _over(self, dim, keepdim, False)[0], _over(self, dim, keepdim, True)[0]


def median(self: Array) -> Array:
    """The lower middle, NaN if any is."""
    if by_name(self.dtype).is_complex:
        raise TypeError("complex numbers have no order")
    missing = [x for x in self.data if x != x]
    return Array((), [missing[0] if missing else sorted(self.data)[(len(self.data) - 1) // 2]], self.dtype)


# ----------------------------------------------------------------------------------------------------------- statistics


def _variance(row: list[Any], correction: float, form: Format) -> tuple[float, float]:
    """Returns the variance of some numbers, and how far a kernel may be from it."""
    count, freedom = len(row), max(len(row) - correction, 0)
    if not count or not all(size_of(x) < math.inf for x in row):
        return math.nan, 0.0
    mean = total(row) / count
    sizes = [size_of(x - mean) for x in row]
    squares = math.fsum(d * d for d in sizes)
    if not freedom:
        return (math.inf if squares else math.nan), 0.0
    off = growth(row) * form.eps * max(map(size_of, row))
    error = 2 * off * math.fsum(sizes) + count * off * off
    return squares / freedom, (error + (growth(row) + 3) * form.eps * squares) / freedom


def var(self: Array, dim: Any = None, *, correction: Any = None, keepdim: bool = False) -> Array:
    """The squared distances from the mean, over ``N - correction``."""
    form = _inexact(self)
    rows, shape = rows_of(self, dim, keepdim)
    found = [_variance(row, 1 if correction is None else correction, form) for row in rows]
    return Array(shape, [v for v, _ in found], real_name(self.dtype), [s for _, s in found])


def std(self: Array, dim: Any = None, *, correction: Any = None, keepdim: bool = False) -> Array:
    """The square root of the variance."""
    squares = var(self, dim, correction=correction, keepdim=keepdim)
    assert squares.slack is not None
    data = [math.sqrt(v) if v == v else v for v in squares.data]
    slack = [
        min(s / (2 * r), math.sqrt(s)) if 0 < r < math.inf else math.sqrt(s)
        for r, s in zip(data, squares.slack, strict=True)
    ]
    return Array(squares.shape, data, squares.dtype, slack)


def _forms(of: Callable[..., Array], name: str, with_mean: bool) -> dict[str, Callable[..., Any]]:
    def correction(self: Array, dim: Any = None, *, correction: Any = None, keepdim: bool = False) -> Any:
        spread = of(self, dim, correction=correction, keepdim=keepdim)
        return (spread, reduction.mean(self, dim, keepdim)) if with_mean else spread

    def plain(self: Array, unbiased: bool = True) -> Any:
        return correction(self, None, correction=int(unbiased))

    def along(self: Array, dim: Any, unbiased: bool = True, keepdim: bool = False) -> Any:
        return correction(self, dim, correction=int(unbiased), keepdim=keepdim)

    return {name: plain, f"{name}.dim": along, f"{name}.correction": correction}


def _measure(row: list[Any], order: float, form: Format) -> tuple[float, float]:
    """Returns the norm of some numbers, and how far a kernel may be from it."""
    sizes = [size_of(x) for x in row]
    if any(s != s for s in sizes) and order != 0:
        return math.nan, 0.0
    if order == 0:
        return float(len([s for s in sizes if s != 0])), 0.0
    if math.isinf(order):
        return (max if order > 0 else min)(sizes), 0.0
    if order < 0 and 0 in sizes:
        return 0.0, 0.0
    powers = math.fsum(s**order for s in sizes)
    if not powers:
        return (0.0 if order > 0 else math.inf), 0.0
    result = powers ** (1 / order)
    logs = max(abs(math.log(s)) for s in sizes if s)  # an exponent that is rounded shows by as much
    off = (growth(row) + 4 + abs(order) * logs) / min(abs(order), 1.0) + abs(math.log(powers))
    return result, off * form.eps * result


def norm(self: Array, p: Any = 2, dim: Any = None, keepdim: bool = False, *, dtype: str | None = None) -> Array:
    """The p-norm; 2 for None and ``fro``."""
    self = self if dtype is None else self.cast(dtype)
    form, order = _inexact(self), 2.0 if p is None or p == "fro" else float(p)
    rows, shape = rows_of(self, dim, keepdim)
    found = [_measure(row, order, form) for row in rows]
    return Array(shape, [v for v, _ in found], real_name(self.dtype), [s for _, s in found])


def logsumexp(self: Array, dim: Any, keepdim: bool = False) -> Array:
    """``log(sum(exp(x)))``, the largest taken out."""
    self = self if by_name(self.dtype).is_inexact else self.cast("float32")
    form = accumulator_of(self.dtype)
    rows, shape = rows_of(self, dim, keepdim)
    data, slack = [], []
    for row in rows:
        largest = row[furthest(row, True)] if row else -math.inf
        if not abs(largest) < math.inf:
            data.append(largest)
            slack.append(0.0)
            continue
        powers = math.fsum(math.exp(x - largest) for x in row)
        data.append(largest + math.log(powers))
        slack.append((growth(row) + 4) * form.eps + form.eps * abs(largest))
    return Array(shape, data, self.dtype, slack)


# --------------------------------------------------------------------------------------------------------------- table

_FUNCTIONS: dict[str, tuple[Callable[..., Any], dict[str, float]]] = {
    "prod": (prod, budget(2)),
    "any": (_truth(any), {}),
    "all": (_truth(all), {}),
    "count_nonzero": (count_nonzero, {}),
    "nansum": (nansum, budget(1)),
    "nanmean": (nanmean, budget(2)),
    "max.other": (POINTWISE["maximum"].fn, {}),
    "min.other": (POINTWISE["minimum"].fn, {}),
    "min": (lambda self: _over(self, None, False, False)[0], {}),
    "min.dim": (lambda self, dim, keepdim=False: _over(self, dim, keepdim, False), {}),
    "argmin": (lambda self, dim=None, keepdim=False: _over(self, dim, keepdim, False)[1], {}),
    "amax": (lambda self, dim=(), keepdim=False: _over(self, dim, keepdim, True)[0], {}),
    "amin": (lambda self, dim=(), keepdim=False: _over(self, dim, keepdim, False)[0], {}),
    "aminmax": (aminmax, {}),
    "median": (median, {}),
    **{
        name: (function, budget(2))
        for base, of in (("var", var), ("std", std))
        for with_mean in (False, True)
        for name, function in _forms(of, base + "_mean" * with_mean, with_mean).items()
    },
    **{name: (norm, budget(2)) for name in ("norm", "norm.dtype", "norm.str", "linalg_vector_norm")},
    "logsumexp": (logsumexp, budget(2)),
}
REFERENCES: dict[str, Reference] = {name: Reference(fn, ulps) for name, (fn, ulps) in _FUNCTIONS.items()}
