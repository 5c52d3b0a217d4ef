"""Tangents under writes and views: a view's tangent is a view of the tangent, and a write writes both."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensorplay as tp
from tensorplay_composite.arrays import ArrayDevice, kernels
from tensorplay_core.dispatch import devices
from tensorplay_core.dispatch.keys import backend_key
from tensorplay_core.dispatch.registry import REGISTRY

fwAD = tp.autograd.forward_ad


def locked(kernel: Any) -> Any:
    """Makes whatever a kernel returns read-only, so that a write to it is an error."""

    def run(*args: Any, **kwargs: Any) -> Any:
        result = kernel(*args, **kwargs)
        for one in result if isinstance(result, (tuple, list)) else (result,):
            if isinstance(one, np.ndarray):
                one.flags.writeable = False
        return result

    return run


@pytest.fixture
def frozen():
    """A device whose arrays cannot be written to: a write gives the tensor, and its views, other arrays."""
    key = backend_key("frozen")
    devices.install("frozen", ArrayDevice(np, mutable=False), 1, "tests-frozen")
    staging = REGISTRY.stage("frozen", "tests-frozen")
    for name, kernel in kernels(np, mutable=False).items():
        if f"tp::{name}" in REGISTRY.operators:
            staging.impl(name, key, locked(kernel))
    committed = staging.commit()
    yield
    committed.undo()
    devices.uninstall("frozen")


@pytest.fixture(params=["cpu", "frozen"])
def device(request: pytest.FixtureRequest):
    if request.param == "frozen":
        request.getfixturevalue("frozen")
    with fwAD.dual_level():
        yield request.param


def tangent(tensor: tp.Tensor) -> Any:
    found = fwAD.unpack_dual(tensor).tangent
    return None if found is None else found.tolist()


def dual(values: Any, direction: Any, device: str) -> tp.Tensor:
    return fwAD.make_dual(tp.tensor(values, device=device), tp.tensor(direction, device=device))


def test_an_in_place_operator_writes_the_tangent(device: str) -> None:
    x = dual([1.0, 2.0], [3.0, 4.0], device)
    x.mul_(x).add_(1)
    assert x.tolist() == [2.0, 5.0] and tangent(x) == [6.0, 16.0]
    x.zero_()
    assert tangent(x) == [0.0, 0.0]


def test_a_plain_tensor_that_a_dual_is_written_to_becomes_dual(device: str) -> None:
    x = dual([1.0, 2.0], [3.0, 4.0], device)
    copied, added, scaled = (tp.ones(2, device=device) for _ in range(3))
    copied.copy_(x)
    added.add_(x)
    scaled *= x
    assert [tangent(t) for t in (copied, added, scaled)] == [[3.0, 4.0]] * 3


def test_what_is_written_over_a_dual_takes_its_tangent_away(device: str) -> None:
    x = dual([1.0, 2.0], [3.0, 4.0], device)
    x.copy_(tp.tensor([5.0, 6.0], device=device))
    assert tangent(x) == [0.0, 0.0]
    x.fill_(3.0)
    assert tangent(x) == [0.0, 0.0]


def test_a_view_of_a_dual_shares_its_tangents_memory(device: str) -> None:
    x = dual([[1.0, 2.0], [3.0, 4.0]], [[1.0, 2.0], [3.0, 4.0]], device)
    row, column, flat = x[0], x.t()[1], x.reshape(4)
    row.zero_()
    assert tangent(x) == [[0.0, 0.0], [3.0, 4.0]]
    assert tangent(column) == [0.0, 4.0] and tangent(flat) == [0.0, 0.0, 3.0, 4.0]
    x.mul_(10)
    assert tangent(column) == [0.0, 40.0]


def test_a_base_gets_a_tangent_through_its_view_and_other_views_see_it(device: str) -> None:
    base = tp.ones(4, device=device)
    head, tail, square = base[:2], base[2:], base.reshape(2, 2)
    head.mul_(dual([1.0, 2.0], [3.0, 4.0], device))
    assert tangent(base) == [3.0, 4.0, 0.0, 0.0]
    assert tangent(head) == [3.0, 4.0] and tangent(tail) == [0.0, 0.0]
    assert tangent(square) == [[3.0, 4.0], [0.0, 0.0]] and tangent(square[0]) == [3.0, 4.0]


def test_a_view_sees_the_tangent_that_its_base_gets_later(device: str) -> None:
    base = tp.zeros(2, device=device)
    view = base.reshape(2, 1)
    base.copy_(dual([1.0, 2.0], [3.0, 4.0], device))
    assert tangent(view) == [[3.0], [4.0]]
    view.zero_()
    assert tangent(base) == [0.0, 0.0]


def test_views_that_were_taken_before_the_level_was_opened() -> None:
    base = tp.zeros(2, 2)
    row, corner = base[0], base.t()[1]
    with fwAD.dual_level():
        row.add_(dual([1.0, 2.0], [3.0, 4.0], "cpu"))
        assert tangent(base) == [[3.0, 4.0], [0.0, 0.0]]
        assert tangent(corner) == [4.0, 0.0] and tangent(corner[1:]) == [0.0]
        corner.zero_()
        assert tangent(row) == [3.0, 0.0]


def test_the_primal_and_a_detached_tensor_are_plain_though_they_share_memory(device: str) -> None:
    x = tp.tensor([1.0, 2.0], device=device, requires_grad=True)
    d = fwAD.make_dual(x, tp.ones(2, device=device)) * 1
    primal, other = fwAD.unpack_dual(d).primal, d.detach()
    assert [tangent(t) for t in (primal, primal[0], other, other[0])] == [None] * 4
    assert tangent(d.clone().detach_()) is None and tangent(x) is None and tangent(d) == [1.0, 1.0]


def test_writes_through_an_index(device: str) -> None:
    x, y = dual([1.0, 2.0], [3.0, 4.0], device), tp.zeros(3, device=device)
    y[0] = x[1]
    assert tangent(y) == [4.0, 0.0, 0.0]
    y[1:] = x
    assert tangent(y) == [4.0, 3.0, 4.0]
    y[0] = 7.0
    assert tangent(y) == [0.0, 3.0, 4.0]


def test_writes_through_masks_and_index_tensors() -> None:
    with fwAD.dual_level():
        x, y = dual([1.0, 2.0], [3.0, 4.0], "cpu"), tp.zeros(4)
        y[tp.tensor([3, 0])] = x
        assert tangent(y) == [4.0, 0.0, 0.0, 3.0]
        y[tp.tensor([True, False, False, False])] = 5.0
        assert tangent(y) == [0.0, 0.0, 0.0, 3.0]
        assert tangent(y[tp.tensor([3, 3])]) == [3.0, 3.0]
        y.masked_fill_(tp.tensor([False, False, False, True]), 1.0)
        assert tangent(y) == [0.0, 0.0, 0.0, 0.0]


def test_a_result_does_not_share_its_tangent_with_an_input(device: str) -> None:
    x = dual([1.0, 2.0], [3.0, 4.0], device)
    for y in (x + 1, x.clone(), x + tp.zeros(2, device=device), tp.where(x > 0, x, 0)):
        y.zero_()
    assert tangent(x) == [3.0, 4.0]
    wide = x + tp.zeros(2, 2, device=device)
    wide[0].zero_()
    assert tangent(wide) == [[0.0, 0.0], [3.0, 4.0]]


def test_as_strided_reads_the_tangent_where_it_reads_the_tensor() -> None:
    with fwAD.dual_level():
        whole = tp.arange(8, dtype=tp.float32)
        x = fwAD.make_dual(whole[2:], tp.tensor([10.0, 11.0, 12.0, 13.0, 14.0, 15.0]))
        y = x.as_strided((2, 2), (2, 1), 3)
        assert y.tolist() == [[3.0, 4.0], [5.0, 6.0]] and tangent(y) == [[11.0, 12.0], [13.0, 14.0]]
        gaps = fwAD.make_dual(whole[::2], tp.ones(4))
        with pytest.raises(tp.errors.ForwardMissing, match=r"has gaps in memory.*\nfix: call it on .contiguous"):
            gaps.as_strided((2,), (2,))


def test_an_integer_tensor_takes_values_and_no_tangent() -> None:
    with fwAD.dual_level():
        y = tp.zeros(2, dtype=tp.int64)
        y.copy_(dual([1.0, 2.0], [3.0, 4.0], "cpu"))
        assert y.tolist() == [1, 2] and tangent(y) is None


def test_out_is_refused_with_tangents_and_nothing_is_written() -> None:
    with fwAD.dual_level():
        x, out = dual([1.0], [2.0], "cpu"), tp.zeros(1)
        with pytest.raises(NotImplementedError, match=r"add: out= takes no tangents.*\nfix: leave out= away"):
            tp.add(x, 1, out=out)
        with pytest.raises(tp.errors.ForwardMissing, match="out= takes no tangents"):
            tp.add(tp.ones(1), 1, out=x)
        assert out.tolist() == [0.0]
        tp.add(tp.ones(1), 1, out=out)
        assert out.tolist() == [2.0]


def test_meta_tensors_have_tangents_without_data() -> None:
    with fwAD.dual_level():
        x = fwAD.make_dual(tp.ones(2, 3, device="meta"), tp.ones(2, 3, device="meta"))
        found = fwAD.unpack_dual((x * 2).sum(0)).tangent
        assert found is not None and found.shape == (3,) and found.is_meta
