"""``tp.autograd.check_operator``: what it checks of an operator, and that it finds what is wrong."""

from __future__ import annotations

import pytest

import tensorplay as tp
from tensorplay_core import errors
from tensorplay_core.testing.check_operator import check_operator


@pytest.fixture
def library():
    with_it = tp.library.Library("check_operator_test", "DEF")
    yield with_it
    with_it.close()


def rows(report):
    return {(row.check, row.dtype): row for row in report.rows}


@pytest.mark.parametrize("op", ["tp::mul", "mul", tp.mul, tp.ops.tp.mul, tp.ops.tp.mul.default])
def test_operators_by_name_packet_overload_and_function(op):
    report = check_operator(op, dtypes=("float64",))
    assert report and report.ok and report.operator == "mul"
    found = rows(report)
    assert {check for check, _ in found} == {
        "gradient", "second gradient", "forward mode", "in-place", "out=", "dtypes", "registration",
    }  # fmt: skip
    assert all(row.samples > 2 and row.problem is None for row in found.values())


def test_complex_numbers_where_they_are_taken():
    found = rows(check_operator("tanh"))
    assert found["gradient", "complex128"].samples > 3
    found = rows(check_operator("relu"))
    assert found["gradient", "complex128"].note == "it takes no such tensors, or returns none"


def test_what_has_no_gradient_says_so():
    assert rows(check_operator("eq"))["gradient", "float64"].note == "it takes no such tensors, or returns none"


def custom(library, name, backward):
    library.define(f"{name}(Tensor x) -> Tensor")
    library.impl(name, lambda x: x * x, "CPU")
    tp.library.register_autograd(
        f"check_operator_test::{name}",
        backward,
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(inputs[0]),
        lib=library,
    )
    tp.library.register_fake(f"check_operator_test::{name}", lambda x: tp.empty_like(x), lib=library)
    return getattr(tp.ops.check_operator_test, name)


SAMPLES = [(tp.tensor([1.0, 2.0]),), (tp.tensor(3.0),)]


def test_custom_operators_are_checked_on_samples_that_are_given(library):
    right = custom(library, "right", lambda ctx, g: g * 2 * ctx.saved_tensors[0])
    with pytest.raises(errors.ArgumentError, match=r"it names no shape rule\nfix: pass some: samples="):
        check_operator(right)
    report = check_operator(right, samples=SAMPLES)
    assert report
    assert rows(report)["gradient", "float64"].samples == 2
    assert check_operator("check_operator_test::right", samples=[((tp.ones(2),), {}), tp.ones(3)])
    assert SAMPLES[0][0].requires_grad is False


def test_wrong_gradients_are_found(library):
    wrong = custom(library, "wrong", lambda ctx, g: g * 3 * ctx.saved_tensors[0])
    with pytest.raises(errors.OpCheckError) as caught:
        check_operator(wrong, samples=SAMPLES)
    text = str(caught.value)
    assert text.splitlines()[0] == "check_operator: check_operator_test::wrong"
    assert "gradient         float64     2        FAILED" in text
    assert "gradient, float64: sample 'number 0': GradcheckError: gradcheck: the gradient of output 0" in text
    report = check_operator(wrong, samples=SAMPLES, raise_exception=False)
    assert not report and not report.ok


def test_a_gradient_that_cannot_be_differentiated_is_found(library):
    once = custom(library, "once", lambda ctx, g: g * 2 * ctx.saved_tensors[0].detach())
    found = rows(check_operator(once, samples=SAMPLES, raise_exception=False))
    assert found["gradient", "float64"].problem is None
    assert found["second gradient", "float64"].problem is not None


def test_an_operator_without_a_gradient_fails(library):
    library.define("bare(Tensor x) -> Tensor")
    library.impl("bare", lambda x: x * x, "CPU")
    with pytest.raises(errors.OpCheckError, match="it has no gradient formula"):
        check_operator("check_operator_test::bare", samples=SAMPLES)


def test_samples_are_tuples():
    with pytest.raises(errors.ArgumentError, match=r"a sample is a tuple of arguments, not float\nfix: write \(x,\)"):
        check_operator("tanh", samples=[1.0])
