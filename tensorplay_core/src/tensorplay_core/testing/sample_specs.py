"""What a sample is made of: tensors described by plain lists, and the values that fill them.

A description knows no array library and no device, so one table of samples serves every backend;
:meth:`Sample.build` makes tensors of it through a module such as ``tensorplay``. Values are multiples of 1/8 that
bfloat16 holds exactly, so that two dtypes start from equal inputs.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tensorplay_core.types import dtype as dtypes
from tensorplay_core.types.dtype import DType, by_name

PYTHON: dict[str, type] = {"b": bool, "c": complex, "f": float}  # by kind of dtype; int for the others
_FILLER = 77  # what lies between the elements of a strided tensor; a kernel that ignores strides finds it


class TensorSpec(NamedTuple):
    """A tensor to be made.

    Attributes:
        shape: its shape.
        data: its elements as nested lists, or a number when it is 0-d.
        dtype: the name of its dtype.
        layout: ``"c"`` contiguous; ``"strided"`` every second element of dim 0; ``"expanded"`` stride 0 in dim 0.
    """

    shape: tuple[int, ...]
    data: Any
    dtype: str
    layout: str = "c"

    def build(self, tp: Any, device: str = "cpu") -> Any:
        """Makes the tensor through a module with ``tensor``, dtypes by name, and tensors that slice and expand."""

        def tensor(data: Any) -> Any:
            return tp.tensor(data, dtype=getattr(tp, self.dtype), device=device)

        if self.layout == "strided" and self.shape and 0 not in self.shape:
            # An even number of rows, so that the last one is followed by filler too.
            filler = _full(self.shape[1:], PYTHON.get(by_name(self.dtype).kind, int)(_FILLER))
            return tensor([row for item in self.data for row in (item, filler)])[::2]
        if self.layout == "expanded" and self.shape and 0 not in self.shape:
            return tensor(self.data[:1]).expand(self.shape)
        # Nested lists cannot say (0, 3): the shape is given apart.
        return tensor(_flatten(self.data)).reshape(self.shape) if 0 in self.shape else tensor(self.data)


class Named(NamedTuple):
    """An argument that is an object of the module: ``Named("dtype", "float32")`` or the device."""

    kind: str
    name: str

    def build(self, tp: Any, device: str = "cpu") -> Any:
        """Returns the dtype, or the device that the sample is built on."""
        return getattr(tp, self.name) if self.kind == "dtype" else device


class Sample(NamedTuple):
    """One call of an operator.

    Attributes:
        args: positional arguments, each tensor a :class:`TensorSpec`.
        kwargs: keyword arguments.
        name: what it is about, unique among the operator's samples.
        smooth: whether a numerical gradient means something here: no kinks, no ties, no NaN, no mixed dtypes.
    """

    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    name: str
    smooth: bool = True

    def build(self, tp: Any, device: str = "cpu") -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Returns ``(args, kwargs)`` with real tensors, new ones at each call.

        Args:
            tp: a module such as ``tensorplay``.
            device: where the tensors are made.
        """
        return (
            tuple(_build(value, tp, device) for value in self.args),
            {name: _build(value, tp, device) for name, value in self.kwargs.items()},
        )


def _build(value: Any, tp: Any, device: str) -> Any:
    if isinstance(value, (TensorSpec, Named)):
        return value.build(tp, device)
    if isinstance(value, list):
        return [_build(item, tp, device) for item in value]
    return value


def _full(shape: Sequence[int], value: Any) -> Any:
    return [_full(shape[1:], value) for _ in range(shape[0])] if shape else value


def _flatten(data: Any) -> list[Any]:
    return [x for item in data for x in _flatten(item)] if isinstance(data, list) else [data]


def nest(values: Sequence[Any], shape: Sequence[int]) -> Any:
    """Returns flat values as nested lists of that shape.

    Example:
        >>> nest([1, 2, 3, 4], (2, 2))
        [[1, 2], [3, 4]]
    """
    if not shape:
        return values[0]
    step = math.prod(shape[1:])
    return [nest(values[i * step : (i + 1) * step], shape[1:]) for i in range(shape[0])]


class Domain(NamedTuple):
    """Which values an argument may have, in both cases without 0 unless it is the least of them.

    Attributes:
        eighths: floating values are ``k / 8`` for k in this range, ends included.
        integers: integer values, ends included; an unsigned dtype takes those that are not negative.
        parity: 0 or 1 where floating values are only the even or only the odd eighths, so that two arguments never tie.
    """

    eighths: tuple[int, int] = (-32, 32)
    integers: tuple[int, int] = (-9, 9)
    parity: int | None = None


ANY = Domain()
EVEN, ODD = Domain((-64, 64), parity=0), Domain((-64, 64), parity=1)
POSITIVE = Domain((2, 40), (1, 10))
NEAR_ONE, COUNTED = Domain((-12, 12)), Domain((0, 40), (0, 9))
BASE, EXPONENT = Domain((2, 40), (0, 10)), Domain((-16, 16), (0, 3))


def values(rng: random.Random, count: int, dtype: DType, domain: Domain = ANY) -> list[Any]:
    """Returns ``count`` values of a dtype, different from each other as long as the domain has enough of them."""
    if dtype.is_bool:
        return [domain.integers[0] > 0 or bool(rng.getrandbits(1)) for _ in range(count)]
    if dtype.is_complex:
        real, imag = (values(rng, count, dtypes.float64, domain) for _ in range(2))
        return [complex(x, y) for x, y in zip(real, imag, strict=True)]
    low, high = domain.integers if dtype.is_integral else domain.eighths
    pool = [k for k in range(low, high + 1) if (k or not low) and (k > 0 or dtype.is_signed or k == low == 0)]
    if domain.parity is not None and not dtype.is_integral:
        pool = [k for k in pool if k % 2 == domain.parity]
    drawn = rng.sample(pool, count) if count <= len(pool) else rng.choices(pool, k=count)
    return drawn if dtype.is_integral else [k / 8 for k in drawn]
