"""Devices: active ones are listed, others are loaded when they are named, and none stands in for another."""

from __future__ import annotations

import pickle
import subprocess
import sys
from contextlib import nullcontext

import numpy as np
import pytest

import tensorplay as tp
from tensorplay_composite.arrays import ArrayDevice
from tensorplay_core.dispatch import devices
from tensorplay_core.dispatch.device_api import DeviceAPI
from tensorplay_core.errors import BackendError, DeviceUnavailable, ValueRangeError


class Toy(DeviceAPI):
    seeds: list[int]

    def __init__(self):
        self.seeds = []
        self.told = []

    def manual_seed(self, seed):
        self.seeds.append(seed)

    def set_device(self, index):
        if index == 2:
            raise RuntimeError("chip 2 fell off the bus")
        self.told.append(index)


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
    for device, text in (
        (
            "toydevice:2",
            "2 toydevice devices here, toydevice:0 to toydevice:1\nfix: use toydevice:0 to toydevice:1.",
        ),
        ("cpu:1", "1 cpu device here, cpu\nfix: use cpu."),
        ("loopback:99", "1 loopback device here, loopback:0\nfix: use loopback:0."),
    ):
        with pytest.raises(ValueRangeError) as caught:
            devices.normalize(tp.device(device))
        assert str(caught.value) == f"device {device} does not exist: {text}"


def test_the_nearest_device_is_offered_for_one_that_is_not_there(toy, monkeypatch):
    with pytest.raises(DeviceUnavailable, match="Did you mean 'loopback'"):
        tp.ones(2, device="lopback")
    monkeypatch.setattr(devices, "loader", None)
    with pytest.raises(DeviceUnavailable, match=r"'toydevise' active\. Did you mean 'toydevice'\?"):
        devices.normalize(tp.device("toydevise"))


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
        tp.set_default_device(None)
    assert tp.ones(2).device == tp.device("cpu")


# --------------------------------------------------------------------------------------------------- the current index


def test_the_current_index_stands_where_none_is_given_and_the_library_is_told(toy):
    assert devices.set_current_index("toydevice", 1) == 0
    try:
        assert devices.current_index("toydevice") == 1 and toy.api.told == [1]
        assert devices.normalize(tp.device("toydevice")) == tp.device("toydevice:1")
        assert devices.normalize(tp.device("toydevice:0")) == tp.device("toydevice:0")
        assert devices.normalize(tp.device("loopback")) == tp.device("loopback:0")
        with tp.device("toydevice"):
            assert tp.get_default_device() == tp.device("toydevice:1")
            devices.set_current_index("toydevice", 0)
            assert tp.get_default_device() == tp.device("toydevice:0")
    finally:
        devices.restore_index("toydevice", 0)


def test_an_index_that_cannot_be_set_changes_nothing(toy):
    toy.count = 3
    for index, error in ((3, ValueRangeError), (-1, ValueRangeError), (2, Exception)):
        with pytest.raises(error):
            devices.set_current_index("toydevice", index)
        assert devices.current_index("toydevice") == 0 and toy.api.told == []
    with pytest.raises(DeviceUnavailable):
        devices.set_current_index("nowhere", 0)
    devices.uninstall("toydevice")
    devices.restore_index("toydevice", 0)  # the device has gone; a block that is left must not fail for it


def test_a_block_that_the_library_fails_at_its_end_restores_the_index_all_the_same(toy, monkeypatch):
    devices.set_current_index("toydevice", 1)

    def fail(self, index):
        raise RuntimeError("chip 0 fell off the bus")

    monkeypatch.setattr(Toy, "set_device", fail)
    devices.install("toydevice", Toy(), 2, "toy-distribution")
    with pytest.raises(BackendError, match="chip 0 fell off the bus"):
        devices.restore_index("toydevice", 0)
    assert devices.current_index("toydevice") == 0


def test_one_device_of_a_type_has_the_backends_own_api_and_several_have_one_each(toy):
    assert toy.several and toy.api_at(0) is not toy.api_at(1) and toy.api_at(1) is toy.api_at(1)
    one = devices.entry("loopback")
    assert not one.several and one.api_at(0) is one.api


# -------------------------------------------------------------------------------------------------- the default device


CREATE = {
    "zeros": lambda **kw: tp.zeros(2, **kw), "ones": lambda **kw: tp.ones(2, **kw),
    "empty": lambda **kw: tp.empty(2, **kw), "full": lambda **kw: tp.full((2,), 1.0, **kw),
    "eye": lambda **kw: tp.eye(2, **kw), "arange": lambda **kw: tp.arange(3, **kw),
    "rand": lambda **kw: tp.rand(2, **kw), "randn": lambda **kw: tp.randn(2, **kw),
    "randperm": lambda **kw: tp.randperm(3, **kw), "tensor": lambda **kw: tp.tensor([1, 2], **kw),
    "tensor of none": lambda **kw: tp.tensor([], **kw), "tensor of a number": lambda **kw: tp.tensor(1.5, **kw),
    "tensor of an array": lambda **kw: tp.tensor(np.ones(2), **kw), "as_tensor": lambda **kw: tp.as_tensor([1], **kw),
    "as_tensor of an array": lambda **kw: tp.as_tensor(np.ones(2), **kw),
    "tensor of a tensor": lambda **kw: tp.tensor(HERE, **kw),
    "as_tensor of a tensor": lambda **kw: tp.as_tensor(HERE, **kw),
}  # fmt: skip
HERE = tp.ones(2)


@pytest.mark.parametrize("name", CREATE)
@pytest.mark.parametrize("how", ["set", "block"])
def test_creation_takes_the_default_device_unless_one_is_named(name, how):
    create = CREATE[name]
    assert create().device == tp.device("cpu")
    tp.set_default_device("loopback" if how == "set" else None)
    try:
        with tp.device("loopback") if how == "block" else nullcontext():
            assert create().device == tp.device("loopback:0")
            assert create(device="cpu").device == tp.device("cpu")
            assert create(device="meta").device == tp.device("meta")
            with tp.device("cpu"):  # a block goes before what was set
                assert create().device == tp.device("cpu")
    finally:
        tp.set_default_device(None)


def test_what_follows_another_tensor_or_array_does_not_ask_the_default_device():
    there = tp.ones(2, device="loopback")
    assert tp.tensor(there).device == tp.as_tensor(there).device == there.device  # no default device was chosen
    with tp.device("meta"):
        for make in (tp.zeros_like, tp.ones_like, tp.empty_like, lambda x: x.new_zeros(2), lambda x: x * 2):
            assert make(there).device == there.device
        assert tp.from_numpy(np.ones(2)).device == tp.device("cpu")
        assert HERE[[1]].tolist() == [1] and HERE[[True, False]].shape == (1,) and HERE[True].shape == (1, 2)
        assert there[[1]].device == there.device


def test_a_default_device_that_cannot_start_changes_nothing(monkeypatch):
    def loader(type):
        raise DeviceUnavailable(f"Device {type!r} is unavailable: libtoy.so.3 not found\nfix: install it")

    tp.set_default_device("loopback")
    try:
        monkeypatch.setattr(devices, "loader", loader)
        for use in (
            tp.set_default_device,
            HERE.to,
            lambda d: tp.empty(2, device=d),
            lambda d: tp.device(d).__enter__(),
        ):
            for _ in range(2):
                with pytest.raises(DeviceUnavailable, match=r"'lazytoy' is unavailable: libtoy\.so\.3 not .*\nfix: "):
                    use("lazytoy")
        with pytest.raises(ValueRangeError, match="loopback:5"):
            tp.set_default_device("loopback:5")
        assert tp.get_default_device() == tp.device("loopback:0")
    finally:
        tp.set_default_device(None)
    assert tp.get_default_device() == tp.device("cpu")


# ------------------------------------------------------------------------------------- names that only look like others


def test_cpux_and_cudalike_are_devices_of_their_own():
    with pytest.raises(DeviceUnavailable, match="'cudalike'"):
        tp.ones(2, device="cudalike")
    for name in ("cpux", "cudalike"):
        devices.install(name, ArrayDevice(np), 1, f"tensorplay-{name}")
    try:
        for name, other in (("cpux", "cpu"), ("cudalike", "cuda")):
            entry = devices.entry(name)
            assert entry.page >= 1 and entry.key == 0 and entry.indexed and tp.device(name) != tp.device(other)
            x = tp.tensor([1.0, 2.0], device=f"{name}:0")
            y = pickle.loads(pickle.dumps(x))
            assert x.device == y.device == tp.device(name, 0) and y.tolist() == [1, 2] and not x.is_cuda
            with pytest.raises(tp.DeviceMismatch, match=f"is on {name}:0, .* is on cpu"):
                x + HERE
            with pytest.raises(tp.KernelMissing, match=name.capitalize()):
                tp.ones(2, device=name)
    finally:
        for name in ("cpux", "cudalike"):
            devices.uninstall(name)


# ---------------------------------------------------------------------------------------------------------------- seeds


def test_a_seed_reaches_active_devices_and_those_that_come_later(toy, monkeypatch):
    monkeypatch.setattr(devices, "_seed", None)
    devices.manual_seed(7)
    later = Toy()
    try:
        devices.install("latertoy", later, 1, "toy-distribution")
        assert toy.api.seeds[-1] == 7 and later.seeds == [7]  # an earlier seed may have reached the first
    finally:
        devices.uninstall("latertoy")


def test_a_device_that_cannot_be_seeded_is_told_after_all_others_were(toy, monkeypatch):
    monkeypatch.setattr(devices, "_seed", None)
    broken, later = Toy(), Toy()
    try:
        devices.install("brokentoy", broken, 1, "broken-distribution")
        devices.install("latertoy", later, 1, "toy-distribution")
        monkeypatch.setattr(broken, "seeds", None)  # appending to it raises
        with pytest.raises(BackendError, match=r"'brokentoy' failed: manual_seed .*broken-distribution"):
            devices.manual_seed(11)
        assert toy.api.seeds[-1] == later.seeds[-1] == devices.initial_seed() == 11
    finally:
        for name in ("brokentoy", "latertoy"):
            devices.uninstall(name)


def test_a_plugin_cannot_seed_or_choose_the_users_default_device_while_it_is_loaded(toy, monkeypatch):
    before = tp.initial_seed()
    monkeypatch.setattr(devices, "loading", lambda: "toydevice")
    for name, call in (
        ("manual_seed", lambda: tp.manual_seed(3)),
        ("set_default_device", lambda: tp.set_default_device("toydevice")),
    ):
        with pytest.raises(BackendError, match=f"{name} was called while backend 'toydevice' is being loaded.*\nfix: "):
            call()
    assert tp.initial_seed() == before and toy.api.seeds == [before] and tp.get_default_device() == tp.device("cpu")


def test_devices_that_nobody_seeded_start_from_one_seed_of_the_system():
    program = (
        "import tensorplay as tp\n"
        "a, b = tp.rand(3).tolist(), tp.rand(3, device='loopback').tolist()\n"
        "seed = tp.initial_seed()\n"
        "tp.manual_seed(seed)\n"
        "print(seed, a == b == tp.rand(3).tolist())"
    )
    runs = [subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True) for _ in "ab"]
    (seed, same), (other, _) = (run.stdout.split() for run in runs)
    assert same == "True" and seed != other
