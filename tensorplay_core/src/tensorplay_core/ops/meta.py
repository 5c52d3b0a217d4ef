"""The meta device: tensors with a shape, strides and a dtype, but no data, so that a program can be tried without any.

Core brings it itself, without a plugin and without an array library. It starts when it is first named: its kernels come
from the table that the generator makes of the contract, and from the rules of operators that others define.
"""

from __future__ import annotations

from typing import Any, NoReturn

from tensorplay_core.dispatch import devices
from tensorplay_core.dispatch.device_api import DeviceAPI
from tensorplay_core.dispatch.keys import DispatchKey
from tensorplay_core.dispatch.operator import Operator, Registration, location
from tensorplay_core.dispatch.registry import REGISTRY
from tensorplay_core.ops import meta_kernels
from tensorplay_core.ops._generated_meta import BY_RULE, HANDWRITTEN, LEFT_TO_COMPOSITE
from tensorplay_core.ops.slots import CORE
from tensorplay_core.ops.typing_rules import holds
from tensorplay_core.plugins.lifecycle import MANAGER
from tensorplay_core.tensor import meta_array
from tensorplay_core.tensor.meta_array import MetaArray, no_data
from tensorplay_core.types import dtype as dt
from tensorplay_core.types.dtype import DType

META = "meta"
BITS_64 = 1 << 63


class MetaDevice(DeviceAPI):
    """How core makes, casts and compares arrays that have no elements; it has every dtype, which are its native ones.

    Example:
        >>> MetaDevice().from_list([[1, 2], [3, 4]], dt.float32)
        MetaArray((2, 2), float32, strides=(2, 1))
    """

    array_class = MetaArray
    dtypes = {dtype.name: dtype for dtype in dt.ALL}  # noqa: RUF012  a mapping that nobody changes

    def as_array(self, value: Any) -> MetaArray:
        """Returns a kernel's result.

        Raises:
            TypeError: it is no MetaArray.
        """
        if value.__class__ is MetaArray:
            return value
        raise TypeError(f"a kernel of the meta device returns a MetaArray, not {type(value).__name__}")

    def dtype_name(self, array: MetaArray) -> str:
        """Returns the name of an array's dtype."""
        return array.dtype.name

    def from_list(self, data: Any, dtype: DType) -> MetaArray:
        """Returns the array that nested lists of numbers would make; numbers that do not fit the dtype are refused.

        Raises:
            OverflowError, ValueError: a number does not fit, as array libraries say it.
        """
        shape, inner = [], data
        while isinstance(inner, list):
            shape.append(len(inner))
            inner = inner[0] if inner else None
        _check_numbers(data, dtype)
        return MetaArray(tuple(shape), dtype)

    def from_host(self, host: Any, index: int) -> MetaArray:
        """Returns what is left of a NumPy array, or of a MetaArray that was pickled."""
        if host.__class__ is MetaArray:
            return MetaArray(host.shape, host.dtype, host.strides)
        dtype = dt.by_name(host.dtype.name)
        strides = tuple(step // dtype.itemsize for step in host.strides)
        return MetaArray(host.shape, dtype, strides).packed(dtype)

    def to_host(self, array: MetaArray) -> NoReturn:
        """Raises: there is nothing to copy."""
        raise no_data()

    def cast(self, array: MetaArray, dtype: DType) -> MetaArray:
        """Returns an array of another dtype, laid out as this one."""
        return array.packed(dtype)

    def copy(self, array: MetaArray) -> MetaArray:
        """Returns an array in C order with memory of its own."""
        return MetaArray(array.shape, array.dtype)

    def may_alias(self, a: MetaArray, b: MetaArray) -> bool:
        """Whether two arrays would share memory."""
        return meta_array.may_alias(a, b)

    def is_contiguous(self, array: MetaArray) -> bool:
        """Whether the elements would lie in C order without gaps."""
        return meta_array.is_contiguous(array)

    def strides(self, array: MetaArray) -> tuple[int, ...]:
        """Returns the strides in elements."""
        return array.strides

    def storage_offset(self, array: MetaArray) -> int:
        """Returns the place of the first element in its memory, in elements."""
        return array.offset

    def overlaps_itself(self, array: MetaArray) -> bool:
        """Whether two elements would be the same memory."""
        return meta_array.overlaps_itself(array)

    def device_name(self, index: int) -> str:
        """Returns a name for a person."""
        return "no data: shapes, strides and dtypes"

    @property
    def of_fakes(self) -> MetaDevice:
        """The API of tensors that claim to be on another device: the same, with errors of their own."""
        return _OF_FAKES


class _Fakes(MetaDevice):
    """See :attr:`MetaDevice.of_fakes`."""

    def to_host(self, array: MetaArray) -> NoReturn:
        """Raises: there is nothing to copy."""
        raise no_data(fake=True)


_OF_FAKES = _Fakes()


def _check_numbers(data: Any, dtype: DType) -> None:
    """Refuses numbers that an array library refuses to store: integers out of range, what no integer can be."""
    if isinstance(data, list):
        for item in data:
            _check_numbers(item, dtype)
    elif dtype.is_integral and not isinstance(data, complex):
        whole = int(data)  # refuses NaN and infinity
        if data.__class__ is int and not holds(dtype, whole):
            raise OverflowError(f"Python integer {data} out of bounds for {dtype.name}")
        if not -BITS_64 <= whole < 2 * BITS_64:
            raise OverflowError(f"{data} is too large for an integer")
    elif dtype.is_inexact and data.__class__ is int:
        float(data)  # refuses what no float can be


# ------------------------------------------------------------------------------------------------------- registration


def start() -> None:
    """Makes the device active, once; what extends every device comes first, as it does for a backend's."""
    MANAGER.extend_device(META)
    with REGISTRY.lock:
        if META in devices.active_devices():
            return
        if _listen not in REGISTRY.on_define:
            REGISTRY.publish(added=_registrations())
            REGISTRY.on_define.append(_listen)
        devices.install(META, MetaDevice(), 1, CORE)


def _registrations() -> list[Registration]:
    kernels = {op: meta_kernels.by_rule(op, rule, result) for op, rule, result in BY_RULE}
    kernels |= dict(HANDWRITTEN)
    for op in REGISTRY.operators.values():
        if op not in kernels and op not in LEFT_TO_COMPOSITE and (kernel := meta_kernels.derived(op)) is not None:
            kernels[op] = kernel
    return [_registration(op, kernel) for op, kernel in kernels.items()]


def _listen(op: Operator) -> None:
    """Gives an operator that is defined later the kernel of its shape rule."""
    if (kernel := meta_kernels.derived(op)) is not None:
        REGISTRY.publish(added=[_registration(op, kernel)])


def _registration(op: Operator, kernel: meta_kernels.Kernel) -> Registration:
    registration = Registration(
        kernel,
        op=op.qualified_name,
        key=int(DispatchKey.Meta),
        owner=CORE,
        distribution=CORE,
        where=location(kernel),
        level="array",
    )
    registration.placeholder = True  # whoever knows an operator's shape better may say so
    if op.composite == "explicit":
        registration.keywords = frozenset()  # Composite serves a call that changes one, and judges its value
    return registration
