"""Promotion in calls: Python scalars are weak, integers wrap, and nothing depends on the number of dims."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tensorplay as tp
from tensorplay_core.errors import ArgumentError, ValueRangeError
from tensorplay_core.ops.typing_rules import CACHE_LIMIT, scalar_tensor
from tensorplay_core.testing import force_slow_path
from tensorplay_core.types import dtype as dt
from tensorplay_core.types.promotion import promote, with_scalar

CPU = tp.device("cpu")


@pytest.mark.parametrize("b", dt.ALL, ids=str)
@pytest.mark.parametrize("a", dt.ALL, ids=str)
def test_tensors_promote_by_the_table_whatever_their_dims(a, b):
    for shape in ((), (1,), (2, 1)):
        x, y = tp.ones(shape, dtype=a), tp.ones((1,), dtype=b)
        assert (x * y).dtype is promote(a, b)
        assert (y * x).dtype is promote(a, b)
    assert (x == y).dtype is tp.bool
    divided = promote(a, b)
    assert (x / y).dtype is (divided if divided.is_inexact else tp.float32)


@pytest.mark.parametrize("scalar", [True, 2, 2.0, 2j])
@pytest.mark.parametrize("d", dt.ALL, ids=str)
def test_python_scalars_are_weak(d, scalar):
    x = tp.ones(2, dtype=d)
    wanted = with_scalar(d, type(scalar))
    for _ in range(2):
        assert (x * scalar).dtype is wanted and (scalar * x).dtype is wanted
    assert (x * scalar).tolist() == [scalar * 1] * 2


@pytest.mark.parametrize("scalar", [np.float64(2.5), np.int32(3), np.bool_(True), np.float32(0.5), np.complex64(1j)])
def test_numpy_scalars_count_as_pythons(scalar):
    x = tp.ones(2, dtype=tp.float16)
    assert (x * scalar).dtype is with_scalar(tp.float16, type(scalar.item()))
    assert (scalar * x).tolist() == (x * scalar).tolist() == [scalar.item()] * 2


INTEGERS = [d for d in dt.ALL if d.is_integral]


@pytest.mark.parametrize("d", INTEGERS, ids=str)
@pytest.mark.parametrize(
    "value", [0, 1, -1, 127, 128, 255, 256, 300, -129, 2**31, 2**32 + 5, 2**63, 2**64 + 7, -(2**63)]
)
def test_integers_that_do_not_fit_wrap(d, value):
    modulus = 2 ** (8 * d.itemsize)
    wrapped = value % modulus
    if d.is_signed and wrapped >= modulus // 2:
        wrapped -= modulus
    assert (tp.zeros(1, dtype=d) + value).item() == wrapped
    assert (tp.zeros(1, dtype=d) + value).item() == wrapped  # again, on the fast path
    assert scalar_tensor(value, d, CPU).item() == wrapped


def test_integer_arithmetic_wraps():
    x = tp.tensor([200], dtype=tp.uint8)
    assert (x + x).item() == 144 and (x * 2).item() == 144 and (-x).item() == 56
    y = tp.tensor([127], dtype=tp.int8)
    assert (y + 1).item() == -128 and (y * y).item() == 1


@pytest.mark.parametrize("slow", [False, True])
def test_zeros_keep_their_sign_and_nan_is_nan(slow):
    x = tp.tensor([1.0, -1.0])

    def bits(y):
        return [math.copysign(1.0, v) for v in y.tolist()]

    def check():
        for _ in range(3):  # the cache of scalars must not take one zero for the other
            assert bits(x * 0.0) == [1.0, -1.0]
            assert bits(x * -0.0) == [-1.0, 1.0]
            assert bits(x * 0) == [1.0, -1.0]
            assert all(math.isnan(v) for v in (x * tp.nan).tolist())
            assert (x * 1).dtype is (x * 1.0).dtype is (x * True).dtype is tp.float32
        whole = tp.tensor([3])
        assert (whole + 1).dtype is tp.int64 and (whole + True).dtype is tp.int64 and (whole + 1.0).dtype is tp.float32

    if slow:
        with force_slow_path():
            check()
    else:
        check()


def test_cached_scalars_are_not_shared_with_results():
    x = tp.tensor(1.0)
    y = x * 2.0
    y.add_(1)
    assert (x * 2.0).item() == 2.0
    z = tp.where(tp.tensor(True), x * 0, 5.0)
    z += 1
    assert tp.where(tp.tensor(False), x, 5.0).item() == 5.0


def test_where_of_two_scalars_has_their_common_dtype():
    condition = tp.tensor([True, False])
    for a, b, wanted in [(1, 2, tp.int64), (1, 2.0, tp.float32), (True, 2, tp.int64), (2.0, 1j, tp.complex64)]:
        assert tp.where(condition, a, b).dtype is wanted
        assert tp.where(condition, b, a).dtype is wanted
        assert tp.where(condition, a, b).tolist() == [a, b]


def test_numbers_alone_are_refused():
    with pytest.raises(ArgumentError, match="at least one argument must be a Tensor"):
        tp.add(1, 2)


def test_a_number_too_large_for_any_float_is_refused():
    with pytest.raises(ValueRangeError, match=r"does not fit float32"):
        tp.ones(1) * 10**400


@pytest.mark.parametrize("value", [1e10, -1e300, 7e4, 10**30, complex(1e300, -1e10)])
@pytest.mark.parametrize("d", [tp.float16, tp.bfloat16, tp.float32, tp.float64, tp.complex64], ids=str)
def test_a_large_number_is_rounded_once_or_infinite_as_numpys_is(d, value):
    if isinstance(value, complex) and not d.is_complex:
        return
    native = tp.ones(1, dtype=d)._array.dtype
    with np.errstate(all="ignore"):
        wanted = np.asarray(value, dtype=complex if isinstance(value, complex) else float).astype(native).item()
    assert scalar_tensor(value, d, CPU).item() == wanted


def test_e03_division_of_integers_is_true_and_a_float_is_not_written_to_them():
    r = tp.tensor([1]) / tp.tensor([2])
    assert r.tolist() == [0.5] and r.dtype is tp.float32
    x = tp.tensor([1, 2])
    writes = [
        lambda: x.__iadd__(1.5),
        lambda: x.add_(1.5),
        lambda: x.mul_(0.5),
        lambda: x.sub_(tp.tensor([0.5, 0.5])),
        lambda: x.div_(2),
        lambda: x.exp_(),
        lambda: tp.add(x, 1.5, out=x),
        lambda: tp.mul(tp.tensor([0.5, 0.5]), 1, out=x),
    ]
    for write in writes:
        for _ in range(2):
            with pytest.raises(RuntimeError, match=r"float32.*int64"):
                write()
            assert x.tolist() == [1, 2] and x.dtype is tp.int64
    x += 2
    assert x.tolist() == [3, 4]


def test_e02_sums_and_gradients_keep_dtype_and_shape():
    s = sum([tp.ones(2), tp.ones(2)])
    a = tp.tensor([3.0], requires_grad=True)
    b = tp.tensor([[1.0, 2.0]], requires_grad=True)
    (a * b).sum().backward()
    assert (s.dtype, s.tolist()) == (tp.float32, [2.0, 2.0])
    assert (a.grad.shape, a.grad.tolist(), a.grad.dtype) == ((1,), [3.0], tp.float32)
    assert (b.grad.shape, b.grad.tolist(), b.grad.dtype) == ((1, 2), [[3.0, 3.0]], tp.float32)
    for d in (tp.float16, tp.int8, tp.float64):
        assert sum([tp.ones(2, dtype=d)] * 2).dtype is d


@pytest.mark.parametrize("name", ["uint8", "int8", "uint64", "int64"])
@pytest.mark.parametrize("number", [300, -1, -300, 2**63, 2**64 - 1, -(2**63) - 1, 2**200, 44])
def test_a_comparison_with_an_integer_that_does_not_fit_is_still_true(name, number):
    values = [0, 1, 44]
    x = tp.tensor(values, dtype=getattr(tp, name))
    comparisons = ("__lt__", "__le__", "__gt__", "__ge__", "__eq__", "__ne__")
    for _ in range(3):  # arithmetic wraps, and what it leaves in the cache must not be compared with
        if abs(number) < 2**64:
            assert (x + number).dtype is x.dtype
        for comparison in comparisons:
            assert getattr(x, comparison)(number).tolist() == [getattr(v, comparison)(number) for v in values]


def test_whole_numbers_that_the_dtype_cannot_hold_are_refused_whether_it_was_asked_for_or_not():
    for make, dtype in (
        (lambda: tp.full((2,), 2**70), "int64"),
        (lambda: tp.arange(2**70, 2**70 + 2), "int64"),
        (lambda: tp.arange(2**40, 2**40 + 2, dtype=tp.int32), "int32"),
        (lambda: tp.arange(257, dtype=tp.uint8), "uint8"),
        (lambda: tp.arange(0, -2, -1, dtype=tp.uint8), "uint8"),
        (lambda: tp.arange(0.0, 4e9, 1e9, dtype=tp.int32), "int32"),
        (lambda: tp.full((2,), 2**70, device="meta"), "int64"),
    ):
        with pytest.raises(tp.ValueRangeError, match=f"does not fit {dtype}"):
            make()
    assert tp.arange(256, dtype=tp.uint8).tolist() == [*range(256)]
    assert tp.arange(2**63 - 1, 2**63).tolist() == [2**63 - 1]
    assert tp.arange(0, 3e9, 1e9, dtype=tp.int32).tolist() == [0, 10**9, 2 * 10**9]


@pytest.mark.parametrize("operator", ["add", "sub", "add_", "sub_"])
@pytest.mark.parametrize(
    ("dtype", "alpha"),
    [("float64", 2.5), ("float64", -3), ("float16", 0.3), ("complex64", 0.5), ("int64", 3), ("int32", 2)],
)
def test_alpha_multiplies_the_second_operand_whatever_came_before(dtype, alpha, operator):
    kind = np.dtype(dtype)
    a, b = np.array([[1, 2], [3, 4]], kind), np.array([[5, -6], [7, 8]], kind)
    right = a + (1 if "add" in operator else -1) * (b * np.array(alpha).astype(kind))
    for _ in range(3):
        x, y = tp.from_numpy(a.copy()), tp.from_numpy(b.copy())
        result = getattr(x, operator)(y, alpha=alpha)
        assert result.numpy().dtype == kind and result.tolist() == right.tolist()
        assert x.tolist() == (right if operator.endswith("_") else a).tolist() and y.tolist() == b.tolist()
    with force_slow_path():
        slow = getattr(tp.from_numpy(a.copy()), operator)(tp.from_numpy(b), alpha=alpha)
    assert slow.tolist() == right.tolist()


@pytest.mark.parametrize("alpha", [2.5, 1j])
def test_an_alpha_of_another_kind_than_the_tensors_is_refused_whatever_came_before(alpha):
    x = tp.tensor([1, 2])
    for _ in range(2):
        x.add_(x, alpha=1)
        before = x.tolist()
        with pytest.raises(ValueRangeError, match="take an alpha of their own kind"):
            x.add_(x, alpha=alpha)
        assert x.tolist() == before


def test_what_is_recorded_knows_of_alpha():
    x, y = tp.ones(2, requires_grad=True), tp.ones(2, requires_grad=True)
    for _ in range(2):
        z = tp.add(x, y, alpha=3.0)
        assert z.grad_fn.name == "AddBackward"
        assert [g.tolist() for g in tp.autograd.grad(z.sum(), (x, y))] == [[1, 1], [3, 3]]
    with tp.no_grad():
        assert tp.sub(x, y, alpha=3.0).tolist() == [-2, -2]
        y.sub_(x, alpha=0.5)
    assert y.tolist() == [0.5, 0.5] and y.requires_grad


NUMBERS = (
    3,
    -7,
    300,
    -40000,
    2**31,
    2**63,
    -(2**63),
    2**64,
    10**400,
    0.37,
    1e5,
    1e39,
    -1e300,
    0.0,
    -0.0,
    math.inf,
    math.nan,
)


def _outcome(function, x, number):
    try:
        result = function(x, number)
    except tp.TensorPlayError as error:
        return type(error), str(error)
    return result.dtype, repr(result.tolist())


@pytest.mark.parametrize("number", NUMBERS, ids=lambda n: str(n)[:8])
@pytest.mark.parametrize("d", dt.ALL, ids=str)
def test_a_number_that_is_new_and_one_that_is_known_give_what_the_slow_path_gives(d, number):
    x = tp.ones(2, dtype=d)
    for function in (tp.add, tp.eq, lambda a, n: n * a, tp.div):
        x._type.ints.clear(), x._type.floats.clear()
        new, known = _outcome(function, x, number), _outcome(function, x, number)
        with force_slow_path():
            slow = _outcome(function, x, number)
        assert new == known == slow


def test_numbers_are_kept_up_to_a_limit_and_later_ones_are_right_too():
    x = tp.ones(1, dtype=tp.float64)
    for n in range(CACHE_LIMIT + 3):
        assert (x * (n + 0.25)).tolist() == [n + 0.25]
    assert 0 < len(x._type.floats) <= CACHE_LIMIT
    assert (x * 0.25).tolist() == [0.25]


def test_no_number_is_forgotten_while_autocast_may_look_it_up():
    floats = tp.ones(1, dtype=tp.float16)._type.floats
    floats.clear()
    floats.update((float(n), scalar_tensor(1, dt.float16, CPU)) for n in range(CACHE_LIMIT))
    with tp.autocast("cpu", dtype=tp.float16):
        assert scalar_tensor(0.375, dt.float16, CPU).item() == 0.375
        assert len(floats) == CACHE_LIMIT
    assert scalar_tensor(0.375, dt.float16, CPU).item() == 0.375
    assert list(floats) == [0.375]
