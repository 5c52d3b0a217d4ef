"""What a child of fork may keep of the backends.

The child has one thread and a copy of everything else: locks that other threads held, modules that they were importing,
and handles of drivers that work in the parent alone. What cannot work is taken away in the child, with the reason, and
the rest goes on. This runs in every fork of a process that has imported us, so it imports nothing and waits for little.
"""

from __future__ import annotations

import os
import sys
import threading
from typing import TYPE_CHECKING, Any

from tensorplay_core.dispatch import devices, tensor_type
from tensorplay_core.plugins.records import BackendRecord, State

if TYPE_CHECKING:
    from tensorplay_core.plugins.lifecycle import BackendManager

REASON = "it was initialised before this process was forked"
FIX = "start processes with multiprocessing's 'spawn' or 'forkserver', or use the device only in the child"
WAIT = 1.0
"""Seconds that a fork waits for another thread to finish a change of the tables, so that the child gets them whole."""

_held: list[Any] = []


def lose(record: BackendRecord) -> None:
    """Makes a backend whose device does not survive a fork unusable, with the reason."""
    if record.active:
        from tensorplay_core.plugins.activation import withdraw

        withdraw(record)
    record.state, record.reason, record.fix = State.UNAVAILABLE, REASON, FIX
    record.error, record.traceback = None, ""


def watch_forks(manager: BackendManager) -> None:
    """Prepares forks of this process for a manager's backends, for good."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=lambda: _in_child(manager))


_LOCKS: list[Any] = [tensor_type.lock, devices._lock]


def _before() -> None:
    _held.extend(lock for lock in _LOCKS if lock.acquire(timeout=WAIT))


def _in_parent() -> None:
    while _held:
        _held.pop().release()


def _in_child(manager: BackendManager) -> None:
    while _held:
        _held.pop().release()
    for lock in _LOCKS:
        if not lock.acquire(blocking=False):  # of a thread that does not exist here
            lock._at_fork_reinit()
        else:
            lock.release()
    interrupted = manager.after_fork()
    if interrupted:
        _free_imports()
    for record, before in interrupted:
        record.stage = ""
        if record.code is None:  # its blocks were collected by the thread that is gone
            from tensorplay_core.plugins.loading import forget

            forget(record, before)


def _free_imports() -> None:
    """Frees the imports that other threads were at: Python leaves their locks held in a child, by nobody."""
    locks = getattr(sys.modules.get("_frozen_importlib"), "_module_locks", {})
    for name, reference in list(locks.items()):
        owner = getattr(reference(), "owner", None)
        if owner not in (None, threading.get_ident()):
            locks.pop(name, None)
            module = sys.modules.get(name)
            if getattr(getattr(module, "__spec__", None), "_initializing", False):
                sys.modules.pop(name, None)
