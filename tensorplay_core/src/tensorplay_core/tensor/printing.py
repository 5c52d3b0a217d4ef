"""How a tensor prints: PyTorch's format, made from nested Python lists, so that it is the same on every backend.

Only the elements that are shown are fetched: a tensor of a billion elements on a device costs the transfer of its
corners. Widths, the choice between fixed and scientific notation and line breaks follow torch/_tensor_str.py (PyTorch
2.13), so that a printed session reads the same in both.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from tensorplay_core.errors import ArgumentError, ValueRangeError, did_you_mean
from tensorplay_core.types import dtype as dtypes
from tensorplay_core.types.dtype import DType


class PrintOptions(NamedTuple):
    """What :func:`set_printoptions` sets."""

    precision: int = 4
    threshold: float = 1000
    edgeitems: int = 3
    linewidth: int = 80
    sci_mode: bool | None = None


_PROFILES = {
    "default": PrintOptions(),
    "short": PrintOptions(precision=2, edgeitems=2),
    "full": PrintOptions(threshold=math.inf),
}


class _State:
    options = PrintOptions()


def set_printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> None:
    """Sets how tensors print; what is None stays as it is.

    Args:
        precision: digits behind the point.
        threshold: a tensor of more elements is summarised; ``math.inf`` shows all of it.
        edgeitems: how many elements a summary shows at each end of a dim.
        linewidth: characters to a line.
        profile: ``"default"``, ``"short"`` or ``"full"``, applied before the other arguments.
        sci_mode: True or False forces scientific notation on or off; None, also when left out, lets the values decide.

    Raises:
        ArgumentError: an argument of the wrong type.
        ValueRangeError: an unknown profile, or a number out of range.

    Example:
        >>> set_printoptions(precision=2)
        >>> get_printoptions()["precision"]
        2
        >>> set_printoptions(profile="default")
    """
    options = _State.options._asdict()
    if profile is not None:
        if profile not in _PROFILES:
            known = ", ".join(map(repr, _PROFILES))
            raise ValueRangeError(
                f"set_printoptions: profile {profile!r} is not one of {known}.{did_you_mean(str(profile), _PROFILES)}"
            )
        options = _PROFILES[profile]._asdict()
    given = {
        "precision": precision,
        "threshold": threshold,
        "edgeitems": edgeitems,
        "linewidth": linewidth,
    }
    for name, value in given.items():
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, (int, float) if name == "threshold" else int):
            raise ArgumentError(f"set_printoptions: {name} must be an int, not {value!r} ({type(value).__name__})")
        least = 1 if name == "linewidth" else 0
        if not value >= least:
            raise ValueRangeError(f"set_printoptions: {name} must be at least {least}, but is {value}")
        options[name] = value
    if sci_mode is not None and not isinstance(sci_mode, bool):
        raise ArgumentError(f"set_printoptions: sci_mode must be True, False or None, not {sci_mode!r}")
    options["sci_mode"] = sci_mode
    _State.options = PrintOptions(**options)


def get_printoptions() -> dict[str, Any]:
    """Returns the options as keyword arguments for :func:`set_printoptions`."""
    return _State.options._asdict()


@contextmanager
def printoptions(**options: Any) -> Iterator[None]:
    """Sets options for a ``with`` block; takes the arguments of :func:`set_printoptions`."""
    before = _State.options
    set_printoptions(**options)
    try:
        yield
    finally:
        _State.options = before


def format_tensor(
    fetch: Callable[[tuple[slice, ...]], Any],
    *,
    shape: Sequence[int],
    dtype: DType,
    device: str | None = None,
    requires_grad: bool = False,
    grad_fn: str | None = None,
    tangent: str | None = None,
    prefix: str = "tensor(",
    has_data: bool = True,
) -> str:
    """Returns a tensor's repr.

    Args:
        fetch: called with one slice for each dim; returns those elements as nested lists, or a Python scalar when the
            tensor is 0-d. It is called once unless the tensor is summarised, and never for an empty tensor.
        shape: the tensor's shape.
        dtype: its dtype; shown unless it is what ``tensor()`` would give.
        device: its name; None and ``"cpu"`` are not shown.
        requires_grad: whether it is a leaf that collects a gradient.
        grad_fn: the name of its node, such as ``"AddBackward"``, with or without ``<>``.
        tangent: the repr of its tangent in an open dual level.
        prefix: how the text begins; a subclass gives its own name.
        has_data: False for a meta tensor: nothing is fetched, and size and dtype are always shown.

    Example:
        >>> rows = [[1.0, 2.0], [3.0, 4.5]]
        >>> print(format_tensor(lambda slices: rows, shape=(2, 2), dtype=dtypes.float32, grad_fn="AddBackward"))
        tensor([[1.0000, 2.0000],
                [3.0000, 4.5000]], grad_fn=<AddBackward>)
    """
    options = _State.options
    shape = tuple(shape)
    default = dtypes.get_default_dtype()
    empty = 0 in shape
    suffixes = []
    if device is not None and device != "cpu":
        suffixes.append(f"device={device!r}")
    if not has_data or (empty and len(shape) != 1) or not (empty or options.edgeitems):
        suffixes.append(f"size={shape}")
    default_complex = dtypes.complex128 if default is dtypes.float64 else dtypes.complex64
    implied = (default_complex, dtypes.int64, dtypes.bool_)  # by the elements, where some are shown
    if dtype is not default and (not has_data or empty or dtype not in implied):
        suffixes.append(f"dtype={dtype!r}")
    if grad_fn is not None:
        suffixes.append(f"grad_fn=<{grad_fn.strip('<>')}>")
    elif requires_grad:
        suffixes.append("requires_grad=True")
    if tangent is not None:
        suffixes.append(f"tangent={tangent}")
    body = "..." if not has_data else "[]" if empty else _body(fetch, shape, dtype, len(prefix), options)
    return _join(prefix + body, suffixes, len(prefix), options)


def _join(text: str, suffixes: list[str], indent: int, options: PrintOptions) -> str:
    """Appends the suffixes, each on a new line where it would pass the line's end."""
    length = len(text) - text.rfind("\n") + 1
    for suffix in suffixes:
        if length + len(suffix) + 2 > options.linewidth:
            text += ",\n" + " " * indent + suffix
            length = indent + len(suffix)
        else:
            text += ", " + suffix
            length += len(suffix) + 2
    return text + ")"


def _body(fetch: Callable[..., Any], shape: tuple[int, ...], dtype: DType, indent: int, options: PrintOptions) -> str:
    summarise = math.prod(shape) > options.threshold
    if summarise and not options.edgeitems:
        return "[...]"
    cut = tuple(summarise and size > 2 * options.edgeitems for size in shape)
    data = _corners(fetch, cut, options.edgeitems)
    values = list(_flatten(data, len(shape)))
    if dtype.is_complex:
        real = _Style([value.real for value in values], True, options)
        imag = _Style([value.imag for value in values], True, options)
        return _render(data, cut, indent, _ComplexStyle(real, imag), options)
    return _render(data, cut, indent, _Style(values, dtype.is_floating_point, options), options)


def _corners(fetch: Callable[..., Any], cut: tuple[bool, ...], edge: int) -> Any:
    """Fetches the elements to show: both ends of each dim that is cut, joined into one nested list."""
    ends = (slice(None, edge), slice(-edge, None))
    parts = (fetch(key) for key in itertools.product(*[ends if one else (slice(None),) for one in cut]))
    return _assemble(parts, cut, 0)


def _assemble(parts: Iterator[Any], cut: tuple[bool, ...], axis: int) -> Any:
    if axis == len(cut):
        return next(parts)
    first = _assemble(parts, cut, axis + 1)
    return _concatenate(first, _assemble(parts, cut, axis + 1), axis) if cut[axis] else first


def _concatenate(a: list[Any], b: list[Any], axis: int) -> list[Any]:
    return a + b if axis == 0 else [_concatenate(x, y, axis - 1) for x, y in zip(a, b, strict=True)]


def _flatten(data: Any, ndim: int) -> Iterator[Any]:
    if ndim == 0:
        yield data
    elif ndim == 1:
        yield from data
    else:
        for item in data:
            yield from _flatten(item, ndim - 1)


class _Style:
    """One notation and one width for all elements that are shown."""

    def __init__(self, values: list[Any], floating: bool, options: PrintOptions) -> None:
        self.spec: str | None = None  # integers and bools print as Python prints them
        self.point = False
        self.width = 1
        if not floating:
            self.width = max(1, *(len(str(value)) for value in values)) if values else 1
            return
        self.spec, self.point = ".0f", True
        finite = [value for value in values if value and math.isfinite(value)]
        if not finite:
            return
        low, high = min(map(abs, finite)), max(map(abs, finite))
        scientific = options.sci_mode
        if scientific is None:
            scientific = high / low > 1000.0 or high > 1.0e8 or low < 1.0e-4
        if scientific:
            self.spec, self.point = f".{options.precision}e", False
        elif any(value != math.floor(value) for value in finite):
            self.spec, self.point = f".{options.precision}f", False
        self.width = max(1, *(len(self._number(value)) for value in finite))

    def _number(self, value: Any) -> str:
        if self.spec is None:
            return str(value)
        text = format(value, self.spec)
        return text + "." if self.point and math.isfinite(value) else text

    def text(self, value: Any) -> str:
        """The element, padded on the left to the common width."""
        return self._number(value).rjust(self.width)


class _ComplexStyle:
    """A style for the real and another for the imaginary parts."""

    def __init__(self, real: _Style, imag: _Style) -> None:
        self.real, self.imag = real, imag
        self.width = real.width + imag.width + 1

    def text(self, value: complex) -> str:
        """``1.+2.j``; the imaginary part is not padded, as in PyTorch."""
        imag = self.imag.text(value.imag).lstrip() + "j"
        return self.real.text(value.real) + (imag if imag[0] in "+-" else "+" + imag)


def _render(data: Any, cut: tuple[bool, ...], indent: int, style: _Style | _ComplexStyle, options: PrintOptions) -> str:
    if not cut:
        return style.text(data)
    edge = options.edgeitems
    if len(cut) == 1:
        items = [style.text(value) for value in data]
        if cut[0]:
            items[edge:edge] = [" ..."]
        per_line = max(1, (options.linewidth - indent) // (style.width + 2))
        lines = [", ".join(items[i : i + per_line]) for i in range(0, len(items), per_line)]
        return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"
    blocks = [_render(item, cut[1:], indent + 1, style, options) for item in data]
    if cut[0]:
        blocks[edge:edge] = ["..."]
    return "[" + ("," + "\n" * (len(cut) - 1) + " " * (indent + 1)).join(blocks) + "]"
