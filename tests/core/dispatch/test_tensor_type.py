"""Tensor types: one object per description, whole before anybody sees it, with a slot per operator."""

from __future__ import annotations

import copy
import pickle
import threading
from contextlib import contextmanager

import numpy as np
import pytest

import tensorplay as tp
from tensorplay_composite.arrays import ArrayDevice
from tensorplay_core.dispatch import devices, tensor_type
from tensorplay_core.dispatch.keys import backend_key
from tensorplay_core.dispatch.registry import REGISTRY
from tensorplay_core.dispatch.tensor_type import TensorType, add_slot, forget_slot, intern, running_on, unresolved
from tensorplay_core.errors import BackendError, DTypeError, ValueRangeError
from tensorplay_core.types import dtype as dt

CPU = tp.device("cpu")
DERIVED = (
    *("plain", "inference_twin", "same_type", "bool_type"),
    *("float_type", "sum_type", "index_type", "real_type"),
)


def test_types_are_interned_by_device_dtype_layout_inference_and_wrapper():
    descriptions = [
        (CPU, tp.float32, "strided", False, None),
        (CPU, tp.float64, "strided", False, None),
        (CPU, tp.float32, "sparse", False, None),
        (CPU, tp.float32, "strided", True, None),
        (CPU, tp.float32, "strided", False, "batched"),
        (tp.device("loopback"), tp.float32, "strided", False, None),
    ]
    types = [intern(*description) for description in descriptions]
    assert len({id(t) for t in types}) == len(types)
    assert all(intern(*d) is t for d, t in zip(descriptions, types, strict=True))
    assert tp.ones(2)._type is types[0] and tp.ones(2, device="loopback")._type is types[5]


def test_a_device_without_and_with_its_index_is_one_type():
    assert intern(tp.device("loopback"), tp.float32) is intern(tp.device("loopback:0"), tp.float32)
    assert intern(tp.device("cpu:0"), tp.float32) is intern(CPU, tp.float32)
    with pytest.raises(ValueRangeError, match="does not exist"):
        intern(tp.device("loopback:99"), tp.float32)


def test_pickling_and_copying_keep_identity():
    for t in (intern(CPU, tp.float32), intern(CPU, tp.int8, layout="sparse", inference=True)):
        assert pickle.loads(pickle.dumps(t)) is t
        assert copy.deepcopy(t) is t


@pytest.mark.parametrize("d", dt.ALL, ids=str)
def test_what_the_promote_rules_give(d):
    t = intern(CPU, d)
    assert t.plain is t and t.same_type is t
    assert t.inference_twin is intern(CPU, d, inference=True) and t.inference_twin.plain is t
    assert t.bool_type.dtype is tp.bool and t.index_type.dtype is tp.int64
    assert t.float_type.dtype is (d if d.is_inexact else tp.float32)
    assert t.sum_type.dtype is (d if d.is_inexact else tp.int64)
    assert t.real_type.dtype is d.real_dtype
    assert t.with_dtype(d) is t and t.with_dtype(tp.int16).dtype is tp.int16


def test_only_wrappers_and_sparse_types_are_special():
    assert not intern(CPU, tp.float32).special and not intern(CPU, tp.float32, inference=True).special
    assert intern(CPU, tp.float32, layout="sparse").special and intern(CPU, tp.float32, wrapper="batched").special


def test_a_dtype_that_the_device_lacks_is_refused_with_those_it_has():
    with pytest.raises(DTypeError, match=r"'loopback' has no dtype bfloat16; it has .*float32") as info:
        intern(tp.device("loopback"), tp.bfloat16)
    assert "fix:" in str(info.value)


def test_slots_are_given_to_present_and_future_types_and_emptied_at_once():
    t = intern(CPU, tp.float32)
    add_slot("k_test_slot")
    try:
        assert t.k_test_slot is unresolved
        t.__dict__["k_test_slot"] = len
        add_slot("k_test_slot")  # again: nothing is lost
        assert t.k_test_slot is len
        later = intern(CPU, tp.uint32, wrapper="batched")
        assert later.__dict__["k_test_slot"] is unresolved
        forget_slot("k_test_slot")
        assert t.k_test_slot is unresolved
    finally:
        tensor_type._slots.remove("k_test_slot")
        for known in tensor_type._types.values():
            known.__dict__.pop("k_test_slot", None)


def test_a_call_fills_its_slot_and_a_change_of_the_table_empties_it():
    x = tp.ones(2)
    x - x
    assert x._type.k_sub is REGISTRY.find("sub").kernel_at(0).function
    lib = tp.library.Library("tp", "IMPL")
    lib.impl("sub", lambda a, b: a - b, "CPU", override=True)
    assert x._type.k_sub is unresolved
    lib.close()
    assert x._type.k_sub is unresolved


def test_an_emptied_slot_never_reaches_the_user():
    x = tp.ones(2)
    for _ in range(3):
        forget_slot("k_add")
        assert (x + x).tolist() == [2.0, 2.0]


def test_threads_never_see_half_a_type():
    """Readers take no lock, so a type must be whole when it appears in the table."""
    found, stop, errors = [], threading.Event(), []

    def read():
        while not stop.is_set():
            for t in list(tensor_type._types.values()):
                for name in DERIVED:
                    if name not in t.__dict__:
                        errors.append((t, name))

    threads = [threading.Thread(target=read) for _ in range(2)]
    for thread in threads:
        thread.start()
    for i in range(300):
        found.append(intern(CPU, tp.float32, wrapper=f"test{i}"))
    stop.set()
    for thread in threads:
        thread.join()
    for key in [key for key in tensor_type._types if str(key[4]).startswith("test")]:
        del tensor_type._types[key]
    assert not errors and all(isinstance(t, TensorType) for t in found)


def test_a_type_that_cannot_be_made_leaves_nothing_behind():
    before = dict(tensor_type._types)
    with pytest.raises(DTypeError):
        intern(tp.device("loopback"), tp.bfloat16, inference=True)
    assert tensor_type._types == before


def test_a_device_that_is_loaded_anew_gives_its_types_the_new_api():
    from tensorplay_core.dispatch import devices, tensor_type
    from tensorplay_core.dispatch.device_api import DeviceAPI
    from tensorplay_core.types.device import Device
    from tensorplay_core.types.dtype import float32

    class Toy(DeviceAPI):
        array_class = list
        dtypes = {"float32": "f4"}  # noqa: RUF012

    class Later(Toy):
        array_class = tuple

    try:
        devices.install("renewed", Toy(), 1, "toy")
        known = tensor_type.intern(Device("renewed"), float32)
        known.floats[2.0], known.k_add = "a tensor of the old api", print
        devices.install("renewed", Later(), 1, "toy")
        assert tensor_type.intern(Device("renewed"), float32) is known
        assert known.array_class is tuple and known.api is devices.entry("renewed").api
        assert not known.floats and known.k_add is tensor_type.unresolved
        assert known.inference_twin.array_class is tuple
    finally:
        devices.uninstall("renewed")


def test_a_device_that_comes_back_with_other_dtypes_promotes_to_those():
    names = ("bool", "int32", "int64", "float32", "float64")
    try:
        devices.install("changing", ArrayDevice(np, dtypes={name: np.dtype(name) for name in names}), 1, "toy")
        known, wide = (intern(tp.device("changing"), dtype) for dtype in (dt.float32, dt.int64))
        assert known.index_type is wide and known.sum_type is known
        narrow = [name for name in names if "64" not in name]
        devices.install("changing", ArrayDevice(np, dtypes={name: np.dtype(name) for name in narrow}), 1, "toy")
        integer = intern(tp.device("changing"), dt.int32)
        assert intern(tp.device("changing"), dt.float32) is known and known.index_type is integer
        assert integer.sum_type is integer and integer.inference_twin.index_type is integer
        with pytest.raises(DTypeError, match="has no dtype int64; it has bool, int32, float32"):
            intern(tp.device("changing"), dt.int64)
        devices.install("changing", ArrayDevice(np), 1, "toy")
        assert intern(tp.device("changing"), dt.int64) is wide and known.index_type is wide
    finally:
        devices.uninstall("changing")


def test_one_lock_guards_types_and_tables():
    from tensorplay_core.dispatch import tensor_type
    from tensorplay_core.dispatch.registry import REGISTRY

    assert REGISTRY.lock is tensor_type.lock


# ----------------------------------------------------------------------------------------------- one of several devices


class Chips(ArrayDevice):
    broken = False

    @contextmanager
    def device(self, index):
        if self.broken:
            raise OSError("chip fell off the bus")
        yield


@pytest.fixture
def chips():
    api = Chips(np)
    devices.install("chips", api, 3, "tests-chips")
    staging = REGISTRY.stage("chips", "tests-chips")
    staging.impl("exp", backend_key("chips"), np.exp)
    committed = staging.commit()
    yield api
    committed.undo()
    devices.uninstall("chips")


def test_what_runs_on_one_of_several_devices_can_ask_which_it_is(chips):
    type, other = (intern(tp.device(f"chips:{i}"), dt.float32) for i in (2, 1))
    assert running_on("chips") == tp.device("chips") and running_on("cpu") == CPU
    with type.as_current():
        assert running_on("chips") == tp.device("chips:2") and running_on("cpu") == CPU
        with pytest.raises(ZeroDivisionError), other.as_current():
            assert running_on("chips") == tp.device("chips:1")
            raise ZeroDivisionError
        assert running_on("chips") == tp.device("chips:2")
    assert running_on("chips") == tp.device("chips")


def test_a_device_that_cannot_be_made_current_is_named_and_the_kernel_is_not_blamed(chips):
    x = tp.tensor([0.0], device="chips:1")
    assert tp.exp(x).tolist() == tp.exp(x).tolist() == [1.0]
    chips.broken = True
    line = Chips.device.__wrapped__.__code__.co_firstlineno + 3
    with pytest.raises(BackendError) as caught:
        tp.exp(x)
    assert str(caught.value).startswith("Device 'chips:1' failed: device of its backend (tests-chips, ")
    assert f"test_tensor_type.py:{line}) raised OSError: chip fell off the bus\nfix: " in str(caught.value)
