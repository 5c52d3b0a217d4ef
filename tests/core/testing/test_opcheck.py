"""``opcheck`` passes for operators that keep their promises, and else names what is wrong, where, and the remedy."""

from __future__ import annotations

import numpy as np
import pytest

import tensorplay as tp
from tensorplay_core.dispatch.registry import REGISTRY
from tensorplay_core.ops.custom import registration
from tensorplay_core.ops.packets import overload_of
from tensorplay_core.testing.opcheck_tests import ALL, TESTS
from tensorplay_core.testing.samples import samples

opcheck = tp.library.opcheck
GOOD = dict.fromkeys(ALL, "SUCCESS")


@pytest.fixture(autouse=True)
def leave_no_operator_behind():
    before = set(registration.DEFINITIONS)
    yield
    for name in set(registration.DEFINITIONS) - before:
        registration.DEFINITIONS.pop(name)._lib.close()


def op(kernel, schema="(Tensor x) -> Tensor", mutates=(), tags=()):
    return tp.library.custom_op("t::op", kernel, mutates_args=mutates, schema=schema, tags=tags)


def square(fake=lambda x: tp.empty_like(x), backward=lambda ctx, grad: 2 * ctx.x * grad):
    made = op(lambda x: tp.from_numpy(x.numpy() ** 2))
    made.register_fake(fake)
    made.register_autograd(backward, setup_context=lambda ctx, inputs, output: setattr(ctx, "x", inputs[0]))
    return made


def sample(**settings):
    return tp.tensor([[0.5, -2.0, 3.0], [1.5, 2.5, -0.25]], **settings)


@pytest.mark.parametrize("dtype", [tp.float32, tp.float64, tp.float16])
@pytest.mark.parametrize("requires_grad", [False, True])
def test_an_operator_that_keeps_its_promises_passes(dtype, requires_grad):
    x = sample(dtype=dtype, requires_grad=requires_grad)
    made = square()
    assert opcheck(made, (x,)) == GOOD
    assert opcheck("t::op", [x.t()]) == opcheck(tp.ops.t.op, (x,)) == opcheck(tp.ops.t.op.default, (), {"x": x}) == GOOD
    assert x.grad is None and x.tolist() == sample(dtype=dtype).tolist()


@pytest.mark.parametrize(
    ("function", "args"),
    [
        (tp.ops.tp.add.default, (sample(requires_grad=True), sample(requires_grad=True))),
        (tp.add, (sample(requires_grad=True), 2.5)),
        (tp.max, (sample(requires_grad=True),)),
        (tp.max, (sample(requires_grad=True), 1)),
        (tp.ops.tp.max, (sample(requires_grad=True), 0, True)),
        (tp.relu, (sample(requires_grad=True),)),
        (tp.matmul, (sample(requires_grad=True), sample().t())),
        (tp.ops.tp.transpose, (sample(requires_grad=True), 0, 1)),
        (tp.ops.tp.reshape, (sample(requires_grad=True), (3, 2))),
        (tp.ops.tp.add_.default, (sample(), sample())),
        (tp.cat, ([sample(requires_grad=True), sample()], 1)),
        ("gt", (sample(requires_grad=True), 0.0)),
        (tp.ops.tp.sum, (sample(dtype=tp.int64),)),
    ],
)
def test_built_in_operators_pass(function, args):
    assert opcheck(function, args) == GOOD


KNOWN = {
    ("index", "test_fake"): "NumPy lays out what an index array picks from the last dims in another order",
}
SHAPE_OF_DATA = {"nonzero", "repeat_interleave.Tensor"}
"""Operators whose fake says that it cannot tell the shape, where no keyword does."""
BUILT_IN = {
    o.display_name: o
    for o in REGISTRY.operators.values()
    if o.namespace == "tp" and o.shape and o.functional is None and not {"random", "creation"} & set(o.tags)
}


@pytest.mark.parametrize("name", BUILT_IN)
def test_the_checks_raise_no_false_alarm_on_the_samples_of_built_in_operators(name):
    tests = ("test_schema", "test_autograd_registration", "test_fake", "test_fast_path")
    tests = tuple(test for test in tests if (name, test) not in KNOWN)
    for made in samples(BUILT_IN[name], dtype="float32"):
        args, kwargs = made.build(tp)
        found = opcheck(overload_of(BUILT_IN[name]), args, kwargs, test_utils=tests, raise_exception=False)
        if name in SHAPE_OF_DATA and not made.kwargs:
            assert "depends on the elements" in found.pop("test_fake")
        assert set(found.values()) == {"SUCCESS"}, (made.name, found)


def fails(made, args, test, message, **settings):
    """Asserts that one test fails, by exception and by result, and leaves its arguments alone."""
    before = [a.tolist() for a in args if isinstance(a, tp.Tensor)]
    with pytest.raises(tp.OpCheckError, match=rf"(?s)opcheck: {test} failed: {message}") as info:
        opcheck(made, args, **settings)
    assert "\nfix: " in str(info.value) and isinstance(info.value, AssertionError)
    found = opcheck(made, args, raise_exception=False, **settings)
    assert str(info.value).endswith(found[test]) and list(found) == list(settings.get("test_utils", ALL))
    assert [a.tolist() for a in args if isinstance(a, tp.Tensor)] == before
    return str(info.value)


# ------------------------------------------------------------------------------------------------------- test_schema


def write(x):
    array = x.numpy()
    array += 1


@pytest.mark.parametrize(
    "kernel",
    [lambda x: x.add_(1).clone(), lambda x: (write(x), x + 1)[1], lambda x: (x[0].mul_(2), x + 1)[1]],
)
def test_c05_an_undeclared_write_is_named(kernel):
    text = fails(
        op(kernel), (sample(),), "test_schema", r"t::op: the kernel \(.*test_opcheck.py:\d+\) wrote to its argument x"
    )
    assert "declare it, with mutates_args={'x'} or Tensor(a!) x in a schema; or work on x.clone()" in text


def test_a_write_to_an_item_of_a_list_and_to_a_keyword_is_named():
    made = op(lambda xs, *, y: (write(xs[1]), xs[0] + 1)[1], "(Tensor[] xs, *, Tensor y) -> Tensor")
    with pytest.raises(tp.OpCheckError, match=r"wrote to its argument xs\[1\].*\n.*mutates_args=\{'xs'\}"):
        opcheck(made, ([sample(), sample()],), {"y": sample()})
    made = op(lambda xs, *, y: (write(y), xs[0] + 1)[1], "(Tensor[] xs, *, Tensor y) -> Tensor")
    with pytest.raises(tp.OpCheckError, match=r"wrote to its argument y, "):
        opcheck(made, ([sample(), sample()],), {"y": sample()})


def test_a_write_that_changes_only_a_sign_of_zero_or_a_nan_is_one():
    made = op(lambda x: (np.negative(x.numpy(), out=x.numpy()), x + 1)[1])
    fails(made, (tp.zeros(2),), "test_schema", "t::op: the kernel .* wrote to its argument x")
    assert opcheck(op(lambda x: x + 1), (tp.tensor([float("nan")]),), test_utils="test_schema")


def test_c05_a_result_that_is_the_input_is_named():
    made = op(lambda x: x)
    text = fails(
        made, (sample(),), "test_schema", r"t::op: its kernel .* is wrong: its result is the argument x itself"
    )
    assert "return a clone() of it" in text


def test_undeclared_sharing_of_a_kernel_that_was_registered_as_it_is():
    """Library.impl checks nothing at run time, so it is opcheck that finds it."""
    lib = tp.library.Library("t", "FRAGMENT")
    lib.define("plain(Tensor x) -> Tensor")
    for kernel, what in [
        (lambda x: x, "its result is the argument x itself"),
        (lambda x: x[:1], "its result shares memory with the argument x"),
    ]:
        lib.impl("plain", kernel, "Composite")
        fails("t::plain", (sample(),), "test_schema", rf"t::plain: the kernel \(.*\d+\) is wrong: {what}")
    lib.close()


def test_declared_writes_and_views_pass():
    made = op(lambda x: (x.add_(1), None)[1], "(Tensor(a!) x) -> ()", {"x"})
    x = sample()
    assert opcheck(made, (x,)) == GOOD and x.tolist() == sample().tolist()
    assert opcheck(made, (tp.ones(2, requires_grad=True),), test_utils=("test_schema", "test_fast_path"))
    made = tp.library.custom_op("t::view", lambda x: x[:1], mutates_args=(), schema="(Tensor(a) x) -> Tensor(a)")
    assert opcheck(made, (sample(),), test_utils=("test_schema", "test_fake"))["test_fake"] == "SUCCESS"


# ---------------------------------------------------------------------------------------- autograd and gradients


def test_a_gradient_that_an_autograd_kernel_loses_is_found():
    lib = tp.library.Library("t", "FRAGMENT")
    lib.define("lost(Tensor x) -> Tensor")
    lib.impl("lost", lambda x: x * 2, "Composite")
    lib.impl("lost", lambda x: x.detach() * 2, "Autograd")
    text = fails(
        "t::lost",
        (sample(requires_grad=True),),
        "test_autograd_registration",
        "t::lost: x requires grad and no result does",
    )
    assert f"AutogradCPU ({__file__}:" in text and 'register_autograd("t::lost"' in text
    lib.close()


def test_a_graph_that_comes_from_below_autograd_is_found():
    weight = tp.ones(2, 3, requires_grad=True)
    outside = weight * 2
    lib = tp.library.Library("t", "FRAGMENT")
    tp.library.define("t::unchecked", "(Tensor x) -> Tensor", lib=lib)
    tp.library.impl("t::unchecked", "default", lambda x: outside, lib=lib)
    fails(
        tp.ops.t.unchecked,
        (sample(requires_grad=True),),
        "test_autograd_registration",
        "t::unchecked: its kernel returns a tensor that requires grad: something was recorded below Autograd",
        test_utils=("test_autograd_registration",),
    )
    lib.close()


def test_a_missing_formula_is_found_when_a_gradient_is_asked_for():
    made = op(lambda x: x * 2)
    assert opcheck(made, (sample(),)) == GOOD
    text = fails(made, (sample(requires_grad=True),), "test_gradient", "t::op has no gradient formula")
    assert 'register_autograd("t::op"' in text


@pytest.mark.parametrize("requires_grad", [False, True])
def test_a_wrong_gradient_is_found_also_when_none_was_asked_for(requires_grad):
    made = square(backward=lambda ctx, grad: 3 * ctx.x * grad)
    text = fails(
        made,
        (sample(requires_grad=requires_grad),),
        "test_gradient",
        "t::op: its gradient is wrong.*by differences",
    )
    assert "input 0 is x" in text


def test_a_second_gradient_that_is_lost_in_silence_is_found_and_one_that_is_refused_is_not():
    made = square(backward=lambda ctx, grad: 2 * ctx.x.detach() * grad)
    fails(made, (sample(requires_grad=True),), "test_gradient", "t::op: the gradient of its gradient is wrong")
    made = square(backward=lambda ctx, grad: tp.from_numpy(2 * ctx.x.numpy()) * grad)  # raises with create_graph
    assert opcheck(made, (sample(requires_grad=True),)) == GOOD


def test_gradients_of_several_inputs_and_of_one_given_twice():
    def kernel(x, ys, k):
        return x * ys[0] * ys[1] * k

    made = op(kernel, "(Tensor x, Tensor[] ys, float k) -> Tensor")
    made.register_autograd(
        lambda ctx, grad: (
            grad * ctx.saved_tensors[1] * ctx.saved_tensors[2] * ctx.k,
            [grad * ctx.saved_tensors[0] * ctx.saved_tensors[i] * ctx.k for i in (2, 1)],
            None,
        ),
        setup_context=lambda ctx, inputs, output: (
            ctx.save_for_backward(inputs[0], *inputs[1]),
            setattr(ctx, "k", inputs[2]),
        ),
    )
    x, y = sample(requires_grad=True), sample(requires_grad=True)
    assert opcheck(made, (x, [x, y], 0.5)) == GOOD


def test_a_kernel_that_takes_no_float64_is_told_so():
    def kernel(x):
        assert x.dtype is tp.float32
        return x * 2

    made = op(kernel)
    made.register_autograd(lambda ctx, grad: grad * 2)
    with pytest.raises(tp.OpCheckError, match="test_gradient failed"):
        opcheck(made, (sample(requires_grad=True),))


def test_tolerances_reach_the_gradient_check():
    made = square(backward=lambda ctx, grad: 2.001 * ctx.x * grad)
    fails(made, (sample(requires_grad=True),), "test_gradient", "t::op: its gradient is wrong", rtol=1e-5)
    assert opcheck(made, (sample(requires_grad=True),), rtol=1e-2) == GOOD


# --------------------------------------------------------------------------------------------------------- test_fake


@pytest.mark.parametrize(
    ("fake", "message"),
    [
        (lambda x: x.new_empty((1, *x.shape)), r"shape \(1, 2, 3\), and what the kernel returns has \(2, 3\)"),
        (lambda x: x.new_empty(x.shape, dtype=tp.int64), "dtype int64, and what the kernel returns has float32"),
        (lambda x: x.new_empty(x.shape[::-1]).t(), r"strides \(1, 2\), and what the kernel returns has \(3, 1\)"),
    ],
)
def test_a_fake_that_disagrees_with_the_kernel_is_found(fake, message):
    wanted = rf"t::op: its fake \(.*test_opcheck.py:\d+\) gives the {message}"
    assert "correct the fake" in fails(square(fake), (sample(),), "test_fake", wanted)


def test_a_missing_fake_is_found():
    made = op(lambda x: tp.from_numpy(x.numpy() * 2))
    fails(made, (sample(),), "test_fake", r't::op: its kernel .* needs the data .*register_fake\("t::op"\)')
    lib = tp.library.Library("t", "FRAGMENT")
    lib.define("cpu_only(Tensor x) -> Tensor")
    lib.impl("cpu_only", lambda x: x * 2, "CPU")
    fails("t::cpu_only", (sample(),), "test_fake", "t::cpu_only: no kernel at Meta.*register_fake")
    lib.close()


def test_a_fake_of_several_results_is_compared_one_by_one():
    made = op(lambda x: [x + 1, x * 2], "(Tensor x) -> Tensor[]")
    made.register_fake(lambda x: [tp.empty_like(x), x.new_empty(7)])
    fails(made, (sample(),), "test_fake", r"t::op: its fake .* gives the shape \(7,\) for result 1, and")
    made.register_fake(lambda x: [tp.empty_like(x)])
    fails(made, (sample(),), "test_fake", r"t::op: its fake .* returns 1 tensors, its kernel 2")


# ---------------------------------------------------------------------------------------------------- test_fast_path


def test_a_result_that_depends_on_more_than_the_inputs_is_found_unless_it_is_random():
    made = op(lambda x: x + tp.rand(2, 3, device=x.device))
    fails(made, (sample(),), "test_fast_path", "t::op: the fast and the slow path give different bits")
    assert opcheck(op(lambda x: x + tp.rand(2, 3, device=x.device), tags=("random",)), (sample(),)) == GOOD


def test_a_slot_that_gives_other_bits_than_the_dispatcher_is_found():
    """A kernel that knows when it runs on the fast path: what no honest backend does, and a bug could."""
    x = sample()
    tp.exp(x), tp.exp(x)
    slot = x._type.__dict__["k_exp"]
    try:
        x._type.__dict__["k_exp"] = lambda a: slot(a) + 1
        fails(tp.exp, (x,), "test_fast_path", "exp: the fast and the slow path", test_utils=("test_fast_path",))
    finally:
        x._type.__dict__["k_exp"] = slot
    assert opcheck(tp.exp, (x,), test_utils=("test_fast_path",)) == {"test_fast_path": "SUCCESS"}


# ----------------------------------------------------------------------------------------------------------- its use


def test_which_tests_run():
    made = square()
    assert list(opcheck(made, (sample(),), test_utils="test_fake")) == ["test_fake"]
    assert list(opcheck(made, (sample(),), test_utils=["test_fake", "test_schema"])) == ["test_fake", "test_schema"]
    assert opcheck(made, (sample(),), test_utils="ALL") == GOOD and set(TESTS) == set(ALL)
    with pytest.raises(tp.ArgumentError, match=r"no test 'test_faketensor'. Did you mean 'test_fake'"):
        opcheck(made, (sample(),), test_utils="test_faketensor")
    with pytest.raises(tp.ArgumentError, match=r"no test 'zzz'. There are: test_schema, "):
        opcheck(made, (sample(),), test_utils=("zzz",))


def test_arguments_that_do_not_fit_are_the_callers_error():
    made = square()
    with pytest.raises(tp.ArgumentError, match="t::op: argument 'x' is missing"):
        opcheck(made, ())
    with pytest.raises(tp.ArgumentError, match="t::op: x must be a Tensor, not int"):
        opcheck(made, (3,))
    with pytest.raises(tp.ArgumentError, match="or what custom_op returned; not function"):
        opcheck(test_which_tests_run, (sample(),))


def test_an_error_of_another_kind_is_reported_with_its_class():
    def kernel(x):
        raise ZeroDivisionError("mine")

    found = opcheck(op(kernel), (sample(),), raise_exception=False)
    line = f"{kernel.__code__.co_filename}:{kernel.__code__.co_firstlineno + 1}"
    assert found["test_schema"] == f"t::op: ZeroDivisionError: mine ({line})"


def test_a_tensor_instead_of_a_tuple_of_arguments():
    with pytest.raises(tp.ArgumentError, match=r"(?s)args is a tuple .* not Tensor\nfix: write \(x,\)"):
        opcheck(tp.relu, sample())
    with pytest.raises(tp.ArgumentError, match=r"^opcheck: relu\(\) takes 1 positional argument but 2 were given"):
        opcheck(tp.relu, (sample(), 1))
