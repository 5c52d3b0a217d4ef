"""A device API as core calls it: told which device is meant; failures name the backend, the method and the line."""

from __future__ import annotations

from contextlib import contextmanager

import pytest

from tensorplay_core.dispatch.device_api import ON_ARRAYS, DeviceAPI
from tensorplay_core.dispatch.guarded_device import GuardedDevice
from tensorplay_core.errors import BackendError, ShapeError


class Faulty(DeviceAPI):
    array_class = tuple
    dtypes = {"float32": "f"}  # noqa: RUF012  a mapping that nobody changes
    extra = "of the plugin"

    def from_host(self, host, index):
        raise self.error

    def from_list(self, data, dtype):
        raise self.error

    def to_host(self, array):
        return array[0]

    def as_array(self, value):
        raise KeyError("raw")


def guarded(error=None):
    api = Faulty()
    api.error = error
    return GuardedDevice(api, "toy", "toy-distribution")


def test_what_a_method_raises_becomes_a_backend_error_with_device_method_line_and_cause():
    first = OSError("lib went away")
    with pytest.raises(BackendError) as caught:
        guarded(first).from_host([1], 3)
    line = Faulty.from_host.__code__.co_firstlineno + 1
    assert caught.value.__cause__ is first
    assert str(caught.value) == (
        f"Device 'toy:3' failed: from_host of its backend (toy-distribution, tests/core/dispatch/"
        f"test_guarded_device.py:{line}) raised OSError: lib went away\n"
        "fix: see what toy-distribution requires, or report it to the authors of toy-distribution"
    )
    with pytest.raises(BackendError, match=r"'toy:1' failed: from_host .* raised RuntimeError\n"):
        guarded(RuntimeError()).from_host([1], index=1)


@pytest.mark.parametrize("error", [ShapeError("ragged"), MemoryError(), RecursionError(), KeyboardInterrupt()])
def test_what_is_ours_the_machines_or_the_users_passes(error):
    with pytest.raises(type(error)) as caught:
        guarded(error).from_host([1], 0)
    assert caught.value is error


@pytest.mark.parametrize("kind", [ValueError, OverflowError])
def test_from_list_may_refuse_its_data_and_others_may_not(kind):
    with pytest.raises(kind) as caught:
        guarded(kind("too large")).from_list([1], "f")
    assert not isinstance(caught.value, BackendError)
    with pytest.raises(BackendError, match="too large"):
        guarded(kind("too large")).from_host([1], 0)


def test_attributes_and_good_methods_are_the_plugins_own():
    device = guarded()
    assert (device.array_class, device.dtypes, device.extra) == (tuple, {"float32": "f"}, "of the plugin")
    assert device.to_host((7,)) == 7 and device.mutable
    with pytest.raises(KeyError, match="raw"):  # whose callers name the kernel
        device.as_array(1)
    with pytest.raises(AttributeError, match="nothing_such"):
        device.nothing_such  # noqa: B018
    with pytest.raises(BackendError, match=r"Faulty does not implement cast"):
        device.cast(1, "f")


# ----------------------------------------------------------------------------------------------- one of several devices


class Several(DeviceAPI):
    array_class = list
    current = 0
    broken = None

    def __init__(self):
        self.own = "what only this class has"

    @contextmanager
    def device(self, index):
        if index == self.broken:
            raise OSError("chip fell off the bus")
        before, self.current = self.current, index
        try:
            yield
        finally:
            self.current = before

    def cast(self, array, dtype):
        if dtype is None:
            raise KeyError(dtype)
        return [self.current]

    as_array = from_list = from_host = from_buffer = from_dlpack = lambda self, *args: [self.current]
    to_host = copy = to_list = as_array

    def strides(self, array):
        return (self.current,)


def test_methods_that_touch_arrays_run_where_the_array_is_and_no_others():
    api = Several()
    placed = GuardedDevice(api, "toy", "toy-distribution", 2)
    for name in ON_ARRAYS:
        assert getattr(placed, name)(1, 2) == [2] and getattr(api, name)(1, 2) == [0]
    assert placed.strides(1) == (0,) and placed.array_class is list and placed.own == "what only this class has"
    with pytest.raises(AttributeError, match="'Several' object has no attribute 'missing'"):
        placed.missing  # noqa: B018


def test_a_failure_on_one_of_several_names_it_and_leaves_the_current_one_alone():
    api = Several()
    placed = GuardedDevice(api, "toy", "toy-distribution", 2)
    line = Several.cast.__code__.co_firstlineno + 2
    with pytest.raises(
        BackendError, match=rf"'toy:2' failed: cast of .*test_guarded_device\.py:{line}\) raised KeyErr"
    ):
        placed.cast(1, None)
    assert api.current == 0
    api.broken = 2  # the device cannot be made the current one any more
    with pytest.raises(BackendError, match=r"'toy:2' failed: to_host of .* raised OSError: chip fell off the bus"):
        placed.to_host(1)
    with pytest.raises(BackendError, match=r"'toy:2' failed: from_host of .*chip fell off"):
        placed.from_host(1, 2)
