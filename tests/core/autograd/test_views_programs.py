"""Random programs of views and writes against NumPy's own views, whose imaginary parts carry exact derivatives.

An element with an imaginary part of 1e-30 times a direction carries the derivative in that direction through products,
sums and copies to the last bit (the complex-step method). What is not recorded is written to the real part alone.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tensorplay as tp
from tensorplay_composite.arrays import ArrayDevice, kernels
from tensorplay_core.dispatch import devices
from tensorplay_core.dispatch.keys import backend_key
from tensorplay_core.dispatch.registry import REGISTRY

H = 1e-30
SHAPES = {"x": (3, 4), "w": (), "y": (4,)}
START = {name: np.arange(1.0, 1 + np.prod(shape)).reshape(shape) / 8 for name, shape in SHAPES.items()}


@pytest.fixture(scope="module", autouse=True)
def copied_slices():
    """A device whose slices are copies: there a write gives every tensor of the family another array."""
    key = backend_key("copied_views")
    devices.install("copied_views", ArrayDevice(np, views=False), 1, "tests-copied-views")
    staging = REGISTRY.stage("copied_views", "tests-copied-views")
    for name, kernel in kernels(np).items():
        if (op := REGISTRY.operators.get(f"tp::{name}")) is not None:
            one = op.schema.is_view and not op.schema.returns_list
            staging.impl(name, key, (lambda *args, kernel=kernel: kernel(*args).copy()) if one else kernel)
    committed = staging.commit()
    yield
    committed.undo()
    devices.uninstall("copied_views")


class OfNumPy:
    """The program on complex arrays."""

    def leaves(self, direction):
        return [START[name] + 1j * H * direction[name] for name in SHAPES]

    def new(self, shape):
        return np.zeros(shape, complex)

    def copy(self, target, source):
        target[...] = source

    def scale(self, target, factor):
        target[...] = target * factor

    def unrecorded(self, target, number):
        target.real[...] = target.real * number

    def transposed(self, x):
        return x.swapaxes(0, -1)

    def permuted(self, x):
        return x.transpose(tuple(range(x.ndim))[::-1])


class OfTensors:
    """The program on tensors."""

    def __init__(self, device):
        self.device = device

    def leaves(self):
        return [tp.tensor(a, dtype=tp.float64, device=self.device, requires_grad=True) for a in START.values()]

    def new(self, shape):
        return tp.zeros(shape, dtype=tp.float64, device=self.device)

    def copy(self, target, source):
        target.copy_(source)

    def scale(self, target, factor):
        target.mul_(factor)

    def unrecorded(self, target, number):
        with tp.no_grad():
            target.detach().mul_(number)

    def transposed(self, x):
        return x.transpose(0, -1)

    def permuted(self, x):
        return x.permute(*range(x.ndim)[::-1])


def run(fw, leaves, steps):
    """Runs a program; returns the tensors, of which the first ones are bases."""
    x, w, y = leaves
    pool = [x * 1, y * 1, fw.new((2, 3, 4)), fw.new((3, 4))]
    for kind, i, j, a, b in steps:
        one, other = pool[i % len(pool)], pool[j % len(pool)]
        n = one.shape[0] if one.shape else 0
        if kind == "select" and n:
            pool.append(one[a % n, ...])
        elif kind == "slice" and n:
            pool.append(one[a % n :: 1 + b % 2])
        elif kind == "last" and n:
            pool.append(one[..., b % one.shape[-1]])
        elif kind == "transpose" and n:
            pool.append(fw.transposed(one))
        elif kind == "permute":
            pool.append(fw.permuted(one))
        elif kind == "unsqueeze":
            pool.append(one[None])
        elif kind == "copy" and n and other.shape:
            fw.copy(one, other[(0,) * len(other.shape)] * 1 * w)
        elif kind == "scale":
            fw.scale(one, w)
        elif kind == "number":
            fw.scale(one, 0.5 + a % 3)
        elif kind == "set" and n:
            one[a % n] = w * (1 + b % 2)
        elif kind == "unrecorded":
            fw.unrecorded(one, 2.0)
        elif kind == "value":
            pool.append(one * 2)
    return pool


KINDS = ["select", "slice", "last", "transpose", "permute", "unsqueeze", "copy", "scale", "number", "set", "unrecorded"]
NUMBER = st.integers(0, 31)
STEPS = st.lists(st.tuples(st.sampled_from([*KINDS, "value"]), NUMBER, NUMBER, NUMBER, NUMBER), min_size=3, max_size=14)


@pytest.mark.parametrize("device", ["cpu", "copied_views"])
@settings(max_examples=150, deadline=None, derandomize=True, database=None)
@given(steps=STEPS, chosen=st.lists(NUMBER, min_size=1, max_size=3))
def test_values_and_gradients_are_those_of_numpys_views(device, steps, chosen):
    fw = OfTensors(device)
    leaves = fw.leaves()
    tensors = run(fw, leaves, steps)
    rng = np.random.default_rng(len(steps))
    direction = {name: rng.integers(-3, 4, shape).astype(float) for name, shape in SHAPES.items()}
    arrays = run(OfNumPy(), OfNumPy().leaves(direction), steps)
    for tensor, array in zip(tensors, arrays, strict=True):
        np.testing.assert_allclose(np.array(tensor.tolist()), array.real, rtol=1e-12)
    loss = sum((tensors[i % len(tensors)].sum() * (k + 1) for k, i in enumerate(chosen)), leaves[1] * 0)
    slope = sum(arrays[i % len(arrays)].sum().imag * (k + 1) for k, i in enumerate(chosen)) / H
    loss.backward()
    grads = {n: np.zeros(SHAPES[n]) if t.grad is None else t.grad.tolist() for n, t in zip(SHAPES, leaves, strict=True)}
    found = sum((np.array(grads[name]) * direction[name]).sum() for name in SHAPES)
    np.testing.assert_allclose(found, slope, rtol=1e-9, atol=1e-9)
