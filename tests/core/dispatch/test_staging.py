"""Batches: all of it or nothing, every problem at once, and signatures checked before any call."""

from __future__ import annotations

import functools
import operator
import re
from contextlib import closing

import numpy as np
import pytest

import tensorplay as tp
from tensorplay_core.dispatch.keys import DispatchKey, assign_page
from tensorplay_core.dispatch.operator import Operator
from tensorplay_core.dispatch.registry import REGISTRY, Registry
from tensorplay_core.errors import BackendConflict, KernelMissing, RegistrationError

CPU, COMPOSITE = int(DispatchKey.CPU), int(DispatchKey.Composite)


@pytest.fixture
def registry():
    registry = Registry()
    for schema in (
        "one(Tensor x) -> Tensor",
        "two(Tensor x, Tensor y, *, Scalar alpha=1) -> Tensor",
        "must(Tensor x, *, int n) -> Tensor",
    ):
        registry.define(Operator(schema, namespace="t"))
    return registry


def stage(registry, owner="me"):
    return registry.stage(owner, f"{owner}-distribution")


def one(x):
    return x


def test_a_batch_is_not_in_force_before_it_is_committed(registry):
    staging = stage(registry)
    staging.impl("t::one", "CPU", one)
    assert registry.find("t::one").table == {} and staging.problems() == []
    staging.commit()
    assert registry.find("t::one").kernel_at(CPU).function is one


def test_a_batch_with_one_bad_kernel_changes_nothing_and_lists_all_problems(registry):
    other = stage(registry, "other")
    other.impl("t::two", "CUDA", lambda x, y: x)
    other.commit()
    before = {name: op.table for name, op in registry.operators.items()}
    staging = stage(registry)
    staging.impl("t::one", "CPU", one)
    staging.impl("t::onw", "CPU", one)
    staging.impl("t::one", "CPUU", one)
    staging.impl("t::two", "CPU", lambda x: x)
    staging.impl("t::two", "CUDA", lambda x, y: x)
    staging.impl("t::one", "CUDA", 3)
    assert len(staging.problems()) == 5
    with pytest.raises(RegistrationError) as info:
        staging.commit()
    message = str(info.value)
    assert not isinstance(info.value, BackendConflict)
    for part in ("5 problems", "'t::one'", "'CPU'", "signature", "is taken by other-distribution", "callable, not 3"):
        assert part in message
    assert {name: op.table for name, op in registry.operators.items()} == before


def test_a_slot_registered_twice_in_one_batch_is_a_problem_also_from_one_line(registry):
    staging = stage(registry)
    for _ in range(2):
        staging.impl("t::one", "CPU", one, where="loop.py:1")
    with pytest.raises(RegistrationError, match=r"registered twice in one batch: loop.py:1 and loop.py:1"):
        staging.commit()


# -------------------------------------------------------------------------------------------------------- signatures


def two_too_few(x):
    return x


BAD = [
    ("t::one", lambda: None, "takes 0|too many positional"),
    ("t::one", lambda x, y: x, "missing a required argument: 'y'"),
    ("t::two", two_too_few, r"called as kernel\(x, y\): too many positional"),
    ("t::two", lambda x, *, y: x, "too many positional"),
    ("t::two", lambda x, y, *, beta: x, "missing a required.*'beta'"),
    ("t::two", lambda x, y, *, alpha: x, "missing a required.*'alpha'"),  # a call passes what it changes, so a default
    ("t::one", np.add, "takes 2 arrays"),
    ("t::two", np.negative, "takes 1 array,"),
]


@pytest.mark.parametrize(("op", "kernel", "why"), BAD, ids=[str(i) for i in range(len(BAD))])
def test_a_kernel_that_does_not_fit_is_refused_with_both_signatures_and_its_line(registry, op, kernel, why):
    staging = stage(registry)
    staging.impl(op, "CPU", kernel)
    with pytest.raises(RegistrationError) as info:
        staging.commit()
    message = str(info.value)
    schema = {"t::one": "one(Tensor x) -> Tensor", "t::two": "two(Tensor x, Tensor y, *, Scalar alpha=1) -> Tensor"}[op]
    assert schema in message and re.search(why, message)
    code = getattr(kernel, "__code__", None)
    line = code.co_firstlineno if code else test_a_kernel_that_does_not_fit_is_refused_with_both_signatures_and_its_line
    assert f"{__file__}:{line if code else ''}" in message
    if code is not None:
        assert "signature is (" in message


class Callable:
    def __call__(self, x):
        return x


GOOD = [
    ("t::one", lambda x: x, frozenset()),
    ("t::one", lambda x, extra=1: x, frozenset()),
    ("t::one", lambda *arrays: arrays, frozenset()),
    ("t::one", Callable(), frozenset()),
    ("t::one", functools.partial(lambda n, x: x, 1), frozenset()),
    ("t::two", lambda x, y: x, frozenset()),
    ("t::two", lambda x, y, *, alpha=1: x, {"alpha"}),
    ("t::two", lambda x, y, alpha=1: x, {"alpha"}),
    ("t::two", lambda x, y, **keywords: x, None),
    ("t::two", np.add, frozenset()),
    ("t::must", lambda x, *, n: x, {"n"}),
]


@pytest.mark.parametrize(("op", "kernel", "keywords"), GOOD, ids=[str(i) for i in range(len(GOOD))])
def test_a_kernel_that_fits_is_taken_and_its_keywords_are_noted(registry, op, kernel, keywords):
    staging = stage(registry)
    staging.impl(op, "CPU", kernel)
    (registration,) = staging.commit().registrations
    assert registration.keywords == keywords and not registration.unchecked


def test_what_cannot_be_inspected_is_marked_unchecked(registry):
    staging = stage(registry)
    staging.impl("t::two", "CPU", max)
    (registration,) = staging.commit().registrations
    assert registration.unchecked and registration.keywords is None
    staging = stage(registry)
    staging.impl("t::two", "CUDA", operator.add)  # a builtin with a signature is checked
    assert not staging.commit().registrations[0].unchecked


def test_a_kernel_on_tensors_takes_every_keyword(registry):
    staging = stage(registry)
    staging.impl("t::two", "Composite", lambda x, y: x)
    with pytest.raises(RegistrationError, match="alpha"):
        staging.commit()


def test_a_kernel_with_the_key_set_has_one_argument_more(registry):
    staging = stage(registry)
    staging.impl("t::one", "AutogradCPU", lambda keys, x: x, with_keyset=True)
    staging.commit()
    staging = stage(registry)
    staging.impl("t::one", "AutocastCPU", lambda x: x, with_keyset=True)
    with pytest.raises(RegistrationError, match="signature"):
        staging.commit()


@pytest.mark.parametrize(
    ("key", "options", "why"),
    [
        ("CPU", {"level": "arrays"}, "level is 'array' or 'tensor'"),
        ("Autograd", {"level": "array"}, "takes tensors"),
        ("Composite", {"level": "array"}, "takes tensors"),
        ("CPU", {"with_keyset": True}, "cannot redispatch"),
        (25, {}, "no dispatch key of number 25"),
        (1 << 40, {}, "no dispatch key of number"),
    ],
)
def test_keys_and_levels_that_mean_nothing_are_refused(registry, key, options, why):
    staging = stage(registry)
    staging.impl("t::one", key, lambda *args: args[-1], **options)
    with pytest.raises(RegistrationError, match=why):
        staging.commit()


def test_levels_by_default(registry):
    staging = stage(registry)
    for key in ("CPU", "Sparse", "Composite", "Autograd", "VmapMode"):
        staging.impl("t::one", key, one)
    levels = {r.key: r.level for r in staging.commit().registrations}
    assert levels == {0: "array", 3: "array", 22: "tensor", "Autograd": "tensor", 23: "tensor"}


# ------------------------------------------------------------------------------------------------ out of Composite


def test_a_backend_that_opts_out_of_composite_has_no_kernel_until_that_is_undone():
    lib = tp.library.Library("optout", "DEF")
    lib.define("twice(Tensor x) -> Tensor")
    lib.impl("twice", lambda x: x + x, "Composite")
    staging = REGISTRY.stage("opting", "opting-distribution")
    staging.without_composite("optout::twice", "CPU")
    x, y = tp.ones(2), tp.ones(2, device="loopback")
    try:
        assert tp.ops.optout.twice(x).tolist() == [2.0, 2.0]
        committed = staging.commit()
        with pytest.raises(KernelMissing, match="optout::twice"):
            tp.ops.optout.twice(x)
        assert tp.ops.optout.twice(y).tolist() == [2.0, 2.0]
        committed.undo()
        assert tp.ops.optout.twice(x).tolist() == [2.0, 2.0]
    finally:
        lib.close()


def test_a_keyword_that_only_composite_takes_is_refused_in_the_name_of_who_opted_out_of_it():
    staging = REGISTRY.stage("opting", "opting-distribution")
    staging.without_composite("add", "CPU")
    committed = staging.commit()
    try:
        with pytest.raises(
            KernelMissing, match="not take alpha, and opting-distribution opted out of Composite for it"
        ):
            tp.add(tp.ones(2), tp.ones(2), alpha=2)
        why = str(tp.explain(tp.add, tp.ones(2), tp.ones(2), alpha=2))
        assert "opting-distribution opted out of Composite for it" in " ".join(why.split())
    finally:
        committed.undo()
    assert tp.add(tp.ones(2), tp.ones(2), alpha=2).tolist() == [3.0, 3.0]


def test_opting_out_empties_resolved_slots_at_once():
    x = tp.tensor([0.5])
    op = REGISTRY.find("sigmoid")
    lib = tp.library.Library("tp", "IMPL")
    try:
        x.sigmoid(), x.sigmoid()
        staging = REGISTRY.stage("opting", "opting-distribution")
        staging.without_composite("sigmoid", "CPU")
        committed = staging.commit()
        assert set(op.without_composite) == {CPU}
        assert x.sigmoid().item() == pytest.approx(0.6224593)  # the specialised kernel still serves
        committed.undo()
        assert not op.without_composite
    finally:
        lib.close()


@pytest.mark.parametrize(("op", "key"), [("t::nothing", "CPU"), ("t::one", "Autograd"), ("t::one", "AutogradCPU")])
def test_only_a_backend_key_of_a_known_operator_can_opt_out(registry, op, key):
    staging = stage(registry)
    staging.without_composite(op, key)
    with pytest.raises(RegistrationError):
        staging.commit()


def test_each_owner_opts_out_for_itself_and_undoing_one_leaves_the_others(registry):
    op = registry.find("t::one")

    def opt_out(owner):
        staging = stage(registry, owner)
        staging.without_composite("t::one", "CPU", where=f"{owner}.py:1")
        return staging.commit()

    first, second, again = opt_out("a"), opt_out("b"), opt_out("a")
    assert op.opted_out_by(CPU) == "a-distribution, b-distribution" and len(op.without_composite[CPU]) == 2
    first.undo()  # it was replaced by the same owner's
    assert len(op.without_composite[CPU]) == 2
    second.undo()
    assert [one.where for one in op.without_composite[CPU]] == ["a.py:1"]
    again.undo()
    again.undo()
    assert op.without_composite == {}
    again.redo()
    assert op.opted_out_by(CPU) == "a-distribution"


def test_an_opt_out_is_said_by_explain_by_the_error_and_by_the_profiler():
    x = tp.ones(2)
    with closing(tp.library.Library("tp", "IMPL", "CPU")) as lib:
        lib.without_composite("linear")
        lib.without_composite("add")
        step = tp.explain(tp.linear, tp.ones(2, 2), tp.ones(2, 2)).steps[-1]
        owner = __name__.partition(".")[0]
        assert (step.key, step.state) == ("CPU", "missing") and f"opted out of Composite by {owner}" in step.reason
        with pytest.raises(KernelMissing, match=f"{owner} opted out of Composite"):
            tp.linear(tp.ones(2, 2), tp.ones(2, 2))
        assert (x + x).tolist() == [2.0, 2.0]  # a kernel of its own still serves, with what it takes
        with pytest.raises(KernelMissing, match="does not take alpha"):
            tp.add(x, x, alpha=2)
    assert tp.add(x, x, alpha=2).tolist() == [3.0, 3.0]


# -------------------------------------------------------------------------------------------- another device's keys


def serves(device):
    return device == "cuda"


def test_kernels_for_a_device_that_the_owner_does_not_serve_are_one_problem_with_the_ways_out():
    assign_page("nowhere")
    staging = REGISTRY.stage("mine", "mine-distribution", serves=serves)
    for op in ("exp", "sin", "cos", "tanh", "expm1"):
        staging.impl(op, "cuda", one)
        staging.impl(op, "nowhere", one, where=f"mine.py:{op}")
    staging.impl("neg", "AutogradNowhere", one, where="mine.py:neg")
    with pytest.raises(RegistrationError) as info:
        staging.commit()
    message = str(info.value)
    assert "1 problem in" in message and "'mine' does not serve the device 'nowhere'" in message
    assert "exp (mine.py:exp), sin (mine.py:sin), cos (mine.py:cos) and 3 more" in message
    assert "'extends: [nowhere]'" in message and "override=True" in message


def test_a_taken_slot_of_another_device_is_a_conflict_and_override_and_own_operators_are_free():
    tp.ones(1), tp.ones(1, device="loopback")
    staging = REGISTRY.stage("mine", "mine-distribution", serves=serves)
    staging.impl("exp", "CPU", one)
    with pytest.raises(BackendConflict) as info:
        staging.commit()
    assert "does not serve" not in str(info.value) and "taken by tensorplay-cpu" in str(info.value)
    with closing(tp.library.Library("mineown", "DEF")) as lib:
        lib.define("one(Tensor x) -> Tensor")
        staging = REGISTRY.stage("mine", "mine-distribution", serves=serves)
        staging.impl("exp", "CPU", one, override=True)
        staging.impl("mineown::one", "CPU", one)
        for key in ("Composite", "Autograd", "Vmap", "Sparse", "Meta", "Python"):
            staging.impl("mineown::one", key, one)
        staging.impl("exp", "Meta", one, override=True)
        staging.commit().undo()


def test_a_keyword_that_is_a_word_of_python_reaches_the_kernel_with_an_underscore():
    lib = tp.library.Library("words", "DEF")
    lib.define("scaled(Tensor self, *, float lambda=1.0) -> Tensor")
    lib.impl("scaled", lambda self, *, lambda_=1.0: self * lambda_, "CPU", level="array")
    assert tp.ops.words.scaled(tp.ones(2), lambda_=3.0).tolist() == [3.0, 3.0]
    assert tp.ops.words.scaled(tp.ones(2)).tolist() == [1.0, 1.0]
    with pytest.raises(RegistrationError, match=r"the kernel's signature is \(self, \*, lambda_\)"):
        lib.impl("scaled", lambda self, *, lambda_: self, "CPU", level="array", override=True)
    lib.close()
