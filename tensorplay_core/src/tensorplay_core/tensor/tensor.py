"""The tensor: its slots, and what can be said about a tensor without running an operator.

A tensor is an array of its backend, an interned type, an autograd node (None unless a gradient is recorded) and a
version cell (None until somebody saves or views it); a view knows its base. Methods that run operators or autograd live
on the floors above, in classes that derive from :class:`TensorBase`; :func:`bind` puts them on :class:`Tensor`, and the
type checker sees them as bases.
"""

from __future__ import annotations

import copyreg
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, overload

from tensorplay_core.dispatch import active
from tensorplay_core.dispatch.context import STATE
from tensorplay_core.dispatch.tensor_type import TensorType
from tensorplay_core.errors import (
    ArgumentError,
    AutogradError,
    BackendError,
    DeviceUnavailable,
    DimError,
    ShapeError,
    fix,
)
from tensorplay_core.tensor.meta_array import MetaArray, NoArrayError, no_data
from tensorplay_core.tensor.version import Version, alias
from tensorplay_core.tensor.views import fresh_node
from tensorplay_core.types.device import Device
from tensorplay_core.types.dtype import DType

if TYPE_CHECKING:
    from tensorplay_core.autograd.methods import AutogradMethods
    from tensorplay_core.autograd.node import Node
    from tensorplay_core.ops._generated_methods import GeneratedMethods
    from tensorplay_core.ops.methods import OperatorMethods
    from tensorplay_core.ops.subclasses import SubclassMethods


class TensorBase:
    """The slots of a tensor, and its metadata."""

    __slots__ = ("__weakref__", "_array", "_edge", "_grad", "_type", "_version", "_view")

    _array: Any
    _type: TensorType
    _edge: Node | None
    _version: Version | None
    _view: tuple[Any, ...]
    _grad: Tensor | None

    __array_ufunc__ = None  # NumPy's operators leave mixed expressions to ours

    @property
    def _node(self) -> Node | None:
        """The node. ``_edge`` is what the fast path reads; it is not set while a write to its memory made it stale."""
        try:
            return self._edge
        except AttributeError:
            return fresh_node(self)

    @_node.setter
    def _node(self, node: Node | None) -> None:
        self._edge = node

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of the dims."""
        return tuple(self._array.shape)

    @property
    def dtype(self) -> DType:
        """The element type."""
        return self._type.dtype

    @property
    def device(self) -> Device:
        """Where the tensor lives."""
        return self._type.device

    @property
    def layout(self) -> str:
        """``"strided"`` or ``"sparse"``."""
        return self._type.layout

    @property
    def ndim(self) -> int:
        """The number of dims."""
        return len(self._array.shape)

    @property
    def itemsize(self) -> int:
        """Bytes per element."""
        return self._type.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self.numel() * self._type.dtype.itemsize

    @property
    def is_cuda(self) -> bool:
        """Whether the tensor is on a CUDA device."""
        return self._type.device.type == "cuda"

    @property
    def is_meta(self) -> bool:
        """Whether the tensor has no data: it is on the meta device."""
        return self._type.array_class is MetaArray

    def dim(self) -> int:
        """Returns the number of dims."""
        return len(self._array.shape)

    @overload
    def size(self, dim: None = None) -> tuple[int, ...]: ...
    @overload
    def size(self, dim: int) -> int: ...
    def size(self, dim: int | None = None) -> tuple[int, ...] | int:
        """Returns all sizes, or that of one dim."""
        return self.shape if dim is None else self.shape[self._checked_dim("size", dim)]

    def numel(self) -> int:
        """Returns the number of elements."""
        count = 1
        for size in self._array.shape:
            count *= size
        return count

    def element_size(self) -> int:
        """Returns the bytes per element."""
        return self._type.dtype.itemsize

    @overload
    def stride(self, dim: None = None) -> tuple[int, ...]: ...
    @overload
    def stride(self, dim: int) -> int: ...
    def stride(self, dim: int | None = None) -> tuple[int, ...] | int:
        """Returns the strides in elements, or that of one dim."""
        strides = self._type.api.strides(self._array)
        return strides if dim is None else strides[self._checked_dim("stride", dim)]

    def storage_offset(self) -> int:
        """Returns the place of the first element in the memory that it shares with its views, in elements."""
        return self._type.api.storage_offset(self._array)

    def _checked_dim(self, method: str, dim: int) -> int:
        ndim = self.ndim
        if not hasattr(dim, "__index__"):
            raise ArgumentError(f"{method}: dim must be an int, not {dim!r} ({type(dim).__name__})")
        if not -ndim <= dim < ndim:
            allowed = f" ({-ndim} to {ndim - 1})" if ndim else ""
            raise DimError(f"{method}: dim {dim} is out of range for a tensor of {ndim} dims{allowed}")
        return dim

    def is_contiguous(self) -> bool:
        """Returns whether the elements lie in C order without gaps."""
        return self._type.api.is_contiguous(self._array)

    def is_floating_point(self) -> bool:
        """Returns whether the dtype is a floating one."""
        return self._type.dtype.is_floating_point

    def is_complex(self) -> bool:
        """Returns whether the dtype is complex."""
        return self._type.dtype.is_complex

    def is_inference(self) -> bool:
        """Returns whether the tensor was made in inference mode."""
        return self._type.inference

    def tolist(self) -> Any:
        """Returns nested lists of Python numbers, or one number for a 0-d tensor."""
        return self._type.api.to_list(self._array)

    def item(self) -> Any:
        """Returns the only element as a Python number.

        Raises:
            ShapeError: there is not exactly one element.
        """
        if self.numel() != 1:
            raise ShapeError(f"item: a tensor of shape {self.shape} has {self.numel()} elements, not one")
        value = self.tolist()
        while isinstance(value, list):
            value = value[0]
        return value

    def numpy(self, *, force: bool = False) -> Any:
        """Returns a NumPy array of the same elements, sharing memory where the device does.

        Args:
            force: detach and copy to the host where that is needed, instead of raising.

        Raises:
            AutogradError: the tensor requires a gradient, and gradients are recorded here.
            ArgumentError: its device has memory of its own, or none at all, as meta.
        """
        if self.is_meta:
            raise NoArrayError(str(no_data("numpy", self._type.wrapper == "fake")))
        if not force:
            if STATE.get().grad and self._node is not None:
                raise AutogradError(
                    "numpy: the tensor requires grad, which a NumPy array would lose" + fix("call .detach().numpy().")
                )
            if not self._type.api.shares_memory_with_host:
                raise ArgumentError(
                    f"numpy: a tensor on {self.device} has no memory that NumPy can see" + fix("call .cpu().numpy().")
                )
        return self._type.api.to_host(self._array)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        """Converts for NumPy; under the same conditions as :meth:`numpy`."""
        host = self.numpy()
        if dtype is not None and host.dtype != dtype:
            if copy is False:
                raise ValueError(f"a NumPy array of dtype {dtype} needs a copy, and copy=False forbids it")
            return host.astype(dtype)
        return host.copy() if copy else host

    def __len__(self) -> int:
        """The size of the first dim."""
        if not self._array.shape:
            raise ArgumentError("len() of a 0-d tensor")
        return int(self._array.shape[0])

    def __iter__(self) -> Iterator[Tensor]:
        """Iterates over the first dim."""
        if not self._array.shape:
            raise ArgumentError("iteration over a 0-d tensor")
        return (self[i] for i in range(len(self)))  # type: ignore[index]

    def __bool__(self) -> bool:
        """The truth of the only element."""
        if self.numel() != 1:
            raise ShapeError(
                f"the truth of a tensor of shape {self.shape} is ambiguous"
                + fix("compare, then reduce to one element.")
            )
        return bool(self.item())

    def __float__(self) -> float:
        """The only element as a float."""
        return float(self.item())

    def __int__(self) -> int:
        """The only element as an int."""
        return int(self.item())

    def __complex__(self) -> complex:
        """The only element as a complex number."""
        return complex(self.item())

    def __index__(self) -> int:
        """The only element, of an integer dtype, as an index."""
        if not (self._type.dtype.is_integral or self._type.dtype.is_bool) or self.numel() != 1:
            raise ArgumentError(
                "only a tensor of one integer element can be an index, "
                f"not one of {self.dtype.name} and shape {self.shape}"
            )
        return int(self.item())

    def __hash__(self) -> int:
        """Hashes by identity: ``==`` compares elements."""
        return id(self)

    def __format__(self, spec: str) -> str:
        """Formats the only element of a 0-d tensor, or the repr."""
        if not self._array.shape and spec:
            return format(self.item(), spec)
        return object.__format__(self, spec)

    def __repr__(self) -> str:
        """Prints as PyTorch does; where the elements cannot be read, the reason takes their place.

        A traceback or a debugger prints what it finds, a tensor whose device has gone too, and must not fail over it.
        """
        if not hasattr(self, "_type"):
            return "<Tensor that was never initialised; make tensors with tp.tensor(...)>"
        if self._type.wraps:
            from tensorplay_core.tensor.wrappers import text_of

            return text_of(self)
        try:
            return self._text(has_data=not self.is_meta)
        except (BackendError, DeviceUnavailable) as error:
            return f"{self._text(has_data=False)}  # {str(error).partition(chr(10))[0]}"

    def _fetch(self, slices: tuple[slice, ...]) -> Any:
        """Returns some elements as nested lists; all are copied to the host where arrays cannot be sliced."""
        array, api = self._array, self._type.api
        if not hasattr(array.__class__, "__getitem__"):
            return api.to_host(array)[slices].tolist()
        with self._type.as_current():
            part = array[slices]
        return api.to_list(part)

    def _tangent_text(self) -> str | None:
        from tensorplay_core.tensor.dual import tangent_of

        tangent = tangent_of(self)
        return None if tangent is None else repr(tangent)

    def _text(self, has_data: bool) -> str:
        from tensorplay_core.tensor.printing import format_tensor

        try:
            node = self._node
        except AutogradError:  # the view cannot be used where gradients are recorded, and can be looked at
            node = None
        grad_fn = None if node is None or node.is_leaf else f"<{node.name}>"
        return format_tensor(
            self._fetch,
            shape=self.shape,
            dtype=self.dtype,
            device=None if self.device.type == "cpu" else str(self.device),
            requires_grad=node is not None and node.is_leaf,
            grad_fn=grad_fn,
            tangent=self._tangent_text() if active.levels else None,
            has_data=has_data,
            prefix="tensor(" if self.__class__ is Tensor else f"{self.__class__.__name__}(",
        )


if TYPE_CHECKING:

    class Tensor(AutogradMethods, OperatorMethods, SubclassMethods, GeneratedMethods, TensorBase):
        """A multi-dimensional array on some device, whose gradient can be recorded."""

else:

    class Tensor(TensorBase):
        """A multi-dimensional array on some device, whose gradient can be recorded.

        Make one with ``tp.tensor`` or another creation function; the class itself takes no arguments.
        """

        __slots__ = ()


def bind(methods: type) -> type:
    """Puts the methods and properties of a class on :class:`Tensor`; used by the floors above, as a decorator."""
    for name, value in vars(methods).items():
        if name == "__hash__" and value is None:  # what Python gives a class that defines __eq__
            continue
        if name not in ("__module__", "__dict__", "__weakref__", "__doc__", "__slots__", "__annotations__"):
            setattr(Tensor, name, value)
    return methods


def wrap(array: Any, type: TensorType, node: Node | None = None, version: Version | None = None) -> Tensor:
    """Returns a tensor over an array; nothing is checked or copied."""
    self = Tensor()
    self._array = array
    self._type = type
    self._edge = node
    self._version = version
    return self


def like(tensor: TensorBase, array: Any) -> Tensor:
    """Returns a tensor over an array, of the class and the type of another tensor."""
    self: Any = object.__new__(tensor.__class__)
    self._array = array
    self._type = tensor._type
    self._edge = None
    self._version = None
    return self  # type: ignore[no-any-return]


def attributes(tensor: TensorBase) -> dict[str, Any]:
    """Returns what the tensor of a subclass has besides a tensor's slots, in ``__dict__`` and in its own."""
    found = {
        name: getattr(tensor, name)
        for name in copyreg._slotnames(tensor.__class__)  # type: ignore[attr-defined]
        if name not in TensorBase.__slots__ and hasattr(tensor, name)
    }
    return found | getattr(tensor, "__dict__", {})


def another(tensor: TensorBase, node: Node | None = None) -> Tensor:
    """Returns another tensor over the same memory, which is no view: each sees what is written to the other.

    Example:
        >>> import tensorplay as tp
        >>> x = tp.zeros(2)
        >>> _ = another(x).add_(1)
        >>> x
        tensor([1., 1.])
    """
    other = wrap(tensor._array, tensor._type.unwrapped, node)
    alias(tensor, other)
    return other
