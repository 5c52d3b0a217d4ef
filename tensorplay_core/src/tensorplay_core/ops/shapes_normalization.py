"""The shape rules of normalisation: which dims are averaged over, and what scales and shifts the result."""

from __future__ import annotations

from typing import Any

from tensorplay_core.errors import DTypeError, ShapeError, fix
from tensorplay_core.ops.shape_checks import (
    Shape,
    Shaped,
    as_sizes,
    check_broadcasts_to,
    normalize_dims,
)


def _statistics(op: str, input: Shaped, dim: Any) -> Shape:
    """The shape of a mean over ``dim`` that keeps the dims."""
    if input.dtype is not None and not input.dtype.is_floating_point:
        raise DTypeError(f"{op}: takes floating dtypes, not {input.dtype.name}" + fix("convert with .to(tp.float32)."))
    dims = normalize_dims(op, dim, len(input.shape))
    if not dims:
        raise ShapeError(f"{op}: dim is empty, so there is nothing to average over" + fix("name at least one dim."))
    return tuple(1 if d in dims else size for d, size in enumerate(input.shape))


def standardize(
    op: str, input: Shaped, weight: Shaped | None, bias: Shaped | None, dim: Any, eps: Any
) -> tuple[Shape, ...]:
    """The shape of the input, and twice that of the statistics; weight and bias broadcast to the input."""
    kept = _statistics(op, input, dim)
    for name, one in (("weight", weight), ("bias", bias)):
        if one is not None:
            check_broadcasts_to(op, name, one.shape, input.shape, "the input")
    if weight is not None and bias is not None and weight.shape != bias.shape:
        raise ShapeError(f"{op}: weight has shape {weight.shape}, and bias {bias.shape}; they must be of one shape")
    return input.shape, kept, kept


def standardize_backward(
    op: str,
    grad_out: Shaped,
    input: Shaped,
    mean: Shaped,
    var: Shaped,
    weight: Shaped | None,
    dim: Any,
    affine: Any,
    eps: Any,
    output_mask: Any,
) -> tuple[Shape, ...]:
    """The shapes of the input and, twice, of ``affine``; (0,) for what the mask leaves out."""
    kept = _statistics(op, input, dim)
    if grad_out.shape != input.shape:
        raise ShapeError(f"{op}: grad_out has shape {grad_out.shape}, and input {input.shape}")
    for name, one in (("mean", mean), ("var", var)):
        if one.shape != kept:
            raise ShapeError(f"{op}: {name} has shape {one.shape}, and statistics over dim {dim} have {kept}")
    sizes = as_sizes(op, affine, name="affine")
    check_broadcasts_to(op, "affine", sizes, input.shape, "the input")
    if weight is not None and weight.shape != sizes:
        raise ShapeError(f"{op}: weight has shape {weight.shape}, and affine is {sizes}")
    shapes = (input.shape, sizes, sizes)
    return tuple(shape if wanted else (0,) for shape, wanted in zip(shapes, output_mask, strict=True))
