"""Hooks on tensors and nodes, and ``retain_grad``: when they run, what they may return, and what an error leaves."""

from __future__ import annotations

import functools
import gc
import operator
import weakref

import pytest

import tensorplay as tp


def leaf(data, dtype=tp.float64):
    return tp.tensor(data, dtype=dtype, requires_grad=True)


def noting(log, name, change=None):
    """A hook that notes the gradient, and returns a changed one."""

    def hook(grad):
        log.append((name, grad.tolist()))
        return None if change is None else change(grad)

    return hook


# ------------------------------------------------------------------------------------------------------ tensor hooks


def test_hooks_run_in_the_order_of_their_registration_and_each_sees_what_the_last_returned():
    x, log = leaf([1.0, 2.0]), []
    y = x * 2
    y.register_hook(noting(log, "first", lambda g: g * 10))
    y.register_hook(noting(log, "second"))
    y.register_hook(noting(log, "third", lambda g: g + 1))
    x.register_hook(noting(log, "leaf", lambda g: -g))
    y.sum().backward()
    assert log == [("first", [1.0, 1.0]), ("second", [10.0, 10.0]), ("third", [10.0, 10.0]), ("leaf", [22.0, 22.0])]
    assert x.grad.tolist() == [-22.0, -22.0]


def test_a_leafs_hook_gets_the_sum_of_a_pass_and_once():
    x, log = leaf(3.0), []
    x.register_hook(noting(log, "x"))
    (x * x + x * 2 + x).backward()
    (x * 5).backward()
    assert log == [("x", 9.0), ("x", 5.0)]
    assert x.grad.item() == 14.0


def test_a_computed_tensors_hook_gets_the_sum_over_its_uses():
    x, log = leaf(3.0), []
    h = x * 2
    h.register_hook(noting(log, "h"))
    (h * h + h).backward()
    assert log == [("h", 13.0)]


def test_hooks_run_under_grad_too_and_change_what_it_returns():
    x, log = leaf(2.0), []
    h = x * 3
    h.register_hook(noting(log, "h", lambda g: g * 10))
    x.register_hook(noting(log, "x", lambda g: g * 100))
    gh, gx = tp.autograd.grad(h * h, [h, x])
    assert log == [("h", 12.0), ("x", 360.0)]
    assert (gh.item(), gx.item(), x.grad) == (120.0, 36000.0, None)
    (gh,) = tp.autograd.grad(h * h, h)
    assert gh.item() == 120.0 and len(log) == 3  # x was not asked for


def test_a_hook_of_a_root_gets_the_gradient_that_was_given():
    x, log = leaf([1.0, 2.0]), []
    y = x * 2
    y.register_hook(noting(log, "y"))
    y.backward(tp.tensor([3.0, 4.0], dtype=tp.float64))
    x.register_hook(noting(log, "x"))
    x.backward(tp.ones(2, dtype=tp.float64))
    assert log == [("y", [3.0, 4.0]), ("x", [1.0, 1.0])]


def test_each_result_of_an_operator_with_several_has_hooks_of_its_own():
    x, log = leaf([[1.0, 5.0], [7.0, 2.0]]), []
    values, _ = x.max(1)
    values.register_hook(noting(log, "values", lambda g: g * 2))
    (gv, gx) = tp.autograd.grad(values.sum(), [values, x])
    assert log == [("values", [1.0, 1.0])]
    assert gv.tolist() == [2.0, 2.0] and gx.tolist() == [[0.0, 2.0], [2.0, 0.0]]


def test_a_handle_takes_its_hook_away_and_is_a_context_manager():
    x, log = leaf(1.0), []
    handle = x.register_hook(noting(log, "kept"))
    with x.register_hook(noting(log, "block")) as inner:
        (x * 2).backward()
    (x * 3).backward()
    handle.remove()
    handle.remove()
    inner.remove()
    (x * 4).backward()
    assert log == [("kept", 2.0), ("block", 2.0), ("kept", 3.0)]


def test_a_handle_keeps_nothing_alive():
    gc.collect()
    gc.disable()
    try:
        x = leaf(1.0)
        y = x * 2
        handle = y.register_hook(lambda g: None)
        node = weakref.ref(y._node)
        del y
        assert node() is None
        handle.remove()
    finally:
        gc.enable()


def test_a_hook_that_refers_to_its_tensor_is_collected_with_it():
    x = leaf(1.0)
    y = x * 2
    y.register_hook(y.mul)
    node = weakref.ref(y._node)
    del y
    gc.collect()
    assert node() is None


def test_a_hook_may_take_itself_away_while_it_runs():
    x, log = leaf(1.0), []
    y = x * 2

    def once(grad):
        log.append(grad.item())
        handle.remove()

    handle = y.register_hook(once)
    y.register_hook(noting(log, "after"))
    y.backward(retain_graph=True)
    y.backward()
    assert log == [1.0, ("after", 1.0), ("after", 1.0)]


def test_a_hook_may_run_a_backward_pass():
    x, w = leaf(2.0), leaf(5.0)

    def inner(grad):
        with tp.enable_grad():  # a hook runs as the pass does, which records nothing here
            (w * w).backward()
            (g,) = tp.autograd.grad(w * w * w, w)
        return grad * g

    y = x * 3
    y.register_hook(inner)
    y.backward()
    assert (w.grad.item(), x.grad.item()) == (10.0, 225.0)


def test_a_hook_is_recorded_only_where_the_pass_is():
    x, w = leaf(2.0), leaf(3.0)
    y = x * x
    y.register_hook(lambda g: g * w)
    (g,) = tp.autograd.grad(y, x, retain_graph=True)
    assert not g.requires_grad
    (g,) = tp.autograd.grad(y, x, create_graph=True)
    assert [t.item() for t in tp.autograd.grad(g, [x, w])] == [6.0, 4.0]
    x.register_hook(lambda g: g * w)
    (x * 2).backward(create_graph=True)
    assert tp.autograd.grad(x.grad, w)[0].item() == 2.0


@pytest.mark.parametrize(
    ("hook", "error", "text"),
    [
        (lambda g: g[:1], tp.AutogradError, r"<lambda> \(.*test_hooks.py:\d+\) changed the gradient's shape: .*\(2,\)"),
        (lambda g: g.to(tp.float32), tp.AutogradError, "dtype: it was given float64 and returned float32"),
        (lambda g: g.to("loopback"), tp.AutogradError, "device: it was given cpu and returned loopback:0"),
        (lambda g: 3, tp.ArgumentError, "returned a int"),
    ],
)
@pytest.mark.parametrize("where", ["leaf", "computed"])
def test_what_a_hook_may_not_return_is_refused_with_its_line(hook, error, text, where):
    x, other = leaf([1.0, 2.0]), leaf([1.0, 2.0])
    y = x * other
    (x if where == "leaf" else y).register_hook(hook)
    with pytest.raises(error, match=text):
        y.sum().backward()
    assert x.grad is None and other.grad is None


def test_messages_name_hooks_that_are_no_plain_functions():
    class Cut:
        def __call__(self, grad):
            return grad[:1]

        def cut(self, grad):
            return grad[:1]

    wanted = [
        (Cut(), r"the hook test_messages\w+\.Cut \(.*test_hooks.py:\d+\) changed"),
        (Cut().cut, r"the hook test_messages\w+\.Cut\.cut \(.*test_hooks.py:\d+\) changed"),
        (functools.partial(Cut.cut, None), r"the hook test_messages\w+\.Cut\.cut \(.*test_hooks.py:\d+\) changed"),
        (operator.itemgetter(slice(1)), r"the hook itemgetter changed"),
    ]
    for hook, text in wanted:
        x = leaf([1.0, 2.0])
        x.register_hook(hook)
        with pytest.raises(tp.AutogradError, match=text):
            (x * 2).sum().backward()


def test_a_hook_that_writes_to_a_gradient_that_others_have_is_refused():
    x = leaf([1.0, 2.0])
    y = x * 2
    y.register_hook(lambda g: g.mul_(2))
    with pytest.raises(tp.AutogradError, match=r"(?s)test_hooks.py:\d+\) wrote to a gradient.*return another"):
        y.backward(tp.ones(2, dtype=tp.float64))
    assert x.grad is None


def test_a_leafs_hook_may_write_to_its_gradient():
    x, y = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    x.register_hook(lambda g: g.mul_(10))
    g = tp.ones(2, dtype=tp.float64)
    (x + y).backward(g)
    assert (x.grad.tolist(), y.grad.tolist(), g.tolist()) == ([10.0, 10.0], [1.0, 1.0], [1.0, 1.0])


def test_a_gradient_that_a_hook_kept_is_not_the_stored_one():
    x, kept = leaf([1.0]), []
    x.register_hook(kept.append)
    (x * 2 + x).sum().backward()
    x.grad.mul_(100)
    assert kept[0].tolist() == [3.0]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
@pytest.mark.parametrize("where", ["leaf", "computed", "retained"])
def test_an_error_in_a_hook_leaves_every_grad_as_it_was(error, where):
    def fail(grad):
        raise error("in the hook")

    x, y = leaf([1.0]), leaf([2.0])
    x.grad = tp.tensor([5.0], dtype=tp.float64)
    h = x * y
    h.retain_grad()
    top = h * h
    {"leaf": y, "computed": h, "retained": x}[where].register_hook(fail)
    with pytest.raises(error, match="in the hook"):
        top.sum().backward()
    assert (x.grad.tolist(), y.grad, h.grad) == ([5.0], None, None)


def test_hooks_need_a_tensor_that_requires_grad_and_a_function():
    for method in ("register_hook", "register_post_accumulate_grad_hook"):
        with pytest.raises(tp.AutogradError, match=rf"(?s){method}.*does not require grad.*requires_grad_"):
            getattr(tp.ones(2), method)(print)
        with pytest.raises(tp.ArgumentError, match="not int"):
            getattr(leaf(1.0), method)(3)
    with pytest.raises(tp.AutogradError, match=r"(?s)only leaves accumulate.*register_hook"):
        (leaf(1.0) * 2).register_post_accumulate_grad_hook(print)
    with pytest.raises(tp.AutogradError, match="retain_grad: the tensor does not require grad"):
        tp.ones(2).retain_grad()


def test_a_hook_that_was_registered_before_a_write_stays_with_the_value_that_was_written_over():
    x, log = leaf([1.0, 1.0]), []
    h = x * 2
    h.register_hook(noting(log, "before"))
    h.mul_(3)
    h.register_hook(noting(log, "after"))
    (h * 5).sum().backward()
    assert log == [("after", [5.0, 5.0]), ("before", [15.0, 15.0])]


# ---------------------------------------------------------------------------------------------- after the gradient


def test_a_post_accumulate_hook_runs_after_the_gradient_is_stored():
    w, seen = leaf([1.0, 2.0]), []

    def step(tensor):
        seen.append(tensor.grad.tolist())
        tensor.sub_(tensor.grad)
        tensor.grad = None

    handle = w.register_post_accumulate_grad_hook(step)
    (w * 3).sum().backward()
    assert (seen, w.tolist(), w.grad) == ([[3.0, 3.0]], [-2.0, -1.0], None)
    tp.autograd.grad((w * 3).sum(), w)
    assert len(seen) == 1
    (w * 3).sum().backward(inputs=[w])
    handle.remove()
    (w * 3).sum().backward()
    assert len(seen) == 2 and w.grad.tolist() == [3.0, 3.0]


# -------------------------------------------------------------------------------------------------------- node hooks


def test_hooks_before_and_after_a_node():
    x, y, log = leaf(2.0), leaf(3.0), []
    z = x * y

    def before(grads):
        log.append(("before", [g.item() for g in grads]))
        return (grads[0] * 10,)

    def after(inputs, outputs):
        log.append(("after", [g.item() for g in inputs], [g.item() for g in outputs]))
        return inputs[0] + 1, inputs[1]

    z.grad_fn.register_prehook(before)
    handle = z.grad_fn.register_hook(after)
    z.backward(retain_graph=True)
    assert log == [("before", [1.0]), ("after", [30.0, 20.0], [10.0])]
    assert (x.grad.item(), y.grad.item()) == (31.0, 20.0)
    handle.remove()
    z.backward()
    assert (x.grad.item(), len(log)) == (61.0, 3)


def test_a_node_hook_sees_gradients_that_fit_the_inputs():
    x, y, seen = leaf([[1.0], [2.0]]), leaf([3.0, 4.0, 5.0]), []
    z = x * y
    z.grad_fn.register_hook(lambda inputs, outputs: seen.append([g.shape for g in inputs]))
    z.sum().backward()
    assert seen == [[(2, 1), (3,)]] and x.grad.tolist() == [[12.0], [12.0]]


def test_node_hooks_of_an_operator_with_several_results():
    x, seen = leaf([[1.0, 5.0]]), []
    values, _ = x.max(1)
    assert values.grad_fn is (values * 2).grad_fn.next_functions[0][0] and values.output_nr == 0
    values._node.register_prehook(lambda grads: seen.append([g if g is None else g.tolist() for g in grads]))
    values.grad_fn.register_hook(lambda inputs, outputs: (inputs[0] * 3,))
    values.sum().backward()
    assert seen[0][0] == [1.0] and x.grad.tolist() == [[0.0, 3.0]]


def test_hooks_around_a_leafs_node():
    x, log = leaf(1.0), []
    y = x * 2
    node = y.grad_fn.next_functions[0][0]
    node.register_prehook(lambda grads: (grads[0] * 5,))
    node.register_hook(lambda inputs, outputs: log.append((inputs, outputs[0].item(), x.grad.item())))
    y.backward()
    assert log == [((), 10.0, 10.0)]
    tp.autograd.grad(x * 2, x)
    assert len(log) == 1


@pytest.mark.parametrize(
    ("result", "text"),
    [
        (lambda a, b: (a[0],), "a tuple of 1 .*of which there are 2"),
        (lambda a, b: [*a], "a list"),
        (lambda a, b: 1, "int"),
    ],
)
def test_what_a_node_hook_may_not_return_is_refused(result, text):
    x, y = leaf([1.0]), leaf([2.0])
    z = x * y
    z.grad_fn.register_hook(result)
    with pytest.raises(tp.AutogradError, match=text):
        z.sum().backward()
    assert x.grad is None


def test_a_watched_node_is_still_itself():
    x = leaf([1.0, 2.0])
    y = x.exp()
    kind = type(y.grad_fn)
    y.register_hook(lambda g: None)
    node = y.grad_fn
    assert isinstance(node, kind) and (node.name, repr(node)) == ("ExpBackward", "<ExpBackward>")
    assert type(node) is not kind and not node.is_leaf and node._saved_result.tolist() == y.tolist()
    other = x.exp()
    other.retain_grad()
    (y + other).sum().backward()
    assert type(other.grad_fn) is type(node) and node.saved is None
