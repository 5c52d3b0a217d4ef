"""``jacrev``, ``jacfwd``, ``hessian``: closed forms, nested arguments and results, and every way to nest them."""

from __future__ import annotations

import numpy as np
import pytest

import tensorplay as tp
from tensorplay.func import grad, hessian, jacfwd, jacrev, vmap

X, W = np.array([0.5, 1.0, 2.0]), np.array([[1.0, 2.0, 0.5], [0.0, 1.0, -1.0]])
BOTH = pytest.mark.parametrize("jacobian", [jacrev, jacfwd])


def tensor(values=X):
    return tp.tensor(np.asarray(values).tolist(), dtype=tp.float64)


def close(found, wanted):
    assert found.shape == np.shape(wanted) and np.allclose(found.detach().numpy(), wanted, rtol=1e-12, atol=1e-12)


@BOTH
def test_of_one_argument(jacobian):
    close(jacobian(tp.sin)(tensor()), np.diag(np.cos(X)))
    close(jacobian(tp.sin)(tensor(0.3)), np.cos(0.3))
    close(jacobian(lambda x: tensor(W) @ x)(tensor()), W)
    close(jacobian(lambda x: x.sum())(tensor()), np.ones(3))
    close(jacobian(lambda x: x * tensor(X))(tensor(2.0)), X)
    assert jacobian(lambda x: x[:0])(tensor()).shape == (0, 3)
    assert jacobian(lambda x: x * 2)(tensor(np.zeros(0))).shape == (0, 0)
    assert jacobian(lambda w: w @ tensor())(tensor(W)).shape == (2, 2, 3)


@BOTH
def test_several_arguments_and_nested_results(jacobian):
    def function(w, tree):
        return {"y": w @ tree["x"], "z": [tree["x"] * 2]}, "aux"

    found, aux = jacobian(function, (0, 1), has_aux=True)(tensor(W), {"x": tensor()})
    assert aux == "aux"
    by_w, by_tree = found["y"]
    close(by_w, np.einsum("ij,k->ijk", np.eye(2), X))
    close(by_tree["x"], W)
    close(found["z"][0][0], np.zeros((3, 2, 3)))
    close(found["z"][0][1]["x"], 2 * np.eye(3))


@BOTH
@pytest.mark.parametrize("chunk_size", [1, 2, 7])
def test_chunks(jacobian, chunk_size):
    close(jacobian(tp.sin, chunk_size=chunk_size)(tensor()), np.diag(np.cos(X)))


@pytest.mark.parametrize("outer", [jacrev, jacfwd])
@pytest.mark.parametrize("inner", [jacrev, jacfwd, grad])
def test_second_derivatives_whichever_way(outer, inner):
    def function(x):
        return (x.sin() * x.roll(1)).sum()

    def by_hand(x):
        second = np.diag(-np.sin(x) * np.roll(x, 1))
        for i in range(3):
            second[i, (i - 1) % 3] += np.cos(x[i])
            second[(i - 1) % 3, i] += np.cos(x[i])
        return second

    close(outer(inner(function))(tensor()), by_hand(X))
    close(vmap(outer(inner(function)))(tensor([X, X + 1])), np.stack([by_hand(X), by_hand(X + 1)]))
    third = outer(outer(inner(function)))(tensor())
    assert third.shape == (3, 3, 3)
    for axes in ((1, 0, 2), (0, 2, 1), (2, 1, 0)):
        close(third, third.numpy().transpose(axes))


def test_hessian():
    close(hessian(lambda x: (x**3).sum())(tensor()), np.diag(6 * X))
    blocks = hessian(lambda x, y: (x * y).sum(), (0, 1))(tensor(), tensor())
    close(blocks[0][1], np.eye(3))
    close(blocks[1][0], np.eye(3))
    close(blocks[0][0], np.zeros((3, 3)))


def test_derivatives_of_a_jacobian_reach_what_it_closes_over():
    w = tensor(W).requires_grad_()
    jacrev(lambda x: (w * w) @ x)(tensor()).sum().backward()
    close(w.grad, 2 * W)


def test_random_numbers_in_a_jacobian():
    with pytest.raises(tp.errors.TransformError, match="is random"):
        jacfwd(lambda x: x * tp.rand(3, dtype=tp.float64))(tensor())
    found = jacfwd(lambda x: x * tp.rand(3, dtype=tp.float64), randomness="same")(tensor())
    assert np.count_nonzero(found.numpy()) == 3


@pytest.mark.parametrize("jacobian", [jacrev, jacfwd, hessian])
def test_complex_tensors_are_refused(jacobian):
    z = tp.tensor([1 + 2j, 3 - 1j], dtype=tp.complex128)
    with pytest.raises(tp.errors.AutogradError, match=r"(?s)must be real.*complex128.*fix: .*the imaginary part"):
        jacobian(lambda z: z * z)(z)
    with pytest.raises(tp.errors.AutogradError, match=r"(?s)must be real.*complex128"):
        jacobian(lambda x: x * tp.tensor(1j, dtype=tp.complex128))(tensor())


@pytest.mark.parametrize("chunk_size", [1, 2, None])
def test_the_same_numbers_in_every_column(chunk_size):
    drop = lambda x: tp.nn.functional.dropout(x, 0.5)  # noqa: E731
    tp.manual_seed(2)
    wanted = drop(tp.ones(40, dtype=tp.float64))
    tp.manual_seed(2)
    found = jacfwd(drop, randomness="same", chunk_size=chunk_size)(tp.ones(40, dtype=tp.float64))
    assert tp.equal(found, tp.diag(wanted))


def test_what_is_returned_beside_the_value_may_be_random():
    def function(x):
        drawn = tp.rand(2, dtype=tp.float64)
        return x * drawn.sum(), {"drawn": drawn, "text": "kept", "x": x}

    for randomness in ("different", "same"):
        _, aux = jacfwd(function, has_aux=True, randomness=randomness)(tensor())
        assert aux["drawn"].shape == (2,) and aux["text"] == "kept"
        close(aux["x"], X)


@pytest.mark.parametrize("name", ["jacrev", "jacfwd", "hessian"])
def test_errors_name_what_was_called(name):
    transform = getattr(tp.func, name)
    for call, words in (
        (lambda: transform(3), "takes a function"),
        (lambda: transform(lambda x: 3.0)(tensor()), "must return tensors, and returned float"),
        (lambda: transform(tp.sin)(3.0), "must be tensors, and one value is float"),
        (lambda: transform(tp.sin)(tp.tensor(3)), "floating or complex"),
        (lambda: transform(tp.sin, 2)(tensor()), "argnums=2 is out of range"),
    ):
        with pytest.raises(tp.errors.TensorPlayError, match=f"^{name}.*{words}"):
            call()
