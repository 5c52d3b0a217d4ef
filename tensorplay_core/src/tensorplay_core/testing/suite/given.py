"""Inputs of a call, described so that the suite can make them, hand them to a reference and print them.

A description holds the elements as the dtype holds them, so the reference computes from the very numbers that the
kernel sees; what is made on the device keeps its whole memory at hand, so a write between the elements is found too.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

from tensorplay_core.dispatch.devices import UNNUMBERED, normalize
from tensorplay_core.dispatch.tensor_type import intern
from tensorplay_core.tensor.tensor import wrap
from tensorplay_core.testing.references.array import Array
from tensorplay_core.testing.references.rounding import round_to
from tensorplay_core.testing.sample_specs import PYTHON, Named, TensorSpec
from tensorplay_core.types.device import Device
from tensorplay_core.types.dtype import by_name

LAYOUTS = ("c", "strided", "transposed", "inner")
"""How tensors lie in memory: in C order, every second row, in Fortran's order, every second column."""
FILLER = 77
"""What lies between the elements of a tensor that is not contiguous."""
DIRECT = 5000
"""Tensors of more elements are made through the device's API."""


class Given(NamedTuple):
    """A tensor to be made.

    Attributes:
        shape: its shape.
        data: its elements in C order, as the dtype holds them.
        dtype: the dtype's name.
        layout: one of ``LAYOUTS``, or ``"expanded"``: stride 0 in dim 0.
        period: the elements repeat after so many, which is how large ones are written down; 0 where they do not.
        spelled: an expression for the list of elements, where there is a shorter one.
    """

    shape: tuple[int, ...]
    data: list[Any]
    dtype: str
    layout: str = "c"
    period: int = 0
    spelled: str = ""

    @classmethod
    def of(cls, spec: TensorSpec) -> Given:
        """Returns the same as a sample's description says."""
        return cls(spec.shape, round_to(_flat(spec.data), spec.dtype), spec.dtype, spec.layout)

    @property
    def array(self) -> Array:
        """The tensor as a reference takes it."""
        return Array(self.shape, self.data, self.dtype)

    @property
    def plain(self) -> bool:
        """Whether it lies in C order: because it is said to, or because there is nothing to lie in another."""
        lacks = {"strided": 1, "expanded": 1, "transposed": 2, "inner": 1}.get(self.layout, 0) > len(self.shape)
        return self.layout == "c" or lacks or 0 in self.shape

    def build(self, tp: Any, device: str) -> tuple[Any, Any]:
        """Makes the tensor.

        Returns:
            The tensor, and the tensor whose memory it lies in: itself where it is contiguous.
        """

        def tensor(data: Any) -> Any:
            if len(self.data) > DIRECT:  # tp.tensor looks at each number, which takes longer than the rest of the check
                type = intern(normalize(Device(device)), by_name(self.dtype))
                return wrap(type.api.from_list(data, type.native), type)
            return tp.tensor(data, dtype=getattr(tp, self.dtype), device=device)

        if 0 in self.shape:  # nested lists cannot say (0, 3)
            empty = tp.zeros(self.shape, dtype=getattr(tp, self.dtype), device=device)
            return empty, empty
        if self.plain:
            made = tensor(nest(self.data, self.shape))
            return made, made
        base = tensor(self._memory())
        return _taken(base, self), base

    def _memory(self) -> Any:
        """Returns the nested lists of the memory that the tensor is taken from."""
        shape, filler = self.shape, PYTHON.get(by_name(self.dtype).kind, int)(FILLER)
        rows = nest(self.data, shape)
        if self.layout == "expanded":
            return rows[:1]
        if self.layout == "strided":
            between = nest([filler] * math.prod(shape[1:]), shape[1:])
            return [row for item in rows for row in (item, between)]
        if self.layout == "transposed":
            moved = nest(_transposed(self.data, shape), (shape[1], shape[0], *shape[2:]))
            return moved
        spaced = [x for value in self.data for x in (value, filler)]
        return nest(spaced, (*shape[:-1], 2 * shape[-1]))

    def text(self, device: str) -> str:
        """Returns the Python expression that makes the tensor."""
        tail = f', dtype=tp.{self.dtype}, device="{device}")'
        if 0 in self.shape:
            return f"tp.zeros({self.shape}{tail}"
        if self.period or self.spelled:
            count = len(self.data)
            repeated = f"({literal(self.data[: self.period])} * {count // (self.period or 1) + 1})[:{count}]"
            made = f"tp.tensor({self.spelled or repeated}{tail}"
            if len(self.shape) > 1:
                made += f".reshape({self.shape})"
            return made if self.plain else _as_laid(made, self.layout)
        return f"tp.tensor({literal(nest(self.data, self.shape) if self.plain else self._memory())}{tail}" + self._taken

    @property
    def _taken(self) -> str:
        if self.plain:
            return ""
        return {
            "expanded": f".expand({self.shape})",
            "strided": "[::2]",
            "transposed": ".transpose(0, 1)",
            "inner": "[..., ::2]",
        }[self.layout]


def _taken(base: Any, given: Given) -> Any:
    if given.layout == "expanded":
        return base.expand(given.shape)
    if given.layout == "strided":
        return base[::2]
    return base.transpose(0, 1) if given.layout == "transposed" else base[..., ::2]


def _as_laid(made: str, layout: str) -> str:
    """Returns the expression for a large tensor that is copied into another layout."""
    if layout == "transposed":
        return f"{made}.transpose(0, 1).clone().transpose(0, 1)"
    if layout == "strided":
        return f"tp.cat([{made}[:, None]] * 2, 1).flatten(0, 1)[::2]"
    return f"tp.cat([{made}[..., None]] * 2, -1).flatten(-2)[..., ::2]"


def _transposed(data: list[Any], shape: tuple[int, ...]) -> list[Any]:
    """Returns elements with the first two dims exchanged."""
    inner = math.prod(shape[2:])
    return [
        data[(i * shape[1] + j) * inner + k] for j in range(shape[1]) for i in range(shape[0]) for k in range(inner)
    ]


def nest(values: list[Any], shape: tuple[int, ...]) -> Any:
    """Returns elements as nested lists of a shape without a 0.

    Example:
        >>> nest([1, 2, 3, 4], (2, 2))
        [[1, 2], [3, 4]]
    """
    if not shape:
        return values[0]
    for size in shape[:0:-1]:
        values = [values[i : i + size] for i in range(0, len(values), size)]
    return values


def _flat(data: Any) -> list[Any]:
    return [x for item in data for x in _flat(item)] if isinstance(data, list) else [data]


def literal(value: Any) -> str:
    """Returns a Python expression for numbers and lists of them, with ``inf`` and ``nan`` by name.

    Example:
        >>> literal([1.5, float("nan"), complex(0, float("-inf"))])
        '[1.5, nan, complex(0.0, -inf)]'
    """
    if isinstance(value, (list, tuple)):
        items = ", ".join(map(literal, value))
        if isinstance(value, list):
            return f"[{items}]"
        return f"({items},)" if len(value) == 1 else f"({items})"
    if value.__class__ is complex and not (math.isfinite(value.real) and math.isfinite(value.imag)):
        return f"complex({value.real!r}, {value.imag!r})"
    return repr(value)


def tensors_of(values: Any) -> Iterator[Given]:
    """Yields the descriptions of tensors among arguments, those in lists too."""
    for value in values:
        if isinstance(value, Given):
            yield value
        elif value.__class__ in (list, tuple):
            yield from tensors_of(value)


def described(value: Any) -> Any:
    """Returns a sample's argument with each TensorSpec as a :class:`Given`."""
    if isinstance(value, TensorSpec):
        return Given.of(value)
    return [described(item) for item in value] if isinstance(value, list) else value


def mapped(value: Any, function: Any) -> Any:
    """Returns an argument with a function applied to each description of a tensor in it."""
    if isinstance(value, Given):
        return function(value)
    return [mapped(item, function) for item in value] if isinstance(value, list) else value


def for_reference(value: Any) -> Any:
    """Returns an argument as a reference takes it: arrays for tensors, names for dtypes, None for a device."""
    if isinstance(value, Given):
        return value.array
    if isinstance(value, Named):
        return value.name if value.kind == "dtype" else None
    return [for_reference(item) for item in value] if isinstance(value, list) else value


def place(device: str) -> str:
    """Returns how a tensor's ``device`` reads: with an index, except for cpu and meta."""
    return device if device in UNNUMBERED or ":" in device else f"{device}:0"
