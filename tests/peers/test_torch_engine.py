"""Hooks, ``retain_grad``, ``inputs=`` and saved-tensor hooks against PyTorch, on random programs.

A program makes a few leaves, computes from them, writes in place, attaches hooks anywhere, and runs backward passes. It
is run once with each library, and must give the same gradients, the same calls of every hook, and the same retained
gradients. Two things that PyTorch does are left out: it refuses a hook on several tensors of which one is a leaf under
``grad``, and runs the node of a computed tensor that ``inputs=`` names, whose gradients it then drops.
"""

from __future__ import annotations

import random
from typing import Any

import pytest

import tensorplay as tp

torch = pytest.importorskip("torch", reason="torch is not installed: pip install torch, and these comparisons run")

pytestmark = pytest.mark.peers

PROGRAMS = 300


def values(tensor: Any) -> Any:
    return None if tensor is None else [round(float(v), 9) for v in tensor.detach().reshape(-1).tolist()]


def attach(t: Any, draw: random.Random, name: str, tensor: Any, log: dict[str, list[Any]]) -> bool:
    """Attaches a hook of some kind to a tensor, or its node; each notes its calls under a name of its own.

    Returns:
        Whether it is one on the tensor.
    """
    kind, factor = draw.choice(["tensor", "scale", "before", "after", "retain", "multi"]), draw.choice([-1.0, 0.5, 3.0])
    calls = log.setdefault(f"{kind} {name}", [])
    node = tensor.grad_fn
    if kind == "tensor":
        tensor.register_hook(lambda g: calls.append(values(g)))
    elif kind == "scale":
        tensor.register_hook(lambda g: g * factor)
    elif kind == "retain":
        tensor.retain_grad()
    elif kind == "multi" and node is None:
        tensor.register_hook(lambda g: calls.append([values(g)]))
    elif kind == "multi":
        t.autograd.graph.register_multi_grad_hook([tensor], lambda grads: calls.append([values(g) for g in grads]))
    elif node is not None and kind == "before":
        node.register_prehook(lambda grads: tuple(g if g is None else g * factor for g in grads))
    elif node is not None:
        node.register_hook(lambda inputs, outputs: calls.append([values(g) for g in outputs]))
    return kind not in ("before", "after")


def step(t: Any, draw: random.Random, known: list[Any]) -> Any:
    """Computes something from what is there."""
    a, b = draw.choice(known), draw.choice(known)
    kind = draw.choice(["mul", "add", "sin", "exp", "write", "view", "sum"])
    if kind == "mul":
        return a * b
    if kind == "add":
        return a + b * 0.5
    if kind == "sin":
        return a.sin()
    if kind == "exp":
        return (a * 0.1).exp()
    if kind == "view":
        return a.reshape(3, 1)[1:].sum() * b
    if kind == "sum":
        return a.sum() - b
    c = a * 1.5
    c.mul_(b)
    return c


def run(t: Any, seed: int) -> dict[str, Any]:
    """Runs a program with a library, and returns everything that can be seen."""
    draw, log = random.Random(seed), {}
    leaves = [t.tensor([draw.uniform(-1, 1) for _ in range(3)], dtype=t.float64, requires_grad=True) for _ in range(3)]
    known, computed, watched = list(leaves), [], set()
    for i in range(draw.randint(2, 8)):
        y = step(t, draw, known)
        known.append(y)
        computed.append(y)
        if draw.random() < 0.5:
            j = draw.randrange(len(known))
            if not attach(t, draw, f"{i} {j}", known[j], log):
                watched.add(j)
    ones = t.ones(3, dtype=t.float64)
    root = known[-1] * known[-2] if draw.random() < 0.5 else known[-1] + 1
    inputs = (
        draw.sample([x for j, x in enumerate(known) if j not in watched or j < 3], 2) if draw.random() < 0.3 else None
    )
    for _ in range(2):
        root.backward(ones, retain_graph=True, inputs=inputs)
    found = t.autograd.grad(root, leaves, ones, allow_unused=True, create_graph=True)
    second = sum((g * g).sum() for g in found if g is not None)
    again: Any = ()
    if getattr(second, "requires_grad", False):
        again = t.autograd.grad(second, leaves, allow_unused=True)
    return {
        "log": log,
        "leaves": [values(x.grad) for x in leaves],
        "retained": [values(y.grad) if y.retains_grad else None for y in computed],
        "grad": [values(g) for g in found],
        "second": [values(g) for g in again],
    }


@pytest.mark.filterwarnings("ignore")
def test_random_programs_with_hooks() -> None:
    for seed in range(PROGRAMS):
        ours, theirs = run(tp, seed), run(torch, seed)
        for what, value in theirs.items():
            if what == "log":
                assert list(ours["log"]) == list(value), seed
            tp.testing.assert_close(flat(ours[what]), flat(value), rtol=1e-6, atol=1e-8, msg=f"program {seed}: {what}")


def flat(value: Any) -> list[float]:
    """All numbers of nested lists and dicts in order, with a NaN for each None."""
    if value is None:
        return [float("nan")]
    if isinstance(value, dict):
        value = list(value.values())
    return [n for item in value for n in flat(item)] if isinstance(value, list) else [value]
