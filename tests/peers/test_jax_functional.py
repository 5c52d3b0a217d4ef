"""``autograd.functional`` against JAX: Hessians and products with Jacobians of ten functions, in float64.

Skipped, visibly, where jax is not installed. Both sides are the same Python function of a module: ``tensorplay`` or
``jax.numpy`` behind a few names that the two spell alike.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensorplay as tp
from tensorplay.autograd import functional as F

jax = pytest.importorskip("jax", reason="jax is not installed: pip install 'jax[cpu]', and these comparisons run")
import jax.numpy as jnp  # noqa: E402

pytestmark = pytest.mark.peers

RTOL = 1e-12
A = np.array([[1.0, 0.5, -0.25], [0.0, 2.0, 1.5], [-1.0, 0.75, 0.5]])
X = np.array([0.5, -1.25, 2.0])
V = np.array([1.0, -2.0, 0.5])


def logsumexp(m, x):
    return m.log(m.sum(m.exp(x)))


FUNCTIONS: dict[str, Any] = {
    "quadratic form": lambda m, x, a: m.sum(x * m.matmul(a, x)),
    "cubes and products": lambda m, x, a: m.sum(x * x * x) + x[0] * x[1] * x[2],
    "logsumexp": lambda m, x, a: logsumexp(m, m.matmul(a, x)),
    "a layer": lambda m, x, a: m.sum(m.tanh(m.matmul(a, x))),
    "two layers": lambda m, x, a: m.sum(m.square(m.matmul(a, m.tanh(m.matmul(a, x))))),
    "exponential of a square": lambda m, x, a: m.exp(-m.sum(x * x)),
    "a quotient": lambda m, x, a: m.sum(x) / (1 + m.sum(x * x)),
    "rosenbrock": lambda m, x, a: m.sum(100 * m.square(x[1:] - m.square(x[:-1])) + m.square(1 - x[:-1])),
    "sine of powers": lambda m, x, a: m.sum(m.sin(x**2) * m.cos(x)),
    "norm": lambda m, x, a: m.sqrt(m.sum(m.square(m.matmul(a, x))) + 1),
}
"""Name to a function of a module, a vector and a matrix; each gives one number."""


@pytest.fixture(scope="module", autouse=True)
def wide():
    """JAX with 64-bit numbers, as it does not start."""
    before = jax.config.read("jax_enable_x64")
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", before)


def ours(name):
    a = tp.tensor(A.tolist(), dtype=tp.float64)
    return lambda x: FUNCTIONS[name](tp, x, a)


def theirs(name):
    return lambda x: FUNCTIONS[name](jnp, x, jnp.asarray(A))


def tensor(array):
    return tp.tensor(array.tolist(), dtype=tp.float64)


def close(found, wanted):
    np.testing.assert_allclose(found.numpy(), np.asarray(wanted), rtol=RTOL, atol=1e-12)


@pytest.mark.parametrize("strategy", ["reverse-mode", "forward-mode"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_hessians(name, strategy):
    found = F.hessian(ours(name), tensor(X), outer_jacobian_strategy=strategy)
    close(found, jax.hessian(theirs(name))(X))


@pytest.mark.parametrize("strategy", ["reverse-mode", "forward-mode"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_products_of_the_jacobian_with_a_vector(name, strategy):
    value, product = F.jvp(ours(name), tensor(X), tensor(V), strategy=strategy)
    wanted_value, wanted = jax.jvp(theirs(name), (X,), (V,))
    close(value, wanted_value)
    close(product, wanted)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_products_of_the_hessian_with_a_vector(name):
    wanted = jax.jvp(jax.grad(theirs(name)), (X,), (V,))[1]
    for product in (F.hvp, F.vhp):
        close(product(ours(name), tensor(X), tensor(V))[1], wanted)


@pytest.mark.parametrize("strategy", ["reverse-mode", "forward-mode"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_jacobians_of_the_gradient(name, strategy):
    def gradient(x):
        return F.vjp(ours(name), x, create_graph=True)[1]

    found = F.jacobian(gradient, tensor(X).requires_grad_(), strategy=strategy)
    close(found, jax.jacobian(jax.grad(theirs(name)))(X))
