"""Inputs: what is made on the device, what a reference is given, and what a program says are the same numbers."""

from __future__ import annotations

import math

import pytest

import tensorplay as tp
from tensorplay_core.testing.suite.given import LAYOUTS, Given, literal, place
from tensorplay_core.types.dtype import ALL

NAMES = {"tp": tp, "inf": math.inf, "nan": math.nan}


@pytest.mark.parametrize("layout", [*LAYOUTS, "expanded"])
@pytest.mark.parametrize("dtype", [d.name for d in ALL if d.name != "bfloat16"])  # which loopback has not
def test_a_tensor_has_its_numbers_in_every_layout_and_so_has_its_text(layout, dtype):
    kind = next(d.kind for d in ALL if d.name == dtype)
    make = {"b": lambda k: k % 3 == 0, "c": lambda k: complex(k, -k), "f": lambda k: k / 2}.get(kind, int)
    for shape in ((3, 4), (2, 3, 2), (5,), (), (0, 3)):
        count = math.prod(shape)
        data = [make(k) for k in range(count)]
        if layout == "expanded" and shape:
            data = data[: count // (shape[0] or 1)] * shape[0]
        given = Given(shape, data, dtype, layout)
        tensor, base = given.build(tp, "loopback")
        assert tensor.device.type == "loopback" and tensor.dtype.name == dtype
        assert tensor.tolist() == given.array.tolist()
        assert eval(given.text("loopback"), NAMES).tolist() == tensor.tolist()
        assert base is tensor or not given.plain
        if layout != "c" and len(shape) > 1 and 0 not in shape:
            assert not tensor.is_contiguous()
            assert eval(given.text("loopback"), NAMES).stride() == tensor.stride()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_text_of_a_large_tensor_is_short_and_means_it(layout):
    pool = [0.5, 1.25, -3.0, math.inf, 2.0]
    for shape in ((20_000,), (200, 100)):
        count = math.prod(shape)
        given = Given(shape, (pool * count)[:count], "float32", layout, period=5)
        text = given.text("loopback")
        assert len(text) < 200
        made = eval(text, NAMES)
        assert made.tolist() == given.build(tp, "loopback")[0].tolist() == given.array.tolist()
        assert layout == "c" or (layout == "transposed" and len(shape) == 1) or not made.is_contiguous()


def test_literals_are_python():
    values = [1, True, -0.0, math.nan, complex(1, math.inf), [1.5, (2,), (3, 4)], None, "mean"]
    read = eval(literal(values), NAMES)
    assert repr(read) == repr(values)


def test_the_place_of_a_device():
    assert place("cpu") == str(tp.zeros(1).device)
    assert place("loopback") == str(tp.zeros(1, device="loopback").device)
