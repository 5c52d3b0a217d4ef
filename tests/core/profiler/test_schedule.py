"""Schedules: which steps are recorded, and when somebody is told."""

from __future__ import annotations

import pytest

import tensorplay as tp
from tensorplay_core.dispatch import active
from tensorplay_core.dispatch.context import STATE
from tensorplay_core.profiler import ProfilerAction, profile, schedule

X = tp.ones(2)


def program(p: profile, steps: int) -> None:
    for i in range(steps):
        (tp.exp, tp.sin, tp.cos, tp.tanh, tp.sqrt, tp.log)[i](X)
        p.step()


def operators(p: profile) -> list[str]:
    return [event.op for event in p.events if event.depth < 2]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"wait": 1, "warmup": 1, "active": 2}, "NWRSNWRSNW"),
        ({"wait": 1, "warmup": 1, "active": 2, "repeat": 1}, "NWRSNNNNNN"),
        ({"wait": 0, "warmup": 0, "active": 1, "repeat": 2}, "SSNNNNNNNN"),
        ({"wait": 0, "warmup": 2, "active": 1, "skip_first": 3}, "NNNWWSWWSW"),
        ({"wait": 2, "warmup": 0, "active": 1, "skip_first_wait": 1}, "SNNSNNSNNS"),
    ],
)
def test_actions(settings: dict[str, int], expected: str) -> None:
    """What torch.profiler.schedule gives for the same numbers (torch 2.13)."""
    plan = schedule(**settings)
    letters = {"NONE": "N", "WARMUP": "W", "RECORD": "R", "RECORD_AND_SAVE": "S"}
    assert "".join(letters[plan(step).name] for step in range(10)) == expected


def test_cycles_are_handed_over_one_by_one() -> None:
    seen: list[list[str]] = []
    plan = schedule(wait=1, warmup=1, active=1)
    with profile(schedule=plan, on_trace_ready=lambda p: seen.append(operators(p))) as p:
        assert p.events == []
        program(p, 6)
    assert seen == [["ProfilerStep#2", "cos"], ["ProfilerStep#5", "log"]]
    assert p.step_num == 6 and operators(p) == seen[-1], "what waits does not throw away what was recorded"


def test_several_steps_of_one_cycle_and_one_that_the_program_ends() -> None:
    seen: list[list[str]] = []
    with profile(
        schedule=schedule(wait=0, warmup=1, active=2), on_trace_ready=lambda p: seen.append(operators(p))
    ) as p:
        program(p, 4)
        tp.sqrt(X)
    assert seen == [
        ["ProfilerStep#1", "sin", "ProfilerStep#2", "cos"],
        ["ProfilerStep#4", "sqrt"],
    ]


def test_without_a_schedule_everything_is_one_cycle() -> None:
    seen: list[int] = []
    with profile(on_trace_ready=lambda p: seen.append(len(p.events))) as p:
        program(p, 2)
    assert seen == [len(p.events)] == [4] and p.step_num == 2


def test_an_error_still_closes_the_step() -> None:
    with pytest.raises(ZeroDivisionError), profile(schedule=lambda step: ProfilerAction.RECORD) as p:
        tp.exp(X)
        raise ZeroDivisionError
    assert p.events[0].op == "ProfilerStep#0" and p.events[0].error == "ZeroDivisionError"
    assert p.events[0].seconds > p.events[1].seconds > 0


def test_what_is_wrong() -> None:
    with pytest.raises(tp.ValueRangeError, match="active is an integer of at least 1, not 0"):
        schedule(wait=1, warmup=1, active=0)
    with pytest.raises(tp.ValueRangeError, match="wait is an integer of at least 0, not -1"):
        schedule(wait=-1, warmup=1, active=1)
    with pytest.raises(tp.BackendError, match=r"the profiler is not open(.|\n)*fix: "):
        profile().step()
    with pytest.raises(tp.ArgumentError, match="schedule is a function, not 3"):
        profile(schedule=3)
    before, state = active.special, STATE.get()
    with pytest.raises(tp.ArgumentError, match="returned 1 for step 0"), profile(schedule=lambda step: 1):
        pass
    assert active.special == before and STATE.get() is state and active.applying is None


def test_a_call_that_raises_is_not_told_of_the_same_cycle_again() -> None:
    told: list[int] = []

    def ready(p: profile) -> None:
        told.append(p.step_num)
        raise ZeroDivisionError

    with (
        pytest.raises(ZeroDivisionError),
        profile(schedule=schedule(wait=0, warmup=0, active=1), on_trace_ready=ready) as p,
    ):
        program(p, 2)
    assert told == [1] and not p.recording


def test_a_profiler_inside_its_own_block_leaves_the_schedule_alone() -> None:
    seen: list[list[str]] = []
    plan = schedule(wait=0, warmup=0, active=2, repeat=1)
    with profile(schedule=plan, on_trace_ready=lambda p: seen.append(operators(p))) as p:
        tp.exp(X)
        with p:
            tp.sin(X)
        tp.cos(X)
        p.step()
        tp.tanh(X)
        p.step()
    assert seen == [["ProfilerStep#0", "exp", "sin", "cos", "ProfilerStep#1", "tanh"]]


@pytest.mark.parametrize("all_threads", [False, True])
def test_a_profiler_inside_its_own_block_records_once(all_threads: bool) -> None:
    told: list[int] = []
    p = profile(all_threads=all_threads, on_trace_ready=lambda p: told.append(len(p.events)))

    def calls() -> list[str]:
        return [event.op for event in p.events if not event.continues]

    with p:
        with p, profile():
            tp.exp(X)
        tp.sin(X)
    assert calls() == ["exp", "sin"] and told == [4], "one step at Autograd and one at CPU each"
    assert p.key_averages()["exp"].calls == 1
    with p:
        tp.cos(X)
    assert calls() == ["exp", "sin", "cos"] and told == [4, 6]
