"""``tp.func`` and ``tp.vmap`` against JAX's transforms: thirty functions, a network, and every way to nest them.

Skipped, visibly, where jax is not installed.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

import tensorplay as tp

jax = pytest.importorskip("jax", reason="jax is not installed: pip install 'jax[cpu]', and these comparisons run")
import jax.numpy as jnp  # noqa: E402

pytestmark = pytest.mark.peers


class Ours:
    """TensorPlay by the names that the functions below use."""

    softmax = staticmethod(lambda x: tp.nn.functional.softmax(x, -1))
    logsumexp = staticmethod(lambda x: tp.logsumexp(x, -1))
    gelu = staticmethod(tp.nn.functional.gelu)
    silu = staticmethod(tp.nn.functional.silu)
    softplus = staticmethod(tp.nn.functional.softplus)
    solve, inv = staticmethod(tp.linalg.solve), staticmethod(tp.linalg.inv)
    det, cholesky = staticmethod(tp.linalg.det), staticmethod(tp.linalg.cholesky)
    cumsum = staticmethod(lambda x: tp.cumsum(x, 0))
    cumprod = staticmethod(lambda x: tp.cumprod(x, 0))
    sort = staticmethod(lambda x: tp.sort(x, 0)[0])
    stack, cat = staticmethod(lambda xs: tp.stack(xs)), staticmethod(lambda xs: tp.cat(xs))
    sigmoid = staticmethod(tp.sigmoid)
    erf = staticmethod(tp.special.erf)
    eye = staticmethod(lambda n: tp.eye(n, dtype=tp.float64))
    const = staticmethod(lambda a: tp.tensor(np.asarray(a).tolist(), dtype=tp.float64))
    take = staticmethod(lambda x, i: x[tp.tensor(i)])
    put = staticmethod(lambda x, i, v: tp.index_put(x, [tp.tensor(i)], v))

    def __getattr__(self, name):
        return getattr(tp, name)


class Theirs:
    """JAX by the same names."""

    softmax = staticmethod(lambda x: jax.nn.softmax(x, -1))
    logsumexp = staticmethod(lambda x: jax.scipy.special.logsumexp(x, -1))
    gelu = staticmethod(lambda x: jax.nn.gelu(x, approximate=False))
    silu, softplus, sigmoid = map(staticmethod, (jax.nn.silu, jax.nn.softplus, jax.nn.sigmoid))
    solve, inv = staticmethod(jnp.linalg.solve), staticmethod(jnp.linalg.inv)
    det, cholesky = staticmethod(jnp.linalg.det), staticmethod(jnp.linalg.cholesky)
    cumsum = staticmethod(lambda x: jnp.cumsum(x, 0))
    cumprod = staticmethod(lambda x: jnp.cumprod(x, 0))
    sort = staticmethod(lambda x: jnp.sort(x, 0))
    stack, cat = staticmethod(jnp.stack), staticmethod(jnp.concatenate)
    erf = staticmethod(jax.scipy.special.erf)
    eye = staticmethod(lambda n: jnp.eye(n, dtype=jnp.float64))
    const = staticmethod(lambda a: jnp.asarray(a, dtype=jnp.float64))
    take = staticmethod(lambda x, i: x[jnp.asarray(i)])
    put = staticmethod(lambda x, i, v: x.at[jnp.asarray(i)].set(v))

    def __getattr__(self, name):
        return getattr(jnp, name)


W = np.random.default_rng(1).normal(size=(3, 3))

FUNCTIONS = {
    "sin": lambda m, x: m.sin(x) * x,
    "exp of squares": lambda m, x: m.exp(-x * x),
    "quotient": lambda m, x: x / (1 + x * x),
    "sqrt": lambda m, x: m.sqrt(1 + x * x),
    "log": lambda m, x: m.log(2 + m.cos(x)),
    "powers": lambda m, x: (x * x + 1) ** 1.5,
    "tanh": lambda m, x: m.tanh(x) ** 3,
    "atan2": lambda m, x: m.arctan2(x, 2 + x * x) if hasattr(m, "arctan2") else m.atan2(x, 2 + x * x),
    "sigmoid": lambda m, x: m.sigmoid(x) * x,
    "erf": lambda m, x: m.erf(x),
    "gelu": lambda m, x: m.gelu(x),
    "silu": lambda m, x: m.silu(x),
    "softplus": lambda m, x: m.softplus(x),
    "softmax": lambda m, x: m.softmax(x),
    "logsumexp": lambda m, x: m.logsumexp(x) * x,
    "where": lambda m, x: m.where(x > 0, x * x, m.sin(x)),
    "maximum": lambda m, x: m.maximum(x, 0.1 * x * x),
    "abs": lambda m, x: m.abs(x) * x,
    "sum": lambda m, x: x.sum() * x,
    "prod": lambda m, x: m.prod(x) + x * 0,
    "mean and var": lambda m, x: (x - x.mean()) / m.sqrt(((x - x.mean()) ** 2).mean() + 0.1),
    "cumsum": lambda m, x: m.cumsum(x) * x,
    "cumprod": lambda m, x: m.cumprod(x),
    "sort": lambda m, x: m.sort(x) * x,
    "matmul": lambda m, x: m.const(W) @ m.tanh(m.const(W) @ x),
    "outer": lambda m, x: (x[:, None] * x[None, :]).sum(0) * x,
    "solve": lambda m, x: m.solve(m.eye(3) * 3 + x[:, None] * x[None, :], x),
    "inv": lambda m, x: (m.inv(m.eye(3) * 2 + x[:, None] * x[None, :]) * m.const(W)).sum(0),
    "det": lambda m, x: m.det(m.eye(3) * 2 + m.const(W) * x) * x,
    "cholesky": lambda m, x: m.cholesky(m.eye(3) * 2 + x[:, None] * x[None, :]).sum(0),
    "take and stack": lambda m, x: m.stack([m.take(x, [2, 0, 0]) * x, x]).sum(0),
    "put": lambda m, x: m.put(x * x, [1], x[0]) * x,
    "cat and slice": lambda m, x: m.cat([x[1:], x[:1] * x[2]]) * x,
}
X = np.array([0.7, -0.4, 1.3])
BATCH = np.stack([X, X * 0.5 + 0.3])  # no kink of a function in it
V = np.array([1.0, -2.0, 0.5])


def test_there_are_thirty_functions():
    assert len(FUNCTIONS) >= 30


@pytest.fixture(scope="module", autouse=True)
def wide():
    before = jax.config.read("jax_enable_x64")
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", before)


def ours(array):
    return tp.tensor(np.asarray(array).tolist(), dtype=tp.float64)


def check(found, wanted):
    found, wanted = found.detach().numpy(), np.asarray(wanted)
    assert found.shape == wanted.shape
    assert np.allclose(found, wanted, rtol=1e-9, atol=1e-9), np.abs(found - wanted).max()


def both(name):
    function = FUNCTIONS[name]
    return (lambda x: function(Ours(), x)), (lambda x: function(Theirs(), jnp.asarray(x)))


ALL = pytest.mark.parametrize("name", list(FUNCTIONS))


@ALL
def test_jacobians(name):
    f, g = both(name)
    wanted = jax.jacrev(g)(X)
    check(f(ours(X)), g(X))
    check(tp.func.jacrev(f)(ours(X)), wanted)
    check(tp.func.jacfwd(f)(ours(X)), wanted)
    batch = jax.vmap(jax.jacrev(g))(BATCH)
    check(tp.vmap(tp.func.jacrev(f))(ours(BATCH)), batch)
    check(tp.vmap(tp.func.jacfwd(f))(ours(BATCH)), batch)


@ALL
def test_products(name):
    f, g = both(name)
    for found, wanted in zip(tp.func.jvp(f, (ours(X),), (ours(V),)), jax.jvp(g, (X,), (V,)), strict=True):
        check(found, wanted)
    check(tp.func.vjp(f, ours(X))[1](ours(V))[0], jax.vjp(g, X)[1](V)[0])
    check(tp.func.linearize(f, ours(X))[1](ours(V)), jax.linearize(g, X)[1](V))
    check(
        tp.vmap(lambda x: tp.func.jvp(f, (x,), (ours(V),))[1])(ours(BATCH)),
        jax.vmap(lambda x: jax.jvp(g, (x,), (V,))[1])(BATCH),
    )
    check(
        tp.vmap(lambda x: tp.func.vjp(f, x)[1](ours(V))[0])(ours(BATCH)),
        jax.vmap(lambda x: jax.vjp(g, x)[1](V)[0])(BATCH),
    )


@ALL
def test_second_derivatives_in_every_order(name):
    f, g = both(name)
    F = tp.func
    wanted = jax.jacfwd(jax.jacrev(g))(X)
    for outer in (F.jacfwd, F.jacrev):
        for inner in (F.jacfwd, F.jacrev):
            check(outer(inner(f))(ours(X)), wanted)
    check(F.hessian(f)(ours(X)), wanted)
    check(tp.vmap(F.hessian(f))(ours(BATCH)), jax.vmap(jax.hessian(g))(BATCH))
    check(
        F.grad(lambda b: tp.vmap(lambda x: F.jvp(f, (x,), (ours(V),))[1].sum())(b).sum())(ours(BATCH)),
        jax.grad(lambda b: jax.vmap(lambda x: jax.jvp(g, (x,), (V,))[1].sum())(b).sum())(BATCH),
    )


def test_a_network_of_three_layers():
    rng = np.random.default_rng(0)
    sizes = (4, 6, 5, 2)
    layers = [(rng.normal(size=pair), rng.normal(size=pair[1])) for pair in pairwise(sizes)]
    x, y = rng.normal(size=(7, 4)), rng.normal(size=(7, 2))

    def loss(m, params, x, y):
        for i, (w, b) in enumerate(params):
            x = x @ w + b
            x = m.tanh(x) if i < 2 else x
        return ((x - y) ** 2).mean()

    here = [(ours(w), ours(b)) for w, b in layers]
    f, g = (lambda p, x, y: loss(Ours(), p, x, y)), (lambda p, x, y: loss(Theirs(), p, x, y))
    found, wanted = tp.func.hessian(f)(here, ours(x), ours(y)), jax.hessian(g)(layers, x, y)
    for a, b in zip(tp_leaves(found), jax.tree_util.tree_leaves(wanted), strict=True):
        check(a, b)
    samples = tp.vmap(tp.func.grad(f), (None, 0, 0))(here, ours(x), ours(y))
    theirs = jax.vmap(jax.grad(g), (None, 0, 0))(layers, x, y)
    for a, b in zip(tp_leaves(samples), jax.tree_util.tree_leaves(theirs), strict=True):
        check(a, b)


def tp_leaves(tree):
    if isinstance(tree, tp.Tensor):
        return [tree]
    return [leaf for item in tree for leaf in tp_leaves(item)]
