"""What lies beneath an override: found by the table as it is when it is called, and never the override itself."""

from __future__ import annotations

import pytest

from tensorplay_core.dispatch import library
from tensorplay_core.dispatch.blocks import BlockLibrary
from tensorplay_core.dispatch.operator import Operator
from tensorplay_core.dispatch.registry import Registry
from tensorplay_core.errors import KernelMissing, RegistrationError
from tensorplay_core.ops.below import adapt


@pytest.fixture
def registry():
    registry = Registry()
    registry.define(Operator("op(Tensor x) -> Tensor", namespace="t", where="here.py:1"))
    return registry


def override(registry, owner, *, priority=0, plain=False):
    """Registers a kernel that puts its owner's name before what lies beneath it; returns the batch and the callable."""
    staging = registry.stage(owner, f"{owner}-distribution", priority)
    m = BlockLibrary(staging, "CPU")
    beneath = m.below("t::op")

    def kernel(x):
        return [owner, *beneath(x)]

    m.impl("t::op", (lambda x: [owner]) if plain else kernel, override=not plain)
    return staging.commit(), beneath


def call(registry):
    return registry.find("t::op").kernel_at(0).function(None)


def test_each_override_calls_the_next_one_whatever_their_order_of_arrival(registry):
    for owner in ("b", "c", "a"):
        override(registry, owner)
    override(registry, "base", plain=True)
    assert call(registry) == ["c", "b", "a", "base"]


def test_it_follows_what_is_undone_overridden_and_registered_again(registry):
    override(registry, "base", plain=True)
    first, _ = override(registry, "a")
    assert call(registry) == ["a", "base"]
    middle, _ = override(registry, "0")  # beneath a, above base
    assert call(registry) == ["a", "0", "base"]
    override(registry, "0", priority=1)  # now above a: the owner's own was replaced
    assert call(registry) == ["0", "a", "base"]
    middle.undo()
    first.undo()
    assert call(registry) == ["0", "base"]
    override(registry, "a")
    override(registry, "a")  # a notebook cell that runs twice: no kernel of its own lies beneath
    assert call(registry) == ["0", "a", "base"]


def test_a_kernel_that_is_undone_while_it_runs_does_not_go_up(registry):
    override(registry, "base", plain=True)
    low, beneath_low = override(registry, "a")
    override(registry, "b")
    assert call(registry) == ["b", "a", "base"]
    low.undo()
    assert beneath_low(None) == ["base"] and call(registry) == ["b", "base"]


def test_nothing_beneath_is_an_error_that_names_operator_slot_and_owner(registry, monkeypatch):
    monkeypatch.setattr(library, "adapt_below", adapt)  # as it is once the operators are there
    base, _ = override(registry, "base", plain=True)
    _, beneath = override(registry, "a")
    assert call(registry) == ["a", "base"]
    base.undo()
    with pytest.raises(KernelMissing) as info:
        beneath(None)
    message = str(info.value)
    assert message.startswith("t::op at CPU: nothing lies beneath the kernel of a-distribution (")
    assert f"{__file__}:" in message and "none at Composite" in message and "\nfix: " in message
    registry.remove(registry.find("t::op"))
    with pytest.raises(KernelMissing, match=r"t::op at CPU: .*the operator does not exist any more"):
        beneath(None)


def test_it_is_looked_up_once_until_the_table_changes(registry, monkeypatch):
    looked_up = []
    adapt = library.adapt_below
    monkeypatch.setattr(library, "adapt_below", lambda *args: looked_up.append(args) or adapt(*args))
    override(registry, "base", plain=True)
    _, beneath = override(registry, "a")
    for _ in range(3):
        beneath(None)
    assert len(looked_up) == 1
    override(registry, "other")
    for _ in range(3):
        beneath(None)
    assert len(looked_up) == 2


def test_an_operator_or_a_key_that_does_not_exist_is_a_problem_of_the_batch(registry):
    staging = registry.stage("a", "a-distribution")
    BlockLibrary(staging, "CPU", ", in the block 'Mine' at mine.py:1").below("t::opp")
    BlockLibrary(staging, "CPUU").below("t::op")
    with pytest.raises(RegistrationError) as info:
        staging.commit()
    message = str(info.value)
    assert "2 problems" in message and "no operator 't::opp'. Did you mean 't::op'?" in message
    assert "no dispatch key 'CPUU'. Did you mean 'CPU'?" in message and "below('t::op')" in message
    assert message.count(f"{__file__}:") == 2 and "in the block 'Mine' at mine.py:1" in message
