"""Saved-tensor hooks: what they are given, what they may give back, and what they cost nobody else."""

from __future__ import annotations

import threading
import weakref

import pytest

import tensorplay as tp
from tensorplay_core.dispatch import active

graph = tp.autograd.graph


def leaf(data, dtype=tp.float64):
    return tp.tensor(data, dtype=dtype, requires_grad=True)


def as_lists(log=None):
    """Hooks that keep nested lists, and note what they are given."""

    def pack(tensor):
        if log is not None:
            log.append(tensor.tolist())
        return tensor.dtype, tensor.device, tensor.shape, tensor.tolist()

    def unpack(kept):
        dtype, device, shape, values = kept
        return tp.tensor(values, dtype=dtype, device=device).reshape(shape)

    return graph.saved_tensors_hooks(pack, unpack)


def test_inputs_and_results_go_through_the_hooks():
    x, log = leaf([1.0, 2.0]), []
    with as_lists(log):
        y = (x * x).exp()
    assert len(log) == 3 and log[:2] == [[1.0, 2.0]] * 2 and log[2] == y.tolist()
    y.sum().backward()
    tp.testing.assert_close(x.grad, 2 * x.detach() * y.detach())


def test_what_a_hook_is_given_is_detached_and_it_does_not_record():
    x, seen = leaf([1.0, 2.0]), []

    def pack(tensor):
        seen.append((tensor.requires_grad, tp.is_grad_enabled(), (tensor * tensor).requires_grad))
        return tensor

    def unpack(tensor):
        seen.append(tp.is_grad_enabled())
        return tensor

    with graph.saved_tensors_hooks(pack, unpack):
        y = (x * 1.5).exp()
    y.sum().backward()
    assert seen == [(False, False, False), False]


def test_the_innermost_hooks_apply_and_outer_ones_come_back():
    x, outer, inner = leaf([1.0]), [], []
    with as_lists(outer):
        a = x.exp()
        with as_lists(inner):
            b = a.exp()
        c = b.exp()
    c.sum().backward()
    assert outer == [a.tolist(), c.tolist()] and inner == [b.tolist()]
    assert active.special == 0


def test_a_second_derivative_and_a_second_pass():
    x = leaf([0.5])
    with as_lists():
        y = x.exp() * x
    for _ in range(2):
        (g,) = tp.autograd.grad(y.sum(), x, create_graph=True)
        (h,) = tp.autograd.grad(g.sum(), x, retain_graph=True)
        tp.testing.assert_close(
            [g.item(), h.item()], [1.5 * (0.5).__class__(1.6487212707001282), 2.5 * 1.6487212707001282]
        )
    y.sum().backward()
    with pytest.raises(tp.AutogradError, match="has been walked"):
        y.sum().backward()


def test_a_pass_lets_go_of_what_was_packed():
    class Kept:
        def __init__(self, tensor):
            self.tensor = tensor

    x, refs = leaf([1.0]), []

    def pack(tensor):
        kept = Kept(tensor)
        refs.append(weakref.ref(kept))
        return kept

    with graph.saved_tensors_hooks(pack, lambda kept: kept.tensor):
        y = x.exp().sum()
    assert refs[0]() is not None
    y.backward()
    assert refs[0]() is None


def test_operators_with_several_results_custom_ones_and_functions():
    @tp.library.custom_op("saved_test::cube", mutates_args=())
    def cube(x: tp.Tensor) -> tp.Tensor:
        return x.detach() * x.detach() * x.detach()

    tp.library.register_autograd(
        "saved_test::cube",
        lambda ctx, grad: grad * 3 * ctx.saved_tensors[0] * ctx.saved_tensors[0],
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(inputs[0]),
    )

    class Square(tp.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, grad):
            return grad * 2 * ctx.saved_tensors[0]

    x, log = leaf([[1.0, 5.0], [7.0, 2.0]]), []
    with as_lists(log):
        y = Square.apply(cube(x).max(1)[0])
    assert [[1.0, 5.0], [7.0, 2.0]] in log and [125.0, 343.0] in log and [1, 0] in log
    y.sum().backward()
    assert x.grad.tolist() == [[0.0, 2 * 125.0 * 75.0], [2 * 343.0 * 147.0, 0.0]]


def test_in_place_writes():
    x = leaf([1.0, 2.0])
    with as_lists():
        h = x * 1
        h.mul_(h)
        h.exp_()
    h.sum().backward()
    tp.testing.assert_close(x.grad, tp.tensor([2 * 2.718281828459045, 4 * 54.598150033144236], dtype=tp.float64))


def test_a_tensor_that_is_kept_as_it_is_keeps_its_version_check():
    x = leaf([1.0, 2.0])
    with graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        h = x * 1
        y = h * h
    h.detach().add_(1)
    with pytest.raises(tp.AutogradError, match=r"mul saved 'other'.*version 0.*modified in place"):
        y.sum().backward()
    with graph.saved_tensors_hooks(lambda t: t.clone(), lambda t: t):
        h = x * 1
        y = h * h
    h.detach().add_(1)
    y.sum().backward()
    assert x.grad.tolist() == [2.0, 4.0]


@pytest.mark.parametrize(
    ("unpack", "error", "text"),
    [
        (
            lambda t: None,
            tp.ArgumentError,
            r"unpack hook <lambda> \(.*test_saved.py:\d+\) returned a NoneType for 'result' of Exp",
        ),
        (
            lambda t: t[:1],
            tp.AutogradError,
            r"shape \(1,\) for 'result' of ExpBackward, which was packed with shape \(2,\)",
        ),
        (lambda t: t.to(tp.float32), tp.AutogradError, "dtype float32 .* packed with dtype float64"),
        (lambda t: t.to("loopback"), tp.AutogradError, "device loopback:0 .* packed with device cpu"),
    ],
)
def test_what_unpack_may_not_return_is_refused(unpack, error, text):
    x, other = leaf([1.0, 2.0]), leaf([1.0, 2.0])
    with graph.saved_tensors_hooks(lambda t: t, unpack):
        y = x.exp()
    with pytest.raises(error, match=text):
        (y + other).sum().backward()
    assert x.grad is None and other.grad is None


def test_an_error_in_pack_records_nothing():
    def refuse(tensor):
        raise ValueError("no room")

    x, h = leaf([1.0, 2.0]), leaf([1.0, 2.0]) * 1
    node = h._node
    with graph.saved_tensors_hooks(refuse, lambda t: t):
        with pytest.raises(ValueError, match="no room"):
            x.exp()
        with pytest.raises(ValueError, match="no room"):
            h.exp_()
    assert h._node is node
    assert x.exp().requires_grad


def test_a_pack_hook_that_writes_to_its_tensor_is_refused():
    x = leaf([1.0, 2.0])
    with graph.saved_tensors_hooks(lambda t: t.mul_(2), lambda t: t), pytest.raises(tp.AutogradError, match="wrote to"):
        x * x


def test_python_numbers_are_not_packed():
    x, log = leaf([1.0, 2.0]), []
    with as_lists(log):
        y = x * 2 * 3.5
    assert log == []
    y.sum().backward()
    assert x.grad.tolist() == [7.0, 7.0]


def test_another_thread_has_no_hooks():
    x, log = leaf([1.0]), []
    with as_lists(log):
        thread = threading.Thread(target=lambda: x.exp())
        thread.start()
        thread.join()
    assert log == []


def test_save_on_cpu():
    x = tp.ones(3, device="loopback", requires_grad=True)
    with graph.save_on_cpu():
        y = (x * x).exp()
    ((mul, _),) = y.grad_fn.next_functions
    assert [mul.saved[0][0].held[1].device.type, mul._saved_self.device] == ["cpu", tp.device("loopback:0")]
    y.sum().backward()
    assert x.grad.device == tp.device("loopback:0") and x.grad.tolist() == pytest.approx([2 * 2.718281828] * 3)
    with pytest.raises(tp.ArgumentError, match="pinned"):
        graph.save_on_cpu(pin_memory=True)


def test_hooks_can_be_disabled():
    with graph.disable_saved_tensors_hooks("not here"), pytest.raises(tp.AutogradError, match="not here"), as_lists():
        pass
    with as_lists(), pytest.raises(tp.AutogradError, match="not now"), graph.disable_saved_tensors_hooks("not now"):
        pass

    @graph.disable_saved_tensors_hooks("nor here")
    def decorated():
        with as_lists():
            pass

    with pytest.raises(tp.AutogradError, match="nor here"):
        decorated()
    with pytest.raises(tp.ArgumentError, match="pack_hook"):
        graph.saved_tensors_hooks(1, 2)
    assert active.special == 0


def test_what_a_node_saved_can_be_read():
    x, y = leaf([[1.0, 5.0]]), leaf([[2.0, 3.0]])
    z = x * y
    node = z.grad_fn
    assert node._saved_self.tolist() == x.tolist() and node._saved_self._node is x._node
    assert node._saved_other.requires_grad and (x * 2).grad_fn._saved_self is None
    assert x.exp().grad_fn._saved_result.grad_fn.name == "ExpBackward"
    assert z.sum(1, keepdim=True).grad_fn._saved_keepdim is True
    assert z.max(1)[0].grad_fn._saved_indices.tolist() == [1]
    with as_lists():
        packed = x * y
    assert packed.grad_fn._saved_other.tolist() == y.tolist()
    z.sum().backward()
    with pytest.raises(tp.AutogradError, match="has been walked"):
        _ = node._saved_self
    with pytest.raises(AttributeError):
        _ = node._saved_nothing
