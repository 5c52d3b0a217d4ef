"""What a graph costs: bytes and time per node to build, to walk backward and to drop; and that training does not grow.

Three shapes of graph: a chain, where each node has one input; a wide one, where the branches are added up; and a row
of diamonds, where each part is used twice. The collector is off throughout, so whatever outlived its use would stay.
Bytes are those that Python and NumPy ask for (``tracemalloc``), measured on a graph of at most 20,000 nodes; times are
of the whole one. The training step is a small classifier; its peak is compared between the first and the last steps.

``--check`` exits with 1 when a gradient is wrong, a node outlives its graph, or the peak grows; ``--json`` prints the
figures for a program; ``--nodes`` and ``--steps`` say how much.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
import time
import tracemalloc
import weakref
from collections.abc import Callable
from typing import Any

import tensorplay as tp

TRACED = 20_000
"""Nodes of the graph whose bytes are counted: tracing makes everything several times slower."""
WARM = 50
"""Training steps before the first that counts: what Python and NumPy cache is theirs, and does not come back."""
ALLOWED = 4096
"""Bytes by which the peak of a training step may differ: the interpreter's own caches come and go."""


def chain(x: tp.Tensor, w: tp.Tensor, nodes: int) -> tuple[tp.Tensor, float]:
    """Returns x after additions of w, each a node, and the gradient of x."""
    y = x
    for _ in range(nodes):
        y = y + w
    return y, 1.0


def wide(x: tp.Tensor, w: tp.Tensor, nodes: int) -> tuple[tp.Tensor, float]:
    """Returns the sum of branches ``x * w``: half of the nodes multiply, the others add."""
    y = x
    for _ in range(nodes // 2):
        y = y + x * w
    return y, 1.0 + nodes // 2


def diamonds(x: tp.Tensor, w: tp.Tensor, nodes: int) -> tuple[tp.Tensor, float]:
    """Returns x after rounds in which a product and a difference of one tensor meet: its gradient stays 1."""
    y = x
    for _ in range(nodes // 3):
        y = y * w - (y - y)
    return y, 1.0


SHAPES: dict[str, Callable[[tp.Tensor, tp.Tensor, int], tuple[tp.Tensor, float]]] = {
    "chain": chain,
    "wide": wide,
    "diamonds": diamonds,
}


def inputs() -> tuple[tp.Tensor, tp.Tensor]:
    """Returns a leaf of one element, and a constant 1."""
    return tp.ones(1, dtype=tp.float64, requires_grad=True), tp.ones(1, dtype=tp.float64)


def measure(shape: str, nodes: int) -> dict[str, Any]:
    """Returns the figures of one graph, in bytes and nanoseconds per node."""
    build = SHAPES[shape]
    x, w = inputs()
    start = time.perf_counter_ns()
    y, expected = build(x, w, nodes)
    built = time.perf_counter_ns()
    y.backward()
    walked = time.perf_counter_ns()
    last = weakref.ref(y._node)
    del y
    dropped = time.perf_counter_ns()
    return {
        "name": shape,
        "nodes": nodes,
        "bytes": traced(shape, min(nodes, TRACED)),
        "build": (built - start) / nodes,
        "backward": (walked - built) / nodes,
        "drop": (dropped - walked) / nodes,
        "right": x.grad is not None and x.grad.item() == expected and last() is None,
    }


def traced(shape: str, nodes: int) -> float:
    """Returns the bytes that a node keeps until the graph is dropped."""
    x, w = inputs()
    SHAPES[shape](x, w, 100)  # whatever the first calls cache
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    y, _ = SHAPES[shape](x, w, nodes)
    after = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    del y
    return (after - before) / nodes


def train(steps: int) -> dict[str, Any]:
    """Returns the peaks of the first and of the last tenth of some training steps, in bytes."""
    tp.manual_seed(0)
    x, target = tp.randn(64, 32), tp.tensor([i % 10 for i in range(64)])
    weights = [tp.randn(32, 32) * 0.1, tp.zeros(32), tp.randn(10, 32) * 0.1, tp.zeros(10)]
    for weight in weights:
        weight.requires_grad_()
    linear, cross_entropy = tp.nn.functional.linear, tp.nn.functional.cross_entropy

    def step() -> None:
        hidden = linear(x, weights[0], weights[1]).relu()
        cross_entropy(linear(hidden, weights[2], weights[3]), target).backward()
        with tp.no_grad():
            for weight in weights:
                assert weight.grad is not None
                weight.sub_(weight.grad * 0.1)
                weight.grad = None

    tenth, first, last = max(1, steps // 10), 0, 0
    tracemalloc.start()
    for _ in range(WARM):
        step()
    for i in range(steps):
        tracemalloc.reset_peak()
        step()
        peak = tracemalloc.get_traced_memory()[1]
        if i < tenth:
            first = max(first, peak)
        if i >= steps - tenth:
            last = max(last, peak)
    tracemalloc.stop()
    return {"steps": steps, "first": first, "last": last, "grown": last - first}


def main() -> int:
    """Prints the tables; returns 1 when asked to check and something is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=1_000_000, help="nodes of each graph")
    parser.add_argument("--steps", type=int, default=1_000, help="training steps")
    parser.add_argument("--check", action="store_true", help="exit with 1 when something is wrong")
    parser.add_argument("--json", action="store_true", help="print the figures for a program")
    options = parser.parse_args()
    gc.collect()
    gc.disable()
    rows = [measure(shape, options.nodes) for shape in SHAPES]
    training = train(options.steps)
    gc.enable()
    if options.json:
        print(json.dumps({"rows": rows, "training": training}))
    else:
        print(f"graphs of {options.nodes:,} nodes; recursion limit {sys.getrecursionlimit()}, collector off")
        print(f"{'':12}{'bytes/node':>12}{'build ns':>12}{'backward ns':>13}{'drop ns':>10}")
        for row in rows:
            wrong = "" if row["right"] else "  WRONG: the gradient, or a node that is still alive"
            figures = f"{row['bytes']:>12.0f}{row['build']:>12.0f}{row['backward']:>13.0f}{row['drop']:>10.0f}"
            print(f"{row['name']:12}{figures}{wrong}")
        print(
            f"peak of a training step: {training['first']:,} bytes in the first {max(1, options.steps // 10)} of "
            f"{options.steps:,}, {training['last']:,} in the last: {training['grown']:+,}"
        )
    fine = all(row["right"] for row in rows) and training["grown"] <= ALLOWED
    return 0 if fine or not options.check else 1


if __name__ == "__main__":
    sys.exit(main())
