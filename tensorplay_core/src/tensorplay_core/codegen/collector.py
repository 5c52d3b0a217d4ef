"""Stops the garbage collector while a contract is read or generated from.

A large contract is a million small objects and no garbage, and Python looks through all of them again and again in
search of some: a fifth of the time.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_collector() -> Iterator[None]:
    """Stops the collector inside a ``with`` block, or in a function that this decorates."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
