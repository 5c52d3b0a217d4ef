"""A device over NumPy with kernels of its own, and all four hooks: what plugin API 1.0 has, used once each."""

from contextlib import contextmanager

import numpy

from tensorplay_composite.arrays import ArrayDevice, emitter, kernels
from tensorplay_core.plugins import API_VERSION, Availability, DeviceAPI, hookimpl, library_impl

SEEN = {"api": API_VERSION, "devices": [], "relu": 0, "square": 0, "exp": 0, "unloaded": 0}


class FrozenDevice(ArrayDevice):
    survives_fork = True

    @contextmanager
    def device(self, index):
        if index not in SEEN["devices"]:
            SEEN["devices"].append(index)
        yield

    def device_name(self, index):
        return f"frozen {index}"

    def memory_info(self, index):
        return 1_000, 4_000


DEVICE = FrozenDevice(numpy, shares_memory_with_host=False, mutable=True, views=True)


def relu(self):
    SEEN["relu"] += 1
    return numpy.maximum(self, 0)


@library_impl("frozen", "Frozen")
def _(m):
    made = kernels(numpy, random=DEVICE.random)
    for name, kernel in {**made, "relu": relu}.items():
        if name not in ("exp", "softmax", "log_softmax"):
            m.impl(name, kernel)
    m.emitter(emitter(numpy, made))
    m.without_composite("log_softmax")
    beneath = m.below("square")

    def square(self):
        SEEN["square"] += 1
        return beneath(self)

    m.impl("square", square)


@hookimpl
def tensorplay_probe():
    return Availability(ok=isinstance(DEVICE, DeviceAPI), reason="", device_count=2, fix="")


@hookimpl
def tensorplay_register(registry):
    def exp(self):
        SEEN["exp"] += 1
        return numpy.exp(self)

    registry.impl("exp", "frozen", exp)


@hookimpl
def tensorplay_device():
    return DEVICE


@hookimpl
def tensorplay_unload():
    SEEN["unloaded"] += 1
