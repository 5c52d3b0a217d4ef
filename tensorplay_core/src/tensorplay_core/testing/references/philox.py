"""The numbers that follow from a state of the Philox generator, by arithmetic on Python's integers.

Devices that draw on the host give the same numbers for the same seed, on every machine, now and later; a state of
theirs says so by its mark. The algorithm is Philox4x64 with ten rounds, of Salmon et al., "Parallel Random Numbers: As
Easy as 1, 2, 3" (2011); how its words become numbers is as in NumPy.
"""

from __future__ import annotations

import math
import struct
from typing import Any

MARK = b"philox-1"
STATE = struct.Struct("<8s4Q2Q4QBBI")
"""Mark, counter, key, buffer, position in the buffer, whether half of a word is left, and that half."""
ROUNDS, WORDS = 10, 4
FACTORS = (0xD2E7470EE14C6C93, 0xCA5A826395121157)
STEPS = (0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B)
FULL = 2**64 - 1
BITS = {"float16": 11, "bfloat16": 8}
"""Half precisions are drawn in float32 and cut to so many bits, so that none is rounded up to 1."""
KEYS = {
    0: (15793235383387715774, 12390638538380655177),
    1: (7434755675892716031, 10007452063617845036),
    2**40 + 7: (974592680304384533, 11164224302760304993),
    -1: (12591116029944179981, 1268942265879420026),
}
"""The keys that some seeds give: those of NumPy's ``SeedSequence``, for negative ones of the seed modulo 2**64."""


def block(counter: list[int], key: list[int]) -> list[int]:
    """Returns the four words of a counter.

    Example:
        >>> [hex(word) for word in block([0, 0, 0, 0], [0, 0])][:2]
        ['0x16554d9eca36314c', '0xdb20fe9d672d0fdc']
    """
    (a, b, c, d), (k, m) = counter, key
    for _ in range(ROUNDS):
        one, other = FACTORS[0] * a, FACTORS[1] * c
        a, b, c, d = (other >> 64) ^ b ^ k, other & FULL, (one >> 64) ^ d ^ m, one & FULL
        k, m = (k + STEPS[0]) & FULL, (m + STEPS[1]) & FULL
    return [a, b, c, d]


class Philox:
    """A generator that goes on from a state.

    Args:
        state: what ``get_rng_state`` returned.

    Attributes:
        key: two words, which come from the seed alone.
    """

    def __init__(self, state: bytes) -> None:
        """See the class."""
        mark, *numbers = STATE.unpack(state)
        assert mark == MARK
        self.counter, self.key, self.buffer = numbers[:4], numbers[4:6], numbers[6:10]
        self.position, self.has_half, self.half = numbers[10:]

    @property
    def taken(self) -> int:
        """How many words were taken so far, halves included."""
        blocks: int = sum(word << (64 * i) for i, word in enumerate(self.counter))
        position: int = self.position
        return WORDS * blocks + position

    def word(self) -> int:
        """Returns the next 64 bits."""
        if self.position == WORDS:
            total = sum(word << (64 * i) for i, word in enumerate(self.counter)) + 1
            self.counter = [(total >> (64 * i)) & FULL for i in range(WORDS)]
            self.buffer, self.position = block(self.counter, self.key), 0
        self.position += 1
        return int(self.buffer[self.position - 1])

    def half_word(self) -> int:
        """Returns the next 32 bits, of which each word has two: the lower ones come first."""
        if self.has_half:
            self.has_half = 0
            return int(self.half)
        word = self.word()
        self.has_half, self.half = 1, word >> 32
        return word & (2**32 - 1)

    def uniform(self, count: int, dtype: str) -> list[Any]:
        """Returns numbers of [0, 1) as ``rand`` draws them; of complex ones all real parts come first."""
        part = {"complex64": "float32", "complex128": "float64"}.get(dtype)
        if part is not None:
            real, imag = (self.uniform(count, part) for _ in range(2))
            return [*map(complex, real, imag)]
        if dtype == "float64":
            return [(self.word() >> 11) * 2.0**-53 for _ in range(count)]
        drawn = [(self.half_word() >> 8) * 2.0**-24 for _ in range(count)]
        bits = BITS.get(dtype)
        return drawn if bits is None else [math.floor(x * 2**bits) / 2**bits for x in drawn]
