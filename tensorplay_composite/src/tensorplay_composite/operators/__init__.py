"""Operators written in other operators: tensors in, tensors out, for every device.

Explicit ones (those with a derivative in the contract) run below autograd and serve a device without a kernel of its
own, or a call whose keywords the device's kernel does not take. Implicit ones run with autograd active, so that their
gradient is that of the operators they call. The contract says which is which.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tensorplay_composite.operators import loss, nn, pointwise, reduction

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
}
"""Name in the contract to Composite kernel."""
