"""``add`` and ``sub`` with ``alpha`` by fast paths: the same values, gradients, errors; and nobody is passed over."""

from __future__ import annotations

import sys
from contextlib import closing

import numpy as np
import pytest

import tensorplay as tp
from tensorplay_core.testing import force_slow_path

pytestmark = pytest.mark.filterwarnings("error")  # no warning of NumPy reaches the user

Library = tp.library.Library
DTYPES = ("int8", "int64", "float16", "bfloat16", "float32", "float64", "complex64")


def entered(function):
    """The Python functions that a call enters, after calls that warm it up."""
    for _ in range(3):
        function()
    names = []
    sys.setprofile(lambda frame, event, argument: names.append(frame.f_code.co_name) if event == "call" else None)
    try:
        function()
    finally:
        sys.setprofile(None)
    return names


@pytest.fixture
def xy():
    return tp.tensor([1.0, 2.0, 3.0, 4.0]), tp.tensor([4.0, 3.0, 2.0, 1.0])


def test_calls_with_alpha_do_not_enter_the_slow_path(xy):
    x, y = xy
    leaf = tp.ones(4, requires_grad=True)
    out = tp.empty(4)
    for function in (
        lambda: tp.add(x, y, alpha=0.5),
        lambda: x.sub(y, alpha=-2),
        lambda: x.clone().add_(y, alpha=0.5),
        lambda: x.clone().sub_(y, alpha=3),
        lambda: x.clone().sub_(y, alpha=1.0),
        lambda: tp.add(leaf, y, alpha=0.5),
        lambda: tp.add(x, leaf, alpha=0.5),
        lambda: tp.add(x, 3.0, alpha=0.5),
    ):
        assert "call" not in entered(function)
    with tp.no_grad():
        assert "call" not in entered(lambda: leaf.sub_(y, alpha=0.5))
    assert tp.add(x, y, alpha=2, out=out) is out
    assert out.tolist() == [9.0, 8.0, 7.0, 6.0]


@pytest.mark.parametrize("alpha", [0, 1, 2, -3, 0.5, -0.0, 1e30, float("nan"), float("inf"), True, 1j, 300])
@pytest.mark.parametrize("dtype", DTYPES)
def test_values_and_refusals_are_those_of_the_slow_path(dtype, alpha):
    x, y = tp.tensor([1, 2, 3], dtype=getattr(tp, dtype)), tp.tensor([[3], [7]], dtype=getattr(tp, dtype))

    def outcome(function):
        try:
            result = function()
        except tp.TensorPlayError as error:
            return type(error), str(error)
        return result.dtype, result.shape, repr(result.tolist())

    for function in (
        lambda: tp.add(x, y, alpha=alpha),
        lambda: tp.sub(y, x, alpha=alpha),
        lambda: tp.add(x, 5, alpha=alpha),
        lambda: y.clone().add_(x[:1], alpha=alpha),
        lambda: x.clone().sub_(y, alpha=alpha),  # a shape that does not fit
    ):
        found = [outcome(function) for _ in range(3)]
        with force_slow_path():
            slow = outcome(function)
        assert found == [slow] * 3


def test_values_are_numpys():
    a, b = np.random.default_rng(0).normal(size=(2, 5, 7))
    x, y = tp.from_numpy(a), tp.from_numpy(b)
    for _ in range(3):
        assert np.array_equal(tp.add(x, y, alpha=0.3).numpy(), a + b * 0.3)
        assert np.array_equal(tp.sub(x, y.t().clone().t(), alpha=7).numpy(), a - b * 7)
    before = a.copy()
    assert x.add_(y, alpha=0.25) is x
    assert np.array_equal(a, before + b * 0.25), "written to the memory that was given"


@pytest.mark.parametrize("name", ["add", "sub"])
@pytest.mark.parametrize("which", [(True, False), (False, True), (True, True)])
def test_gradients_reach_both_and_second_ones_too(name, which):
    sign = 1 if name == "add" else -1
    for _ in range(3):
        x = tp.ones(3, 2, dtype=tp.float64, requires_grad=which[0])
        y = tp.full((2,), 2.0, dtype=tp.float64, requires_grad=which[1])
        z = getattr(tp, name)(x, y, alpha=4)
        assert z.requires_grad and type(z.grad_fn).__name__ == f"{name.capitalize()}Backward"
        (z * z).sum().backward()
        value = 1 + sign * 8
        assert not which[0] or x.grad.tolist() == [[2.0 * value] * 2] * 3
        assert not which[1] or y.grad.tolist() == [3 * 2.0 * value * sign * 4] * 2
    tensors = [tp.randn(2, dtype=tp.float64).requires_grad_() for _ in range(2)]
    assert tp.autograd.gradcheck(lambda a, b: getattr(tp, name)(a, b, alpha=-1.5), tensors)
    assert tp.autograd.gradgradcheck(lambda a, b: getattr(tp, name)(a, b, alpha=-1.5) ** 2, tensors)


def test_a_write_that_is_recorded_has_the_gradient_of_what_was_written():
    for _ in range(3):
        x, y = tp.ones(2, requires_grad=True), tp.ones(2, requires_grad=True)
        z = x * 1
        z.add_(y, alpha=5)
        z.sum().backward()
        assert (x.grad.tolist(), y.grad.tolist()) == ([1.0, 1.0], [5.0, 5.0])
        base = tp.zeros(2, 2)
        base[0].add_(y, alpha=3)  # through a view
        base.sum().backward()
        assert y.grad.tolist() == [8.0, 8.0]
        with pytest.raises(tp.TensorPlayError, match="leaf"):
            x.add_(base, alpha=2)


def test_a_write_is_counted_so_that_a_stale_value_is_noticed():
    x, y = tp.ones(2, requires_grad=True), tp.ones(2)
    for _ in range(3):
        z = x * y
        version = y._version[0] if y._version is not None else 0
        y.add_(y, alpha=0.5)
        assert y._version[0] == version + 1
        with pytest.raises(tp.TensorPlayError, match="modified"):
            z.sum().backward()


def test_who_has_a_kernel_for_alpha_is_asked(xy):
    x, y = xy
    for _ in range(3):
        assert tp.add(x, y, alpha=2).tolist() == [9.0, 8.0, 7.0, 6.0]
    with closing(Library("tp", "IMPL")) as lib:
        lib.impl("add", lambda a, b, *, alpha=1: a + b * alpha + 100, "CPU", level="array", override=True)
        for _ in range(3):
            assert tp.add(x, y, alpha=2).tolist() == [109.0, 108.0, 107.0, 106.0]
            assert x.clone().add_(y, alpha=2).tolist() == [109.0, 108.0, 107.0, 106.0]
    with closing(Library("tp", "IMPL")) as lib:
        lib.impl("add", lambda a, b, *, alpha=1: tp.sub(a, b, alpha=-alpha) + 10, "Composite", override=True)
        for _ in range(3):
            assert tp.add(x, y, alpha=2).tolist() == [19.0, 18.0, 17.0, 16.0]
    with closing(Library("tp", "IMPL")) as lib:
        lib.impl("add_", lambda a, b, *, alpha=1: a.fill_(alpha), "CPU", level="tensor")
        for _ in range(3):
            assert x.clone().add_(y, alpha=2).tolist() == [2.0] * 4
    assert tp.add(x, y, alpha=2).tolist() == x.clone().add_(y, alpha=2).tolist() == [9.0, 8.0, 7.0, 6.0]


def test_layers_see_the_call_itself(xy):
    x, y = xy
    tp.add(x, y, alpha=2)
    with tp.profiler.profile() as p:
        tp.add(x, y, alpha=2)
    assert p.events[0].op == "add"
    tangent = tp.func.jvp(lambda a: tp.add(x, a, alpha=2), (y,), (tp.ones(4),))[1]
    assert tangent.tolist() == [2.0] * 4
    assert tp.func.vmap(lambda a: tp.add(x, a, alpha=2))(tp.ones(3, 4)).tolist() == [[3.0, 4.0, 5.0, 6.0]] * 3
    with tp.inference_mode():
        assert tp.add(x, y, alpha=2).is_inference()


def test_each_call_is_counted_as_served_by_composite(xy):
    x, y = xy
    tp.backends.fallback_report(reset=True)
    for _ in range(5):
        tp.add(x, y, alpha=2)
        x.clone().add_(y, alpha=2)
    rows = {row.op: row.calls for row in tp.backends.fallback_report(reset=True)}
    assert rows["add"] == 10


@pytest.mark.parametrize("alpha", [tp.ones(3), tp.ones(()), [1], "1", None, np.ones(2)], ids=lambda a: type(a).__name__)
def test_what_is_no_number_is_refused_by_every_form(alpha, xy):
    x, y = xy
    for _ in range(3):
        for name, function in (("add", tp.add), ("sub", tp.sub), ("add_", x.add_), ("sub_", x.sub_)):
            args = (y,) if name.endswith("_") else (x, y)
            with pytest.raises(tp.errors.ArgumentError, match=f"^{name}: alpha must be"):
                function(*args, alpha=alpha)
        for name in ("addmm", "addmm_"):
            with pytest.raises(tp.errors.ArgumentError, match=f"^{name}: beta must be"):
                getattr(tp.ones(2, 2), name)(tp.ones(2, 2), tp.ones(2, 2), beta=alpha)
        with pytest.raises(tp.errors.ArgumentError, match=r"^addcmul_: value must be"):
            x.addcmul_(y, y, value=alpha)
    assert x.tolist() == [1.0, 2.0, 3.0, 4.0]
