from __future__ import annotations

import math

import numpy as np
import pytest

from tensorplay_composite.arrays import HostRandom, kernels
from tensorplay_core.errors import DTypeError, ValueRangeError

ALL = ["bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64"]
ALL += ["float16", "float32", "float64", "complex64", "complex128"]


def dtypes(bf16):
    return [*map(np.dtype, ALL), bf16]


@pytest.mark.parametrize("size", [(2, 3), [2, 3], (), (0,), (3, 0)])
def test_constants(k, bf16, size):
    for dtype in dtypes(bf16):
        for name, value in (("zeros", 0), ("ones", 1), ("full", 1)):
            result = k[name](size, *((1,) if name == "full" else ()), dtype=dtype, device=0)
            assert result.shape == tuple(size) and result.dtype == dtype and isinstance(result, np.ndarray)
            assert (result == np.array(value, dtype)).all()
        assert k["empty"](size, dtype=dtype, device=0).shape == tuple(size)


def test_a_negative_size_is_refused(k):
    with pytest.raises(ValueError):
        k["zeros"]((-1,), dtype=np.dtype("float32"))


@pytest.mark.parametrize("ends", [(0, 5, 1), (5, 0, -2), (0, 0, 1), (-3, 4, 3), (2, 9, 100)])
def test_arange_of_integers(k, bf16, ends):
    for dtype in dtypes(bf16):
        if dtype.kind in "bu" and min(ends) < 0:
            continue
        result = k["arange"](*ends, dtype=dtype, device=0)
        assert result.dtype == dtype
        np.testing.assert_array_equal(result, np.array(list(range(*ends)), dtype))


def test_arange_of_floats_does_not_drift(k):
    result = k["arange"](0, 10000, 0.1, dtype=np.dtype("float32"), device=0)
    assert result.size == math.ceil(10000 / 0.1)
    np.testing.assert_array_equal(result, (np.arange(100000, dtype="float64") * 0.1).astype("float32"))
    assert k["arange"](0, 3, 0.5, dtype=np.dtype("int64"), device=0).tolist() == [0, 0, 1, 1, 2, 2]
    assert k["arange"](2**63, 2**63 + 2, 1, dtype=np.dtype("uint64")).tolist() == [2**63, 2**63 + 1]


def test_eye(k, bf16):
    for dtype in dtypes(bf16):
        for n, m in ((3, None), (2, 3), (3, 2), (0, 2)):
            result = k["eye"](n, m, dtype=dtype, device=0)
            np.testing.assert_array_equal(result, np.eye(n, m, dtype=dtype))
            assert result.dtype == dtype
    with pytest.raises(ValueRangeError):
        k["eye"](-1, dtype=np.dtype("float32"))


@pytest.mark.parametrize("name", ["rand", "randn"])
def test_random(k, bf16, name):
    for dtype in (*map(np.dtype, ("float16", "float32", "float64", "complex64", "complex128")), bf16):
        result = k[name]((200, 100), dtype=dtype, device=0)
        assert result.dtype == dtype and result.shape == (200, 100)
        wide = result.astype("complex128" if dtype.kind == "c" else "float64")
        if name == "rand":
            assert wide.real.min() >= 0 and wide.real.max() < 1
            assert abs(wide.real.mean() - 0.5) < 0.02
        else:
            assert abs(wide.mean()) < 0.05
            assert abs((abs(wide) ** 2).mean() - 1) < 0.05
        assert k[name]((), dtype=dtype, device=0).shape == ()
        assert k[name]((0, 2), dtype=dtype, device=0).shape == (0, 2)
    with pytest.raises(DTypeError, match="int64"):
        k[name]((2,), dtype=np.dtype("int64"), device=0)


def test_randperm(k):
    result = k["randperm"](50, dtype=np.dtype("int64"), device=0)
    assert sorted(result.tolist()) == list(range(50)) and result.dtype == "int64"
    assert result.tolist() != list(range(50))
    assert k["randperm"](0, dtype=np.dtype("int64")).tolist() == []
    assert k["randperm"](5, dtype=np.dtype("float32")).dtype == "float32"
    with pytest.raises(ValueRangeError):
        k["randperm"](-1, dtype=np.dtype("int64"))


def test_one_seed_gives_the_same_numbers_on_every_device():
    drawn = []
    for index in (0, 0, 3):
        random = HostRandom()
        random.manual_seed(7)
        k = kernels(np, random=random)
        single = np.dtype("float32")
        drawn.append([k[name]((4,), dtype=single, device=index).tolist() for name in ("rand", "randn", "rand")])
    assert drawn[0] == drawn[1] == drawn[2]
    assert drawn[0][0] != drawn[0][2]


def test_seeds(k):
    random = HostRandom()
    for seed in (0, 1, -1, 2**64, 2**80 + 3):
        random.manual_seed(seed)
        first = random.uniform((3,), "float32", 0).tolist()
        random.manual_seed(seed)
        assert random.uniform((3,), "float32", 0).tolist() == first
    assert HostRandom().uniform((3,), "float64", 0).tolist() != HostRandom().uniform((3,), "float64", 0).tolist()


@pytest.mark.parametrize("name", ["rand", "randn", "randperm"])
def test_a_generator_is_drawn_from_instead_of_the_device(k, name):
    drawn = [k[name](3, generator=HostRandom(5), dtype=np.dtype("float32")).tolist() for _ in range(2)]
    assert drawn[0] == drawn[1]


def test_copy_between_all_dtypes(k, bf16):
    for source in dtypes(bf16):
        for target in dtypes(bf16):
            src, dst = np.array([0, 1, 1], source), np.full((2, 3), 7).astype(target)
            assert k["copy_"](dst, src) is dst
            assert (dst == np.array([0, 1, 1], target)).all()


def test_copy_drops_the_imaginary_part_and_truncates(k):
    dst = np.zeros(2, "float32")
    k["copy_"](dst, np.array([1 + 2j, -3j], "complex64"), True)
    assert dst.tolist() == [1, 0]
    dst = np.zeros(2, "bool")
    k["copy_"](dst, np.array([2j, 0], "complex64"))
    assert dst.tolist() == [True, False]
    dst = np.zeros(2, "int8")
    k["copy_"](dst, np.array([2.9, -2.9]))
    assert dst.tolist() == [2, -2]


def test_copy_that_does_not_broadcast_writes_nothing(k):
    dst = np.zeros(3)
    with pytest.raises(ValueError):
        k["copy_"](dst, np.ones(2))
    assert dst.tolist() == [0, 0, 0]


def test_writing_into_a_view_and_over_oneself(k):
    base = np.zeros((3, 3))
    k["fill_"](base[:, 1], 5)
    assert base[:, 1].tolist() == [5, 5, 5] and base.sum() == 15
    k["zero_"](base[1])
    assert base[1].tolist() == [0, 0, 0]
    line = np.arange(6.0)
    k["copy_"](line[::2], line[:3])
    assert line.tolist() == [0, 1, 1, 3, 2, 5]
    line = np.arange(5.0)
    k["copy_"](line[1:], line[:-1])
    assert line.tolist() == [0, 0, 1, 2, 3]


def test_fill(k, bf16):
    for dtype in dtypes(bf16):
        dst = np.zeros((2, 2), dtype)
        assert k["fill_"](dst, 1) is dst
        assert (dst == np.array(1, dtype)).all()
        assert k["zero_"](dst) is dst
        assert not dst.astype("bool").any()
    scalar = np.array(1.0)
    k["fill_"](scalar, math.inf)
    assert scalar == math.inf
    assert k["fill_"](np.zeros(1, "int32"), 2.7).tolist() == [2]
