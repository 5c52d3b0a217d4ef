"""Devices that lie, each in a way of its own, over one that is right: the checks of a device must catch every one."""

from __future__ import annotations

import contextlib
import io
import warnings
from typing import Any

import numpy as np
import pytest

import tensorplay as tp
from tensorplay_composite.arrays import HostRandom, kernels, math
from tensorplay_core.plugins import public as backends
from tensorplay_core.testing.suite import Profile
from tensorplay_core.testing.suite.checks import check_device
from tensorplay_core.testing.suite.outcome import FAILED, Gaps
from tensorplay_core.testing.suite.subject import Subject
from tensorplay_loopback import plugin


@pytest.fixture
def device() -> Any:
    backends.load("loopback")
    return plugin.DEVICE


class Module:
    """NumPy by another name, of which a program makes two devices."""

    __name__ = "twins"

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)


MODULE = Module()


@pytest.fixture
def twins() -> Any:
    """What loads two devices over such a module."""
    return backends.from_namespace(MODULE, "twins", device_count=2).made.plugin


@pytest.fixture
def replace(device) -> Any:
    """Gives the device another method or attribute; core takes them when it is loaded."""

    def load() -> None:
        backends.unload("loopback")
        backends.load("loopback")

    def replaced(name: str, value: Any) -> None:
        vars(device)[name] = value
        load()

    before = dict(vars(device))
    yield replaced
    vars(device).clear()
    vars(device).update(before)
    load()


@pytest.fixture
def library(device) -> Any:
    made = tp.library.Library("tp", "IMPL", "loopback")
    yield made
    made.close()


def found(check: str, name: str = "loopback") -> str:
    """What a check of a device finds, all of it; the programs run."""
    outcomes = list(check_device(check, Subject(name, seed=11, quick=True), Gaps(Profile())))
    for outcome in outcomes:
        if outcome.program:
            raised = contextlib.suppress(tp.TensorPlayError, ValueError)
            with raised, contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
                exec(compile(outcome.program, "program", "exec"), {})
    return "\n".join(outcome.what for outcome in outcomes if outcome.status == FAILED)


@pytest.mark.parametrize("check", ["plugin", "transfers", "random", "memory", "views", "formulas"])
def test_a_right_device_passes(check, device):
    assert found(check) == ""


@pytest.mark.parametrize("what", ["mutable", "views"])
def test_a_description_that_says_other_than_the_device(what, replace):
    replace(what, False)
    assert f"what its device says of {'being ' * (what == 'mutable')}{what}" in found("plugin")


def test_a_device_that_leaves_a_frozen_array_writable(replace):
    replace("freeze", lambda array: None)
    assert "freeze leaves an array writable" in found("plugin")


def test_a_device_without_a_name(device, monkeypatch):
    monkeypatch.setattr(device, "_name", " ")
    assert "lacks a name of its device" in found("plugin")


def test_a_device_that_warns_while_it_is_loaded(twins):
    class Cold(dict):
        def items(self):
            warnings.warn("it is cold today", UserWarning, stacklevel=1)
            return super().items()

    twins.kernels = Cold(twins.kernels)
    assert "cold" in found("plugin", "twins")


def test_a_device_that_takes_numbers_which_a_dtype_has_not(device, replace):
    right = device.from_list

    def from_list(data, dtype):
        try:
            return right(data, dtype)
        except (ValueError, OverflowError):
            return np.zeros(len(data), dtype)

    replace("from_list", from_list)
    assert "must raise, and becomes the" in found("transfers")


def test_a_device_that_takes_any_state(replace):
    replace("set_rng_state", lambda state, index: None)
    assert "set_rng_state takes bytes" in found("random")


def test_a_state_that_forgets_half_of_a_number(device, monkeypatch):
    right = device.random.set_state

    def set_state(state, index):
        right(state, index)
        generator = device.random.generator(index).bit_generator
        generator.state = {**generator.state, "has_uint32": 0}

    monkeypatch.setattr(device.random, "set_state", set_state)
    assert "other numbers are drawn than after get_rng_state" in found("random")


def test_a_generator_that_is_ignored(device, library):
    right = kernels(np, random=device.random)["rand"]

    def kernel(size, *, generator=None, dtype=None, device=None):
        return right(size, dtype=dtype, device=device)

    library.impl("rand", kernel, override=True)
    assert "rand draws other numbers from generators of one seed" in found("random")


def test_a_generator_that_moves_the_numbers_of_the_device(device, library):
    right = kernels(np, random=device.random)["randn"]

    def kernel(size, *, generator=None, dtype=None, device=None):
        right(size, dtype=dtype, device=device)
        return right(size, generator=generator, dtype=dtype, device=device)

    library.impl("randn", kernel, override=True)
    assert "that randn draws from a generator change what the device draws" in found("random")


@pytest.mark.parametrize("name", ["rand", "randn"])
def test_float64_numbers_with_the_digits_of_float32(name, device, library):
    right = kernels(np, random=device.random)[name]

    def kernel(size, *, generator=None, dtype=None, device=None):
        result = right(size, generator=generator, dtype=dtype, device=device)
        return result.astype("float32").astype(dtype) if dtype == "float64" else result

    library.impl(name, kernel, override=True)
    assert "no more digits than float32" in found("random")


def test_normal_numbers_that_are_uniform(device, library):
    right = kernels(np, random=device.random)["rand"]

    def kernel(size, *, generator=None, dtype=None, device=None):
        centred = right(size, generator=generator, dtype=dtype, device=device) - np.asarray(0.5, dtype)
        return (centred * np.asarray(12**0.5, dtype)).astype(dtype) if dtype.kind == "f" else centred

    library.impl("randn", kernel, override=True)
    assert "84.13% is right for randn" in found("random")


def test_devices_of_one_kind_that_share_a_generator(twins):
    class Shared(HostRandom):
        def generator(self, index):
            return super().generator(0)

    assert found("random", "twins") == ""
    twins.device.random.__class__ = Shared
    assert "change what twins:1 draws" in found("random", "twins")
    twins.device.random.__class__ = HostRandom


def test_kernels_that_keep_every_number(device, monkeypatch):
    monkeypatch.setattr(math, "KEPT", 10**9)
    assert "keeps memory for every" in found("memory")


def test_a_copy_that_reads_what_it_has_written(device, library):
    def copy_(self, src, non_blocking=False):
        for i in range(self.size):
            self.reshape(-1)[i] = np.broadcast_to(src, self.shape).reshape(-1)[i]
        return self

    library.impl("copy_", copy_, override=True)
    assert "x[1:].copy_(x[:-1])" in found("views")


def test_a_write_that_leaves_elements_which_share_memory():
    made = backends.from_namespace(MODULE, "fixed", mutable=False).made.plugin
    assert found("views", "fixed") == ""
    made.kernels["fill_"] = lambda self, value: np.broadcast_to(np.asarray(value, dtype=self.dtype), self.shape)
    backends.unload("fixed")
    backends.load("fixed")
    assert "x.fill_(7); x.add_(1) raised" in found("views", "fixed")


def test_a_device_that_writes_to_elements_that_share_memory(replace):
    replace("overlaps_itself", lambda array: False)
    assert "x[:1].expand(3).add_(1) writes to elements that share memory, and must raise" in found("views")


def test_a_device_that_refuses_a_dim_of_one_element(replace):
    replace("overlaps_itself", lambda array: 0 in array.strides)
    assert "x.expand(1, 6).add_(1) raised ShapeError" in found("views")


def test_numbers_that_do_not_follow_from_the_state(device, library):
    right = kernels(np, random=device.random)["rand"]

    def kernel(size, *, generator=None, dtype=None, device=None):
        wide = right(size, generator=generator, dtype=np.dtype("float64"), device=device) if dtype.kind == "f" else None
        return right(size, generator=generator, dtype=dtype, device=device) if wide is None else wide.astype(dtype)

    library.impl("rand", kernel, override=True)
    assert "follows from the state" in found("random")


def test_a_seed_that_gives_other_numbers_than_elsewhere(replace, device):
    replace("manual_seed", lambda seed: device.random.manual_seed(seed + 1))
    assert "gives another key" in found("random")
