"""What the families of kernels share: the kind of a dtype, casting, and silence.

A kernel must not look anything up that could be known when it is bound, yet array modules differ in small spellings
(``x.astype`` or ``xp.astype``, ``axes`` of a transposition, whether a dtype has a name). :class:`Support` settles those
once per module. :func:`quietly` is why NumPy's RuntimeWarnings (``log(0)``, ``inf - inf``) do not reach the user.
"""

from __future__ import annotations

import contextlib
import functools
import operator
import sys
import warnings
from collections.abc import Callable, Mapping
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


class NameOf(dict[Any, str]):
    """native dtype -> TensorPlay's name of it; NumPy spells a dtype's name anew each time, for a microsecond."""

    def __missing__(self, dtype: Any) -> str:
        self[dtype] = name = dtype_name(dtype)
        return name


name_of = NameOf().__getitem__


class _KindOf(dict[Any, str]):
    """native dtype -> bool | int | uint | half | float | complex, each asked for once."""

    def __missing__(self, dtype: Any) -> str:
        self[dtype] = kind = _KINDS.get(dtype_name(dtype), "other")
        return kind


class Support:
    """The spellings of one array module.

    Attributes:
        xp: the module.
        numpy_rules: it takes what NumPy takes (bool in arithmetic, any indices, slices out of range) and is fast at it;
            the kernels that ask for less are for all others.
        mutable: arrays can be written to, and a write to any view reaches the array, as with NumPy.
        kind: mapping from a native dtype to its kind: bool, int, uint, half, float, complex.
        cast: ``cast(array, dtype)``, a new array; complex to real drops the imaginary part.
        sum: ``sum(array, axis, keepdims, dtype=None)``.
        copy: ``copy(array)``, with memory of its own.
        permute: ``permute(array, dims)``, a view.
        single, boolean: native dtypes.
        double, int64: native dtypes, the widest of their kind where the module has not 64 bits.
    """

    def __init__(self, xp: Any, mutable: bool | None = None, dtypes: Mapping[str, Any] | None = None) -> None:
        """See the class; ``dtypes`` are the only ones to use, where they are given."""
        self.xp = xp
        self.numpy_rules = numpy_rules(xp)
        self.mutable = self.numpy_rules if mutable is None else mutable
        self.kind = kind = _KindOf()
        self._natives: dict[str, Any] = dict(dtypes or {})
        self._only = None if dtypes is None else frozenset(dtypes)
        self.single = self.native("float32")
        self.boolean = self.native("bool")
        self.double = self.widest("float64", "float32")
        self.int64 = self.widest("int64", "int32")
        self.permute: Kernel = getattr(xp, "permute_dims", None) or xp.transpose
        by_method = hasattr(xp, "ndarray")  # no Python function of the module between a kernel and a warning
        self.copy: Kernel = operator.methodcaller("copy") if by_method else functools.partial(xp.asarray, copy=True)
        add_up = xp.add.reduce if self.numpy_rules else xp.sum

        def cast(array: Any, dtype: Any) -> Any:
            if kind[array.dtype] == "complex" and kind[dtype] != "complex":
                if kind[dtype] == "bool":
                    return array != 0  # the standard has no such cast
                array = xp.real(array)
            return array.astype(dtype) if by_method else xp.astype(array, dtype)

        def total(array: Any, axis: Any, keepdims: bool, dtype: Any = None) -> Any:
            return add_up(array, axis=axis, dtype=dtype, keepdims=keepdims)

        self.cast: Kernel = self.hushed(silent(cast))
        self.sum: Kernel = silent(total)

    def native(self, name: str) -> Any:
        """Returns the module's dtype of that name.

        Raises:
            AttributeError: it has none, or gives another in its place, as JAX does for 64 bits; the message names it.
        """
        dtype = self._natives.get(name)
        if dtype is None:
            dtype = self._spelled(name)
            missing = dtype is None or (self._only is not None and name not in self._only)
            if missing or not (self.numpy_rules or self._keeps(dtype)):
                raise AttributeError(f"the array module {module_name(self.xp)!r} has no dtype {name!r}")
            self._natives[name] = dtype
        return dtype

    def widest(self, *names: str) -> Any:
        """Returns the first dtype of these that the module has."""
        for name in names[:-1]:
            with contextlib.suppress(AttributeError):
                return self.native(name)
        return self.native(names[-1])

    def _spelled(self, name: str) -> Any:
        found = getattr(self.xp, name, None) or getattr(self.xp, f"{name}_", None)
        dtype = getattr(self.xp, "dtype", None)  # NumPy's scalar type float32 is not yet its dtype
        return dtype(found) if found is not None and isinstance(dtype, type) else found

    def _keeps(self, dtype: Any) -> bool:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return bool(self.xp.zeros((), dtype=dtype).dtype == dtype)

    def hushed(self, function: Kernel, *, on_host: bool = False) -> Kernel:
        """Returns a function that is silent where the module is one of Python over NumPy, whose frames warn.

        :func:`quietly` cannot reach those. NumPy's own way costs a microsecond, little beside such a module's calls.
        Any module may use NumPy ``on_host``, where it makes arrays of Python's numbers.
        """
        if self.numpy_rules or not (on_host or self._warns):
            return function
        import numpy

        ignore = numpy.errstate

        @functools.wraps(function)
        def hushed(*args: Any, **kwargs: Any) -> Any:
            with ignore(all="ignore"):
                return function(*args, **kwargs)

        return hushed

    @functools.cached_property
    def _warns(self) -> bool:
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            self.xp.log(self.xp.zeros((), dtype=self.single))
        return any(issubclass(warning.category, RuntimeWarning) for warning in seen)

    def takes_bool(self, function: Any, instead: Any, count: int = 2) -> Kernel:
        """Returns a function that takes bool: the module's own, or with another in its place for that dtype.

        Args:
            function: the module's function, which decides for every other dtype.
            instead: what serves bool where the module refuses it, as the array API standard allows.
            count: how many arrays it takes.
        """
        boolean = self.boolean
        try:
            function(*[self.xp.zeros((), dtype=boolean)] * count)
        except Exception:
            pass
        else:
            return function

        def one(self: Any) -> Any:
            return instead(self) if self.dtype == boolean else function(self)

        def two(self: Any, other: Any) -> Any:
            return instead(self, other) if self.dtype == boolean else function(self, other)

        return one if count == 1 else two

    def replaced(self, array: Any, dim: int, part: slice, value: Any) -> Any:
        """Returns a copy of an array in which a slice of one dim is another array; writes to nothing."""
        xp, size = self.xp, array.shape[dim]
        start, stop, step = part.indices(size)
        count = len(range(start, stop, step))
        if not count:
            return self.copy(array)
        place = xp.arange(size, dtype=self.int64) - start
        inside = (place >= 0) & (place < count * step) & (place % step == 0)
        source = xp.clip(place // step, 0, count - 1)
        shape = tuple(size if d == dim else 1 for d in range(array.ndim))
        value = xp.broadcast_to(value, tuple(count if d == dim else n for d, n in enumerate(array.shape)))
        taken = xp.take(value, source, axis=dim)
        return xp.where(xp.reshape(inside, shape), taken, array)


def module_name(xp: Any) -> str:
    """Returns what to call an array module in messages; one that is made by a class has that name."""
    return getattr(xp, "__name__", None) or type(xp).__name__


def module_label(xp: Any) -> str:
    """Returns an array module's name with its version, or that of the package that it is part of.

    Example:
        >>> import numpy
        >>> module_label(numpy) == f"numpy {numpy.__version__}"
        True
    """
    name = module_name(xp)
    package = sys.modules.get(name.partition(".")[0])
    version = getattr(xp, "__version__", None) or getattr(package, "__version__", "")
    return f"{name} {version}".rstrip()


def numpy_rules(xp: Any) -> bool:
    """Whether a module is NumPy or its twin CuPy, rather than one with some of the same functions."""
    return hasattr(xp, "ndarray") and hasattr(xp, "may_share_memory") and hasattr(xp.add, "reduce")


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
        DimError: any other dim, or one of them twice.
    """
    dims = () if dim is None else (dim,) if isinstance(dim, int) else dim
    if len(dims) > 1:
        raise DimError(f"{name}: dims {tuple(dims)} are too many for a tensor of 0 dims; it may have one of 0 and -1")
    for one in dims:
        if one not in (0, -1):
            raise DimError(f"{name}: dim {one} is out of range for a tensor of 0 dims; 0 and -1 are allowed")


def out_of_range(name: str, dim: int, size: int, low: int, high: int) -> DimError:
    """Returns the error for an index array of which some index is out of range, naming the one that is furthest out."""
    worst = high if high - size >= -size - low else low
    valid = f"valid: {-size} to {size - 1}" if size else "that dim is empty"
    return DimError(f"{name}: index {worst} is out of bounds for dim {dim} of size {size} ({valid})")


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
