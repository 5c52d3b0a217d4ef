"""Linear algebra and distances: where PyTorch differs, and what computes the same."""

from __future__ import annotations

from typing import Any

import pytest

from tensorplay_core.dispatch.registry import REGISTRY

torch = pytest.importorskip("torch", reason="torch is not installed")

OPERATORS = {op.display_name: op for op in REGISTRY.operators.values() if op.namespace == "tp"}
DIFFERENT: dict[tuple[str, str], str] = {}
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
DIFFERENT_DTYPES: dict[tuple[str, str], str] = {
    ("_cdist_backward", "float16"): "the second slope is computed in float32; PyTorch rounds every step",
    ("_cdist_backward", "bfloat16"): "the second slope is computed in float32; PyTorch rounds every step",
    **{
        (name, dtype): "half precisions compute in float32 and round once; PyTorch rounds each step"
        for name in ("cosine_similarity", "normalize", "pairwise_distance")
        for dtype in ("float16", "bfloat16")
    },
    **{
        ("einsum", dtype): "the result has the dtype of the operands; PyTorch's is int64 where a single one is summed"
        for dtype in ("bool", "uint8", "int8")
    },
}


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


def cdist_backward(grad: Any, a: Any, b: Any, p: float, distance: Any) -> Any:
    """In differences, since PyTorch's own has no gradient."""
    difference, r = a.unsqueeze(-2) - b.unsqueeze(-3), distance.unsqueeze(-1)
    share = difference / torch.where(r == 0, 1, r)
    slope = (
        share if p == 2 else difference.sign() if p == 1 else share * 0 if p == 0 else share * share.abs() ** (p - 2)
    )
    return (grad.unsqueeze(-1) * torch.where(r == 0, 0, slope)).sum(-2)


REFERENCES: dict[str, Any] = {
    "_cdist_backward": cdist_backward,
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
    # PyTorch's cdist has no second gradient.
    "cdist": lambda a, b, p=2.0, mode=2: torch.linalg.vector_norm(a.unsqueeze(-2) - b.unsqueeze(-3), p, -1),
}
