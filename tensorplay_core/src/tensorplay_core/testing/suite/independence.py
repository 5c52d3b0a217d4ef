"""Random numbers do not follow from one another: neighbours, rows, draws of any size, and places in a permutation.

Mean, variance and distribution are as they should be where numbers come sorted, or where each row is the first one.
"""

from __future__ import annotations

import math
from functools import partial

from tensorplay_core.testing.suite.device_checks import Check
from tensorplay_core.testing.suite.outcome import Finding
from tensorplay_core.testing.suite.subject import Subject

ROWS, COLUMNS = 100, 200
SIGMAS = 6
PERMUTED = 1000


def independence(subject: Subject) -> list[Check]:
    """Returns the checks, all in the default dtype."""
    return [*(partial(_apart, subject, name) for name in ("rand", "randn")), partial(_permuted, subject)]


def _program(subject: Subject, seed: int, call: str, *more: str) -> str:
    call = call.replace(")", f', device="{subject.device}")', 1)
    return "\n".join(["import tensorplay as tp", "", f"tp.manual_seed({seed})", f"x = {call}", *more, "print(x)"])


def _correlation(a: list[float], b: list[float], mean: float, variance: float) -> float:
    return math.fsum((x - mean) * (y - mean) for x, y in zip(a, b, strict=True)) / (len(a) * variance)


def _apart(subject: Subject, name: str) -> None:
    """Looks at neighbours and rows of one draw, and at two draws of many numbers."""
    mean, variance = (0.5, 1 / 12) if name == "rand" else (0.0, 1.0)
    seed = subject.rng("random", name, "apart").getrandbits(32)
    subject.tp.manual_seed(seed)
    draw = getattr(subject.tp, name)
    rows = draw(ROWS, COLUMNS, device=subject.device).tolist()
    flat = [value for row in rows for value in row]
    far = SIGMAS / math.sqrt(len(flat) - COLUMNS)
    for words, step in (("neighbours", 1), ("next but one", 2), ("rows", COLUMNS)):
        if abs(_correlation(flat[:-step], flat[step:], mean, variance)) > far:
            program = _program(subject, seed, f"tp.{name}({ROWS}, {COLUMNS})")
            raise Finding(f"{name} draws numbers that depend on each other: {words}", program)
    again = [value for row in draw(ROWS, COLUMNS, device=subject.device).tolist() for value in row]
    if abs(_correlation(flat, again, mean, variance)) > far:
        call = f"tp.{name}({ROWS}, {COLUMNS})"
        program = _program(subject, seed, call, f'x = x - tp.{name}({ROWS}, {COLUMNS}, device="{subject.device}")')
        raise Finding(f"{name} draws many numbers twice alike: a large draw must move the generator's state", program)


def _permuted(subject: Subject) -> None:
    """Looks at a long permutation: where its numbers are, and whether its neighbours have been so before."""
    seed = subject.rng("random", "permuted").getrandbits(32)
    subject.tp.manual_seed(seed)
    drawn = subject.tp.randperm(PERMUTED, device=subject.device).tolist()
    program = _program(subject, seed, f"tp.randperm({PERMUTED})")
    if sorted(drawn) != [*range(PERMUTED)]:
        raise Finding(f"randperm({PERMUTED}) gives no permutation of 0 to {PERMUTED - 1}", program)
    mean, variance = (PERMUTED - 1) / 2, (PERMUTED**2 - 1) / 12
    far = SIGMAS / math.sqrt(PERMUTED - 1)
    places = [*map(float, range(PERMUTED))]
    if abs(_correlation(drawn, places, mean, variance)) > far:
        raise Finding(f"randperm({PERMUTED}) gives numbers near their own places", program)
    if abs(_correlation(drawn[1:], drawn[:-1], mean, variance)) > far:
        raise Finding(f"randperm({PERMUTED}) gives neighbours that were neighbours before", program)
