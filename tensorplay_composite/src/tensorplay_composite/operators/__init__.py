"""Operators written in other operators: tensors in, tensors out, for every device.

Explicit ones (those with a derivative in the contract) run below autograd and serve a device without a kernel of its
own, or a call whose keywords the device's kernel does not take. Implicit ones run with autograd active, so that their
gradient is that of the operators they call. The contract says which is which.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tensorplay_composite.operators import indexing, loss, losses, nn, normalization, pointwise, reduction, view

KERNELS: dict[str, Callable[..., Any]] = {
    "add": pointwise.add,
    "sub": pointwise.sub,
    "sigmoid": pointwise.sigmoid,
    "relu": pointwise.relu,
    "sum": reduction.sum,
    "mean": reduction.mean,
    "softmax": nn.softmax,
    "log_softmax": nn.log_softmax,
    "softmin": nn.softmin,
    "linear": nn.linear,
    "cross_entropy": loss.cross_entropy,
    "nll_loss": loss.nll_loss,
    "_cross_entropy": loss._cross_entropy,
    "_cross_entropy_backward": loss._cross_entropy_backward,
    "binary_cross_entropy": losses.binary_cross_entropy,
    "binary_cross_entropy_with_logits": losses.binary_cross_entropy_with_logits,
    "cosine_embedding_loss": losses.cosine_embedding_loss,
    "gaussian_nll_loss": losses.gaussian_nll_loss,
    "hinge_embedding_loss": losses.hinge_embedding_loss,
    "huber_loss": losses.huber_loss,
    "kl_div": losses.kl_div,
    "l1_loss": losses.l1_loss,
    "margin_ranking_loss": losses.margin_ranking_loss,
    "mse_loss": losses.mse_loss,
    "poisson_nll_loss": losses.poisson_nll_loss,
    "smooth_l1_loss": losses.smooth_l1_loss,
    "soft_margin_loss": losses.soft_margin_loss,
    "triplet_margin_loss": losses.triplet_margin_loss,
    "_standardize": normalization._standardize,
    "_standardize_backward": normalization._standardize_backward,
    "batch_norm": normalization.batch_norm,
    "group_norm": normalization.group_norm,
    "instance_norm": normalization.instance_norm,
    "layer_norm": normalization.layer_norm,
    "rms_norm": normalization.rms_norm,
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
