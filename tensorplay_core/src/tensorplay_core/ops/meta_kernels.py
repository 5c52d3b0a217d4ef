"""The kernels of the meta device: what an operator's rules say of its result, without computing it.

One factory makes the kernel of nearly every operator from its shape rule and its promote rule; the public functions
below are the rest, which the generator finds by their names: views, whose strides no rule gives, and operators whose
results have dtypes of their own. A call that fails on a device with data fails here with the same error.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

from tensorplay_core.dispatch.operator import Operator
from tensorplay_core.errors import DTypeError, NoDataError, fix
from tensorplay_core.ops import (
    shapes,
    shapes_arrange,
    shapes_factorization,
    shapes_indexing,
    shapes_view,
)
from tensorplay_core.ops.arguments import plan_of
from tensorplay_core.ops.shape_checks import Shaped, as_int, as_ints, normalize_dim, normalize_dims
from tensorplay_core.tensor.meta_array import MetaArray, like_operands, reshaped_strides
from tensorplay_core.types import dtype as dt
from tensorplay_core.types.dtype import DType
from tensorplay_core.types.promotion import NOT_PROMOTED

Kernel = Callable[..., Any]
Shape = tuple[int, ...]

RESULTS: dict[str, Callable[[DType], DType]] = {
    **dict.fromkeys(("default", "float", "keep"), lambda computed: computed),
    "bool": lambda computed: dt.bool_,
    "index": lambda computed: dt.int64,
    "sum": lambda computed: computed if computed.is_inexact else dt.int64,
    "real": lambda computed: computed.real_dtype,
}
"""A result's dtype, by promote rule, from the dtype that the operator computes in. ``dtype=`` has the last word."""
ELEMENTWISE = frozenset({"same", "broadcast", "dimwise"})
"""Shape rules whose results are laid out in memory as the operands are."""
KINDS = {
    **dict.fromkeys(("log_softmax", "softmax"), "f"),
    **dict.fromkeys(("mean", "norm", "rand", "randn", "std", "var"), "fc"),
}
"""Kinds of dtype that an operator takes where its kernels, rather than its record, refuse the others."""
_NAMES = {"b": "bool", "u": "unsigned", "i": "integer", "f": "floating", "c": "complex"}


def by_rule(op: Operator, rule: str, result: str) -> Kernel:
    """Returns the kernel that an operator's rules give.

    Args:
        op: the operator.
        rule: its shape rule.
        result: its promote rule; or ``created``, where ``dtype=`` says it; or ``self``, for an operator that writes to
            its first argument.
    """
    shape_rule, name, laid_out = shapes.RULES[rule], op.display_name, rule in ELEMENTWISE

    def kernel(*args: Any, **kwargs: Any) -> Any:
        shape: Any = shape_rule(name, *map(_seen, args), **{key: _seen(value) for key, value in kwargs.items()})
        if result == "self":
            return args[0]
        if shape is None:
            raise _unknown_shape(name)
        if result == "created":
            dtype = _checked(op, kwargs["dtype"])
        else:
            computed = _checked(op, kwargs.get("dtype") or _computed(op, args))
            dtype = kwargs.get("dtype") or RESULTS[result](computed)
        strides = like_operands(shape, _arrays(args)) if laid_out else None
        count = plan_of(op).returns
        if count == 1:
            return MetaArray(shape, dtype, strides)
        several = shape if shape and isinstance(shape[0], tuple) else (shape,) * count
        return tuple(MetaArray(one, dtype, strides) for one in several)

    kernel.__qualname__ = f"shape_rule({rule})"
    return kernel


def derived(op: Operator) -> Kernel | None:
    """Returns the kernel of an operator that was defined outside our contract; None where its rules do not tell."""
    plan = plan_of(op)
    if op.shape not in shapes.RULES or plan.view or op.functional is not None:
        return None
    if op.composite == "explicit" and any(spec.required for spec in plan.keyword):
        return None  # every call gives a keyword, and goes to Composite
    if plan.writes:
        return by_rule(op, op.shape, "self")
    if "creation" in op.tags:
        return by_rule(op, op.shape, "created")
    return by_rule(op, op.shape, op.promote) if op.promote in RESULTS else None


def _seen(value: Any) -> Any:
    """Returns what a shape rule sees of an argument."""
    if value.__class__ is MetaArray:
        return Shaped(value.shape, value.dtype)
    return [_seen(item) for item in value] if value.__class__ is list else value


def _arrays(values: Any) -> Iterator[MetaArray]:
    for value in values:
        if value.__class__ is MetaArray:
            yield value
        elif value.__class__ is list:
            yield from _arrays(value)


def _computed(op: Operator, args: tuple[Any, ...]) -> DType:
    """Returns the dtype of the arguments that share one."""
    positional = plan_of(op).positional
    typed = [value for spec, value in zip(positional, args, strict=True) if spec.name not in NOT_PROMOTED]
    return next(_arrays(typed)).dtype


def _checked(op: Operator, dtype: DType) -> DType:
    kinds = KINDS.get(op.name)
    if kinds is not None and dtype.kind not in kinds:
        takes = " and ".join(_NAMES[kind] for kind in kinds)
        raise DTypeError(f"{op.display_name}: takes {takes} dtypes, not {dtype.name}" + fix("convert with .to(dtype)."))
    return dtype


def _unknown_shape(name: str) -> NoDataError:
    of, instead = ("a bool mask", "use integer indices, whose shape is known, or tp.where, which keeps the shape.")
    if name == "repeat_interleave.Tensor":
        of, instead = "repeats", "give output_size, which is their sum."
    return NoDataError(
        f"{name}: the shape of the result depends on the elements of {of}, and a meta tensor has none" + fix(instead)
    )


# ---------------------------------------------------------------------------------------------------------------- views


def reshape(self: MetaArray, shape: Any) -> MetaArray:
    """A view where the strides allow it, else an array of its own."""
    sizes = shapes.reshape("reshape", _seen(self), shape)
    strides = reshaped_strides(self, sizes)
    return MetaArray(sizes, self.dtype) if strides is None else self.view(sizes, strides)


def permute(self: MetaArray, dims: Any) -> MetaArray:
    """Sizes and strides in another order."""
    sizes = shapes.permute("permute", _seen(self), dims)
    order = normalize_dims("permute", dims, self.ndim, name="dims")
    return self.view(sizes, tuple(self.strides[d] for d in order))


def transpose(self: MetaArray, dim0: int, dim1: int) -> MetaArray:
    """Two sizes and strides swapped."""
    sizes = shapes.transpose("transpose", _seen(self), dim0, dim1)
    strides = list(self.strides)
    if strides:
        strides[dim0], strides[dim1] = strides[dim1], strides[dim0]
    return self.view(sizes, tuple(strides))


def expand(self: MetaArray, size: Any) -> MetaArray:
    """Strides of 0 where a size grows; a new dim of size 1 repeats nothing."""
    sizes = shapes.expand("expand", _seen(self), size)
    new = len(sizes) - self.ndim
    kept = zip(sizes[new:], self.shape, self.strides, strict=True)
    strides = [stride if wanted == own else 0 for wanted, own, stride in kept]
    for d in reversed(range(new)):
        inner = sizes[d + 1] * strides[0] if strides else 1
        strides.insert(0, inner if sizes[d] == 1 else 0)
    return self.view(sizes, tuple(strides))


def squeeze(self: MetaArray, dim: Any = None) -> MetaArray:
    """Without dims of size 1."""
    sizes = shapes.squeeze("squeeze", _seen(self), dim)
    gone = [d for d in normalize_dims("squeeze", dim, self.ndim) if self.ndim and self.shape[d] == 1]
    return self.view(sizes, tuple(stride for d, stride in enumerate(self.strides) if d not in gone))


def unsqueeze(self: MetaArray, dim: int) -> MetaArray:
    """With a dim of size 1, whose stride is that of a step over what follows it."""
    sizes = shapes.unsqueeze("unsqueeze", _seen(self), dim)
    d = normalize_dim("unsqueeze", dim, self.ndim + 1)
    stride = self.shape[d] * self.strides[d] if d < self.ndim else 1
    return self.view(sizes, (*self.strides[:d], stride, *self.strides[d:]))


def select(self: MetaArray, dim: int, index: int) -> MetaArray:
    """One index along a dim, which disappears."""
    sizes = shapes_indexing.select("select", _seen(self), dim, index)
    d = normalize_dim("select", dim, self.ndim)
    place = as_int("select", index, "index")
    place += self.shape[d] if place < 0 else 0
    return self.view(sizes, self.strides[:d] + self.strides[d + 1 :], place * self.strides[d])


def slice(self: MetaArray, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1) -> MetaArray:
    """Every ``step``-th element from ``start`` on along a dim."""
    sizes = shapes_indexing.slice("slice", _seen(self), dim, start, end, step)
    d = normalize_dim("slice", dim, self.ndim)
    size, stride = self.shape[d], self.strides[d]
    first = 0 if start is None else min(max(start + size if start < 0 else start, 0), size)
    strides = (*self.strides[:d], stride * step, *self.strides[d + 1 :])
    return self.view(sizes, strides, first * stride if sizes[d] else 0)


def as_strided(self: MetaArray, size: Any, stride: Any, storage_offset: int | None = None) -> MetaArray:
    """Other sizes and strides over the same memory."""
    sizes = shapes_view.as_strided("as_strided", _seen(self), size, stride, storage_offset)
    root = self if self.base is None else self.base
    offset = self.offset if storage_offset is None else storage_offset
    strides = as_ints("as_strided", stride, "stride")
    shapes_view.check_in_storage("as_strided", sizes, strides, offset, shapes_view.extent(root.shape, root.strides))
    return self.view(sizes, strides, offset - self.offset)


def diagonal(self: MetaArray, offset: int = 0, dim1: int = 0, dim2: int = 1) -> MetaArray:
    """A dim that steps along two others at once."""
    sizes = shapes_view.diagonal("diagonal", _seen(self), offset, dim1, dim2)
    first, second = (normalize_dim("diagonal", dim, self.ndim) for dim in (dim1, dim2))
    kept = tuple(stride for d, stride in enumerate(self.strides) if d not in (first, second))
    start = self.strides[second] * offset if offset > 0 else -self.strides[first] * offset
    return self.view(sizes, (*kept, self.strides[first] + self.strides[second]), start if sizes[-1] else 0)


def unfold(self: MetaArray, dimension: int, size: int, step: int) -> MetaArray:
    """Windows along a dim: its stride in steps, and itself as the last."""
    sizes = shapes_arrange.unfold("unfold", _seen(self), dimension, size, step)
    if not self.ndim:
        return self.view(sizes, (1,))
    d = normalize_dim("unfold", dimension, self.ndim)
    stride = self.strides[d]
    return self.view(sizes, (*self.strides[:d], stride * step, *self.strides[d + 1 :], stride))


def unbind(self: MetaArray, dim: int = 0) -> list[MetaArray]:
    """Each index along a dim."""
    return [select(self, dim, i) for i in range(len(shapes_view.unbind("unbind", _seen(self), dim)))]


def split_with_sizes(self: MetaArray, split_sizes: Any, dim: int = 0) -> list[MetaArray]:
    """Consecutive parts along a dim."""
    shapes_view.split_with_sizes("split_with_sizes", _seen(self), split_sizes, dim)
    ends = [*itertools.accumulate(split_sizes)]
    return [slice(self, dim, end - size, end) for size, end in zip(split_sizes, ends, strict=True)]


# ------------------------------------------------------------------------------------------------ dtypes of their own


def _selected(op: str, rule: str, self: MetaArray, *args: Any) -> tuple[MetaArray, MetaArray]:
    """Returns values of the input's dtype, and their indices."""
    if self.dtype.is_complex:
        raise DTypeError(f"{op}: complex numbers have no order" + fix("compare .abs() or .real()."))
    shape: Any = shapes.RULES[rule](op, _seen(self), *args)
    values, indices = shape if rule != "dimwise" else (shape, shape)
    return MetaArray(values, self.dtype), MetaArray(indices, dt.int64)


def max_dim(self: MetaArray, dim: int, keepdim: bool = False) -> tuple[MetaArray, MetaArray]:
    """The largest elements, and their indices."""
    return _selected("max.dim", "max_dim", self, dim, keepdim)


def min_dim(self: MetaArray, dim: int, keepdim: bool = False) -> tuple[MetaArray, MetaArray]:
    """The smallest elements, and their indices."""
    return _selected("min.dim", "max_dim", self, dim, keepdim)


def cummax(self: MetaArray, dim: int) -> tuple[MetaArray, MetaArray]:
    """The largest elements so far, and their indices."""
    return _selected("cummax", "dimwise", self, dim)


def cummin(self: MetaArray, dim: int) -> tuple[MetaArray, MetaArray]:
    """The smallest elements so far, and their indices."""
    return _selected("cummin", "dimwise", self, dim)


def max_pool2d_with_indices(self: MetaArray, *sizes: Any) -> tuple[MetaArray, MetaArray]:
    """The largest element of each window, and its place."""
    return _selected("max_pool2d_with_indices", "max_pool_with_indices", self, *sizes)


def max_pool3d_with_indices(self: MetaArray, *sizes: Any) -> tuple[MetaArray, MetaArray]:
    """The largest element of each window, and its place."""
    return _selected("max_pool3d_with_indices", "max_pool_with_indices", self, *sizes)


def sort(self: MetaArray, dim: int = -1, descending: bool = False) -> tuple[MetaArray, MetaArray]:
    """The elements in order, and their indices."""
    return _selected("sort", "dimwise", self, dim)


def topk(
    self: MetaArray, k: int, dim: int = -1, largest: bool = True, sorted: bool = True
) -> tuple[MetaArray, MetaArray]:
    """The elements that are selected, and their indices."""
    return _selected("topk", "topk", self, k, dim)


def bincount(self: MetaArray, weights: MetaArray | None = None, minlength: int = 0) -> MetaArray:
    """Its shape is the largest number's, which nobody knows."""
    shapes.RULES["bincount"]("bincount", _seen(self), _seen(weights), minlength)
    raise NoDataError(
        "bincount: the shape of the result depends on the largest element, and a meta tensor has none"
        + fix("use a device with data, such as cpu.")
    )


def native_dropout(input: MetaArray, p: float, train: bool | None) -> tuple[MetaArray, MetaArray]:
    """The input's dtype, and a mask."""
    shapes.RULES["dropout"]("native_dropout", _seen(input), p, train)
    return MetaArray(input.shape, input.dtype), MetaArray(input.shape, dt.bool_)


def native_dropout_backward(grad_output: MetaArray, mask: MetaArray, scale: float) -> MetaArray:
    """The gradient's dtype, whatever that of the mask."""
    shapes.RULES["dropout_backward"]("native_dropout_backward", _seen(grad_output), _seen(mask), scale)
    return MetaArray(grad_output.shape, grad_output.dtype)


def clone(self: MetaArray) -> MetaArray:
    """A copy in C order, which is what ``contiguous()`` asks for."""
    return MetaArray(self.shape, self.dtype)


# ------------------------------------------------------------------------------------------------------ decompositions


def linalg_cholesky_ex(self: MetaArray, *, upper: bool = False, check_errors: bool = False) -> tuple[MetaArray, ...]:
    """A factor, and an int32 for each matrix."""
    shape, batch = shapes_factorization.cholesky_ex("linalg_cholesky_ex", _seen(self))
    return MetaArray(shape, self.dtype), MetaArray(batch, dt.int32)


def linalg_slogdet(A: MetaArray) -> tuple[MetaArray, ...]:
    """A sign of the matrix' dtype, and a real logarithm."""
    batch, _ = shapes_factorization.slogdet("linalg_slogdet", _seen(A))
    return MetaArray(batch, A.dtype), MetaArray(batch, A.dtype.real_dtype)


def linalg_eigh(self: MetaArray, UPLO: str = "L") -> tuple[MetaArray, ...]:
    """Real values, and vectors."""
    values, vectors = shapes_factorization.eigh("linalg_eigh", _seen(self), UPLO)
    return MetaArray(values, self.dtype.real_dtype), MetaArray(vectors, self.dtype)


def linalg_svd(A: MetaArray, full_matrices: bool = True, *, driver: str | None = None) -> tuple[MetaArray, ...]:
    """Real values between two unitary matrices."""
    u, s, vh = shapes_factorization.svd("linalg_svd", _seen(A), full_matrices, driver=driver)
    return MetaArray(u, A.dtype), MetaArray(s, A.dtype.real_dtype), MetaArray(vh, A.dtype)
