"""Views and writes under autograd: who has which node after a write, and that every gradient is right.

The values are PyTorch's rules worked out by hand; tests/peers runs random programs in both.
"""

from __future__ import annotations

import gc
import threading
import weakref

import pytest

import tensorplay as tp
from tensorplay_core.tensor.version import LIVE
from tensorplay_core.tensor.views import path_of, root_of


def leaf(data):
    return tp.tensor(data, dtype=tp.float64, requires_grad=True)


def grads(loss, *leaves):
    return [g.tolist() for g in tp.autograd.grad(loss, leaves)]


# ------------------------------------------------------------------------------------------------- who has which node


def test_a_write_to_a_view_gives_its_base_and_the_bases_other_views_a_gradient():
    w = leaf(2.0)
    z = tp.ones(3, dtype=tp.float64)
    before, view, sibling = z[:2], z[0], z[1]
    assert not z.requires_grad
    view.mul_(w)
    assert [t.requires_grad for t in (z, before, view, sibling, z[2])] == [True] * 5
    assert z.grad_fn.name == "CopySlices" and view.grad_fn.name == "SelectBackward"
    assert grads(z.sum() + before.sum() * 3 + view * 10 + sibling * 100, w) == [14.0]


def test_a_write_to_the_base_is_seen_by_views_taken_before_it():
    x, w = leaf([1.0, 2.0]), leaf(3.0)
    y = x * 1
    first = y[0]
    old = first.grad_fn
    y.mul_(w)
    assert first.item() == 3.0 and first.grad_fn is not old
    assert grads(first * 1, x, w) == [[3.0, 0.0], 1.0]


def test_a_view_of_a_view_is_written_to_through_both():
    x, w = leaf([[1.0, 2.0], [3.0, 4.0]]), leaf(5.0)
    y = x * 1
    part = y.T[1].unsqueeze(0)[:, 1:]
    part.mul_(w)
    assert y.tolist() == [[1.0, 2.0], [3.0, 20.0]]
    assert grads(y.sum(), x, w) == [[[1.0, 1.0], [1.0, 5.0]], 4.0]


@pytest.mark.parametrize(
    "view",
    [
        lambda y: y.select(1, 0),
        lambda y: y[:, 1:],
        lambda y: y.permute(1, 0),
        lambda y: y.reshape(3, 2),
        lambda y: y.unsqueeze(0),
        lambda y: y[None].squeeze(0),
        lambda y: y.diagonal(),
        lambda y: y.as_strided((2, 2), (1, 2), 1),
        lambda y: y.narrow(1, 1, 2),
        lambda y: y.movedim(0, 1),
        lambda y: y.flatten(),
        lambda y: y.expand(2, 3),
        lambda y: y.T.T,
    ],
)
def test_a_write_through_any_view_leaves_the_rest_alone(view):
    """Of ``where(written, 5 * y, y)`` the gradient is 5 where it was written and 1 elsewhere."""
    marks = tp.zeros(2, 3, dtype=tp.float64)
    view(marks).fill_(1.0)
    for written in (lambda y: view(y).mul_(5.0), lambda y: view(y.mul_(1.0)).mul_(5.0)):
        x = leaf([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
        y = x * 1
        written(y)
        assert y.tolist() == (x.detach() * (1 + 4 * marks)).tolist()
        assert grads(y.sum(), x) == [(1 + 4 * marks).tolist()]


def test_strides_are_those_of_the_base_in_the_gradient_too():
    x = leaf([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    y = x.T * 1  # its memory is in the order of x
    marks = (x.detach().T * 0).as_strided((2,), (1,), 1)
    assert y.stride() == marks._base.stride()
    marks.fill_(1.0)
    y.as_strided((2,), (1,), 1).mul_(7.0)
    assert grads(y.sum(), x) == [(1 + 6 * marks._base.T).tolist()]


def test_what_was_overwritten_gets_no_gradient():
    x, w = leaf([1.0, 2.0, 3.0]), leaf(7.0)
    y = x * 2
    y[1] = w
    y[2:].zero_()
    assert grads(y.sum(), x, w) == [[2.0, 0.0, 0.0], 1.0]


def test_infinite_gradients_outside_of_the_view_do_not_leak_into_it():
    x = leaf([0.0, 4.0])
    y = x * 1
    y[0] = 1.0
    assert grads(y.sqrt().sum(), x) == [[0.0, 0.25]]
    y = (x * 1).log()
    y[1] = 0.0
    assert tp.autograd.grad(y.sum(), x)[0].tolist() == [float("inf"), 0.0]


def test_a_write_by_an_operator_that_reads_the_views_base():
    x = leaf([1.0, 2.0, 3.0])
    y = x * 1
    y[:2].mul_(y[1:])
    assert y.tolist() == [2.0, 6.0, 3.0]
    assert grads(y.sum(), x) == [[2.0, 1.0 + 3.0, 2.0 + 1.0]]


def test_a_loop_of_writes():
    w = leaf(1.5)
    h = tp.zeros(6, dtype=tp.float64)
    h[0] = w
    for t in range(1, 6):
        h[t] = h[t - 1].clone() * w
    assert grads(h[5] * 1, w) == [pytest.approx(6 * 1.5**5)]


def test_second_derivatives_pass_through_writes():
    x, w = leaf([1.0, 2.0]), leaf(3.0)
    assert tp.autograd.gradcheck(written_cube, (x, w))
    assert tp.autograd.gradgradcheck(written_cube, (x, w))


def written_cube(x, w):
    y = x * x * x
    y[0].mul_(w * w)
    y.reshape(2, 1)[1].add_(y.detach()[0] * 0 + w)
    return y * y


def test_a_mask_and_a_list_write_to_a_view():
    x, w = leaf([[1.0, 2.0], [3.0, 4.0]]), leaf(10.0)
    y = x * 1
    y.T[[0, 1], [1, 0]] = w
    y[y.detach() < 2] *= 3
    assert y.tolist() == [[3.0, 10.0], [10.0, 4.0]]
    assert grads(y.sum(), x, w) == [[[3.0, 0.0], [0.0, 1.0]], 2.0]


def test_out_of_place_results_of_a_reshape_that_copied_are_apart():
    x = leaf([[1.0, 2.0], [3.0, 4.0]])
    y = x * 1
    copied = y.T.reshape(4)
    copied.mul_(5.0)
    assert not copied._is_view() and grads(y.sum() + copied.sum(), x) == [[[6.0, 6.0], [6.0, 6.0]]]


# --------------------------------------------------------------------------------------------- relations and versions


def test_base_is_the_root_of_a_chain():
    x = tp.zeros(2, 3)
    view = x.T[0].unsqueeze(1)
    assert view._is_view() and view._base is x
    assert [step.op.name for step in path_of(view)] == ["permute", "select", "unsqueeze"]
    assert not x._is_view() and x._base is None
    for other in (x.detach(), x.clone(), x + 1, x.sum()):
        assert not other._is_view() and other._base is None and root_of(other) is other


def test_detach_shares_memory_and_versions_and_no_gradient():
    x, w = leaf([1.0, 2.0]), leaf(3.0)
    y = x * 1
    other = y.detach()
    y[0].mul_(w)
    assert not other.requires_grad and other.tolist() == [3.0, 2.0]
    other.mul_(w)
    assert other.requires_grad and y.grad_fn.name == "CopySlices"
    assert y._version_number == other._version_number == 2


def test_a_view_that_requires_grad_itself_is_a_leaf_until_its_base_has_a_gradient():
    z, w = tp.zeros(3, dtype=tp.float64), leaf(2.0)
    view = z[:2].requires_grad_()
    assert view.is_leaf and not z.requires_grad
    z.mul_(2.0)
    assert view.is_leaf
    z.mul_(w)
    assert not view.is_leaf and view.requires_grad


def test_hooks_and_edges_that_were_taken_before_a_write_stay_with_what_was():
    x, w = leaf([1.0, 2.0]), leaf(3.0)
    y = x + 0
    view = y[0]
    before = view + 10
    view.add_(w)
    assert grads(before, x) == [[1.0, 0.0]]
    assert grads(view * 1, x, w) == [[1.0, 0.0], 1.0]


def test_views_taken_in_inference_mode_of_ordinary_tensors_are_ordinary():
    x = leaf([1.0, 2.0])
    with tp.inference_mode():
        for view in (x[0], x[:1], x.reshape(2, 1), x.permute(0), x[None].squeeze()):
            assert not view.is_inference() and view._is_view()
        assert x[[0]].is_inference() and (x[0] + 1).is_inference()
        assert x[None].expand(3, 2).T.reshape(-1).is_inference()  # it copies
        made = tp.zeros(2)
    assert made[0].is_inference() and not made[0]._is_view()


# ------------------------------------------------------------------------------------------------------------- memory


def test_nothing_is_a_cycle():
    gc.collect()
    gc.disable()
    try:
        w = leaf(2.0)
        z = tp.zeros(4, dtype=tp.float64)
        rows = [z[i] for i in range(4)]
        for row in rows:
            row.add_(w)
        (z.sum() + rows[0] * w).backward()
        watched = [weakref.ref(t) for t in (z, *rows)]
        del z, rows, row
        assert [reference() for reference in watched] == [None] * 5
    finally:
        gc.enable()


def test_views_that_are_gone_are_forgotten():
    x = tp.zeros(3, 3)
    for _ in range(1000):
        x[0]
    assert len(x._version[LIVE]) <= 16
    kept = [x[0] for _ in range(100)]
    assert sum(reference() is not None for reference in x._version[LIVE]) == len(kept)


def test_a_write_looks_at_stale_views_once():
    w = leaf(2.0)
    z = tp.ones(100, dtype=tp.float64)
    rows = [z[i] for i in range(100)]
    rows[0].mul_(w)
    assert len(z._version[LIVE]) == 0
    rows[1].mul_(w)
    assert len(z._version[LIVE]) == 0
    assert rows[2].requires_grad and len(z._version[LIVE]) == 1


def test_the_fast_path_serves_a_tensor_again_whose_views_are_gone():
    x, y = tp.zeros(3), tp.ones(3)
    x[0]
    x.add_(y)  # forgets the view
    assert x._version[LIVE] == []


def test_what_is_freed_by_a_write_may_write_itself():
    z = tp.zeros(3)
    views = [z[i] for i in range(3)]

    class Writes:
        def __del__(self):
            z.add_(1)  # which looks at the views of z

    class First(tp.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.last = Writes()
            return x[0]

        @staticmethod
        def backward(ctx, grad):
            raise NotImplementedError

    y = leaf([1.0, 2.0]) * 1
    first = First.apply(y)
    writing = threading.Thread(target=y.mul_, args=(2.0,), daemon=True)
    writing.start()
    writing.join(60)
    assert not writing.is_alive()
    assert [view.item() for view in views] == [1.0, 1.0, 1.0] and first.tolist() == 2.0


def test_long_chains_of_views_need_no_recursion():
    x, w = leaf([1.0, 2.0]), leaf(3.0)
    y = x * 1
    view = y
    for _ in range(5000):
        view = view[:]
    view.mul_(w)
    y.add_(w)
    assert grads(view.sum(), x, w) == [[3.0, 3.0], 5.0]


def test_a_custom_view_has_no_gradient_before_a_write_or_after():
    @tp.library.custom_op("tests_views::row", mutates_args=(), schema="(Tensor(a) x, int i) -> Tensor(a)")
    def row(x, i):
        return x[i]

    x, w = leaf([[1.0, 2.0], [3.0, 4.0]]), leaf(5.0)
    y = x * 1
    first, second = row(y, 0), row(y, 1)
    y.mul_(w)
    assert first.tolist() == [5.0, 10.0] and first._base is y
    with pytest.raises(tp.AutogradError, match="no gradient formula"):
        (first * second).sum().backward()
    y[1].mul_(w)
    assert grads(y.sum(), x, w) == [[[5.0, 5.0], [25.0, 25.0]], 3.0 + 7.0 * 10]
