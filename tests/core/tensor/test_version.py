"""Version cells: made lazily, shared by views, bumped by writes."""

from __future__ import annotations

import pytest

import tensorplay as tp
from tensorplay_core.tensor.version import bump, share, version_of


def test_a_cell_is_made_at_the_first_call_and_kept():
    x = tp.zeros(2)
    assert x._version is None
    cell = version_of(x)
    assert cell == [0, False]
    assert version_of(x) is cell


def test_bump_counts_only_where_somebody_looks():
    x = tp.zeros(2)
    bump(x)
    assert x._version is None
    version_of(x)
    bump(x)
    assert version_of(x)[0] == 1


def test_views_share_the_cell_and_mark_it():
    x = tp.zeros(2, 3)
    for view in (x[0], x.T, x.reshape(6), x.unsqueeze(0), x.expand(2, 2, 3), x[:, 1:], x.squeeze(), x.view(3, 2)):
        assert view._version is x._version
        assert x._version[1]
    y = x[0][1:]
    assert y._version is x._version
    y.add_(1)
    assert version_of(x)[0] == 1


def test_detach_shares_the_cell():
    x = tp.zeros(2)
    assert version_of(x.detach()) is version_of(x)


def test_copies_have_cells_of_their_own():
    x = tp.zeros(2, 3)
    version_of(x)
    for copy in (x.clone(), x + 0, x.to(tp.float64), tp.tensor(x), x[tp.tensor([0])]):
        assert copy._version is not x._version


def test_share():
    x, y = tp.zeros(2), tp.zeros(2)
    share(x, y)
    assert y._version is x._version == [0, True]


def test_a_reshape_that_copies_has_a_version_of_its_own():
    base = tp.ones(2, 3)
    weight = tp.ones(6, requires_grad=True)
    copied = base.transpose(0, 1).reshape(6)
    copied.add_(weight)  # recorded: no view shares the memory
    copied.sum().backward()
    assert weight.grad.tolist() == [1.0] * 6 and base.sum().item() == 6.0
    with pytest.raises(tp.AutogradError, match="shares memory with a view"):
        base.reshape(6).add_(weight)
