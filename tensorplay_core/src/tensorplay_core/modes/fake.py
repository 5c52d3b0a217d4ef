"""Tensors that claim to be on a device and have no data: a program runs without memory, hardware or time.

A fake tensor is a tensor whose type says ``fake``: its array is a MetaArray, its device a label. At the Python key a
call with one is computed by the shape rules of the meta device, and its results get the label back; so errors of
shapes, dtypes and devices are those of the real program.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tensorplay_core.dispatch import devices
from tensorplay_core.dispatch.context import STATE
from tensorplay_core.dispatch.operator import Operator
from tensorplay_core.dispatch.tensor_type import intern
from tensorplay_core.errors import ArgumentError, NoDataError, fix
from tensorplay_core.ops import creation, exchange, handlers
from tensorplay_core.ops.arguments import plan_of, tensors_in, written_tensors
from tensorplay_core.ops.packets import overload_of
from tensorplay_core.ops.typing_rules import device_of
from tensorplay_core.tensor.meta_array import MetaArray
from tensorplay_core.tensor.modes import DispatchMode, TensorPlayMode
from tensorplay_core.tensor.tensor import Tensor, TensorBase, wrap
from tensorplay_core.tensor.version import version_of
from tensorplay_core.types.device import Device

FAKE = "fake"
META = Device("meta")
_READ = {
    creation.tensor: True,
    creation.as_tensor: True,
    exchange.asarray: True,
    creation.from_numpy: False,
    exchange.from_dlpack: False,
    exchange.frombuffer: False,
}
"""Functions that make a tensor of data, and whether on the default device, where none is named, or where the data is. A
fake tensor is made of what they make on the cpu.
"""


def is_fake(tensor: Any) -> bool:
    """Whether a tensor has a device and no data."""
    return isinstance(tensor, TensorBase) and tensor._type.wrapper == FAKE


def faked(tensor: Any, device: Device | None = None) -> Tensor:
    """Returns a fake tensor like another one, of the same shape, strides and dtype.

    Args:
        tensor: any tensor.
        device: the device that it claims to be on; the tensor's own when None.
    """
    place = devices.labelled(device or tensor.device)
    array = MetaArray(tensor.shape, tensor.dtype, tensor.stride())
    return wrap(array, intern(place, tensor.dtype, inference=STATE.get().inference, wrapper=FAKE))


def run(op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Runs an operator without data, whose result is fake.

    Raises:
        NoDataError: the result depends on the elements of a tensor.
        ArgumentError: it would write to a tensor that has data.
    """
    for tensor in written_tensors(op, args, kwargs):
        if not is_fake(tensor):
            raise ArgumentError(
                f"{op.display_name}: it would write fake data to a real tensor of shape {tensor.shape}"
                + fix("make the tensor inside the FakeMode block, or clone() it there.")
            )
    tensors = list(tensors_in(args, kwargs))
    named = next((v for v in (kwargs.get("device"), *args) if v.__class__ is Device), None)
    device = named or (device_of(tensors) if tensors else devices.default_device())
    given: dict[int, Any] = {}
    back: dict[int, Any] = {}

    def meta(value: Any) -> Any:
        if isinstance(value, TensorBase):
            if (known := given.get(id(value))) is None:
                array = value._array if is_fake(value) else MetaArray(value.shape, value.dtype, value.stride())
                cell = version_of(value) if is_fake(value) else None
                known = given[id(value)] = wrap(array, intern(META, value.dtype), version=cell)
                back[id(known)] = value
            return known
        if value.__class__ is Device:
            return META
        return tuple([meta(item) for item in value]) if value.__class__ is tuple else value

    def fake(value: Any) -> Any:
        if isinstance(value, TensorBase):
            if (known := back.get(id(value))) is not None:
                return known
            type = intern(devices.labelled(device), value.dtype, wrapper=FAKE, inference=value._type.inference)
            return wrap(value._array, type, version=value._version)
        if isinstance(value, (tuple, list)):
            items = [fake(item) for item in value]
            return plan_of(op).result_class(items) if isinstance(value, tuple) else items
        return value

    keywords = {name: meta(value) for name, value in kwargs.items()}
    if "creation" in op.tags:
        keywords["device"] = META
    try:
        return fake(overload_of(op)(*map(meta, args), **keywords))
    except NoDataError as error:
        said = str(error).partition("\nfix: ")[0].replace("a meta tensor", "a fake tensor")
        raise type(error)(
            said + fix("run this part outside of the FakeMode block, on tensors that have data.")
        ) from None


handlers.run_fake = run


class _Reading(TensorPlayMode):
    """What FakeMode opens besides: functions that read data give fake tensors too."""

    def __tensorplay_function__(
        self,
        func: Callable[..., Any],
        types: tuple[type, ...],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Makes what is read on the cpu, and a fake tensor of it; what is made of a tensor is fake anyhow."""
        keywords = dict(kwargs or {})
        if func is Tensor.new_tensor:
            own, args, func = args[0], args[1:], creation.tensor
            keywords = {name: value for name, value in keywords.items() if value is not None}
            keywords = {"dtype": own.dtype, "device": own.device, **keywords}
        elif func is creation.as_tensor:
            args, keywords = args[:1], {**dict(zip(("dtype", "device"), args[1:], strict=False)), **keywords}
        given: Any = args[0] if args else keywords.get("data", keywords.get("obj"))
        if func is exchange.from_dlpack and is_fake(given):
            return Tensor.to(Tensor.detach(given), device=keywords.get("device"), copy=bool(keywords.get("copy")))
        if func not in _READ or (isinstance(given, TensorBase) and func is not exchange.from_dlpack):
            return func(*args, **keywords)
        asked, grad = keywords.pop("device", None), keywords.pop("requires_grad", False)
        with Device("cpu"):
            made = func(*args, **keywords)
        place = Device(asked) if isinstance(asked, str) else asked
        made = faked(made, place or (devices.default_device() if _READ[func] else made.device))
        return made.requires_grad_() if grad else made


class FakeMode(DispatchMode):
    """A block whose new tensors have a device, a dtype and a shape, and no data; nothing is computed.

    A device is a label here: it need not be on this machine. Tensors from outside take part, and are read only for
    their shapes. What needs data (``item()``, ``nonzero``) is a NoDataError.

    Example:
        >>> import tensorplay as tp
        >>> with tp.modes.FakeMode():
        ...     w = tp.randn(50_000, 100_000, device="cuda", requires_grad=True)
        ...     loss = (tp.ones(8, 100_000, device="cuda") @ w.T).sum()
        ...     loss.backward()
        >>> w.grad
        tensor(..., device='cuda:0', size=(50000, 100000))
        >>> loss.item()
        Traceback (most recent call last):
        ...
        tensorplay_core.errors.NoDataError: a fake tensor has no data, only a device, a shape, strides and a dtype
        fix: make a real one outside of the FakeMode block, e.g. tp.zeros(x.shape), and fill it.
    """

    fakes = True

    def __enter__(self) -> FakeMode:
        """Starts faking."""
        reading = vars(self).setdefault("_reading", _Reading())
        reading.__enter__()
        return super().__enter__()

    def __exit__(self, *raised: Any) -> None:
        """Restores what was there before."""
        super().__exit__(*raised)
        vars(self)["_reading"].__exit__(*raised)

    def __tensorplay_dispatch__(
        self, func: Any, types: tuple[type, ...], args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Runs the operator without data."""
        return run(func._op, args, dict(kwargs or {}))

    def fake(self, tensor: Tensor, device: Device | str | None = None) -> Tensor:
        """Returns a fake tensor like a real one, a leaf; it requires a gradient if that does.

        Args:
            tensor: the tensor.
            device: the device that it claims to be on; the tensor's own when None.
        """
        made = faked(tensor, Device(device) if isinstance(device, str) else device)
        return made.requires_grad_() if tensor.requires_grad else made
