"""A device API as core calls it: failures name the backend, the method and the line; the rest is the plugin's own."""

from __future__ import annotations

import pytest

from tensorplay_core.dispatch.device_api import DeviceAPI
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
