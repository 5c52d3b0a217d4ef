"""Anomaly mode: an error in a backward pass names the forward line, and costs nothing while the mode is off."""

from __future__ import annotations

import threading

import pytest

import tensorplay as tp
from tensorplay_core.dispatch import active


def leaf(data, dtype=tp.float64):
    return tp.tensor(data, dtype=dtype, requires_grad=True)


@pytest.fixture(autouse=True)
def leave_it_off():
    yield
    assert not tp.autograd.is_anomaly_enabled()
    assert (active.checking, active.recorded) == (None, None)


def story(error):
    """What the traceback of an error says after its message."""
    return "\n".join(getattr(error.value, "__notes__", []))


def test_a_nan_names_the_node_the_output_and_the_forward_line():
    x = leaf([0.0, 1.0])
    with tp.autograd.detect_anomaly():
        y = x.sqrt()  # the forward line
        with pytest.raises(tp.AutogradError, match=r"SqrtBackward returned nan values in its 0th output") as error:
            (y * 0).sum().backward()
    assert "test_anomaly.py:" in str(error.value) and "y = x.sqrt()  # the forward line" in str(error.value)
    assert "Error detected in SqrtBackward" in story(error)
    assert "in test_a_nan_names_the_node_the_output_and_the_forward_line" in story(error)
    assert "y = x.sqrt()  # the forward line" in story(error)
    assert "tensorplay_core" not in story(error)
    assert x.grad is None


def test_the_second_of_two_gradients():
    x, y = leaf([0.0]), leaf([0.0])
    with tp.autograd.detect_anomaly(), pytest.raises(tp.AutogradError, match=r"DivBackward .* nan values in its 1th"):
        (x / y).sum().backward()


def test_check_nan_can_be_left_out():
    x = leaf(0.0)
    with tp.autograd.detect_anomaly(check_nan=False):
        assert not tp.autograd.is_anomaly_check_nan_enabled()
        (x.sqrt() * 0).backward()
    assert tp.autograd.is_anomaly_check_nan_enabled()
    assert x.grad.item() != x.grad.item()


def test_any_error_of_a_node_gets_the_forward_line():
    x = leaf([1.0, 2.0])
    with tp.autograd.detect_anomaly():
        h = x * 1
        y = h * h  # saves h
        h.detach().add_(1)
        with pytest.raises(tp.AutogradError, match="modified in place") as error:
            y.sum().backward()
    assert "y = h * h  # saves h" in story(error)


def test_a_graph_that_was_freed():
    x = leaf([1.0, 2.0])
    with tp.autograd.detect_anomaly():
        y = x.exp()  # once
        y.sum().backward()
        with pytest.raises(tp.AutogradError, match="has been walked") as error:
            y.sum().backward()
    assert "y = x.exp()  # once" in story(error)


def test_a_function_of_the_programs_own():
    class Fails(tp.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            raise ValueError("no backward today")

    x = leaf([1.0])
    with tp.autograd.detect_anomaly():
        y = Fails.apply(x)  # mine
        with pytest.raises(ValueError, match="today") as error:
            y.sum().backward()
    assert "y = Fails.apply(x)  # mine" in story(error)


def test_the_second_backward_names_the_forward_call_of_the_first():
    x = leaf(0.0)
    with tp.autograd.detect_anomaly(check_nan=False):
        y = x.sqrt()  # forward
        (g,) = tp.autograd.grad(y, x, create_graph=True)
    with tp.autograd.detect_anomaly(), pytest.raises(tp.AutogradError, match="nan") as error:
        (g * 0).backward()
    assert "The call was made by the backward of SqrtBackward. Traceback of its forward call" in story(error)
    assert "y = x.sqrt()  # forward" in story(error)


def test_a_node_that_was_made_while_the_mode_was_off_says_so():
    x = leaf(0.0)
    y = x.sqrt() * 0
    with tp.autograd.detect_anomaly(), pytest.raises(tp.AutogradError, match="SqrtBackward returned nan") as error:
        y.backward()
    assert "recorded while anomaly detection was off" in story(error)


def test_it_is_a_decorator_and_a_setting():
    @tp.autograd.detect_anomaly()
    def inside():
        return tp.autograd.is_anomaly_enabled()

    assert inside() and not tp.autograd.is_anomaly_enabled()
    with tp.autograd.set_detect_anomaly(True):
        assert tp.autograd.is_anomaly_enabled()
        with tp.autograd.set_detect_anomaly(False):
            assert not tp.autograd.is_anomaly_enabled()
        assert tp.autograd.is_anomaly_enabled()
    tp.autograd.set_detect_anomaly(True, check_nan=False)
    assert tp.autograd.is_anomaly_enabled() and not tp.autograd.is_anomaly_check_nan_enabled()
    tp.autograd.set_detect_anomaly(False)
    with pytest.raises(tp.ArgumentError, match="True or False"):
        tp.autograd.set_detect_anomaly(1)


def test_it_is_on_in_every_thread():
    seen = []
    with tp.autograd.detect_anomaly():
        thread = threading.Thread(target=lambda: seen.append(tp.autograd.is_anomaly_enabled()))
        thread.start()
        thread.join()
    assert seen == [True]


def test_gradients_are_those_without_it():
    x = leaf([[1.0, 5.0], [2.0, 3.0]])

    def gradients():
        values, _ = (x * x.exp()).max(1)
        (g,) = tp.autograd.grad(values.sum(), x, create_graph=True)
        return g.tolist(), tp.autograd.grad(g.sum(), x)[0].tolist()

    plain = gradients()
    with tp.autograd.detect_anomaly():
        assert gradients() == plain


def test_a_write_to_a_view_names_its_line():
    x, w = leaf([1.0, 2.0]), leaf([0.0])
    with tp.autograd.detect_anomaly():
        h = x * 1
        h[0:1].mul_(w.sqrt())  # the write
        with pytest.raises(tp.AutogradError, match=r"nan|Sqrt") as error:
            (h * 0).sum().backward()
    assert "h[0:1].mul_(w.sqrt())  # the write" in story(error)


def test_gradients_of_each_sample():
    x = tp.tensor([1.0, 4.0, 9.0])
    with tp.autograd.detect_anomaly():
        assert tp.vmap(tp.func.grad(lambda v: v * v))(x).tolist() == [2.0, 8.0, 18.0]
        assert tp.func.grad(lambda x: tp.vmap(lambda v: v * v)(x).sum())(x).tolist() == [2.0, 8.0, 18.0]
        with pytest.raises(tp.AutogradError, match=r"(?s)SqrtBackward returned nan.*fix: keep the forward away"):
            tp.vmap(tp.func.grad(lambda v: v.sqrt() * 0))(tp.tensor([1.0, 0.0, 9.0]))
