"""What is active in this process: counters that let the fast path skip the context, and who traces.

They are read as module attributes (``active.special``), never imported by name, and changed under a lock. While a count
is zero no call looks at the context state at all, which is what keeps a call at two or three times NumPy's own. The
hooks of the trace lie here too, where every floor that has something to tell can read them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

special = 0
"""States that change the road of a call: modes, autocast, transforms, include and exclude sets, the profiler; and the
process's trace."""
grad_off = 0
"""States without gradients; a call with a node then reads the context state, and stays fast."""
inference = 0
"""States of inference mode; every call then reads the context state, and stays fast."""
subclassed = False
"""Whether a subclass of Tensor exists whose handler has a say in calls; its tensors have special types."""
levels = 0
"""Open levels of forward mode, which ``special`` counts too."""

probe: Any = None
"""Called around every step of every call, whatever its context, besides the probe of the context state; None while the
process is not traced. ``special`` counts it."""
applying: Callable[[Any, Any, bool], Any] | None = None
"""Applies a node of a backward pass instead of the engine, and tells; None while nobody traces anywhere."""
checking: Callable[[Any, Any, bool], Any] | None = None
"""Applies a node of a backward pass in anomaly mode; None while it is off."""
recorded: Callable[[Any], None] | None = None
"""Called with every node that is recorded while ``special`` counts; None unless anomaly mode or a profiler is on."""
tell: Callable[[str], None] | None = None
"""Called with what happens beside calls, such as the loading of a backend; None while nobody traces anywhere."""

# Re-entrant, because a state can be freed, and count down, while its thread is in here.
_lock = threading.RLock()
_watching = 0
_recorders: tuple[Callable[[Any], None], ...] = ()


def add(counts: tuple[bool, bool, bool], sign: int) -> None:
    """Changes the three counters, atomically: adds what ``counts`` says, or takes it away again."""
    global special, grad_off, inference
    road, off, infers = counts
    with _lock:
        if road:
            special += sign
        if off:
            grad_off += sign
        if infers:
            inference += sign


def count_level(sign: int) -> None:
    """Counts a level of forward mode that was opened, or closed."""
    global special, levels
    with _lock:
        special += sign
        levels += sign


def watch(on: bool, apply: Callable[[Any, Any, bool], Any], say: Callable[[str], None]) -> None:
    """Counts who traces, and lends the hooks for nodes and events to them while there is somebody."""
    global applying, tell, _watching
    with _lock:
        _watching += 1 if on else -1
        applying, tell = (apply, say) if _watching else (None, None)


def watch_nodes(on: bool, record: Callable[[Any], None]) -> None:
    """Begins to tell somebody of every node that is recorded, or ends it."""
    global recorded, _recorders
    with _lock:
        known = [*_recorders, record] if on else [*_recorders]
        if not on:
            known.remove(record)  # once: others may have brought the same function
        _recorders = tuple(known)
        distinct = tuple(dict.fromkeys(known))
        recorded = _tell_all if len(distinct) > 1 else distinct[0] if distinct else None


def _tell_all(node: Any) -> None:
    for record in dict.fromkeys(_recorders):
        record(node)
