"""Every shared operator against PyTorch: values over dtypes, gradients and gradients of gradients, on the samples.

Skipped, visibly, where torch is not installed. What differs on purpose is in ``DIFFERENT`` with its reason.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tensorplay as tp
from tensorplay_core.dispatch.registry import REGISTRY
from tensorplay_core.testing.sample_features import in_domain
from tensorplay_core.testing.samples import samples

torch = pytest.importorskip("torch", reason="torch is not installed: pip install torch, and these comparisons run")

pytestmark = pytest.mark.peers

OPERATORS = {op.display_name: op for op in REGISTRY.operators.values() if op.namespace == "tp"}
DTYPES = ("bool", "uint8", "int8", "int64", "float16", "bfloat16", "float32", "float64", "complex64", "complex128")
COUNTS: Counter[str] = Counter()
CREATED = {"empty"} | {name for name, op in OPERATORS.items() if "random" in op.tags}
"""Contents that are not comparable."""

NAN_STAYS = "the sign of NaN is NaN here, as in the array API and NumPy; PyTorch makes it 0"
DIFFERENT: dict[tuple[str, str], str] = {
    ("abs", "special values"): NAN_STAYS,
    ("sgn", "special values"): NAN_STAYS,
    ("sgn_", "special values"): NAN_STAYS,
    ("sgn", "zeros"): "PyTorch's second gradient at a complex 0 is NaN; here it is 0",
    ("sgn_", "zeros"): "PyTorch's second gradient at a complex 0 is NaN; here it is 0",
    ("elu", "special values"): "the gradient at NaN is NaN; PyTorch's is a number",
    ("selu", "special values"): "the gradient at NaN is NaN; PyTorch's is a number",
    ("hardsigmoid", "special values"): "the gradient at NaN is that of the piece that NaN falls into; PyTorch's is 0",
    ("hardswish", "special values"): "hardswish(-inf) is 0, its limit; PyTorch's is NaN",
    ("softsign", "special values"): "the gradient at infinity is 0, its limit; PyTorch's is NaN",
    **dict.fromkeys(
        [(name, "zeros") for name in ("reciprocal", "reciprocal_", "rsqrt", "rsqrt_")],
        "the gradient at a complex 0 is infinite; PyTorch's is NaN",
    ),
}
LIMIT = "the value at an infinity is the limit, x or 0, and so is the slope; PyTorch's may be NaN"
POLE = "the second gradient at a pole is NaN; PyTorch's is infinite"
DIFFERENT |= {
    ("sign", "special values"): NAN_STAYS,
    ("celu", "special values"): "the gradient at NaN is NaN; PyTorch's is a number",
    ("copysign", "special values"): "the slope at an infinity is 1 or -1; PyTorch's is NaN",
    ("acosh", "special values"): "the gradient below 1 is NaN as the value is; PyTorch's is a number",
    ("prelu", "zeros"): "the second gradient at the kink is that of the branch taken; PyTorch's is 0",
    **{(name, "zeros"): POLE for name in ("asin", "acos", "acosh", "atanh")},
    ("celu", "zeros"): "the second gradient at the kink is that of the branch taken; PyTorch's is 0",
    ("sinc", "special values"): "the second gradient at 0 is that of the series; PyTorch's is NaN",
    ("gelu_backward", "tails, tanh"): "the second slope of the tail keeps its digits; PyTorch's cancels",
    ("sinc", "zeros"): "the second gradient at 0 is that of the series; PyTorch's is NaN",
    ("addcdiv", "mixed dtypes"): "PyTorch's backward fails for an integer divisor",
    ("clamp", "grows"): "PyTorch's backward fails where the bounds give the tensor a larger shape",
    ("heaviside", "special values"): "a step of NaN is NaN, as in NumPy; PyTorch makes it 0",
    **{(name, f"special values, {word}"): LIMIT for name in ("gelu", "gelu_backward") for word in ("none", "tanh")},
}
DIFFERENT |= {
    (name, sample): reason
    for name in ("scatter.src", "scatter_add", "scatter_.src", "scatter_add_")
    for sample, reason in (("larger source", "PyTorch's backward refuses a source that is larger than the index"),)
}
DIFFERENT |= {
    ("scatter_reduce.two", f"{reduce} larger source"): "PyTorch's backward refuses a source larger than the index"
    for reduce in ("sum", "prod", "mean", "amax", "amin")
}
DIFFERENT |= {
    ("scatter_reduce.two", f"{reduce} special values"): "the gradient of a NaN goes to the NaN; PyTorch's is NaN"
    for reduce in ("amax", "amin")
}
DIFFERENT |= {
    (name, "shape (5,) dim 0 [0, -1]"): "PyTorch's backward refuses a negative index"
    for name in ("index_fill.int_Tensor", "index_fill_.int_Tensor")
}
DIFFERENT["scatter_reduce.two", "prod zeros"] = "PyTorch's second gradient refuses several zeros at one place"
DIFFERENT["repeat_interleave.Tensor", "int32"] = "indices are int64, whatever integers count them"
DIFFERENT |= {
    ("scatter_reduce_.two", sample): reason
    for (name, sample), reason in DIFFERENT.items()
    if name == "scatter_reduce.two"
}
DIFFERENT |= {
    (
        "embedding_dense_backward",
        f"shape {shape} padding {padding} counts True",
    ): "PyTorch's second gradient forgets counts"
    for shape in ((4,), (2, 2), (), (0,), (1, 3))
    for padding in (-1, 0)
}
DIFFERENT["binary_cross_entropy", "equal elements and zeros"] = (
    "the gradient of a target is that of the logarithms, which are at least -100; PyTorch's is infinite"
)
DIFFERENT["native_dropout", "shape (0, 2)"] = "the mask of nothing is bool too; PyTorch's has the input's dtype"
DIFFERENT["kl_div", "targets of 0"] = "the gradient of a target of 0 is a number; PyTorch's is NaN"
DIFFERENT |= dict.fromkeys(
    [("elu", "zeros"), ("selu", "zeros")], "the second gradient at the kink is that of the branch taken; PyTorch's is 0"
)
OTHERS = "the gradient is made of the other elements; PyTorch divides by an element that is infinite or NaN"
NO_DIM = "an empty dim means all; PyTorch's gradient takes it for none"
NOTHING = "where the sum is of nothing but exp(-inf), and at -inf, the gradient is 0; PyTorch's is NaN"
DIFFERENT |= {
    **{(name, "nan"): "the NaN has the gradient; PyTorch's is NaN everywhere" for name in ("amax", "amin", "aminmax")},
    **{
        (name, sample): OTHERS
        for name in ("prod", "cumprod")
        for sample in ("nan", "infinite", "one infinite", "only -inf")
    },
    ("logsumexp", "large"): "the gradient is a softmax; PyTorch's is made of the rounded result",
    ("logsumexp", "only -inf"): NOTHING,
    ("logsumexp", "infinite"): NOTHING,
    ("logcumsumexp", "infinite"): NOTHING,
    ("logcumsumexp", "only -inf"): NOTHING,
    ("bincount", "no weights"): "the dtype is that of the weights, though there are none; PyTorch's is int64",
    **dict.fromkeys([(f"{name}.correction", "((),) {}") for name in ("var", "std", "var_mean", "std_mean")], NO_DIM),
    **dict.fromkeys([(name, "nan, order inf") for name in ("norm", "norm.dtype", "linalg_vector_norm")], NAN_STAYS),
    ("norm.str", "zeros"): "the second gradient at a norm of 0 is 0; PyTorch's is NaN",
    **dict.fromkeys(
        [
            (name, f"zeros, order {order}")
            for name in ("norm", "norm.dtype", "linalg_vector_norm")
            for order in (2, 1.5, 3, 0.5)
        ],
        "the second gradient at a norm of 0 is 0; PyTorch's is NaN",
    ),
}
DIFFERENT |= {(f"{name}_", sample): reason for (name, sample), reason in DIFFERENT.items() if f"{name}_" in OPERATORS}
DIFFERENT |= dict.fromkeys(
    [("adaptive_avg_pool1d", "shape (1, 3) to 0"), ("adaptive_avg_pool2d", "shape (1, 2, 2) to (0, 2)")],
    "PyTorch's backward refuses a result without elements",
)
DIFFERENT |= dict.fromkeys(
    [("cosine_similarity", "eps"), ("cosine_similarity", "a vector of zeros")],
    "where a length counts as eps it is constant; PyTorch differentiates the length that it has left out",
)
DIFFERENT |= dict.fromkeys(
    [(name, sample) for name in ("linalg_det", "det") for sample in ("singular", "singular among others")],
    "the second gradient at a singular complex matrix is that of the polynomial; PyTorch's is another",
)
DIFFERENT |= dict.fromkeys(
    [("linalg_norm", "all zeros"), ("linalg_matrix_norm.str_ord", "all zeros"), ("normalize", "a vector of zeros"),
     ("cdist", "equal rows"), ("pairwise_distance", "equal vectors")],
    "the second gradient of a norm is 0 at 0; PyTorch's is NaN",
)  # fmt: skip
DIFFERENT |= {
    (f"linalg_cond{overload}", f"order {p} no matrices"): "it depends on its input; PyTorch's is a new tensor"
    for overload, orders in (("", (None, 2, -2, 1, float("inf"))), (".p_str", ("fro", "nuc")))
    for p in orders
}
DIFFERENT |= {
    ("linalg_svd", sample): "the vector that full_matrices adds has a gradient; PyTorch leaves it out"
    for sample in ("shape (3, 2)", "shape (2, 3)", "shape (2, 2, 3)", "shape (2, 3, 2)", "strided")
}
WITHOUT_GRADIENT = {
    **dict.fromkeys(
        ("floor_divide", "floor_divide_", "heaviside", "heaviside_"),
        "declared to have no gradient; PyTorch's result claims one, and its backward raises",
    ),
    **dict.fromkeys(
        ("logical_and_", "logical_or_", "logical_xor_", "logical_not_"),
        "a gradient through the write is refused; PyTorch passes it on as if nothing had been written",
    ),
    **dict.fromkeys(("asinh_", "acosh_", "atanh_"), "PyTorch has no derivative of the in-place form"),
}
"""Operators to the reason why their gradients are not compared."""
HALF = (
    *("_standardize", "_standardize_backward", "_binary_cross_entropy", "_cross_entropy", "_cross_entropy_backward"),
    *("binary_cross_entropy", "cosine_embedding_loss", "embedding", "_embedding", "embedding_dense_backward", "kl_div"),
    *("gaussian_nll_loss", "nll_loss", "poisson_nll_loss", "triplet_margin_loss", "scaled_dot_product_attention"),
    *("binary_cross_entropy_with_logits", "soft_margin_loss"),
)
DIFFERENT_DTYPES = {
    ("sinc", "float16"): "the slope is computed in float32 and rounded once; PyTorch rounds every step",
    ("sinc_", "float16"): "the slope is computed in float32 and rounded once; PyTorch rounds every step",
    ("gelu_backward", "float16"): "the second slope is computed in float32; PyTorch rounds every step",
    ("_cdist_backward", "float16"): "the second slope is computed in float32; PyTorch rounds every step",
    ("_cdist_backward", "bfloat16"): "the second slope is computed in float32; PyTorch rounds every step",
    ("gelu_backward", "bfloat16"): "the second slope is computed in float32; PyTorch rounds every step",
    **{
        (name, dtype): "half precisions compute in float32 and round once; PyTorch rounds each step"
        for name in ("cosine_similarity", "normalize", "pairwise_distance")
        for dtype in ("float16", "bfloat16")
    },
    **{
        ("einsum", dtype): "the result has the dtype of the operands; PyTorch's is int64 where a single one is summed"
        for dtype in ("bool", "uint8", "int8")
    },
    ("square", "bool"): "the product of bools is bool; PyTorch computes a power, which is an int64",
    ("any", "uint8"): "the result is bool; PyTorch's is uint8",
    ("all", "uint8"): "the result is bool; PyTorch's is uint8",
    **dict.fromkeys(
        [("logcumsumexp", name) for name in ("float16", "bfloat16")],
        "the gradient is made of the rounded result, of which PyTorch takes another power",
    ),
    ("hardsigmoid", "float64"): "PyTorch multiplies its gradient by 1 / 6 in single precision",
    **{
        (name, dtype): "PyTorch rounds what it computes on the way to the half precision; here that is done once"
        for name in (*HALF, *(f"{reduced}_norm" for reduced in ("layer", "rms", "group", "instance", "batch")))
        for dtype in ("float16", "bfloat16")
    },
    ("hardsigmoid_", "float64"): "PyTorch multiplies its gradient by 1 / 6 in single precision",
}
"""(operator, sample) to the reason why its values or gradients are not PyTorch's.

Complex infinities and NaN are left out for every operator: PyTorch multiplies by alpha, or by a conjugate, where
nothing has to be multiplied, and inf * 0j is NaN.
"""


def indexed(x: Any, indices: Any) -> Any:
    return x[tuple(slice(None) if i is None else i for i in indices)]


def written_as_strided(x: Any, src: Any, size: Any, stride: Any, offset: Any = None) -> Any:
    y = x.clone()
    y.as_strided(size, stride, offset).copy_(src)
    return y


def places(indices: Any) -> tuple[Any, ...]:
    return tuple(slice(None) if i is None else i for i in indices) or (...,)


def index_backward(grad: Any, sizes: Any, indices: Any) -> Any:
    x = torch.zeros(sizes, dtype=grad.dtype)
    return torch.index_put(x, tuple(None if i is None else i for i in indices), grad, accumulate=True)


def reduced(name: str) -> Any:
    def reference(x: Any, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Any:
        # A 0-d tensor keeps its shape whatever keepdim says.
        return getattr(torch, name)(x, dim=dim, keepdim=keepdim, dtype=dtype)

    return reference


def sliced(x: Any, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Any:
    return torch.ops.aten.slice(x, dim, start, end, step)


def cdist_backward(grad: Any, a: Any, b: Any, p: float, distance: Any) -> Any:
    """In differences, since PyTorch's own has no gradient."""
    difference, r = a.unsqueeze(-2) - b.unsqueeze(-3), distance.unsqueeze(-1)
    share = difference / torch.where(r == 0, 1, r)
    slope = (
        share if p == 2 else difference.sign() if p == 1 else share * 0 if p == 0 else share * share.abs() ** (p - 2)
    )
    return (grad.unsqueeze(-1) * torch.where(r == 0, 0, slope)).sum(-2)


def settled(vectors: Any) -> Any:
    """The factor of each column that makes its first large component positive, as ours are."""
    size = vectors.detach().abs()
    first = (size >= 0.75 * size.amax(-2, keepdim=True)).int().argmax(-2, keepdim=True)
    return vectors.gather(-2, first).sgn().conj()


def eigh(x: Any, UPLO: str = "L") -> Any:
    values, vectors = torch.linalg.eigh(x, UPLO.upper())
    return values, vectors * settled(vectors) if vectors.numel() else vectors


def svd(x: Any, full_matrices: bool = True) -> Any:
    u, s, vh = torch.linalg.svd(x, full_matrices)
    k = s.shape[-1]
    if not x.numel():
        return u, s, vh
    factor, rest = settled(u), vh[..., k:, :].mH
    rest = rest * settled(rest) if rest.shape[-1] else rest
    return u * factor, s, torch.cat([vh[..., :k, :] * factor[..., :k].mH, rest.mH], -2)


MODES = ["use_mm_for_euclid_dist_if_necessary", "use_mm_for_euclid_dist", "donot_use_mm_for_euclid_dist"]


def ordered(name: str) -> Any:
    """Returns what selects by order, of equal elements the first: PyTorch takes any, but gives the same values."""

    def reference(x: Any, *args: Any) -> Any:
        dim, descending, native = -1, False, getattr(torch, name)(x.detach(), *args)
        if name == "topk":
            k, dim, descending = args[0], args[1] if len(args) > 1 else -1, args[2] if len(args) > 2 else True
        elif name == "kthvalue":
            dim = args[1] if len(args) > 1 else -1
        else:
            dim = args[0]
        values, places = torch.sort(x, dim=dim, descending=descending, stable=True)
        if x.ndim and name == "topk":
            values, places = values.narrow(dim, 0, k), places.narrow(dim, 0, k)
        elif x.ndim:
            numbers = (x == x).sum(dim, keepdim=True)
            place = (x.shape[dim] - 1) // 2 if name == "median" else args[0] - 1
            chosen = torch.full_like(numbers, place)
            if name == "median":
                chosen = torch.where(numbers < x.shape[dim], numbers, chosen)
            values, places = values.gather(dim, chosen), places.gather(dim, chosen)
            if args[-1] is not True:
                values, places = values.squeeze(dim), places.squeeze(dim)
        torch.testing.assert_close(values.detach(), native[0], rtol=0, atol=0, equal_nan=True)
        return values, places

    return reference


def convolution_backward(grad: Any, x: Any, w: Any, bias_sizes: Any, *rest: Any) -> Any:
    """By way of the convolution: PyTorch's own operator ends the process for some masks."""
    *sizes, mask = rest
    leaves = [t if t.requires_grad else t.detach().requires_grad_() for t in (x, w)]
    y = torch.convolution(*leaves, None, *sizes)
    first, second = torch.autograd.grad(y, leaves, grad, create_graph=True)
    found = (first, second, grad.sum((0, *range(2, grad.ndim))))
    return tuple(g if wanted else g.reshape(-1)[:0] for g, wanted in zip(found, mask, strict=True))


def max_pool(function: Any, indices: bool, x: Any, *sizes: Any) -> Any:
    return function(x, *sizes, *(None, 0, 1, False)[len(sizes) - 1 :], indices)


def max_pool_backward(function: Any, grad: Any, x: Any, *sizes: Any) -> Any:
    """PyTorch's gradient of a max pool, which itself has no operator of that name."""
    y = x if x.requires_grad else x.detach().requires_grad_()
    return torch.autograd.grad(max_pool(function, False, y, *sizes), y, grad, create_graph=True)[0]


def standardized(x: Any, weight: Any, bias: Any, dim: Any, eps: float) -> Any:
    mean, var = x.mean(dim, True), x.var(dim, unbiased=False, keepdim=True)
    y = (x - mean) * torch.rsqrt(var + eps) * (1 if weight is None else weight)
    return (y if bias is None else y + bias), mean, var


def standardized_backward(
    grad: Any, x: Any, mean: Any, var: Any, weight: Any, dim: Any, affine: Any, eps: float, mask: Any
) -> Any:
    rstd = torch.rsqrt(var + eps)
    h = (x - mean) * rstd
    g = grad if weight is None else grad * weight
    sizes = (1,) * (x.ndim - len(affine)) + tuple(affine)
    over = [d for d, n in enumerate(sizes) if n == 1]
    sums = [one.sum(over, True) if over else one * 1 for one in (grad * h, grad)]
    sums = [one.reshape(affine) if wanted else one for one, wanted in zip(sums, mask[1:], strict=True)]
    results = (g - g.mean(dim, True) - h * (g * h).mean(dim, True)) * rstd, *sums
    return tuple(one if wanted else one.reshape(-1)[:0] for one, wanted in zip(results, mask, strict=True))


def attended(q: Any, k: Any, v: Any, mask: Any = None, is_causal: bool = False, **options: Any) -> Any:
    """The composed form, since the fused one has no second gradient."""
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, mask, is_causal=is_causal, **options)


def reduced_loss(loss: Any, reduction: str) -> Any:
    return loss if reduction == "none" else loss.mean() if reduction == "mean" else loss.sum()


def cross_entropy_backward(grad: Any, x: Any, target: Any, ignored: int, smoothing: float) -> Any:
    kept = (target != ignored)[:, None]
    hot = torch.nn.functional.one_hot(torch.where(target == ignored, 0, target), x.shape[1]).to(x.dtype)
    return (torch.softmax(x, 1) - hot * (1 - smoothing) - smoothing / x.shape[1]) * grad[:, None] * kept


FUNCTIONAL = (
    *("batch_norm", "group_norm", "instance_norm", "layer_norm", "rms_norm"),
    *("binary_cross_entropy", "binary_cross_entropy_with_logits", "cosine_embedding_loss", "gaussian_nll_loss"),
    *("hinge_embedding_loss", "huber_loss", "kl_div", "l1_loss", "margin_ranking_loss", "mse_loss", "nll_loss"),
    *("poisson_nll_loss", "smooth_l1_loss", "soft_margin_loss", "triplet_margin_loss"),
    *("embedding", "one_hot", "softmin", "alpha_dropout", "dropout", "dropout1d", "dropout2d", "dropout3d"),
)
"""Operators that torch.nn.functional has with other arguments than torch."""


def by_method(name: str) -> Any:
    return lambda x, *args, **kwargs: getattr(x.clone() if name.endswith("_") else x, name)(*args, **kwargs)


ARRANGED: dict[str, Any] = {
    **{name: by_method(name) for name in ("repeat", "unfold", "index_add_", "index_copy_")},
    **{f"index_fill.{overload}": torch.index_fill for overload in ("int_Scalar", "int_Tensor")},
    **{f"index_fill_.{overload}": by_method("index_fill_") for overload in ("int_Scalar", "int_Tensor")},
    **{f"repeat_interleave.{name}": torch.repeat_interleave for name in ("Tensor", "self_Tensor", "self_int")},
    **{f"{name}.{kind}": getattr(torch, name) for name in ("hsplit", "vsplit", "dsplit") for kind in ("int", "array")},
    **{f"tensor_split.{overload}": torch.tensor_split for overload in ("sections", "indices")},
    "scatter_reduce.two": torch.scatter_reduce,
    "linspace": lambda a, b, n, dtype=None, device=None: torch.linspace(a, b, n, dtype=dtype),
    "logspace": lambda a, b, n, base=10.0, dtype=None, device=None: torch.logspace(a, b, n, base, dtype=dtype),
    **{
        name: lambda row, col, offset=0, dtype=torch.int64, device=None, name=name: getattr(torch, name)(
            row, col, offset, dtype=dtype
        )
        for name in ("tril_indices", "triu_indices")
    },
}
"""What repeats, divides and writes along an index, where its name says no function of PyTorch's."""

REFERENCES: dict[str, Any] = {
    "sort": lambda x, dim=-1, descending=False: torch.sort(x, dim=dim, descending=descending, stable=True),
    "argsort": lambda x, dim=-1, descending=False: torch.argsort(x, dim=dim, descending=descending, stable=True),
    "msort": lambda x: torch.sort(x, dim=0, stable=True)[0] if x.ndim else x.clone(),
    "topk": ordered("topk"),
    "kthvalue": ordered("kthvalue"),
    "median.dim": ordered("median"),
    "bincount": lambda x, weights=None, n=0: torch.bincount(x, None if weights is None else weights.detach(), n),
    "linalg_vector_norm": torch.linalg.vector_norm,
    **{name: getattr(torch.nn.functional, name) for name in FUNCTIONAL},
    "_standardize": standardized,
    "scaled_dot_product_attention": attended,
    "soft_margin_loss": lambda x, t, reduction="mean": reduced_loss(
        torch.nn.functional.softplus(-t * x, 1, 50), reduction
    ),
    "_standardize_backward": standardized_backward,
    "_binary_cross_entropy": lambda x, t: torch.nn.functional.binary_cross_entropy(
        *torch.broadcast_tensors(*[torch.as_tensor(a, dtype=x.dtype) for a in (x, t)]), reduction="none"
    ),
    "_cross_entropy": lambda x, t, ignored, smoothing: torch.nn.functional.cross_entropy(
        x, t, ignore_index=ignored, label_smoothing=smoothing, reduction="none"
    ),
    "_cross_entropy_backward": cross_entropy_backward,
    "_embedding": lambda weight, indices, padding, by_count: torch.nn.functional.embedding(
        indices, weight, padding if padding >= 0 else None, scale_grad_by_freq=by_count
    ),
    "embedding_dense_backward": torch.ops.aten.embedding_dense_backward,
    "native_dropout_backward": torch.ops.aten.native_dropout_backward,
    **ARRANGED,
    **{
        name: getattr(torch.linalg, name.partition(".")[0].removeprefix("linalg_"))
        for name in OPERATORS
        if name.startswith("linalg_") and hasattr(torch.linalg, name.partition(".")[0].removeprefix("linalg_"))
    },
    "cholesky_solve": lambda b, f, upper=False: torch.cholesky_solve(b, f.triu() if upper else f.tril(), upper),
    "cholesky_inverse": lambda f, upper=False: torch.cholesky_inverse(f.triu() if upper else f.tril(), upper),
    "linalg_lstsq": lambda a, b: torch.linalg.lstsq(a, b)[:1],
    # PyTorch's own has no gradient for these orders: it writes to what it has saved.
    **dict.fromkeys(
        ("linalg_cond", "linalg_cond.p_str"),
        lambda x, p=None: (
            torch.linalg.cond(x, p)
            if p in (None, 2, -2)
            else torch.linalg.matrix_norm(x, p) * torch.linalg.matrix_norm(torch.linalg.inv(x), p)
        ),
    ),
    "linalg_eigh": eigh,
    "linalg_svd": svd,
    "linalg_eigvalsh": lambda x, UPLO="L": torch.linalg.eigvalsh(x, UPLO.upper()),
    "linalg_pinv": lambda x, rcond: torch.linalg.pinv(x, rtol=rcond),
    "tensordot": lambda a, b, first, second: torch.tensordot(a, b, (first, second)),
    "einsum": lambda equation, tensors, path=None: torch.einsum(equation, *tensors),
    "_cdist_backward": cdist_backward,
    # PyTorch's cdist has no second gradient.
    "cdist": lambda a, b, p=2.0, mode=2: torch.linalg.vector_norm(a.unsqueeze(-2) - b.unsqueeze(-3), p, -1),
    "index": indexed,
    "index_backward": index_backward,
    "select_backward": torch.ops.aten.select_backward,
    "slice_backward": lambda g, sizes, dim, start, end, step: torch.ops.aten.slice_backward(
        g,
        sizes,
        dim,
        *[
            max(0, min(n + sizes[dim] if n < 0 else n, sizes[dim]))
            for n in (start or 0, sizes[dim] if end is None else end)
        ],
        step,
    ),
    "slice": sliced,
    "index_put": lambda x, indices, values, accumulate=False: torch.index_put(x, places(indices), values, accumulate),
    "index_put_": lambda x, indices, values, accumulate=False: x.clone().index_put_(
        places(indices), values, accumulate
    ),
    "div.Tensor_mode": lambda x, y, rounding_mode=None: torch.div(x, y, rounding_mode=rounding_mode),
    "round.decimals": lambda x, decimals: torch.round(x, decimals=decimals),
    "gelu_backward": lambda g, x, approximate="none": torch.ops.aten.gelu_backward(g, x, approximate=approximate),
    "log_sigmoid": torch.nn.functional.logsigmoid,
    **{f"masked_fill.{overload}": torch.masked_fill for overload in ("Scalar", "Tensor")},
    **{f"scatter.{overload}": torch.scatter for overload in ("src", "value")},
    "split.sizes": torch.split,
    "as_strided_scatter": written_as_strided,  # PyTorch's own gives a gradient to what has been replaced
    "_to_copy": lambda x, dtype=None, device=None: x.to(dtype or x.dtype, copy=True),
    "linear": torch.nn.functional.linear,
    "convolution_backward": convolution_backward,
    "im2col": torch.nn.functional.unfold,
    "col2im": torch.nn.functional.fold,
    **{f"conv{n}d.padding": getattr(torch.nn.functional, f"conv{n}d") for n in (1, 2, 3)},
    **{f"conv_transpose{n}d.input": getattr(torch.nn.functional, f"conv_transpose{n}d") for n in (2, 3)},
    **{
        f"max_pool{n}d_with_indices": functools.partial(max_pool, getattr(torch.nn.functional, f"max_pool{n}d"), True)
        for n in (1, 2, 3)
    },
    **{
        f"max_pool{n}d_backward": functools.partial(max_pool_backward, getattr(torch.nn.functional, f"max_pool{n}d"))
        for n in (2, 3)
    },
    **{f"avg_pool{n}d_backward": getattr(torch.ops.aten, f"avg_pool{n}d_backward") for n in (2, 3)},
    "cross_entropy": torch.nn.functional.cross_entropy,
    "sum": reduced("sum"),
    "mean": reduced("mean"),
    "max.dim": lambda x, dim, keepdim=False: torch.max(x, dim, keepdim),
    "argmax": lambda x, dim=None, keepdim=False: torch.argmax(x, dim, keepdim),
    "expand": lambda x, size: x.expand(size),
    "softmax": lambda x, dim, dtype=None: torch.softmax(x, dim, dtype=dtype),
    "log_softmax": lambda x, dim, dtype=None: torch.log_softmax(x, dim, dtype=dtype),
    "full": lambda size, value, dtype=None, device=None: torch.full(size, value, dtype=dtype),
    "eye": lambda n, m=None, dtype=None, device=None: torch.eye(n, n if m is None else m, dtype=dtype),
    "arange": lambda a, b, c, dtype=None, device=None: torch.arange(a, b, c, dtype=dtype),
    **{n: lambda size, dtype=None, device=None, n=n: getattr(torch, n)(size, dtype=dtype) for n in ("zeros", "ones")},
    **{n: lambda x, *args, n=n: getattr(x.clone(), n)(*args) for n in ("copy_", "fill_", "zero_")},
}


def reference(name: str) -> Any:
    op = OPERATORS[name]
    if op.functional is None:
        base = name.partition(".")[0]
        return REFERENCES.get(name) or getattr(torch, base, None) or getattr(torch.nn.functional, base)
    name = name.partition(".")[0]
    if hasattr(torch.Tensor, name):
        return lambda x, *args, **kwargs: getattr(x.clone(), name)(*args, **kwargs)
    function = getattr(torch.nn.functional, op.functional.name)
    return lambda x, *args, **kwargs: x.clone().copy_(function(x, *args, **kwargs))


def to_torch(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return type(value)([to_torch(v) for v in value])
    if isinstance(value, tp.dtype):
        return getattr(torch, value.name)
    if not isinstance(value, tp.Tensor):
        return value
    if value.dtype is tp.bfloat16:
        return torch.tensor(value.tolist(), dtype=torch.bfloat16).reshape(value.shape)
    return torch.from_numpy(np.array(value.detach().numpy()))


def tensors_of(values: Any, kind: type) -> Iterator[Any]:
    for value in values:
        if isinstance(value, (list, tuple)):
            yield from tensors_of(value, kind)
        elif isinstance(value, kind):
            yield value


def inexact(tensors: Iterator[Any]) -> list[Any]:
    return [t for t in tensors if t.is_floating_point() or t.is_complex()]


def as_list(tensor: Any) -> Any:
    tensor = tensor.detach()
    if isinstance(tensor, torch.Tensor):
        tensor = torch.zeros_like(tensor) if tensor._is_zerotensor() else tensor.resolve_conj().resolve_neg()
    return tensor.tolist()


def close(ours: Any, theirs: Any, place: str, what: str) -> None:
    assert tuple(ours.shape) == tuple(theirs.shape), f"{place}: {what}: shape {ours.shape}, torch {tuple(theirs.shape)}"
    name = str(theirs.dtype).removeprefix("torch.")
    assert ours.dtype.name == name, f"{place}: {what}: dtype {ours.dtype.name}, torch {name}"
    rtol, atol = {
        "float16": (2e-3, 1e-3),
        "bfloat16": (2e-2, 2e-2),
        "float32": (2e-6, 1e-5),
        "complex64": (2e-6, 1e-5),
    }.get(name, (1e-9, 1e-9))
    try:
        tp.testing.assert_close(as_list(ours), as_list(theirs), rtol=rtol, atol=atol)
    except AssertionError as error:
        raise AssertionError(f"{place}: {what}: ours {as_list(ours)}, torch {as_list(theirs)}: {error}") from None
    COUNTS[what] += 1


def cotangents(results: list[Any]) -> list[tp.Tensor]:
    made = []
    for y in results:
        values = np.cos(np.arange(1.0, y.numel() + 1)).reshape(y.shape)
        values = values * (1 - 0.5j) if y.is_complex() else values
        made.append(
            tp.tensor(values.tolist() if values.size else 0, dtype=y.dtype)
            if values.size
            else y.detach().new_zeros(y.shape)
        )
    return made


@pytest.mark.parametrize("name", [name for name in OPERATORS if name not in CREATED])
def test_values_and_gradients(name):
    op = OPERATORS[name]
    theirs = reference(name)
    seen = 0
    for dtype in DTYPES:
        if (name, dtype) in DIFFERENT_DTYPES:
            continue
        for sample in samples(op.functional or op, dtype=dtype):
            place = f"{name}, {dtype}, sample {sample.name!r}"
            if (name, sample.name) in DIFFERENT or ("complex" in dtype and sample.name == "special values"):
                COUNTS["left out"] += 1
                continue
            args, kwargs = sample.build(tp)
            targs, tkwargs = to_torch(args), {k: to_torch(v) for k, v in kwargs.items() if k != "device"}
            mine = inexact(tensors_of((*args, *kwargs.values()), tp.Tensor))
            other = inexact(tensors_of((*targs, *tkwargs.values()), torch.Tensor))
            for t in (*mine, *other) if name not in WITHOUT_GRADIENT else ():
                t.requires_grad_()
            try:
                expected = theirs(*in_domain(op, [*targs]), **tkwargs)
            except (RuntimeError, IndexError, NotImplementedError, TypeError) as error:
                COUNTS["torch refuses"] += 1
                REFUSED.setdefault((name, str(error).splitlines()[0][:100]), place)
                continue
            call_args = (args[0].clone(), *args[1:]) if op.is_inplace else in_domain(op, [*args])
            try:
                actual = op.function(*call_args, **kwargs)
            except tp.TensorPlayError as error:
                if op.is_inplace:  # what cannot be written is a separate test
                    continue
                raise AssertionError(f"{place}: {error}") from error
            results = list(tensors_of((actual,), tp.Tensor))
            references = list(tensors_of((tuple(expected) if isinstance(expected, tuple) else expected,), torch.Tensor))
            if name == "linalg_lstsq":  # what is left, and the rank, depend on the driver
                results = results[:1]
            for a, b in zip(results, references, strict=True):
                close(a, b, place, "values")
            check_gradients(place, mine, other, results, references)
            seen += 1
    assert seen


REFUSED: dict[tuple[str, str], str] = {}


def check_gradients(place: str, mine: Any, other: Any, results: Any, references: Any) -> None:
    pairs = [(a, b) for a, b in zip(results, references, strict=True) if a.requires_grad and b.requires_grad]
    assert [a.requires_grad for a in results] == [b.requires_grad for b in references], f"{place}: requires_grad"
    if not pairs or not mine:
        return
    ours, theirs = zip(*pairs, strict=True)
    v = cotangents(list(ours))
    first = tp.autograd.grad(ours, mine, v, create_graph=True, allow_unused=True)
    w = [to_torch(t) for t in v]
    second = torch.autograd.grad(theirs, other, w, create_graph=True, allow_unused=True)
    for a, b, t in zip(first, second, mine, strict=True):
        close(
            t.new_zeros(t.shape) if a is None else a,
            torch.zeros(tuple(t.shape), dtype=other[0].dtype) if b is None else b,
            place,
            "gradients",
        )
    double = [(a, b) for a, b in zip(first, second, strict=True) if a is not None and b is not None]
    double = [(a, b) for a, b in double if a.requires_grad and b.requires_grad]
    if not double or ("float64" not in place and "complex128" not in place):
        return
    u = cotangents([a for a, _ in double])
    third = tp.autograd.grad([a for a, _ in double], mine, u, allow_unused=True)
    fourth = torch.autograd.grad([b for _, b in double], other, [to_torch(t) for t in u], allow_unused=True)
    for a, b, t, s in zip(third, fourth, mine, other, strict=True):
        close(
            t.new_zeros(t.shape) if a is None else a,
            torch.zeros_like(s) if b is None else b,
            place,
            "second gradients",
        )


def test_every_different_operator_exists():
    assert {name for name, _ in DIFFERENT} <= set(OPERATORS)
    assert set(REFERENCES) <= set(OPERATORS)


def test_report(capsys):
    """Prints what was compared, and what torch refused; the last test of the file."""
    with capsys.disabled():
        print(f"\ntorch {torch.__version__}: {', '.join(f'{name}: {n}' for name, n in sorted(COUNTS.items()))}")
        for (name, text), place in sorted(REFUSED.items()):
            if OPERATORS[name].is_inplace:  # a result that does not fit: refused here too
                continue
            print(f"  torch refuses {name}: {text} (first: {place})")
