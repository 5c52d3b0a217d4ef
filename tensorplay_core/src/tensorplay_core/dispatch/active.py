"""Three counters that let the fast path skip the context: how many states, in any context, could change a call.

They are read as module attributes (``active.special``), never imported by name, and changed under a lock. While a count
is zero no call looks at the context state at all, which is what keeps a call at two or three times NumPy's own.
"""

from __future__ import annotations

import threading

special = 0
"""States that change the road of a call: modes, autocast, transforms, include and exclude sets, the profiler."""
grad_off = 0
"""States without gradients; a call with a node then reads the context state, and stays fast."""
inference = 0
"""States of inference mode; every call then reads the context state, and stays fast."""

# Re-entrant, because a state can be freed, and count down, while its thread is in here.
_lock = threading.RLock()


def add(counts: tuple[bool, bool, bool], sign: int) -> None:
    """Changes the three counters, atomically: adds what ``counts`` says, or takes it away again."""
    global special, grad_off, inference
    with _lock:
        special += sign * counts[0]
        grad_off += sign * counts[1]
        inference += sign * counts[2]
