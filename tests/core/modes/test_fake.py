"""Fake tensors: what they say of themselves, their errors, and every operator against the real one."""

from __future__ import annotations

import copy
import pickle

import numpy as np
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


# ------------------------------------------------------------------------------------------------------ what reads data


def read_results(fake):
    """What functions that read data give, in a block or outside of one."""
    x, y = tp.ones(2), tp.ones(2, requires_grad=True) * 2
    results = {
        "tensor": tp.tensor(x),
        "of a computed one": tp.tensor(y),
        "a leaf of a computed one": tp.tensor(y, requires_grad=True),
        "as_tensor": tp.as_tensor(y),
        "as_tensor by place": tp.as_tensor([1.0], tp.float64, "cpu"),
        "asarray": tp.asarray(x),
        "a copy": tp.asarray(x, copy=True),
        "frombuffer": tp.frombuffer(bytearray(8), dtype=tp.float32),
        "from_numpy": tp.from_numpy(np.ones((2, 3))),
        "from_dlpack": tp.from_dlpack(np.ones(3)),
        "new_tensor": x.new_tensor([1, 2]),
        "new_tensor, otherwise": x.new_tensor(data=[1, 2], dtype=tp.int32, requires_grad=False),
    }
    assert all(tp.modes.is_fake(t) is fake for t in results.values())
    same = {name: t is x or t is y for name, t in results.items()}
    return {name: (t.shape, t.dtype, t.device, t.requires_grad, t.is_leaf, same[name]) for name, t in results.items()}


def test_functions_that_read_data_give_what_they_give_outside():
    expected = read_results(fake=False)
    with tp.modes.FakeMode():
        assert read_results(fake=True) == expected
    with tp.inference_mode(), tp.modes.FakeMode():
        assert tp.tensor([1.0]).is_inference() and tp.from_numpy(np.ones(2)).is_inference()


def test_where_what_was_read_is():
    with tp.modes.FakeMode():
        x = tp.ones(2, device="cuda")
        assert str(x.new_tensor([1.0]).device) == str(tp.tensor(x).device) == "cuda:0"
        assert str(tp.tensor(x, device="vulkan").device) == "vulkan:0"
        assert str(tp.as_tensor([1.0], None, "cuda").device) == "cuda:0"
        with tp.device("cuda"):
            assert str(tp.tensor([1.0]).device) == "cuda:0"
            assert (
                tp.from_numpy(np.ones(2)).device
                == tp.frombuffer(bytearray(4), dtype=tp.int32).device
                == tp.device("cpu")
            )


def test_files_are_read_without_their_data(tmp_path):
    tp.save_file({"w": tp.ones(3, dtype=tp.float64)}, tmp_path / "w.safetensors")
    with tp.modes.FakeMode():
        w = tp.load_file(tmp_path / "w.safetensors", "cuda")["w"]
    assert tp.modes.is_fake(w) and (w.shape, w.dtype, str(w.device)) == ((3,), tp.float64, "cuda:0")


# ---------------------------------------------------------------------------------------------- real tensors in a block


def test_a_real_leaf_gets_no_fake_gradient():
    w = tp.ones(2, requires_grad=True)
    with tp.modes.FakeMode() as mode:
        with pytest.raises(tp.ArgumentError, match=r"is fake, and (.|\n)*fix: use mode\.fake\(w\)"):
            (w * 2).sum().backward()
        stands_in = mode.fake(w)
        assert stands_in.requires_grad and stands_in.is_leaf and not mode.fake(w.detach()).requires_grad
        (stands_in * 2).sum().backward()
    assert tp.modes.is_fake(stands_in.grad) and stands_in.grad.shape == (2,)
    (w * 3).sum().backward()
    assert w.grad.tolist() == [3.0, 3.0]


@pytest.mark.parametrize("asks", [lambda x: x.item(), lambda x: bool(x), lambda x: x.numpy(), lambda x: float(x)])
def test_the_remedy_for_missing_data_leads_out_of_the_block(asks):
    with tp.modes.FakeMode():
        x = tp.ones(())
        with pytest.raises(tp.NoDataError, match=r"a fake tensor has no data(.|\n)*fix: make a real one outside of"):
            asks(x)
        with pytest.raises(tp.NoDataError, match=r"a fake tensor has none\nfix: run this part outside of the FakeMode"):
            tp.ones(2).nonzero()
    with pytest.raises(tp.NoDataError, match="a meta tensor has no data"):
        tp.ones((), device="meta").item()


# ----------------------------------------------------------------------------------------------------------- transforms


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_transforms_where_a_device_is_a_label(device):
    with tp.modes.FakeMode():
        x = tp.ones(3, 4, device=device)
        found = {
            "vmap": tp.vmap(lambda row: row.sum())(x),
            "numbers": tp.vmap(lambda row: 2 / (tp.relu(row) + 1) ** 2.5)(x),
            "jacrev": tp.func.jacrev(lambda row: tp.relu(row) * row + 1)(x[0]),
            "jacfwd": tp.func.jacfwd(lambda row: tp.relu(row) * row + 1)(x[0]),
            "hessian": tp.func.hessian(lambda row: (row.exp() * row + 1).sum())(x[0]),
        }
    assert {name: y.shape for name, y in found.items()} == {
        "vmap": (3,), "numbers": (3, 4), "jacrev": (4, 4), "jacfwd": (4, 4), "hessian": (4, 4),
    }  # fmt: skip
    assert all(tp.modes.is_fake(y) and y.device.type == device for y in found.values())
