"""What a kernel can do wrong besides its result: write to its inputs, return copies for views, raise."""

from __future__ import annotations

import numpy as np
import pytest

import tensorplay as tp
from tensorplay_core.dispatch.registry import REGISTRY
from tensorplay_core.testing.bisect.examining import concerns, examine, kernel_of
from tensorplay_core.testing.bisect.mode import Bisect

THERE, HERE = tp.device("loopback:0"), tp.device("cpu")


def op(name):
    return REGISTRY.operators[f"tp::{name}"]


def examined(name, *args, **kwargs):
    return examine(op(name), args, kwargs, THERE, HERE, 1.0)


@pytest.fixture
def replaced():
    lib = tp.library.Library("tp", "IMPL", "loopback")
    yield lambda name, kernel: lib.impl(name, kernel, override=True)
    lib.close()


def on(*values, dtype=None):
    return tp.tensor(list(values), dtype=dtype, device="loopback")


def test_a_right_call():
    found = examined("mul", on(1.0, 2.0), on(3.0, 4.0))
    assert found.difference is None
    assert found.compared
    assert found.result.device.type == "loopback"
    assert found.right.device.type == "cpu"


def test_a_kernel_that_writes_to_its_input(replaced):
    def exp(x):
        y = np.exp(x)
        if x.size > 1:
            x[...] = 0
        return y

    replaced("exp", exp)
    assert examined("exp", on(1.0)).difference is None  # core looks at the first call of a kernel by itself
    found = examined("exp", on(1.0, 2.0)).difference
    assert found.kind == "input"


def test_a_kernel_that_raises(replaced):
    def exp(x):
        raise MemoryError("none left")

    replaced("exp", exp)
    found = examined("exp", on(1.0, 2.0))
    assert found.difference.kind == "raised"
    assert "none left" in found.difference.what


def test_what_both_refuse_is_the_programs_error():
    with pytest.raises(tp.ShapeError):
        examined("add", on(1.0, 2.0), on(1.0, 2.0, 3.0))


def test_the_wrong_shape_and_dtype(replaced):
    with pytest.raises(tp.KernelError):  # core sees that by itself, on both roads
        replaced("exp", lambda x: np.exp(x)[:1])
        tp.exp(on(1.0, 2.0))


def test_a_write_in_place_is_compared_with_a_copy():
    x = on(1.0, 2.0)
    found = examined("add_", x, on(1.0, 1.0))
    assert found.difference is None
    assert x.tolist() == [2.0, 3.0]


def test_which_calls_are_compared():
    assert concerns(op("exp"), (on(1.0),), {}, THERE)
    assert not concerns(op("exp"), (tp.ones(1),), {}, THERE)
    assert not concerns(op("bernoulli"), (on(0.5),), {}, THERE)
    assert not concerns(op("empty"), ((2,),), {"device": THERE}, THERE)
    assert concerns(op("zeros"), ((2,),), {"device": THERE}, THERE)
    assert not concerns(op("zeros"), ((2,),), {"device": HERE}, THERE)
    assert not concerns(op("copy_"), (on(1.0, 2.0), tp.ones(2), False), {}, THERE)


def test_the_kernel_of_an_in_place_form_is_its_operators():
    assert kernel_of(op("exp_"), {}, THERE).distribution == "tensorplay-loopback"


def test_going_on_puts_everything_right(replaced):
    def add_(x, y, *, alpha=1):
        x += 100
        return x

    replaced("add_", add_)
    replaced("exp", lambda x: np.exp(x) + 1)
    mode = Bisect(THERE, HERE, goes_on=True)
    x = on(0.0, 0.0)
    with mode:
        part = x[:1]
        part.add_(on(1.0))
        y = x.exp()
    assert x.tolist() == [1.0, 0.0]
    np.testing.assert_allclose(y.cpu().numpy(), np.exp(np.array([1.0, 0.0], "float32")), rtol=1e-6)
    assert [finding.op.name for finding in mode.findings] == ["add_", "exp"]
    assert mode.findings[0].call_text == "add_(float32[1], float32[1])"
    assert mode.findings[1].as_dict()["distribution"] == mode.findings[1].kernel.distribution


def test_gradients_are_those_of_the_right_results(replaced):
    replaced("exp", lambda x: np.exp(x) + 1)
    leaf = on(0.0, 1.0).requires_grad_()
    with Bisect(THERE, HERE, goes_on=True) as mode:
        leaf.exp().sum().backward()
    np.testing.assert_allclose(leaf.grad.cpu().numpy(), np.exp(np.array([0.0, 1.0], "float32")), rtol=1e-6)
    assert len(mode.findings) == 1


def test_a_kernel_inside_a_composed_operator_is_the_one_that_is_named(replaced):
    replaced("sub", lambda a, b, *, alpha=1: a - b * alpha + 1)
    mode = Bisect(THERE, HERE, goes_on=True)
    with mode, tp.no_grad():
        tp.nn.functional.mse_loss(on(1.0, 2.0), on(1.0, 1.0))
    assert [finding.op.name for finding in mode.findings] == ["sub"]


def test_an_implicit_operator_with_a_kernel_of_its_own_is_compared_whole(replaced):
    replaced("linear", lambda x, w, b=None: np.matmul(x, w.T) + 1)
    mode = Bisect(THERE, HERE, goes_on=True)
    with mode, tp.no_grad():
        tp.nn.functional.linear(on(1.0, 2.0).reshape(1, 2), on(1.0, 1.0).reshape(1, 2))
    assert [finding.op.name for finding in mode.findings] == ["linear"]
