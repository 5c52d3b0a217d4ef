"""The loopback device from a user's side: everything that the CPU does, through the real entry point."""

from __future__ import annotations

import copy
import pickle

import pytest

import tensorplay as tp
from tensorplay_core.errors import ArgumentError, DeviceMismatch, DTypeError


def test_creation_and_arithmetic():
    x = tp.ones(3, device="loopback") * 2
    assert x.tolist() == [2, 2, 2] and x.device == tp.device("loopback", 0)
    assert (x + 1).device == x.device and (1 - x).tolist() == [-1, -1, -1]


def test_autograd():
    x = tp.tensor([[1.0, -2.0], [3.0, 0.5]], device="loopback", requires_grad=True)
    (x.sigmoid() * x.relu()).sum().backward()
    y = tp.tensor(x.tolist(), requires_grad=True)
    (y.sigmoid() * y.relu()).sum().backward()
    assert x.grad.device == x.device
    assert abs(x.grad.cpu() - y.grad).max().item() < 1e-6


def test_a_training_step_agrees_with_the_cpu():
    losses = {}
    for device in ("cpu", "loopback"):
        tp.manual_seed(0)
        x, w = tp.randn(8, 5, device=device), tp.randn(3, 5, device=device, requires_grad=True)
        target = tp.tensor([0, 1, 2, 0, 1, 2, 0, 1], device=device)
        for _ in range(3):
            loss = tp.nn.functional.cross_entropy(tp.nn.functional.linear(x, w), target)
            loss.backward()
            with tp.no_grad():
                w = (w - w.grad).requires_grad_()
        losses[device] = loss.item()
    assert losses["cpu"] == pytest.approx(losses["loopback"], rel=1e-5)


def test_one_seed_is_one_sequence_on_every_device():
    drawn = {}
    for device in ("cpu", "loopback"):
        tp.manual_seed(5)
        drawn[device] = [tp.rand(3, device=device).tolist(), tp.randperm(4, device=device).tolist()]
    assert drawn["cpu"] == drawn["loopback"]


def test_moving():
    x = tp.arange(6).reshape(2, 3)
    there = x.to("loopback")
    assert there.tolist() == x.tolist() and there.dtype is tp.int64
    assert there.cpu().device == tp.device("cpu")
    with pytest.raises(ArgumentError, match=r"\.cpu\(\)\.numpy\(\)"):
        there.numpy()
    with pytest.raises(DeviceMismatch):
        x + there
    assert (there + tp.tensor(1)).tolist() == [[1, 2, 3], [4, 5, 6]]


def test_what_it_does_not_have():
    with pytest.raises(DTypeError, match="bfloat16"):
        tp.zeros(2, dtype=tp.bfloat16, device="loopback")


def test_copies():
    x = tp.ones(2, device="loopback")
    for y in (copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        assert y.device == x.device and y.tolist() == x.tolist()
