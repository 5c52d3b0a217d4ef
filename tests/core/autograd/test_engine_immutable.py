"""The backward pass on a device whose arrays cannot be written to, and which therefore has no kernel that writes."""

from __future__ import annotations

import numpy as np
import pytest

import tensorplay as tp
from tensorplay_composite.arrays import ArrayDevice, kernels
from tensorplay_core.dispatch import devices
from tensorplay_core.dispatch.keys import backend_key
from tensorplay_core.dispatch.registry import REGISTRY


def frozen(kernel):
    def run(*args, **kwargs):
        result = np.array(kernel(*args, **kwargs))
        result.flags.writeable = False
        return result

    return run


@pytest.fixture(autouse=True)
def immutable():
    key = backend_key("immutable")
    devices.install("immutable", ArrayDevice(np, mutable=False, views=False), 1, "tests-immutable")
    staging = REGISTRY.stage("immutable", "tests-immutable")
    for name, kernel in kernels(np).items():
        op = REGISTRY.operators.get(f"tp::{name}")
        if op is not None and "!)" not in op.schema_text:
            staging.impl(name, key, frozen(kernel))
    committed = staging.commit()
    yield
    committed.undo()
    devices.uninstall("immutable")


@pytest.mark.parametrize("graph", [False, True])
def test_gradients_are_summed_without_writing(graph):
    x = tp.tensor([1.0, 2.0], device="immutable", requires_grad=True)
    for passes in range(1, 4):
        (x * x + x * 3).sum().backward(create_graph=graph)  # three gradients arrive at the leaf
        assert x.grad.tolist() == [passes * 5.0, passes * 7.0]


def test_a_gradient_that_was_handed_out_stays_what_it_was():
    x = tp.tensor([1.0, 2.0], device="immutable", requires_grad=True)
    x.sum().backward()
    first = x.grad
    x.sum().backward()
    assert first.tolist() == [1.0, 1.0] and x.grad.tolist() == [2.0, 2.0]
