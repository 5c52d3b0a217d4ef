"""Emitters that are wrong for formulas that no operator of the contract has; the suite must catch every one."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tensorplay_core.dispatch.keys import backend_key
from tensorplay_core.dispatch.registry import REGISTRY
from tensorplay_core.plugins import public as backends
from tensorplay_core.testing.suite import Profile
from tensorplay_core.testing.suite.checks import check_device
from tensorplay_core.testing.suite.outcome import FAILED, Gaps
from tensorplay_core.testing.suite.subject import Subject


@pytest.fixture
def found_with(monkeypatch: pytest.MonkeyPatch) -> Any:
    """What the suite says of another emitter, which is given that of the device."""
    backends.load("loopback")
    key = backend_key("loopback")
    right = REGISTRY.emitters[key][0].emit

    def found(emit: Any = None) -> str:
        if emit is not None:
            made = SimpleNamespace(emit=lambda program: emit(right, program))
            monkeypatch.setitem(REGISTRY.emitters, key, (made,))
        outcomes = check_device("formulas", Subject("loopback"), Gaps(Profile()))
        return "\n".join(one.what for one in outcomes if one.status == FAILED)

    return found


def with_results(change: Any) -> Any:
    """An emitter whose kernels give other results."""

    def emit(right: Any, program: Any) -> Any:
        kernel = right(program)
        return kernel and (lambda *args, **keywords: change(kernel(*args, **keywords), args))

    return emit


def test_the_device_as_it_is(found_with):
    assert found_with() == ""


def test_an_emitter_that_makes_nothing_of_such_formulas_is_none_the_worse(found_with):
    assert found_with(lambda right, program: None) == ""


def test_a_result_that_is_an_input(found_with):
    def change(result, args):
        return args[0] if np.array_equal(result, args[0]) else result

    found = found_with(with_results(change))
    assert "'return self' for self = [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]] gives a result that shares memory" in found


def test_two_results_that_are_one_array(found_with):
    def change(result, args):
        return (result[0],) * 2 if isinstance(result, tuple) else result

    assert "shares memory with an input or with another result" in found_with(with_results(change))


def test_a_result_that_is_the_array_of_a_number(found_with):
    kept = {}

    def change(result, args):
        return kept.setdefault(result.shape, result) if np.all(np.equal(result, 2.5)) else result

    assert "'return 2.5'" in found_with(with_results(change))


def test_a_result_whose_rows_are_one_row(found_with):
    def change(result, args):
        return np.broadcast_to(args[0], result.shape) if len(args) == 2 and result[0, 0] == 1 else result

    assert "gives a result that cannot be written to" in found_with(with_results(change))


def test_a_kernel_of_a_formula_with_an_unknown_operator(found_with):
    def emit(right, program):
        return right(program) or (lambda *args: args[0])

    assert "should return None" in found_with(emit)
