"""``autograd.Function`` against PyTorch: the same programs, their values and gradients, and which of them raise.

Skipped, visibly, where torch is not installed.
"""

from __future__ import annotations

import warnings
from typing import Any

import pytest

import tensorplay as tp

torch = pytest.importorskip("torch", reason="torch is not installed: pip install torch, and these comparisons run")

pytestmark = [pytest.mark.peers, pytest.mark.filterwarnings("ignore")]


class World:
    """One of the two libraries, with what the programs use."""

    def __init__(self, module: Any) -> None:
        self.t = module

    def leaf(self, *values):
        return self.t.tensor(values, dtype=self.t.float64, requires_grad=True)

    def function(self, forward, backward=None, **more):
        body = {"forward": staticmethod(forward), **{name: staticmethod(f) for name, f in more.items()}}
        if backward is not None:
            body["backward"] = staticmethod(backward)
        return type("F", (self.t.autograd.Function,), body)

    def grad(self, y, *xs):
        found = self.t.autograd.grad(y.sum(), xs, allow_unused=True, retain_graph=True)
        return [None if g is None else g.tolist() for g in found]


def doubled(ctx, x):
    ctx.mark_dirty(x)
    x.mul_(2)
    return x


def written_view(w):
    base = (x := w.leaf(1.0, 2.0)) * 1
    view = base[0:1]
    y = w.function(doubled, lambda ctx, g: g * 2).apply(view)
    return base.tolist(), y is view, w.grad(base, x)


def written_base(w):
    base = (x := w.leaf(1.0, 2.0)) * 1
    view = base[0:1]
    w.function(doubled, lambda ctx, g: g * 2).apply(base)
    return view.tolist(), w.grad(view, x)


def written_result(w, forward):
    base = (x := w.leaf(1.0, 2.0)) * 1
    y = w.function(forward, lambda ctx, g: w.t.ones(2)).apply(base)
    y.mul_(2)
    return w.grad(base, x)


def saved_and_changed(w):
    h = w.leaf(1.0) * 1
    y = w.function(lambda ctx, x: (ctx.save_for_backward(x), x * x)[1],
                   lambda ctx, g: g * 2 * ctx.saved_tensors[0]).apply(h)  # fmt: skip
    h.mul_(2)
    return w.grad(y, h)


def several(w, materialize):
    seen: list[Any] = []

    def forward(ctx, x):
        ctx.set_materialize_grads(materialize)
        return x * 2, x * 3, (x > 1), None, "text"

    def backward(ctx, *gs):
        seen.extend(None if g is None else g.tolist() for g in gs)
        return gs[0]

    x = w.leaf(1.0, 2.0)
    y, z, mask, *rest = w.function(forward, backward).apply(x)
    return y.requires_grad, z.requires_grad, mask.requires_grad, rest, w.grad(y, x), seen


def one(w, backward, *others):
    x = w.leaf(1.0, 2.0)
    return w.grad(w.function(lambda ctx, x, *more: x * 2, backward).apply(x, *others), x)


def second(w):
    def forward(ctx, x):
        y = x.exp()
        ctx.save_for_backward(y)
        return y

    x = w.leaf(0.5, 1.0)
    y = w.function(forward, lambda ctx, g: g * ctx.saved_tensors[0]).apply(x)
    (g,) = w.t.autograd.grad(y.sum(), x, create_graph=True)
    return [round(v, 12) for v in w.grad(g, x)[0]]


def setup(w, *args, **kwargs):
    F = w.function(
        lambda x, a=2: x * a,
        lambda ctx, g: (g * ctx.a, None),
        setup_context=lambda ctx, inputs, output: setattr(ctx, "a", inputs[1]),
    )
    x = w.leaf(1.0)
    return w.grad(F.apply(x, *args, **kwargs), x)


PROGRAMS = {
    "a write to a view": written_view,
    "a write to a base": written_base,
    "an input that comes back is written to": lambda w: written_result(w, lambda ctx, x: x),
    "a view that comes back is written to": lambda w: written_result(w, lambda ctx, x: x[0:1]),
    "a write to what was saved": saved_and_changed,
    "a dirty leaf": lambda w: w.function(doubled).apply(w.leaf(1.0)).tolist(),
    "dirty and lost": lambda w: (
        w.function(lambda ctx, x: (ctx.mark_dirty(x), x * 2)[1]).apply(w.leaf(1.0) * 1).tolist()
    ),
    "several results": lambda w: several(w, True),
    "several results, None for what is missing": lambda w: several(w, False),
    "a gradient of None": lambda w: one(w, lambda ctx, g: None),
    "more Nones than arguments": lambda w: one(w, lambda ctx, g: (g, None, None)),
    "too few gradients": lambda w: one(w, lambda ctx, g: g, 3),
    "a gradient for a number": lambda w: one(w, lambda ctx, g: (g, g), 3),
    "a number as a gradient": lambda w: one(w, lambda ctx, g: 3),
    "a list of gradients": lambda w: one(w, lambda ctx, g: [g, None], 3),
    "a broadcast gradient": lambda w: one(w, lambda ctx, g: w.t.ones(3, 2)),
    "a small gradient": lambda w: one(w, lambda ctx, g: w.t.ones(1)),
    "an integer gradient": lambda w: one(w, lambda ctx, g: w.t.tensor([1, 2])),
    "a complex gradient": lambda w: one(w, lambda ctx, g: g * 1j),
    "no backward": lambda w: one(w, None),
    "a second derivative": second,
    "setup_context": setup,
    "setup_context with a position": lambda w: setup(w, 5),
    "setup_context with a keyword": lambda w: setup(w, a=5),
    "setup_context with a wrong keyword": lambda w: setup(w, b=5),
    "a list is not tracked": lambda w: w.function(lambda ctx, x: [x * 2]).apply(w.leaf(1.0))[0].requires_grad,
    "a tuple is not tracked": lambda w: w.function(lambda ctx, x: x[0] * 2).apply((w.leaf(1.0),)).requires_grad,
}


def outcome(program: Any, module: Any) -> Any:
    """What a program gives, or the builtin class that it raises."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return program(World(module))
    except Exception as error:
        return next(kind for kind in type(error).__mro__ if kind.__module__ == "builtins")


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_do_what_they_do_in_pytorch(name):
    assert outcome(PROGRAMS[name], tp) == outcome(PROGRAMS[name], torch)
