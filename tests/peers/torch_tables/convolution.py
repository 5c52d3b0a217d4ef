"""Convolutions and pools: where PyTorch differs, and what computes the same."""

from __future__ import annotations

import functools
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

DIFFERENT: dict[tuple[str, str], str] = dict.fromkeys(
    [("adaptive_avg_pool1d", "shape (1, 3) to 0"), ("adaptive_avg_pool2d", "shape (1, 2, 2) to (0, 2)")],
    "PyTorch's backward refuses a result without elements",
) | dict.fromkeys(
    [("convolution_backward", f"transposed {name}") for name in ("stride", "dilation", "1-d")],
    "PyTorch refuses the second gradient of a transposed convolution with an output padding",
)
DIFFERENT["pixel_unshuffle", "shape (0, 9, 1, 2) factor 3"] = "PyTorch leaves the shape of an empty tensor as it is"
DIFFERENT["pixel_shuffle", "shape (0, 9, 1, 2) factor 3"] = "PyTorch's gradient of an empty result has a wrong shape"


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


REFERENCES: dict[str, Any] = {
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
}
