"""Slots of tensor types: filled after a call that went well, and only where both paths give one answer."""

from __future__ import annotations

from contextlib import closing

import numpy as np
import pytest

import tensorplay as tp
from tensorplay_core.dispatch import active
from tensorplay_core.dispatch.context import include
from tensorplay_core.dispatch.keys import DispatchKey
from tensorplay_core.dispatch.registry import REGISTRY
from tensorplay_core.dispatch.tensor_type import forget_slot, intern, unresolved
from tensorplay_core.ops import slots
from tensorplay_core.ops.arguments import normalise
from tensorplay_core.ops.slots import kernel_for
from tensorplay_core.testing import force_slow_path

Library = tp.library.Library
CPU = tp.device("cpu")
F32 = intern(CPU, tp.float32)
ADD = REGISTRY.find("add")


@pytest.fixture(autouse=True)
def fresh():
    for name in ("k_add", "k_sqrt", "k_div", "k_linear", "k_softmax", "k_sum", "k_add_"):
        forget_slot(name)


def slot(op="add", type=F32):
    return type.__dict__[f"k_{op}"]


def test_the_first_call_fills_the_slot_with_the_raw_kernel():
    assert slot() is unresolved
    x = tp.ones(2)
    x + x
    assert slot() is ADD.kernel_at(0).function
    assert isinstance(slot(), np.ufunc)


def test_a_call_that_the_fast_path_cannot_serve_fills_nothing():
    x = tp.ones(2)
    x + tp.ones(2, dtype=tp.float64)  # two types
    assert slot() is unresolved
    with pytest.raises(tp.ShapeError):  # went wrong
        x + tp.ones(3)
    assert slot() is unresolved


@pytest.mark.parametrize("scope", [force_slow_path, lambda: include(1 << 5), lambda: tp.profiler.profile()])
def test_nothing_is_filled_while_something_special_is_open(scope):
    x = tp.ones(2)
    with scope():
        x + x
    assert slot() is unresolved and active.special == 0


def test_an_operator_computing_in_another_dtype_gets_a_cast_before():
    """sqrt(int8) is float16 in NumPy, and float32 by our rule."""
    x = tp.tensor([4, 9], dtype=tp.int8)
    for _ in range(3):
        y = x.sqrt()
        assert y.dtype is tp.float32 and y.tolist() == [2.0, 3.0] and y._array.dtype == np.float32
    assert slot("sqrt", x._type) is not unresolved
    whole = tp.tensor([7, 8])
    for _ in range(3):
        assert (whole / whole).dtype is tp.float32 and (whole / 2).tolist() == [3.5, 4.0]


def test_an_offer_is_void_when_the_table_changed_meanwhile():
    x = tp.ones(2)
    args, _ = normalise(ADD, (x, x), {})
    slots.offer(ADD, args, ADD.generation - 1)
    assert slot() is unresolved
    slots.offer(ADD, args, ADD.generation)
    assert slot() is not unresolved


def test_types_that_are_special_get_no_kernel():
    for type in (intern(CPU, tp.float32, layout="sparse"), intern(CPU, tp.float32, wrapper="batched")):
        assert kernel_for(ADD, type) is None


@pytest.mark.parametrize("take", [lambda x: tp.split(x, 1, 1), lambda x: x.unbind(1), lambda x: x.chunk(2, 1)])
def test_several_views_from_a_slot_have_gradients_and_belong_together(take):
    for _ in range(2):  # the slow path, then the fast one
        x = tp.ones((1, 2), requires_grad=True)
        parts = take(x * 1)
        (parts[0].sum() + 2 * parts[1].sum()).backward()
        assert x.grad.tolist() == [[1.0, 2.0]]
        with pytest.raises(tp.AutogradError, match="several"):
            parts[0].mul_(2)
        with tp.no_grad():
            base = tp.ones(1, 2)
            take(base)[1].mul_(3)
        assert base.tolist() == [[1.0, 3.0]]


def test_a_foreign_kernel_at_a_functional_key_keeps_calls_on_the_slow_path():
    x = tp.ones(2)
    with closing(Library("tp", "IMPL")) as lib:
        lib.impl("add", lambda a, b, *, alpha=1: a.clone(), "AutogradCPU")
        for _ in range(2):
            assert (x + x).tolist() == [1.0, 1.0]
        assert slot() is unresolved
    x + x
    assert slot() is not unresolved


def test_a_kernel_on_tensors_is_lifted_to_arrays_and_never_aliases_its_input():
    x = tp.tensor([-1.0, 2.0])
    with closing(Library("tp", "IMPL")) as lib:
        lib.impl(
            "relu", lambda a: tp.where(a > 0, a, 0.0) if a.shape != (1,) else a, "CPU", level="tensor", override=True
        )
        for _ in range(3):
            assert x.relu().tolist() == [0.0, 2.0]
        assert x._type.k_relu is not unresolved
        one = tp.ones(1)
        y = one.relu()
        y.add_(1)
        assert one.tolist() == [1.0]


def test_an_error_on_the_fast_path_is_raised_properly_by_the_slow_one():
    x = tp.ones(2)
    x + x
    with pytest.raises(tp.ShapeError, match=r"add.*\(2,\).*\(3,\)"):
        x + tp.ones(3)


def test_a_type_whose_device_lacks_the_results_dtype_gets_no_slot():
    assert kernel_for(REGISTRY.find("eq"), F32) is not None
    assert F32.bool_type is not None


def test_a_view_that_decomposes_has_its_composite_kernel_in_the_slot_and_follows_the_tables():
    forget_slot("k_flatten")
    flatten, x = REGISTRY.find("flatten"), tp.ones(2, 3)
    assert x.flatten().shape == (6,)
    assert slot("flatten") is flatten.kernel_at(int(DispatchKey.Composite)).function
    with closing(Library("tp", "IMPL")) as lib:
        lib.impl("flatten", lambda self, start_dim=0, end_dim=-1: self.reshape((-1, 1)), "Composite", override=True)
        assert [x.flatten().shape for _ in range(2)] == [(6, 1)] * 2
        lib.impl("flatten", lambda array, start_dim=0, end_dim=-1: array.reshape(-1), "CPU")  # served in inference mode
        assert [x.flatten().shape for _ in range(2)] == [(6, 1)] * 2
        assert slot("flatten") is unresolved
        with tp.inference_mode():
            assert x.flatten().shape == (6,)
    assert [x.flatten().shape for _ in range(2)] == [(6,)] * 2
    with pytest.raises(tp.DimError, match="flatten"):
        x.flatten(5)
