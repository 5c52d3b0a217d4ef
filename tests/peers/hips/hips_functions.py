"""NumPy's functions over boxed tensors: which of our operators each of them is.

A function with an operator of the same name and the same arguments needs no entry. One with neither skips the test
that calls it, and says its name.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy
import pytest

import tensorplay as tp

# ------------------------------------------------------------------------------------------------------------- boxes


def missing(name: str) -> Any:
    """Skips the test that needs a function with no operator behind it."""
    pytest.skip(f"no operator: {name}")


class Box:
    """A traced value: NumPy's interface over a tensor."""

    __slots__ = ("t",)

    def __init__(self, t: tp.Tensor) -> None:
        self.t = t

    shape = property(lambda self: self.t.shape)
    ndim = property(lambda self: self.t.ndim)
    size = property(lambda self: self.t.numel())
    dtype = property(lambda self: numpy.dtype(self.t.dtype.name))
    T = property(lambda self: call("transpose", self))

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return call(ufunc.__name__, *inputs, **kwargs) if method == "__call__" else NotImplemented

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return call(function.__name__, *args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *args, **kwargs: call(name, self, *args, **kwargs)

    def __getitem__(self, index: Any) -> Box:
        return Box(self.t[unboxed(index)])

    def __len__(self) -> int:
        return len(self.t)

    def __iter__(self) -> Iterator[Box]:
        return (self[i] for i in range(len(self)))

    def __bool__(self) -> bool:
        return bool(self.t)

    def __int__(self) -> int:
        return int(self.t.item())

    __hash__ = object.__hash__


def _operators() -> None:
    binary = ["add", "sub", "mul", "pow", "mod", "truediv", "matmul"]
    names = ["add", "subtract", "multiply", "power", "mod", "divide", "matmul"]
    for operator, name in zip(binary, names, strict=True):
        setattr(Box, f"__{operator}__", lambda a, b, name=name: call(name, a, b))
        setattr(Box, f"__r{operator}__", lambda a, b, name=name: call(name, b, a))
    for operator, name in [("lt", "less"), ("le", "less_equal"), ("gt", "greater"), ("ge", "greater_equal")]:
        setattr(Box, f"__{operator}__", lambda a, b, name=name: call(name, a, b))
    for operator, name in [("eq", "equal"), ("ne", "not_equal")]:
        setattr(Box, f"__{operator}__", lambda a, b, name=name: call(name, a, b))
    for operator, name in [("neg", "negative"), ("abs", "absolute")]:
        setattr(Box, f"__{operator}__", lambda a, name=name: call(name, a))


_operators()


def has_box(value: Any) -> bool:
    """Whether a value is traced, or a container of one that is."""
    if isinstance(value, dict):
        return any(map(has_box, value.values()))
    return isinstance(value, Box) or (isinstance(value, (list, tuple)) and any(map(has_box, value)))


def unboxed(value: Any) -> Any:
    """Returns tensors for boxes and arrays, also inside lists and tuples; anything else as it is."""
    if isinstance(value, Box):
        return value.t
    if isinstance(value, (numpy.ndarray, numpy.generic)):
        return tp.tensor(numpy.array(value))
    return type(value)(map(unboxed, value)) if type(value) in (list, tuple) else value


def tensor(value: Any) -> tp.Tensor:
    """Returns one tensor: of a box, an array, a number, or a nested list of them."""
    value = unboxed(value)
    if isinstance(value, tp.Tensor):
        return value
    if isinstance(value, (list, tuple)) and len(value):
        return tp.stack([tensor(v) for v in value])
    return tp.tensor(numpy.array(value))  # a number is what NumPy takes it for: float64, complex128


def boxed(value: Any) -> Any:
    """Returns boxes for tensors, also inside lists and tuples."""
    if isinstance(value, (list, tuple)):
        return type(value)(map(boxed, value))
    return Box(value) if isinstance(value, tp.Tensor) else value


def call(name: str, *args: Any, **kwargs: Any) -> Any:
    """Calls what serves a NumPy function of boxes: an entry below, else the operator of that name."""
    name = ALIASES.get(name, name)
    function = FUNCTIONS.get(name) or operator(name)
    if function is None:
        return missing(name)
    return boxed(function(*map(unboxed, args), **{key: unboxed(value) for key, value in kwargs.items()}))


def operator(name: str) -> Callable[..., Any] | None:
    """Returns our operator of a name, dotted for a namespace."""
    found: Any = tp
    for part in name.split("."):
        found = getattr(found, part, None)
    return found


ALIASES = {
    "subtract": "sub",
    "multiply": "mul",
    "divide": "div",
    "true_divide": "div",
    "power": "pow",
    "negative": "neg",
    "absolute": "abs",
    "fabs": "abs",
    "sign": "sgn",
    "expand_dims": "unsqueeze",
    "conjugate": "conj",
    "less": "lt",
    "less_equal": "le",
    "greater": "gt",
    "greater_equal": "ge",
    "equal": "eq",
    "not_equal": "ne",
    "moveaxis": "movedim",
    "amax": "max",
    "amin": "min",
    "mod": "remainder",
    "arcsin": "asin",
    "arccos": "acos",
    "arctan": "atan",
    "arcsinh": "asinh",
    "arccosh": "acosh",
    "arctanh": "atanh",
    "arctan2": "atan2",
    "rad2deg": "degrees",
    "deg2rad": "radians",
}

# --------------------------------------------------------------- functions that NumPy calls otherwise than we do


def _axis(axis: Any) -> Any:
    return axis if axis is None or isinstance(axis, int) else tuple(axis)


def _transpose(a: tp.Tensor, axes: Any = None) -> tp.Tensor:
    return a.permute(tuple(axes) if axes is not None else tuple(reversed(range(a.ndim))))


def _join(arrays: Any, dim: int) -> tp.Tensor:
    return tp.cat([tensor(a) for a in arrays], dim)


def _at_least(a: Any, ndim: int) -> tp.Tensor:
    a = tensor(a)
    return a.reshape((1,) * (ndim - a.ndim) + a.shape)


def _dot(a: Any, b: Any) -> tp.Tensor:
    a, b = tensor(a), tensor(b)
    if a.ndim == 0 or b.ndim == 0:
        return a * b
    return _tensordot(a, b, ((a.ndim - 1,), (max(b.ndim - 2, 0),)))


def _tensordot(a: Any, b: Any, axes: Any = 2) -> tp.Tensor:
    a, b = tensor(a), tensor(b)
    if isinstance(axes, int):
        axes = (range(a.ndim - axes, a.ndim), range(axes))
    left, right = ([ax] if isinstance(ax, int) else list(ax) for ax in axes)
    left, right = [ax % a.ndim for ax in left], [ax % b.ndim for ax in right]
    keep_a = [i for i in range(a.ndim) if i not in left]
    keep_b = [i for i in range(b.ndim) if i not in right]
    shape = [a.shape[i] for i in keep_a] + [b.shape[i] for i in keep_b]
    inner = math.prod(a.shape[i] for i in left)
    rows = a.permute((*keep_a, *left)).reshape((-1, inner))
    return (rows @ b.permute((*right, *keep_b)).reshape((inner, -1))).reshape(shape)


def _inner(a: Any, b: Any) -> tp.Tensor:
    a, b = tensor(a), tensor(b)
    return a * b if a.ndim == 0 or b.ndim == 0 else _tensordot(a, b, ((a.ndim - 1,), (b.ndim - 1,)))


def _outer(a: Any, b: Any) -> tp.Tensor:
    return tensor(a).reshape((-1, 1)) * tensor(b).reshape((1, -1))


def _extreme(name: str) -> Callable[..., Any]:
    def extreme(a: tp.Tensor, axis: Any = None, keepdims: bool = False) -> Any:
        function = operator(f"a{name}")
        return function(a, _axis(axis) if axis is not None else (), keepdims) if function else missing(name)

    return extreme


def _stacked(ndim: int, dim: int) -> Callable[..., tp.Tensor]:
    def stacked(arrays: Any) -> tp.Tensor:
        many = [_at_least(a, ndim) for a in arrays]
        return tp.cat(many, 0 if many[0].ndim == 1 else dim)

    return stacked


def _column_stack(arrays: Any) -> tp.Tensor:
    return tp.cat([a.reshape((-1, 1)) if a.ndim < 2 else a for a in map(tensor, arrays)], 1)


def _append(a: Any, values: Any, axis: int | None = None) -> tp.Tensor:
    parts = [tensor(a), tensor(values)]
    return tp.cat([p.reshape((-1,)) for p in parts] if axis is None else parts, axis or 0)


def _splitting(name: str, axis: int = 0) -> Callable[..., list[tp.Tensor]]:
    def split(a: tp.Tensor, sections: Any, axis: int = axis) -> list[tp.Tensor]:
        lengths = [len(part) for part in getattr(numpy, name)(numpy.arange(a.shape[axis]), sections)]
        return [a.narrow(axis, end - n, n) for n, end in zip(lengths, itertools.accumulate(lengths), strict=True)]

    return split


def _array(value: Any, *args: Any, **kwargs: Any) -> tp.Tensor:
    return tensor(value)


def _where(condition: Any, x: Any = None, y: Any = None) -> Any:
    return tp.where(tensor(condition), tensor(x), tensor(y)) if x is not None else missing("where of one argument")


def _binary(name: str) -> Callable[..., Any]:
    """Returns an operator of which NumPy takes numbers on either side, and knows them as float64."""

    def binary(a: Any, b: Any) -> Any:
        function = operator(name)
        return function(tensor(a), tensor(b)) if function else missing(name)

    return binary


FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{
        name: _binary(name)
        for name in [
            "add",
            "sub",
            "mul",
            "div",
            "pow",
            "remainder",
            "maximum",
            "minimum",
            "lt",
            "le",
            "gt",
            "ge",
            "eq",
            "ne",
        ]
    },
    **{name: _binary(name) for name in ["atan2", "logaddexp", "logaddexp2", "hypot", "fmin", "fmax"]},
    "matmul": _binary("matmul"),
    "transpose": _transpose,
    "swapaxes": lambda a, axis1, axis2: a.transpose(axis1, axis2),
    "dot": _dot,
    "inner": _inner,
    "outer": _outer,
    "tensordot": _tensordot,
    "concatenate": lambda arrays, axis=0: _join(arrays, axis),
    "stack": lambda arrays, axis=0: tp.stack([tensor(a) for a in arrays], axis),
    "vstack": _stacked(2, 0),
    "row_stack": _stacked(2, 0),
    "hstack": _stacked(1, 1),
    "column_stack": _column_stack,
    "append": _append,
    "ravel": lambda a, order="C": a.reshape((-1,)) if order == "C" else missing("ravel(order=)"),
    "flatten": lambda a: a.reshape((-1,)),
    "reshape": lambda a, shape, *more, order="C": (
        a.reshape((shape, *more) if more else shape) if order == "C" else missing("reshape(order=)")
    ),
    "atleast_1d": lambda a: _at_least(a, 1),
    "atleast_2d": lambda a: _at_least(a, 2),
    "max": _extreme("max"),
    "min": _extreme("min"),
    "split": _splitting("split"),
    "array_split": _splitting("array_split"),
    "vsplit": _splitting("split"),
    "hsplit": _splitting("split", 1),
    "dsplit": _splitting("split", 2),
    "sum": lambda a, axis=None, keepdims=False: tensor(a).sum(_axis(axis), keepdims),
    "mean": lambda a, axis=None, keepdims=False: tensor(a).mean(_axis(axis), keepdims),
    "diagonal": lambda a, offset=0, axis1=0, axis2=1: a.diagonal(offset, axis1, axis2),
    "select": lambda *args, **kwargs: missing("select of several conditions"),
    "array": _array,
    "asarray": _array,
    "where": _where,
    "squeeze": lambda a, axis=None: a.squeeze() if axis is None else a.squeeze(_axis(axis)),
    "ndim": lambda a: a.ndim,
    "shape": lambda a: a.shape,
    "flipud": lambda a: tp.flip(a, (0,)),
    "fliplr": lambda a: tp.flip(a, (1,)),
    "imag": lambda a: tp.imag(a) if operator("imag") else missing("imag"),
    "iscomplexobj": lambda a: a.is_complex(),
    "isrealobj": lambda a: not a.is_complex(),
    "astype": lambda a, dtype: a.to(getattr(tp, numpy.dtype(dtype).name)),
}
