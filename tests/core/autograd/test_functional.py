"""``autograd.functional``: derivatives that have a closed form, in every shape of inputs and outputs."""

from __future__ import annotations

import math

import pytest

import tensorplay as tp
from tensorplay.autograd import functional as F


def tensor(data):
    return tp.tensor(data, dtype=tp.float64)


X, Y = tensor([1.0, 2.0]), tensor([3.0, 4.0, 0.5])
STRATEGIES = ("reverse-mode", "forward-mode")


def outer(x, y):
    return x.unsqueeze(1) * y


def cubes(x):
    return (x * x * x).sum()


def mixed(x, y):
    return (x * x).sum() * y.sum()


def listed(value):
    return tuple(map(listed, value)) if isinstance(value, tuple) else value.tolist()


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_jacobian(strategy):
    assert F.jacobian(lambda x: x * x, X, strategy=strategy).tolist() == [[2.0, 0.0], [0.0, 4.0]]
    by_x, by_y = F.jacobian(outer, (X, Y), strategy=strategy)
    assert by_x.shape == (2, 3, 2) and by_y.shape == (2, 3, 3)
    assert by_x[1].tolist() == [[0.0, 3.0], [0.0, 4.0], [0.0, 0.5]]
    assert by_y[0].tolist() == [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    several = F.jacobian(lambda x: (x.sum(), x * 3), X, strategy=strategy)
    assert listed(several) == ([1.0, 1.0], [[3.0, 0.0], [0.0, 3.0]])
    nested = F.jacobian(lambda x, y: (x.sum(), y.sum()), (X, Y), strategy=strategy, vectorize=True)
    assert listed(nested) == (([1.0, 1.0], [0.0] * 3), ([0.0] * 2, [1.0] * 3))


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_jacobian_of_0d_and_empty_tensors(strategy):
    assert F.jacobian(lambda x: x * x, tensor(3.0), strategy=strategy).item() == 6.0
    empty = F.jacobian(lambda x: x * 2, tensor([]), strategy=strategy)
    assert empty.shape == (0, 0) and empty.dtype is tp.float64
    assert F.jacobian(lambda x: x[:0], X, strategy=strategy).shape == (0, 2)


def test_a_complex_jacobian_is_that_of_conjugate_gradients():
    z = tp.tensor([1 + 2j], dtype=tp.complex128)
    assert F.jacobian(lambda z: z * z, z).tolist() == [[2 - 4j]]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_hessian(strategy):
    options = {"outer_jacobian_strategy": strategy}
    assert F.hessian(cubes, X, **options).tolist() == [[6.0, 0.0], [0.0, 12.0]]
    (xx, xy), (yx, yy) = F.hessian(mixed, (X, Y), **options)
    assert xx.tolist() == [[15.0, 0.0], [0.0, 15.0]]
    assert xy.tolist() == [[2.0] * 3, [4.0] * 3]
    assert yx.tolist() == [[2.0, 4.0]] * 3
    assert yy.tolist() == [[0.0] * 3] * 3
    assert F.hessian(lambda x: (x * x * x).reshape(1, 1), tensor([2.0]), **options).tolist() == [[12.0]]


def test_products_with_vectors():
    v, w = tensor([1.0, 10.0]), tensor([1.0, 2.0, 3.0])
    value, product = F.vjp(lambda x: x * x, X, v)
    assert (value.tolist(), product.tolist()) == ([1.0, 4.0], [2.0, 40.0])
    for strategy in STRATEGIES:
        value, product = F.jvp(outer, (X, Y), (v, w), strategy=strategy)
        assert product.tolist() == [[v[i].item() * y + x * u for y, u in zip(Y.tolist(), w.tolist(), strict=True)]
                                    for i, x in enumerate(X.tolist())]  # fmt: skip
    for product in (F.vhp, F.hvp):
        value, (by_x, by_y) = product(mixed, (X, Y), (v, w))
        assert value.item() == 37.5
        assert by_x.tolist() == [15 * 1.0 + 2 * 6.0, 15 * 10.0 + 4 * 6.0]
        assert by_y.tolist() == [2.0 + 40.0] * 3


def test_vectors_of_one_element_are_implied():
    assert F.vjp(cubes, X)[1].tolist() == [3.0, 12.0]
    assert F.jvp(cubes, tensor([2.0]))[1].item() == 12.0
    assert F.hvp(cubes, tensor([2.0]))[1].tolist() == [12.0]


def test_results_have_a_graph_only_when_asked():
    x = X.detach().requires_grad_()
    for make in (
        lambda **k: F.jacobian(lambda x: x * x, x, **k),
        lambda **k: F.hessian(cubes, x, **k),
        lambda **k: F.vjp(lambda x: x * x, x, X, **k)[1],
        lambda **k: F.jvp(lambda x: x * x, x, X, **k)[1],
        lambda **k: F.hvp(cubes, x, X, **k)[1],
        lambda **k: F.vhp(cubes, x, X, **k)[1],
    ):
        assert not make().requires_grad
        assert make(create_graph=True).requires_grad
    assert x.grad is None
    (g,) = tp.autograd.grad(F.hessian(cubes, x, create_graph=True).sum(), x)
    assert g.tolist() == [6.0, 6.0]


def test_what_the_function_closes_over_is_not_its_argument():
    x = X.detach().requires_grad_()
    assert F.jacobian(lambda y: y * x, x).tolist() == [[1.0, 0.0], [0.0, 2.0]]


def test_no_grad_outside_does_not_matter():
    with tp.no_grad():
        assert F.hessian(cubes, X).tolist() == [[6.0, 0.0], [0.0, 12.0]]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: F.jacobian(lambda x: tensor(2.0), X, strict=True), "output 0 of the function does not depend on its"),
        (
            lambda: F.jacobian(lambda x, y: x * 2, (X, Y), strict=True),
            "does not depend on input 1, which strict forbids",
        ),
        (lambda: F.hessian(lambda x: x.sum(), X, strict=True), "the gradient does not depend on the inputs"),
        (lambda: F.jvp(cubes, X, strict=True, v=X, strategy="forward-mode"), "cannot tell a zero from no dependence"),
        (lambda: F.hessian(lambda x: x * x, X), r"must return a single tensor of one element, and returned \(2,\)"),
        (lambda: F.vhp(lambda x: (x.sum(), x.sum()), X, X), "must return a single tensor of one element"),
        (
            lambda: F.jvp(cubes, X),
            "v can be left out only where the function's input is a single tensor of one element",
        ),
        (lambda: F.jvp(cubes, X, tensor([1.0])), r"v has shape \(1,\), and the function's input \(2,\)"),
        (lambda: F.jvp(outer, (X, Y), (X, X)), "entry 1 of v has shape"),
        (lambda: F.vjp(outer, (X, Y), (X, X)), "v has 2 tensors, and the function's result 1"),
    ],
)
def test_what_cannot_be_computed_is_said(call, message):
    with pytest.raises(tp.AutogradError, match=message):
        call()


def test_wrong_arguments():
    with pytest.raises(tp.ArgumentError, match="jacobian: the inputs must be a Tensor or a tuple of Tensors, not list"):
        F.jacobian(cubes, [X])
    with pytest.raises(tp.ArgumentError, match="not float at index 1"):
        F.vjp(cubes, (X, 1.0))
    with pytest.raises(tp.ArgumentError, match="hessian: the outputs of the user-provided function"):
        F.hessian(lambda x: 3.0, X)
    with pytest.raises(tp.ValueRangeError, match="'reverse-mode' or 'forward-mode', not 'fast'"):
        F.jacobian(cubes, X, strategy="fast")


def test_a_zero_is_given_where_nothing_depends():
    assert F.jacobian(lambda x: tensor([1.0]), X).tolist() == [[0.0, 0.0]]
    assert F.jvp(lambda x: tensor(2.0), X, X)[1].item() == 0.0
    assert F.hvp(lambda x: x.sum(), X, X)[1].tolist() == [0.0, 0.0]


def test_a_third_derivative():
    def second(x):
        return F.hessian(lambda y: y.exp().sum(), x, create_graph=True).sum()

    found = F.jacobian(second, tensor([0.5]))
    assert found.item() == pytest.approx(math.exp(0.5), rel=1e-14)


@pytest.mark.parametrize("name", ["jacobian", "hessian"])
def test_an_integer_input_has_no_derivative(name):
    with pytest.raises(RuntimeError, match=r"input 0 is int64.*\nfix: convert it"):
        getattr(tp.autograd.functional, name)(lambda x: (x * 2.0).sum(), tp.tensor([1, 2]))
