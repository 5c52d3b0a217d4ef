"""What the families of kernels share: the kind of a dtype, casting, and silence.

A kernel must not look anything up that could be known when it is bound, yet array modules differ in small spellings
(``x.astype`` or ``xp.astype``, ``axes`` of a transposition, whether a dtype has a name). :class:`Support` settles those
once per module. :func:`quietly` is why NumPy's RuntimeWarnings (``log(0)``, ``inf - inf``) do not reach the user.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from types import FunctionType
from typing import Any

from tensorplay_core.errors import DimError

Kernel = Callable[..., Any]
Kernels = dict[str, Kernel]

_KINDS = {
    "bool": "bool",
    **{f"int{bits}": "int" for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": "uint" for bits in (8, 16, 32, 64)},
    "float16": "half",
    "bfloat16": "half",
    "float32": "float",
    "float64": "float",
    "complex64": "complex",
    "complex128": "complex",
}


def dtype_name(dtype: Any) -> str:
    """Returns TensorPlay's name of a native dtype.

    Example:
        >>> import numpy
        >>> dtype_name(numpy.dtype("float32"))
        'float32'
    """
    name = getattr(dtype, "name", None)
    return name if isinstance(name, str) else str(dtype).rsplit(".", 1)[-1]


class _KindOf(dict[Any, str]):
    """native dtype -> bool | int | uint | half | float | complex, each asked for once."""

    def __missing__(self, dtype: Any) -> str:
        self[dtype] = kind = _KINDS.get(dtype_name(dtype), "other")
        return kind


class Support:
    """The spellings of one array module.

    Attributes:
        xp: the module.
        kind: mapping from a native dtype to its kind: bool, int, uint, half, float, complex.
        cast: ``cast(array, dtype)``, a new array; complex to real drops the imaginary part.
        sum: ``sum(array, axis, keepdims, dtype=None)``.
        copy: ``copy(array)``, with memory of its own.
        permute: ``permute(array, dims)``, a view.
        single, double, int64, boolean: native dtypes.
    """

    def __init__(self, xp: Any) -> None:
        self.xp = xp
        self.kind = kind = _KindOf()
        self.single = self.native("float32")
        self.double = self.native("float64")
        self.int64 = self.native("int64")
        self.boolean = self.native("bool")
        self.permute: Kernel = getattr(xp, "permute_dims", None) or xp.transpose
        by_method = hasattr(xp, "ndarray")  # no Python function of the module between a kernel and a warning
        self.copy: Kernel = operator.methodcaller("copy") if by_method else functools.partial(xp.asarray, copy=True)
        add_up = getattr(xp.add, "reduce", None) or xp.sum

        def cast(array: Any, dtype: Any) -> Any:
            if kind[array.dtype] == "complex" and kind[dtype] not in ("complex", "bool"):
                array = xp.real(array)
            return array.astype(dtype) if by_method else xp.astype(array, dtype)

        def total(array: Any, axis: Any, keepdims: bool, dtype: Any = None) -> Any:
            return add_up(array, axis=axis, dtype=dtype, keepdims=keepdims)

        self.cast: Kernel = silent(cast)
        self.sum: Kernel = silent(total)

    def native(self, name: str) -> Any:
        """Returns the module's dtype of that name; a missing one is an AttributeError that names it."""
        found = getattr(self.xp, name, None) or getattr(self.xp, f"{name}_", None)
        if found is None:
            raise AttributeError(f"the array module {self.xp.__name__!r} has no dtype {name!r}")
        dtype = getattr(self.xp, "dtype", None)  # NumPy's scalar type float32 is not yet its dtype
        return dtype(found) if isinstance(dtype, type) else found


def dims_of(dim: int | tuple[int, ...] | list[int] | None) -> int | tuple[int, ...] | None:
    """Returns ``dim`` as an axis argument: None and an empty tuple or list mean all dims.

    Example:
        >>> dims_of([0, -1]), dims_of(()), dims_of(2)
        ((0, -1), None, 2)
    """
    return (tuple(dim) or None) if isinstance(dim, (tuple, list)) else dim


class _Leading(dict[int, list[tuple[slice, ...]]]):
    """ndim -> for each dim the full slices before it; indexing the list takes negative dims and refuses wrong ones."""

    def __missing__(self, ndim: int) -> list[tuple[slice, ...]]:
        self[ndim] = keys = [(slice(None),) * dim for dim in range(ndim)]
        return keys


leading = _Leading()


def check_0d(name: str, dim: int | tuple[int, ...] | list[int] | None) -> None:
    """Lets a 0-d array have the dims 0 and -1, as in PyTorch, and no other.

    Raises:
        DimError: any other dim.
    """
    dims = () if dim is None else (dim,) if isinstance(dim, int) else dim
    for one in dims:
        if one not in (0, -1):
            raise DimError(f"{name}: dim {one} is out of range for a tensor of 0 dims; 0 and -1 are allowed")


def quietly(factory: Callable[..., Kernels]) -> Callable[..., Kernels]:
    """Makes every kernel that ``factory`` defines silent about floating-point warnings.

    NumPy reports ``log(0)`` through the C form of ``warnings.warn``, which drops a warning without asking any filter
    when the calling module's ``__name__`` is None. The factory therefore runs with a copy of its module's globals
    that has no name, and the functions it defines inherit that. Against the other ways: ``numpy.errstate`` costs more
    than a small operation; ``numpy.seterr`` holds for one thread and changes the user's own NumPy code; a filter is
    undone by ``warnings.catch_warnings`` and outvoted by ``-W error``.

    Helpers must be defined inside the factory, or they keep their module's name and warn.
    """

    @functools.wraps(factory)
    def run(*args: Any, **kwargs: Any) -> Kernels:
        quiet = silent(factory)
        made: Kernels = quiet(*args, **kwargs)
        for kernel in made.values():
            if isinstance(kernel, FunctionType) and kernel.__globals__ is quiet.__globals__:
                kernel.__module__ = factory.__module__  # provenance reads it
        return made

    return run


def silent(function: Any) -> Any:
    """Returns the function with a copy of its module's globals that has no name; see :func:`quietly`."""
    nameless = {**function.__globals__, "__name__": None}
    result = FunctionType(function.__code__, nameless, function.__name__, function.__defaults__, function.__closure__)
    result.__kwdefaults__ = function.__kwdefaults__
    result.__module__ = function.__module__
    return result
