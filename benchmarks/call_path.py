"""What a call costs beside NumPy's own, and beside torch's where it is installed.

Everything runs interleaved in one process, in many short slices; a figure is the 5th percentile of its slices, and what
is judged is a ratio, because ratios hold on a noisy machine where times do not. ``--check`` exits with 1 when a ratio
is above its limit; ``--json`` prints the figures for a program.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import json
import sys
import time
import timeit
from contextlib import nullcontext
from typing import Any

import numpy as np

import tensorplay as tp

SLICE = 0.002
ROWS = (
    # name, measured, compared with, limit, aim
    ("tp.add", "add", "np.add", 2.9, 2.4),
    ("a + b", "a + b", "np.add", 3.0, 2.4),
    ("tp.add, recording a gradient", "add grad", "np.add", 3.9, 3.2),
    ("tp.add in no_grad", "add no_grad", "np.add", 3.3, 2.8),
    ("tp.add in inference_mode", "add inference", "np.add", 3.3, 2.8),
    ("a * 2.0", "a * 2.0", "np.add", None, None),
    ("a * n, n another each time", "a * n", "np.add", None, None),
    ("a.add_(b, alpha=n)", "add_ alpha", "np.add", None, None),
    ("a.sum()", "sum", "np.add.reduce", None, None),
    ("20 operations forward and backward", "chain", "np chain", 3.5, 2.8),
    ("the same, one gradient of the three", "chain of one", "np chain of one", None, None),
    ("tp.add to torch.add", "add", "torch.add", 0.6, 0.5),
    ("recording to torch's", "add grad", "torch.add grad", None, None),
    ("a * n to torch's", "a * n", "torch a * n", None, None),
    ("a.add_(b, alpha=n) to torch's", "add_ alpha", "torch add_ alpha", None, None),
    ("20 operations to torch's", "chain", "torch chain", None, None),
)


def numpy_chain(x: np.ndarray, w: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Ten rounds of ``h * w + b`` and the gradients of the sum with respect to x, w and b, by hand."""
    multiply, add = np.multiply, np.add
    h, saved = x, []
    for _ in range(10):
        saved.append(h)
        h = add(multiply(h, w), b)
    gb = g = np.ones_like(h)
    gw = multiply(g, saved.pop())
    g = multiply(g, w)
    while saved:
        gb = add(gb, g)
        gw = add(gw, multiply(g, saved.pop()))
        g = multiply(g, w)
    return g, gw, gb


def numpy_chain_of_one(x: np.ndarray, w: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The same with the gradient with respect to x alone."""
    multiply, add = np.multiply, np.add
    h = x
    for _ in range(10):
        h = add(multiply(h, w), b)
    g = np.ones_like(h)
    for _ in range(10):
        g = multiply(g, w)
    return g


def chain(x: Any, w: Any, b: Any, seed: Any) -> None:
    """The same in tensors, differentiated by their library with respect to those that require grad."""
    h = x
    for _ in range(10):
        h = h * w + b
    h.backward(seed)


def measures() -> dict[str, timeit.Timer]:
    """Returns what is measured, by name: statements, so that no wrapper's frame is measured with them."""
    a, b = np.arange(4, dtype=np.float32), np.ones(4, dtype=np.float32)
    x, y = tp.from_numpy(a.copy()), tp.from_numpy(b.copy())
    names = {"npadd": np.add, "reduce": np.add.reduce, "tpadd": tp.add, "chain": chain}
    names |= {
        "a": a,
        "b": b,
        "x": x,
        "y": y,
        "numpy_chain": numpy_chain,
        "numpy_chain_of_one": numpy_chain_of_one,
        "seed": tp.ones(4),
        "n": itertools.count(0.5).__next__,
    }
    names |= {name: t.clone().requires_grad_() for name, t in (("gx", x), ("gy", y), ("gb", y))}
    statements = {
        "np.add": "npadd(a, b)",
        "np.add.reduce": "reduce(a, 0)",
        "add": "tpadd(x, y)",
        "a + b": "x + y",
        "add grad": "tpadd(gx, gy)",
        "a * 2.0": "x * 2.0",
        "a * n": "x * n()",
        "add_ alpha": "x.add_(y, alpha=n())",
        "sum": "x.sum()",
        "add no_grad": "tpadd(gx, gy)",
        "add inference": "tpadd(gx, gy)",
        "np chain": "numpy_chain(a, b, b)",
        "chain": "chain(gx, gy, gb, seed)",
        "np chain of one": "numpy_chain_of_one(a, b, b)",
        "chain of one": "chain(gx, y, y, seed)",
    }
    try:
        import torch
    except ImportError:
        pass
    else:
        torch.set_num_threads(1)
        tx, ty = torch.from_numpy(a.copy()), torch.from_numpy(b.copy())
        names |= {"torchadd": torch.add, "tx": tx, "ty": ty, "tseed": torch.ones(4)}
        names |= {n: t.clone().requires_grad_() for n, t in (("tgx", tx), ("tgy", ty), ("tgb", ty))}
        statements |= {
            "torch.add": "torchadd(tx, ty)",
            "torch.add grad": "torchadd(tgx, tgy)",
            "torch a * n": "tx * n()",
            "torch add_ alpha": "tx.add_(ty, alpha=n())",
            "torch chain": "chain(tgx, tgy, tgb, tseed)",
        }
    return {name: timeit.Timer(statement, globals=names) for name, statement in statements.items()}


SCOPES = {"add no_grad": tp.no_grad, "add inference": tp.inference_mode}


def measure(seconds: float) -> dict[str, float]:
    """Returns the 5th percentile of many interleaved slices, in seconds a call, by name."""
    timers = measures()
    times = {}
    for name, timer in timers.items():
        timer.timeit(200)
        times[name] = max(1, int(SLICE / (timer.timeit(50) / 50)))
    slices: dict[str, list[float]] = {name: [] for name in timers}
    end = time.perf_counter() + seconds
    gc.disable()
    while time.perf_counter() < end:
        for name, timer in timers.items():
            with SCOPES.get(name, nullcontext)():
                slices[name].append(timer.timeit(times[name]) / times[name])
    gc.enable()
    return {name: sorted(values)[len(values) // 20] for name, values in slices.items()}


def main() -> int:
    """Prints the table; returns 1 when asked to check and a limit is passed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=6.0, help="how long to measure")
    parser.add_argument("--check", action="store_true", help="exit with 1 when a ratio is above its limit")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    options = parser.parse_args()
    seconds = measure(options.seconds)
    rows = [
        {
            "name": name,
            "ns": seconds[of] * 1e9,
            "to": to,
            "ratio": seconds[of] / seconds[to],
            "limit": limit,
            "aim": aim,
        }
        for name, of, to, limit, aim in ROWS
        if of in seconds and to in seconds
    ]
    failed = [row for row in rows if row["limit"] is not None and row["ratio"] > row["limit"]]
    if options.json:
        print(json.dumps({"rows": rows, "failed": len(failed)}, indent=1))
    else:
        print(f"{'':36}{'ns':>8}  {'ratio to':<16}{'ratio':>6}{'limit':>7}{'aim':>6}")
        for row in rows:
            limit, aim = (f"{row[k]:.1f}" if row[k] is not None else "" for k in ("limit", "aim"))
            mark = "  above the limit" if row in failed else ""
            print(f"{row['name']:36}{row['ns']:8.0f}  {row['to']:<16}{row['ratio']:6.2f}{limit:>7}{aim:>6}{mark}")
        if "torch.add" not in seconds:
            print("torch is not installed: its rows are left out")
    return 1 if options.check and failed else 0


if __name__ == "__main__":
    sys.exit(main())
