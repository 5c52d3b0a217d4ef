"""The shape rule of combining elements at the places of an index, and its checks, which Composite kernels share."""

from __future__ import annotations

from typing import Any

from tensorplay_core.errors import ArgumentError, DTypeError, ShapeError, did_you_mean, fix
from tensorplay_core.ops.shape_checks import Shape, Shaped, normalize_dim
from tensorplay_core.types.dtype import DType

REDUCTIONS = ("sum", "prod", "mean", "amax", "amin")
"""What ``scatter_reduce`` knows."""


def check_integers(op: str, name: str, dtype: DType | None) -> None:
    """Refuses an index that is not of integers.

    Raises:
        DTypeError: naming the argument and its dtype.
    """
    if dtype is not None and not dtype.is_integral:
        raise DTypeError(
            f"{op}: {name} must be of an integer dtype, not {dtype.name}" + fix(f"convert it: {name}.to(tp.int64)")
        )


def check_scatter(op: str, self: Shaped, dim: Any, index: Shaped, src: Shaped, reduce: Any) -> int:
    """Checks a call that combines elements at an index, and returns the dim counted from the front.

    Raises:
        ArgumentError: there is no such reduction.
        DTypeError: the index is not of integers, ``src`` of another dtype, or the dtype has no such reduction.
        DimError, ShapeError: the shapes do not go together.
    """
    if reduce not in REDUCTIONS:
        raise ArgumentError(
            f"{op}: reduce must be one of {', '.join(REDUCTIONS)}, not {reduce!r}."
            f"{did_you_mean(str(reduce), REDUCTIONS)}".removesuffix(".")
        )
    d = normalize_dim(op, dim, len(self.shape))
    check_integers(op, "index", index.dtype)
    if src.dtype is not self.dtype and src.dtype is not None and self.dtype is not None:
        raise DTypeError(
            f"{op}: src is {src.dtype.name}, and self {self.dtype.name}"
            + fix(f"convert it: src.to(tp.{self.dtype.name})")
        )
    if self.dtype is not None and self.dtype.is_complex and reduce in ("amax", "amin"):
        raise DTypeError(f"{op}: complex numbers have no order, and reduce is {reduce!r}" + fix("compare .abs()"))
    if self.dtype is not None and self.dtype.is_bool:
        raise DTypeError(f"{op}: combines numbers, and the tensors are bool" + fix("convert them: x.to(tp.uint8)"))
    for name, shape, free in (("self", self.shape, d), ("src", src.shape, None)):
        sizes = zip(index.shape, shape, strict=False)
        large = any(n > m for k, (n, m) in enumerate(sizes) if k != free)
        if 0 not in index.shape and (large or (len(index.shape) or 1) != (len(shape) or 1)):
            apart = "" if free is None else f" apart from dim {free}"
            raise ShapeError(
                f"{op}: index (shape {index.shape}) must have as many dims as {name} (shape {shape}) "
                f"and be no larger{apart}"
            )
    return d


def scatter_reduce(
    op: str, self: Shaped, dim: Any, index: Shaped, src: Shaped, reduce: Any, include_self: Any = True, **keywords: Any
) -> Shape:
    """The shape of ``self``."""
    check_scatter(op, self, dim, index, src, reduce)
    return self.shape
