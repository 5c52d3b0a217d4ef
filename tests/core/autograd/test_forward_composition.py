"""Forward mode over reverse mode and the other way round: both give products with the Hessian."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tensorplay as tp

fwAD = tp.autograd.forward_ad


def rosenbrock(x: tp.Tensor) -> tp.Tensor:
    return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


def rosenbrock_hessian(x: np.ndarray) -> np.ndarray:
    hessian = np.zeros((len(x), len(x)))
    for i in range(len(x) - 1):
        hessian[i, i] += 1200 * x[i] ** 2 - 400 * x[i + 1] + 2
        hessian[i, i + 1] -= 400 * x[i]
        hessian[i + 1, i] -= 400 * x[i]
        hessian[i + 1, i + 1] += 200
    return hessian


def softmax_energy(x: tp.Tensor) -> tp.Tensor:
    y = tp.softmax(x, 0)
    return (y * y).sum()


def softmax_energy_hessian(x: np.ndarray) -> np.ndarray:
    p = np.exp(x) / np.exp(x).sum()
    s, eye = (p * p).sum(), np.eye(len(x))
    jacobian = np.diag(p) - np.outer(p, p)  # of p; the gradient is 2 (p * p - s p)
    return 2 * (2 * np.diag(p) - s * eye - np.outer(p, 2 * p)) @ jacobian


def written(x: tp.Tensor) -> tp.Tensor:
    """The sum of exp(x * x), by writes."""
    y = x * 1
    y.mul_(x)
    y.exp_()
    return y.sum()


def written_hessian(x: np.ndarray) -> np.ndarray:
    return np.diag((2 + 4 * x * x) * np.exp(x * x))


FUNCTIONS: dict[str, tuple[Callable[[tp.Tensor], tp.Tensor], Callable[[np.ndarray], np.ndarray]]] = {
    "rosenbrock": (rosenbrock, rosenbrock_hessian),
    "softmax": (softmax_energy, softmax_energy_hessian),
    "writes": (written, written_hessian),
    "a power": (lambda x: (x**3).sum(), lambda x: np.diag(6 * x)),
    "a saved result": (lambda x: (x.exp() * x).sum(), lambda x: np.diag((2 + x) * np.exp(x))),
    "the largest element": (lambda x: (x * x).max(), lambda x: np.diag(2.0 * (x * x == (x * x).max()))),
}
POINT, DIRECTION = np.array([0.3, -0.8, 1.1]), np.array([1.0, 2.0, -0.5])


def forward_over_reverse(function: Callable[[tp.Tensor], tp.Tensor], **how: Any) -> Any:
    x = tp.tensor(POINT, requires_grad=True)
    with fwAD.dual_level():
        y = function(fwAD.make_dual(x, tp.tensor(DIRECTION)))
        (gradient,) = tp.autograd.grad(y, x, **how)
        return fwAD.unpack_dual(gradient).tangent.tolist()


def reverse_over_forward(function: Callable[[tp.Tensor], tp.Tensor]) -> Any:
    x = tp.tensor(POINT, requires_grad=True)
    with fwAD.dual_level():
        slope = fwAD.unpack_dual(function(fwAD.make_dual(x, tp.tensor(DIRECTION)))).tangent
        return tp.autograd.grad(slope, x)[0].tolist()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_products_with_the_hessian(name: str) -> None:
    function, hessian = FUNCTIONS[name]
    expected = pytest.approx((hessian(POINT) @ DIRECTION).tolist(), rel=1e-10, abs=1e-12)
    assert forward_over_reverse(function) == expected
    assert forward_over_reverse(function, create_graph=True) == expected
    assert reverse_over_forward(function) == expected


def test_a_stored_gradient_has_a_tangent_too() -> None:
    x = tp.tensor([1.0, 2.0], requires_grad=True)
    with fwAD.dual_level():
        (fwAD.make_dual(x, tp.tensor([3.0, 4.0])) ** 3).sum().backward()
        assert fwAD.unpack_dual(x.grad).tangent.tolist() == [18.0, 48.0]
        (fwAD.make_dual(x, tp.tensor([3.0, 4.0])) ** 3).sum().backward()
        assert fwAD.unpack_dual(x.grad).tangent.tolist() == [36.0, 96.0]


def test_the_gradient_that_a_pass_starts_with_may_be_dual() -> None:
    x = tp.tensor([1.0, 2.0], requires_grad=True)
    with fwAD.dual_level():
        start = fwAD.make_dual(tp.ones(2), tp.tensor([5.0, 7.0]))
        assert fwAD.unpack_dual(tp.autograd.grad(x * x, x, start)[0]).tangent.tolist() == [10.0, 28.0]


def test_gradients_flow_to_the_tangent() -> None:
    v = tp.tensor([1.0, 2.0], requires_grad=True)
    with fwAD.dual_level():
        d = fwAD.make_dual(tp.tensor([3.0, 4.0]), v)
        slope = fwAD.unpack_dual((d * d).sum()).tangent
    slope.backward()
    assert v.grad.tolist() == [6.0, 8.0]


def test_a_tangent_requires_grad_only_where_something_does() -> None:
    with fwAD.dual_level():
        d = fwAD.make_dual(tp.tensor([3.0, 4.0]), tp.ones(2))
        for y in (d * d, d.max(), d.reshape(1, 2), tp.cat([d, d])):
            assert not y.requires_grad and not fwAD.unpack_dual(y).tangent.requires_grad
        x = fwAD.make_dual(tp.tensor([3.0, 4.0], requires_grad=True), tp.ones(2))
        with tp.no_grad():
            assert not fwAD.unpack_dual(x * x).tangent.requires_grad
            assert not fwAD.unpack_dual(x.max()).tangent.requires_grad


def test_a_backward_pass_after_the_level_has_no_tangents() -> None:
    x = tp.tensor([1.0, 2.0], requires_grad=True)
    with fwAD.dual_level():
        y = (fwAD.make_dual(x, tp.ones(2)) ** 2).exp().sum()
    (gradient,) = tp.autograd.grad(y, x)
    assert gradient.tolist() == pytest.approx([2 * np.e, 4 * np.exp(4)])
    with fwAD.dual_level():
        assert fwAD.unpack_dual(gradient).tangent is None


def test_saved_tensor_hooks_and_tangents_go_together() -> None:
    x = tp.tensor(POINT, requires_grad=True)
    with fwAD.dual_level():
        with tp.autograd.graph.saved_tensors_hooks(lambda t: t.numpy().copy(), lambda a: tp.tensor(a)):
            y = (fwAD.make_dual(x, tp.tensor(DIRECTION)).exp() ** 2).sum()
        found = fwAD.unpack_dual(tp.autograd.grad(y, x)[0]).tangent
    assert found.tolist() == pytest.approx((4 * np.exp(2 * POINT) * DIRECTION).tolist())


def test_complex_functions_compose() -> None:
    z, v = np.array([0.3 + 0.4j]), np.array([2.0 - 1.0j])
    x = tp.tensor(z, requires_grad=True)
    with fwAD.dual_level():
        y = (fwAD.make_dual(x, tp.tensor(v)) ** 3).real().sum()
        found = fwAD.unpack_dual(tp.autograd.grad(y, x)[0]).tangent.tolist()
    assert found == pytest.approx((6 * z * v).conj().tolist())  # the gradient is the conjugate of 3 z²


# views and writes: the product with the Hessian three ways


def parts(x: tp.Tensor) -> tp.Tensor:
    y = x * 1
    y[0].mul_(y[1].clone())
    y[1:] = y[1:].clone() ** 2
    return (y**2).sum()


def transposed_view(x: tp.Tensor) -> tp.Tensor:
    y = (x * 2).reshape(1, 3)
    z = y.t()
    z[1] = x[0] * x[2]
    y.exp_()
    return (y * z.reshape(1, 3)).sum()


def indexed(x: tp.Tensor) -> tp.Tensor:
    y = tp.zeros(3, dtype=tp.float64)
    y[tp.tensor([2, 0])] = x[:2] * x[1:]
    y[tp.tensor([False, True, False])] += x[1]
    return (y**3).sum()


def several(x: tp.Tensor) -> tp.Tensor:
    a, b, c = x.unbind(0)
    return (tp.softmax(tp.stack([a * b, b * c, c * a]), 0) * x).sum()


def base_and_view(x: tp.Tensor) -> tp.Tensor:
    y = x.clone()
    view = y[:2]
    y.add_(y.clone() ** 2)
    view.mul_(3)
    return (view * y[1:]).sum() + y.max()


@pytest.mark.parametrize("function", [parts, transposed_view, indexed, several, base_and_view])
def test_programs_of_views_and_writes(function: Callable[[tp.Tensor], tp.Tensor]) -> None:
    x = tp.tensor(POINT, requires_grad=True)
    (gradient,) = tp.autograd.grad(function(x), x, create_graph=True)
    expected = pytest.approx(tp.autograd.grad(gradient, x, tp.tensor(DIRECTION))[0].tolist(), rel=1e-10, abs=1e-12)
    assert forward_over_reverse(function) == expected
    assert reverse_over_forward(function) == expected
