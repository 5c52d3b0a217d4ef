"""Random numbers in every distribution, drawn on the host and brought to a device that says how.

Each kernel draws with NumPy from the generator of the call, scales on the host, and hands the numbers over once. So one
seed gives the same numbers on every device, to the last bit, and a device needs no random numbers of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from tensorplay_composite.arrays._support import Kernels, NameOf, Support
from tensorplay_composite.arrays.random import HostRandom
from tensorplay_core.errors import DTypeError, ValueRangeError, fix
from tensorplay_core.ops.shapes_random import random_interval
from tensorplay_core.types.dtype import by_name

_BITS = {"float16": 11, "bfloat16": 8}


class Place(NamedTuple):
    """How numbers get to a device and back.

    Attributes:
        upload: ``upload(host, dtype)`` gives a device's array with a NumPy array's numbers, in a native dtype.
        write: ``write(array, host)`` writes a NumPy array's numbers into an array, and returns what kernels return.
        host: ``host(array)`` gives a NumPy array of an array's elements.
        name: ``name(dtype)`` is the name of a native dtype.
        integer: the native dtype of indices.
    """

    upload: Callable[[Any, Any], Any]
    write: Callable[[Any, Any], Any]
    host: Callable[[Any], Any]
    name: Callable[[Any], str]
    integer: Any


def place_of(xp: Any, support: Support) -> Place:
    """Returns how numbers get to the arrays of a module."""
    cast, asarray, fetch = support.cast, xp.asarray, getattr(xp, "asnumpy", None)
    name_of = NameOf().__getitem__  # of one module: to look a dtype up among those of others warns in array-api-strict

    def upload(host: Any, dtype: Any) -> Any:
        return asarray(host) if host.dtype is dtype or name_of(dtype) == host.dtype.name else cast(asarray(host), dtype)

    def write(array: Any, host: Any) -> Any:
        if not support.mutable:
            return upload(host, array.dtype)
        array[...] = upload(host, array.dtype)
        return array

    def host_of(array: Any) -> Any:
        import numpy

        return fetch(array) if fetch is not None else numpy.asarray(array)

    return Place(upload, write, host_of, name_of, support.int64)


def kernels(place: Place, source: HostRandom) -> Kernels:
    """Returns the kernels of random numbers of a device, which draws from ``source`` where no generator is given."""
    return {**created(place, source), **from_tensors(place, source), **filled(place, source)}


def _index(array: Any) -> int:
    """The number of the device that an array is on: CuPy's arrays know it, and others have one."""
    return getattr(getattr(array, "device", None), "id", 0) or 0


def _wide(name: str) -> str:
    return "float64" if name == "float64" else "float32"


def created(place: Place, source: HostRandom) -> Kernels:
    """Kernels that make a tensor of a size."""
    upload, name_of = place.upload, place.name

    def draw(op: str, numbers: str, size: Any, generator: Any, dtype: Any, device: Any) -> Any:
        name = name_of(dtype)
        if not by_name(name).is_inexact:
            raise DTypeError(f"{op}: draws floating or complex numbers, and dtype is {name}")
        return upload(getattr(generator or source, numbers)(size, name, device or 0), dtype)

    def rand(size: Any, *, generator: Any = None, dtype: Any = None, device: Any = None) -> Any:
        return draw("rand", "uniform", size, generator, dtype, device)

    def randn(size: Any, *, generator: Any = None, dtype: Any = None, device: Any = None) -> Any:
        return draw("randn", "normal", size, generator, dtype, device)

    def randperm(n: int, *, generator: Any = None, dtype: Any = None, device: Any = None) -> Any:
        if n < 0:
            raise ValueRangeError(f"randperm: n is 0 or more, got {n}")
        return upload((generator or source).permutation(n, device or 0), dtype)

    def randint(low: int, high: int, size: Any, *, generator: Any = None, dtype: Any = None, device: Any = None) -> Any:
        return upload((generator or source).integers(low, high, tuple(size), device or 0), dtype)

    def normal(
        mean: float, std: float, size: Any, *, generator: Any = None, dtype: Any = None, device: Any = None
    ) -> Any:
        drawn = (generator or source).normal(tuple(size), name_of(dtype), device or 0)
        return upload(scaled(drawn, std, mean), dtype)

    return {"rand": rand, "randn": randn, "randperm": randperm, "randint": randint, "normal.float_float": normal}


def scaled(drawn: Any, factor: Any, offset: Any) -> Any:
    """Returns numbers multiplied and moved; numbers keep the dtype, and are not changed where they need not be."""
    if isinstance(factor, float) and isinstance(offset, float):
        if factor != 1:
            drawn *= factor
        if offset != 0:
            drawn += offset
        return drawn
    return drawn * factor + offset


def from_tensors(place: Place, source: HostRandom) -> Kernels:
    """Kernels that draw by what tensors say."""
    upload, host, name_of = place.upload, place.host, place.name

    def normal(mean: Any, std: Any, generator: Any) -> Any:
        import numpy

        array = std if isinstance(mean, float) else mean
        name = name_of(array.dtype)
        wide = _wide(name)
        means, stds = [one if isinstance(one, float) else host(one).astype(wide) for one in (mean, std)]
        if not numpy.all(numpy.greater_equal(stds, 0)):
            raise ValueRangeError("normal: std must not be negative or NaN, and an element is" + fix("take std.abs()"))
        size = numpy.broadcast_shapes(numpy.shape(means), numpy.shape(stds))
        drawn = (generator or source).normal(size, wide, _index(array))
        return upload(numpy.asarray(scaled(drawn, stds, means), dtype=wide), array.dtype)

    def by_mean(mean: Any, std: float = 1.0, *, generator: Any = None) -> Any:
        return normal(mean, std, generator)

    def by_both(mean: Any, std: Any, *, generator: Any = None) -> Any:
        return normal(mean, std, generator)

    def bernoulli(self: Any, *, generator: Any = None) -> Any:
        chances = checked(host(self).astype(_wide(name_of(self.dtype))), "bernoulli")
        return of_chances(self, chances, generator)

    def of_chances(self: Any, p: Any, generator: Any) -> Any:
        wide = _wide(name_of(self.dtype))
        return upload((generator or source).hits(p, tuple(self.shape), wide, _index(self)), self.dtype)

    def bernoulli_p(self: Any, p: float, *, generator: Any = None) -> Any:
        return of_chances(self, p, generator)

    def multinomial(self: Any, num_samples: int, replacement: bool = False, *, generator: Any = None) -> Any:
        import numpy

        chances = host(self).astype("float64")
        rows = chances.reshape((-1, chances.shape[-1]))
        if not replacement or not fit(rows):
            check_rows(rows, num_samples, replacement)
        drawn = (generator or source).picks(rows, num_samples, replacement, _index(self))
        return upload(numpy.asarray(drawn.reshape((*chances.shape[:-1], num_samples)), dtype="int64"), place.integer)

    return {
        "normal.Tensor_float": by_mean,
        **dict.fromkeys(("normal.float_Tensor", "normal.Tensor_Tensor"), by_both),
        "bernoulli": bernoulli,
        "bernoulli.p": bernoulli_p,
        "multinomial": multinomial,
    }


def checked(chances: Any, op: str) -> Any:
    """Returns probabilities.

    Raises:
        ValueRangeError: one is below 0, above 1 or NaN.
    """
    if chances.size and not (chances.min() >= 0 and chances.max() <= 1):
        raise ValueRangeError(f"{op}: expected probabilities from 0 to 1, and an element is below, above or NaN")
    return chances


def fit(rows: Any) -> bool:
    """Whether rows are proportional to probabilities, in two passes over them."""
    import numpy

    if not rows.size or not numpy.minimum.reduce(rows, None) >= 0:
        return False
    sums = numpy.add.reduce(rows, 1)
    return bool(numpy.isfinite(sums).all() and sums.all())


def check_rows(rows: Any, count: int, replacement: bool) -> None:
    """Refuses rows of numbers that are proportional to no probabilities.

    Raises:
        ValueRangeError: naming the first such row.
    """
    import numpy

    sums = rows.sum(axis=1)
    for row in numpy.flatnonzero(~((rows >= 0).all(axis=1) & numpy.isfinite(sums) & (sums > 0)))[:1]:
        what = "contains infinity, NaN or an element < 0, or adds up to 0"
        raise ValueRangeError(f"multinomial: the probability tensor {what}, in row {int(row)}")
    possible = (rows > 0).sum(axis=1)
    if not replacement and rows.size and possible.min() < count:
        row = int(possible.argmin())
        raise ValueRangeError(
            f"multinomial: cannot draw {count} times from row {row} without replacement: {int(possible[row])} of its "
            f"categories have a probability above 0" + fix("pass replacement=True, or draw fewer")
        )


def filled(place: Place, source: HostRandom) -> Kernels:
    """Kernels that fill a tensor."""
    write, host, name_of = place.write, place.host, place.name

    def uniform_(self: Any, from_: float = 0.0, to: float = 1.0, *, generator: Any = None) -> Any:
        import numpy

        name = name_of(self.dtype)
        drawn = (generator or source).uniform(tuple(self.shape), name, _index(self))
        if from_ == 0 and to == 1:
            return write(self, drawn)
        drawn = scaled(drawn, float(to - from_), float(from_))
        kind = drawn.dtype.type
        below = numpy.nextafter(kind(to), kind(from_))  # a sum that is rounded up is not below ``to`` any more
        if name in _BITS:
            below = kind(to - max(abs(to), abs(from_)) * 2.0 ** -_BITS[name])
        return write(self, numpy.asarray(numpy.minimum(drawn, max(below, kind(from_)))))

    def normal_(self: Any, mean: float = 0.0, std: float = 1.0, *, generator: Any = None) -> Any:
        drawn = (generator or source).normal(tuple(self.shape), name_of(self.dtype), _index(self))
        return write(self, scaled(drawn, float(std), float(mean)))

    def bernoulli_(self: Any, p: float = 0.5, *, generator: Any = None) -> Any:
        wide = _wide(name_of(self.dtype))
        return write(self, (generator or source).hits(p, tuple(self.shape), wide, _index(self)))

    def bernoulli_by(self: Any, p: Any, *, generator: Any = None) -> Any:
        wide = _wide(name_of(p.dtype))
        chances = checked(host(p).astype(wide), "bernoulli_")
        return write(self, (generator or source).hits(chances, tuple(self.shape), wide, _index(self)))

    def exponential_(self: Any, lambd: float = 1.0, *, generator: Any = None) -> Any:
        wide = _wide(name_of(self.dtype))
        drawn = (generator or source).exponential(tuple(self.shape), wide, _index(self))
        return write(self, scaled(drawn, 1 / float(lambd), 0.0))

    def geometric_(self: Any, p: float, *, generator: Any = None) -> Any:
        return write(self, (generator or source).generator(_index(self)).geometric(p, tuple(self.shape)))

    def random_(self: Any, *ends: Any, generator: Any = None) -> Any:
        low, high = random_interval(by_name(name_of(self.dtype)), *ends)
        return write(self, (generator or source).integers(low, high, tuple(self.shape), _index(self)))

    def random_from(self: Any, from_: int, to: int | None, *, generator: Any = None) -> Any:
        return random_(self, from_, to, generator=generator)

    def random_to(self: Any, to: int, *, generator: Any = None) -> Any:
        return random_(self, to, generator=generator)

    def random_any(self: Any, *, generator: Any = None) -> Any:
        return random_(self, generator=generator)

    return {
        "uniform_": uniform_,
        "normal_": normal_,
        "bernoulli_.Tensor": bernoulli_by,
        "bernoulli_.float": bernoulli_,
        "exponential_": exponential_,
        "geometric_": geometric_,
        "random_.from": random_from,
        "random_.to": random_to,
        "random_": random_any,
    }
