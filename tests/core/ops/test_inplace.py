"""In-place variants: everything is checked before anything is written."""

from __future__ import annotations

from contextlib import closing

import numpy as np
import pytest

import tensorplay as tp
from tensorplay_core.dispatch.keys import DispatchKey
from tensorplay_core.dispatch.registry import REGISTRY
from tensorplay_core.errors import AutogradError, DTypeError, ShapeError
from tensorplay_core.tensor.version import version_of
from tensorplay_core.testing import assert_close
from tensorplay_core.testing.samples import samples
from tensorplay_core.types import dtype as dt

Library = tp.library.Library
tp.ones(1)
VARIANTS = [op for op in REGISTRY.operators.values() if op.functional is not None]


def test_there_are_variants():
    assert {"add_", "mul_", "exp_", "neg_"} <= {op.name for op in VARIANTS}


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int64", "complex64", "bool"])
@pytest.mark.parametrize("op", VARIANTS, ids=lambda op: op.name)
def test_a_variant_writes_what_its_operator_returns_or_raises_before_it_writes(op, dtype):
    """In a process where no other call has been made for the type, and again when the slot is filled."""
    functional = getattr(tp.ops.tp, op.functional.name)
    function = getattr(tp.ops.tp, op.name)
    for sample in samples(op.functional, dtype=dtype):
        args, kwargs = sample.build(tp)
        target, rest = args[0], args[1:]
        if not isinstance(target, tp.Tensor) or target.stride() != target.contiguous().stride() or target.numel() == 0:
            continue
        before = target.tolist()
        try:
            wanted = functional(*args, **kwargs)
            fits = wanted.shape == target.shape and wanted.dtype is target.dtype
        except tp.TensorPlayError:
            fits = False
        if fits:
            for call in (function, getattr(tp.Tensor, op.name), getattr(tp.Tensor, op.name)):
                again = target.clone()
                assert call(again, *rest, **kwargs) is again
                assert_close(again, wanted)
                assert again.dtype is target.dtype
        else:
            try:
                function(target, *rest, **kwargs)
            except tp.TensorPlayError:
                assert repr(target.tolist()) == repr(before)
            else:
                assert target.shape == np.shape(before)


def test_a_filled_slot_writes_through_out_and_makes_no_copy():
    x = tp.ones(4)
    array = x._array
    for _ in range(3):
        x.add_(x)
        x.mul_(2.0)
        x.neg_()
    assert x._array is array and array.tolist() == [(-4.0) ** 3] * 4
    assert x._type.k_add_(array, np.float32(1)) is array


@pytest.mark.parametrize("d", [d for d in dt.ALL if d.is_inexact], ids=str)
@pytest.mark.parametrize("name", ["exp", "sqrt", "tanh", "sigmoid", "log", "neg", "relu"])
def test_every_floating_dtype_can_be_written_in_place_before_its_operator_has_run(name, d):
    if d.is_complex and name == "relu":
        return
    for device in ("cpu", "loopback"):
        if device == "loopback" and d is tp.bfloat16:
            continue
        x = tp.full((3,), 0.5, dtype=d, device=device)
        y = getattr(x.clone(), f"{name}_")()
        assert y.dtype is d and y.tolist() == getattr(x, name)().tolist()


def test_a04_a_tensor_that_overlaps_itself_is_not_written_to():
    x = tp.tensor(0.25)
    for write in (
        lambda t: t.exp_(),
        lambda t: t.add_(1),
        lambda t: t.zero_(),
        lambda t: t.fill_(3.0),
        lambda t: t.copy_(t),
    ):
        with pytest.raises(RuntimeError, match=r"overlaps itself.*\n?.*clone\(\)"):
            write(x.expand(3))
        assert x.item() == 0.25
    x.expand(3).clone().exp_()


@pytest.mark.parametrize("shape", [(3,), (2, 2), (1, 2)])
def test_a_result_of_another_shape_is_not_written(shape):
    x = tp.zeros(2)
    for _ in range(2):
        with pytest.raises(ShapeError):
            x.add_(tp.ones(shape))
    assert x.tolist() == [0.0, 0.0]
    assert x.add_(tp.ones(1)).tolist() == [1.0, 1.0]


def test_a_wider_dtype_of_the_same_kind_is_narrowed_on_the_way_in():
    x = tp.ones(2)
    assert x.add_(tp.full((2,), 0.5, dtype=tp.float64)).tolist() == [1.5, 1.5] and x.dtype is tp.float32
    y = tp.ones(2, dtype=tp.int8)
    assert y.add_(tp.full((2,), 300)).tolist() == [45, 45] and y.dtype is tp.int8
    z = tp.ones(2)
    with pytest.raises(DTypeError, match=r"complex64.*float32"):
        z.mul_(1j)
    assert z.tolist() == [1.0, 1.0]


def test_operands_that_overlap_the_target_are_read_before_they_are_written():
    x = tp.arange(5.0)
    x[1:].add_(x[:-1])
    assert x.tolist() == [0.0, 1.0, 3.0, 5.0, 7.0]
    y = tp.arange(4.0)
    y.add_(y.reshape(4))
    assert y.tolist() == [0.0, 2.0, 4.0, 6.0]


def test_each_write_is_a_version_and_a_refused_one_is_none():
    x = tp.ones(2)
    cell = version_of(x)
    x.add_(1), x.mul_(2), x.exp_(), x.zero_(), x.fill_(2.0), x.copy_(tp.ones(2))
    assert cell[0] == 6
    with pytest.raises(ShapeError):
        x.add_(tp.ones(3))
    assert cell[0] == 6
    x.add_(1), x.add_(1)
    assert cell[0] == 8


def test_inference_tensors_are_written_to_in_inference_mode_alone():
    with tp.inference_mode():
        x = tp.ones(2)
        x.add_(1)
    with pytest.raises(AutogradError, match="inference mode"):
        x.add_(1)
    assert x.tolist() == [2.0, 2.0]


# -------------------------------------------------------------------------------- a backend's own in-place kernel


@pytest.fixture
def own():
    calls = []

    def kernel(a, b):
        calls.append((a.dtype.name, b.dtype.name))
        a += b
        a += 100

    with closing(Library("tp", "IMPL", "loopback")) as lib:
        lib.impl("add_", kernel)
        yield calls


def test_a_backends_own_in_place_kernel_serves(own):
    x = tp.ones(2, device="loopback")
    cell = version_of(x)
    for i in range(1, 4):
        assert x.add_(tp.ones(2, device="loopback")) is x
        assert x.tolist() == [1.0 + 101 * i] * 2 and cell[0] == i
    x.add_(1)
    assert x.tolist() == [1.0 + 101 * 4] * 2
    assert len(own) == 4
    assert tp.ones(2).add_(1).tolist() == [2.0, 2.0]


def test_a_backends_own_in_place_kernel_is_checked_before_it_writes(own):
    whole = tp.ones(2, dtype=tp.int64, device="loopback")
    for other, error in ((1.5, DTypeError), (tp.ones(3, device="loopback", dtype=tp.int64), ShapeError)):
        with pytest.raises(error):
            whole.add_(other)
    with pytest.raises(ShapeError, match="overlaps"):
        tp.ones(1, device="loopback").expand(2).add_(tp.ones(2, device="loopback"))
    assert whole.tolist() == [1, 1] and own == []


def test_a_backends_own_in_place_kernel_never_writes_to_a_copy(own):
    """Where the call computes in another dtype than the target's, the write goes through the operator and a copy."""
    x = tp.ones(2, device="loopback")
    x.add_(tp.ones(2, dtype=tp.float64, device="loopback"))
    assert x.tolist() == [2.0, 2.0] and own == []


def test_an_operator_that_refuses_a_dtype_is_named_in_place_too():
    x = tp.ones(2, dtype=tp.bool)
    with pytest.raises(tp.DTypeError, match="neg: takes numbers, and the tensors are bool"):
        x.neg_()
    assert x.tolist() == [True, True]


def test_unregistering_the_functional_kernel_empties_the_variants_slot():
    x = tp.ones(2, device="loopback")
    x.mul_(x), x.mul_(x)
    page_key = x._type.page * 32
    kernel = REGISTRY.find("mul").kernel_at(page_key)
    REGISTRY.publish(removed=[kernel])
    try:
        with pytest.raises(tp.KernelMissing):
            x.mul_(x)
    finally:
        REGISTRY.publish(added=[kernel])
    assert x.mul_(x).tolist() == [1.0, 1.0]
    assert REGISTRY.find("mul_").kernel_at(int(DispatchKey.Composite)).distribution == "tensorplay-core"


@pytest.mark.parametrize("recorded", [False, True])
def test_an_operator_without_a_shape_rule_keeps_the_shape_in_place_too(recorded):
    x = tp.zeros(3, requires_grad=recorded) * 1
    with pytest.raises(ShapeError, match=r"masked_fill_.*the result has shape \(2, 3\), the tensor to write to \(3,\)"):
        x.masked_fill_(tp.ones(2, 3, dtype=tp.bool), 1.0)
    assert x.tolist() == [0.0, 0.0, 0.0]
