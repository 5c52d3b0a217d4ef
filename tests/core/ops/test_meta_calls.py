"""Calls on meta tensors: promotion, views, writes, gradients, and operators that others bring."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

import tensorplay as tp
from tensorplay_core.dispatch.registry import REGISTRY
from tensorplay_core.errors import NoDataError
from tensorplay_core.ops.meta import MetaDevice
from tensorplay_core.tensor.meta_array import MetaArray

F = tp.nn.functional


def meta(*shape: int, dtype: Any = tp.float32, requires_grad: bool = False) -> tp.Tensor:
    return tp.zeros(*shape, dtype=dtype, device="meta", requires_grad=requires_grad)


# ----------------------------------------------------------------------------------------------------------- operators


def test_promotion_python_numbers_and_a_0d_tensor_of_the_cpu():
    x = meta(2, 3, dtype=tp.float16)
    assert (x * 2.0).dtype is tp.float16 and (x * 2j).dtype is tp.complex64
    assert (x + meta(3, dtype=tp.float64)).dtype is tp.float64
    assert (meta(2, dtype=tp.int32) / 2).dtype is tp.float32 and (2 - x).shape == (2, 3)
    joined = x + tp.tensor(1.0, dtype=tp.float64)
    assert joined.is_meta and joined.dtype is tp.float64 and (tp.tensor(1) + x).is_meta


def test_a_tensor_of_another_device_does_not_join():
    with pytest.raises(tp.DeviceMismatch, match="self is on meta, other is on cpu"):
        meta(3) + tp.ones(3)


def test_an_index_of_the_cpu_joins():
    assert meta(4, 3)[tp.tensor([0, 0, 2])].shape == (3, 3)
    assert meta(4, 3)[[0, 2], 1:].shape == (2, 2)


def test_views_share_the_version_of_their_base_as_on_the_cpu():
    def shared(device: str) -> list[Any]:
        x = tp.zeros(4, 6, device=device)
        views = [
            x[1], x[:, ::2], x[None], x[...], x.reshape(2, 12), x.T, x.transpose(0, 1).reshape(24), x.expand(2, 4, 6),
            x.unsqueeze(1).squeeze(1), x.detach(), x.clone(), x.contiguous(), x.view(24), x.to(tp.float64), x * 1,
        ]  # fmt: skip
        return [(v.shape, v.stride() if v.shape[0] != 1 else None, v._version is x._version) for v in views]

    assert shared("meta") == shared("cpu")
    assert sum(same for *_, same in shared("meta")) == 11


def test_writing_bumps_the_version_and_is_checked():
    x = meta(2, 3)
    row = x[0]
    x.add_(1).mul_(meta(3))
    x[0] = 5
    x[:, 1] = meta(2)
    x.fill_(2).zero_()
    assert row._version is x._version and row._version[0] == 6
    with pytest.raises(tp.ShapeError, match=r"the result has shape \(3, 2, 3\), the tensor to write to \(2, 3\)"):
        x.add_(meta(3, 1, 1))
    with pytest.raises(tp.DTypeError, match="cannot be written"):
        meta(2, dtype=tp.int64).div_(2)
    with pytest.raises(tp.ShapeError, match="overlaps itself"):
        meta(1, 3).expand(2, 3).add_(1)
    assert row._version[0] == 6


def test_a_tensor_that_was_saved_and_written_to_is_found():
    x = meta(3, requires_grad=True)
    y = x * 1
    z = y * y
    y.add_(1)
    with pytest.raises(tp.AutogradError, match="version"):
        z.sum().backward()


def test_out():
    out = meta(2, 3)
    assert tp.add(meta(2, 3), meta(3), out=out) is out
    with pytest.raises(tp.ShapeError, match="out has shape"):
        tp.add(meta(2, 3), 1, out=meta(3))
    with pytest.raises(tp.DeviceMismatch, match="out is on cpu"):
        tp.add(meta(2), 1, out=tp.zeros(2))


def test_contiguous_and_view_judge_strides():
    x = meta(2, 3).transpose(0, 1)
    assert not x.is_contiguous() and not (x + 1).is_contiguous() and x.contiguous().stride() == (2, 1)
    with pytest.raises(tp.ShapeError, match="cannot be viewed as"):
        x.view(6)
    assert x.contiguous().view(6).shape == (6,) and x.reshape(6).stride() == (1,)


def test_gradients_are_meta_tensors_of_the_right_shape_and_dtype():
    w = meta(4, 3, dtype=tp.float64, requires_grad=True)
    b = meta(4, requires_grad=True)
    x = meta(2, 3, dtype=tp.float64)
    ((x @ w.T + b).softmax(1)[:, 1:].max(1).values.sum() * 2).backward()
    ((w * 2).sum() + b.mean()).backward()
    assert (w.grad.shape, w.grad.dtype, w.grad.is_meta) == ((4, 3), tp.float64, True)
    assert (b.grad.shape, b.grad.dtype) == ((4,), tp.float32)
    (second,) = tp.autograd.grad(tp.autograd.grad((w**3).sum(), w, create_graph=True)[0].sum(), w)
    assert second.shape == (4, 3)


def test_named_results():
    values, indices = found = meta(2, 3, dtype=tp.int8).max(dim=1)
    assert type(found).__name__ == "max" and (values.dtype, indices.dtype) == (tp.int8, tp.int64)


def test_cross_entropy_takes_the_labels_as_right():
    x = meta(4, 3, requires_grad=True)
    labels = meta(4, dtype=tp.int64)
    for reduction, shape in (("mean", ()), ("sum", ()), ("none", (4,))):
        loss = F.cross_entropy(x, labels, meta(3), label_smoothing=0.1, reduction=reduction)
        assert loss.shape == shape and loss.requires_grad
    with pytest.raises(tp.ShapeError, match="a target of class indices has shape"):
        F.cross_entropy(x, meta(3, dtype=tp.int64))


def test_a_mask_makes_the_shape_depend_on_data():
    x = meta(3)
    with pytest.raises(NoDataError, match=r"index: the shape of the result depends .*\nfix: use integer indices"):
        x[x > 0]
    assert tp.where(x > 0, x, 0).shape == (3,)


# ---------------------------------------------------------------------------------------------------------- extension


def test_a_missing_kernel_names_register_fake():
    library = tp.library.Library("meta_test")
    library.define("opaque(Tensor x) -> Tensor")
    library.impl("opaque", lambda x: x * 1, "CPU")
    with pytest.raises(tp.KernelMissing, match=r"fix: .*tp\.library\.register_fake\('meta_test::opaque', fn\)"):
        tp.ops.meta_test.opaque(meta(2))
    library.close()


def test_an_operator_made_of_others_needs_nothing():
    library = tp.library.Library("meta_test")
    library.define("twice(Tensor x) -> Tensor")
    library.impl("twice", lambda x: x + x, "Composite")
    assert tp.ops.meta_test.twice(meta(2)).shape == (2,)
    library.close()


def test_an_operator_that_is_defined_with_a_shape_rule_has_a_kernel_at_once():
    from tensorplay_core.dispatch.operator import Operator

    meta(1)
    op = Operator("dist(Tensor a, Tensor b) -> Tensor", namespace="meta_test", shape="broadcast", promote="float")
    REGISTRY.define(op)
    try:
        found = tp.ops.meta_test.dist(meta(2, 1, dtype=tp.int8), meta(3, dtype=tp.int8))
        assert (found.shape, found.dtype) == ((2, 3), tp.float32)
    finally:
        REGISTRY.remove(op)


def test_a_kernel_of_somebody_who_knows_better_comes_first():
    library = tp.library.Library("tp", "IMPL", "Meta")
    library.impl("neg", lambda self: MetaArray((7,), self.dtype))
    with pytest.raises(tp.KernelError, match=r"the result should have shape \(2,\)"):
        tp.neg(meta(2))
    library.close()
    assert tp.neg(meta(2)).shape == (2,)


def test_a_kernel_registered_before_the_device_starts_stays_above():
    code = """
import tensorplay as tp
library = tp.library.Library("tp", "IMPL", "Meta")
library.impl("neg", lambda self: self)
from tensorplay_core.dispatch.registry import REGISTRY
tp.zeros(1, device="meta")
print([r.distribution for r in REGISTRY.find("neg").table[4]])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "['__main__', 'tensorplay-core']\n"


def test_explain_knows_the_road():
    road = tp.explain("add(float32[2,3] meta, float32[3] meta grad)")
    assert [(step.key, step.label, step.distribution) for step in road.steps] == [
        ("AutogradMeta", "AddBackward", "tensorplay-core"),
        ("Meta", "shape_rule(broadcast)", "tensorplay-core"),
    ]
    assert road.ok and road.result.shapes == ((2, 3),)


def test_the_device_api_refuses_what_is_no_meta_array():
    with pytest.raises(TypeError, match="returns a MetaArray, not float"):
        MetaDevice().as_array(1.0)
