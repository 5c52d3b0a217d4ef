"""Operators that are one line of ``math``: their values against mpmath, on every backend, and the gradients found.

mpmath computes with 50 digits what the textbook says. A value may be off by 4 units in the last place, times the
condition number: how much a change of the argument by one rounding changes it.
"""

from __future__ import annotations

import mpmath
import numpy as np
import pytest

import tensorplay as tp
from tensorplay_core.dispatch.keys import parse_key
from tensorplay_core.dispatch.registry import REGISTRY
from tensorplay_core.testing import force_slow_path

mpmath.mp.dps = 50
M = mpmath
SELU = (M.mpf("1.0507009873554804934193349852946"), M.mpf("1.6732632423543772848170429916717"))


def softplus(x):
    return x + M.log1p(M.exp(-x)) if x > 0 else M.log1p(M.exp(x))


REFERENCES = {
    "silu": lambda x: x / (1 + M.exp(-x)),
    "mish": lambda x: x * M.tanh(softplus(x)),
    "softsign": lambda x: x / (1 + abs(x)),
    "elu": lambda x: x if x > 0 else M.expm1(x),
    "selu": lambda x: SELU[0] * (x if x > 0 else SELU[1] * M.expm1(x)),
    "leaky_relu": lambda x: x if x > 0 else x * M.mpf(np.float32(0.01).item()),
    "hardsigmoid": lambda x: M.mpf(0) if x <= -3 else M.mpf(1) if x >= 3 else (x + 3) / 6,
    "hardswish": lambda x: M.mpf(0) if x <= -3 else x if x >= 3 else x * (x + 3) / 6,
    "softplus": lambda x: x if x > 20 else softplus(x),
    "square": lambda x: x * x,
    "reciprocal": lambda x: 1 / x,
    "rsqrt": lambda x: 1 / M.sqrt(x),
}
"""Operator to what it computes, for one number of mpmath."""
DOMAINS = {"reciprocal": lambda x: x != 0, "rsqrt": lambda x: x > 0}
ALONE = [name for name in REFERENCES if name != "softplus"]
"""Those with neither a kernel nor a derivative record."""
DEVICES = ("cpu", "loopback")


def function(name):
    return getattr(tp.nn.functional, name, None) or getattr(tp, name)


def points(name, count=400):
    rng = np.random.default_rng(7)
    spread = rng.standard_normal(count) * 10.0 ** rng.integers(-6, 4, count)
    corners = [
        0.0,
        1e-30,
        -1e-30,
        3.0,
        -3.0,
        20.0,
        20.5,
        88.0,
        -88.0,
        100.0,
        -100.0,
        1e6,
        -1e6,
        1e30,
        -1e30,
        -1.278,
        -1.1924,
    ]
    everything = np.concatenate([rng.uniform(-12, 12, count), spread, corners]).astype(np.float32)
    return np.array([x for x in everything if DOMAINS.get(name, lambda x: True)(x)])


def condition(reference, x, value):
    """``|x f'(x) / f(x)|``, from one side at a kink."""
    if not x or not value:
        return 1
    slope = M.diff(reference, x, direction=1 if x > 0 else -1)
    return max(1, abs(x * slope / value))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", REFERENCES)
def test_float32_is_within_4_ulp_times_the_condition_number(name, device):
    xs = points(name)
    got = function(name)(tp.tensor(xs.tolist(), device=device)).tolist()
    worst = 0
    for x, y in zip(xs, got, strict=True):
        exact = REFERENCES[name](M.mpf(x.item()))
        if abs(exact) >= M.mpf(2) ** 128 or 0 < abs(exact) < M.mpf(2) ** -126:
            continue  # beyond the normal numbers of float32
        ulp = M.mpf(np.spacing(np.float32(abs(exact))).item())
        error = abs(M.mpf(y) - exact) / ulp / condition(REFERENCES[name], M.mpf(x.item()), exact)
        worst = max(worst, error)
        assert error <= 4, f"{name}({x!r}) = {y!r}, exact {M.nstr(exact, 12)}: {M.nstr(error, 4)} ulp"
    print(f"{name} on {device}: {M.nstr(worst, 3)} ulp at most")


@pytest.mark.parametrize(
    ("device", "dtype"),
    [("cpu", tp.float16), ("cpu", tp.bfloat16), ("loopback", tp.float16)],
    ids=["cpu float16", "cpu bfloat16", "loopback float16"],
)
@pytest.mark.parametrize("name", REFERENCES)
def test_half_precisions_compute_in_float32_and_round_once(name, device, dtype):
    x = tp.tensor(points(name).tolist(), device=device).to(dtype)
    half, single = function(name)(x), function(name)(x.to(tp.float32))
    assert half.dtype is dtype
    assert repr(half.to(tp.float32).tolist()) == repr(single.to(dtype).to(tp.float32).tolist())


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", REFERENCES)
def test_nan_infinities_and_empty_tensors(name, device):
    f = function(name)
    assert np.isnan(f(tp.tensor(tp.nan, device=device)).item())
    assert f(tp.zeros(0, 3, device=device)).shape == (0, 3)
    right = {"softsign": np.nan, "hardsigmoid": 1.0, "reciprocal": 0.0, "rsqrt": 0.0}.get(name, np.inf)
    left = {
        "silu": np.nan, "mish": np.nan, "softsign": np.nan, "elu": -1.0, "selu": -1.7580993408473768, "softplus": 0.0,
        "hardsigmoid": 0.0, "hardswish": 0.0, "leaky_relu": -np.inf, "square": np.inf, "reciprocal": -0.0,
        "rsqrt": np.nan,
    }[name]  # fmt: skip
    got = f(tp.tensor([tp.inf, -tp.inf], dtype=tp.float64, device=device)).tolist()
    assert repr(got) == repr([right, left])


@pytest.mark.parametrize("name", REFERENCES)
def test_integers_become_floats_and_square_keeps_them(name):
    x = tp.tensor([1, 2, 3])
    y = function(name)(x)
    assert y.dtype is (tp.int64 if name == "square" else tp.float32)
    tp.testing.assert_close(y.to(tp.float64), function(name)(x.to(tp.float64)), rtol=1e-6, atol=0.0)


@pytest.mark.parametrize("name", ALONE)
def test_gradients_of_both_orders_against_mpmath(name):
    xs = [
        x for x in (-30.0, -6.5, -2.5, -1.0, -1e-3, 1e-3, 0.75, 2.5, 6.5, 30.0) if DOMAINS.get(name, lambda x: True)(x)
    ]
    x = tp.tensor(xs, dtype=tp.float64, requires_grad=True)
    (first,) = tp.autograd.grad(function(name)(x).sum(), x, create_graph=True)
    second = tp.autograd.grad(first.sum(), x)[0] if first.requires_grad else tp.zeros(len(xs))
    reference = REFERENCES[name] if name != "leaky_relu" else lambda x: x if x > 0 else x * M.mpf(0.01)
    for value, slope, bend in zip(xs, first.tolist(), second.tolist(), strict=True):
        for order, got in ((1, slope), (2, bend)):
            exact = M.diff(reference, M.mpf(value), order, h=M.mpf(10) ** -20)
            assert abs(got - exact) <= M.mpf("1e-13") * (1 + abs(value)) * max(abs(exact), M.mpf("1e-20")), (
                value,
                order,
            )


@pytest.mark.parametrize("name", ALONE)
def test_gradcheck_of_both_orders_on_several_shapes(name):
    for shape in ((), (3,), (2, 1, 2), (0, 2)):
        x = tp.rand(shape, dtype=tp.float64) + 0.5
        assert tp.autograd.gradcheck(function(name), [x.requires_grad_()])
        assert tp.autograd.gradgradcheck(function(name), [x])


@pytest.mark.parametrize("name", ["square", "reciprocal", "rsqrt"])
def test_gradients_of_complex_numbers(name):
    x = tp.tensor([1 + 2j, -0.5 + 0.25j], dtype=tp.complex128, requires_grad=True)
    assert tp.autograd.gradcheck(function(name), [x])
    assert tp.autograd.gradgradcheck(function(name), [x])


@pytest.mark.parametrize("name", [name for name in REFERENCES if name not in ("square", "reciprocal", "rsqrt")])
def test_activations_say_that_they_are_for_real_numbers(name):
    with pytest.raises(tp.DTypeError, match=f"{name}: takes real numbers, and the tensors are complex64"):
        function(name)(tp.tensor([1j]))


@pytest.mark.parametrize("name", ALONE)
def test_there_is_neither_a_kernel_nor_a_derivative_record(name):
    function(name)(tp.ones(1))  # loads the backends
    op = REGISTRY.find(name)
    assert op.math is not None and op.promises == {}
    kernels = [op.kernel_at(parse_key(key)) for key in ("CPU", "Composite")]
    assert all(kernel is not None and kernel.emitted for kernel in kernels)


@pytest.mark.parametrize("name", REFERENCES)
def test_in_place_out_meta_and_the_slow_path(name):
    x = tp.rand(3, 4) + 0.5
    expected = function(name)(x)
    with force_slow_path():
        assert function(name)(x).tolist() == expected.tolist()
    out = tp.empty(3, 4)
    with_out = REGISTRY.find(name).function  # the public ones of nn have inplace= in place of out=
    assert with_out is not None and with_out(x, out=out) is out and out.tolist() == expected.tolist()
    y = x.clone()
    write = (
        getattr(tp.Tensor, f"{name}_", None) or getattr(tp.nn.functional, f"{name}_", None) or getattr(tp, f"{name}_")
    )
    assert write(y) is y and y.tolist() == expected.tolist()
    on_meta = function(name)(tp.empty(3, 4, device="meta"))
    assert on_meta.shape == (3, 4) and on_meta.dtype is tp.float32


@pytest.mark.parametrize("name", REFERENCES)
def test_views_broadcasts_and_large_tensors_are_computed_alike(name):
    x = tp.rand(300, 700) + 0.5
    whole = function(name)(x)
    assert function(name)(x.transpose(0, 1)).tolist() == whole.transpose(0, 1).tolist()
    assert function(name)(x[::3, 5::2]).tolist() == whole[::3, 5::2].tolist()
    assert function(name)(x[:1].expand(4, 700)).tolist() == whole[:1].expand(4, 700).tolist()
