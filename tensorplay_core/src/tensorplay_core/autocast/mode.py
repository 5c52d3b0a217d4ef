"""``tp.autocast``: a region in which operators choose the dtype that they compute in, device type by device type.

A region is a change of the context state like the gradient modes, so it nests, decorates, is left whatever was raised,
and holds for a thread or a task of its own. What it changes there is one value, a :class:`Regions`: which device types
are on, and the casts of weights that all regions inside the outermost one share.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any

from tensorplay_core.autocast.cache import CastCache
from tensorplay_core.autograd.modes import GradMode
from tensorplay_core.dispatch import devices
from tensorplay_core.dispatch.context import STATE, State, set_from_now_on
from tensorplay_core.dispatch.fallbacks import device_type_of
from tensorplay_core.errors import (
    ArgumentError,
    AutocastError,
    BackendError,
    DeviceUnavailable,
    DTypeError,
    RegistrationError,
    fix,
)
from tensorplay_core.types import dtype as dt
from tensorplay_core.types.dtype import DType, as_dtype

HALVES = (dt.float16, dt.bfloat16)
_known = {"cpu"}


class Regions(dict[str, DType]):
    """The device types for which autocast is on, each with the dtype that it lowers to.

    Attributes:
        dtypes: the dtype of every device type that was given one, those that are off too.
        caching: whether casts of weights are kept.
        cache: where, while a region is open; None without one.
        outermost: whether the region that made this is the outermost one, which empties the cache when it is left.
    """

    __slots__ = ("cache", "caching", "dtypes", "outermost")

    def __init__(
        self,
        on: Mapping[str, DType],
        dtypes: Mapping[str, DType],
        caching: bool = True,
        cache: CastCache | None = None,
        outermost: bool = False,
    ) -> None:
        """See the class."""
        super().__init__(on)
        self.dtypes = dict(dtypes)
        self.caching = caching
        self.cache = cache
        self.outermost = outermost

    def switched(self, device_type: str, on: bool, dtype: DType) -> Regions:
        """Returns a copy in which a device type is on or off."""
        known = {name: one for name, one in self.items() if name != device_type}
        if on:
            known[device_type] = dtype
        dtypes = {**self.dtypes, device_type: dtype} if dtype in HALVES else self.dtypes
        return Regions(known, dtypes, self.caching, self.cache)


def _regions(autocast: Mapping[str, DType] | None) -> Regions:
    """Returns the state's value, whoever made it: a scope may have put a plain mapping there."""
    return autocast if isinstance(autocast, Regions) else Regions(autocast or {}, autocast or {})


class autocast(GradMode):
    """A region in which operators compute in half precision where that is fast, and in float32 where that is needed.

    Matrix products, convolutions and attention cast their floating inputs to ``dtype``; exponentials, norms, losses and
    sums cast halves to float32; operators that combine several tensors promote them to the widest dtype among them; all
    others take what they get. float64, integers and complex numbers are left alone, and so are operators that write to
    a tensor: in place or with ``out=``. A backward pass computes in the dtypes of its forward pass, wherever it runs.

    Use it in a ``with`` statement, or to decorate a function, a coroutine function or a generator function. Regions
    nest, also those of several device types, and one with ``enabled=False`` turns autocast off inside another.

    Args:
        device_type: whose operators are meant: ``"cpu"``, ``"cuda"`` or any other device, without an index.
        dtype: ``tp.float16`` or ``tp.bfloat16``; without it what :func:`get_autocast_dtype` says.
        enabled: whether autocast is on for the device type inside.
        cache_enabled: whether the casts of leaves that require a gradient are kept until the outermost region ends, so
            that a weight that is used often is cast once; as around it when None, and without a region True.

    Raises:
        ArgumentError: an argument of the wrong type.
        AutocastError: there is no such device type.
        DTypeError: ``dtype`` is none of the two, or the device does not have it.

    Example:
        >>> import tensorplay as tp
        >>> weight, x = tp.ones(3, 2, requires_grad=True), tp.ones(1, 3)
        >>> with tp.autocast("cpu", dtype=tp.bfloat16):
        ...     y = x @ weight
        ...     loss = y.exp().sum()
        >>> y.dtype, loss.dtype
        (tensorplay.bfloat16, tensorplay.float32)
        >>> loss.backward()
        >>> weight.grad.dtype
        tensorplay.float32
    """

    __slots__ = ("_cache_enabled", "_device_type", "_dtype", "_enabled")

    def __init__(
        self, device_type: str, dtype: DType | None = None, enabled: bool = True, cache_enabled: bool | None = None
    ) -> None:
        """See the class."""
        check_device_type("autocast", device_type)
        _check_flag("autocast", "enabled", enabled)
        if cache_enabled is not None:
            _check_flag("autocast", "cache_enabled", cache_enabled)
        if enabled:
            _activate(device_type)
        super().__init__()
        self._device_type = device_type
        self._dtype = get_autocast_dtype(device_type) if dtype is None else as_dtype(dtype)
        self._enabled = enabled
        self._cache_enabled = cache_enabled
        if enabled:
            _check_dtype("autocast", device_type, self._dtype)

    def _again(self) -> GradMode:
        return autocast(self._device_type, self._dtype, self._enabled, self._cache_enabled)

    def _enter(self, previous: State) -> State:
        around = _regions(previous.autocast)
        regions = around.switched(self._device_type, self._enabled, self._dtype)
        if self._cache_enabled is not None:
            regions.caching = self._cache_enabled
        if regions.cache is None:
            regions.cache, regions.outermost = CastCache(), True
        return previous.replace(autocast=regions)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Restores what was there before; the outermost region forgets the casts of weights."""
        regions = self._own().autocast
        super().__exit__(kind, error, trace)
        if isinstance(regions, Regions) and regions.outermost and regions.cache is not None:
            regions.cache.close()


def check_device_type(function: str, device_type: Any) -> None:
    """Refuses what is no device type, whether or not its backend can work here.

    Raises:
        ArgumentError: it is no string.
        AutocastError: no device is called so; the message offers the nearest.
    """
    if not isinstance(device_type, str):
        raise ArgumentError(
            f"{function}: device_type is a string such as 'cpu', not {device_type!r}"
            + fix("pass the type of a device, device.type.")
        )
    if device_type in _known:
        return
    from tensorplay_core.ops.custom.registration import key_of  # here, because few programs need it

    near = ""
    try:
        type = device_type_of(key_of(device_type))
        known = type == device_type
        near = f" Did you mean {type!r}?"
    except RegistrationError as error:
        known = False
        if str(error).startswith(begin := f"there is no device type {device_type!r}."):
            near = str(error).removeprefix(begin)
    if not known:
        raise AutocastError(
            f"{function}: there is no device type {device_type!r}.{near}"
            + fix("name a device type without an index; tensorplay backends list shows those that are installed.")
        )
    _known.add(device_type)


def _activate(device_type: str) -> None:
    """Loads the backend of a device, which alone knows its dtypes; where it cannot, there are no tensors to cast."""
    with suppress(DeviceUnavailable, BackendError):
        devices.entry(device_type)


def _check_flag(function: str, name: str, value: Any) -> None:
    if not isinstance(value, bool):
        raise ArgumentError(f"{function}: {name} is True or False, not {value!r}" + fix("write bool(...) around it."))


def _check_dtype(function: str, device_type: str, dtype: DType) -> None:
    if dtype not in HALVES:
        raise DTypeError(
            f"{function}: autocast lowers to float16 or bfloat16, not to {dtype.name}"
            + fix("pass one of the two, or enabled=False to compute as the tensors are.")
        )
    if devices.is_active(device_type) and dtype.name not in (known := devices.entry(device_type).api.dtypes):
        halves = [half.name for half in HALVES if half.name in known]
        remedy = f"pass dtype=tp.{halves[0]}" if halves else "pass enabled=False: it has neither half precision"
        raise DTypeError(f"{function}: device {device_type!r} has no dtype {dtype.name}" + fix(f"{remedy}."))


# ------------------------------------------------------------------------------------------------------------ the state


def is_autocast_enabled(device_type: str) -> bool:
    """Returns whether autocast is on here for a device type.

    Example:
        >>> import tensorplay as tp
        >>> with tp.autocast("cpu"):
        ...     tp.is_autocast_enabled("cpu"), tp.is_autocast_enabled("cuda")
        (True, False)
    """
    check_device_type("is_autocast_enabled", device_type)
    return STATE.get().autocasts(device_type)


def get_autocast_dtype(device_type: str) -> DType:
    """Returns the dtype that autocast lowers to here for a device type, whether or not it is on.

    Where nothing else was said that is float16 on CUDA and bfloat16 on any other device, or the half that it has.

    Example:
        >>> import tensorplay as tp
        >>> tp.get_autocast_dtype("cpu")
        tensorplay.bfloat16
    """
    check_device_type("get_autocast_dtype", device_type)
    chosen = _regions(STATE.get().autocast).dtypes.get(device_type)
    if chosen is not None:
        return chosen
    first, second = HALVES if device_type == "cuda" else HALVES[::-1]
    if devices.is_active(device_type):
        known = devices.entry(device_type).api.dtypes
        return second if first.name not in known and second.name in known else first
    return first


def is_autocast_available(device_type: str) -> bool:
    """Returns whether there is such a device type, so that a region can be opened for it.

    Example:
        >>> import tensorplay as tp
        >>> tp.is_autocast_available("cpu"), tp.is_autocast_available("abacus")
        (True, False)
    """
    try:
        check_device_type("is_autocast_available", device_type)
    except AutocastError:
        return False
    return True


def is_autocast_cache_enabled() -> bool:
    """Returns whether a region that is open here keeps the casts of weights."""
    return _regions(STATE.get().autocast).caching


def set_autocast_enabled(device_type: str, enabled: bool) -> None:
    """Turns autocast on or off for a device type, until the end of the block that is open.

    Without a region there is no end at which casts of weights could be forgotten, so none are kept.

    Raises:
        ArgumentError, AutocastError, DTypeError: as :class:`autocast`.
    """
    check_device_type("set_autocast_enabled", device_type)
    _check_flag("set_autocast_enabled", "enabled", enabled)
    if enabled:
        _activate(device_type)
    dtype = get_autocast_dtype(device_type)
    if enabled:
        _check_dtype("set_autocast_enabled", device_type, dtype)
    set_from_now_on(autocast=_regions(STATE.get().autocast).switched(device_type, enabled, dtype))


def set_autocast_dtype(device_type: str, dtype: DType) -> None:
    """Sets the dtype that autocast lowers to for a device type, until the end of the block that is open.

    Raises:
        ArgumentError, AutocastError, DTypeError: as :class:`autocast`.
    """
    check_device_type("set_autocast_dtype", device_type)
    dtype = as_dtype(dtype)
    _check_dtype("set_autocast_dtype", device_type, dtype)
    regions = _regions(STATE.get().autocast)
    set_from_now_on(autocast=regions.switched(device_type, device_type in regions, dtype))


def set_autocast_cache_enabled(enabled: bool) -> None:
    """Sets whether the casts of weights are kept, until the end of the block that is open."""
    _check_flag("set_autocast_cache_enabled", "enabled", enabled)
    regions = _regions(STATE.get().autocast)
    set_from_now_on(autocast=Regions(regions, regions.dtypes, enabled, regions.cache))


def clear_autocast_cache() -> None:
    """Forgets the casts of weights that the open regions have kept."""
    cache = _regions(STATE.get().autocast).cache
    if cache is not None:
        cache.clear()
