"""A whole backend: the device ``loopback``, whose arrays are NumPy's, with every operator that tensorplay-cpu has."""

import numpy

from tensorplay_composite.arrays import ArrayDevice, emitter, kernels
from tensorplay_core.plugins import Availability, hookimpl, library_impl

DEVICE = ArrayDevice(numpy)


@library_impl("loopback", "ArraysLoopback")
def _(m):
    made = kernels(numpy, random=DEVICE.random)
    for name, kernel in made.items():
        m.impl(name, kernel)
    m.emitter(emitter(numpy, made))


@hookimpl
def tensorplay_probe():
    """Says whether this machine can run the backend, and how many devices it has."""
    return Availability(ok=True, device_count=1)


@hookimpl
def tensorplay_device():
    """Returns how core makes, reads and copies the arrays of the device."""
    return DEVICE
