"""``tp.autograd.graph``: PyTorch's names for looking into a graph, and hooks on several tensors."""

from __future__ import annotations

import subprocess
import sys

import pytest

import tensorplay as tp
from tensorplay.autograd.graph import GradientEdge, get_gradient_edge, increment_version, register_multi_grad_hook


def leaf(data, dtype=tp.float64):
    return tp.tensor(data, dtype=dtype, requires_grad=True)


def numbers(grads):
    return [None if g is None else g.item() for g in grads]


# -------------------------------------------------------------------------------------------------- hooks on several


def test_a_hook_on_several_tensors_gets_all_gradients_of_a_pass_once():
    x, y, z, log = leaf(1.0), leaf(2.0), leaf(3.0), []
    handle = register_multi_grad_hook([x, y, z], lambda grads: log.append(numbers(grads)))
    (x * y).backward()
    (x * y * z).backward()
    tp.autograd.grad(x * y, x)
    assert log == [[2.0, 1.0, None], [6.0, 3.0, 2.0], [2.0, None, None]]
    handle.remove()
    (x * y).backward()
    assert len(log) == 3


def test_it_takes_computed_tensors_and_gives_what_other_hooks_made_of_the_gradient():
    x, log = leaf(2.0), []
    a, b = x * 3, x * 5
    a.register_hook(lambda g: g * 10)
    with register_multi_grad_hook((a, b), lambda grads: log.append(numbers(grads))):
        (a * b).backward(retain_graph=True)
    (a * b).backward()
    assert log == [[100.0, 6.0]]


def test_mode_any_is_called_with_the_first_gradient_of_a_pass():
    x, y, log = leaf(1.0), leaf(2.0), []
    a, b = x * 2, y * 3
    register_multi_grad_hook([a, b], lambda grad: log.append(grad.item()), mode="any")
    (a + b * 10).backward(retain_graph=True)
    (b * 10).backward()
    assert len(log) == 2 and log[0] in (1.0, 10.0) and log[1] == 10.0


def test_an_error_in_it_leaves_every_grad_as_it_was():
    def fail(grads):
        raise ValueError("no")

    for mode in ("all", "any"):
        x, y = leaf(1.0), leaf(2.0)
        register_multi_grad_hook([x, y], fail, mode=mode)
        with pytest.raises(ValueError, match="no"):
            (x * y).backward()
        assert x.grad is None and y.grad is None


def test_its_arguments_are_checked():
    x = leaf(1.0)
    with pytest.raises(tp.ValueRangeError, match="'all' or 'any', not 'both'"):
        register_multi_grad_hook([x], print, mode="both")
    with pytest.raises(tp.ArgumentError, match="fn is a function"):
        register_multi_grad_hook([x], 3)
    with pytest.raises(tp.AutogradError, match="tensor 1 does not require grad"):
        register_multi_grad_hook([x, tp.ones(())], print)


# --------------------------------------------------------------------------------------------------------------- edges


def test_an_edge_stands_for_a_tensor_that_is_gone():
    x = leaf([1.0, 2.0])
    h = x * 2
    y = h * h
    edge_h, edge_y, edge_x = get_gradient_edge(h), get_gradient_edge(y), get_gradient_edge(x)
    assert (edge_y.node, edge_y.output_nr) == (y.grad_fn, 0)
    del h, y
    ones = tp.ones(2, dtype=tp.float64)
    gh, gx = tp.autograd.grad(edge_y, [edge_h, edge_x], ones, retain_graph=True)
    assert (gh.tolist(), gx.tolist()) == ([4.0, 8.0], [8.0, 16.0])
    tp.autograd.backward(edge_y, ones, inputs=[edge_x], retain_graph=True)
    tp.autograd.backward([edge_y], [ones])
    assert x.grad.tolist() == [16.0, 32.0]


def test_edges_of_an_operator_with_several_results():
    x = leaf([[1.0, 5.0], [7.0, 2.0]])
    values, _ = x.max(1)
    edge = get_gradient_edge(values)
    assert edge == GradientEdge(values.grad_fn, 0)
    (g,) = tp.autograd.grad((values * values).sum(), edge)
    assert g.tolist() == [10.0, 14.0]
    (g,) = tp.autograd.grad(GradientEdge(values.grad_fn, 0), x, tp.ones(2, dtype=tp.float64))
    assert g.tolist() == [[0.0, 1.0], [1.0, 0.0]]


def test_an_edge_needs_a_graph():
    with pytest.raises(tp.AutogradError, match="does not require grad"):
        get_gradient_edge(tp.ones(2))
    with pytest.raises(tp.ArgumentError, match="not int"):
        get_gradient_edge(3)


# ------------------------------------------------------------------------------------------------------------ the rest


def test_increment_version_makes_a_pass_raise_that_needs_the_old_value():
    x = leaf([1.0, 2.0])
    a, b = x * 1, x * 2
    y = (a * b).sum()
    increment_version([a, b])
    with pytest.raises(tp.AutogradError, match="modified in place"):
        y.backward()
    with pytest.raises(tp.ArgumentError, match="not int"):
        increment_version([3])


def test_increment_version_counts_as_a_write_to_a_view_taken_in_no_grad():
    h = leaf([1.0, 2.0]) * 1
    with tp.no_grad():
        view = h[0]
    increment_version(h)
    with pytest.raises(tp.AutogradError, match="taken in no_grad"):
        view * 2


def test_it_is_a_module_that_can_be_imported_and_is_loaded_when_it_is_asked_for():
    import tensorplay.autograd.graph as module

    assert module is tp.autograd.graph and callable(module)
    assert {"Node", "saved_tensors_hooks", "save_on_cpu", "disable_saved_tensors_hooks"} <= set(module.__all__)
    code = (
        "import sys, tensorplay as tp; x = tp.ones(2, requires_grad=True); (x * x).sum().backward(); "
        "print([m for m in sys.modules if m.startswith('tensorplay_core.autograd.') and m.rpartition('.')[2] in "
        "('hooks', 'graph', 'anomaly', 'saved', 'checkpoint')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "[]", done.stderr


def test_what_is_no_list_of_tensors_is_refused():
    x = tp.ones(2, requires_grad=True)
    with pytest.raises(TypeError, match=r"not one tensor\nfix: put it into a list"):
        tp.autograd.graph.register_multi_grad_hook(x, print)
    with pytest.raises(TypeError, match=r"takes tensors, not int\nfix: "):
        tp.autograd.graph.increment_version(3)
    with pytest.raises(TypeError, match=r"output 0 is int\nfix: "):
        tp.autograd.graph(3)
