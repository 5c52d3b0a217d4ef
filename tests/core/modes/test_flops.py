"""The count of operations against numbers on paper."""

from __future__ import annotations

import pytest

import tensorplay as tp
import tensorplay.nn.functional as F


def counted(function):
    with tp.modes.FlopCounter() as flops:
        function()
    return sum(flops.forward.values()), sum(flops.backward.values())


def grad(*shape):
    return tp.ones(*shape, requires_grad=True)


@pytest.mark.parametrize(
    ("function", "forward"),
    [
        (lambda: tp.ones(2, 3) @ tp.ones(3, 4), 2 * 2 * 3 * 4),
        (lambda: tp.ones(5, 2, 3) @ tp.ones(3, 4), 2 * 5 * 2 * 3 * 4),
        (lambda: tp.ones(5, 1, 2, 3) @ tp.ones(6, 3, 4), 2 * 30 * 2 * 3 * 4),
        (lambda: tp.ones(3) @ tp.ones(3), 2 * 3),
        (lambda: tp.ones(3) @ tp.ones(3, 4), 2 * 3 * 4),
        (lambda: tp.ones(2, 3) @ tp.ones(3), 2 * 2 * 3),
        (lambda: tp.mm(tp.ones(2, 3), tp.ones(3, 4)), 2 * 2 * 3 * 4),
        (lambda: tp.bmm(tp.ones(5, 2, 3), tp.ones(5, 3, 4)), 2 * 5 * 2 * 3 * 4),
        (lambda: tp.mv(tp.ones(2, 3), tp.ones(3)), 2 * 2 * 3),
        (lambda: tp.dot(tp.ones(3), tp.ones(3)), 2 * 3),
        (lambda: tp.addmm(tp.ones(4), tp.ones(2, 3), tp.ones(3, 4)), 2 * 2 * 3 * 4),
        (lambda: tp.baddbmm(tp.ones(5, 2, 4), tp.ones(5, 2, 3), tp.ones(5, 3, 4)), 2 * 5 * 2 * 3 * 4),
        (lambda: tp.addmv(tp.ones(2), tp.ones(2, 3), tp.ones(3)), 2 * 2 * 3),
        (lambda: tp.ones(2, 4).addmm_(tp.ones(2, 3), tp.ones(3, 4)), 2 * 2 * 3 * 4),
        (lambda: tp.ones(5, 2, 4).baddbmm_(tp.ones(5, 2, 3), tp.ones(5, 3, 4)), 2 * 5 * 2 * 3 * 4),
        (lambda: tp.ones(2).addmv_(tp.ones(2, 3), tp.ones(3)), 2 * 2 * 3),
        (lambda: tp.einsum("bij,bjk->bik", tp.ones(5, 2, 3), tp.ones(5, 3, 4)), 2 * 5 * 2 * 3 * 4),
        (lambda: F.linear(tp.ones(7, 2, 3), tp.ones(4, 3), tp.ones(4)), 2 * 7 * 2 * 3 * 4),
        (lambda: F.conv1d(tp.ones(2, 3, 10), tp.ones(4, 3, 3)), 2 * 2 * 8 * 4 * 3 * 3),
        (lambda: F.conv2d(tp.ones(2, 3, 9, 8), tp.ones(4, 3, 3, 2), stride=2), 2 * 2 * (4 * 4) * 4 * 3 * 6),
        (lambda: F.conv2d(tp.ones(2, 4, 8, 8), tp.ones(6, 2, 3, 3), groups=2), 2 * 2 * 36 * 6 * 2 * 9),
        (lambda: F.conv_transpose2d(tp.ones(2, 3, 5, 5), tp.ones(3, 4, 3, 3)), 2 * 2 * 25 * 3 * 4 * 9),
        (
            lambda: F.scaled_dot_product_attention(tp.ones(2, 3, 5, 8), tp.ones(2, 3, 7, 8), tp.ones(2, 3, 7, 6)),
            2 * 6 * 5 * 7 * 8 + 2 * 6 * 5 * 7 * 6,
        ),
        (lambda: tp.ones(100).exp().sum(), 0),
    ],
)
def test_forward(function, forward):
    assert counted(function) == (forward, 0)


def test_backward_takes_a_product_for_each_gradient():
    one = 2 * 2 * 3 * 4
    assert counted(lambda: (grad(2, 3) @ grad(3, 4)).sum().backward()) == (one, 2 * one)
    assert counted(lambda: (tp.ones(2, 3) @ grad(3, 4)).sum().backward()) == (one, one)
    conv = 2 * 2 * 36 * 4 * 3 * 9
    image, weight = (2, 3, 8, 8), (4, 3, 3, 3)
    assert counted(lambda: F.conv2d(grad(*image), grad(*weight), grad(4)).sum().backward()) == (conv, 2 * conv)
    assert counted(lambda: F.conv2d(tp.ones(*image), grad(*weight)).sum().backward()) == (conv, conv)
    assert counted(lambda: F.conv2d(grad(*image), tp.ones(*weight)).sum().backward()) == (conv, conv)
    wide = 2 * 2 * 25 * 3 * 4 * 9
    transposed = lambda: F.conv_transpose2d(grad(2, 3, 5, 5), grad(3, 4, 3, 3)).sum().backward()  # noqa: E731
    assert counted(transposed) == (wide, 2 * wide)


def test_attention_backward_is_five_products():
    inner, outer = 2 * 6 * 5 * 7 * 8, 2 * 6 * 5 * 7 * 6
    shapes = (2, 3, 5, 8), (2, 3, 7, 8), (2, 3, 7, 6)
    found = counted(lambda: F.scaled_dot_product_attention(*(grad(*s) for s in shapes)).sum().backward())
    assert found == (inner + outer, 3 * inner + 2 * outer)


def test_the_same_on_another_device_and_without_data():
    def step(device):
        w = tp.ones(6, 5, device=device, requires_grad=True)
        F.linear(tp.ones(4, 5, device=device), w).relu().sum().backward()

    expected = counted(lambda: step("cpu"))
    assert expected == (240, 240)  # of the weight alone
    assert counted(lambda: step("loopback")) == expected
    with tp.modes.FakeMode():
        assert counted(lambda: step("cuda")) == expected


def test_rules_of_ones_own_and_the_table():
    with tp.modes.FlopCounter({"tp::exp": lambda x, result: 10 * result.numel()}) as flops:
        tp.ones(3).exp()
        tp.ones(1, 2) @ tp.ones(2, 1)
    assert flops.forward == {"exp": 30, "matmul": 4}
    assert flops.table().splitlines() == [
        "operator  forward  backward  total",
        "exp            30         0     30",
        "matmul          4         0      4",
        "all            34         0     34",
    ]
    with flops:
        tp.ones(3).exp()
    assert flops.total() == 64
