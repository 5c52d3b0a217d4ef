"""The Chrome trace: valid by the format's document, complete, and without anything that was not asked for."""

from __future__ import annotations

import asyncio
import contextvars
import copy
import gzip
import importlib.util
import json
import threading
from pathlib import Path
from typing import Any

import pytest

import tensorplay as tp
from tensorplay_core.profiler import profile, record_function

_spec = importlib.util.spec_from_file_location("trace_events", Path(__file__).with_name("trace_events.py"))
assert _spec is not None and _spec.loader is not None
trace_events = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(trace_events)


def exported(p: profile, folder: Path, name: str = "trace.json") -> dict[str, Any]:
    p.export_chrome_trace(folder / name)
    data = (folder / name).read_bytes()
    trace = json.loads(gzip.decompress(data) if name.endswith(".gz") else data)
    assert trace_events.problems(trace) == []
    return trace


def slices(trace: dict[str, Any]) -> list[dict[str, Any]]:
    return [e for e in trace["traceEvents"] if e["ph"] == "X"]


def training_step() -> None:
    x, w = tp.randn(8, 4), tp.randn(3, 4, requires_grad=True)
    with record_function("forward"), tp.autocast("cpu"):
        loss = tp.nn.functional.cross_entropy(tp.nn.functional.linear(x, w), tp.zeros(8, dtype=tp.int64))
    with record_function("backward"):
        loss.backward()
    with tp.no_grad():
        w.sub_(w.grad, alpha=0.1)


def test_a_training_step(tmp_path: Path) -> None:
    with profile(record_shapes=True, profile_memory=True, with_stack=True) as p:
        training_step()
    trace = exported(p, tmp_path)
    found = slices(trace)
    assert len(found) == len(p.events) > 30
    assert {e["cat"] for e in found} == {"block", "autocast", "autograd", "kernel", "backward"}
    for event, written in zip(p.events, found, strict=True):
        assert written["name"] == event.op
        assert written["dur"] == pytest.approx(event.seconds * 1e6, abs=0.01)
        assert written.get("args", {}).get("distribution", "") == event.distribution
    product = next(e for e in found if e["name"] == "linear" and e["cat"] == "autocast")
    assert product["args"]["shapes"] == [[8, 4], [3, 4]]
    assert any("training_step" in frame for frame in product["args"]["stack"])
    begins = [e for e in trace["traceEvents"] if e["ph"] == "s"]
    nodes = [e for e in found if e["cat"] == "backward"]
    assert len(begins) == len(nodes), "every node comes from a step that was recorded"
    assert exported(p, tmp_path, "trace.json.gz") == trace or len(begins) > 0


def test_the_end_of_a_flow_is_the_node_of_the_step_where_it_begins(tmp_path: Path) -> None:
    x = tp.ones(2, requires_grad=True)
    with profile() as p:
        ((x * 3).exp() + 1).sum().backward()
    events = exported(p, tmp_path)["traceEvents"]
    at = {(e["ts"], e["ph"]): e["name"] for e in events if e["ph"] == "X"}
    ends = {e["id"]: e for e in events if e["ph"] == "f"}
    pairs = [(at[e["ts"], "X"], at[ends[e["id"]]["ts"], "X"]) for e in events if e["ph"] == "s"]
    assert sorted(pairs) == [
        ("add", "AddBackward"),
        ("exp", "ExpBackward"),
        ("mul", "MulBackward"),
        ("sum", "SumBackward"),
    ]


def test_what_was_not_asked_for_is_in_no_event_and_in_no_trace(tmp_path: Path) -> None:
    secret = 7919
    x = tp.ones(secret)
    with profile() as p:
        y = tp.cat([x, x])
        tp.full((secret,), 2.0)
    y.tolist()
    for event in p.events:
        assert (event.shapes, event.stack, event.allocated) == ((), (), 0)
    assert str(secret) not in json.dumps(p.as_dict())
    trace = exported(p, tmp_path)
    text = json.dumps(trace)
    assert str(secret) not in text and "shapes" not in text and "stack" not in text and '"C"' not in text
    for written in slices(trace):
        assert written.get("args", {}).keys() <= {"key", "slot", "kernel", "distribution", "where", "fallback"}


def test_memory_is_a_counter(tmp_path: Path) -> None:
    with profile(profile_memory=True) as p:
        x = tp.ones(256)
        del x
    counters = [e for e in exported(p, tmp_path)["traceEvents"] if e["ph"] == "C"]
    assert [e["args"]["bytes"] for e in counters] == [1024, 0]
    assert counters[0]["ts"] <= counters[1]["ts"]


def test_threads_have_tracks_and_names(tmp_path: Path) -> None:
    x = tp.ones(4)
    with profile() as p:
        tp.add(x, x)
        work = [
            threading.Thread(target=contextvars.copy_context().run, args=(tp.mul, x, x), name=f"worker {i}")
            for i in range(3)
        ]
        for thread in work:
            thread.start()
        for thread in work:
            thread.join()
    trace = exported(p, tmp_path)
    names = {e["args"]["name"] for e in trace["traceEvents"] if e["ph"] == "M" and e["name"] == "thread_name"}
    assert names == {threading.current_thread().name, "worker 0", "worker 1", "worker 2"}
    assert len({e["tid"] for e in slices(trace)}) == 4


def test_tasks_that_overlap_get_lanes_of_their_own(tmp_path: Path) -> None:
    async def work(name: str, turns: int) -> None:
        with record_function(name):
            for _ in range(turns):
                tp.ones(1)
                await asyncio.sleep(0)

    async def program() -> None:
        with record_function("all"):
            await asyncio.gather(work("a", 3), work("b", 5), work("c", 2))

    with profile() as p:
        asyncio.run(program())
    trace = exported(p, tmp_path)
    lanes = {e["name"]: e["tid"] for e in slices(trace) if e["cat"] == "block"}
    assert len({lanes[name] for name in "abc"}) == 3
    ones = [e for e in slices(trace) if e["name"] == "ones" and e["cat"] == "kernel"]
    assert len(ones) == 10


def test_an_empty_profile_and_one_that_still_runs(tmp_path: Path) -> None:
    with profile() as p:
        exported(p, tmp_path)
        with record_function("open"):
            tp.ones(2)
            trace = exported(p, tmp_path)
    assert slices(trace)[0]["name"] == "open" and slices(trace)[0]["dur"] > slices(trace)[1]["dur"]


# ------------------------------------------------------------------------------------------- the checker finds faults

VALID: list[dict[str, Any]] = [
    {"ph": "M", "name": "process_name", "pid": 1, "tid": 0, "args": {"name": "p"}},
    {"ph": "M", "name": "thread_name", "pid": 1, "tid": 1, "args": {"name": "t"}},
    {"ph": "X", "name": "a", "pid": 1, "tid": 1, "ts": 0, "dur": 10.0, "cat": "c", "args": {}},
    {"ph": "X", "name": "b", "pid": 1, "tid": 1, "ts": 2, "dur": 3.5},
    {"ph": "s", "name": "f", "cat": "flow", "pid": 1, "tid": 1, "ts": 0, "id": 4},
    {"ph": "f", "name": "f", "cat": "flow", "pid": 1, "tid": 1, "ts": 2, "id": 4, "bp": "e"},
    {"ph": "C", "name": "m", "pid": 1, "tid": 0, "ts": 1, "args": {"bytes": 3}},
]
FAULTS: list[tuple[int, dict[str, Any], str]] = [
    (0, {"args": {}}, "needs the argument name"),
    (0, {"name": "proces_name"}, "needs the argument"),
    (1, {"tid": 2}, "has no name"),
    (2, {"ph": "x"}, "no phase"),
    (2, {"name": 3}, "a name is a string"),
    (2, {"ts": None}, "ts is a time"),
    (2, {"ts": -1}, "ts is a time"),
    (2, {"dur": float("nan")}, "has a duration"),
    (2, {"pid": "1"}, "pid is an integer"),
    (2, {"args": []}, "args an object"),
    (3, {"dur": 9}, "overlaps"),
    (3, {"ph": "B"}, "without its E"),
    (4, {"id": None}, "a flow has an id"),
    (4, {"ts": 50}, "touches no slice"),
    (5, {"id": 5}, "ends before it begins"),
    (5, {"ph": "t"}, "never ends"),
    (6, {"args": {"bytes": "3"}}, "a counter has numbers"),
]


def test_the_checker_passes_what_is_valid() -> None:
    assert trace_events.problems({"traceEvents": VALID}) == []
    assert trace_events.problems([]) and trace_events.problems({"traceEvents": {}})


@pytest.mark.parametrize(("place", "change", "message"), FAULTS)
def test_the_checker_finds(place: int, change: dict[str, Any], message: str) -> None:
    events = copy.deepcopy(VALID)
    events[place].update(change)
    assert any(message in problem for problem in trace_events.problems({"traceEvents": events}))


def test_nodes_keep_their_steps_after_a_profiler_inside_was_closed(tmp_path: Path) -> None:
    x = tp.ones(2, requires_grad=True)
    with profile() as p:
        with profile():
            pass
        (x * 2).exp().sum().backward()
    trace = exported(p, tmp_path)
    assert [e["ph"] for e in trace["traceEvents"]].count("s") == 3  # mul, exp and sum


def test_nodes_keep_their_steps_after_a_profiler_of_another_thread_was_closed(tmp_path: Path) -> None:
    x = tp.ones(2, requires_grad=True)

    def other() -> None:
        with profile():
            pass

    with profile() as p:
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        (x * 2).exp().sum().backward()
    trace = exported(p, tmp_path)
    assert [e["ph"] for e in trace["traceEvents"]].count("s") == 3


@pytest.mark.parametrize("compressed", [False, True])
def test_a_file_for_each_cycle_in_a_folder_for_tensorboard(tmp_path: Path, compressed: bool) -> None:
    plan = tp.profiler.schedule(wait=0, warmup=0, active=1, repeat=2)
    ready = tp.profiler.tensorboard_trace_handler(tmp_path / "new" / "log", "worker.1", use_gzip=compressed)
    with profile(schedule=plan, on_trace_ready=ready) as p:
        for function in (tp.exp, tp.sin, tp.cos):
            function(tp.ones(2))
            p.step()
    files = sorted((tmp_path / "new" / "log").iterdir(), key=lambda path: int(path.name.split(".")[2]))
    assert all(path.name.startswith("worker.1.") for path in files)
    assert all(path.name.endswith(".pt.trace.json" + ".gz" * compressed) for path in files)
    opened = [json.loads(gzip.decompress(f.read_bytes()) if compressed else f.read_bytes()) for f in files]
    assert [trace_events.problems(trace) for trace in opened] == [[], []]
    names = [{e["name"] for e in slices(trace)} & {"exp", "sin", "cos"} for trace in opened]
    assert names == [{"exp"}, {"sin"}]
