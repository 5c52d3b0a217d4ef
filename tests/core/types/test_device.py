"""A device is a type and an index; parsing never guesses, so other people's names are never taken for ours."""

from __future__ import annotations

import asyncio
import copy
import pickle
import threading

import numpy as np
import pytest

import tensorplay as tp
from tensorplay_core.errors import ArgumentError, DeviceUnavailable, ValueRangeError
from tensorplay_core.types.device import ENTERED, Device


@pytest.mark.parametrize(
    ("text", "type", "index"),
    [
        ("cpu", "cpu", None),
        ("cuda:1", "cuda", 1),
        ("cuda", "cuda", None),
        ("cpux", "cpux", None),
        ("cudalike:0", "cudalike", 0),
        ("my_npu2:10", "my_npu2", 10),
    ],
)
def test_parsing(text, type, index):
    device = tp.device(text)
    assert (device.type, device.index) == (type, index)
    assert str(device) == text
    assert pickle.loads(pickle.dumps(device)) == device


def test_an_index_can_be_given_apart():
    assert Device("cuda", 2) == Device("cuda:2")
    assert Device(Device("cuda:2")) == Device("cuda:2")
    assert Device(Device("cuda"), 1) == Device("cuda:1")
    assert hash(Device("cuda", 2)) == hash(Device("cuda:2"))
    assert Device("cuda") != Device("cuda:0")
    assert repr(Device("cuda:2")) == "device(type='cuda', index=2)"
    assert repr(Device("cpu")) == "device(type='cpu')"
    assert Device(type="loopback", index=0) == Device("loopback", 0) == Device("loopback:0")
    assert pickle.loads(pickle.dumps(Device("cuda", np.int64(1)))).index == 1
    assert type(Device("cuda", np.int64(1)).index) is int


def test_a_device_is_no_string():
    for device in (Device("cpu"), Device("cuda:1")):
        assert device != str(device) and str(device) not in {device: 0} and copy.deepcopy(device) == device


@pytest.mark.parametrize(
    "text", ["", "CPU", "cuda:", "cuda:-1", "cuda:01", "cuda 1", "1cuda", ":0", "cuda:1:2", "cpu\n"]
)
def test_what_is_no_device_is_refused(text):
    with pytest.raises(ValueRangeError, match="not a device"):
        Device(text)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("CPU", "Did you mean 'cpu'?"),
        ("Cuda: 1", "Did you mean 'cuda:1'?"),
        ("cuda:-1", "counted from 0\nfix: write 'cuda' for the current one, or 'cuda:0' for the first."),
    ],
)
def test_a_slip_is_told_from_nonsense(text, hint):
    with pytest.raises(ValueRangeError) as caught:
        Device(text)
    assert hint in str(caught.value)


def test_wrong_classes_and_indices_are_refused():
    with pytest.raises(ArgumentError, match="a device is a string"):
        Device(3)
    for index in (-1, True, 1.0, "0"):
        with pytest.raises(ValueRangeError, match="an int from 0 on"):
            Device("cuda", index)
    with pytest.raises(ValueRangeError, match="one too many"):
        Device("cuda:1", 1)


def test_a_device_cannot_be_changed():
    device = Device("cpu")
    with pytest.raises(AttributeError, match="cannot be changed"):
        device.type = "cuda"


# --------------------------------------------------------------------------------------------------------- with blocks


def where():
    return tp.ones(1).device.type, tp.get_default_device().type


def test_a_block_sets_the_device_of_creation_and_restores_it():
    loopback = tp.device("loopback")
    with loopback as entered:
        assert entered is loopback and where() == ("loopback", "loopback")
        with tp.device("meta"):
            assert where() == ("meta", "meta")
            with loopback:  # entered again, inside itself
                assert where() == ("loopback", "loopback")
            assert where() == ("meta", "meta")
        with pytest.raises(ZeroDivisionError), tp.device("cpu"):
            assert where() == ("cpu", "cpu")
            1 / 0  # noqa: B018
        assert where() == ("loopback", "loopback")
    assert where() == ("cpu", "cpu") and ENTERED.get() == ()


def test_a_block_whose_device_cannot_start_is_not_entered():
    for device, error in (("nosuch", DeviceUnavailable), ("loopback:7", ValueRangeError)):
        with pytest.raises(error, match=device.partition(":")[0]), tp.device(device):
            raise AssertionError("entered")
    assert ENTERED.get() == ()


def test_blocks_of_generators_may_be_left_in_any_order():
    def inside(name):
        with tp.device(name):
            yield

    first, second = inside("loopback"), inside("meta")
    next(first), next(second)
    first.close()
    assert where() == ("meta", "meta")
    second.close()
    assert where() == ("cpu", "cpu")


def test_a_block_holds_for_its_thread_and_the_tasks_started_inside():
    async def task():
        before = where()
        with tp.device("meta"):
            await asyncio.sleep(0)
            return before, where()

    async def both():
        with tp.device("loopback"):
            inside = asyncio.create_task(task())
        outside = asyncio.create_task(task())
        await asyncio.sleep(0)
        assert where() == ("cpu", "cpu")
        return await inside, await outside

    meta = ("meta", "meta")
    assert asyncio.run(both()) == ((("loopback", "loopback"), meta), (("cpu", "cpu"), meta))
    seen = []
    with tp.device("loopback"):
        thread = threading.Thread(target=lambda: seen.append(where()))
        thread.start()
        thread.join()
    assert seen == [("cpu", "cpu")]
