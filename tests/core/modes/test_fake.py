"""Fake tensors: what they say of themselves, their errors, and every operator against the real one."""

from __future__ import annotations

import copy
import pickle

import pytest

import tensorplay as tp
import tensorplay.nn.functional as F
from tensorplay_core.dispatch.registry import REGISTRY
from tensorplay_core.testing.samples import samples

OPERATORS = {op.display_name: op for op in REGISTRY.operators.values() if op.namespace == "tp"}


def flat(values):
    for value in values:
        if isinstance(value, (list, tuple)):
            yield from flat(value)
        else:
            yield value


def said(values):
    """What can be said of tensors without their data."""
    return [(t.shape, t.dtype, str(t.device), t.requires_grad) if isinstance(t, tp.Tensor) else t for t in flat(values)]


def call(op, sample, grad):
    args, kwargs = sample.build(tp)
    if grad:
        for t in flat((*args, *kwargs.values())):
            if isinstance(t, tp.Tensor) and t.dtype.is_inexact:
                t.requires_grad_()
    if op.is_inplace:
        args = (args[0] + tp.zeros((), dtype=args[0].dtype), *args[1:])
    result = op.function(*args, **kwargs)
    return result if isinstance(result, (tuple, list)) else (result,)


@pytest.mark.parametrize("name", OPERATORS)
def test_every_operator_says_what_the_real_one_says(name):
    op = OPERATORS[name]
    for dtype in ("float32", "int64"):
        for sample in samples(op.functional or op, dtype=dtype):
            try:
                expected = said(call(op, sample, grad=True))
            except (tp.ShapeError, tp.DTypeError, tp.AutogradError):
                assert op.is_inplace
                continue
            with tp.modes.FakeMode():
                try:
                    results = call(op, sample, grad=True)
                    found = said(results)
                except tp.NoDataError:  # the data decides
                    continue
            assert found == expected, sample.name
            assert all(tp.modes.is_fake(t) for t in flat(results) if isinstance(t, tp.Tensor)), sample.name


def test_a_device_is_a_label():
    with tp.modes.FakeMode():
        x = tp.ones(2, 3, device="cuda")
        assert str(x.device) == "cuda:0"
        assert str((x * 2).device) == "cuda:0"
        assert str(x.to("vulkan:1").device) == "vulkan:1"
        assert str(x.cpu().device) == "cpu"
        assert str(tp.tensor([1.0], device="cuda:3").device) == "cuda:3"
        with tp.device("cuda"):
            assert str(tp.zeros(2).device) == "cuda:0"
    assert repr(x) == "tensor(..., device='cuda:0', size=(2, 3))"


def test_errors_are_those_of_the_real_program():
    with tp.modes.FakeMode():
        x = tp.ones(2, 3, device="cuda")
        with pytest.raises(tp.DeviceMismatch, match="self is on cuda:0, other is on cpu"):
            x + tp.ones(2, 3)
        with pytest.raises(tp.ShapeError, match="cannot be multiplied"):
            x @ x
        with pytest.raises(tp.DimError):
            x.sum(5)
        assert (x + tp.tensor(1.0)).shape == (2, 3)  # a 0-d cpu tensor joins, as ever


@pytest.mark.parametrize(
    "asks",
    [lambda x: x.item(), lambda x: x.tolist(), lambda x: bool(x), lambda x: x.numpy(), lambda x: tp.ones(1)[x > 0]],
)
def test_what_needs_data_is_an_error(asks):
    with tp.modes.FakeMode():
        x = tp.ones(1)
        with pytest.raises(tp.NoDataError):
            asks(x)


def test_gradients_are_fake_and_have_the_right_shapes():
    with tp.modes.FakeMode():
        w = tp.randn(4, 3, device="cuda", requires_grad=True)
        b = tp.zeros(4, device="cuda", requires_grad=True)
        loss = F.cross_entropy(
            F.linear(tp.zeros(5, 3, device="cuda"), w, b), tp.zeros(5, dtype=tp.int64, device="cuda")
        )
        loss.backward()
    assert (w.grad.shape, b.grad.shape) == ((4, 3), (4,))
    assert tp.modes.is_fake(w.grad)
    assert str(w.grad.device) == "cuda:0"


def test_views_and_writes_keep_their_relations():
    with tp.modes.FakeMode():
        x = tp.zeros(2, 3)
        view = x.T
        assert view._base is x
        assert view.stride() == (1, 3)
        before = x._version_number
        view.add_(1)
        assert x._version_number == before + 1
        leaf = tp.zeros(3, requires_grad=True)
        with pytest.raises(tp.AutogradError):
            leaf.add_(1)


def test_real_tensors_take_part_and_are_never_written_to():
    x = tp.ones(2)
    with tp.modes.FakeMode() as mode:
        assert tp.modes.is_fake(x * 2)
        with pytest.raises(TypeError, match="add_: it would write fake data to a real tensor of shape"):
            x.add_(1)
        assert not tp.modes.is_fake(x)
        made = mode.fake(x, "cuda")
    assert x.tolist() == [1.0, 1.0]
    y = made * 3.0 + 1  # outside of the block what is fake stays so
    assert tp.modes.is_fake(y)
    assert str(y.device) == "cuda:0"
    assert not tp.modes.is_fake(x * 2)


class Named(tp.Tensor):
    pass


def test_a_subclass_can_be_fake():
    with tp.modes.FakeMode():
        x = tp.ones(2, 3, device="cuda").as_subclass(Named)
        y = (x * 2).sum(0)
    assert type(y) is Named
    assert tp.modes.is_fake(y)
    assert (y.shape, str(y.device)) == ((3,), "cuda:0")


def test_fakes_are_copied():
    with tp.modes.FakeMode():
        x = tp.ones(2, device="cuda", requires_grad=True)
    for made in (copy.copy(x), copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        assert tp.modes.is_fake(made)
        assert (made.shape, str(made.device), made.requires_grad) == ((2,), "cuda:0", True)
