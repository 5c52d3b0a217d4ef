"""The overloads behind one function: the choice is made once for the classes of arguments, and never differently."""

from __future__ import annotations

import pytest

import tensorplay as tp
from tensorplay_core.ops import _generated_functional_reduction as reduction
from tensorplay_core.ops import _generated_functional_view as view


def test_what_the_classes_say_is_remembered():
    x, known = tp.tensor([[1.0, 3.0], [2.0, 0.0]]), reduction._MAX_OVERLOADS
    for _ in range(2):
        assert tp.max(x).item() == 3.0
        assert tp.max(x, 1).indices.tolist() == [1, 0]
        assert tp.max(x, dim=0).values.tolist() == [2.0, 3.0]
        assert tp.max(x, dim=1, keepdims=True).values.tolist() == [[3.0], [2.0]]
        assert tp.max(x, tp.zeros(2, 2) + 1).tolist() == [[1.0, 3.0], [2.0, 1.0]]
    assert known[(tp.Tensor,)] is reduction._max__default
    assert known[(tp.Tensor, int)] is known[(tp.Tensor, "dim", int)] is reduction._max__dim
    assert known[(tp.Tensor, tp.Tensor)] is reduction._max__other


def test_a_0d_tensor_that_may_be_an_int_is_not_remembered():
    x, two = tp.arange(4), tp.tensor(2)
    assert [part.tolist() for part in tp.tensor_split(x, two)] == [[0, 1], [2, 3]]
    assert (tp.Tensor, tp.Tensor) not in view._TENSOR_SPLIT_OVERLOADS


def test_lists_are_looked_into_every_time():
    x = tp.arange(5)
    for _ in range(2):
        assert [part.tolist() for part in tp.split(x, [1, 4])] == [[0], [1, 2, 3, 4]]
        assert [len(part) for part in tp.split(x, 2)] == [2, 2, 1]
    assert all(list not in key for key in view._SPLIT_OVERLOADS)


def test_pytorchs_name_of_the_first_argument_is_taken_too():
    x = tp.tensor([1.0, 2.0])
    assert tp.max(self=x).item() == tp.max(input=x).item() == 2.0


def test_what_fits_none_is_an_error_each_time():
    for _ in range(2):
        with pytest.raises(tp.ArgumentError, match="no overload takes"):
            tp.max(tp.ones(2), "a")
