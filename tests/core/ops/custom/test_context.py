"""What a context keeps: as nodes keep tensors, whatever they are put into."""

from __future__ import annotations

import gc
import weakref
from typing import NamedTuple

import numpy as np
import pytest

import tensorplay as tp

custom_op = tp.library.custom_op


def leaf(data):
    return tp.tensor(data, dtype=tp.float64, requires_grad=True)


class Pair(NamedTuple):
    first: tp.Tensor
    second: int


KEEP = {
    "a tensor": (lambda x: x, lambda kept: kept),
    "a list": (lambda x: [1, x], lambda kept: kept[1]),
    "a tuple": (lambda x: (x, 2), lambda kept: kept[0]),
    "a named tuple": (lambda x: Pair(x, 2), lambda kept: kept.first),
    "a dict of lists": (lambda x: {"n": 1, "xs": [x]}, lambda kept: kept["xs"][0]),
}


@pytest.mark.parametrize("how", KEEP)
@pytest.mark.parametrize("what", ["input", "output"])
def test_what_an_attribute_holds_is_kept_as_saved_tensors_are(how, what):
    put, take = KEEP[how]
    op = custom_op("t::exp", lambda x: tp.from_numpy(np.exp(x.numpy())), mutates_args=(), schema="(Tensor x) -> Tensor")

    def setup_context(ctx, inputs, output):
        ctx.kept = put(output if what == "output" else inputs[0])

    def backward(ctx, grad):
        kept = take(ctx.kept)
        return grad * (kept if what == "output" else tp.exp(kept))

    op.register_autograd(backward, setup_context=setup_context)
    x = leaf([0.5, -1.0])
    tp.autograd.gradcheck(op, (x,))
    tp.autograd.gradgradcheck(op, (x,))
    gc.disable()
    try:
        y = op(x)
        dead = weakref.ref(y.grad_fn)
        del y
        assert dead() is None  # no cycle, so nothing waits for the collector
    finally:
        gc.enable()
    inner = x * 1
    y = op(inner)
    z = (y * 1).sum()
    (y if what == "output" else inner).add_(1)
    with pytest.raises(tp.AutogradError, match=r"(?s)t::exp saved '(x|result)'.* modified in place"):
        z.backward()


def test_tensors_are_saved_one_by_one():
    op = custom_op("t::same", lambda x: x * 1, mutates_args=(), schema="(Tensor x) -> Tensor")
    op.register_autograd(
        lambda ctx, grad: grad, setup_context=lambda ctx, inputs, output: ctx.save_for_backward(inputs)
    )
    with pytest.raises(
        tp.AutogradError, match=r"argument 0 is tuple\nfix: keep it with save_for_backward\(\*tensors\)"
    ):
        op(leaf([1.0]))
