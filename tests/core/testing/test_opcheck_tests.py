"""Each check by itself, on what authors of operators do: it finds the mistake, and names it as what it is."""

from __future__ import annotations

import pytest

import tensorplay as tp
from tensorplay_core.ops.custom import registration

opcheck = tp.library.opcheck


@pytest.fixture(autouse=True)
def leave_no_operator_behind():
    before = set(registration.DEFINITIONS)
    yield
    for name in set(registration.DEFINITIONS) - before:
        registration.DEFINITIONS.pop(name)._lib.close()


def op(kernel, schema="(Tensor x) -> Tensor", mutates=()):
    return tp.library.custom_op("t::op", kernel, mutates_args=mutates, schema=schema)


def sample(**settings):
    return tp.tensor([[0.5, -2.0, 3.0], [1.5, 2.5, -0.25]], **settings)


def fails(made, args, test, message):
    """Asserts that one test fails, and returns what it says."""
    with pytest.raises(tp.OpCheckError, match=rf"(?s)opcheck: {test} failed: {message}.*\nfix: ") as info:
        opcheck(made, args, test_utils=test)
    return str(info.value)


def bump(x):
    x.add_(1)


def test_a_write_that_happens_only_sometimes_is_called_a_write():
    calls = []

    def kernel(x):
        calls.append(x)
        if len(calls) == 3:
            x.add_(1)
        return x * 2

    tests = ("test_schema", "test_fast_path")
    fails_with = r"t::op: the kernel \(.*\) wrote to its argument x"
    with pytest.raises(tp.OpCheckError, match=rf"test_fast_path failed: {fails_with}"):
        opcheck(op(kernel), (sample(),), test_utils=tests)


def test_a_write_of_the_same_values_is_a_write():
    fails(op(lambda x: x.add_(0).clone()), (sample(),), "test_schema", r"t::op: the kernel .* wrote to its argument x")


def test_of_a_list_the_item_is_named():
    made = op(lambda xs: xs[1].zero_().clone(), "(Tensor[] xs) -> Tensor")
    text = fails(made, ([sample(), sample()],), "test_schema", r".* wrote to its argument xs\[1\]")
    assert text.endswith("or work on xs[1].clone().")


def test_a_tensor_that_is_declared_under_another_name_is_declared():
    x = sample()
    made = op(lambda x, y: bump(x), "(Tensor(a!) x, Tensor y) -> ()", mutates={"x"})
    made.register_fake(lambda x, y: None)
    assert opcheck(made, (x, x), test_utils="test_schema") == {"test_schema": "SUCCESS"}


def test_results_that_change_when_a_gradient_is_recorded_are_found():
    made = op(lambda x: x * 2)
    made.register_autograd(lambda ctx, grad: grad * 2, setup_context=lambda ctx, inputs, output: bump(output))
    fails(made, (sample(requires_grad=True),), "test_autograd_registration", "t::op: its results are others when")


def test_a_backward_that_writes_to_the_array_of_its_gradient_is_found():
    def backward(ctx, grad):
        array = grad.numpy()
        array *= 2
        return tp.from_numpy(array.copy())

    made = op(lambda x: x * 2)
    made.register_autograd(backward)
    fails(made, (sample(),), "test_gradient", "t::op: its backward wrote to a gradient")


def test_an_error_that_has_a_remedy_gets_no_second_one():
    made = op(lambda x: x * 2)
    made.register_autograd(lambda ctx, grad: (grad, grad))
    text = fails(made, (sample(requires_grad=True),), "test_gradient", "t::op: its backward .* returned 2 gradients")
    assert text.count("fix: ") == 1
