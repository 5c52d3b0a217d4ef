"""Arrays without elements: their strides and what shares memory are what NumPy says of real ones."""

from __future__ import annotations

import copy
import itertools
import pickle
from typing import Any

import numpy
import pytest

from tensorplay_core.tensor.meta_array import (
    MetaArray,
    contiguous_strides,
    is_contiguous,
    like_operands,
    may_alias,
    overlaps_itself,
    reshaped_strides,
)
from tensorplay_core.types.dtype import float32, int64


def real(shape: tuple[int, ...], order: tuple[int, ...] | None = None, steps: tuple[int, ...] | None = None) -> Any:
    """A NumPy array whose dims lie in memory in an order, each with a step: a slice of a transposed array."""
    order = tuple(range(len(shape))) if order is None else order
    steps = (1,) * len(shape) if steps is None else steps
    memory = numpy.zeros([shape[d] * steps[d] for d in order], dtype="float32")
    array = memory.transpose(numpy.argsort(order)) if shape else memory
    return array[(*(slice(None, None, step) for step in steps), ...)]


def strides(array: Any) -> tuple[int, ...]:
    return tuple(step // array.itemsize for step in array.strides)


def like(array: Any) -> MetaArray:
    return MetaArray(array.shape, float32, strides(array))


def significant(shape: tuple[int, ...], found: tuple[int, ...]) -> list[int]:
    """The strides that mean something: those of dims with more than one element."""
    return [stride for size, stride in zip(shape, found, strict=True) if size > 1]


ARRAYS = [
    real(shape, order, steps)
    for shape in [(2, 3, 4), (2, 1, 4), (1, 1, 3), (4, 2, 2)]
    for order in itertools.permutations(range(3))
    for steps in [(1, 1, 1), (2, 1, 1), (1, 1, 3)]
] + [
    real(()),
    real((5,)),
    numpy.broadcast_to(real((3, 1)), (3, 4)),
    numpy.broadcast_to(real((4,)), (2, 3, 4)),
    numpy.broadcast_to(real((1, 4)), (6, 4)),
]


@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (4, 1, 5), (1, 1), (2, 3, 4, 5)])
def test_strides_of_c_order_are_numpys(shape):
    assert contiguous_strides(shape) == strides(numpy.zeros(shape, dtype="float32"))


def test_an_empty_dim_counts_as_one_as_in_pytorch():
    assert contiguous_strides((2, 0, 3)) == (3, 3, 1)


@pytest.mark.parametrize("array", ARRAYS, ids=lambda a: f"{a.shape}{strides(a)}")
def test_contiguity_is_numpys(array):
    assert is_contiguous(like(array)) == array.flags.c_contiguous


def test_an_array_without_elements_is_contiguous():
    assert is_contiguous(MetaArray((3, 0), float32, (7, 9)))


SHAPES = [(24,), (2, 12), (6, 4), (2, 3, 4), (4, 3, 2), (3, 8), (1, 24, 1), (2, 2, 2, 3), (1, 2, 3, 1, 4), (8,), (4, 2)]


@pytest.mark.parametrize("array", ARRAYS, ids=lambda a: f"{a.shape}{strides(a)}")
def test_a_reshape_is_a_view_where_numpy_makes_one_with_the_same_strides(array):
    tried = 0
    for shape in [*SHAPES, (3,), (1, 1, 3), (3, 1), (16,), (2, 8), (), (1,), (1, 1), (5,), (5, 1), (12,), (6, 4, 1)]:
        if numpy.prod(shape, dtype=int) != array.size:
            continue
        wanted = array.reshape(shape)
        found = reshaped_strides(like(array), shape)
        assert (found is not None) == bool(numpy.may_share_memory(wanted, array)), shape
        if found is not None:
            assert significant(shape, found) == significant(shape, strides(wanted)), shape
            assert len(found) == len(shape)
        tried += 1
    assert tried


@pytest.mark.parametrize("a", ARRAYS, ids=lambda a: f"{a.shape}{strides(a)}")
def test_an_elementwise_result_is_laid_out_as_numpys(a):
    tried = 0
    for b in ARRAYS:
        try:
            wanted = numpy.add(a, b)
        except ValueError:
            continue
        found = like_operands(wanted.shape, [like(a), like(b)]) or contiguous_strides(wanted.shape)
        assert significant(wanted.shape, found) == significant(wanted.shape, strides(wanted)), (b.shape, strides(b))
        tried += 1
    assert tried > 1


@pytest.mark.parametrize("b", [numpy.ones((3, 4)), numpy.ones((4, 3)).T, numpy.ones(4), numpy.ones((3, 1))])
@pytest.mark.parametrize("flip", [(-1, -1), (-1, 1), (1, -1)])
def test_reversed_operands_are_laid_out_as_numpys(flip, b):
    for base in (numpy.ones((3, 4)), numpy.ones((4, 3)).T):
        a = base[:: flip[0], :: flip[1]]
        found = like_operands((3, 4), [like(a), like(b)]) or contiguous_strides((3, 4))
        assert found == strides(numpy.add(a, b))


def test_views_share_memory_with_their_base_and_with_each_other_where_they_meet():
    base = MetaArray((4, 6), float32)
    top, bottom = base.view((2, 6), (6, 1)), base.view((2, 6), (6, 1), 12)
    assert may_alias(base, top) and may_alias(bottom, base) and may_alias(base, base)
    assert not may_alias(top, bottom)
    column = bottom.view((2,), (6,), 5)
    assert column.base is base and column.offset == 17 and may_alias(column, bottom)
    assert not may_alias(base, MetaArray((4, 6), float32))
    assert not may_alias(base, base.view((0, 6), (6, 1)))


@pytest.mark.parametrize("array", ARRAYS, ids=lambda a: f"{a.shape}{strides(a)}")
def test_an_array_overlaps_itself_where_two_elements_have_one_address(array):
    addresses = {sum(i * s for i, s in zip(at, array.strides, strict=True)) for at in numpy.ndindex(array.shape)}
    assert overlaps_itself(like(array)) == (len(addresses) < array.size)


def test_packing_keeps_the_order_of_the_dims_and_takes_a_dtype():
    packed = like(real((2, 3, 4), (2, 0, 1), (2, 1, 3))).packed(int64)
    assert packed.dtype is int64 and packed.base is None and packed.shape == (2, 3, 4)
    assert packed.strides == strides(real((2, 3, 4), (2, 0, 1)))


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda a: pickle.loads(pickle.dumps(a, 0))])
def test_a_copy_has_the_same_layout_and_memory_of_its_own(copied):
    view = MetaArray((4, 6), float32).view((6, 2), (1, 12), 3)
    again = copied(view)
    assert (again.shape, again.strides, again.dtype) == ((6, 2), (1, 12), float32)
    assert again.base is None and not may_alias(view, again)


def test_it_is_small_and_says_what_it_is():
    array = MetaArray((2, 3), float32)
    assert not hasattr(array, "__dict__")
    assert (array.ndim, array.size) == (2, 6)
    assert repr(array) == "MetaArray((2, 3), float32, strides=(3, 1))"
