"""A profile as Chrome's trace events, which Perfetto, ``chrome://tracing`` and Speedscope open.

The format: N. Duca, D. Sinclair, Trace Event Format,
https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU. Used of it are complete events (X) for
what was recorded, metadata (M) that names the process and the threads, counters (C) for memory, and flows (s, f) from
the step that recorded a node to the node. Times are in microseconds from the first event.

Slices of one thread must lie one inside the other. Tasks of asyncio overlap without doing so, hence each stack of
events gets the first lane of its thread that is free.
"""

from __future__ import annotations

import gzip
import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tensorplay_core.profiler.events import Event
from tensorplay_core.profiler.memory import Memory

if TYPE_CHECKING:
    from tensorplay_core.profiler.session import profile

Record = dict[str, Any]
LANES = 1000
"""The number of a track is that of its thread, times this, plus its lane."""


def write(
    path: str | os.PathLike[str], events: Sequence[Event], threads: Sequence[str], memory: Memory, now: float
) -> None:
    """Writes a file of trace events.

    Args:
        path: the file; one that ends in ``.gz`` is compressed.
        events: what was recorded, in the order in which it began.
        threads: the names of the threads, in the order of their numbers.
        memory: what was measured of memory.
        now: the end of what still runs.
    """
    text = json.dumps({"traceEvents": [*records(events, threads, memory, now)], "displayTimeUnit": "ms"})
    if str(path).endswith(".gz"):
        Path(path).write_bytes(gzip.compress(text.encode(), mtime=0))
    else:
        Path(path).write_text(text, encoding="utf-8")


def tensorboard_trace_handler(
    dir_name: str | os.PathLike[str], worker_name: str | None = None, use_gzip: bool = False
) -> Callable[[profile], None]:
    """Returns what ``on_trace_ready`` of a profiler may be: it writes each cycle into a folder, as PyTorch names files.

    Args:
        dir_name: the folder, which is made if it is not there.
        worker_name: how the files' names begin; the machine and the process when None.
        use_gzip: whether the files are compressed.

    Raises:
        OSError: at a cycle's end, where the file cannot be written.

    Example:
        >>> import tempfile
        >>> import tensorplay as tp
        >>> folder = Path(tempfile.mkdtemp())
        >>> with tp.profiler.profile(on_trace_ready=tp.profiler.tensorboard_trace_handler(folder, "one")):
        ...     y = tp.ones(2)
        >>> [name.suffixes[-3:] for name in folder.iterdir()]
        [['.pt', '.trace', '.json']]
    """

    def write_cycle(p: profile) -> None:
        import platform  # here, because few programs need it

        worker = f"{platform.node()}_{os.getpid()}" if worker_name is None else worker_name
        Path(dir_name).mkdir(parents=True, exist_ok=True)
        p.export_chrome_trace(Path(dir_name) / f"{worker}.{time.time_ns()}.pt.trace.json{'.gz' * use_gzip}")

    return write_cycle


def records(events: Sequence[Event], threads: Sequence[str], memory: Memory, now: float) -> Iterator[Record]:
    """Yields the trace events of a profile; see :func:`write`."""
    process = os.getpid()
    changes = [*memory.live()]
    origin = min([event.start for event in events] + [when for when, _ in changes[:1]], default=0.0)
    tracks = _tracks(events, now)
    yield {"ph": "M", "name": "process_name", "pid": process, "tid": 0, "args": {"name": "TensorPlay"}}
    for track in sorted({*tracks.values()}):
        thread, lane = divmod(track, LANES)
        name = threads[thread - 1] if 0 < thread <= len(threads) else f"thread {thread}"
        name += f", lane {lane + 1}" * (lane > 0)
        yield {"ph": "M", "name": "thread_name", "pid": process, "tid": track, "args": {"name": name}}
        yield {"ph": "M", "name": "thread_sort_index", "pid": process, "tid": track, "args": {"sort_index": track}}
    for event in events:
        where = {"pid": process, "tid": tracks[event]}
        end = event.start + event.seconds if event.seconds else now
        yield {
            "ph": "X", "name": event.op, "cat": category(event), "ts": _micro(event.start - origin),
            "dur": _micro(end - event.start), **where, **({"args": shown} if (shown := _arguments(event)) else {}),
        }  # fmt: skip
    for number, ends in enumerate(_flows(events)):
        for event, ph in zip(ends, "sf", strict=True):
            yield {
                "ph": ph, "name": "backward", "cat": "flow", "id": number, "ts": _micro(event.start - origin),
                "pid": process, "tid": tracks[event], **({"bp": "e"} if ph == "f" else {}),
            }  # fmt: skip
    for when, total in changes:
        what = {"ph": "C", "name": "memory of results", "cat": "memory", "pid": process, "tid": 0}
        yield {**what, "ts": _micro(when - origin), "args": {"bytes": total}}


def category(event: Event) -> str:
    """Returns what sort of event it is: the family of its key, ``kernel``, ``backward`` or ``block``.

    Example:
        >>> category(Event("step", None, "block"))
        'block'
    """
    if event.kind != "step":
        return "backward" if event.kind == "node" else "block"
    family = next((name for name in ("Autograd", "Autocast", "Vmap", "Python") if event.key.startswith(name)), "kernel")
    return family.lower()


def _arguments(event: Event) -> Record:
    """Returns what is shown beside a slice: only what was recorded."""
    names = ("key", "slot", "kernel", "distribution", "where", "fallback", "error")
    found: Record = {name: value for name in names if (value := getattr(event, name))}
    if event.shapes:
        found["shapes"] = [list(shape) for shape in event.shapes]
    if event.stack:
        found["stack"] = list(event.stack)
    if event.allocated:
        found["allocated bytes"] = event.allocated
    return found


def _micro(seconds: float) -> float:
    return round(max(seconds, 0.0) * 1e6, 3)


def _tracks(events: Sequence[Event], now: float) -> dict[Event, int]:
    """Returns the track of every event: the lane of its parent, where it lies inside, or one that is empty then."""
    tracks: dict[Event, int] = {}
    open_in: dict[int, list[list[tuple[float, Event]]]] = {}
    for event in sorted(events, key=lambda one: one.start):  # stable: a parent that began at the same time comes first
        end = event.start + event.seconds if event.seconds else now
        lanes = open_in.setdefault(event.thread, [])
        for lane in lanes:
            while lane and lane[-1][0] <= event.start:
                lane.pop()
        under = [i for i, lane in enumerate(lanes) if lane and lane[-1][1] is event.parent and end <= lane[-1][0]]
        free = next(iter(under or [i for i, lane in enumerate(lanes) if not lane]), len(lanes))
        if free == len(lanes):
            lanes.append([])
        lanes[free].append((end, event))
        tracks[event] = event.thread * LANES + free
    return tracks


def _flows(events: Sequence[Event]) -> Iterator[tuple[Event, Event]]:
    """Yields every step that recorded a node with every event of the node."""
    forward = {event.sequence: event for event in events if event.kind == "step" and event.sequence}
    for event in events:
        if event.kind == "node" and event.sequence in forward:
            yield forward[event.sequence], event
