"""Checkpoints: gradients as without them, nothing kept, the same random numbers, and what differs is named."""

from __future__ import annotations

import math
import weakref
from contextlib import contextmanager

import pytest

import tensorplay as tp
from tensorplay.utils.checkpoint import CheckpointError, checkpoint, checkpoint_sequential
from tensorplay_core.dispatch import active


def leaf(data, dtype=tp.float64):
    return tp.tensor(data, dtype=dtype, requires_grad=True)


@pytest.fixture(autouse=True)
def nothing_stays_open():
    yield
    assert active.special == 0


def gradients(run, *inputs):
    """First and second derivatives of the sum of what a function returns."""
    first = tp.autograd.grad(run(*inputs).sum(), inputs, create_graph=True)
    second = tp.autograd.grad(sum(g.sum() for g in first), inputs)
    return [g.tolist() for g in (*first, *second)]


def test_gradients_of_both_orders_are_those_without_it():
    x, w = leaf([0.5, 2.0]), leaf([1.5, -1.0])

    def f(x, w):
        h = (x * w).exp()
        return h * h.sin() + x * 3

    assert gradients(lambda x, w: checkpoint(f, x, w), x, w) == gradients(f, x, w)
    assert gradients(lambda x, w: checkpoint(f, x, w=w), x, w) == gradients(f, x, w)


def test_backward_and_several_results_and_what_is_no_tensor():
    x = leaf([[1.0, 5.0], [7.0, 2.0]])

    def f(x, scale, names):
        values, indices = (x * scale).max(1)
        return values, indices, names

    values, indices, names = checkpoint(f, x, 2.0, ["a"])
    values.sum().backward()
    assert (names, indices.tolist(), x.grad.tolist()) == (["a"], [1, 0], [[0.0, 2.0], [2.0, 0.0]])


def test_a_parameter_that_the_function_closes_over_gets_its_gradient():
    x, w = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    checkpoint(lambda t: (t * w).exp(), x).sum().backward()
    plain = tp.autograd.grad((x * w).exp().sum(), [x, w])
    assert [x.grad.tolist(), w.grad.tolist()] == [g.tolist() for g in plain]


def test_the_function_runs_again_once_for_a_pass_and_stops_when_everything_is_there():
    log = []

    def f(x):
        log.append("begin")
        y = x.exp().sin()
        log.append("end")
        return y * 2

    x = leaf([1.0])
    y = checkpoint(f, x)
    assert log == ["begin", "end"]
    y.sum().backward(retain_graph=True)
    assert log == ["begin", "end", "begin"]
    y.sum().backward()
    assert log == ["begin", "end", "begin", "begin"]
    checkpoint(f, x, early_stop=False).sum().backward()
    assert log[4:] == ["begin", "end", "begin", "end"]


def test_nothing_is_kept_between_the_runs():
    x = leaf([float(i) for i in range(10)])
    kept = []

    def f(x):
        y = x.sin().exp()
        kept.append(weakref.ref(y._array))
        return y * 2

    y = checkpoint(f, x)
    assert kept[0]() is None
    y.sum().backward()
    assert x.grad.tolist() == tp.autograd.grad((x.sin().exp() * 2).sum(), x)[0].tolist()


def _nodes(y):
    found, stack = {}, [y._node]
    while stack:
        node = stack.pop()
        if node is not None and id(node) not in found:
            found[id(node)] = node
            stack += node.edges
    return list(found.values())


def test_random_numbers_are_drawn_again():
    x = leaf([1.0] * 20)

    def f(x):
        return x * tp.rand(20, dtype=tp.float64) * x

    tp.manual_seed(1)
    y = checkpoint(f, x)
    after = tp.get_rng_state()
    (g,) = tp.autograd.grad(y.sum(), x)
    assert tp.get_rng_state() == after
    tp.testing.assert_close(g, 2 * y.detach())
    y = checkpoint(f, x, preserve_rng_state=False)
    (g,) = tp.autograd.grad(y.sum(), x)
    assert g.tolist() != (2 * y.detach()).tolist()


def test_random_numbers_of_another_device():
    x = tp.ones(20, device="loopback", requires_grad=True)
    y = checkpoint(lambda x: x * tp.rand(20, device="loopback") * x, x)
    (g,) = tp.autograd.grad(y.sum(), x)
    tp.testing.assert_close(g, 2 * y.detach())


def test_autocast_and_the_default_device_are_those_of_the_first_run():
    seen = []

    def f(x):
        seen.append((tp.get_default_device(), tp.is_grad_enabled()))
        return (x @ x).exp()

    x = tp.ones(2, 2, requires_grad=True)
    with tp.device("loopback"):
        y = checkpoint(f, x)
    loss = y.sum()
    with tp.no_grad():
        loss.backward()
    assert seen == [(tp.device("loopback:0"), True)] * 2


def test_a_checkpoint_inside_a_checkpoint():
    x, w = leaf([0.5, 2.0]), leaf([1.5, -1.0])
    log = []

    def inner(h):
        log.append("inner")
        return (h * w).exp()

    def outer(x):
        log.append("outer")
        return checkpoint(inner, x * 2).sin() * checkpoint(inner, x)

    def plain(x):
        return inner(x * 2).sin() * inner(x)

    expected = gradients(plain, x)
    assert gradients(lambda x: checkpoint(outer, x), x) == expected
    log.clear()
    y = checkpoint(outer, x)
    assert [node.saved for node in _nodes(y) if node.name == "ExpBackward"] != []
    y.sum().backward()
    assert log[:3] == ["outer", "inner", "inner"] and log.count("outer") == 2
    deep = x
    for _ in range(4):
        deep = checkpoint(lambda t: checkpoint(lambda u: checkpoint(tp.sin, u).exp(), t), deep)
    plain_deep = x
    for _ in range(4):
        plain_deep = plain_deep.sin().exp()
    assert tp.autograd.grad(deep.sum(), x)[0].tolist() == tp.autograd.grad(plain_deep.sum(), x)[0].tolist()


def test_a_thousand_segments():
    x = leaf([0.5])
    y = x
    for _ in range(1000):
        y = checkpoint(lambda t: t.sin() * 1.01, y)
    plain = x
    for _ in range(1000):
        plain = plain.sin() * 1.01
    assert tp.autograd.grad(y.sum(), x)[0].tolist() == tp.autograd.grad(plain.sum(), x)[0].tolist()


@pytest.mark.parametrize(
    ("first", "again", "text"),
    [
        (lambda x: x.exp().sin(), lambda x: x + 1, r"(?s)saved first: 2\n.*recomputation: 0\n"),
        (
            lambda x: x.exp(),
            lambda x: x[:1].exp(),
            r"(?s)at position 0:\nsaved first: float64, shape \(2,\), on cpu\nrec",
        ),
        (lambda x: x.exp(), lambda x: x.to(tp.float32).exp(), r"(?s)recomputed: float32, shape \(2,\), on cpu"),
    ],
)
def test_a_recomputation_that_differs_is_an_error_that_says_how(first, again, text):
    x, other, runs = leaf([1.0, 2.0]), leaf([1.0, 2.0]), [first, again]
    y = checkpoint(lambda x: runs.pop(0)(x), x)
    with pytest.raises(CheckpointError, match=text):
        (y + other).sum().backward()
    assert x.grad is None and other.grad is None


def test_a_recomputation_that_saves_more_is_found_without_early_stop():
    x, runs = leaf([1.0, 2.0]), [lambda x: x.exp(), lambda x: x.exp().sin()]
    y = checkpoint(lambda x: runs.pop(0)(x), x, early_stop=False)
    with pytest.raises(CheckpointError, match="saved by the recomputation: 2"):
        y.sum().backward()


def test_debug_lists_the_operators_of_both_runs():
    x, runs = leaf([1.0, 2.0]), [lambda x: x.exp().sin(), lambda x: x.exp()]
    y = checkpoint(lambda x: runs.pop(0)(x), x, debug=True)
    with pytest.raises(CheckpointError, match=r"(?s)first run:.*exp.*sin.*recomputation:.*exp"):
        y.sum().backward()


def test_metadata_need_not_be_compared():
    x, runs = leaf([1.0, 2.0]), [lambda x: x.exp(), lambda x: x[:1].exp()]
    y = checkpoint(lambda x: runs.pop(0)(x), x, determinism_check="none")
    with pytest.raises(tp.AutogradError, match="packed with shape"):
        y.sum().backward()


def test_an_argument_that_was_written_to_is_noticed():
    x = leaf([1.0, 2.0])
    h = x * 1
    y = checkpoint(lambda h: h.exp(), h)
    h.detach().add_(1)
    with pytest.raises(tp.AutogradError, match=r"checkpoint saved 'argument'.*modified in place"):
        y.sum().backward()


def test_context_fn_gives_a_scope_for_each_run():
    log = []

    @contextmanager
    def scope(name):
        log.append(name)
        yield
        log.append(f"end of {name}")

    x = leaf([1.0])
    checkpoint(lambda x: x.exp(), x, context_fn=lambda: (scope("first"), scope("again"))).sum().backward()
    assert log == ["first", "end of first", "again", "end of again"]


def test_an_error_in_either_run_leaves_everything_as_it_was():
    def fail(x):
        raise ValueError("no")

    x, other = leaf([1.0, 2.0]), leaf([1.0, 2.0])
    with pytest.raises(ValueError, match="no"):
        checkpoint(fail, x)
    runs = [lambda x: x.exp(), fail]
    y = checkpoint(lambda x: runs.pop(0)(x), x)
    state = tp.get_rng_state()
    with pytest.raises(ValueError, match="no"):
        (y + other).sum().backward()
    assert x.grad is None and other.grad is None and tp.get_rng_state() == state


def test_without_gradients_it_is_a_call():
    x = tp.tensor([1.0, 2.0])
    assert checkpoint(tp.exp, x).tolist() == x.exp().tolist()
    with tp.no_grad():
        assert not checkpoint(tp.exp, leaf([1.0])).requires_grad


def test_sequences():
    x = leaf([0.5, 1.0])
    steps = [tp.exp, tp.sin, tp.exp, tp.cos, tp.sin]
    plain = x
    for step in steps:
        plain = step(plain)
    (expected,) = tp.autograd.grad(plain.sum(), x)
    for segments in range(1, 6):
        (g,) = tp.autograd.grad(checkpoint_sequential(steps, segments, x).sum(), x)
        assert g.tolist() == expected.tolist()
    with pytest.raises(tp.ArgumentError, match="1 to 5 segments, not 6"):
        checkpoint_sequential(steps, 6, x)


def test_arguments_are_checked():
    with pytest.raises(tp.ArgumentError, match="use_reentrant=True is not supported"):
        checkpoint(tp.exp, leaf(1.0), use_reentrant=True)
    with pytest.raises(tp.ArgumentError, match="'default' or 'none', not 'all'"):
        checkpoint(tp.exp, leaf(1.0), determinism_check="all")


def test_a_checkpoint_of_no_function_and_with_no_contexts_says_what_it_takes():
    x = tp.ones(2, requires_grad=True)
    with pytest.raises(TypeError, match=r"takes a function first, not Tensor\nfix: .*checkpoint\(f, x\)"):
        checkpoint(x * 2, x)
    with pytest.raises(TypeError, match=r"context_fn returned 3\nfix: return two context managers"):
        checkpoint(tp.exp, x, context_fn=lambda: 3)


def test_inside_of_a_transform_that_wraps_it_says_where_it_belongs():
    x = tp.tensor([1.0, 2.0, 3.0])
    part = lambda v: checkpoint(tp.sin, v)  # noqa: E731
    for call in (tp.vmap(tp.func.grad(part)), tp.func.grad(lambda x: tp.vmap(part)(x).sum())):
        with pytest.raises(
            tp.errors.TransformError, match=r"(?s)checkpoint: .*inside of (vmap|grad).*fix: put it around"
        ):
            call(x)
    assert tp.equal(tp.vmap(part)(x), x.sin())  # nothing is saved
    assert tp.equal(tp.func.grad(lambda x: checkpoint(tp.vmap(tp.sin), x).sum())(x), x.cos())
    assert tp.equal(tp.func.grad(lambda x: part(x).sum())(x), x.cos())
    w = tp.tensor(2.0, requires_grad=True)
    tp.vmap(lambda v: v * part(w))(x).sum().backward()  # of a tensor that is of no transform
    assert w.grad.item() == pytest.approx(6 * math.cos(2.0))
