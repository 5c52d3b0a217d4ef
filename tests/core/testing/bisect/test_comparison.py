"""What is a difference and what is rounding: budgets, references, and results in double precision."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tensorplay as tp
from tensorplay_core.dispatch.registry import REGISTRY
from tensorplay_core.testing.bisect import comparison
from tensorplay_core.testing.bisect.comparison import Compared, difference


def op(name):
    return REGISTRY.operators[f"tp::{name}"]


def compared(name, *args, factor=1.0, **kwargs):
    return Compared(op(name), args, kwargs, factor)


def nudged(tensor, ulps, place=0):
    """The tensor with one element some units of the last place larger."""
    host = tensor.numpy().copy()
    flat = host.reshape(-1)
    for _ in range(ulps):
        flat[place] = np.nextafter(flat[place], np.inf, dtype=flat.dtype)
    return tp.from_numpy(host)


X = tp.tensor([0.5, 1.0, 2.0, 3.0])


@pytest.mark.parametrize(("ulps", "wrong"), [(0, False), (1, False), (40, True)])
def test_an_elementwise_result_has_its_operators_budget(ulps, wrong):
    found = difference(compared("exp", X), nudged(X.exp(), ulps, 2), X.exp())
    assert (found is not None) is wrong
    if wrong:
        assert found.place == (2,)
        assert found.expected == pytest.approx(np.exp(2.0))
        assert "1 of 4 elements are wrong" in found.what


def test_the_budget_can_be_multiplied():
    assert difference(compared("exp", X, factor=100.0), nudged(X.exp(), 40), X.exp()) is None


def test_the_reference_says_which_of_two_is_wrong():
    """A result that is right is left alone, even where what it is compared with is not."""
    assert difference(compared("exp", X), X.exp(), nudged(X.exp(), 40)) is None


def test_what_has_no_rounding_is_compared_exactly():
    x = tp.tensor([1, 2, 3])
    assert difference(compared("neg", x), -x, -x) is None
    found = difference(compared("neg", x), tp.tensor([-1, -2, -4]), -x)
    assert found.place == (2,)
    assert (found.got, found.expected) == (-4, -3)
    mask = tp.tensor([True, False])
    assert difference(compared("logical_not", mask), mask, ~mask) is not None


def test_nan_is_right_only_where_it_is_expected():
    x = tp.tensor([tp.nan, -1.0, 4.0])
    right = tp.tensor([tp.nan, tp.nan, 2.0])
    assert difference(compared("sqrt", x), right, x.sqrt()) is None
    assert difference(compared("sqrt", x), tp.tensor([tp.nan, 1.0, 2.0]), x.sqrt()).place == (1,)
    assert difference(compared("sqrt", x), tp.tensor([tp.nan, tp.nan, tp.nan]), x.sqrt()).place == (2,)


def test_infinity_and_the_smallest_numbers():
    x = tp.tensor([100.0, -1e-39, 1.0])
    assert difference(compared("exp", x), x.exp(), x.exp()) is None
    assert difference(compared("exp", x), tp.tensor([3e38, 1.0, 2.7182817]), x.exp()).place == (0,)
    tiny = tp.tensor([1e-39])
    assert difference(compared("neg", tiny), tp.tensor([0.0]), -tiny) is None  # a device may flush


@pytest.mark.parametrize(
    ("got", "said"),
    [
        (tp.zeros(3), r"shape \(3,\), and \(2,\) is right"),
        (tp.zeros(2, dtype=tp.float64), "dtype float64, and float32 is right"),
    ],
)
def test_the_form_of_a_result(got, said):
    found = difference(compared("neg", tp.zeros(2)), got, tp.zeros(2))
    assert found.kind == "form"
    assert re.search(said, found.what)


def test_several_results():
    x = tp.tensor([1.0, 3.0, 2.0])
    right = tp.sort(x)
    assert difference(compared("sort", x, 0, False), tuple(right), tuple(right)) is None
    wrong = (right[0], right[1] + 1)
    assert difference(compared("sort", x, 0, False), wrong, tuple(right)).item == 1
    assert difference(compared("sort", x, 0, False), (right[0],), tuple(right)).kind == "form"


def test_a_sum_in_another_order_is_right_and_a_lost_element_is_not():
    rng = np.random.default_rng(0)
    x = tp.from_numpy(rng.normal(size=(40, 50)).astype("float32"))
    args = (x, None, False)
    backwards = np.float32(0)
    for value in x.numpy().ravel()[::-1]:
        backwards += value
    assert difference(compared("sum", *args), tp.tensor(backwards), x.sum()) is None
    lost = tp.tensor(x.numpy().ravel()[:-1].sum())
    assert difference(compared("sum", *args), lost, x.sum()) is not None


def test_large_products_are_judged_in_double_precision(monkeypatch):
    monkeypatch.setattr(comparison, "SMALL", 0)
    rng = np.random.default_rng(0)
    a, b = (tp.from_numpy(rng.normal(size=(60, 60)).astype("float32")) for _ in range(2))
    right = a @ b
    other = sum(np.outer(a.numpy()[:, k], b.numpy()[k]) for k in range(60)).astype("float32")  # another order
    assert difference(compared("matmul", a, b), tp.from_numpy(other), right) is None
    host = right.numpy().copy()
    host[7, 9] += 1e-3
    assert difference(compared("matmul", a, b), tp.from_numpy(host), right).place == (7, 9)
    half = a.to(tp.bfloat16).to(tp.float32) @ b  # a matrix unit that rounds its inputs
    assert difference(compared("matmul", a, b), half, right) is not None
