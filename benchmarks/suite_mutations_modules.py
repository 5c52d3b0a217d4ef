"""Array modules that do what the array API standard leaves open otherwise than NumPy, of which they are made.

A kernel that needs more than the standard promises works over NumPy all the same; over these it does not.
"""

from __future__ import annotations

import functools
import gc
from collections.abc import Iterator
from types import CellType, ModuleType
from typing import Any

import array_api_strict
import numpy
from array_api_strict import (
    _array_object,
    _data_type_functions,
    _dtypes,
    _elementwise_functions,
    _searching_functions,
    _set_functions,
)

HALVED = (
    "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cosh", "hypot", "log2", "log10", "logaddexp", "sinh",
    "tan",
)  # fmt: skip
"""Functions that some modules compute in halves where they are given some, a few units off."""


def loosened() -> Any:
    """Returns array-api-strict with what the standard leaves open, or some module does otherwise, done so.

    Places outside an array are refused by indexing, slices and ``take``, which count none from the end; ``reshape``
    takes -1 for a size that is left out and no other number; an array of 0 dims has no axis, and an element by its
    index is a view; NaN is the smallest and the largest to nobody; a shift wraps around; dtypes are not promoted, and
    to ``where`` a Python number is a float64; what rounds, or asks for NaN, takes no integers; linear algebra takes no
    matrix without elements; arrays are not written to. There is float16, as in nearly all modules; it is not added up,
    and some functions of it are a few units off.
    """
    xp = array_api_strict
    _with_halves(xp)
    for name, last in (("argmax", -numpy.inf), ("argmin", numpy.inf), ("max", -numpy.inf), ("min", numpy.inf)):
        setattr(xp, name, _skipping(getattr(xp, name), last))
    for name in ("bitwise_left_shift", "bitwise_right_shift"):
        setattr(xp, name, _wrapping(getattr(xp, name)))
    for name in ("all", "any", "argmax", "argmin", "flip", "max", "mean", "min", "prod", "sum"):
        setattr(xp, name, _with_dims(getattr(xp, name)))
    for name in ("ceil", "floor", "isfinite", "isinf", "isnan", "round", "trunc"):
        setattr(xp, name, _of_fractions(getattr(xp, name)))
    for name in ("cholesky", "det", "eigh", "eigvalsh", "inv", "qr", "slogdet", "solve", "svd", "svdvals"):
        setattr(xp.linalg, name, _of_elements(getattr(xp.linalg, name)))
    for name in ("take", "take_along_axis"):
        setattr(xp, name, _inside(getattr(xp, name)))
    for name in ("matmul", "tensordot", "vecdot", "sum", "prod", "mean", "cumulative_sum", "cumulative_prod"):
        setattr(xp, name, _of_singles(getattr(xp, name)))
    for name in HALVED:
        setattr(xp, name, _worse_in_halves(getattr(xp, name)))
    xp.reshape = _sized(xp.reshape)
    xp.where = _of_arrays(xp.where)
    xp.searchsorted = _unpromoted(xp.searchsorted)
    _array_object.Array.__getitem__ = _clear(_array_object.Array.__getitem__)  # type: ignore[method-assign]
    _array_object.Array.__setitem__ = _writing  # type: ignore[method-assign]
    for module in (_array_object, _data_type_functions, _elementwise_functions, _searching_functions, _set_functions):
        if hasattr(module, "_result_type"):
            module._result_type = _alike  # type: ignore[attr-defined]
    return xp


def _with_halves(xp: Any) -> None:
    """Gives array-api-strict float16, which the standard knows as a dtype that a module may have."""
    half = _dtypes.DType("float16")
    kinds = [one for one in vars(_dtypes).values() if isinstance(one, tuple) and _dtypes.float32 in one]
    for known in kinds:
        for holder in gc.get_referrers(known):  # modules, the table of kinds, and what functions were made with
            if isinstance(holder, CellType):
                holder.cell_contents = (half, *known)
            elif isinstance(holder, dict):
                for name in [*holder]:
                    if holder[name] is known:
                        holder[name] = (half, *known)
    xp.float16 = half


def _alike(one: Any, other: Any) -> Any:
    if one != other:
        raise TypeError(f"{one} and {other} are not promoted to one dtype")
    return one


def _unpromoted(function: Any) -> Any:
    @functools.wraps(function)
    def called(x1: Any, x2: Any, /, **options: Any) -> Any:
        _alike(x1.dtype, x2.dtype)
        return function(x1, x2, **options)

    return called


def _clear(getting: Any) -> Any:
    def called(self: Any, key: Any) -> Any:
        if isinstance(key, tuple):
            sized = [*with_sizes(key, self.shape)]
            ends = [(end, n) for i, n in sized if i.__class__ is slice for end in (i.start, i.stop)]
            if any(not -n <= (end or 0) <= n for end, n in ends):
                raise IndexError(f"{key} reaches out of {self.shape}")
            if all(i.__class__ is int for i in key) and key:
                key = (*key, ...)  # NumPy gives a view then
        return getting(self, key)

    return called


def _writing(self: Any, key: Any, value: Any) -> None:
    raise TypeError("the arrays of this module are not written to")


def _inside(taking: Any) -> Any:
    @functools.wraps(taking)
    def called(x: Any, indices: Any, /, *, axis: int | None = None) -> Any:
        places, size = indices._array, x.shape[axis or 0]
        if not size:
            raise ValueError("nothing is taken from an axis without elements")
        if places.size and not 0 <= places.min() <= places.max() < size:
            raise ValueError(f"{places.min()} to {places.max()} are not all places of {size}")
        return taking(x, indices, **({} if axis is None else {"axis": axis}))

    return called


def _sized(shaping: Any) -> Any:
    def reshape(x: Any, /, shape: Any, **options: Any) -> Any:
        if min(shape, default=0) < -1:
            raise ValueError(f"no size is {min(shape)}")
        return shaping(x, shape, **options)

    return reshape


def _with_dims(function: Any) -> Any:
    def called(x: Any, /, *args: Any, axis: Any = None, **options: Any) -> Any:
        if axis not in (None, ()) and not x.ndim:
            raise ValueError(f"an array of 0 dims has no axis {axis}")
        return function(x, *args, axis=axis, **options)

    return called


def _of_fractions(function: Any) -> Any:
    def called(x: Any, /) -> Any:
        if array_api_strict.isdtype(x.dtype, "integral"):
            raise TypeError(f"{function.__name__} takes no {x.dtype}")
        return function(x)

    return called


def _of_singles(function: Any) -> Any:
    @functools.wraps(function)
    def called(*arrays: Any, **options: Any) -> Any:
        if any(x.dtype == array_api_strict.float16 for x in arrays if hasattr(x, "dtype")):
            raise TypeError(f"{function.__name__} adds up no float16")
        return function(*arrays, **options)

    return called


def _worse_in_halves(function: Any) -> Any:
    @functools.wraps(function)
    def called(*arrays: Any) -> Any:
        y = function(*arrays)
        if y.dtype == array_api_strict.float16:
            for _ in range(3):
                y = array_api_strict.nextafter(y, y * 2)
        return y

    return called


def _of_elements(function: Any) -> Any:
    @functools.wraps(function)
    def called(x: Any, *rest: Any, **options: Any) -> Any:
        if 0 in x.shape:
            raise ValueError(f"{function.__name__} takes no matrices of shape {x.shape}")
        return function(x, *rest, **options)

    return called


def _of_arrays(choosing: Any) -> Any:
    def where(condition: Any, x1: Any, x2: Any, /) -> Any:
        x1, x2 = (array_api_strict.asarray(x) if isinstance(x, (float, int)) else x for x in (x1, x2))
        return choosing(condition, x1, x2)

    return where


def _skipping(function: Any, last: float) -> Any:
    def called(x: Any, /, **options: Any) -> Any:
        if array_api_strict.isdtype(x.dtype, "real floating"):
            last_of_all = array_api_strict.asarray(last, dtype=x.dtype)
            x = array_api_strict.where(array_api_strict.isnan(x), last_of_all, x)
        return function(x, **options)

    return called


def _wrapping(function: Any) -> Any:
    def called(x: Any, count: Any, /) -> Any:
        most = array_api_strict.asarray(array_api_strict.iinfo(x.dtype).bits - 1, dtype=count.dtype)
        return function(x, array_api_strict.bitwise_and(count, most))

    return called


def far(xp: Any) -> Any:
    """Returns a module whose arrays are not NumPy's to read, as those of CuPy: it has a function that brings them."""

    def refused(self: Any, *_: Any, **__: Any) -> Any:
        raise TypeError("NumPy does not take the arrays of this module: asnumpy brings them")

    def asnumpy(x: Any) -> Any:
        return numpy.array(x._array)

    _array_object.Array.__array__ = refused  # type: ignore[method-assign]
    _array_object.Array.__buffer__ = refused  # type: ignore[method-assign]
    xp.asnumpy = asnumpy
    return xp


def with_sizes(key: tuple[Any, ...], shape: tuple[int, ...]) -> Iterator[tuple[Any, int]]:
    """Yields each item of an index with the size of the dim that it is for; 0 where it is for none."""
    count, sizes = sum(item is not None and item is not ... for item in key), iter(shape)
    for item in key:
        if item is ...:
            for _ in range(len(shape) - count):
                next(sizes)
        yield item, 0 if item is None or item is ... else next(sizes, 0)


def unraising(xp: Any) -> Any:
    """Returns a module with the functions of array-api-strict, and a ``linalg`` that gives NaN instead of raising.

    Of a matrix that has no inverse or no factor JAX says so by NaN, and by nothing else; and its Cholesky factor is
    that of both triangles, of which each is half. It has no version of its own.
    """
    made, linalg = ModuleType("narrow"), ModuleType("narrow.linalg")
    for target, source in ((made, xp), (linalg, xp.linalg)):
        vars(target).update({name: value for name, value in vars(source).items() if not name.startswith("__")})
    made.__array_namespace_info__ = xp.__array_namespace_info__  # type: ignore[attr-defined]

    def one_by_one(function: Any) -> Any:
        def called(a: Any, *rest: Any, **options: Any) -> Any:
            try:
                return function(a, *rest, **options)
            except numpy.linalg.LinAlgError:
                if a.ndim == 2:
                    return xp.full((rest[0] if rest else a).shape, xp.nan, dtype=a.dtype)
                items = [[array[i, ...] for array in (a, *rest)] for i in range(a.shape[0])]
                return xp.stack([called(*item, **options) for item in items])

        return called

    def cholesky(a: Any, /, *, upper: bool = False) -> Any:
        turned = xp.matrix_transpose(a)
        return xp.linalg.cholesky((a + (xp.conj(turned) if "complex" in str(a.dtype) else turned)) / 2, upper=upper)

    for name, function in (("inv", xp.linalg.inv), ("solve", xp.linalg.solve), ("cholesky", cholesky)):
        setattr(linalg, name, one_by_one(function))
    made.linalg = linalg  # type: ignore[attr-defined]
    return made
