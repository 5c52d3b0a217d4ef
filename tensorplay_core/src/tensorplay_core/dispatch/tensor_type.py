"""The interned type of a tensor: one object per (device, dtype, layout, inference, wrapper).

One identity test on it is the device check, the dtype check and the union of key sets at once. It also carries a slot
per operator, with the kernel that the tables give for this type, so that a call on the fast path looks nothing up. A
slot starts as :func:`unresolved`, which raises; the slow path then serves the call and fills the slot.
"""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, NoReturn

from tensorplay_core.dispatch import devices
from tensorplay_core.dispatch.guarded_device import failed
from tensorplay_core.dispatch.integers import integer_among
from tensorplay_core.dispatch.key_set import KeySet
from tensorplay_core.dispatch.keys import OFFSETS, PAGE, DispatchKey, backend_key
from tensorplay_core.dispatch.wrapped import BATCHED, GRAD, WrapperAPI
from tensorplay_core.errors import DTypeError, did_you_mean, fix
from tensorplay_core.types import dtype as dt
from tensorplay_core.types.device import Device
from tensorplay_core.types.dtype import DType

MARKS = ("subclass", "dispatch")
"""Wrappers that mark the tensors of a subclass of Tensor; what is computed from them has no mark at first."""
FAKE = "fake"
DISPATCHING = ("dispatch", FAKE)
"""Wrappers of tensors that somebody has a say about at the Python key: their class, or who made them without data."""


class Unresolved(Exception):
    """A slot of a tensor type is not resolved yet; never reaches a user."""


def unresolved(*arguments: object, **keywords: object) -> NoReturn:
    """What a slot holds until it is resolved: sends the call to the slow path."""
    raise Unresolved


class TensorType:
    """The type of a tensor; compare with ``is``.

    Attributes:
        device, dtype, layout, inference, wrapper: what it is interned by.
        api: the device's API; where there are several devices of the type, as placed on this one.
        several: there are, so that a kernel must run while this one is current.
        mutable, array_class, as_array: copied from the API, for the fast path.
        rebinds: a write to a tensor gives it, and its views, other arrays: theirs cannot be written to or share memory.
        native: the backend's native dtype.
        is_complex: whether the dtype is complex.
        wraps: the array of such a tensor is another tensor, of a transform's level.
        special: calls with this type always take the slow path (sparse and wrapper tensors).
        plain: the type outside inference mode; itself unless it is an inference type, or a subclass's.
        unwrapped: the type without the mark of a subclass of Tensor, which is what its results have; else itself.
        inference_twin: the type of the same tensor in inference mode.
        same_type, bool_type, float_type, sum_type, index_type, real_type: what the promote rules give from it; None at
            run time where the device lacks the dtype, and then no slot is filled that would read it.
        ints, floats: Python scalars as cached 0-d tensors of this type, by value.
    """

    same_type: TensorType
    bool_type: TensorType
    float_type: TensorType
    sum_type: TensorType
    index_type: TensorType
    real_type: TensorType
    plain: TensorType
    unwrapped: TensorType
    inference_twin: TensorType

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """The slots, one per operator: ``k_add``, ``k_max__dim``."""

    def __init__(
        self,
        entry: devices.DeviceEntry | _Labelled,
        device: Device,
        dtype: DType,
        layout: str,
        inference: bool,
        wrapper: str | None,
    ) -> None:
        """Use :func:`intern`; two types of one description must not exist."""
        self.device = device
        self.dtype = dtype
        self.layout = layout
        self.inference = inference
        self.wrapper = wrapper
        self.wraps = wrapper in (BATCHED, GRAD)
        self.page = entry.page
        self.key = int(DispatchKey.Sparse) if layout == "sparse" else entry.key
        self.is_complex = dtype.is_complex
        self.special = layout != "strided" or wrapper is not None
        self.attach(entry)

    def attach(self, entry: devices.DeviceEntry | _Labelled) -> None:
        """Takes over a device's API, and empties everything that was made with another."""
        self.several = entry.several
        self.api = entry.api_at(self.device.index)
        if self.wraps:
            self.api = WrapperAPI(self.api)
        self.mutable = self.api.mutable
        self.rebinds = not self.wraps and not (self.mutable and self.api.views)
        self.array_class = self.api.array_class
        self.as_array = self.api.as_array
        self.native = self.api.dtypes.get(self.dtype.name)
        self.ints: dict[int, Any] = {}
        self.floats: dict[Any, Any] = {}
        self.__dict__.update(dict.fromkeys(_slots, unresolved))

    def as_current(self) -> AbstractContextManager[Any]:
        """Returns a context in which its device is the current one of the array library, and :func:`running_on`."""
        return _Current(self) if self.several else nullcontext()

    @property
    def key_set(self) -> KeySet:
        """The keys of a tensor of this type, computed: backend and Autograd, or Vmap when batched."""
        return KeySet(self.key_bits, self.page)

    @property
    def key_bits(self) -> int:
        """The bitmap of :attr:`key_set`."""
        bits = 1 << self.key
        if self.wrapper in DISPATCHING:
            bits |= 1 << DispatchKey.Python
        if self.wrapper == "batched":
            return bits | 1 << self.key + OFFSETS["Vmap"]
        return bits if self.inference else bits | 1 << self.key + OFFSETS["Autograd"]

    def with_dtype(self, dtype: DType) -> TensorType:
        """Returns the type that differs in dtype alone."""
        if dtype is self.dtype:
            return self.unwrapped
        return intern(self.device, dtype, self.layout, self.inference, self.unwrapped.wrapper)

    def __repr__(self) -> str:
        """Describes the type."""
        words = (self.layout * (self.layout != "strided"), "inference" * self.inference, self.wrapper)
        extra = "".join(f", {word}" for word in words if word)
        return f"TensorType({self.dtype.name}, {self.device}{extra})"

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        """Pickles by description, so that types stay interned."""
        return intern, (self.device, self.dtype, self.layout, self.inference, self.wrapper)


class _Current:
    """A ``with`` block in which one of several devices is the current one."""

    __slots__ = ("_context", "_token", "_type")

    def __init__(self, type: TensorType) -> None:
        self._type = type
        self._context: AbstractContextManager[Any] = type.api.device(type.device.index or 0)

    def __enter__(self) -> None:
        try:
            self._context.__enter__()
        except Exception as error:  # the device's failure, and not that of the kernel which was to run
            api: Any = self._type.api
            raise failed(api, "device", (self._type.device.index,), {}, error) from error
        self._token = _running_on.set(self._type.device)

    def __exit__(self, *raised: Any) -> None:
        _running_on.reset(self._token)
        self._context.__exit__(*raised)


_running_on: ContextVar[Device | None] = ContextVar("tensorplay_running_on", default=None)


def running_on(type: str) -> Device:
    """Returns the device that the kernel which calls this runs on: its arrays do not say which of several they are on.

    Args:
        type: the device type; where no kernel on such a device runs here, the result has no index.
    """
    device = _running_on.get()
    return device if device is not None and device.type == type else Device(type)


class _Labelled:
    """Stands for the entry of a device whose tensors are fake: the arrays are the meta device's, the keys its own."""

    def __init__(self, type: str) -> None:
        self.type, self.several = type, False
        meta: Any = devices.entry("meta").api
        self.api = meta.of_fakes
        self.page, self.key = divmod(backend_key(type), PAGE)

    def api_at(self, index: int | None) -> Any:
        """Returns the meta device's API."""
        return self.api


_Key = tuple[Device, DType, str, bool, str | None]
_types: dict[_Key, TensorType] = {}
_slots: list[str] = []
lock = threading.RLock()
"""Held while types or their slots change; the registry's lock too, so that no two threads can want them crosswise."""


def add_slot(name: str) -> None:
    """Gives every type, present and future, a slot for an operator."""
    with lock:
        if name not in _slots:
            _slots.append(name)
            for known in _types.values():
                known.__dict__.setdefault(name, unresolved)


def forget_slot(name: str) -> None:
    """Empties an operator's slot in every type: its table has changed."""
    with lock:
        if name in _slots:
            for known in _types.values():
                known.__dict__[name] = unresolved


def renew(entry: devices.DeviceEntry | _Labelled) -> None:
    """Gives the types of a device its API again: a backend that was loaded anew may have brought another object.

    Its dtypes may be others, too: what the promote rules give is found anew.
    """
    with lock:
        mine = [known for known in _types.values() if known.device.type == entry.type and known.wrapper != FAKE]
        mine = [known for known in mine if known.api is not entry.api_at(known.device.index)]
        made: dict[_Key, TensorType] = {}
        for known in mine:
            known.attach(entry)
        for known in mine:
            if known.dtype.name in entry.api.dtypes:
                _relate(known, entry, made)
        _types.update(made)


devices.renew = renew


def intern(
    device: Device, dtype: DType, layout: str = "strided", inference: bool = False, wrapper: str | None = None
) -> TensorType:
    """Returns the one type of that description, loading the device's backend at first use.

    Raises:
        DTypeError: the device does not have the dtype; the message lists those it has.
    """
    known = _types.get((device, dtype, layout, inference, wrapper))
    if known is not None and (known.native is not None or not devices.is_active(device.type)):
        return known
    label = wrapper == FAKE
    if wrapper in (BATCHED, GRAD) and not devices.is_active(device.type) and devices.fakes():
        label = True  # what is wrapped is fake
    device = devices.labelled(device) if label else devices.normalize(device)
    entry = _Labelled(device.type) if label else devices.entry(device.type)
    if dtype.name not in entry.api.dtypes:
        raise DTypeError(
            f"device {device.type!r} has no dtype {dtype.name}; it has {', '.join(entry.api.dtypes)}."
            f"{did_you_mean(dtype.name, entry.api.dtypes)}" + fix("convert with .to(dtype) before moving the tensor.")
        )
    with lock:
        # Types refer to each other, so they are made together; readers take no lock and must see whole ones only.
        made: dict[_Key, TensorType] = {}
        self = _make(entry, (device, dtype, layout, inference, wrapper), made)
        _types.update(made)
        return self


def _make(entry: devices.DeviceEntry | _Labelled, key: _Key, made: dict[_Key, TensorType]) -> TensorType:
    known = _types.get(key) or made.get(key)
    if known is not None:
        return known
    self = made[key] = TensorType(entry, *key)
    _relate(self, entry, made)
    return self


def _relate(self: TensorType, entry: devices.DeviceEntry | _Labelled, made: dict[_Key, TensorType]) -> None:
    """Tells a type what the promote rules give from it; types that are made for it go to ``made``."""
    dtype = self.dtype
    wrapper = None if self.wrapper in MARKS else self.wrapper

    def related(dtype: DType, inference: bool = False) -> Any:
        if dtype.name not in entry.api.dtypes:
            return None
        return _make(entry, (self.device, dtype, self.layout, inference, wrapper), made)

    self.unwrapped = related(dtype, self.inference)
    self.plain = self.same_type = related(dtype)
    self.inference_twin = related(dtype, True)
    self.bool_type = related(dt.bool_)
    integer = integer_among(entry.api.dtypes)
    self.index_type = related(integer)
    self.float_type = related(dtype if dtype.is_inexact else dt.get_default_dtype())
    self.sum_type = related(dtype if dtype.is_inexact else integer)
    self.real_type = related(dtype.real_dtype)
