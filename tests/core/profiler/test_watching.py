"""Nodes of backward passes, whole processes, and averages by shape and place."""

from __future__ import annotations

import asyncio
import io
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import tensorplay as tp
from tensorplay_core.dispatch import active, fallbacks
from tensorplay_core.dispatch.context import STATE
from tensorplay_core.dispatch.keys import PAGE
from tensorplay_core.dispatch.registry import REGISTRY
from tensorplay_core.profiler import profile, record_function, set_process_trace, trace
from tensorplay_core.profiler.events import step_event

X = tp.ones(2)


@pytest.fixture(autouse=True)
def _leaves_nothing():
    before = (active.special, active.probe, active.applying, active.tell, active.recorded, STATE.get())
    yield
    assert (active.special, active.probe, active.applying, active.tell, active.recorded, STATE.get()) == before


# ---------------------------------------------------------------------------------------------------------------- nodes


def test_nodes_enclose_what_their_formulas_call() -> None:
    x = tp.ones(2, requires_grad=True)
    with profile() as p:
        ((x * x) * 3).sum().backward()
    nodes = [event for event in p.events if event.kind == "node"]
    assert [event.op for event in nodes] == ["SumBackward", "MulBackward", "MulBackward"]
    inner = [event for event in p.events if event.parent in nodes]
    assert {"mul", "expand"} & {event.op for event in inner} and all(event.kind == "step" for event in inner)
    forward = {event.sequence: event.op for event in p.events if event.kind == "step" and event.sequence}
    assert [forward[node.sequence] for node in nodes] == ["sum", "mul", "mul"]


def test_nodes_of_ones_own_functions_hooks_and_errors() -> None:
    class Twice(tp.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            raise ZeroDivisionError

    x = tp.ones(2, requires_grad=True)
    with profile() as p, pytest.raises(ZeroDivisionError):
        Twice.apply(x).sum().backward()
    (node,) = [event for event in p.events if event.op == "TwiceBackward"]
    assert node.error == "ZeroDivisionError" and node.kind == "node"


def test_profile_trace_and_anomaly_detection_together() -> None:
    out = io.StringIO()
    x = tp.ones(2, requires_grad=True)
    with profile() as outer, trace(out), profile() as inner, tp.autograd.detect_anomaly(), record_function("both"):
        (x * 2).sum().backward()
    for p in (outer, inner):
        assert [event.op for event in p.events if event.kind == "node"] == ["SumBackward", "MulBackward"]
        steps = [event.op for event in p.events if event.key == "AutogradCPU" and event.sequence]
        assert steps == ["mul", "sum"], "the checks for NaN record nothing"
    assert out.getvalue().count("backward MulBackward") == 1 and out.getvalue().count("block both") == 1


def test_the_composite_fallback_is_named() -> None:
    with profile() as p:
        tp.add(X, X, alpha=2)
        tp.add(X, X)
    assert [event.fallback for event in p.events if event.key == "CPU" and event.op == "add"] == ["composite", "", ""]


def test_the_host_fallback_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fallbacks, "mode", "allow")
    x = tp.ones(2, device="loopback")
    key = x._type.key + PAGE * x._type.page
    step = fallbacks.host_step(REGISTRY.find("exp"), key, {})
    assert step is not None and step_event(REGISTRY.find("exp"), step, {}, None).fallback == "host"


# -------------------------------------------------------------------------------------------------------- all threads


def in_a_thread(function, name: str = "stranger") -> None:
    thread = threading.Thread(target=function, name=name)
    thread.start()
    thread.join()


def test_all_threads_are_recorded_when_asked_for() -> None:
    x = tp.ones(2, requires_grad=True)
    with profile(all_threads=True) as p:
        tp.add(X, X)
        in_a_thread(lambda: tp.exp(X))
        in_a_thread(lambda: x.sin().sum().backward(), "trainer")
    in_a_thread(lambda: tp.cos(X))
    roots = {event.op: event.thread for event in p.events if event.depth == 0}
    assert roots.keys() == {"add", "exp", "sin", "sum", "full", "SumBackward", "SinBackward"}
    assert len({roots["add"], roots["exp"], roots["sin"]}) == 3
    assert p.threads[roots["sin"] - 1] == "trainer"
    assert [event.op for event in p.events].count("add") == 2, "its own thread once, not twice"


def test_all_threads_with_the_trace_of_the_process_and_another_profile(capsys) -> None:
    with profile(all_threads=True) as everywhere:
        set_process_trace(True)
        try:
            with profile() as here:
                tp.add(X, X)
            in_a_thread(lambda: tp.exp(X))
        finally:
            set_process_trace(False)
        tp.cos(X)
    assert [event.op for event in here.events] == ["add", "add"]
    assert {event.op for event in everywhere.events} == {"add", "exp", "cos"}
    printed = capsys.readouterr().err
    assert printed.count("add(") == printed.count("exp(") == 2 and "cos(" not in printed


# ----------------------------------------------------------------------------------------------------------- averages


def test_rows_by_shape() -> None:
    with profile(record_shapes=True) as p:
        for shape in ((2,), (3, 4), (3, 4)):
            tp.exp(tp.ones(shape))
    rows = [row for row in p.key_averages(group_by_input_shape=True) if row.name == "exp"]
    assert {row.shapes: row.calls for row in rows} == {((2,),): 1, ((3, 4),): 2}
    assert p.key_averages()["exp"].calls == 3
    table = p.key_averages(group_by_input_shape=True).table(sort_by="cpu_time_total", row_limit=3)
    assert table.split("\n")[0].endswith("shapes") and len(table.split("\n")) == 7
    assert "[3, 4]" in p.key_averages(group_by_input_shape=True).table()


def test_rows_by_place() -> None:
    def one() -> None:
        tp.exp(X)

    def two() -> None:
        tp.exp(X)

    with profile(with_stack=True) as p:
        one()
        two()
        two()
    rows = [row for row in p.key_averages(group_by_stack_n=1) if row.name == "exp"]
    names = {row.stack[0].rpartition(" ")[2]: row.calls for row in rows if row.stack}
    assert names == {"one": 1, "two": 2}
    file = rows[0].stack[0].rpartition(":")[0]
    assert Path(file).name == Path(__file__).name
    lines = p.key_averages(group_by_stack_n=2).table().split("\n")
    assert any(line.startswith("    ") and line.endswith(" two") for line in lines)
    assert all("tensorplay_core" not in frame for event in p.events for frame in event.stack)


def test_what_was_not_recorded_cannot_be_grouped_by() -> None:
    with profile() as p:
        tp.exp(X)
    with pytest.raises(tp.ArgumentError, match=r"group_by_input_shape(.|\n)*fix: open profile\(record_shapes=True\)"):
        p.key_averages(group_by_input_shape=True)
    with pytest.raises(tp.ArgumentError, match=r"group_by_stack_n(.|\n)*fix: open profile\(with_stack=True\)"):
        p.key_averages(group_by_stack_n=2)


def test_a_block_decorates_a_function() -> None:
    @record_function("double")
    def double(x: tp.Tensor) -> tp.Tensor:
        return x + x

    with profile() as p:
        double(X)
        double(X)
    assert p.key_averages()["double"].calls == 2 and double.__name__ == "double"


def test_a_block_decorates_generators_and_coroutines() -> None:
    @record_function("halves")
    def halves() -> Iterator[tp.Tensor]:
        yield tp.exp(X)
        yield tp.sin(X)

    @record_function("later")
    async def later() -> tp.Tensor:
        await asyncio.sleep(0)
        return tp.cos(X)

    with profile() as p:
        for _ in halves():
            tp.tanh(X)
        asyncio.run(later())
    inside = {event.op: event.parent.op if event.parent else "" for event in p.events if event.depth < 2}
    assert {name: inside[name] for name in ("exp", "sin", "cos")} == {"exp": "halves", "sin": "halves", "cos": "later"}
    assert p.key_averages()["halves"].calls == 3, "one for each step of the generator"
    assert {event.depth for event in p.events if event.op == "tanh" and not event.continues} == {0}


def test_threads_in_one_block_each_end_their_own() -> None:
    block = record_function("shared")
    entered, left = threading.Event(), threading.Event()

    def first() -> None:
        with block:
            thread = threading.Thread(target=second, name="second")
            thread.start()
            assert entered.wait(10)
        left.set()
        thread.join()

    def second() -> None:
        with block:
            entered.set()
            assert left.wait(10)
            tp.exp(X)

    with profile(all_threads=True) as p:
        in_a_thread(first, "first")
    blocks = {p.threads[event.thread - 1]: event for event in p.events if event.op == "shared"}
    exp = next(event for event in p.events if event.op == "exp")
    assert exp.parent is blocks["second"]
    ends = {name: event.start + event.seconds for name, event in blocks.items()}
    assert ends["first"] < exp.start < exp.start + exp.seconds < ends["second"]


def test_a_block_has_a_name() -> None:
    with pytest.raises(tp.ArgumentError, match=r"name is a string, not 3\nfix: write record_function"):
        record_function(3)  # type: ignore[arg-type]
