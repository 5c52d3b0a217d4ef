"""A backend without a package: what ``tensorplay.backends.from_namespace`` makes of an array module.

Core asks for it through the hook ``tensorplay_from_namespace``, as it knows no array library. The answer is a plugin as
any other, an object in place of a module, so that loading, unloading and errors are those of all backends.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from tensorplay_composite.arrays import ArrayDevice, emitter, kernels
from tensorplay_composite.arrays._support import module_name
from tensorplay_core.dispatch.operator import location
from tensorplay_core.errors import ArgumentError, fix
from tensorplay_core.plugins import Availability, hookimpl

NEEDED = (
    *("abs", "add", "any", "arange", "argmax", "asarray", "broadcast_to", "cos", "divide", "empty", "equal", "exp"),
    *("expand_dims", "expm1", "float32", "full", "greater", "greater_equal", "isnan", "less", "less_equal", "log"),
    *("log1p", "logical_and", "logical_or", "matmul", "max", "maximum", "minimum", "multiply", "negative", "not_equal"),
    *("ones", "real", "reshape", "sign", "sin", "sqrt", "squeeze", "subtract", "sum", "take", "take_along_axis"),
    *("tanh", "where", "zeros", "zeros_like"),
)
"""Functions that a module must have; all are in the array API standard (2024.12) and in NumPy."""
OWN_THREADS = frozenset({"cupy", "jax", "torch"})
"""Libraries with threads or drivers of their own, which do not live on in a child of fork."""
REMEDY = fix("pass a module such as numpy, jax.numpy or array_api_strict, or another with their functions.")


class ArrayPlugin:
    """The hooks of a backend over an array module.

    Args:
        xp: the module.
        name: the device's type.
        dtypes: dtype name to native dtype; None for every one that the module has.
        mutable: whether arrays can be written to; None to find out.
        views: whether slices share memory; None to find out.
        device_count: how many devices to count.

    Raises:
        ArgumentError: the module is not NumPy-like; the message says what it lacks.
    """

    def __init__(
        self,
        xp: Any,
        name: str,
        dtypes: Mapping[str, Any] | None,
        mutable: bool | None,
        views: bool | None,
        device_count: int,
    ) -> None:
        check(xp)
        self.name = name
        self.device_count = device_count
        try:
            self.device = ArrayDevice(xp, dtypes=dtypes, mutable=mutable, views=views)
            self.kernels = kernels(xp, random=self.device.random, mutable=self.device.mutable, dtypes=dtypes)
            self.emitter = emitter(xp, self.kernels)
        except AttributeError as error:  # a dtype that every device has, or a function that has two names
            raise ArgumentError(
                f"from_namespace: {module_name(xp)!r} is no NumPy-like module: {error}{REMEDY}"
            ) from error
        self.device.survives_fork = module_name(xp).partition(".")[0] not in OWN_THREADS

    @hookimpl
    def tensorplay_probe(self) -> Availability:
        """The module is imported already, so it works."""
        return Availability(ok=True, device_count=self.device_count)

    @hookimpl
    def tensorplay_device(self) -> ArrayDevice:
        """Returns how core makes, reads and copies the module's arrays."""
        return self.device

    @hookimpl
    def tensorplay_register(self, registry: Any) -> None:
        """Registers every array kernel at the device's key."""
        for op, kernel in self.kernels.items():
            registry.impl(op, self.name, kernel, where=location(inspect.unwrap(kernel)))
        registry.emitter(self.name, self.emitter)


def check(xp: Any) -> None:
    """Refuses what is no NumPy-like module.

    Raises:
        ArgumentError: it says what is missing, or what was given in its place.

    Example:
        >>> import numpy, math
        >>> check(numpy)
        >>> check(math)
        Traceback (most recent call last):
        ...
        tensorplay_core.errors.ArgumentError: from_namespace: 'math' is no NumPy-like module: it lacks abs, ...
        fix: pass a module such as numpy, jax.numpy or array_api_strict, or another with their functions.
    """
    if isinstance(xp, str):
        raise ArgumentError(f"from_namespace: the module itself is wanted, not its name {xp!r}{REMEDY}")
    if hasattr(xp, "__array_namespace__"):
        raise ArgumentError(f"from_namespace: an array ({type(xp).__name__}) was given, not its module{REMEDY}")
    missing = [name for name in NEEDED if not hasattr(xp, name)]
    if missing:
        shown = ", ".join(missing[:5]) + f" and {len(missing) - 5} more" * (len(missing) > 5)
        raise ArgumentError(f"from_namespace: {module_name(xp)!r} is no NumPy-like module: it lacks {shown}{REMEDY}")
