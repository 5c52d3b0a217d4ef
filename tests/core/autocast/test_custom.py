"""``custom_fwd`` and ``custom_bwd``: Functions whose backward runs with autocast as their forward did."""

from __future__ import annotations

import pytest

import tensorplay as tp


def function(cast: tp.dtype | None, seen: list[object]) -> type[tp.autograd.Function]:
    class Product(tp.autograd.Function):
        @staticmethod
        @tp.amp.custom_fwd(device_type="cpu", cast_inputs=cast)
        def forward(ctx, a, b, scale=None):
            ctx.save_for_backward(a, b)
            seen.append((a.dtype.name, (a @ b).dtype.name, tp.is_autocast_enabled("cpu")))
            return a @ b

        @staticmethod
        @tp.amp.custom_bwd(device_type="cpu")
        def backward(ctx, grad):
            a, b = ctx.saved_tensors
            seen.append((grad.dtype.name, (grad @ b.t()).dtype.name, tp.is_autocast_enabled("cpu")))
            return grad @ b.t(), a.t() @ grad, None

    return Product


def leaves(dtype: tp.dtype) -> tuple[tp.Tensor, tp.Tensor]:
    a = tp.tensor([[1.0, 2.0], [3.0, 4.0]], dtype=dtype, requires_grad=True)
    return a, tp.tensor([[0.5, 0.0], [0.0, 2.0]], dtype=dtype, requires_grad=True)


@pytest.mark.parametrize("inside", [True, False], ids=["backward inside", "backward outside"])
def test_without_a_cast_backward_has_the_region_of_forward(inside: bool) -> None:
    seen: list[object] = []
    a, b = leaves(tp.float32)
    with tp.autocast("cpu", dtype=tp.float16):
        y = function(None, seen).apply(a, b)
        if inside:
            y.sum().backward()
    if not inside:
        with tp.autocast("cpu", dtype=tp.bfloat16):
            y.sum().backward()
    assert seen == [("float32", "float16", True), ("float16", "float16", True)]
    assert a.grad.tolist() == [[0.5, 2.0]] * 2 and b.grad.tolist() == [[4.0] * 2, [6.0] * 2]
    assert a.grad.dtype is b.grad.dtype is tp.float32
    assert not tp.is_autocast_enabled("cpu")


def test_a_cast_turns_autocast_off_inside() -> None:
    seen: list[object] = []
    a, b = leaves(tp.bfloat16)
    with tp.autocast("cpu"):
        y = function(tp.float32, seen).apply(a, b, {"kept": [a]})
        y.sum().backward()
    assert seen == [("float32", "float32", False)] * 2
    assert y.dtype is tp.float32 and a.grad.dtype is tp.bfloat16


def test_outside_a_region_and_for_float64_nothing_is_cast() -> None:
    for region, dtype in ((tp.autocast("cpu", enabled=False), tp.bfloat16), (tp.autocast("cpu"), tp.float64)):
        seen: list[tuple[object, ...]] = []
        a, b = leaves(dtype)
        with region:
            function(tp.float32, seen).apply(a, b).sum().backward()
        assert {one[0] for one in seen} == {dtype.name}


def test_what_is_wrong() -> None:
    with pytest.raises(tp.AutocastError, match="custom_fwd: there is no device type 'unheardof'"):
        tp.amp.custom_fwd(device_type="unheardof")
    with pytest.raises(tp.ArgumentError, match="custom_fwd: cast_inputs is a floating dtype, not"):
        tp.amp.custom_fwd(device_type="cpu", cast_inputs=tp.int64)

    class Undecorated(tp.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        @tp.amp.custom_bwd(device_type="cpu")
        def backward(ctx, grad):
            return grad

    y = Undecorated.apply(tp.ones(2, requires_grad=True))
    with pytest.raises(tp.AutocastError, match=r"fix: decorate forward with custom_fwd\(device_type='cpu'\)"):
        y.sum().backward()
