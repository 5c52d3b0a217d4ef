"""Runs the suite on one device and says whether anything failed; ``suite_mutations.py`` has it done over a mutation.

Every run has a process of its own, forked from one that has imported this module and with it all of the suite; what
can be mutated is imported afterwards.
"""

from __future__ import annotations

import builtins
import os
import resource
import sys
import time
import warnings
from itertools import chain
from multiprocessing.connection import Connection
from typing import Any

import numpy
from suite_mutations_modules import far, loosened, unraising

import tensorplay as tp
from tensorplay_core.testing.suite import checks
from tensorplay_core.testing.suite.outcome import FAILED, Gaps
from tensorplay_core.testing.suite.subject import Subject, operators

MUTATED = ("tensorplay_composite", "tensorplay_cpu")
"""What a mutation may be in."""
LOADING = "loading"
"""What is reached before the first operator is checked."""
STRICT = "strict"
"""The devices over array-api-strict: no NumPy spellings, arrays that count as immutable, and :func:`loosened`."""
NARROW = "narrow"
"""A device over the same with dtypes of 32 bits and fewer, as a module of another name and :func:`unraising`."""
FIXED = "fixed"
"""A device over NumPy whose arrays must not be written to, though they have strides, and zeros among them."""
NARROW_DTYPES = ("bool", "uint8", "uint16", "uint32", "int8", "int16", "int32", "float32", "complex64")

SLOWEST, FEW = ("index_backward", "large"), 3
"""What takes those without a scatter two thirds of the time: left out where more than a few are checked."""


def answer(sending: Connection, folder: str, base: str, asked: dict[str, Any]) -> None:
    """Runs what was asked for over the packages of two folders, the first of which may hold a changed one.

    It sends ``failed``, empty where nothing did, ``reached``, the places of the package's source that each operator
    came through, where the package tells them, and ``seconds``, the processor time that it took. The process ends
    where that is more than it was given.
    """
    if asked["seconds"]:
        resource.setrlimit(resource.RLIMIT_CPU, (asked["seconds"], asked["seconds"]))
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(nowhere, stream)
    early = [name for name in sys.modules if name.partition(".")[0] in MUTATED]
    assert not early, f"{early[0]} was imported before it could be changed"
    sys.path[:0] = [folder, base]
    os.environ["PYTHONPATH"] = os.pathsep.join([folder, base])
    os.chdir(folder)
    reached: set[str] = set()
    builtins.__reached__ = reached.add  # type: ignore[attr-defined]
    found: dict[str, list[str]] = {}
    try:
        failed = run(asked, reached, found)
    except Exception as error:
        failed = f"{type(error).__name__}: {error}"
    sending.send({"failed": failed, "reached": found, "seconds": time.process_time()})


def run(asked: dict[str, Any], reached: set[str], found: dict[str, list[str]]) -> str:
    """Runs what was asked for until something fails, which is returned."""
    name = asked["device"]
    if name == STRICT:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # whoever ignores warnings while a device is made, may not later
            tp.backends.from_namespace(far(loosened()), STRICT, device_count=2)
    elif name == NARROW:
        xp = unraising(loosened())
        tp.backends.from_namespace(xp, NARROW, dtypes={name: getattr(xp, name) for name in NARROW_DTYPES})
    elif name == FIXED:
        tp.backends.from_namespace(numpy, FIXED, mutable=False)
    subject = Subject(name, seed=asked["seed"], quick=asked["quick"], profile=checks.profile_of(name))
    tp.zeros(2, device=name) + 1  # what is made at first use is made
    gaps, known = Gaps(subject.profile), operators()
    found[LOADING] = sorted(reached)
    wanted = [*checks.ON_THE_DEVICE, *known] if asked["names"] is None else asked["names"]
    for one in wanted:
        reached.clear()
        if one in checks.ON_THE_DEVICE:
            outcomes = checks.check_device(one, subject, gaps)
        else:
            steps = checks.steps({one: known[one]}, device=False, quick=subject.quick)
            if name in (STRICT, NARROW) and len(wanted) > FEW:
                steps = [step for step in steps if step != SLOWEST]
            outcomes = chain.from_iterable(checks.check(known[one], area, subject, gaps) for _, area in steps)
        for outcome in outcomes:
            if outcome.status == FAILED:
                where = " ".join(part for part in (outcome.operator, outcome.area, outcome.dtype) if part)
                return f"{where}: {outcome.what}"
        found[one] = sorted(reached)
    return ""
