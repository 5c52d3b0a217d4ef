"""The dtypes of TensorPlay, as interned objects that no array library defines.

Code compares dtypes with ``is``; a backend's device API maps a dtype's name to its native counterpart. Pickling a dtype
gives back the same object, so identity survives a process boundary.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from tensorplay_core.errors import ArgumentError, did_you_mean


class DType:
    """An element type.

    Attributes:
        name: the standard's name, such as ``"float32"``.
        itemsize: bytes per element.
        kind: ``"b"`` bool, ``"u"`` unsigned, ``"i"`` signed integer, ``"f"`` floating, ``"c"`` complex.

    Example:
        >>> from tensorplay_core.types.dtype import float32, complex64
        >>> float32.is_floating_point, float32.itemsize, complex64.real_dtype
        (True, 4, tensorplay.float32)
    """

    __slots__ = (
        "__weakref__",
        "is_complex",
        "is_floating_point",
        "is_integral",
        "is_signed",
        "itemsize",
        "kind",
        "name",
    )
    _interned: ClassVar[dict[str, DType]] = {}

    name: str
    itemsize: int
    kind: str
    is_floating_point: bool
    is_complex: bool
    is_integral: bool
    is_signed: bool

    def __new__(cls, name: str, itemsize: int, kind: str) -> DType:
        """Returns the one dtype of that name."""
        if (known := cls._interned.get(name)) is not None:
            return known
        self = super().__new__(cls)
        self.name, self.itemsize, self.kind = name, itemsize, kind
        self.is_floating_point = kind == "f"
        self.is_complex = kind == "c"
        self.is_integral = kind in "ui"
        self.is_signed = kind in "ifc"
        cls._interned[name] = self
        return self

    @property
    def is_bool(self) -> bool:
        """Whether this is the bool dtype."""
        return self.kind == "b"

    @property
    def is_inexact(self) -> bool:
        """Whether a gradient can have this dtype: floating or complex."""
        return self.kind in "fc"

    @property
    def real_dtype(self) -> DType:
        """The dtype of a complex dtype's parts; any other dtype is its own."""
        return {"complex64": float32, "complex128": float64}.get(self.name, self)

    def __repr__(self) -> str:
        """Returns ``tensorplay.<name>``."""
        return f"tensorplay.{self.name}"

    def __reduce__(self) -> tuple[Callable[[str], DType], tuple[str]]:
        """Pickles by name."""
        return by_name, (self.name,)


bool_ = DType("bool", 1, "b")
uint8 = DType("uint8", 1, "u")
uint16 = DType("uint16", 2, "u")
uint32 = DType("uint32", 4, "u")
uint64 = DType("uint64", 8, "u")
int8 = DType("int8", 1, "i")
int16 = DType("int16", 2, "i")
int32 = DType("int32", 4, "i")
int64 = DType("int64", 8, "i")
float16 = DType("float16", 2, "f")
bfloat16 = DType("bfloat16", 2, "f")
float32 = DType("float32", 4, "f")
float64 = DType("float64", 8, "f")
complex64 = DType("complex64", 8, "c")
complex128 = DType("complex128", 16, "c")

ALL: tuple[DType, ...] = tuple(DType._interned.values())
ALIASES: dict[str, DType] = {
    "half": float16,
    "float": float32,
    "double": float64,
    "short": int16,
    "int": int32,
    "long": int64,
    "cfloat": complex64,
    "cdouble": complex128,
}


def by_name(name: str) -> DType:
    """Returns the dtype called ``name``.

    Raises:
        ArgumentError: there is no such dtype; the message offers the nearest names.

    Example:
        >>> by_name("float32")
        tensorplay.float32
    """
    try:
        return DType._interned[name]
    except KeyError:
        raise ArgumentError(f"there is no dtype {name!r}.{did_you_mean(name, DType._interned)}") from None


_C_NAMES = {"byte": uint8, "char": int8, "short": int16, "int": int32, "long": int64}
_C_NAMES |= {"half": float16, "float": float32, "double": float64}


def in_schema(name: str) -> DType:
    """Returns the dtype that a default in a signature means, by our name or by C's, as PyTorch's signatures have it.

    Raises:
        ArgumentError: there is no such dtype.

    Example:
        >>> in_schema("long"), in_schema("int64")
        (tensorplay.int64, tensorplay.int64)
    """
    return _C_NAMES.get(name) or by_name(name)


def as_dtype(value: Any) -> DType:
    """Returns the dtype that ``value`` means: a dtype, or Python's ``bool``, ``int``, ``float``, ``complex``.

    Raises:
        ArgumentError: the value is no dtype; a NumPy dtype is answered with the name to write instead.
    """
    if value.__class__ is DType:
        return value
    python = {bool: bool_, int: int64, float: float32, complex: complex64}
    if isinstance(value, type) and value in python:
        return python[value]
    hint = str(getattr(value, "name", None) or getattr(value, "__name__", value))
    known = f" Write tp.{hint}." if hint in DType._interned else did_you_mean(hint, DType._interned)
    raise ArgumentError(f"dtype must be a tensorplay dtype, not {value!r} ({type(value).__name__}).{known}")


class _Default:
    dtype: DType = float32


def get_default_dtype() -> DType:
    """Returns the dtype that Python floats and float-valued functions take; float32 unless changed."""
    return _Default.dtype
