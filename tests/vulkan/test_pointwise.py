"""Every pointwise operator against NumPy in float64, with a budget in units in the last place."""

from __future__ import annotations

import numpy as np
import pytest

import tensorplay as tp
import tensorplay.nn.functional as F
from tensorplay_core.errors import DTypeError, TensorPlayError

pytestmark = pytest.mark.usefixtures("adapter")

SPECIAL = np.array(
    [0.0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 0.5, 2, 3, -2, -3, 3e38, -3e38, 1e-30, 1e-42, 88.9, -104, 7.5],
    "float32",
)
UNARY = {
    "exp": (np.exp, 2),
    "expm1": (np.expm1, 2),
    "log": (np.log, 2),
    "log1p": (np.log1p, 4),
    "sin": (np.sin, 4),
    "cos": (np.cos, 4),
    "sqrt": (np.sqrt, 1),
    "tanh": (np.tanh, 2),
    "sigmoid": (lambda x: 1 / (1 + np.exp(-x)), 4),
    "relu": (lambda x: np.maximum(x, 0), 0),
    "neg": (np.negative, 0),
    "abs": (np.abs, 0),
    "sgn": (np.sign, 0),
    "clone": (np.copy, 0),
    "real": (np.real, 0),
}
BINARY = {
    "add": (np.add, 1),
    "sub": (np.subtract, 1),
    "mul": (np.multiply, 1),
    "div": (np.divide, 1),
    "pow": (np.power, 6),
    "maximum": (np.maximum, 0),
    "minimum": (np.minimum, 0),
}
COMPARISONS = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}
FORMULAS = {
    "softplus": F.softplus,
    "silu": F.silu,
    "mish": F.mish,
    "softsign": F.softsign,
    "elu": lambda x: F.elu(x, alpha=1.5),
    "leaky_relu": lambda x: F.leaky_relu(x, 0.1),
    "selu": tp.selu,
    "hardsigmoid": F.hardsigmoid,
    "hardswish": F.hardswish,
    "square": tp.square,
    "reciprocal": tp.reciprocal,
    "rsqrt": lambda x: tp.rsqrt(tp.abs(x) + 1),
}


def there(array, **options):
    return tp.tensor(array, device="vulkan", **options)


def assert_within(got, exact, ulps):
    """Asserts that float32 values lie within some units in the last place of exact ones; NaN is equal to NaN."""
    with np.errstate(all="ignore"):
        want = exact.astype("float32")
        error = np.abs(got.astype("float64") - exact) / np.spacing(np.abs(want)).astype("float64")
    same = (got == want) | (np.isnan(got) & np.isnan(want))
    worst = np.where(same, 0, np.nan_to_num(error, nan=np.inf))
    assert got.shape == exact.shape
    assert worst.size == 0 or worst.max() <= ulps, (got.ravel()[worst.argmax()], exact.ravel()[worst.argmax()])


def layouts(tensor, array):
    """Yields one (tensor, array) for each way in which the elements of a matrix can lie."""
    yield tensor, array
    yield tensor.t(), array.T
    yield tensor[1:, ::2], array[1:, ::2]
    yield tensor[:, 3], array[:, 3]
    yield tensor[2, 3], array[2, 3]
    yield tensor[:, :1].expand(-1, 4), np.broadcast_to(array[:, :1], (array.shape[0], 4))
    yield tensor[:0], array[:0]
    yield tensor.unsqueeze(1), array[:, None]


@pytest.mark.parametrize("name", UNARY)
def test_unary_operators(name, rng):
    exact, ulps = UNARY[name]
    rows = [
        SPECIAL,
        rng.normal(size=19) * 20,
        rng.normal(size=19),
        rng.normal(size=19) * 10.0 ** rng.uniform(-9, 0, 19),
    ]
    array = np.stack(rows).astype("float32")
    for x, a in layouts(there(array), array):
        with np.errstate(all="ignore"):
            assert_within(getattr(tp, name)(x).cpu().numpy(), np.asarray(exact(a.astype("float64"))), ulps)
    many = (rng.normal(size=2**17 + 3) * 5).astype("float32")
    with np.errstate(all="ignore"):
        assert_within(getattr(tp, name)(there(many)).cpu().numpy(), exact(many.astype("float64")), ulps)


@pytest.mark.parametrize("name", [*BINARY, *COMPARISONS])
def test_binary_operators(name, rng):
    a, b = (grid.ravel().copy() for grid in np.meshgrid(SPECIAL, SPECIAL))
    c, d = (rng.normal(size=len(a)) * 5).astype("float32"), rng.integers(-9, 9, len(a)).astype("float32")
    left, right = np.stack([a, c, np.abs(c)]), np.stack([b, d, c * 2])
    for (x, m), (y, n) in zip(layouts(there(left), left), layouts(there(right), right), strict=True):
        got = getattr(tp, name)(x, y).cpu().numpy()
        with np.errstate(all="ignore"):
            if name in COMPARISONS:
                assert got.dtype == bool and np.array_equal(got, COMPARISONS[name](m, n))
            else:
                exact, ulps = BINARY[name]
                assert_within(got, np.asarray(exact(m.astype("float64"), n.astype("float64"))), ulps)


def test_operands_broadcast_and_numbers_take_part(rng):
    a, b = rng.normal(size=(3, 1, 5)).astype("float32"), rng.normal(size=(4, 1)).astype("float32")
    assert np.array_equal((there(a) + there(b)).cpu().numpy(), a + b)
    assert np.array_equal((2 - there(a) * 0.5).cpu().numpy(), 2 - a * np.float32(0.5))
    assert np.array_equal((there(b) + tp.tensor(1.5)).cpu().numpy(), b + np.float32(1.5))  # a 0-d tensor of the cpu
    assert (there([1, 2]) + there([0.5, 1.0])).tolist() == [1.5, 3.0]
    assert (there([1, -7]) / 2).tolist() == [0.5, -3.5]
    assert tp.add(there([1.0]), there([2.0]), alpha=3).tolist() == [7.0]


def test_where_takes_elements_as_they_are():
    condition = there([[True], [False]])
    assert tp.where(condition, there([1.0, tp.nan]), -2.0).tolist()[1] == [-2.0, -2.0]
    assert np.isnan(tp.where(condition, there([1.0, tp.nan]), -2.0).cpu().numpy()[0, 1])
    assert tp.where(condition, 1, 2).dtype is tp.int32


def test_integers_wrap_and_bools_are_logical():
    low, high = -(2**31), 2**31 - 1
    x, y = there([low, high, 7, -3]), there([1, 2, -2, 5])
    a, b = np.array([low, high, 7, -3], "int32"), np.array([1, 2, -2, 5], "int32")
    with np.errstate(all="ignore"):
        for name, exact in {"add": np.add, "sub": np.subtract, "mul": np.multiply, **COMPARISONS}.items():
            assert getattr(tp, name)(x, y).tolist() == exact(a, b).tolist(), name
        assert tp.abs(x).tolist() == np.abs(a).tolist() and (-x).tolist() == (-a).tolist()
        assert tp.maximum(x, y).tolist() == np.maximum(a, b).tolist()
    assert tp.pow(there([2, -1, 1, 0, 3]), there([31, -3, -9, -1, 4])).tolist() == [low, -1, 1, 0, 81]
    p, q = there([True, True, False, False]), there([True, False, True, False])
    m, n = p.cpu().numpy(), q.cpu().numpy()
    for name, exact in {"add": np.add, "mul": np.multiply, "maximum": np.maximum, **COMPARISONS}.items():
        assert getattr(tp, name)(p, q).tolist() == exact(m, n).tolist(), name
    with pytest.raises(TensorPlayError, match="bool"):
        p - q


def test_what_a_dtype_does_not_do_is_an_error_with_a_remedy():
    with pytest.raises(DTypeError, match=r"(?s)neg: takes numbers.*fix: .*convert with"):
        tp.neg(there([True]))


@pytest.mark.parametrize("name", FORMULAS)
def test_a_formula_is_one_shader(name, rng):
    x = rng.normal(size=(7, 9)).astype("float32") * 4
    expected = FORMULAS[name](tp.tensor(x.astype("float64"))).numpy()
    for tensor, array in ((there(x), expected), (there(x).t(), expected.T)):
        assert np.abs(FORMULAS[name](tensor).cpu().numpy() - array).max() < 2e-6 * max(1, np.abs(array).max())
    with tp.profiler.profile() as profiler:
        FORMULAS[name](there(x))
    emitted = [event for event in profiler.events if event.kernel.startswith("emitted by")]
    assert {event.distribution for event in emitted} == {"tensorplay-vulkan"}


def test_a_shader_serves_every_number_shape_and_layout_of_as_many_dims(rng):
    x = there(rng.normal(size=(4, 6)).astype("float32"))
    F.softplus(x, beta=2.0)
    F.softplus(x.t()[1:], beta=2.0)
    pipelines = x._type.api.gpu._pipelines
    compiled = len(pipelines)
    for beta in (0.5, 3.0, 7.25):
        expected = np.log1p(np.exp(x.cpu().numpy().astype("float64") * beta)) / beta
        assert np.abs(F.softplus(x, beta=beta, threshold=1e9).cpu().numpy() - expected).max() < 1e-5
        F.softplus(x[:3, 1:], beta=beta)
    assert len(pipelines) == compiled


def test_in_place_and_out():
    x = there([1.0, 2.0, 3.0])
    view = x[1:]
    view.mul_(10).add_(1)
    assert x.tolist() == [1.0, 21.0, 31.0]
    x.relu_()
    tp.exp(there([0.0, 0.0, 0.0]), out=x)
    assert x.tolist() == [*view.tolist(), 1.0]
    x[1:].copy_(x[:2] + 1)
    assert x.tolist() == [1.0, 2.0, 2.0]
