"""Devices: active ones are listed, others are loaded when they are named, and none stands in for another."""

from __future__ import annotations

import pytest

import tensorplay as tp
from tensorplay_core.dispatch import devices
from tensorplay_core.dispatch.device_api import DeviceAPI
from tensorplay_core.errors import BackendError, DeviceUnavailable, ValueRangeError


class Toy(DeviceAPI):
    seeds: list[int]

    def __init__(self):
        self.seeds = []

    def manual_seed(self, seed):
        self.seeds.append(seed)


@pytest.fixture
def toy():
    entry = devices.install("toydevice", Toy(), 2, "toy-distribution")
    yield entry
    devices.uninstall("toydevice")


def test_an_installed_device_has_its_page_and_key(toy):
    assert devices.entry("toydevice") is toy and "toydevice" in devices.active_devices()
    assert toy.page >= 1 and toy.key == 0 and toy.count == 2 and toy.distribution == "toy-distribution"
    cpu = devices.entry("cpu")
    assert (cpu.page, cpu.key, cpu.indexed) == (0, 0, False)


def test_indices_are_checked_and_filled_in(toy):
    assert devices.normalize(tp.device("toydevice")) == tp.device("toydevice:0")
    assert devices.normalize(tp.device("toydevice:1")) == tp.device("toydevice:1")
    assert devices.normalize(tp.device("cpu:0")) == tp.device("cpu")
    with pytest.raises(ValueRangeError, match=r"toydevice:2 does not exist: 2 toydevice device"):
        devices.normalize(tp.device("toydevice:2"))
    with pytest.raises(ValueRangeError, match=r"cpu:1 does not exist"):
        tp.ones(2, device="cpu:1")


def test_an_uninstalled_device_is_gone_and_keeps_its_page(toy):
    devices.uninstall("toydevice")
    with pytest.raises(DeviceUnavailable):
        devices.entry("toydevice")
    assert devices.install("toydevice", Toy(), 1, "toy-distribution").page == toy.page


def test_naming_a_device_loads_it_through_the_loader(monkeypatch):
    asked = []

    def loader(type):
        asked.append(type)
        devices.install(type, Toy(), 1, "late")

    monkeypatch.setattr(devices, "loader", loader)
    try:
        assert devices.entry("latedevice").distribution == "late"
        devices.entry("latedevice")
        assert asked == ["latedevice"]
    finally:
        devices.uninstall("latedevice")


def test_a_device_that_nobody_makes_active_is_an_error_and_never_another_device(monkeypatch):
    monkeypatch.setattr(devices, "loader", lambda type: None)
    with pytest.raises(DeviceUnavailable, match="'nowhere'"):
        tp.ones(2, device="nowhere")
    monkeypatch.setattr(devices, "loader", None)
    with pytest.raises(DeviceUnavailable, match="'nowhere'"):
        devices.set_default_device(tp.device("nowhere"))
    assert tp.get_default_device() == tp.device("cpu")


def test_the_default_device_is_used_when_none_is_named():
    tp.set_default_device("loopback")
    try:
        assert tp.ones(2).device == tp.device("loopback:0")
        assert tp.ones(2, device="cpu").device == tp.device("cpu")
    finally:
        tp.set_default_device("cpu")
    assert tp.ones(2).device == tp.device("cpu")


def test_a_seed_reaches_active_devices_and_those_that_come_later(toy, monkeypatch):
    monkeypatch.setattr(devices, "_seed", None)
    devices.manual_seed(7)
    later = Toy()
    try:
        devices.install("latertoy", later, 1, "toy-distribution")
        assert toy.api.seeds[-1] == 7 and later.seeds == [7]  # an earlier seed may have reached the first
    finally:
        devices.uninstall("latertoy")


@pytest.mark.parametrize("method", ["as_array", "dtype_name", "to_host", "copy"])
def test_a_device_api_that_lacks_a_method_is_named(method):
    with pytest.raises(BackendError, match=rf"Toy does not implement {method}"):
        getattr(Toy(), method)(None)
