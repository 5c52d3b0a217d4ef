"""Forward mode through what programs add: operators with a registered gradient, kernels at Autograd, Functions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tensorplay as tp
from tensorplay_core.ops.custom import registration

fwAD = tp.autograd.forward_ad


def tangent(tensor: tp.Tensor) -> Any:
    found = fwAD.unpack_dual(tensor).tangent
    return None if found is None else found.tolist()


def dual(values: Any, direction: Any) -> tp.Tensor:
    return fwAD.make_dual(tp.tensor(values), tp.tensor(direction))


OPERATORS: list[Any] = []


@pytest.fixture(scope="module", autouse=True)
def leave_no_operator_behind() -> Iterator[None]:
    yield
    for op in OPERATORS:
        registration.DEFINITIONS.pop(op._op.qualified_name)._lib.close()
    for key in [key for key in registration._kept if "forward_tests" in str(key)]:
        registration._kept.pop(key).close()


@tp.library.custom_op("forward_tests::cubed", mutates_args=())
def cubed(x: tp.Tensor, scale: float = 1.0) -> tp.Tensor:
    return tp.from_numpy(np.asarray(x.numpy() ** 3 * scale))


def _setup(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.save_for_backward(inputs[0])
    ctx.scale = inputs[1]


def _cubed_backward(ctx: Any, grad: tp.Tensor) -> Any:
    return grad * ctx.saved_tensors[0] ** 2 * 3 * ctx.scale, None


cubed.register_autograd(_cubed_backward, setup_context=_setup)


@tp.library.custom_op("forward_tests::bounds", mutates_args=())
def bounds(xs: list[tp.Tensor]) -> tuple[tp.Tensor, tp.Tensor]:
    return tp.from_numpy(sum(x.numpy() for x in xs)), tp.from_numpy(np.asarray(xs[0].numpy() * 2))


def _bounds_backward(ctx: Any, total: tp.Tensor, twice: tp.Tensor) -> Any:
    return [total + 2 * twice, *[total] * (ctx.count - 1)]


def _bounds_setup(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.count = len(inputs[0])


bounds.register_autograd(_bounds_backward, setup_context=_bounds_setup)


@tp.library.custom_op("forward_tests::opaque", mutates_args=())
def opaque(x: tp.Tensor) -> tp.Tensor:
    return tp.from_numpy(x.numpy() + 1)


OPERATORS += [cubed, bounds, opaque]


@pytest.fixture(autouse=True)
def level() -> Iterator[None]:
    with fwAD.dual_level():
        yield


def test_a_registered_gradient_is_transposed() -> None:
    y = cubed(dual([1.0, 2.0], [1.0, 10.0]), scale=0.5)
    assert y.tolist() == [0.5, 4.0] and tangent(y) == [1.5, 60.0]
    assert not y.requires_grad and not fwAD.unpack_dual(y).tangent.requires_grad


def test_lists_and_several_results() -> None:
    x, y, c = dual([1.0], [2.0]), dual([3.0], [5.0]), tp.tensor([7.0])
    total, twice = bounds([x, c, y])
    assert (total.tolist(), tangent(total)) == ([11.0], [7.0])
    assert (twice.tolist(), tangent(twice)) == ([2.0], [4.0])
    total, twice = bounds([c, y])
    assert tangent(total) == [5.0] and tangent(twice) == [0.0]


def test_products_with_the_hessian_of_a_custom_operator() -> None:
    x = tp.tensor([1.0, 2.0], requires_grad=True)
    y = cubed(fwAD.make_dual(x, tp.tensor([1.0, 10.0])))
    slope = fwAD.unpack_dual(y).tangent
    assert tp.autograd.grad(slope.sum(), x, retain_graph=True)[0].tolist() == [6.0, 120.0]
    (gradient,) = tp.autograd.grad(y.sum(), x)
    assert gradient.tolist() == [3.0, 12.0] and tangent(gradient) == [6.0, 120.0]


def test_an_operator_without_a_gradient_raises_and_names_itself() -> None:
    message = r"forward_tests::opaque has no rule for tangents.*\nfix: give it a gradient"
    with pytest.raises(NotImplementedError, match=message) as caught:
        opaque(dual([1.0], [2.0]))
    assert isinstance(caught.value, tp.AutogradError)
    assert opaque(tp.tensor([1.0])).tolist() == [2.0]
    assert tangent(opaque(dual([1.0], [2.0]).detach())) is None


def test_a_kernel_at_autograd_hands_tangents_on_through_what_it_calls() -> None:
    library = tp.library.Library("forward_tests", "FRAGMENT")
    library.define("shifted(Tensor x) -> Tensor")
    library.impl("shifted", lambda x: x * 3 + 1, "Autograd")
    library.define("lost(Tensor x) -> Tensor")
    library.impl("lost", lambda x: x.detach() * 3, "Autograd")
    try:
        assert tangent(tp.ops.forward_tests.shifted(dual([1.0], [2.0]))) == [6.0]
        message = r"lost has no rule.*its kernel at Autograd \(.*gave a result"
        with pytest.raises(tp.errors.ForwardMissing, match=message):
            tp.ops.forward_tests.lost(dual([1.0], [2.0]))
    finally:
        library.close()


class Scaled(tp.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: tp.Tensor, factor: float) -> tp.Tensor:
        ctx.factor = factor
        return x * factor

    @staticmethod
    def backward(ctx: Any, grad: tp.Tensor) -> Any:
        return grad * ctx.factor, None

    @staticmethod
    def jvp(ctx: Any, x_t: tp.Tensor, factor_t: None) -> tp.Tensor:
        return x_t * ctx.factor


class Silent(tp.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: tp.Tensor) -> tp.Tensor:
        return x * 2

    @staticmethod
    def backward(ctx: Any, grad: tp.Tensor) -> Any:
        return grad * 2


def test_a_function_has_the_rule_that_it_defines() -> None:
    assert tangent(Scaled.apply(dual([1.0], [2.0]), 5.0)) == [10.0]
    with pytest.raises(NotImplementedError, match="jvp"):
        Silent.apply(dual([1.0], [2.0]))
    assert Silent.apply(tp.tensor([1.0])).tolist() == [2.0]
