"""Indexing, views, joining and writes along an index: where PyTorch differs, and what computes the same."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

DIFFERENT: dict[tuple[str, str], str] = {}
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
DIFFERENT_DTYPES: dict[tuple[str, str], str] = dict.fromkeys(
    [("scatter_reduce_.two", dtype) for dtype in ("complex64", "complex128")],
    "PyTorch has no gradient of it for complex numbers",
)


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


def sliced(x: Any, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Any:
    return torch.ops.aten.slice(x, dim, start, end, step)


def by_method(name: str) -> Any:
    return lambda x, *args, **kwargs: getattr(x.clone() if name.endswith("_") else x, name)(*args, **kwargs)


REFERENCES: dict[str, Any] = {
    **{name: by_method(name) for name in ("repeat", "unfold", "index_add_", "index_copy_")},
    **{f"index_fill.{overload}": torch.index_fill for overload in ("int_Scalar", "int_Tensor")},
    **{f"index_fill_.{overload}": by_method("index_fill_") for overload in ("int_Scalar", "int_Tensor")},
    **{f"repeat_interleave.{name}": torch.repeat_interleave for name in ("Tensor", "self_Tensor", "self_int")},
    **{f"{name}.{kind}": getattr(torch, name) for name in ("hsplit", "vsplit", "dsplit") for kind in ("int", "array")},
    **{f"tensor_split.{overload}": torch.tensor_split for overload in ("sections", "indices")},
    "scatter_reduce.two": torch.scatter_reduce,
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
    **{f"masked_fill.{overload}": torch.masked_fill for overload in ("Scalar", "Tensor")},
    **{f"scatter.{overload}": torch.scatter for overload in ("src", "value")},
    "split.sizes": torch.split,
    "as_strided_scatter": written_as_strided,  # PyTorch's own gives a gradient to what has been replaced
    "_to_copy": lambda x, dtype=None, device=None: x.to(dtype or x.dtype, copy=True),
    "expand": lambda x, size: x.expand(size),
    **{n: lambda x, *args, n=n: getattr(x.clone(), n)(*args) for n in ("copy_", "fill_", "zero_")},
}
"""What repeats, divides and writes along an index, where its name says no function of PyTorch's."""
