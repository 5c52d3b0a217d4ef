"""A checker of Chrome's trace events, written from the format's document and from nothing of ours.

N. Duca, D. Sinclair, Trace Event Format: the JSON object format, complete events (X), metadata (M), counters (C) and
flows (s, t, f); of durations in pairs (B, E) that they balance. Perfetto's documentation adds that slices of one thread
must nest.
"""

from __future__ import annotations

from collections import defaultdict
from numbers import Real
from typing import Any

METADATA = {
    "process_name": ("name", str),
    "process_labels": ("labels", str),
    "process_sort_index": ("sort_index", int),
    "thread_name": ("name", str),
    "thread_sort_index": ("sort_index", int),
}
PHASES = "BEXiICbnesSTpFfNODPMVvRc(),t"


def problems(trace: Any) -> list[str]:
    """What is wrong with a trace, in words; nothing when it is valid."""
    if not isinstance(trace, dict) or not isinstance(trace.get("traceEvents"), list):
        return ["a trace is an object with a list traceEvents"]
    found = []
    if trace.get("displayTimeUnit", "ms") not in ("ms", "ns"):
        found.append("displayTimeUnit is ms or ns")
    events = trace["traceEvents"]
    for i, event in enumerate(events):
        found += [f"event {i}: {problem}" for problem in of_one(event)]
    return found or [*nesting(events), *flows(events), *names(events)]


def of_one(event: Any) -> list[str]:
    if not isinstance(event, dict) or event.get("ph") not in [*PHASES]:
        return [f"no phase: {event!r}"]
    ph, found = event["ph"], []
    if not isinstance(event.get("name"), str) or not event["name"]:
        found.append("a name is a string")
    for field in ("pid", "tid"):
        if not isinstance(event.get(field), int) or isinstance(event.get(field), bool):
            found.append(f"{field} is an integer")
    if not isinstance(event.get("cat", ""), str) or not isinstance(event.get("args", {}), dict):
        found.append("cat is a string, args an object")
    if ph != "M" and (not number(event.get("ts")) or event["ts"] < 0):
        found.append("ts is a time in microseconds")
    if ph == "X" and (not number(event.get("dur")) or event["dur"] < 0):
        found.append("a complete event has a duration")
    if ph == "M":
        field, kind = METADATA.get(event.get("name"), ("", object))
        if not field or not isinstance(event.get("args", {}).get(field), kind):
            found.append(f"metadata {event.get('name')} needs the argument {field or '?'}")
    if ph == "C" and not (event.get("args") and all(number(value) for value in event["args"].values())):
        found.append("a counter has numbers")
    if ph in "stf" and not isinstance(event.get("id"), (int, str)):
        found.append("a flow has an id")
    if ph in "sf" and event.get("bp", "e") != "e":
        found.append("bp is e")
    return found


def number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool) and value == value and abs(value) != float("inf")


def tracks(events: list[Any], phases: str) -> dict[Any, list[Any]]:
    found = defaultdict(list)
    for event in events:
        if event["ph"] in [*phases]:
            found[event["pid"], event["tid"]].append(event)
    return found


def nesting(events: list[Any]) -> list[str]:
    """Slices of one thread lie one inside the other or apart, up to the nanosecond that times are rounded to."""
    found = []
    for track, slices in tracks(events, "X").items():
        stack: list[float] = []
        for one in sorted(slices, key=lambda e: (e["ts"], -e["dur"])):
            while stack and stack[-1] <= one["ts"] + 0.002:
                stack.pop()
            if stack and one["ts"] + one["dur"] > stack[-1] + 0.002:
                found.append(f"{one['name']} on {track} overlaps another slice")
            stack.append(one["ts"] + one["dur"])
    for track, pairs in tracks(events, "BE").items():
        depth = 0
        for one in sorted(pairs, key=lambda e: e["ts"]):
            depth += 1 if one["ph"] == "B" else -1
            if depth < 0:
                found.append(f"an E on {track} without its B")
        if depth > 0:
            found.append(f"a B on {track} without its E")
    return found


def flows(events: list[Any]) -> list[str]:
    """Each flow begins once and ends, later, and both ends lie in a slice of their thread."""
    found, begun, slices = [], {}, tracks(events, "X")
    for event in events:
        if event["ph"] in [*"sf"]:
            here = slices[event["pid"], event["tid"]]
            if not any(s["ts"] <= event["ts"] + 0.002 and event["ts"] <= s["ts"] + s["dur"] + 0.002 for s in here):
                found.append(f"flow {event['id']} touches no slice")
    for event in (e for e in events if e["ph"] == "s"):
        key = event.get("cat"), event["name"], event["id"]
        if key in begun:
            found.append(f"flow {event['id']} begins twice")
        begun[key] = event
    ended = set()
    for event in (e for e in events if e["ph"] == "f"):
        key = event.get("cat"), event["name"], event["id"]
        ended.add(key)
        if key not in begun or begun[key]["ts"] > event["ts"]:
            found.append(f"flow {event['id']} ends before it begins")
    return found + [f"flow {key[2]} never ends" for key in begun if key not in ended]


def names(events: list[Any]) -> list[str]:
    """Every process and thread with slices has a name, and only one."""
    found = []
    named = [(e["pid"], e["tid"]) for e in events if e["ph"] == "M" and e["name"] == "thread_name"]
    found += [f"thread {one} has two names" for one in {*named} if named.count(one) > 1]
    found += [f"thread {one} has no name" for one in tracks(events, "X") if one not in named]
    processes = {e["pid"] for e in events if e["ph"] == "M" and e["name"] == "process_name"}
    return found + [f"process {e['pid']} has no name" for e in events if e["pid"] not in processes][:1]
