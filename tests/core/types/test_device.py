"""A device is a type and an index; parsing never guesses, so other people's names are never taken for ours."""

from __future__ import annotations

import pickle

import pytest

import tensorplay as tp
from tensorplay_core.errors import ArgumentError, ValueRangeError
from tensorplay_core.types.device import Device


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


@pytest.mark.parametrize(
    "text", ["", "CPU", "cuda:", "cuda:-1", "cuda:01", "cuda 1", "1cuda", ":0", "cuda:1:2", "cpu\n"]
)
def test_what_is_no_device_is_refused(text):
    with pytest.raises(ValueRangeError, match="not a device"):
        Device(text)


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
