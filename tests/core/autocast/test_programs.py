"""Random programs that nest regions, modes, generators, tasks and exceptions: what a product computes in is known."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

import tensorplay as tp
from tensorplay_core.dispatch import active
from tensorplay_core.dispatch.context import STATE

PROGRAMS = 2000
X, W = tp.ones(2, 2), tp.ones(2, 2, requires_grad=True)
HALVES = (tp.float16, tp.bfloat16)


class Expected:
    """A model of the state: what is on for two devices, whether gradients are recorded."""

    def __init__(self) -> None:
        self.dtypes: dict[str, tp.dtype | None] = {"cpu": None, "loopback": None}
        self.grad = True

    def check(self) -> None:
        y = X @ W
        assert y.dtype is (self.dtypes["cpu"] or tp.float32)
        assert y.requires_grad is self.grad
        assert tp.is_autocast_enabled("cpu") is (self.dtypes["cpu"] is not None)
        assert tp.is_autocast_enabled("loopback") is (self.dtypes["loopback"] is not None)
        if self.grad:
            (gradient,) = tp.autograd.grad(y, W, tp.ones_like(y))
            assert gradient.dtype is tp.float32 and gradient.tolist() == [[2.0, 2.0]] * 2


def block(rng: random.Random, model: Expected, depth: int) -> None:
    """Opens something, goes on inside, leaves it in one of several ways, and checks at every turn."""
    kind = rng.choice(
        ("autocast", "autocast", "off", "no_grad", "enable_grad", "decorated", "generator", "raises", "set")
    )
    before = dict(model.dtypes), model.grad
    device, half = rng.choice(("cpu", "loopback")), rng.choice(HALVES)
    half = tp.float16 if device == "loopback" else half

    def inside() -> None:
        model.check()
        for _ in range(rng.randint(0, 2) if depth else 0):
            block(rng, model, depth - 1)
            model.check()

    def on() -> None:
        model.dtypes[device] = half
        inside()

    actions: dict[str, Callable[[], None]] = {
        "decorated": lambda: tp.autocast(device, half)(on)(),
        "generator": lambda: [None for _ in tp.autocast(device, half)(stepped)()] and None,  # type: ignore[func-returns-value]
    }

    def stepped() -> Iterator[None]:
        held = model.dtypes[device]
        for _ in range(2):
            model.dtypes[device] = half
            inside()
            model.dtypes[device] = held  # between two steps the caller's state holds
            yield None

    if kind in actions:
        actions[kind]()
    else:
        with ExitStack() as stack:
            if kind == "raises":
                stack.enter_context(pytest.raises(ZeroDivisionError))
            if kind in ("autocast", "raises", "set"):
                stack.enter_context(tp.autocast(device, half, cache_enabled=rng.choice((None, True, False))))
                model.dtypes[device] = half
            elif kind == "off":
                stack.enter_context(tp.autocast(device, enabled=False))
                model.dtypes[device] = None
            else:
                stack.enter_context(getattr(tp, kind)())
                model.grad = kind == "enable_grad"
            if kind == "set":
                tp.set_autocast_enabled(device, False)
                model.dtypes[device] = None
            inside()
            if kind == "raises":
                raise ZeroDivisionError
    model.dtypes, model.grad = before
    model.check()


def test_random_programs() -> None:
    state, special = STATE.get(), active.special
    for seed in range(PROGRAMS):
        block(random.Random(seed), Expected(), depth=3)
        assert STATE.get() is state and active.special == special, f"seed {seed}"
