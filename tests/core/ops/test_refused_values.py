"""What an operator refuses by its contract is refused in the same words on every device: bool, complex, too large."""

from __future__ import annotations

import array_api_strict
import pytest

import tensorplay as tp
from tensorplay_core.dispatch.registry import REGISTRY
from tensorplay_core.ops.call import call
from tensorplay_core.plugins.lifecycle import MANAGER

DEVICES = ("cpu", "meta", "loopback", "refusing")


@pytest.fixture(scope="module", autouse=True)
def devices():
    tp.backends.from_namespace(array_api_strict, "refusing")
    yield
    tp.backends.unload("refusing")
    MANAGER._records.pop("refusing")


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    ("use", "remedy"),
    [
        (lambda x: -x, r"~x inverts a mask"),
        (lambda x: x.clone().neg_(), r"~x inverts a mask"),
        (lambda x: x - x, r"a \^ b is True where two masks differ"),
        (lambda x: True - x, r"a \^ b"),
        (lambda x: x.clone().sub_(True), r"a \^ b"),
        (lambda x: tp.relu(x), r"\.to\(dtype\)"),
        (lambda x: x.clone().relu_(), r"\.to\(dtype\)"),
    ],
)
def test_operators_on_numbers_take_no_bool(device, use, remedy):
    x = tp.ones(2, dtype=tp.bool, device=device)
    for _ in range(2):  # the second would be a fast one
        with pytest.raises(tp.DTypeError, match=rf"^\w+: takes numbers, and the tensors are bool\nfix: .*{remedy}"):
            use(x)
    assert (x - 1).dtype.is_integral and (x - 0.5).dtype is tp.float32  # numbers promote first


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", ["relu", "max", "argmax"])
def test_complex_numbers_have_no_order(device, name):
    x = tp.ones(2, dtype=tp.complex64, device=device)
    with pytest.raises(tp.DTypeError, match=rf"^{name}: complex numbers have no order.*complex64\nfix: .*\.abs\(\)"):
        getattr(tp, name)(x)
    if name == "max":
        with pytest.raises(tp.DTypeError, match=r"^max\.dim: complex numbers have no order"):
            x.max(0)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    ("dtype", "value", "error"),
    [
        ("uint8", 300, tp.ValueRangeError), ("uint8", -1, tp.ValueRangeError), ("int8", 128, tp.ValueRangeError),
        ("int32", 2.0**31, tp.ValueRangeError), ("int32", float("nan"), tp.ValueRangeError),
        ("int64", float("inf"), tp.ValueRangeError), ("float32", 1j, tp.DTypeError), ("int32", 1j, tp.DTypeError),
    ],
)  # fmt: skip
def test_a_number_that_does_not_fit_is_not_written(device, dtype, value, error):
    x = tp.ones(2, dtype=getattr(tp, dtype), device=device)
    with pytest.raises(error, match=r"^fill_: .*" + dtype + r"\nfix: "):
        x.fill_(value)
    if device != "meta":
        assert x.tolist() == [1, 1]
    with pytest.raises(error, match=r"^full: .*" + dtype + r"\nfix: "):
        tp.full((2,), value, dtype=x.dtype, device=device)


@pytest.mark.parametrize("device", DEVICES)
def test_numbers_that_fit_are_written_as_ever(device):
    x = tp.ones(2, dtype=tp.uint8, device=device)
    y = tp.zeros(2, dtype=tp.bool, device=device)
    x.fill_(255), y.fill_(300)
    x.fill_(2.7)
    if device != "meta":
        assert x.tolist() == [2, 2] and y.tolist() == [True, True]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    ("name", "numbers", "dtype"),
    [
        ("full", ((2,), 3), "int64"), ("full", ((2,), True), "bool"), ("full", ((2,), 3.0), "float32"),
        ("full", ((2,), 3j), "complex64"), ("arange", (0, 3, 1), "int64"), ("arange", (0, 3, 0.5), "float32"),
        ("arange", (False, True, True), "int64"), ("zeros", ((2,),), "float32"), ("randperm", (3,), "int64"),
    ],
)  # fmt: skip
def test_without_a_dtype_a_new_tensor_has_that_of_its_numbers(device, name, numbers, dtype):
    op, place = REGISTRY.operators[f"tp::{name}"], tp.device(device)
    assert call(op, numbers, {"dtype": None, "device": place}).dtype.name == dtype
    assert getattr(tp.ops.tp, name)(*numbers, device=device).dtype.name == dtype


def test_a_size_that_is_no_integer_is_told():
    for size in (2.5, (2, 2.5), "x", None):
        with pytest.raises(tp.ArgumentError, match=r"^full: size.* must be an int"):
            tp.full(size, 3.0)
    assert tp.full(2, 3.0).shape == (2,) and tp.full([], 3).shape == ()


X, ZERO = tp.ones(2, 2), tp.tensor(1.0)
WRONG = {
    "a shift too many": (lambda: tp.roll(X, 1, 0), lambda: tp.roll(X, (1, 2), 0), tp.ShapeError),
    "a shift too few": (lambda: tp.roll(X, 1, 0), lambda: tp.roll(X, 1, (0, 1)), tp.ShapeError),
    "shifts of no dims": (lambda: tp.roll(X, 1), lambda: tp.roll(X, (1, 2)), tp.ShapeError),
    "a dim before the first": (lambda: tp.roll(X, 1, 0), lambda: tp.roll(X, 1, -3), tp.DimError),
    "repeats of two dims": (
        lambda: tp.repeat_interleave(tp.tensor([1, 2])),
        lambda: tp.repeat_interleave(tp.ones(2, 5, dtype=tp.int64)),
        tp.ShapeError,
    ),
    "a system without rows": (
        lambda: tp.linalg.solve(tp.eye(2), tp.ones(2)),
        lambda: tp.linalg.solve(tp.ones(2, 2, 2), tp.ones(0)),
        tp.ShapeError,
    ),
    "a dim twice": (lambda: tp.sum(ZERO, 0), lambda: tp.sum(ZERO, (0, 0)), tp.ShapeError),
    "a power of 2.5": (
        lambda: tp.linalg.matrix_power(tp.eye(2), 2),
        lambda: tp.linalg.matrix_power(tp.eye(2), 2.5),
        tp.ArgumentError,
    ),
    "no order": (lambda: tp.linalg.vector_norm(X, 2), lambda: tp.linalg.vector_norm(X, None), tp.ArgumentError),
    "a new dim of -1": (lambda: ZERO.expand(2), lambda: ZERO.expand(-1), tp.ShapeError),
    "an index into nothing": (
        lambda: X[:, tp.tensor([0])],
        lambda: tp.zeros(0, 2)[:, tp.tensor([5])],
        tp.DimError,
    ),
    "more whole dims than there are": (
        lambda: tp.index(X, [None, tp.tensor([0])]),
        lambda: tp.index(X, [None, None, None]),
        IndexError,
    ),
    "more indices than dims": (
        lambda: tp.index(X, [tp.tensor([0])]),
        lambda: tp.index(X, [tp.tensor([0])] * 3),
        IndexError,
    ),
    "a mask of another shape": (
        lambda: tp.index(X, [X > 0]),
        lambda: tp.index(X, [tp.ones(3) > 0]),
        IndexError,
    ),
    "rows of two lengths": (
        lambda: tp.cat([X, X]),
        lambda: tp.cat([X, tp.ones(2, 3)]),
        tp.ShapeError,
    ),
    "sizes that do not add up": (
        lambda: X.split([1, 1]),
        lambda: X.split([1, 2]),
        tp.ShapeError,
    ),
    "a list of nothing for a number": (
        lambda: tp.tril(X.to("meta"), 1),
        lambda: tp.tril(X.to("meta"), (1, 1)),
        tp.ArgumentError,
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_call_is_refused_after_right_ones_too(name):
    """When the fast path serves, which does not ask the shape rule: the kernel must find out."""
    right, wrong, error = WRONG[name]
    for _ in range(3):
        right()
    with pytest.raises(error):
        wrong()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", ["cumsum", "cumprod", "logcumsumexp", "cummax", "cummin", "unsqueeze", "softmax"])
def test_one_dim_is_neither_none_nor_several(device, name):
    function = getattr(tp, name)
    for x in (tp.ones(3, device=device), tp.ones((), device=device)):
        for _ in range(2):
            function(x, 0)  # from here on calls are fast
        for dim in (None, (0,)):
            with pytest.raises(tp.ArgumentError, match=f"{name}: dim must be an int, not"):
                function(x, dim)
