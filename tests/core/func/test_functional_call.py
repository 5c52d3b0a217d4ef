"""``functional_call`` and ``stack_module_state``: objects with tensors in attributes, lists, and objects within."""

from __future__ import annotations

import numpy as np
import pytest

import tensorplay as tp
from tensorplay.func import functional_call, grad, stack_module_state, vmap
from tensorplay_core.func.functional_call import named_tensors


class Line:
    def __init__(self, scale=1.0):
        self.weight = (tp.ones(2) * scale).requires_grad_()
        self.bias = tp.zeros(1)

    def __call__(self, x, times=1):
        return (x @ self.weight + self.bias) * times


class Stack:
    def __init__(self):
        self.layers = [Line(), Line(2.0)]
        self.tied = self.layers[0].weight

    def __call__(self, x):
        return self.layers[0](x) + self.layers[1](x) + (self.tied * 10).sum()


X = tp.tensor([[1.0, 2.0]])


def test_some_tensors_are_others_during_the_call():
    line = Line()
    weight = line.weight
    other = {"weight": tp.tensor([10.0, 1.0])}
    assert functional_call(line, other, X).tolist() == [12.0]
    assert functional_call(line, [other, {"bias": tp.ones(1)}], (X,), {"times": 2}).tolist() == [26.0]
    assert line.weight is weight


def test_paths_through_lists_and_objects_and_tied_tensors():
    stack = Stack()
    assert functional_call(stack, {"layers.1.weight": tp.zeros(2)}, X).tolist() == [23.0]
    assert functional_call(stack, {"layers.0.weight": tp.zeros(2)}, X).tolist() == [6.0]
    assert functional_call(stack, {"layers.0.weight": tp.zeros(2)}, X, tie_weights=False).tolist() == [26.0]


def test_everything_is_as_it_was_whatever_is_raised():
    line = Line()
    weight = line.weight
    with pytest.raises(tp.errors.ShapeError):
        functional_call(line, {"weight": tp.zeros(3)}, X)
    assert line.weight is weight


def test_what_is_not_there_is_named():
    with pytest.raises(tp.errors.ArgumentError, match=r"has no 'wieght'.*weight"):
        functional_call(Line(), {"wieght": X}, X)
    with pytest.raises(tp.errors.ArgumentError, match=r"has no 'layers\.7\.weight'"):
        functional_call(Stack(), {"layers.7.weight": X}, X)
    with pytest.raises(tp.errors.ArgumentError, match="given twice"):
        functional_call(Line(), [{"bias": X}, {"bias": X}], X)
    with pytest.raises(tp.errors.ArgumentError, match="cannot be called"):
        functional_call(3, {}, X)


def test_gradients_by_name():
    line = Line()
    found = grad(lambda p: functional_call(line, p, X).sum())({"weight": line.weight, "bias": line.bias})
    assert found["weight"].tolist() == [1.0, 2.0] and found["bias"].tolist() == [1.0]


def test_an_ensemble():
    lines = [Line(1.0), Line(2.0), Line(3.0)]
    parameters, buffers = stack_module_state(lines)
    assert parameters["weight"].shape == (3, 2) and parameters["weight"].requires_grad and list(buffers) == ["bias"]
    found = vmap(lambda p, b: functional_call(lines[0], (p, b), X))(parameters, buffers)
    assert found.tolist() == [[3.0], [6.0], [9.0]]
    with pytest.raises(tp.errors.ArgumentError, match="no module"):
        stack_module_state([])
    with pytest.raises(tp.errors.ArgumentError, match="several classes"):
        stack_module_state([Line(), Stack()])


def test_modules_and_functions_in_attributes_hold_no_tensors():
    class Holder:
        def __init__(self):
            self.weight, self.library, self.activation = tp.ones(2), np, helper

        def __call__(self, x):
            return self.activation(x @ self.weight)

    def helper(x):
        return x * 2

    helper.hidden = tp.ones(7)
    holder = Holder()
    assert [path for path, _ in named_tensors(holder)] == ["weight"]
    assert functional_call(holder, {"weight": tp.zeros(2)}, X).tolist() == [0.0]


def test_tensors_in_tuples_cannot_be_others():
    class Fixed:
        def __init__(self):
            self.weights = (tp.ones(2), tp.ones(2))

        def __call__(self, x):
            return x @ self.weights[0]

    fixed = Fixed()
    before = fixed.weights
    with pytest.raises(tp.errors.ArgumentError, match=r"(?s)weights\.0.*in a tuple.*fix: .*list"):
        functional_call(fixed, {"weights.0": tp.zeros(2)}, X)
    assert fixed.weights is before
    stack = Stack()
    with pytest.raises(tp.errors.ArgumentError, match=r"has no 'layers\.2'"):
        functional_call(stack, {"layers.2": X}, X)


def test_strict_wants_every_tensor():
    line = Line()
    with pytest.raises(tp.errors.ArgumentError, match=r"(?s)strict=True.*bias.*fix: "):
        functional_call(line, {"weight": tp.zeros(2)}, X, strict=True)
    both = {"weight": tp.zeros(2), "bias": tp.ones(1)}
    assert functional_call(line, both, X, strict=True).tolist() == [1.0]
    stack = Stack()
    some = {path: t for path, t in named_tensors(stack) if path != "layers.0.weight"}  # which is tied
    assert functional_call(stack, some, X, strict=True).tolist() == stack(X).tolist()
    with pytest.raises(tp.errors.ArgumentError, match=r"strict=True.*layers\.0\.weight"):
        functional_call(stack, some, X, strict=True, tie_weights=False)
