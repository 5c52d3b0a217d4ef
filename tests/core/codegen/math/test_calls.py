"""Operators of a few lines of ``math``, generated and called: values and gradients of both orders against mpmath.

Each stands for a kind of formula whose derivative once went wrong.
"""

from __future__ import annotations

import math

import mpmath
import pytest

import tensorplay as tp
from tensorplay_core.testing import force_slow_path

M = mpmath

FORMULAS = {
    "power(Tensor self, Scalar p=3)": ("self ** p", lambda x: x**3),
    "root(Tensor self)": ("(1 + self * self) ** (1 / 3)", lambda x: M.cbrt(1 + x * x)),
    "exp2(Tensor self)": ("2 ** self", lambda x: M.mpf(2) ** x),
    "base(Tensor self, Scalar b=3)": ("b ** self", lambda x: M.mpf(3) ** x),
    "gelu_sigmoid(Tensor self)": (
        "self * sigmoid(sqrt(8 / pi) * self)",
        lambda x: x / (1 + M.exp(-M.sqrt(8 / M.pi) * x)),
    ),
    "always(Tensor self)": ("where(1 < 2, self * self, nan)", lambda x: x * x),
    "named(Tensor result)": ("exp(result) * result", lambda x: M.exp(x) * x),
    "rational(Tensor self)": ("self / (1 + self * self)", lambda x: x / (1 + x * x)),
    "huber(Tensor self)": (
        "where(abs(self) < 1, self * self / 2, abs(self) - 0.5)",
        lambda x: x * x / 2 if abs(x) < 1 else abs(x) - M.mpf(0.5),
    ),
    "mish_again(Tensor self)": (
        "self * tanh(where(self > 20, self, log1p(exp(self))))",
        lambda x: x * M.tanh(M.log1p(M.exp(x))),
    ),
    "quotient(Tensor self)": ("exp(self) * (1 / 3)", lambda x: M.exp(x) / 3),
}  # fmt: skip


@pytest.fixture
def functions(package):
    records = [
        f'- func: calls::{schema} -> Tensor\n  math: "{text}"\n  tags: real' for schema, (text, _) in FORMULAS.items()
    ]
    return package("\n".join(records))


def test_values_and_gradients_of_both_orders(functions):
    xs = [-7.5, -2.25, -0.3125, 0.4375, 2.5, 11.0]
    for schema, (text, reference) in FORMULAS.items():
        function = getattr(functions, schema.partition("(")[0])
        x = tp.tensor(xs, dtype=tp.float64, requires_grad=True)
        value = function(x)
        (slope,) = tp.autograd.grad(value.sum(), x, create_graph=True)
        (bend,) = tp.autograd.grad(slope.sum(), x) if slope.requires_grad else (tp.zeros(len(xs)),)
        for order, got in enumerate((value.tolist(), slope.tolist(), bend.tolist())):
            exact = [
                float(M.diff(reference, M.mpf(at), order, h=M.mpf(10) ** -10)) if order else float(reference(M.mpf(at)))
                for at in xs
            ]
            assert got == pytest.approx(exact, rel=1e-9, abs=1e-12), (text, order)
        with force_slow_path():
            assert function(x).tolist() == value.tolist()
        other = function(x.detach().to("loopback")).tolist()
        assert other == pytest.approx(value.tolist(), rel=1e-14)


def test_gradients_in_the_tails_of_float32_are_numbers(functions):
    tails = [-1e38, -1e30, -1000.0, 1000.0, 1e30, 1e38]
    for name, slopes in {
        "rational": [0.0] * 6,
        "huber": [-1.0] * 3 + [1.0] * 3,
        "mish_again": [0.0] * 3 + [1.0] * 3,
    }.items():
        x = tp.tensor(tails, requires_grad=True)
        (slope,) = tp.autograd.grad(getattr(functions, name)(x).sum(), x)
        assert slope.tolist() == pytest.approx(slopes, abs=1e-5), name


def test_an_exponent_of_zero_has_a_gradient_of_zero(functions):
    x = tp.tensor([0.0, 2.0], requires_grad=True)
    (slope,) = tp.autograd.grad(functions.power(x, 0).sum(), x)
    assert slope.tolist() == [0.0, 0.0]
    (slope,) = tp.autograd.grad(functions.power(x, 1).sum(), x)
    assert slope.tolist() == [1.0, 1.0]
    (slope,) = tp.autograd.grad(functions.base(x, 0.5).sum(), x)
    assert slope.tolist() == pytest.approx([math.log(0.5), math.log(0.5) / 4])


def test_several_results_on_every_device(package):
    functions = package(
        "- func: calls::polar(Tensor r, Tensor phi) -> (Tensor x, Tensor y)\n"
        "  math: [r * cos(phi), r * sin(phi)]\n  tags: real\n"
        "- func: calls::part(Tensor self, Tensor other) -> (Tensor, Tensor)\n  math: [self, 1]"
    )
    for device in ("cpu", "loopback"):
        r, phi = tp.ones(2, 1, device=device), tp.tensor([0.0, 1.0, 2.0], device=device)
        for found, expected in zip(functions.polar(r, phi), (math.cos, math.sin), strict=True):
            assert found.shape == (2, 3)
            for row in found.tolist():
                assert row == pytest.approx([expected(angle) for angle in (0.0, 1.0, 2.0)], rel=1e-6)
    for found in functions.polar(tp.empty(2, 1, device="meta"), tp.empty(3, device="meta")):
        assert (found.shape, found.dtype) == ((2, 3), tp.float32)
    a, b = tp.ones(2, requires_grad=True), tp.ones(3, 1, requires_grad=True)
    first, second = functions.part(a, b)
    assert first.shape == second.shape == (3, 2)
    (first.sum() + second.sum()).backward()
    assert a.grad.tolist() == [3.0, 3.0] and b.grad.tolist() == [[0.0]] * 3


def test_a_formula_without_an_input_is_a_constant_of_that_shape(package):
    functions = package(
        "- func: calls::truth(Tensor self) -> Tensor\n  math: elu(1) > 0\n  tags: real\n"
        "- func: calls::third(Tensor self) -> Tensor\n  math: 1 / 3\n  tags: real"
    )
    for device in ("cpu", "loopback"):
        x = tp.ones(2, 3, device=device)
        assert functions.truth(x).dtype is tp.bool and functions.truth(x).tolist() == [[True] * 3] * 2
        assert functions.third(x).tolist() == [[pytest.approx(1 / 3, rel=1e-7)] * 3] * 2
