"""The profiler records the steps that really happen, and leaves nothing behind."""

from __future__ import annotations

import contextvars
import io
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import tensorplay as tp
from tensorplay_core.dispatch import active, devices
from tensorplay_core.dispatch.context import STATE
from tensorplay_core.errors import ArgumentError, ShapeError
from tensorplay_core.profiler import Event, profile, record_function, trace


def roads(p: profile) -> list[tuple[int, str, str]]:
    return [(event.depth, event.op, event.key) for event in p.events]


def test_an_autograd_step_encloses_the_step_that_it_redispatches_to() -> None:
    x = tp.ones(3, requires_grad=True)
    with profile() as p:
        x * 2
    assert roads(p) == [(0, "mul", "AutogradCPU"), (1, "mul", "CPU")]
    autograd, backend = p.events
    assert (autograd.slot, autograd.distribution) == ("Autograd", "tensorplay-core")
    assert (backend.kernel, backend.distribution) == ("numpy.multiply", "tensorplay-cpu")
    assert backend.parent is autograd and backend.continues and not autograd.continues
    assert autograd.where.rpartition(":")[2].isdigit()


def test_inference_mode_has_one_step() -> None:
    with tp.inference_mode(), profile() as p:
        tp.add(tp.ones(2), tp.ones(2))
    assert [row for row in roads(p) if row[1] == "add"] == [(0, "add", "CPU")]


def test_time_of_its_own_is_the_whole_without_the_steps_inside() -> None:
    with profile() as p:
        tp.linear(tp.ones(2, 3), tp.ones(4, 3))
    for event in p.events:
        inside = sum(other.seconds for other in p.events if other.parent is event)
        assert event.self_seconds == pytest.approx(event.seconds - inside, abs=1e-9)
        assert event.seconds > 0
    roots = sum(event.seconds for event in p.events if event.parent is None)
    assert sum(event.self_seconds for event in p.events) == pytest.approx(roots)


def test_a_composite_kernel_is_named_when_the_backend_does_not_take_a_keyword() -> None:
    with profile() as p:
        tp.add(tp.ones(2), tp.ones(2), alpha=2)
    step = next(event for event in p.events if event.op == "add" and event.key == "CPU")
    assert (step.slot, step.distribution) == ("Composite", "tensorplay-composite")


def test_backward_is_recorded() -> None:
    x = tp.ones(3, requires_grad=True)
    y = (x * x).sum()
    with profile() as p:
        y.backward()
    assert "mul" in {event.op for event in p.events}


def test_a_third_partys_kernel_is_recorded_with_its_keys() -> None:
    x = tp.ones(3, device="loopback")
    with profile() as p:
        x + x
    assert [(e.key, e.distribution) for e in p.events] == [
        ("AutogradLoopback", "tensorplay-core"),
        ("Loopback", "tensorplay-loopback"),
    ]


def test_shapes_are_recorded_when_asked_for() -> None:
    a, b = tp.ones(2, 3), tp.ones(1, 3)
    with profile(record_shapes=True) as p:
        tp.cat([a, b])
        tp.add(a, 1)
    assert p.events[0].shapes == ((2, 3), (1, 3))
    assert next(event for event in p.events if event.op == "add").shapes == ((2, 3), ())
    with profile() as p:
        tp.cat([a, b])
    assert p.events[0].shapes == ()


def test_an_exception_restores_the_state_and_is_kept_in_its_events() -> None:
    before, counts = STATE.get(), (active.special, active.grad_off, active.inference)
    with pytest.raises(ShapeError), profile() as p:
        tp.add(tp.ones(2), tp.ones(3))
    assert STATE.get() is before
    assert (active.special, active.grad_off, active.inference) == counts
    assert {event.error for event in p.events if event.op == "add"} == {"ShapeError"}
    n = len(p.events)
    tp.ones(2)
    assert len(p.events) == n


def test_the_fast_path_is_left_while_open_and_taken_again_afterwards() -> None:
    x = tp.ones(2)
    tp.add(x, x)
    special = active.special
    with profile() as p:
        assert active.special == special + 1
        tp.add(x, x)
    assert active.special == special
    assert len(p.events) == 2


def test_profilers_nest_and_each_sees_its_own_block() -> None:
    x = tp.ones(2)
    with profile() as outer:
        tp.add(x, x)
        with profile() as inner:
            tp.mul(x, x)
        tp.sub(x, x)
    assert {event.op for event in inner.events} == {"mul"}
    assert [event.op for event in outer.events if event.depth == 0] == ["add", "mul", "sub"]
    assert [event.depth for event in inner.events] == [0, 1]


def test_the_same_profiler_goes_on_when_it_is_opened_again() -> None:
    p = profile()
    for _ in range(2):
        with p:
            tp.ones(2)
    assert p.key_averages()["ones"].calls == 2


def test_other_threads_are_not_recorded_unless_the_context_is_copied() -> None:
    x = tp.ones(2)

    def work() -> None:
        for _ in range(20):
            tp.add(x, x)

    with profile() as p:
        stranger = threading.Thread(target=work)
        stranger.start()
        stranger.join()
        assert p.events == []
        workers = [threading.Thread(target=contextvars.copy_context().run, args=(work,)) for _ in range(4)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    assert p.key_averages()["add"].calls == 80
    for event in p.events:
        assert event.depth == (0 if event.key == "AutogradCPU" else 1)
        assert event.parent is None or event.parent.op == "add"


def test_two_threads_open_one_profiler() -> None:
    p, x = profile(), tp.ones(2)
    ready = threading.Barrier(2)

    def work() -> None:
        with p:
            ready.wait()
            tp.add(x, x)
            ready.wait()
        assert STATE.get().probe is None

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert p.key_averages()["add"].calls == 2


@pytest.mark.parametrize("block", [profile, lambda: trace(io.StringIO())], ids=["profile", "trace"])
def test_a_block_of_a_generator_can_be_left_by_another_thread(block: Callable[[], Any]) -> None:
    def paused() -> Iterator[None]:
        with block():
            yield

    before = active.special
    generator, failures = paused(), []
    next(generator)

    def close() -> None:
        try:
            generator.close()  # as the garbage collector does, in whichever thread it runs
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=close)
    thread.start()
    thread.join()
    with tp.no_grad():  # the next scope of this thread takes away what the other thread could not
        pass
    assert not failures and active.special == before and active.applying is None and STATE.get().probe is None


def test_a_block_has_a_name() -> None:
    x = tp.ones(2)
    with profile() as p:
        with record_function("block"):
            tp.add(x, x)
        with pytest.raises(ZeroDivisionError), record_function("broken"):
            _ = 1 // 0
    assert roads(p) == [(0, "block", ""), (1, "add", "AutogradCPU"), (2, "add", "CPU"), (0, "broken", "")]
    assert p.events[-1].error == "ZeroDivisionError"
    with record_function("outside a profiler"):
        tp.add(x, x)


def test_synchronize_waits_for_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    x = tp.ones(2, device="loopback")
    waited: list[int] = []
    monkeypatch.setattr(devices.entry("loopback").api, "synchronize", waited.append)
    with profile(synchronize=True):
        tp.add(x, x)
        tp.zeros(2, device="loopback")
    assert waited == [0, 0]
    with profile():
        tp.add(x, x)
    assert waited == [0, 0]


def test_averages() -> None:
    x = tp.ones(2, requires_grad=True)
    with profile() as p:
        for _ in range(3):
            tp.add(x, x, alpha=2)  # at Composite, which calls mul and then add again
    averages = p.key_averages()
    # The add inside is a call of its own, but its time is inside the outer one's already.
    assert (averages["add"].calls, averages["mul"].calls) == (6, 3)
    outer = sum(event.seconds for event in p.events if event.depth == 0)
    assert averages["add"].total_seconds == pytest.approx(outer)
    assert sum(row.self_seconds for row in averages) == pytest.approx(outer)
    assert [row.self_seconds for row in averages] == sorted((row.self_seconds for row in averages), reverse=True)
    assert "add" in averages and "exp" not in averages and len(averages) == 2
    with pytest.raises(ArgumentError, match="Did you mean 'add'"):
        averages["ad"]


def test_table_is_aligned_plain_text() -> None:
    with profile() as p:
        tp.linear(tp.ones(2, 3), tp.ones(4, 3))
        tp.exp(tp.ones(3))
    table = p.key_averages().table()
    head, rule, *rows, rule2, last = table.split("\n")
    assert head.split() == ["operator", "calls", "self", "self", "%", "total", "self/call"]
    assert rule == rule2 and set(rule) == {"-", " "}
    ends = [i for i in range(len(rule)) if rule[i] == "-" and (i + 1 == len(rule) or rule[i + 1] == " ")]
    for row in rows:  # every number ends where its column ends
        assert all(i < len(row) and row[i] != " " for i in ends[1:])
    assert last.startswith("all ") and last.rstrip().endswith("100.0")
    assert "\x1b" not in table and not any(line != line.rstrip() for line in table.split("\n"))
    short = p.key_averages().table(limit=1, sort_by="calls").split("\n")
    assert len(short) == 6 and short[3].split()[1] == "more"
    with pytest.raises(ArgumentError, match="Did you mean 'calls'"):
        p.key_averages().table(sort_by="call")
    assert p.key_averages().table(sort_by="name").split("\n")[2].startswith("exp")


def test_empty_profile_has_a_table() -> None:
    with profile() as p:
        pass
    assert p.key_averages().table().endswith("0.0")


def test_as_dict_is_plain() -> None:
    import json

    with profile(record_shapes=True) as p:
        tp.add(tp.ones(2), 1)
    found = json.loads(json.dumps(p.as_dict()))
    assert {row["name"] for row in found["averages"]} == {"add", "ones"}
    assert found["events"][-1]["key"] == "CPU" and found["events"][-1]["shapes"] == [[2], []]
    assert "add" in repr(Event("add", None))


# ---------------------------------------------------------------------------------------- as programs of PyTorch say it


def test_rows_by_place_and_the_order_that_is_given_by_nothing() -> None:
    with profile() as p:
        tp.exp(tp.ones(100))
    rows = p.key_averages()
    assert [rows[i] for i in range(len(rows))] == list(rows) and rows[-1] is list(rows)[-1]
    assert rows[0].self_seconds == max(row.self_seconds for row in rows)
    with pytest.raises(IndexError):
        rows[len(rows)]
    assert rows.table(sort_by=None) == rows.table() == rows.table(sort_by="self_seconds")


def test_start_and_stop_are_a_block() -> None:
    told: list[int] = []
    p = profile(on_trace_ready=lambda p: told.append(len(p.events)))
    p.start()
    tp.exp(tp.ones(2))
    p.stop()
    tp.sin(tp.ones(2))
    assert [event.op for event in p.events if not event.continues] == ["ones", "exp"] and told == [len(p.events)]
    with pytest.raises(tp.BackendError, match=r"profile\.stop: the profiler is not open\nfix: .*after start\(\)"):
        p.stop()


def test_activities_are_accepted() -> None:
    activity = tp.profiler.ProfilerActivity
    with profile(activities=[activity.CPU, activity.CUDA]) as p:
        tp.exp(tp.ones(2))
    with profile([activity.CPU]) as q:
        tp.exp(tp.ones(2))
    assert roads(p) == roads(q) and not q.record_shapes
    supported = tp.profiler.supported_activities()
    assert activity.CPU in supported and (activity.CUDA in supported) is tp.backends.is_available("cuda")


@pytest.mark.parametrize("given", [True, ["cpu"], "cpu", 3])
def test_what_is_no_activity(given: Any) -> None:
    with pytest.raises(ArgumentError, match=r"members of ProfilerActivity, and (.|\n)*fix: leave them away"):
        profile(given)


@pytest.mark.parametrize("name", ["record_shapes", "profile_memory", "with_stack", "synchronize", "all_threads"])
def test_flags_are_true_or_false(name: str) -> None:
    with pytest.raises(ArgumentError, match=rf"profile: {name} is True or False, not \[1\]\nfix: "):
        profile(**{name: [1]})
