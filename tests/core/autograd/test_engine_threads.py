"""Several threads in backward: on graphs of their own, with leaves in common, and on graphs that share parts."""

from __future__ import annotations

import sys
import threading

import pytest

import tensorplay as tp


def leaf(data, dtype=tp.float64):
    return tp.tensor(data, dtype=dtype, requires_grad=True)


def in_threads(function, count=8):
    errors = []
    barrier = threading.Barrier(count)

    def run(i):
        try:
            barrier.wait()
            function(i)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


@pytest.fixture
def quick_switches():
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


def test_threads_back_up_their_own_graphs(quick_switches):
    results = [None] * 8

    def run(i):
        x = leaf([1.0 + i, 2.0])
        for _ in range(50):
            x.grad = None
            (x * x * (i + 1)).sum().backward()
        results[i] = x.grad.tolist()

    in_threads(run)
    assert results == [[2 * (1.0 + i) * (i + 1), 4.0 * (i + 1)] for i in range(8)]


def test_threads_that_share_a_leaf_lose_no_gradient(quick_switches):
    for _ in range(10):
        x = leaf([1.0, 2.0])
        in_threads(lambda i: [(x * 3).sum().backward() for _ in range(25)])  # noqa: B023
        assert x.grad.tolist() == [600.0, 600.0]


def test_threads_that_share_a_retained_graph(quick_switches):
    x = leaf([1.0, 2.0])
    h = x.exp() * x
    y = (h * h).sum()
    (expected,) = tp.autograd.grad(y, x, retain_graph=True)

    def run(i):
        for _ in range(25):
            (g,) = tp.autograd.grad(y, x, retain_graph=True)
            assert g.tolist() == expected.tolist()

    in_threads(run)


def test_a_thread_starts_with_gradients_on():
    seen = []
    with tp.no_grad():
        thread = threading.Thread(target=lambda: seen.append((tp.is_grad_enabled(), (leaf(1.0) * 2).requires_grad)))
        thread.start()
        thread.join()
        assert not (leaf(1.0) * 2).requires_grad
    assert seen == [(True, True)]


def test_threads_that_share_a_part_which_one_of_them_frees(quick_switches):
    """Each either gets its right gradient or the error about a graph that was freed, and no sum is half added."""
    for _ in range(20):
        x, private = leaf([1.0, 2.0]), [leaf([1.0, 2.0]) for _ in range(8)]
        shared = (x * x).exp() * x
        roots = [(shared * p).sum() for p in private]
        failed = []

        def run(i, roots=roots, failed=failed):
            try:
                roots[i].backward()
            except tp.AutogradError as error:
                assert "has been walked" in str(error)
                failed.append(i)

        in_threads(run)
        right = shared.detach().tolist()
        assert [p.grad if p.grad is None else p.grad.tolist() for p in private] == [
            None if i in failed else right for i in range(8)
        ]
        assert len(failed) < 8
        single = [3 * 2.718281828459045, 9 * 54.598150033144236]  # d(x exp(x²))/dx = (1 + 2x²) exp(x²)
        expected = [sum(p.tolist()[k] * single[k] for i, p in enumerate(private) if i not in failed) for k in range(2)]
        tp.testing.assert_close(x.grad.tolist(), expected)


def test_threads_with_hooks_retained_gradients_and_handles(quick_switches):
    x = leaf([1.0, 2.0])
    h = x * 3
    h.retain_grad()
    calls = []

    def run(i):
        for _ in range(20):
            with h.register_hook(lambda g: calls.append(1)):
                (h * h).sum().backward(retain_graph=True)

    in_threads(run)
    assert x.grad.tolist() == [18.0 * 160, 36.0 * 160] and h.grad.tolist() == [6.0 * 160, 12.0 * 160]
    assert len(calls) >= 160


def test_a_backward_inside_a_backward_and_how_deep_it_may_go():
    class Inside(tp.autograd.Function):
        @staticmethod
        def forward(ctx, x, depth):
            ctx.depth = depth
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            if ctx.depth == 0:
                return grad * 2, None
            with tp.enable_grad():
                x = ctx.saved_tensors[0].detach().requires_grad_()
                Inside.apply(x, ctx.depth - 1).sum().backward()
            return grad * x.grad, None

    x = leaf([1.0])
    Inside.apply(x, 20).sum().backward()
    assert x.grad.tolist() == [2.0]
    x.grad = None
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(400)
    try:
        with pytest.raises(RecursionError):
            Inside.apply(x, 10_000).sum().backward()
    finally:
        sys.setrecursionlimit(limit)
    assert x.grad is None
    Inside.apply(x, 3).sum().backward()
    assert x.grad.tolist() == [2.0]
