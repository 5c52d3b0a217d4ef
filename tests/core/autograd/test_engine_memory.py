"""Deep graphs need no recursion, and nothing that a graph is made of outlives it."""

from __future__ import annotations

import gc
import json
import subprocess
import sys
import weakref
from contextlib import contextmanager
from pathlib import Path

import pytest

import tensorplay as tp
from tensorplay_core.dispatch.registry import REGISTRY
from tensorplay_core.testing.samples import samples


def leaf(data, dtype=tp.float64):
    return tp.tensor(data, dtype=dtype, requires_grad=True)


@contextmanager
def collector_off():
    """A block without the collector; what is there before is not looked at again by the next block."""
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def test_two_hundred_thousand_nodes_back_up_and_are_dropped():
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(1000)
    try:
        with collector_off():
            x = leaf([1.0])
            y = x
            for _ in range(200_000):
                y = y + 1.0
            y.sum().backward()
            assert x.grad.tolist() == [1.0]
            last = weakref.ref(y._node)
            del y
            assert last() is None
            y = x
            for _ in range(200_000):  # this one saves tensors, and is dropped without a backward pass
                y = y * 1.0
            last = weakref.ref(y._node)
            del y
            assert last() is None
    finally:
        sys.setrecursionlimit(limit)


def test_grad_through_a_deep_graph_needs_no_recursion():
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(500)
    try:
        x, y = leaf(1.0), leaf(1.0)
        z = x
        for _ in range(5_000):
            z = z * y
        assert tp.autograd.grad(z, y)[0].item() == 5_000
    finally:
        sys.setrecursionlimit(limit)


def tensors_of(values):
    for value in values:
        if isinstance(value, (list, tuple)):
            yield from tensors_of(value)
        elif isinstance(value, tp.Tensor):
            yield value


@pytest.mark.parametrize("name", [n for n, op in REGISTRY.operators.items() if op.namespace == "tp"])
def test_no_operator_makes_a_cycle(name):
    """Everything that a recorded call makes dies with its result, while the collector is off."""
    op = REGISTRY.operators[name]
    with collector_off():
        for sample in samples(op.functional or op, dtype="float32"):
            watched = [ref for ref in recorded(op, sample) if ref() is not None]
            assert not watched, f"{name}, sample {sample.name!r}: {watched[0]()!r} is kept alive by a cycle"


def recorded(op, sample):
    """Calls an operator, differentiates it, and returns weak references to all that this made."""
    args, kwargs = sample.build(tp)
    leaves = [t for t in tensors_of((*args, *kwargs.values())) if t.dtype.is_inexact]
    for t in leaves:
        t.requires_grad_()
    if op.is_inplace:
        args = (args[0] * 1, *args[1:])
    try:
        result = op.function(*args, **kwargs)
    except tp.TensorPlayError:
        assert op.is_inplace
        return []
    results = list(tensors_of((result,)))
    watched = [weakref.ref(t) for t in results if not any(t is a for a in tensors_of(args))]
    watched += [weakref.ref(t._node) for t in results if t._node is not None and not t.is_leaf]
    roots = [y for y in results if y.requires_grad]
    if roots and leaves:
        ones = [y.detach().new_ones(y.shape) for y in roots]
        try:
            found = tp.autograd.grad(roots, leaves, ones, create_graph=True, allow_unused=True)
        except tp.AutogradError:  # what is written over has no gradient, and says so: logical_not_
            assert op.is_inplace and not any(op.functional.differentiable)
            return watched
        watched += [weakref.ref(g) for g in found if g is not None]
    return watched


def test_a_training_loop_does_not_grow():
    tp.manual_seed(0)
    x = tp.randn(16, 8)
    target = tp.tensor([i % 3 for i in range(16)])
    weights = [tp.randn(12, 8), tp.zeros(12), tp.randn(3, 12), tp.zeros(3)]
    for w in weights:
        w.requires_grad_()

    def step():
        h = tp.nn.functional.linear(x, weights[0], weights[1]).relu()
        loss = tp.nn.functional.cross_entropy(tp.nn.functional.linear(h, weights[2], weights[3]), target)
        loss.backward()
        with tp.no_grad():
            for w in weights:
                w.sub_(w.grad * 0.1)
                w.grad = None
        return loss.item()

    first = step()
    grown = []
    with collector_off():
        for _ in range(20):
            step()
        for _ in range(3):  # what is lost in each step is lost every time; other threads of the process come and go
            before = (len(gc.get_objects()), sys.getallocatedblocks())
            for _ in range(300):
                last = step()
            grown.append((len(gc.get_objects()) - before[0], sys.getallocatedblocks() - before[1]))
    assert last < first
    assert min(objects for objects, _ in grown) < 50, grown
    assert min(blocks for _, blocks in grown) < 500, grown


def test_the_benchmark_of_graphs_finds_right_gradients_and_no_growth():
    benchmark = Path(__file__).parents[3] / "benchmarks/graph.py"
    command = [sys.executable, str(benchmark), "--nodes", "3000", "--steps", "100", "--check", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout)
    assert [row["name"] for row in found["rows"]] == ["chain", "wide", "diamonds"]
    assert all(row["right"] and 0 < row["bytes"] < 400 for row in found["rows"]), found
