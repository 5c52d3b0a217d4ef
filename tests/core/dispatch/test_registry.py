"""Tables: stacks ordered by who registers and not by when, conflicts that name both sides, and undo."""

from __future__ import annotations

import itertools

import pytest

import tensorplay as tp
from tensorplay_core.dispatch.keys import DispatchKey
from tensorplay_core.dispatch.operator import Operator
from tensorplay_core.dispatch.registry import Registry
from tensorplay_core.errors import BackendConflict, RegistrationError

CPU = int(DispatchKey.CPU)


def kernel_a(x):
    return x


def kernel_b(x):
    return x


def kernel_c(x):
    return x


KERNELS = {"a": kernel_a, "b": kernel_b, "c": kernel_c}


def test_find_suggests_names_as_they_were_written() -> None:
    with pytest.raises(RegistrationError, match=r"no operator 'tp::matmol'\. Did you mean 'tp::matmul'"):
        tp.library.Library("tp", "IMPL", "CPU").impl("matmol", kernel_a)
    with pytest.raises(RegistrationError, match=r"no operator 't::opp'\. Did you mean 't::op'\?"):
        (registry := Registry()).define(Operator("op(Tensor x) -> Tensor", namespace="t", where="here.py:1"))
        registry.find("t::opp")


@pytest.fixture
def registry():
    registry = Registry()
    registry.define(Operator("op(Tensor x) -> Tensor", namespace="t", where="here.py:1"))
    registry.define(Operator("two(Tensor x, Tensor y, *, int n=1) -> Tensor", namespace="t", where="here.py:2"))
    return registry


def register(registry, owner, *, override=False, priority=0, key="CPU", op="t::op"):
    staging = registry.stage(owner, f"{owner}-distribution", priority)
    staging.impl(op, key, KERNELS[owner], override=override)
    return staging.commit()


def owners(registry, op="t::op", key=CPU):
    return [r.owner for r in registry.find(op).table.get(key, ())]


def test_a_registration_remembers_where_it_came_from(registry):
    (one,) = register(registry, "a").registrations
    assert one.function is kernel_a and one.owner == "a" and one.distribution == "a-distribution"
    assert one.where == f"{__file__}:{kernel_a.__code__.co_firstlineno}"
    assert one.number > 0 and one.op == "t::op" and one.key == CPU and one.level == "array"
    assert "a-distribution" in repr(one) and "CPU" in repr(one)


@pytest.mark.parametrize("order", list(itertools.permutations("abc")))
def test_stacks_are_ordered_by_override_priority_and_owner_and_not_by_arrival(registry, order):
    rank = {"a": {"override": False}, "b": {"override": True, "priority": 5}, "c": {"override": True, "priority": 1}}
    for owner in order:
        register(registry, owner, **rank[owner])
    assert owners(registry) == ["b", "c", "a"]


@pytest.mark.parametrize("order", list(itertools.permutations("abc")))
def test_among_equals_the_owners_name_decides(registry, order):
    for owner in order:
        register(registry, owner, override=True)
    assert owners(registry) == ["c", "b", "a"]


@pytest.mark.parametrize("order", list(itertools.permutations("abc")))
def test_what_a_program_overrides_lies_above_the_plugins_whatever_their_priorities(registry, order):
    for owner in order:
        staging = registry.stage(owner, owner, 0 if owner == "a" else 10**30, run_time=owner == "a")
        staging.impl("t::op", "CPU", KERNELS[owner], override=True)
        staging.commit()
    assert owners(registry) == ["a", "c", "b"]


@pytest.mark.parametrize("gone", list(itertools.permutations("abc")))
def test_undo_exposes_what_lies_beneath_in_any_order(registry, gone):
    committed = {
        "a": register(registry, "a"),
        "b": register(registry, "b", override=True, priority=1),
        "c": register(registry, "c", override=True, priority=2),
    }
    left = ["c", "b", "a"]
    for owner in gone:
        committed[owner].undo()
        left.remove(owner)
        assert owners(registry) == left
        committed[owner].undo()  # a second time does nothing
        assert owners(registry) == left
    assert registry.find("t::op").table == {}


@pytest.mark.parametrize("order", [("a", "b"), ("b", "a")])
def test_another_owner_for_a_taken_slot_is_a_conflict_that_names_both_and_changes_nothing(registry, order):
    first, second = order
    register(registry, first)
    before, generation = registry.find("t::op").table, registry.find("t::op").generation
    with pytest.raises(BackendConflict) as info:
        register(registry, second)
    message = str(info.value)
    for owner in order:
        code = KERNELS[owner].__code__
        assert f"{owner}-distribution" in message and f"{code.co_filename}:{code.co_firstlineno}" in message
    assert "override=True" in message and "op at CPU" in message
    assert registry.find("t::op").table is before and registry.find("t::op").generation == generation


def test_a_conflict_is_found_beneath_an_override_too(registry):
    register(registry, "a")
    register(registry, "b", override=True)
    with pytest.raises(BackendConflict, match="a-distribution"):
        register(registry, "c")


def test_specialised_over_composite_is_no_conflict(registry):
    register(registry, "a", key="Composite")
    register(registry, "b", key="CPU")
    assert owners(registry, key=int(DispatchKey.Composite)) == ["a"] and owners(registry) == ["b"]


def test_the_same_owner_replaces_its_own(registry):
    first = register(registry, "a")
    second = register(registry, "a")
    assert [r.function for r in registry.find("t::op").table[CPU]] == [kernel_a]
    assert registry.find("t::op").kernel_at(CPU) is second.registrations[0]
    first.undo()  # what it put there was replaced: nothing to take out
    assert registry.find("t::op").kernel_at(CPU) is second.registrations[0]
    second.undo()
    assert registry.find("t::op").kernel_at(CPU) is None


def test_tables_are_replaced_and_never_mutated(registry):
    op = registry.find("t::op")
    tables = [op.table]
    for _ in range(3):
        committed = register(registry, "a")
        tables.append(op.table)
        committed.undo()
    assert tables[0] == {} and all(list(table) == [CPU] for table in tables[1:])
    assert len({id(table) for table in tables}) == 4
    with pytest.raises(TypeError):
        op.table[CPU] = ()


def test_each_change_is_a_new_generation(registry):
    op = registry.find("t::op")
    seen = [op.generation]
    committed = register(registry, "a")
    seen.append(op.generation)
    committed.undo()
    seen.append(op.generation)
    assert seen[0] < seen[1] < seen[2]


def test_operators_are_found_by_name_and_unknown_ones_answered_with_the_nearest(registry):
    assert registry.find("t::op").qualified_name == "t::op"
    with pytest.raises(RegistrationError, match=r"no operator 't::opp'.* 't::op'"):
        registry.find("t::opp")
    assert tp.ops.tp.add.default._op.qualified_name == "tp::add"


def test_defining_an_operator_twice_names_both_places(registry):
    with pytest.raises(RegistrationError, match=r"here.py:1 and at there.py:9"):
        registry.define(Operator("op(Tensor x) -> Tensor", namespace="t", where="there.py:9"))


def test_a_definition_that_a_listener_refuses_leaves_nothing(registry):
    def refuse(op):
        raise ValueError("no")

    registry.on_define.append(refuse)
    with pytest.raises(ValueError, match="no"):
        registry.define(Operator("third(Tensor x) -> Tensor", namespace="t"))
    assert "t::third" not in registry.operators


def test_a_kernel_for_an_operator_that_left_meanwhile_is_refused(registry):
    staging = registry.stage("a", "a-distribution")
    staging.impl("t::op", "CPU", kernel_a)
    registry.remove(registry.find("t::op"))
    with pytest.raises(RegistrationError, match="t::op does not exist any more"):
        staging.commit()
