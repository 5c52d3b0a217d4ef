"""Distances between vectors, angles, and vectors of length 1, in terms of sums and pointwise operators.

``cdist`` and its gradient run below autograd, for a device without kernels of its own; the rest with it active.
"""

from __future__ import annotations

from tensorplay_composite.operators.linalg import _norm, _shaped, _wide
from tensorplay_core.errors import DTypeError, ShapeError, fix
from tensorplay_core.ops import _generated_functional as F
from tensorplay_core.ops import shapes_distance as rules
from tensorplay_core.ops.helpers_distance import slopes
from tensorplay_core.ops.shape_checks import broadcast_shapes, normalize_dim
from tensorplay_core.tensor.tensor import Tensor
from tensorplay_core.types.dtype import DType


def _real_pair(op: str, x1: Tensor, x2: Tensor) -> tuple[Tensor, Tensor, DType]:
    """Two floating tensors of one dtype, half precisions in float32; and the dtype of the result."""
    for x in (x1, x2):
        if not x.dtype.is_floating_point:
            raise DTypeError(f"{op}: takes floating tensors, and one is {x.dtype.name}" + fix("x.to(tp.float32)"))
    dtype = F.add(x1.detach().new_zeros(()), x2.detach().new_zeros(())).dtype if x1.dtype is not x2.dtype else x1.dtype
    return _wide(x1.to(dtype)), _wide(x2.to(dtype)), dtype


def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-08) -> Tensor:
    """The product of both vectors, each divided by its length or ``eps``."""
    a, b, dtype = _real_pair("cosine_similarity", x1, x2)
    shape = broadcast_shapes("cosine_similarity", a.shape, b.shape)
    d = normalize_dim("cosine_similarity", dim, len(shape))
    a, b = (x if x.shape == shape else x.expand(shape) for x in (a, b))
    return (_unit(a, 2.0, d, eps) * _unit(b, 2.0, d, eps)).sum(d).to(dtype)


def _unit(x: Tensor, p: float, dim: int, eps: float) -> Tensor:
    length = _norm(x, p, dim, True)
    return x / F.where(length < eps, eps, length)


def normalize(input: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Tensor:
    """Divided by the norm or ``eps``."""
    if not input.dtype.is_inexact:
        raise DTypeError(
            f"normalize: takes floating and complex tensors, and this one is {input.dtype.name}"
            + fix("x.to(tp.float32)")
        )
    d = normalize_dim("normalize", dim, input.ndim)
    return _unit(_wide(input), p, d, eps).to(input.dtype)


def pairwise_distance(x1: Tensor, x2: Tensor, p: float = 2, eps: float = 1e-06, keepdim: bool = False) -> Tensor:
    """The norm of the difference, to which ``eps`` is added."""
    a, b, dtype = _real_pair("pairwise_distance", x1, x2)
    broadcast_shapes("pairwise_distance", a.shape, b.shape)
    difference = a - b + eps
    if not difference.ndim:
        raise ShapeError("pairwise_distance: takes vectors, and the tensors are 0-d" + fix("abs(a - b)"))
    return _norm(difference, p, -1, keepdim).to(dtype)


def cdist(x1: Tensor, x2: Tensor, p: float = 2, compute_mode: int | None = None) -> Tensor:
    """The norms of all differences of rows."""
    a, b = _shaped(x1, x2)
    rules.cdist("cdist", a, b, p, compute_mode)
    difference = _wide(x1).unsqueeze(-2) - _wide(x2).unsqueeze(-3)
    if not difference.shape[-1]:
        return difference.sum(-1).to(x1.dtype)
    return _norm(difference, float(p), -1, False).to(x1.dtype)


def _cdist_backward(grad_output: Tensor, x1: Tensor, x2: Tensor, p: float, cdist: Tensor) -> Tensor:
    """The sum over the rows of ``x2`` of each distance's gradient times its slope."""
    grad, a, b, distances = _shaped(grad_output, x1, x2, cdist)
    rules.cdist_backward("_cdist_backward", grad, a, b, p, distances)
    difference = _wide(x1).unsqueeze(-2) - _wide(x2).unsqueeze(-3)
    distance = _wide(cdist)
    if p == float("inf") and distance is not cdist:  # the largest component must equal it to the last bit
        distance = difference.abs().amax(-1) if difference.shape[-1] else distance
    return (_wide(grad_output).unsqueeze(-1) * slopes(difference, distance, float(p))).sum(-2).to(x1.dtype)
