"""Trees against a shape: which leaf goes where, whatever order a dict has its keys in."""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque, namedtuple

import pytest

from tensorplay_core.tensor.pytree import broadcast_prefix, leaves_as, register_pytree_node, tree_flatten

Pair = namedtuple("Pair", "a b")


def of(*items):
    return defaultdict(list, items)


@pytest.mark.parametrize("make", [lambda *items: dict(items), lambda *items: OrderedDict(items), of])
def test_dicts_are_matched_by_key(make):
    spec = tree_flatten(make(("a", 0), ("b", (0, 0))))[1]
    other_order = make(("b", (2, 3)), ("a", 1))
    assert leaves_as(other_order, spec) == [1, 2, 3]
    assert broadcast_prefix(other_order, spec) == [1, 2, 3]
    assert broadcast_prefix(make(("b", 2), ("a", 1)), spec) == [1, 2, 2]
    assert leaves_as(make(("b", (2, 3)), ("c", 1)), spec) is None
    assert broadcast_prefix(make(("b", 2), ("c", 1)), spec) is None
    assert broadcast_prefix(make(("a", 1)), spec) is None


def test_only_a_prefix_may_end_early_or_be_of_another_kind():
    spec = tree_flatten((1, [2, 3], Pair(4, 5)))[1]
    assert leaves_as((1, [2, 3], Pair(4, 5)), spec) == [1, 2, 3, 4, 5]
    assert broadcast_prefix([1, (2, 3), (4, 5)], spec) == [1, 2, 3, 4, 5]
    assert broadcast_prefix((1, 2, 3), spec) == [1, 2, 2, 3, 3]
    for other in ([1, [2, 3], Pair(4, 5)], (1, (2, 3), Pair(4, 5)), (1, [2, 3], (4, 5)), (1, 2, 3), (1, [2, 3]), 1):
        assert leaves_as(other, spec) is None
    assert leaves_as((1,), tree_flatten(1)[1]) is None
    empty = tree_flatten(((1, 2), ()))[1]
    assert leaves_as((1, 2), empty) is None


def test_what_a_node_needs_besides_its_children_must_be_the_same():
    class Tagged:
        def __init__(self, tag, *children):
            self.tag, self.children = tag, children

    register_pytree_node(Tagged, lambda t: (list(t.children), t.tag), lambda children, tag: Tagged(tag, *children))
    spec = tree_flatten(Tagged("x", 1, 2))[1]
    assert leaves_as(Tagged("x", 3, 4), spec) == [3, 4]
    assert leaves_as(Tagged("y", 3, 4), spec) is None
    assert leaves_as(deque([1, 2]), tree_flatten(deque([1, 2], 5))[1]) is None


def test_a_shape_names_its_keys():
    assert repr(tree_flatten({"a": 1, "b": (2, 3)})[1]) == "dict(a=*, b=tuple(*, *))"
    assert repr(tree_flatten(of(("k", [1])))[1]) == "defaultdict(k=list(*))"
