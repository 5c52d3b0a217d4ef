"""Functions of several tensors: grids, products, broadcasting and at least so many dims."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import tensorplay as tp


@pytest.mark.parametrize("indexing", ["ij", "xy"])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_meshgrid_is_numpys(indexing, count):
    arrays = [np.arange(n + 1.0, dtype="float32") for n in range(1, count + 1)]
    found = tp.meshgrid(*[tp.tensor(a) for a in arrays], indexing=indexing)
    assert [x.tolist() for x in found] == [a.tolist() for a in np.meshgrid(*arrays, indexing=indexing)]


def test_meshgrid_gives_views_with_gradients():
    x = tp.arange(3.0).requires_grad_()
    a, b = tp.meshgrid(x, tp.tensor(2.0))
    assert (a.shape, b.shape) == ((3, 1), (3, 1))
    tp.meshgrid([x, tp.zeros(4)])[0].sum().backward()
    assert x.grad.tolist() == [4, 4, 4]


def test_cartesian_prod_is_itertools():
    lists = [[1, 2], [3], [4, 5, 6]]
    found = tp.cartesian_prod(*map(tp.tensor, lists))
    assert found.tolist() == [[*row] for row in itertools.product(*lists)]
    assert tp.cartesian_prod(tp.tensor([1, 2])).tolist() == [1, 2]


def test_at_least_so_many_dims_of_one_and_of_several():
    for name in ("atleast_1d", "atleast_2d", "atleast_3d"):
        function, right = getattr(tp, name), getattr(np, name)
        for shape in ((), (2,), (2, 3), (2, 3, 4)):
            assert function(tp.zeros(shape)).shape == right(np.zeros(shape)).shape
        several = function(tp.zeros(()), tp.zeros(2))
        assert isinstance(several, tuple)
        assert [x.shape for x in several] == [right(np.zeros(s)).shape for s in ((), (2,))]
        assert isinstance(function([tp.zeros(2)]), tuple)


def test_broadcast_tensors_gives_views_of_one_shape():
    a, b = tp.broadcast_tensors(tp.ones(3, 1), tp.ones(2))
    assert a.shape == b.shape == (3, 2)
    assert tp.broadcast_tensors() == ()


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (lambda: tp.meshgrid(tp.ones(2), indexing="ji"), tp.ArgumentError, "'ij' or 'xy'"),
        (lambda: tp.meshgrid(tp.ones(2, 2)), tp.ShapeError, "one dim or none"),
        (lambda: tp.meshgrid(tp.ones(2), tp.arange(2)), tp.ArgumentError, "one dtype"),
        (lambda: tp.meshgrid(), tp.ValueRangeError, "at least one"),
        (lambda: tp.meshgrid(3), tp.ArgumentError, "argument 0 is int"),
        (lambda: tp.cartesian_prod(tp.ones(2, 2)), tp.ShapeError, "tensor 0 must have one dim"),
        (lambda: tp.broadcast_tensors(tp.ones(2), tp.ones(3)), tp.ShapeError, "do not broadcast"),
        (lambda: tp.zeros(2).repeat(2, -1), tp.ShapeError, "repeats start at 0"),
        (lambda: tp.zeros(2, 2).repeat(2), tp.ShapeError, "use tile"),
        (lambda: tp.roll(tp.zeros(2, 2), (1, 2), 0), tp.ShapeError, "must align"),
        (lambda: tp.rot90(tp.zeros(2)), tp.ShapeError, "at least 2 dims"),
        (lambda: tp.rot90(tp.zeros(2, 2), 1, (0, 0)), tp.ShapeError, "multiple times"),
        (lambda: tp.zeros(3).unfold(0, 4, 1), tp.DimError, "size 4 is larger than dim 0"),
        (lambda: tp.zeros(3).unfold(0, 2, 0), tp.ValueRangeError, "step is 1 or more"),
        (lambda: tp.hsplit(tp.zeros(2, 3), 2), tp.ValueRangeError, r"choose one of \[1, 3\]"),
        (lambda: tp.vsplit(tp.zeros(2), 2), tp.ShapeError, "at least 2 dims"),
        (lambda: tp.tensor_split(tp.zeros(2), 0), tp.ValueRangeError, "1 or more"),
        (lambda: tp.hstack([]), tp.ValueRangeError, "non-empty"),
        (lambda: tp.repeat_interleave(tp.zeros(2), tp.tensor([1, -1])), tp.ValueRangeError, "one of them is -1"),
        (lambda: tp.repeat_interleave(tp.zeros(2), tp.tensor([1, 1, 1])), tp.ShapeError, "one for each of the 2"),
        (lambda: tp.repeat_interleave(tp.zeros(2), 2, output_size=5), tp.ValueRangeError, "add up to 4"),
        (lambda: tp.index_add(tp.zeros(3), 0, tp.tensor([0.5]), tp.ones(1)), tp.DTypeError, "integer dtype"),
        (lambda: tp.index_add(tp.zeros(3), 0, tp.tensor([0]), tp.ones(2)), tp.ShapeError, "one slice along dim 0"),
        (lambda: tp.index_add(tp.zeros(3), 0, tp.tensor([5]), tp.ones(1)), tp.DimError, "index 5 is out of"),
        (lambda: tp.index_copy(tp.zeros(3), 0, tp.tensor([0]), tp.arange(1)), tp.DTypeError, "source is int64"),
        (lambda: tp.put(tp.zeros(3), tp.tensor([0]), tp.ones(2)), tp.ShapeError, "as many elements"),
        (
            lambda: tp.scatter_reduce(tp.zeros(3), 0, tp.tensor([0]), tp.ones(1), "max"),
            tp.ArgumentError,
            "reduce must be one of sum, prod, mean, amax, amin, not 'max'",
        ),
        (
            lambda: tp.scatter_reduce(tp.zeros(3), 0, tp.tensor([3]), tp.ones(1), "sum"),
            tp.DimError,
            "index 3 is out of bounds for dim 0 of size 3",
        ),
        (lambda: tp.linspace(0, 1, -1), tp.ShapeError, "steps must not be negative"),
        (lambda: tp.logspace(0, 9, 4, dtype=tp.int8), tp.ValueRangeError, "does not fit int8"),
        (lambda: tp.tril_indices(-1, 2), tp.ShapeError, "must not be negative"),
    ],
)
def test_what_does_not_fit_is_refused(call, error, says):
    with pytest.raises(error, match=says):
        call()


def test_the_gradient_of_a_product_is_right_where_several_factors_are_zero():
    src = tp.tensor([0.0, 0.0, 3.0, 0.0, 5.0], dtype=tp.float64, requires_grad=True)
    index = tp.tensor([0, 0, 0, 1, 1])
    y = tp.scatter_reduce(tp.full((2,), 2.0, dtype=tp.float64), 0, index, src, "prod")
    (first,) = tp.autograd.grad(y.sum(), src, create_graph=True)
    assert first.tolist() == [0, 0, 0, 10, 0]  # 2 * 5, and nothing where two factors are 0
    (second,) = tp.autograd.grad(first[0], src)
    assert second.tolist() == [0, 6, 0, 0, 0]  # by src[1]: 2 * 3


def test_meta_tensors_have_the_shapes():
    x = tp.zeros(4, 6, device="meta")
    assert x.repeat(2, 1).shape == (8, 6)
    assert x.unfold(1, 3, 2).shape == (4, 2, 3)
    assert x.unfold(1, 3, 2).stride() == (6, 2, 1)
    assert tp.roll(x, 1, 0).shape == (4, 6)
    assert tp.multinomial(x, 3).shape == (4, 3)
    assert tp.tril_indices(3, 3, device="meta").shape == (2, 6)
    assert tp.triu_indices(3, 4, 1, device="meta").shape == (2, 6)
    assert x.uniform_() is x


def test_new_tensor_type_as_and_in():
    x = tp.zeros(2, dtype=tp.float64)
    assert x.new_tensor([1, 2]).dtype is tp.float64
    assert tp.arange(2).type_as(x).dtype is tp.float64
    assert 0 in x
    assert 1.5 not in x
    with pytest.raises(tp.ArgumentError, match="contains numbers"):
        _ = "a" in x
