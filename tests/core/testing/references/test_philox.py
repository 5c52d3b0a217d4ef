"""The Philox reference: the vectors that its authors published, and NumPy's generator."""

from __future__ import annotations

import numpy as np
import pytest

from tensorplay_core.testing.references.philox import KEYS, MARK, STATE, Philox, block

PI = [0x243F6A8885A308D3, 0x13198A2E03707344, 0xA4093822299F31D0, 0x082EFA98EC4E6C89]


@pytest.mark.parametrize(
    ("counter", "key", "words"),
    [
        ([0] * 4, [0] * 2, "16554d9eca36314c db20fe9d672d0fdc d7e772cee186176b 7e68b68aec7ba23b"),
        ([2**64 - 1] * 4, [2**64 - 1] * 2, "87b092c3013fe90b 438c3c67be8d0224 9cc7d7c69cd777b6 a09caebf594f0ba0"),
        (
            PI,
            [0x452821E638D01377, 0xBE5466CF34E90C6C],
            "a528f45403e61d95 38c72dbd566e9788 a5a1610e72fd18b5 57bd43b5e52b7fe6",
        ),
    ],
)
def test_a_block_is_that_of_the_published_vectors(counter, key, words):
    assert " ".join(f"{word:016x}" for word in block(counter, key)) == words


def state_of(generator: np.random.Generator) -> bytes:
    state = generator.bit_generator.state
    numbers = [*state["state"]["counter"], *state["state"]["key"], *state["buffer"]]
    return STATE.pack(MARK, *map(int, numbers), state["buffer_pos"], state["has_uint32"], state["uinteger"])


@pytest.mark.parametrize("count", [0, 1, 3, 8, 21])
def test_numbers_are_those_of_numpy(count):
    generator = np.random.Generator(np.random.Philox(count))
    for dtype in ("float32", "float64", "float32", "float32", "float64"):
        reference = Philox(state_of(generator))
        assert reference.uniform(count, dtype) == generator.random(count, dtype=dtype).tolist()
        after = Philox(state_of(generator))
        assert (reference.taken, reference.counter, reference.has_half) == (after.taken, after.counter, after.has_half)


def test_a_counter_carries():
    state = STATE.pack(MARK, 2**64 - 1, 2**64 - 1, 0, 0, 5, 6, 0, 0, 0, 0, 4, 0, 0)
    reference = Philox(state)
    assert reference.word() == block([0, 0, 1, 0], [5, 6])[0] and reference.counter == [0, 0, 1, 0]


def test_complex_numbers_and_halves():
    generator = np.random.Generator(np.random.Philox(7))
    z = Philox(state_of(generator)).uniform(4, "complex64")
    real, imag = (generator.random(4, dtype="float32") for _ in range(2))
    assert [x.real for x in z] == real.tolist() and [x.imag for x in z] == imag.tolist()
    for dtype, bits in (("float16", 11), ("bfloat16", 8)):
        drawn = Philox(state_of(generator)).uniform(50, dtype)
        assert all(0 <= x < 1 and (x * 2**bits).is_integer() for x in drawn) and len(set(drawn)) > 30


@pytest.mark.parametrize("seed", KEYS)
def test_keys_are_those_that_numpy_makes_of_seeds(seed):
    assert tuple(map(int, np.random.Philox(seed % 2**64).state["state"]["key"])) == KEYS[seed]
