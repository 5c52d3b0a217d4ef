"""``grad``, ``vjp``, ``jvp``, ``linearize``: closed forms, every nesting, what they leave behind, what they refuse."""

from __future__ import annotations

import gc
import math

import numpy as np
import pytest

import tensorplay as tp
from tensorplay.func import grad, grad_and_value, jvp, linearize, vjp, vmap
from tensorplay_core.dispatch import active
from tensorplay_core.dispatch.context import STATE
from tensorplay_core.dispatch.wrapped import INNERMOST
from tensorplay_core.errors import AutogradError, TransformError
from tensorplay_core.tensor import dual

X = np.array([0.5, 1.0, 2.0])


def tensor(values=X, **options):
    return tp.tensor(np.asarray(values).tolist(), dtype=tp.float64, **options)


def close(found, wanted):
    assert np.allclose(found.detach().numpy(), wanted, rtol=1e-12, atol=1e-12)


@pytest.fixture(autouse=True)
def nothing_is_left():
    before, special, levels = STATE.get(), active.special, active.levels
    yield
    gc.collect()
    assert STATE.get() == before and INNERMOST.get() is None and dual.open_level() is None
    assert (active.special, active.levels) == (special, levels)


def test_grad_to_any_order():
    function = tp.sin
    for derivative in (math.cos, lambda x: -math.sin(x), lambda x: -math.cos(x), math.sin):
        function = grad(function)
        close(function(tensor(0.7)), derivative(0.7))


def test_argnums_nested_arguments_and_aux():
    def function(tree, n, w):
        loss = (tree["a"] ** 2).sum() * w + tree["b"][0] * n
        return loss, {"loss": loss, "n": n, "text": "kept"}

    tree = {"a": tensor(), "b": [tensor(3.0)]}
    (by_tree, by_w), aux = grad(function, (0, -1), has_aux=True)(tree, 4, tensor(2.0))
    close(by_tree["a"], 4 * X)
    close(by_tree["b"][0], 4)
    close(by_w, (X**2).sum())
    assert aux["text"] == "kept" and aux["n"] == 4 and not aux["loss"].requires_grad
    gradient, (value, aux) = grad_and_value(function, 2, has_aux=True)(tree, 4, tensor(2.0))
    close(gradient, (X**2).sum())
    assert value.item() == aux["loss"].item()
    assert isinstance(grad(lambda x: x.sum(), (0,))(tensor()), tuple)


def test_an_argument_that_does_not_matter_has_zeros():
    by_x, by_y = grad(lambda x, y: x.sum(), (0, 1))(tensor(), tensor([1.0]))
    assert by_x.tolist() == [1.0] * 3 and by_y.tolist() == [0.0]
    assert grad(lambda x: tensor(3.0))(tensor()).tolist() == [0.0] * 3


def test_results_need_no_grad_unless_something_else_does():
    assert not grad(lambda x: (x * x).sum())(tensor()).requires_grad
    w = tensor(requires_grad=True)
    found = grad(lambda x: (x * x * w).sum())(tensor())
    found.sum().backward()
    close(w.grad, 2 * X)
    x = tensor(requires_grad=True)
    grad(lambda x: (x**3).sum())(x).sum().backward()
    close(x.grad, 6 * X)


def test_results_do_not_hang_on_a_level_that_is_closed():
    pull = vjp(lambda y: y * y, tensor(3.0))[1]
    found = vmap(grad(lambda x: pull(x)[0]))(tensor())
    close(found, np.full(3, 6.0))
    assert not found.requires_grad
    w = tensor(2.0, requires_grad=True)
    found = vmap(grad(lambda x: pull(x)[0] * w))(tensor())
    found.sum().backward()
    close(w.grad, 18.0)
    found = grad(lambda x: vmap(grad(lambda y: pull(y)[0] * y * x))(tensor()).sum())(tensor(1.0))
    close(found, 12 * X.sum())


def test_no_grad_around_and_within():
    x = tensor(requires_grad=True)
    with tp.no_grad():
        found = grad(lambda x: (x**2).sum())(x)
        assert not found.requires_grad
        close(found, 2 * X)
        close(vmap(grad(lambda x: x**2))(x), 2 * X)

    def constant(x):
        with tp.no_grad():
            c = x * x
        return (x - c).sum()

    close(grad(constant)(tensor()), np.ones(3))
    close(vmap(grad(lambda x: constant(x)))(tensor()), np.ones(3))
    close(grad(lambda x: (x * x.detach()).sum())(tensor()), X)
    close(vmap(grad(lambda x: x * x.detach()))(tensor()), X)


def test_inference_mode():
    with tp.inference_mode():
        x = tensor()
        close(grad(lambda x: (x**2).sum())(x), 2 * X)
        close(vmap(grad(lambda x: x**2))(x), 2 * X)
        close(jvp(lambda x: x**2, (x,), (tp.ones_like(x),))[1], 2 * X)


def test_an_inner_autograd_grad_composes():
    def function(x):
        (inner,) = tp.autograd.grad((x**3).sum(), x, create_graph=True)
        return inner.sum()

    close(grad(function)(tensor()), 6 * X)
    close(vmap(grad(function))(tensor()), 6 * X)


def test_vjp():
    output, pull = vjp(lambda x, w: {"y": x * w, "z": x.sum()}, tensor(), tensor(2.0))
    close(output["y"], 2 * X)
    for scale in (1.0, 3.0):  # it may be called again
        by_x, by_w = pull({"y": tensor([scale, 0.0, 0.0]), "z": tensor(1.0)})
        close(by_x, [2 * scale + 1, 1.0, 1.0])
        close(by_w, scale * X[0])
    output, pull, aux = vjp(lambda x: (x.sin(), "aux"), tensor(), has_aux=True)
    assert aux == "aux"
    close(pull(tensor(np.ones(3)))[0], np.cos(X))
    _, pull = vjp(lambda x: (x.sin(), x.cos()), tensor())
    close(pull((tensor(np.ones(3)), tensor(np.zeros(3))))[0], np.cos(X))
    close(pull(tensor(np.ones(3)), tensor(np.zeros(3)))[0], np.cos(X))


def test_vjp_under_vmap_in_both_orders():
    _, pull = vjp(lambda x: x.sin() * x.sum(), tensor())
    rows = vmap(pull)(tensor(np.eye(3)))[0]
    jacobian = np.outer(np.sin(X), np.ones(3)) + np.diag(np.cos(X) * X.sum())
    close(rows, jacobian)
    batch = tensor([X, X + 1])
    found = vmap(lambda x: vjp(lambda x: x.sin(), x)[1](tp.ones(3, dtype=tp.float64))[0])(batch)
    close(found, np.cos([X, X + 1]))


def test_jvp():
    tangents = (tensor([1.0, 0.0, 2.0]), tensor(1.0))
    output, tangent = jvp(lambda x, w: (x * w, [x.sum()]), (tensor(), tensor(2.0)), tangents)
    close(output[0], 2 * X)
    close(tangent[0], np.array([2.0, 0.0, 4.0]) + X)
    close(tangent[1][0], 3.0)
    _, tangent, aux = jvp(lambda x: (x.sin(), x), (tensor(),), (tensor(np.ones(3)),), has_aux=True)
    close(tangent, np.cos(X))
    close(aux, X)
    assert jvp(lambda x: tensor(3.0), (tensor(),), (tensor(),))[1].item() == 0.0
    with pytest.raises(AutogradError, match="does not depend on the primals"):
        jvp(lambda x: tensor(3.0), (tensor(),), (tensor(),), strict=True)


def along_ones(function):
    return lambda x: jvp(function, (x,), (tp.ones_like(x),))[1]


def test_jvp_to_any_order_and_with_grad():
    close(along_ones(along_ones(along_ones(tp.sin)))(tensor()), -np.cos(X))
    cubes = lambda x: (x**3).sum()  # noqa: E731
    close(along_ones(grad(cubes))(tensor()), 6 * X)
    close(grad(along_ones(cubes))(tensor()), 6 * X)
    close(grad(lambda x: along_ones(grad(cubes))(x).sum())(tensor()), np.full(3, 6.0))
    close(along_ones(grad(along_ones(cubes)))(tensor()), np.full(3, 6.0))
    batch = tensor([X, X + 1])
    close(vmap(along_ones(grad(cubes)))(batch), 6 * np.array([X, X + 1]))
    close(along_ones(vmap(grad(cubes)))(batch), 6 * np.array([X, X + 1]))
    close(grad(lambda b: vmap(along_ones(cubes))(b).sum())(batch), 6 * np.array([X, X + 1]))


def test_perturbations_are_not_confused():
    inner = lambda x: jvp(lambda y: x * y, (tensor(1.0),), (tensor(1.0),))[1]  # noqa: E731
    close(jvp(lambda x: x * inner(x), (tensor(3.0),), (tensor(1.0),))[1], 6.0)
    close(grad(lambda x: x * grad(lambda y: x * y)(tensor(1.0)))(tensor(3.0)), 6.0)
    close(vmap(grad(lambda x: x * grad(lambda y: x * y)(tensor(1.0))))(tensor()), 2 * X)


def test_linearize_evaluates_once():
    calls = []

    def function(x, w):
        calls.append(1)
        return {"y": x.sin() * w}

    output, push = linearize(function, tensor(), tensor(2.0))
    close(output["y"], 2 * np.sin(X))
    for i in range(3):
        close(push(tensor(np.eye(3)[i]), tensor(0.0))["y"], 2 * np.cos(X) * np.eye(3)[i])
    close(push(tensor(np.zeros(3)), tensor(1.0))["y"], np.sin(X))
    assert len(calls) == 1
    close(vmap(lambda v: push(v, tensor(0.0))["y"])(tensor(np.eye(3))), np.diag(2 * np.cos(X)))


def test_complex_gradients_are_conjugate():
    z = tp.tensor([1 + 2j, 3 - 1j], dtype=tp.complex128)
    close(grad(lambda z: (z * z.conj()).real().sum())(z), 2 * z.numpy())


def test_per_sample_gradients_of_a_network():
    tp.manual_seed(0)
    shapes = ((4, 8), (8,), (8, 3))
    params = [tp.randn(*shape, dtype=tp.float64) for shape in shapes]
    x, y = tp.randn(5, 4, dtype=tp.float64), tp.tensor([0, 2, 1, 1, 0])

    def loss(params, x, y):
        w, b, v = params
        return tp.nn.functional.cross_entropy(tp.tanh(x @ w + b) @ v, y)

    found = vmap(grad(loss), (None, 0, 0))(params, x, y)
    for i in range(5):
        for all_of_them, one in zip(found, grad(loss)(params, x[i], y[i]), strict=True):
            close(all_of_them[i], one.numpy())


def test_per_sample_gradients_of_a_convolutional_network():
    F = tp.nn.functional
    tp.manual_seed(0)
    params = [tp.randn(4, 1, 3, 3, dtype=tp.float64), tp.randn(4, dtype=tp.float64), tp.randn(36, 3, dtype=tp.float64)]
    x, y = tp.randn(5, 1, 8, 8, dtype=tp.float64), tp.tensor([0, 2, 1, 1, 0])

    def loss(params, x, y):
        kernel, bias, w = params
        h = F.max_pool2d(F.relu(F.conv2d(x.unsqueeze(0), kernel, bias)), 2)
        return F.cross_entropy(h.reshape(1, 36) @ w, y.unsqueeze(0))

    found = vmap(grad(loss), (None, 0, 0))(params, x, y)
    for i in range(5):
        for all_of_them, one in zip(found, grad(loss)(params, x[i], y[i]), strict=True):
            close(all_of_them[i], one.numpy())


def test_a_captured_tensor_cannot_hold_a_derivative():
    kept = tp.zeros(3, dtype=tp.float64)

    def function(x):
        kept.copy_(x)
        return kept.sum()

    with pytest.raises(TransformError, match=r"(?s)no place for it.*fix: clone"):
        vmap(grad(function))(tensor([X, X]))


def test_wrappers_mean_nothing_outside():
    kept = []
    vmap(grad(lambda x: kept.append(x) or x * x))(tensor())
    with pytest.raises(TransformError, match="has returned"):
        kept[0] * 2


@pytest.mark.parametrize("around", [tp.no_grad, tp.inference_mode])
def test_derivatives_that_were_made_without_gradients(around):
    x = tensor()
    with around():
        push = linearize(lambda x: x * x, x)[1]
        _, pull = vjp(lambda x: x * x, x)
        close(push(tensor(np.ones(3))), 2 * X)
        assert not pull(x)[0].requires_grad
    close(push(tensor(np.ones(3))), 2 * X)
    close(grad(lambda v: (pull(v)[0] * v).sum())(x), 4 * X * X)  # of 2 x v²
    close(vmap(grad(lambda v: (pull(v)[0] * v).sum()))(tensor([X, X + 1])), 4 * X * [X, X + 1])

    def inside(v):
        with around():
            pull = vjp(lambda x: x * x, x)[1]
        return grad(lambda c: (pull(c)[0] * c).sum())(v)

    close(vmap(inside)(tensor([X, X + 1])), 4 * X * [X, X + 1])


def test_dicts_of_tangents_and_cotangents_go_by_their_keys():
    tree = {"a": tensor(), "b": tensor(X + 1)}
    _, tangent = jvp(lambda d: d["a"] * d["b"], (tree,), ({"b": tensor(np.ones(3)), "a": tensor(np.zeros(3))},))
    close(tangent, X)
    _, pull = vjp(lambda x: {"y": x, "z": 2 * x}, tensor())
    close(pull({"z": tensor(np.ones(3)), "y": tensor(np.zeros(3))})[0], np.full(3, 2.0))
    _, pull = vjp(lambda x: (x, {"y": x, "z": 2 * x}), tensor())
    zeros = tensor(np.zeros(3))
    close(pull((zeros, {"z": tensor(np.ones(3)), "y": zeros}))[0], np.full(3, 2.0))
    _, push = linearize(lambda d: d["a"] * d["b"], tree)
    close(push({"b": tensor(np.ones(3)), "a": tensor(np.zeros(3))}), X)


def test_products_without_a_graph():
    x = tensor(requires_grad=True)
    _, pull = vjp(lambda x: x**3, x)
    ones = tensor(np.ones(3))
    assert not pull(ones, create_graph=False)[0].requires_grad
    pull(ones)[0].sum().backward()
    close(x.grad, 6 * X)
    pull(ones, retain_graph=False, create_graph=False)
    with pytest.raises(AutogradError, match="freed"):
        pull(ones)


def test_a_tangent_is_not_written_to():
    x, ones = tensor(), tensor(np.ones(3))
    value, tangent = jvp(lambda x: x.mul_(2), (x,), (x,))  # which are one tensor
    close(value, 2 * X)
    close(tangent, 2 * X)
    found = jvp(lambda x: x.mul_(5), (tensor(),), (ones,))
    close(found[1], np.full(3, 5.0))
    close(ones, np.ones(3))
    close(vmap(lambda x: jvp(lambda x: x.mul_(5), (x,), (ones[0],))[1])(tensor()), np.full(3, 5.0))
    close(jvp(lambda x: jvp(lambda x: x.mul_(x), (x,), (ones,))[1], (tensor(),), (ones,))[1], np.full(3, 2.0))
    close(ones, np.ones(3))
    close(grad(lambda t: jvp(lambda x: x * x, (tensor(),), (t,))[1].sum())(ones), 2 * X)
    columns = tensor(np.ones((2, 3)))
    close(jvp(lambda x: x.T.mul_(3), (tensor(np.ones((3, 2))).T,), (columns,))[1], np.full((3, 2), 3.0))
    close(columns, np.ones((2, 3)))


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: grad(3), TypeError, "grad takes a function"),
        (lambda: grad(tp.sin)(tensor()), RuntimeError, "without dims, and returned one of shape"),
        (lambda: grad(lambda x: 3.0)(tensor()), TypeError, "must return a tensor, and returned float"),
        (lambda: grad(lambda x: x.sum() > 0)(tensor()), RuntimeError, "real floating tensor, and returned bool"),
        (lambda: grad(tp.sin, 1)(tensor()), ValueError, "argnums=1 is out of range for 1"),
        (lambda: grad(tp.add, (0, 0))(tensor(), tensor()), ValueError, "names an argument twice"),
        (lambda: grad(tp.sin, "x")(tensor()), TypeError, "argnums is an int"),
        (lambda: grad(tp.sin)(tp.tensor(3)), RuntimeError, "floating or complex, and one tensor is int64"),
        (lambda: grad(tp.sin)(3.0), TypeError, "must be tensors, and one value is float"),
        (lambda: grad(tp.sin, has_aux=True)(tensor(1.0)), TypeError, "a pair"),
        (lambda: vjp(tp.sin), TypeError, "no primals"),
        (lambda: vjp(lambda x: 3, tensor()), TypeError, "must return tensors, and returned int"),
        (lambda: vjp(tp.sin, tensor())[1](tensor(1.0)), RuntimeError, "has shape"),
        (lambda: vjp(tp.sin, tensor())[1]([tensor()]), TypeError, "must be nested as"),
        (lambda: jvp(tp.sin, tensor(), tensor()), TypeError, "primals is a tuple"),
        (lambda: jvp(tp.sin, (tensor(),), (tensor(1.0),)), RuntimeError, "has shape"),
        (lambda: linearize(tp.sin, tensor())[1](tensor(1.0)), RuntimeError, "^linearize: .*has shape"),
        (lambda: linearize(lambda x: 3, tensor()), TypeError, "^linearize: .*must return tensors"),
        (lambda: linearize(tp.sin), TypeError, "^linearize: "),
    ],
)
def test_what_does_not_fit_is_refused(call, error, words):
    with pytest.raises(error, match=words):
        call()
