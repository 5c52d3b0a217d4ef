"""Operators of CPU tensors raise no NumPy warning, also where warnings are errors."""

from __future__ import annotations

import warnings

import pytest

import tensorplay as tp

CASES = {
    "log of 0": lambda x: tp.log(x),
    "0 / 0": lambda x: x / 0,
    "in place": lambda x: (x + 1).div_(0),
    "overflow": lambda x: tp.exp(x + 1000),
    "inf - inf": lambda x: (x + tp.inf) - (x + tp.inf),
    "backward": lambda x: tp.log(x.requires_grad_()).sum().backward(),
    "cast": lambda x: (x + tp.nan).to(tp.int32),
    "narrowing": lambda x: (x + 1e30).to(tp.float16),
}


@pytest.mark.parametrize("call", CASES.values(), ids=CASES)
def test_no_warning_on_either_path(call):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(3):  # the first call takes the slow path, the others the fast one
            call(tp.zeros(2))
