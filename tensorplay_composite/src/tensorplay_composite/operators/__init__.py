"""Operators written in other operators: tensors in, tensors out, for every device.

Explicit ones (those with a derivative in the contract) run below autograd and serve a device without a kernel of its
own, or a call whose keywords the device's kernel does not take. Implicit ones run with autograd active, so that their
gradient is that of the operators they call. The contract says which is which.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tensorplay_composite.operators import indexing, loss, nn, pointwise, reduction, view

KERNELS: dict[str, Callable[..., Any]] = {
    "add": pointwise.add,
    "sub": pointwise.sub,
    "sigmoid": pointwise.sigmoid,
    "relu": pointwise.relu,
    "sum": reduction.sum,
    "mean": reduction.mean,
    "softmax": nn.softmax,
    "log_softmax": nn.log_softmax,
    "linear": nn.linear,
    "cross_entropy": loss.cross_entropy,
    "index_put_": indexing.index_put_,
    "index_put": indexing.index_put,
    "index_select": indexing.index_select,
    "masked_select": indexing.masked_select,
    "masked_fill.Scalar": indexing.masked_fill,
    "masked_fill.Tensor": indexing.masked_fill,
    "masked_scatter": indexing.masked_scatter,
    "gather": indexing.gather,
    "scatter.src": indexing.scatter,
    "scatter.value": indexing.scatter,
    "scatter_add": indexing.scatter_add,
    "take": indexing.take,
    "split": view.split,
    "split.sizes": view.split_with_sizes,
    "chunk": view.chunk,
    "narrow": view.narrow,
    "movedim": view.movedim,
    "flatten": view.flatten,
    "unflatten": view.unflatten,
    "t": view.t,
    "stack": view.stack,
    "flip": view.flip,
    "select_scatter": view.select_scatter,
    "slice_scatter": view.slice_scatter,
    "diagonal_scatter": view.diagonal_scatter,
    "as_strided_scatter": view.as_strided_scatter,
}
"""Name in the contract to Composite kernel."""
