"""Random numbers that do not depend on the device.

Every device draws on the host from a Philox generator of its own, so one seed gives the same numbers everywhere: a
model trained on a GPU starts from the weights that the CPU would have given it. ``manual_seed`` of the device API seeds
it.
"""

from __future__ import annotations

import math
import struct
import threading
from typing import Any

from tensorplay_core.errors import ArgumentError, ValueRangeError, fix

# How many random bits fill the significand, so that a draw from [0, 1) cannot round up to 1.
_BITS = {"float16": 11, "bfloat16": 8}
_PARTS = {"complex64": "float32", "complex128": "float64"}
_STATE = struct.Struct("<8s4Q2Q4QBBI")
"""A generator's state as bytes: mark, counter, key, buffer, position in it, and the half of a number that is left."""
_MARK = b"philox-1"
_BUFFER = 4


class HostRandom:
    """One generator per device index, all from one seed.

    Args:
        seed: the first seed, any integer; None takes one from the operating system.

    Example:
        >>> HostRandom(0).uniform((2,), "float32", 0).tolist() == HostRandom(0).uniform((2,), "float32", 1).tolist()
        True
    """

    def __init__(self, seed: int | None = None) -> None:
        self._lock = threading.Lock()
        self._seed = seed
        self._generators: dict[int, Any] = {}

    def manual_seed(self, seed: int) -> None:
        """Starts every generator of this device anew."""
        with self._lock:
            self._seed = seed
            self._generators = {}

    def generator(self, index: int) -> Any:
        """Returns the generator of device ``index``, a ``numpy.random.Generator``."""
        found = self._generators.get(index)
        if found is None:
            import numpy

            with self._lock:
                seed = None if self._seed is None else self._seed % 2**64  # Philox takes those of 0 and above
                made = numpy.random.Generator(numpy.random.Philox(seed))
                found = self._generators.setdefault(index, made)
        return found

    def state(self, index: int) -> bytes:
        """Returns the state of the generator of device ``index``; it is the same on every machine.

        Example:
            >>> random = HostRandom(0)
            >>> state = random.state(0)
            >>> first = random.permutation(9, 0).tolist()
            >>> random.set_state(state, 0)
            >>> random.permutation(9, 0).tolist() == first
            True
        """
        state = self.generator(index).bit_generator.state
        inner = state["state"]
        numbers = [int(n) for part in (inner["counter"], inner["key"], state["buffer"]) for n in part]
        return _STATE.pack(_MARK, *numbers, state["buffer_pos"], state["has_uint32"], state["uinteger"])

    def set_state(self, state: bytes, index: int) -> None:
        """Restores a state that :meth:`state` returned.

        Raises:
            ArgumentError: it is not bytes; nothing is changed.
            ValueRangeError: they are no state; nothing is changed.
        """
        import numpy

        remedy = fix("pass what get_rng_state returned, unchanged.")
        if not isinstance(state, bytes):
            raise ArgumentError(f"set_rng_state: a state is bytes, not {type(state).__name__}{remedy}")
        if len(state) != _STATE.size or not state.startswith(_MARK):
            raise ValueRangeError(f"set_rng_state: these {len(state)} bytes are no state of a Philox generator{remedy}")
        _, *numbers, position, has_half, half = _STATE.unpack(state)
        if position > _BUFFER or has_half > 1:
            raise ValueRangeError(f"set_rng_state: the state is damaged{remedy}")
        words = numpy.array(numbers, dtype="uint64")
        self.generator(index).bit_generator.state = {
            "bit_generator": "Philox",
            "state": {"counter": words[:4], "key": words[4:6]},
            "buffer": words[6:],
            "buffer_pos": position,
            "has_uint32": has_half,
            "uinteger": half,
        }

    def uniform(self, size: tuple[int, ...], name: str, index: int) -> Any:
        """Returns a NumPy array, uniform on [0, 1), whose values ``name`` can hold exactly."""
        import numpy

        generator = self.generator(index)
        if name in _PARTS:
            part = _PARTS[name]
            return numpy.asarray(
                generator.random(size, dtype=part) + 1j * generator.random(size, dtype=part), dtype=name
            )
        draw = numpy.asarray(generator.random(size, dtype="float64" if name == "float64" else "float32"))
        if name in _BITS:
            scale = numpy.float32(2 ** _BITS[name])
            draw = numpy.floor(draw * scale) / scale
        return draw

    def normal(self, size: tuple[int, ...], name: str, index: int) -> Any:
        """Returns a NumPy array, standard normal; of complex numbers each part has variance 1/2."""
        import numpy

        generator = self.generator(index)
        if name in _PARTS:
            part = _PARTS[name]
            real, imaginary = (generator.standard_normal(size, dtype=part) for _ in range(2))
            return numpy.asarray((real + 1j * imaginary) * math.sqrt(0.5), dtype=name)
        return numpy.asarray(generator.standard_normal(size, dtype="float64" if name == "float64" else "float32"))

    def integers(self, low: int, high: int, size: tuple[int, ...], index: int) -> Any:
        """Returns a NumPy array of int64, or of uint64 where the numbers need it, from ``low`` to ``high - 1``."""
        dtype = "uint64" if high > 2**63 else "int64"
        import numpy

        return numpy.asarray(self.generator(index).integers(low, high, size, dtype=dtype))

    def exponential(self, size: tuple[int, ...], name: str, index: int) -> Any:
        """Returns a NumPy array of float32 or float64, exponential of the rate 1."""
        import numpy

        return numpy.asarray(self.generator(index).standard_exponential(size, dtype=name))

    def hits(self, chances: Any, size: tuple[int, ...], name: str, index: int) -> Any:
        """Returns a NumPy array of bool, true with the probabilities ``chances``, a number or an array."""
        import numpy

        return numpy.asarray(self.generator(index).random(size, dtype=name) < chances)

    def picks(self, rows: Any, count: int, replacement: bool, index: int) -> Any:
        """Returns ``count`` indices of each row of a NumPy array of float64, proportional to its elements.

        Without replacement the index comes first whose exponential variable, of the element as its rate, is least:
        Efraimidis and Spirakis, "Weighted random sampling with a reservoir", 2006.
        """
        import numpy

        generator = self.generator(index)
        if not replacement:
            with numpy.errstate(divide="ignore"):
                waits = generator.standard_exponential(rows.shape) / rows
            if count >= rows.shape[1]:
                return numpy.argsort(waits, axis=1, kind="stable")
            first = numpy.argpartition(waits, count - 1, axis=1)[:, :count]
            order = numpy.argsort(numpy.take_along_axis(waits, first, 1), axis=1, kind="stable")
            return numpy.take_along_axis(first, order, 1)
        # One search in all rows: row i lies in [i, i + 1), and so do the numbers that are drawn for it.
        count_of_rows, width = rows.shape
        offsets = numpy.arange(count_of_rows, dtype="float64")[:, None]
        ends = numpy.cumsum(rows, axis=1)
        ends /= ends[:, -1:].copy()
        ends += offsets
        drawn = numpy.minimum(generator.random((count_of_rows, count)) + offsets, numpy.nextafter(offsets + 1, 0))
        found = numpy.searchsorted(ends.reshape(-1), drawn.reshape(-1), side="right").reshape(drawn.shape)
        return found - numpy.arange(count_of_rows)[:, None] * width

    def permutation(self, n: int, index: int) -> Any:
        """Returns a NumPy array of int64, a random order of 0 … n - 1."""
        return self.generator(index).permutation(n)
