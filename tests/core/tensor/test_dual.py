"""Where tangents live: by identity, for as long as the tensor and the level are there, and shared only where meant."""

from __future__ import annotations

import gc

import pytest

import tensorplay as tp
from tensorplay_core.dispatch import active
from tensorplay_core.tensor import dual


@pytest.fixture
def level():
    opened = dual.Level()
    dual.enter(opened)
    yield opened
    opened.close()
    dual.enter(None)


def test_a_level_counts_until_it_is_closed_or_gone() -> None:
    before = active.special, active.levels
    level = dual.Level()
    assert (active.special, active.levels) == (before[0] + 1, before[1] + 1)
    level.close()
    level.close()
    assert (active.special, active.levels) == before
    dual.Level()
    assert (active.special, active.levels) == before


def test_tangents_go_with_their_tensor(level: dual.Level) -> None:
    gc.disable()
    try:
        for _ in range(3):  # identities are used again; an entry of the tensor before must not be found
            x = tp.ones(2)
            assert level.tangent_of(x) is None
            level.set(x, tp.zeros(2))
            assert level.tangent_of(x) is not None
            del x
        assert not level._tangents
    finally:
        gc.enable()


def test_a_suspended_level_is_open_and_nobody_sees_it(level: dual.Level) -> None:
    x = tp.ones(2)
    level.set(x, tp.zeros(2))
    with dual.suspended():
        assert dual.open_level() is level and dual.current() is None
        assert dual.tangent_of(x) is None and not dual.enabled()
    assert dual.tangent_of(x) is not None and dual.enabled()


def test_another_tensor_may_have_the_same_tangent_or_a_copy(level: dual.Level) -> None:
    x, same, copy, plain = (tp.ones(2) for _ in range(4))
    tangent = tp.zeros(2)
    level.set(x, tangent)
    dual.carry(x, same)
    dual.carry_copy(x, copy)
    dual.carry(plain, plain)
    tangent.fill_(5.0)
    assert dual.tangent_of(same) is tangent and dual.tangent_of(copy).tolist() == [0.0, 0.0]
    assert dual.tangent_of(plain) is None and dual.witness(plain) is None
    dual.forget(x)
    assert dual.tangent_of(x) is None and level.is_plain(x) and not level.is_plain(plain)


def test_a_witness_has_the_tangent_after_the_tensor_is_gone(level: dual.Level) -> None:
    x = tp.ones(2)
    level.set(x, tp.full((2,), 7.0))
    witness = dual.witness(x)
    del x
    assert witness is not None and dual.tangent_of(witness).tolist() == [7.0, 7.0]
    level.close()
    assert level.tangent_of(witness) is None


def test_layouts_are_compared_where_they_matter() -> None:
    x = tp.ones(2, 3)
    assert dual.same_layout(tp.zeros(2, 3), x) and not dual.same_layout(tp.zeros(3, 2).t(), x)
    assert dual.same_layout(tp.ones(1, 3).t().reshape(3, 1), tp.ones(3, 1))
    assert dual.same_layout(tp.zeros(3, 0).t(), tp.ones(0, 3)), "nobody reads what has no elements"
    assert dual.laid_out_as(x, tp.zeros(3, 2).t()).stride() == x.stride()
