"""The edges of a node: each input finds its own, whatever lists stand before it, and ``needs`` says what is wanted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tensorplay as tp
from tensorplay_core.dispatch.library import Library


def doubles(*values: list[float]) -> list[tp.Tensor]:
    return [tp.tensor(value).double().requires_grad_() for value in values]


@pytest.fixture
def kernels() -> Iterator[Library]:
    library = Library("edges", "IMPL")
    yield library
    library.close()


@pytest.fixture
def weave(package: Callable[..., Any], kernels: Library) -> Any:
    """The weighted sum of two lists of tensors and two tensors between them."""
    module = package(
        "- func: edges::weave(Tensor self, Tensor[] some, Tensor other, Tensor[] more) -> Tensor",
        "- name: edges::weave\n"
        "  self: grad * 2\n"
        "  some: scaled(grad, len(some), 3)\n"
        "  other: grad * 5 * (1 if needs[more] else 10)\n"
        "  more: scaled(grad, len(more), 7) if needs[self] else scaled(grad, len(more), 70)\n",
        helpers="def scaled(grad, count, factor):\n    return [grad * factor * (i + 1) for i in range(count)]\n",
    )

    def kernel(self: Any, some: list[Any], other: Any, more: list[Any]) -> Any:
        total = self * 2 + other * 5
        for i, x in enumerate(some):
            total = total + x * (3 * (i + 1))
        for i, x in enumerate(more):
            total = total + x * (7 * (i + 1))
        return np.asarray(total)

    kernels.impl("weave", kernel, "CPU", level="array")
    return module.weave


@pytest.mark.parametrize(("some", "more"), [(0, 0), (1, 0), (0, 2), (2, 1), (3, 2)])
def test_several_lists_and_what_stands_between_them(weave: Any, some: int, more: int) -> None:
    x, y = doubles([1.0, 2.0], [3.0, 4.0])
    first, second = (doubles(*[[float(i), 1.0] for i in range(count)]) for count in (some, more))
    weave(x, first, y, second).sum().backward()
    found = [t.grad.tolist()[0] for t in (x, *first, y, *second)]
    wanted = [
        2.0,
        *(3.0 * (i + 1) for i in range(some)),
        5.0 * (1 if more else 10),
        *(7.0 * (i + 1) for i in range(more)),
    ]
    assert found == wanted


def test_needs_asks_whether_the_gradient_is_wanted(weave: Any) -> None:
    x, y, z = doubles([1.0], [1.0], [1.0])
    weave(x.detach(), [], y, [z]).sum().backward()
    assert y.grad is not None and z.grad is not None
    assert (y.grad.tolist(), z.grad.tolist()) == ([5.0], [70.0])
    y.grad = None
    weave(x, [], y, [z.detach()]).sum().backward()
    assert y.grad is not None and y.grad.tolist() == [50.0]


def test_one_item_of_a_list_alone(weave: Any) -> None:
    a, b = doubles([1.0], [1.0])
    weave(tp.ones(1).double(), [a.detach(), b], tp.ones(1).double(), []).sum().backward()
    assert a.grad is None and b.grad is not None and b.grad.tolist() == [6.0]


def test_needs_of_the_only_input_and_of_one_without_a_gradient(package: Callable[..., Any], kernels: Library) -> None:
    module = package(
        "- func: edges::one(Tensor self, Tensor index) -> Tensor",
        "- name: edges::one\n  self: grad * (3 if needs[self] else 5) * (7 if needs[index] else 11)\n"
        "  not_differentiable: [index]",
    )
    kernels.impl("one", lambda x, i: x * 33, "CPU", level="array")
    (x,) = doubles([1.0])
    module.one(x, tp.ones(1)).sum().backward()
    assert x.grad is not None and x.grad.tolist() == [33.0]


def test_a_list_that_a_condition_gives(package: Callable[..., Any], kernels: Library) -> None:
    module = package(
        "- func: edges::stacked(Tensor[] tensors) -> Tensor",
        '- name: edges::stacked\n  tensors: "[grad, grad * 2] if len(tensors) == 2 else [grad]"',
    )
    kernels.impl("stacked", lambda xs: xs[0] + 2 * xs[-1], "CPU", level="array")
    a, b = doubles([1.0], [1.0])
    module.stacked([a, b]).sum().backward()
    assert a.grad is not None and b.grad is not None and (a.grad.tolist(), b.grad.tolist()) == ([1.0], [2.0])
