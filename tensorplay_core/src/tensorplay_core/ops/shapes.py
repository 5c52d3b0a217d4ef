"""Shape rules: what shape an operator's result has, and the error a user reads when there is none.

A contract record names its rule (``shape: broadcast``). The slow path asks the rule before a kernel runs, so that bad
shapes, dims and sizes raise before anything is written; Meta kernels and the message of a failed fast call come from
the same function. A rule takes the operator's name and the call's arguments in schema order, each tensor replaced by a
:class:`Shaped`, and returns the shape of the result, a tuple of shapes for several results, or None where the shape
depends on data.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tensorplay_core.errors import ArgumentError, DimError, ShapeError, fix
from tensorplay_core.ops.shape_checks import (
    Shape,
    Shaped,
    SizeError,
    as_int,
    as_ints,
    as_sizes,
    base_name,
    broadcast_shapes,
    check_shape,
    check_write,
    normalize_dim,
    normalize_dims,
    shape_of,
)
from tensorplay_core.ops.shapes_arrange import (
    repeat_interleave,
    roll,
    unfold,
)
from tensorplay_core.ops.shapes_attention import (
    attention,
    attention_backward,
    embedding,
    embedding_backward,
)
from tensorplay_core.ops.shapes_convolution import (
    convolution,
    convolution_backward,
)
from tensorplay_core.ops.shapes_creation import (
    linspace,
    triangle,
)
from tensorplay_core.ops.shapes_distance import (
    cdist,
    cdist_backward,
)
from tensorplay_core.ops.shapes_dropout import (
    dropout,
    dropout_backward,
)
from tensorplay_core.ops.shapes_factorization import (
    cholesky_ex,
    eigh,
    eigvalsh,
    of_square,
    qr,
    slogdet,
    solve,
    solve_triangular,
    square,
    svd,
    svdvals,
    transposed,
)
from tensorplay_core.ops.shapes_indexing import (
    cat,
    index,
    index_put,
    input_sizes,
    select,
    slice,
    unknown,
)
from tensorplay_core.ops.shapes_linalg import (
    addmm,
    addmv,
    baddbmm,
    bmm,
    dot,
    matrices,
    mm,
    mv,
    outer,
)
from tensorplay_core.ops.shapes_loss import (
    cross_entropy_rows,
    cross_entropy_rows_backward,
)
from tensorplay_core.ops.shapes_normalization import (
    standardize,
    standardize_backward,
)
from tensorplay_core.ops.shapes_padding import (
    col2im,
    constant_pad_nd,
    im2col,
)
from tensorplay_core.ops.shapes_pointwise import (
    bitwise,
    celu,
    clamp,
    gelu,
    glu,
    hardtanh,
    prelu,
    shrink,
)
from tensorplay_core.ops.shapes_pooling import (
    avg_pool,
    avg_pool_backward,
    max_pool,
    max_pool_with_indices,
    pool_backward,
)
from tensorplay_core.ops.shapes_random import (
    bernoulli,
    draw,
    multinomial,
    normal,
    normal_sized,
    randint,
)
from tensorplay_core.ops.shapes_reduction import (
    bincount,
    norm,
    searchsorted,
    topk,
)
from tensorplay_core.ops.shapes_scatter import (
    scatter_reduce,
)
from tensorplay_core.ops.shapes_view import (
    as_strided,
    as_strided_scatter,
    diagonal,
    diagonal_scatter,
    flip,
    select_scatter,
    slice_scatter,
    split_with_sizes,
    unbind,
)
from tensorplay_core.ops.typing_rules import check_fits

__all__ = [
    "RULES",
    "Shape",
    "Shaped",
    "SizeError",
    "as_int",
    "as_ints",
    "as_sizes",
    "broadcast_shapes",
    "check_shape",
    "check_write",
    "normalize_dim",
    "normalize_dims",
]

# A reduction of no elements has no value here, where a sum has 0 and a mean has NaN.
_WITHOUT_IDENTITY = frozenset({"max", "min", "argmax", "argmin", "amax", "amin", "aminmax", "median", "mode"})

_LITERAL = frozenset({"any", "all"})


# ------------------------------------------------------------------------------------------------------------ pointwise


def same(op: str, self: Shaped, *rest: Any, **keywords: Any) -> Shape:
    """The shape of ``self``."""
    return self.shape


def broadcast(op: str, *tensors: Any, **keywords: Any) -> Shape:
    """The shape that all tensors broadcast to; an in-place form (``add_``) must leave ``self``'s shape as it is."""
    shapes = [shape_of(one) for one in tensors if one is not None]
    if base_name(op).endswith("_"):
        target = shapes[0]
        for source in shapes[1:]:
            check_write(op, source, target)
        return target
    return broadcast_shapes(op, *shapes)


def write(op: str, self: Shaped, *sources: Any, **keywords: Any) -> Shape:
    """The shape of ``self``, which is written to; sources must broadcast to it, and numbers fit its dtype."""
    for source in sources:
        if isinstance(source, Shaped):
            check_write(op, source.shape, self.shape)
        elif self.dtype is not None:
            check_fits(op, source, self.dtype)
    return self.shape


def dimwise(op: str, self: Shaped, dim: Any = -1, *rest: Any, **keywords: Any) -> Shape:
    """The shape of ``self``; the operator works along ``dim``."""
    normalize_dim(op, dim, len(self.shape))
    return self.shape


# ----------------------------------------------------------------------------------------------------------- reductions


def reduction(op: str, self: Shaped, dim: Any = None, keepdim: bool = False, **keywords: Any) -> Shape:
    """Without the dims that are reduced, or with 1 in their place; all dims when ``dim`` is None or empty.

    ``any`` and ``all`` take an empty ``dim`` for what it says, as in PyTorch.
    """
    shape = self.shape
    whole = dim is None or (isinstance(dim, (tuple, list)) and not dim and base_name(op) not in _LITERAL)
    dims = tuple(range(len(shape))) if whole else normalize_dims(op, dim, len(shape))
    if 0 in shape and base_name(op) in _WITHOUT_IDENTITY:
        _check_not_empty(op, shape, dims, whole)
    if keepdim:
        return tuple(1 if d in dims else size for d, size in enumerate(shape))
    return tuple(size for d, size in enumerate(shape) if d not in dims)


def max_dim(op: str, self: Shaped, dim: Any, keepdim: bool = False, **keywords: Any) -> tuple[Shape, Shape]:
    """Values and indices of a reduction along one dim."""
    one = normalize_dim(op, dim, len(self.shape))
    result = reduction(op, self, one, keepdim)
    return result, result


def _check_not_empty(op: str, shape: Shape, dims: tuple[int, ...], whole: bool) -> None:
    for d in dims:
        if shape[d] == 0:
            others = [k for k, size in enumerate(shape) if size]
            remedy = f"reduce a dim that is not empty: {others}" if others else "check for x.numel() == 0 before"
            what = "all elements" if whole else f"dim {d}"
            error = ShapeError if whole and not base_name(op).startswith("arg") else DimError  # as in PyTorch
            raise error(
                f"{op}: Expected reduction dim {d} to have non-zero size: {what} of a tensor of shape {shape} "
                f"cannot be reduced, since no elements have no {base_name(op)}" + fix(remedy)
            )


# ---------------------------------------------------------------------------------------------------------------- views


def reshape(op: str, self: Shaped, shape: Any, **keywords: Any) -> Shape:
    """``shape``, with one -1 replaced by the size that the number of elements leaves."""
    sizes = as_ints(op, shape, "shape")
    count = math.prod(self.shape)
    unknown = [d for d, size in enumerate(sizes) if size == -1]
    for d, size in enumerate(sizes):
        if size < -1:
            raise SizeError(f"{op}: invalid size {size} at dim {d} of shape {sizes}; sizes start at 0, or are -1")
    if len(unknown) > 1:
        raise SizeError(f"{op}: only one dimension can be inferred, but shape {sizes} has -1 at dims {unknown}")
    known = math.prod(size for size in sizes if size != -1)
    if unknown:
        if known == 0 and count == 0:
            raise ShapeError(
                f"{op}: cannot reshape a tensor of shape {self.shape} (0 elements) into shape {sizes} because the "
                f"size -1 can be any value and is ambiguous" + fix("write the size instead of -1")
            )
        if known == 0 or count % known:
            raise ShapeError(
                f"{op}: shape {sizes} is invalid for a tensor of shape {self.shape}: its {count} elements do not "
                f"divide by {known}, so no size fits the -1"
            )
        d = unknown[0]
        return check_shape(op, (*sizes[:d], count // known, *sizes[d + 1 :]))
    if known != count:
        raise ShapeError(
            f"{op}: shape {sizes} is invalid for a tensor of shape {self.shape}: {known} elements against {count}"
        )
    return check_shape(op, sizes)


def permute(op: str, self: Shaped, dims: Any, **keywords: Any) -> Shape:
    """The sizes in the order ``dims``, which names each dim once."""
    shape = self.shape
    given = as_ints(op, dims, "dims")
    if len(given) != len(shape):
        raise ShapeError(
            f"{op}: dims {given} must name each of the {len(shape)} dims of a tensor of shape {shape} once, "
            f"but names {len(given)}"
        )
    return tuple(shape[d] for d in normalize_dims(op, given, len(shape), name="dims"))


def transpose(op: str, self: Shaped, dim0: Any, dim1: Any, **keywords: Any) -> Shape:
    """Two sizes swapped."""
    sizes = list(self.shape)
    a = normalize_dim(op, dim0, len(sizes), name="dim0")
    b = normalize_dim(op, dim1, len(sizes), name="dim1")
    if sizes:
        sizes[a], sizes[b] = sizes[b], sizes[a]
    return tuple(sizes)


def expand(op: str, self: Shaped, size: Any, **keywords: Any) -> Shape:
    """``size``, where -1 keeps a size; only dims of size 1, and new leading ones, can grow."""
    shape = self.shape
    sizes = list(as_ints(op, size, "size"))
    target = tuple(sizes)
    new = len(sizes) - len(shape)
    if new < 0:
        raise ShapeError(
            f"{op}: the number of sizes provided ({len(sizes)}) must be greater or equal to the number of dims in the "
            f"tensor ({len(shape)}). Target sizes: {target}. Tensor sizes: {shape}"
        )
    for d, wanted in enumerate(sizes):
        if wanted < -1:
            raise SizeError(f"{op}: invalid size {wanted} at dim {d} of size {target}; sizes start at 0, or -1")
        if wanted == -1:
            if d < new:
                raise ShapeError(
                    f"{op}: the expanded size of the tensor (-1) isn't allowed in a leading, non-existing dim {d}. "
                    f"Target sizes: {target}. Tensor sizes: {shape}"
                )
            sizes[d] = shape[d - new]
        elif d >= new and shape[d - new] not in (1, wanted):
            raise ShapeError(
                f"{op}: The expanded size of the tensor ({wanted}) must match the existing size ({shape[d - new]}) at "
                f"non-singleton dimension {d}. Target sizes: {target}. Tensor sizes: {shape}"
            )
    return check_shape(op, sizes)


def squeeze(op: str, self: Shaped, dim: Any = None, **keywords: Any) -> Shape:
    """Without the dims of size 1, or without those among ``dim``."""
    dims = normalize_dims(op, dim, len(self.shape))
    return tuple(size for d, size in enumerate(self.shape) if size != 1 or d not in dims)


def unsqueeze(op: str, self: Shaped, dim: Any, **keywords: Any) -> Shape:
    """With a 1 at ``dim``, counted in the result."""
    d = normalize_dim(op, dim, len(self.shape) + 1, of="the result")
    return check_shape(op, (*self.shape[:d], 1, *self.shape[d:]))


# ------------------------------------------------------------------------------------------------------- linear algebra


def matmul(op: str, self: Shaped, other: Shaped, **keywords: Any) -> Shape:
    """The matrix product's shape; leading dims broadcast, a vector is a row on the left and a column on the right."""
    a, b = shape_of(self), shape_of(other)
    if not a or not b:
        raise ShapeError(
            f"{op}: both arguments need to be at least 1-d, but they are {len(a)}-d and {len(b)}-d" + fix("use *")
        )
    inner = b[-2] if len(b) > 1 else b[0]
    if a[-1] != inner:
        fits = len(b) > 1 and a[-1] == b[-1]
        remedy = "other.transpose(-1, -2) would fit" if fits else f"make both {a[-1]} or both {inner}"
        raise ShapeError(
            f"{op}: shapes {a} and {b} cannot be multiplied: the last size of self is {a[-1]}, "
            f"the {'second to last' if len(b) > 1 else 'only'} size of other is {inner}" + fix(remedy)
        )
    try:
        batch = broadcast_shapes(op, a[:-2], b[:-2])
    except ShapeError:
        raise ShapeError(
            f"{op}: shapes {a} and {b} cannot be multiplied: the batch dims {a[:-2]} and {b[:-2]} do not broadcast"
        ) from None
    return check_shape(op, batch + a[-2:-1] + (b[-1:] if len(b) > 1 else ()))


def linear(op: str, input: Shaped, weight: Shaped, bias: Shaped | None = None, **keywords: Any) -> Shape:
    """``input`` (..., in) with ``weight`` (out, in) gives (..., out); a weight (in,) gives (...)."""
    x, w = shape_of(input), shape_of(weight)
    if not x:
        raise ShapeError(f"{op}: input needs a last dim of features, but is 0-d")
    if len(w) not in (1, 2):
        raise ShapeError(f"{op}: weight must be (out_features, in_features), but has shape {w}")
    if x[-1] != w[-1]:
        remedy = fix("weight is (out_features, in_features): transpose it") if x[-1] == w[0] else ""
        raise ShapeError(
            f"{op}: input of shape {x} has {x[-1]} features, but weight of shape {w} takes {w[-1]}{remedy}"
        )
    out = w[:-1]
    if bias is not None and shape_of(bias) not in ((), (1,), out):
        raise ShapeError(f"{op}: bias must have shape {out}, one for each output feature, but has {shape_of(bias)}")
    return check_shape(op, x[:-1] + out)


# ------------------------------------------------------------------------------------------------------------- creation


def sized(op: str, size: Any, *rest: Any, **keywords: Any) -> Shape:
    """``size`` itself."""
    return as_sizes(op, size)


def eye(op: str, n: Any, m: Any = None, **keywords: Any) -> Shape:
    """(n, m), square when ``m`` is None."""
    (rows,) = as_sizes(op, as_int(op, n, "n"), name="n")
    (columns,) = (rows,) if m is None else as_sizes(op, as_int(op, m, "m"), name="m")
    return check_shape(op, (rows, columns))


def randperm(op: str, n: Any, **keywords: Any) -> Shape:
    """(n,)."""
    return as_sizes(op, as_int(op, n, "n"), name="n")


def arange(op: str, start: Any, end: Any = None, step: Any = 1, **keywords: Any) -> Shape:
    """``ceil((end - start) / step)`` elements, exact for ints and in double precision otherwise."""
    if end is None:
        start, end = 0, start
    values = []
    for name, value in (("start", start), ("end", end), ("step", step)):
        if not isinstance(value, (int, float)):
            try:
                value = as_int(op, value, name)
            except ArgumentError:
                raise ArgumentError(
                    f"{op}: {name} must be an int or a float, not {value!r} ({type(value).__name__})"
                ) from None
        if isinstance(value, float) and not math.isfinite(value):
            raise SizeError(f"{op}: {name} must be finite, but is {value}")
        values.append(value)
    first, last, by = values
    if by == 0:
        raise SizeError(f"{op}: step must be nonzero")
    if (by > 0 and last < first) or (by < 0 and last > first):
        raise SizeError(
            f"{op}: upper bound and lower bound inconsistent with step sign: from {first} to {last} by {by}"
            + fix(f"use step={-by}, or exchange start and end")
        )
    return check_shape(op, (_count(op, first, last, by),))


def _count(op: str, first: float, last: float, by: float) -> int:
    if isinstance(first, int) and isinstance(last, int) and isinstance(by, int):
        return -((first - last) // by)
    try:
        return math.ceil((last - first) / by)
    except OverflowError:
        raise ShapeError(
            f"{op}: the range from {first} to {last} by {by} is too large: it has more than 2**63 - 1 elements"
        ) from None


RULES: dict[str, Callable[..., Shape | tuple[Shape, ...] | None]] = {
    "cdist": cdist,
    "cdist_backward": cdist_backward,
    "addmm": addmm,
    "addmv": addmv,
    "arange": arange,
    "as_strided": as_strided,
    "as_strided_scatter": as_strided_scatter,
    "bitwise": bitwise,
    "bincount": bincount,
    "bernoulli": bernoulli,
    "broadcast": broadcast,
    "cat": cat,
    "celu": celu,
    "clamp": clamp,
    "baddbmm": baddbmm,
    "bmm": bmm,
    "cholesky_ex": cholesky_ex,
    "avg_pool": avg_pool,
    "avg_pool_backward": avg_pool_backward,
    "col2im": col2im,
    "constant_pad_nd": constant_pad_nd,
    "convolution": convolution,
    "convolution_backward": convolution_backward,
    "cross_entropy_rows": cross_entropy_rows,
    "cross_entropy_rows_backward": cross_entropy_rows_backward,
    "diagonal": diagonal,
    "diagonal_scatter": diagonal_scatter,
    "dimwise": dimwise,
    "dropout": dropout,
    "dropout_backward": dropout_backward,
    "embedding": embedding,
    "attention": attention,
    "attention_backward": attention_backward,
    "embedding_backward": embedding_backward,
    "draw": draw,
    "expand": expand,
    "dot": dot,
    "eigh": eigh,
    "eigvalsh": eigvalsh,
    "eye": eye,
    "flip": flip,
    "gelu": gelu,
    "glu": glu,
    "hardtanh": hardtanh,
    "im2col": im2col,
    "index": index,
    "index_put": index_put,
    "input_sizes": input_sizes,
    "linear": linear,
    "linspace": linspace,
    "matmul": matmul,
    "matrices": matrices,
    "max_dim": max_dim,
    "norm": norm,
    "permute": permute,
    "prelu": prelu,
    "mm": mm,
    "mv": mv,
    "of_square": of_square,
    "outer": outer,
    "qr": qr,
    "max_pool": max_pool,
    "max_pool_with_indices": max_pool_with_indices,
    "pool_backward": pool_backward,
    "multinomial": multinomial,
    "normal": normal,
    "normal_sized": normal_sized,
    "randint": randint,
    "randperm": randperm,
    "reduction": reduction,
    "repeat_interleave": repeat_interleave,
    "reshape": reshape,
    "roll": roll,
    "same": same,
    "searchsorted": searchsorted,
    "scatter_reduce": scatter_reduce,
    "select": select,
    "select_scatter": select_scatter,
    "shrink": shrink,
    "sized": sized,
    "slice": slice,
    "slice_scatter": slice_scatter,
    "slogdet": slogdet,
    "solve": solve,
    "solve_triangular": solve_triangular,
    "split_with_sizes": split_with_sizes,
    "square": square,
    "squeeze": squeeze,
    "topk": topk,
    "svd": svd,
    "svdvals": svdvals,
    "standardize": standardize,
    "standardize_backward": standardize_backward,
    "transpose": transpose,
    "transposed": transposed,
    "triangle": triangle,
    "unbind": unbind,
    "unfold": unfold,
    "unknown": unknown,
    "unsqueeze": unsqueeze,
    "write": write,
}
