"""Emitters: kernels made of formulas, for every operator that has one, beneath whatever is written by hand."""

from __future__ import annotations

import subprocess
import sys
from contextlib import closing

import pytest

import tensorplay as tp
from tensorplay_core.dispatch.keys import DispatchKey
from tensorplay_core.dispatch.library import library_impl
from tensorplay_core.dispatch.operator import Operator
from tensorplay_core.dispatch.registry import REGISTRY, Registry
from tensorplay_core.errors import ArgumentError, BackendConflict, RegistrationError
from tensorplay_core.types.program import Program

CPU, CUDA = int(DispatchKey.CPU), int(DispatchKey.CUDA)
DOUBLE = Program(("x",), (), (), (), (("t0", "add", "x", "x"),), ("t0",))
TRIPLE = Program(("x",), (), (), (), (("t0", "mul", 3, "x"),), ("t0",))


def emit(program):
    def kernel(x):
        return program, x

    return kernel


def emit_too(program):
    def kernel_too(x):
        return program, x

    return kernel_too


def emit_no_products(program):
    return None if "mul" in program.operators() else emit(program)


def by_hand(x):
    return x


def math_operator(name, program):
    return Operator(f"{name}(Tensor x) -> Tensor", namespace="t", math=program, where=f"{name}.py:1")


@pytest.fixture
def registry():
    registry = Registry()
    registry.define(math_operator("double", DOUBLE))
    registry.define(math_operator("triple", TRIPLE))
    registry.define(Operator("plain(Tensor x) -> Tensor", namespace="t", where="plain.py:1"))
    return registry


def bring(registry, emit, owner="me", *, override=False, key="CPU", priority=0):
    staging = registry.stage(owner, f"{owner}-distribution", priority)
    staging.emitter(key, emit, override=override)
    return staging.commit()


def impl(registry, owner, *, op="t::double", override=False):
    staging = registry.stage(owner, f"{owner}-distribution")
    staging.impl(op, "CPU", by_hand, override=override)
    return staging.commit()


def names(registry, op="t::double", key=CPU):
    return [f"{r.owner}: {r.kernel_name.rpartition('.')[2]}" for r in registry.find(op).table.get(key, ())]


# ------------------------------------------------------------------------------------------------------ which operators


def test_operators_with_math_get_kernels_and_others_none(registry):
    committed = bring(registry, emit)
    assert {r.op for r in committed.registrations} == {"t::double", "t::triple"}
    assert registry.find("t::double").kernel_at(CPU).function(5) == (DOUBLE, 5)
    assert registry.find("t::triple").kernel_at(CPU).function(5) == (TRIPLE, 5)
    assert registry.find("t::plain").table == {} and registry.find("t::double").kernel_at(CUDA) is None


def test_an_operator_that_is_defined_later_gets_kernels_of_all_emitters(registry):
    bring(registry, emit)
    bring(registry, emit_too, "other", key="CUDA")
    op = registry.define(math_operator("later", DOUBLE))
    assert names(registry, "t::later") == ["me: emit"] and names(registry, "t::later", CUDA) == ["other: emit_too"]
    assert op.kernel_at(CPU).function(1) == (DOUBLE, 1)


def test_where_an_emitter_returns_none_there_is_no_kernel(registry):
    bring(registry, emit_no_products)
    registry.define(math_operator("later", TRIPLE))
    assert names(registry) == ["me: emit_no_products"]
    assert names(registry, "t::triple") == names(registry, "t::later") == []


def test_what_is_defined_and_removed_while_a_batch_waits_is_respected(registry):
    staging = registry.stage("me", "me")
    staging.emitter("CPU", emit)
    registry.remove(registry.find("t::triple"))
    registry.define(math_operator("meanwhile", DOUBLE))
    committed = staging.commit()
    assert {r.op for r in committed.registrations} == {"t::double", "t::meanwhile"}


def test_the_kernels_say_where_they_come_from(registry):
    bring(registry, emit)
    registration = registry.find("t::double").kernel_at(CPU)
    line = emit.__code__.co_firstlineno
    assert registration.emitted and registration.kernel_name == f"emitted by {__name__}.emit"
    assert registration.where == f"{__file__}:{line}" and registration.distribution == "me-distribution"
    assert registration.level == "array" and repr(registration.emitter).startswith(f"<emitter {__name__}.emit at CPU")
    bring(registry, emit, key="Composite")
    assert registry.find("t::double").kernel_at(int(DispatchKey.Composite)).level == "tensor"


# ---------------------------------------------------------------------------------------------------- beneath and above


@pytest.mark.parametrize("emitter_first", [True, False])
@pytest.mark.parametrize("owner", ["me", "another", "zoe"])
def test_an_emitted_kernel_lies_beneath_a_handwritten_one_of_anybody(registry, owner, emitter_first):
    steps = [lambda: bring(registry, emit, override=True, priority=9), lambda: impl(registry, owner)]
    for step in steps if emitter_first else reversed(steps):
        step()
    assert names(registry) == [f"{owner}: by_hand", "me: emit"]


def test_taking_the_handwritten_kernel_out_exposes_the_emitted_one(registry):
    bring(registry, emit)
    written = impl(registry, "me")
    assert names(registry) == ["me: by_hand", "me: emit"]
    written.undo()
    assert names(registry) == ["me: emit"]


def test_handwritten_kernels_of_two_owners_conflict_with_an_emitted_one_between_them(registry):
    bring(registry, emit)
    impl(registry, "one")
    with pytest.raises(BackendConflict, match="taken by one-distribution"):
        impl(registry, "two")


def test_two_emitters_at_one_key_conflict_and_the_error_names_both_places(registry):
    bring(registry, emit)
    before = registry.find("t::double").table
    with pytest.raises(BackendConflict) as info:
        bring(registry, emit_too, "other")
    for function in (emit, emit_too):
        assert f"{__file__}:{function.__code__.co_firstlineno}" in str(info.value)
    assert "override=True" in str(info.value) and registry.find("t::double").table is before
    bring(registry, emit_too, "other", key="CUDA")


def test_an_overriding_emitter_stands_above_and_what_it_cannot_do_is_left_to_the_other(registry):
    bring(registry, emit_too)
    over = bring(registry, emit_no_products, "another", override=True)
    assert names(registry) == ["another: emit_no_products", "me: emit_too"]
    assert names(registry, "t::triple") == ["me: emit_too"]
    over.undo()
    assert names(registry) == ["me: emit_too"]


def test_emitters_stand_in_the_same_order_whoever_came_first(registry):
    for order in (("b", "a"), ("a", "b")):
        committed = [bring(registry, emit, owner, override=True, priority=owner == "a") for owner in order]
        registry.define(op := math_operator("later", DOUBLE))
        assert names(registry) == names(registry, "t::later") == ["a: emit", "b: emit"]
        registry.remove(op)
        for batch in committed:
            batch.undo()


def test_the_same_owner_replaces_its_emitter_and_all_that_it_made(registry):
    first = bring(registry, emit_too)
    bring(registry, emit_no_products)
    assert names(registry) == ["me: emit_no_products"] and names(registry, "t::triple") == []
    first.undo()
    assert names(registry) == ["me: emit_no_products"] and len(registry.emitters[CPU]) == 1


def test_undo_takes_out_what_was_made_for_later_operators_too(registry):
    committed = bring(registry, emit)
    registry.define(math_operator("later", DOUBLE))
    committed.undo()
    registry.define(math_operator("after", DOUBLE))
    assert [names(registry, f"t::{name}") for name in ("double", "triple", "later", "after")] == [[]] * 4
    assert registry.emitters == {}
    committed.undo()


# -------------------------------------------------------------------------------------------------------- what is wrong


def refused(registry, message, *emitters, key="CPU"):
    staging = registry.stage("me", "me-distribution")
    for function in emitters:
        staging.emitter(key, function)
    with pytest.raises(RegistrationError, match=message) as info:
        staging.commit()
    assert registry.emitters == {} and registry.find("t::double").table == {}
    return str(info.value)


def test_a_kernel_that_does_not_fit_its_operator_is_refused(registry):
    text = refused(registry, "2 problems", lambda program: lambda x, y: x)
    assert "t::double at CPU, emitted by" in text and "double(Tensor x)" in text and f"{__file__}:" in text
    refused(registry, "a kernel is a callable, not 3", lambda program: 3)


def test_an_emitter_that_raises_is_a_problem_of_its_backend(registry):
    def broken(program):
        raise KeyError("add")

    assert "KeyError: 'add'" in refused(registry, "2 problems", broken)


def test_an_emitter_that_fails_on_a_later_operator_does_not_stop_its_definition(registry):
    def picky(program):
        return emit(program) if program is not TRIPLE or not registry.emitters else 1 / 0

    bring(registry, picky)
    with pytest.warns(RuntimeWarning, match=r"picky at CPU.* failed on t::later.*ZeroDivisionError"):
        op = registry.define(math_operator("later", TRIPLE))
    assert registry.find("t::later") is op and op.table == {}


@pytest.mark.parametrize("key", ["AutogradCPU", "Autograd", "VmapMode"])
def test_layers_have_no_emitters(registry, key):
    refused(registry, f"{key}: emitters stand at a backend's key or at Composite", emit, key=key)


def test_other_mistakes_are_named(registry):
    refused(registry, "no dispatch key 'CPUU'.*Did you mean", emit, key="CPUU")
    refused(registry, "an emitter is a callable", 3)
    refused(registry, "two emitters are registered in one batch", emit, emit_too)


# ------------------------------------------------------------------------------------------- the ways to register them


def halves(program):
    return lambda *arrays: arrays[0] * 0.5


def test_a_library_brings_an_emitter_at_once_and_takes_it_away():
    x = tp.tensor([2.0, 4.0])
    before = tp.silu(x).tolist()
    for _ in range(2):
        with closing(tp.library.Library("tp", "IMPL", "CPU")) as lib:
            lib.emitter(halves, override=True)
            assert tp.silu(x).tolist() == tp.silu(x).tolist() == [1.0, 2.0]
        assert tp.silu(x).tolist() == tp.silu(x).tolist() == before


def test_a_library_refuses_a_second_emitter_and_one_without_a_key():
    tp.ones(1)
    with closing(tp.library.Library("tp", "IMPL")) as lib:
        with pytest.raises(ArgumentError, match="which dispatch key"):
            lib.emitter(halves)
        with pytest.raises(BackendConflict, match=r"CPU has the emitter tensorplay_cpu\.math\.emit of tensorplay-cpu"):
            lib.emitter(halves, "CPU")


def test_a_block_outside_a_plugin_is_applied_at_once():
    x = tp.tensor([2.0, 4.0])
    module, owners = __name__, lambda: [e.owner for e in REGISTRY.emitters[CPU]]
    assert tp.silu(x).tolist() and module not in owners()

    @library_impl("CPU", "Halves")
    def _(m):
        m.emitter(halves, override=True)

    try:
        assert owners()[0] == module and tp.silu(x).tolist() == [1.0, 2.0]
    finally:
        REGISTRY.publish(emitters_removed=[e for e in REGISTRY.emitters[CPU] if e.owner == module])
    assert tp.silu(x).tolist() != [1.0, 2.0]


def test_an_emitter_leaves_with_its_backend_and_comes_back_with_it():
    code = """
import tensorplay as tp
from tensorplay_core.dispatch.registry import REGISTRY

def emitted():
    kernels = [r for op in REGISTRY.operators.values() for stack in op.table.values() for r in stack if r.emitted]
    return sum(r.distribution == "tensorplay-loopback" for r in kernels)

x = tp.tensor([2.0], device="loopback")
value, count = tp.silu(x).item(), emitted()
tp.backends.unload("loopback")
assert count and not emitted(), (count, emitted())
tp.backends.load("loopback")
assert emitted() == count and tp.silu(tp.tensor([2.0], device="loopback")).item() == value
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_explain_says_that_a_kernel_is_emitted():
    text = str(tp.explain("silu(float32[2] cpu)"))
    assert "emitted by tensorplay_cpu.math.emit" in text and "made of the operator's formula" in text
