"""Padding: constants around a copy, and parts of the tensor itself joined to it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tensorplay_composite.operators.windows import extended
from tensorplay_core.errors import ShapeError, ValueRangeError, did_you_mean, fix
from tensorplay_core.ops import _generated_functional as F
from tensorplay_core.ops import shapes_padding
from tensorplay_core.ops.shape_checks import Shaped
from tensorplay_core.ops.shapes_padding import pads_of
from tensorplay_core.tensor.tensor import Tensor

MODES = ("constant", "reflect", "replicate", "circular")


def constant_pad_nd(self: Tensor, pad: Sequence[int], value: Any = 0) -> Tensor:
    """A copy with a constant around it."""
    shapes_padding.constant_pad_nd("constant_pad_nd", Shaped(self.shape, self.dtype), pad, value)
    result = self
    for dim, (before, after) in enumerate(pads_of("constant_pad_nd", pad, self.ndim)):
        if before < 0 or after < 0:
            result = _cut(result, dim, before, after)
        result = extended(result, dim, before, after, value)
    return result.contiguous() if max(pad, default=0) > 0 else result.clone()


def pad(self: Tensor, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> Tensor:
    """More elements around a tensor, by one of four modes."""
    if mode not in MODES:
        raise ValueRangeError(f"pad: Unrecognised padding mode {mode!r}.{did_you_mean(str(mode), MODES)}")
    if mode == "constant":
        filler: Any = 0 if value is None else value
        if not self.dtype.is_inexact and isinstance(filler, float) and filler.is_integer():
            filler = bool(filler) if self.dtype.is_bool else int(filler)  # the signature makes every number a float
        return F.constant_pad_nd(self, pad, filler)
    if value:
        raise ValueRangeError(f"pad: Padding mode {mode!r} doesn't take in value argument" + fix("leave it out"))
    pads = pads_of("pad", pad, self.ndim, _padded_dims(self, pad, mode))
    shapes_padding.padded_shape("pad", self.shape, pads)
    for dim, (before, after) in enumerate(pads):
        if before or after:
            _check_source(mode, self, dim, before, after)
            self = _PARTS[mode](self, dim, before, after)
    return self


def _padded_dims(self: Tensor, pad: Sequence[int], mode: str) -> int:
    """Returns how many dims a mode pads: the last one to three, behind channels and perhaps a batch."""
    dims = len(pad) // 2
    if dims not in (1, 2, 3) or self.ndim not in (dims + 1, dims + 2):
        raise ShapeError(
            f"pad: mode {mode!r} pads the last one, two or three dims of a tensor (C, *sizes) or (N, C, *sizes), and "
            f"pad {tuple(pad)} has {dims} pairs for a tensor of shape {self.shape}"
            + fix("reshape or unsqueeze the tensor so that one or two dims stand before those that are padded")
        )
    return dims


def _check_source(mode: str, self: Tensor, dim: int, before: int, after: int) -> None:
    size = self.shape[dim]
    if mode == "circular":  # what is left after cutting goes round
        size += min(before, 0) + min(after, 0)
    most = {"reflect": size - 1, "circular": size}.get(mode)
    wanted = max(before, after)
    if wanted > 0 and (size == 0 or (most is not None and wanted > most)):
        what = "an empty dim has nothing to pad with" if size == 0 else f"the most is {most}"
        limit = {"reflect": "less than the corresponding input dimension", "circular": "no more than it"}.get(mode, "")
        raise ShapeError(
            f"pad: mode {mode!r} cannot pad dim {dim} of size {size} by {before, after}: {what}"
            + (f"; the padding size should be {limit}" if limit else "")
        )


def _joined(self: Tensor, dim: int, parts: Sequence[Tensor]) -> Tensor:
    parts = [part for part in parts if part.shape[dim]]
    return parts[0] if len(parts) == 1 else F.cat(parts, dim) if parts else F.slice(self, dim, 0, 0)


def _cut(self: Tensor, dim: int, before: int, after: int) -> Tensor:
    """Returns the tensor without what negative paddings cut off."""
    return F.slice(self, dim, max(-before, 0), self.shape[dim] - max(-after, 0))


def _circular(self: Tensor, dim: int, before: int, after: int) -> Tensor:
    self = _cut(self, dim, before, after)
    size = self.shape[dim]
    return _joined(
        self, dim, [F.slice(self, dim, size - max(before, 0), size), self, F.slice(self, dim, 0, max(after, 0))]
    )


def _replicate(self: Tensor, dim: int, before: int, after: int) -> Tensor:
    def repeated(start: int, count: int) -> Tensor:
        one = F.slice(self, dim, start, start + 1)
        return one.expand([count if d == dim else n for d, n in enumerate(one.shape)])

    size = self.shape[dim]
    parts = [repeated(0, before)] if before > 0 else []
    parts.append(_cut(self, dim, before, after))
    return _joined(self, dim, [*parts, *([repeated(size - 1, after)] if after > 0 else [])])


def _reflect(self: Tensor, dim: int, before: int, after: int) -> Tensor:
    size = self.shape[dim]
    parts = [F.slice(self, dim, 1, before + 1).flip(dim)] if before > 0 else []
    parts.append(_cut(self, dim, before, after))
    parts += [F.slice(self, dim, size - 1 - after, size - 1).flip(dim)] if after > 0 else []
    return _joined(self, dim, parts)


_PARTS: dict[str, Callable[[Tensor, int, int, int], Tensor]] = {
    "circular": _circular,
    "reflect": _reflect,
    "replicate": _replicate,
}

KERNELS: dict[str, Callable[..., Any]] = {"constant_pad_nd": constant_pad_nd, "pad": pad}
"""Name in the contract to Composite kernel."""
