"""Reductions, scans and sorting: where PyTorch differs, and what computes the same."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

NAN_STAYS = "the sign of NaN is NaN here, as in the array API and NumPy; PyTorch makes it 0"
OTHERS = "the gradient is made of the other elements; PyTorch divides by an element that is infinite or NaN"
NO_DIM = "an empty dim means all; PyTorch's gradient takes it for none"
NOTHING = "where the sum is of nothing but exp(-inf), and at -inf, the gradient is 0; PyTorch's is NaN"
DIFFERENT: dict[tuple[str, str], str] = {
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
    ("unique_dim", "slices with nan"): "NaN takes part in the order as the largest; PyTorch leaves it open",
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
WITHOUT_GRADIENT: dict[str, str] = {
    **dict.fromkeys(
        ("_unique2", "unique_dim", "unique_dim_consecutive"), "PyTorch's result claims a gradient, and has none"
    ),
}
DIFFERENT_DTYPES: dict[tuple[str, str], str] = {
    ("any", "uint8"): "the result is bool; PyTorch's is uint8",
    ("all", "uint8"): "the result is bool; PyTorch's is uint8",
    **dict.fromkeys(
        [("logcumsumexp", name) for name in ("float16", "bfloat16")],
        "the gradient is made of the rounded result, of which PyTorch takes another power",
    ),
}


def reduced(name: str) -> Any:
    def reference(x: Any, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Any:
        # A 0-d tensor keeps its shape whatever keepdim says.
        return getattr(torch, name)(x, dim=dim, keepdim=keepdim, dtype=dtype)

    return reference


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


def differing(name: str) -> Any:
    """Returns an operator of PyTorch's that gives what was not asked for too, which its Python function leaves out."""

    def reference(x: Any, dim: int, return_inverse: bool = False, return_counts: bool = False) -> Any:
        found = getattr(torch.ops.aten, name)(x, dim, return_inverse=return_inverse, return_counts=return_counts)
        asked = (True, return_inverse, return_counts)
        return tuple(each if wanted else each[:0] for each, wanted in zip(found, asked, strict=True))

    return reference


REFERENCES: dict[str, Any] = {
    "sort": lambda x, dim=-1, descending=False: torch.sort(x, dim=dim, descending=descending, stable=True),
    "argsort": lambda x, dim=-1, descending=False: torch.argsort(x, dim=dim, descending=descending, stable=True),
    "msort": lambda x: torch.sort(x, dim=0, stable=True)[0] if x.ndim else x.clone(),
    "topk": ordered("topk"),
    "kthvalue": ordered("kthvalue"),
    **{name: differing(name) for name in ("unique_dim", "unique_dim_consecutive")},
    "median.dim": ordered("median"),
    "bincount": lambda x, weights=None, n=0: torch.bincount(x, None if weights is None else weights.detach(), n),
    "sum": reduced("sum"),
    "mean": reduced("mean"),
    "max.dim": lambda x, dim, keepdim=False: torch.max(x, dim, keepdim),
    "argmax": lambda x, dim=None, keepdim=False: torch.argmax(x, dim, keepdim),
}
