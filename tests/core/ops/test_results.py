"""What a kernel returned, as tensors: several results have each the shape that the operator's rule gives."""

from __future__ import annotations

from contextlib import closing

import numpy as np
import pytest

import tensorplay as tp
from tensorplay_core.dispatch.operator import Operator
from tensorplay_core.dispatch.registry import REGISTRY
from tensorplay_core.errors import KernelError

KERNELS = {
    "right": lambda a, b: (a + b, a * b),
    "the first is wrong": lambda a, b: ((a + b)[:1], a * b),
    "the second is wrong": lambda a, b: (a + b, (a * b)[0]),
    "one too few": lambda a, b: (a + b,),
}


@pytest.fixture(params=["array", "tensor"])
def both(request):
    """Makes the operator ``both``, of one shape rule and two results, with a kernel."""
    op = Operator("both(Tensor a, Tensor b) -> (Tensor, Tensor)", namespace="results_test", shape="broadcast")
    REGISTRY.define(op)
    libraries = []

    def make(kernel):
        libraries.append(tp.library.Library("results_test", "IMPL", "CPU"))
        libraries[-1].impl("both", KERNELS[kernel], level=request.param)
        return tp.ops.results_test.both

    yield make
    for library in libraries:
        library.close()
    REGISTRY.remove(op)


@pytest.mark.parametrize("shapes", [((2, 1), (3,)), ((), ()), ((0, 2), (1,)), ((2,), ()), ((1, 1, 1), (1,))])
def test_one_shape_of_a_rule_is_that_of_every_result(both, shapes):
    a, b = (np.full(shape, value) for shape, value in zip(shapes, (2.0, 5.0), strict=True))
    total, product = both("right")(tp.from_numpy(a), tp.from_numpy(b))
    assert total.shape == product.shape == np.broadcast_shapes(*shapes)
    assert total.tolist() == (a + b).tolist() and product.tolist() == (a * b).tolist()


@pytest.mark.parametrize("shapes", [((2, 1), (3,)), ((2, 2), (2, 2))])
@pytest.mark.parametrize("kernel", ["the first is wrong", "the second is wrong"])
def test_a_result_of_another_shape_is_refused_whichever_it_is(both, kernel, shapes):
    a, b = map(tp.ones, shapes)
    with pytest.raises(tp.KernelError, match=r"the result should have shape \(2, "):
        both(kernel)(a, b)


def test_too_few_results_are_refused(both):
    with pytest.raises(tp.KernelError, match="2 results are promised"):
        both("one too few")(tp.ones(2), tp.ones(2))


def test_a_rule_with_a_shape_for_each_result_is_asked_for_each():
    values, indices = tp.max(tp.tensor([[1.0, 5.0], [4.0, 2.0]]), 1)
    assert values.tolist() == [5.0, 4.0] and indices.shape == (2,)


def test_each_of_several_results_has_the_dtype_that_the_rule_for_meta_gives():
    x = tp.tensor([[1.0, 5.0], [7.0, 2.0]])
    with closing(tp.library.Library("tp", "IMPL", "CPU")) as lib:
        lib.impl(
            "max.dim",
            lambda x, dim, keepdim: (x.max(dim), x.argmax(dim).astype(np.int32)),
            override=True,
            level="array",
        )
        for _ in range(2):
            with pytest.raises(
                KernelError, match=r"max\.dim: the kernel of .*indices should be int64, it returned int32"
            ):
                x.max(1)
    assert x.max(1).indices.tolist() == [1, 0]
