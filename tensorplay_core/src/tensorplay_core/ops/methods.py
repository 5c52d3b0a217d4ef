"""The methods of a tensor that are written by hand, over operators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tensorplay_core.dispatch.tensor_type import FAKE
from tensorplay_core.errors import ArgumentError, ShapeError, fix
from tensorplay_core.ops import _generated_functional as F
from tensorplay_core.ops._generated_schemas_creation import EMPTY, FULL
from tensorplay_core.ops.annotations import Number
from tensorplay_core.ops.arguments import python_scalar
from tensorplay_core.ops.comparison import allclose, equal
from tensorplay_core.ops.conversion import conj, to
from tensorplay_core.ops.creation import _rebuild, tensor
from tensorplay_core.ops.exchange import dlpack, dlpack_device
from tensorplay_core.ops.frontend import created, spread
from tensorplay_core.ops.indexing import _getitem, _setitem, nonzero
from tensorplay_core.ops.typing_rules import check_fits
from tensorplay_core.ops.uniqueness import unique, unique_consecutive
from tensorplay_core.tensor.overrides import overridable_members
from tensorplay_core.tensor.tensor import Tensor, TensorBase, attributes, bind
from tensorplay_core.types import dtype as dt
from tensorplay_core.types.dtype import DType, as_dtype


@bind
@overridable_members(
    "H",
    "T",
    "__contains__",
    "bfloat16",
    "bool",
    "contiguous",
    "cpu",
    "cuda",
    "double",
    "expand_as",
    "float",
    "half",
    "int",
    "long",
    "mH",
    "mT",
    "new_empty",
    "new_full",
    "new_ones",
    "new_tensor",
    "new_zeros",
    "reshape_as",
    "type",
    "type_as",
    "view",
    "view_as",
)
class OperatorMethods(TensorBase):
    """Bound to :class:`Tensor`; see the module."""

    to = to
    conj = conj
    allclose = allclose
    equal = equal
    __dlpack__ = dlpack
    __dlpack_device__ = dlpack_device
    __getitem__ = _getitem
    __setitem__ = _setitem
    nonzero = nonzero
    unique = unique
    unique_consecutive = unique_consecutive

    def cpu(self: Any) -> Tensor:
        """Returns the tensor on the cpu."""
        return to(self, device="cpu")

    def cuda(self: Any, device: int | None = None) -> Tensor:
        """Returns the tensor on a CUDA device."""
        return to(self, device="cuda" if device is None else f"cuda:{device}")

    def type(self: Any, dtype: DType) -> Tensor:
        """Returns the tensor in another dtype."""
        return to(self, dtype)

    def bool(self: Any) -> Tensor:
        """Returns the tensor as bool."""
        return to(self, dt.bool_)

    def int(self: Any) -> Tensor:
        """Returns the tensor as int32."""
        return to(self, dt.int32)

    def long(self: Any) -> Tensor:
        """Returns the tensor as int64."""
        return to(self, dt.int64)

    def half(self: Any) -> Tensor:
        """Returns the tensor as float16."""
        return to(self, dt.float16)

    def bfloat16(self: Any) -> Tensor:
        """Returns the tensor as bfloat16."""
        return to(self, dt.bfloat16)

    def float(self: Any) -> Tensor:
        """Returns the tensor as float32."""
        return to(self, dt.float32)

    def double(self: Any) -> Tensor:
        """Returns the tensor as float64."""
        return to(self, dt.float64)

    def contiguous(self: Any) -> Tensor:
        """Returns the tensor itself if its memory is in C order, else a copy that is."""
        return self if self.is_contiguous() else self.clone()  # type: ignore[no-any-return]

    def view(self: Any, *sizes: Any) -> Tensor:
        """Returns a view of another shape.

        Raises:
            ShapeError: the strides do not allow a view; ``reshape`` would copy.
        """
        shape = spread(sizes, None, "view")
        result = F.reshape(self, shape)
        api = self._type.api
        if self.numel() and not self.is_contiguous() and not api.may_alias(self._array, result._array):
            raise ShapeError(
                f"view: shape {self.shape} with strides {self.stride()} cannot be viewed as {result.shape}; "
                "use reshape, which copies, or contiguous() first"
            )
        return result

    def view_as(self: Any, other: Tensor) -> Tensor:
        """Returns a view of another tensor's shape."""
        return self.view(other.shape)  # type: ignore[no-any-return]

    def reshape_as(self: Any, other: Tensor) -> Tensor:
        """Returns the tensor in another one's shape."""
        return F.reshape(self, other.shape)

    def expand_as(self: Any, other: Tensor) -> Tensor:
        """Returns the tensor expanded to another one's shape."""
        return F.expand(self, other.shape)

    @property
    def T(self: Any) -> Tensor:
        """The tensor with its dims in reverse order."""
        return F.permute(self, tuple(range(self.ndim))[::-1])

    @property
    def mT(self: Any) -> Tensor:
        """The tensor with its last two dims swapped."""
        return F.transpose(self, -2, -1)

    @property
    def mH(self: Any) -> Tensor:
        """The tensor with its last two dims swapped, and conjugated."""
        return conj(F.transpose(self, -2, -1))

    @property
    def H(self: Any) -> Tensor:
        """The conjugate transpose of a matrix, or of a tensor without dims.

        Raises:
            ShapeError: the tensor has another number of dims.
        """
        if self.ndim not in (0, 2):
            remedy = fix("use mH, which takes the last two.")
            raise ShapeError(f"H: takes a matrix, and the tensor has {self.ndim} dims" + remedy)
        return conj(F.t(self))

    def new_tensor(
        self: Any, data: Any, *, dtype: DType | None = None, device: Any = None, requires_grad: Any = False
    ) -> Tensor:
        """Returns a copy of some data, in this tensor's dtype and on its device unless others are named."""
        place = self.device if device is None else device
        return tensor(data, dtype=self.dtype if dtype is None else dtype, device=place, requires_grad=requires_grad)

    def type_as(self: Any, other: Tensor) -> Tensor:
        """Returns the tensor in another one's dtype and on its device."""
        return to(self, other)

    def __contains__(self: Any, element: Any) -> Any:
        """Whether some element equals a number, or a tensor's, which broadcasts.

        Raises:
            ArgumentError: it is neither.
        """
        number = python_scalar(element)
        if number is None and not isinstance(element, TensorBase):
            raise ArgumentError(f"in: a tensor contains numbers, and {type(element).__name__} is none")
        return F.eq(self, element if number is None else number).sum().item() > 0

    def new_full(
        self: Any, size: Sequence[Any], fill_value: Number, *, dtype: DType | None = None, device: Any = None
    ) -> Tensor:
        """Returns a tensor of this one's dtype and device, filled with one number."""
        dtype = self.dtype if dtype is None else as_dtype(dtype)
        check_fits("new_full", fill_value, dtype)
        place = self.device if device is None else device
        return created(FULL, (tuple(size), fill_value), {"dtype": dtype, "device": place}, False)

    def new_empty(self: Any, *size: Any, dtype: DType | None = None, device: Any = None) -> Tensor:
        """Returns a tensor of this tensor's dtype and device whose elements are not set."""
        place = self.device if device is None else device
        settings = {"dtype": self.dtype if dtype is None else as_dtype(dtype), "device": place}
        return created(EMPTY, (tuple(spread(size, None, "new_empty")),), settings, False)

    def new_zeros(self: Any, *size: Any, dtype: DType | None = None, device: Any = None) -> Tensor:
        """Returns zeros of this tensor's dtype and device."""
        return self.new_full(spread(size, None, "new_zeros"), 0, dtype=dtype, device=device)  # type: ignore[no-any-return]

    def new_ones(self: Any, *size: Any, dtype: DType | None = None, device: Any = None) -> Tensor:
        """Returns ones of this tensor's dtype and device."""
        return self.new_full(spread(size, None, "new_ones"), 1, dtype=dtype, device=device)  # type: ignore[no-any-return]

    def __reduce_ex__(self: Any, protocol: Any) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        """Pickles the elements, dtype and device by name, and whether a leaf requires grad."""
        from tensorplay_core.errors import AutogradError, fix

        if not self.is_leaf:
            raise AutogradError(
                "only leaves can be pickled: a computed tensor has a graph" + fix("pickle its .detach().")
            )
        if self._type.wrapper == FAKE:
            from tensorplay_core.ops.subclasses import rebuilt_fake

            return rebuilt_fake, (self._array, self._type, self.requires_grad)
        host = self._array if self.is_meta else self._type.api.to_host(self._array)
        args = (host, self.dtype.name, str(self.device), self.requires_grad)
        if self.__class__ is Tensor:
            return _rebuild, args
        from tensorplay_core.ops.subclasses import rebuilt

        return rebuilt, (self.__class__, _rebuild, args, attributes(self))
