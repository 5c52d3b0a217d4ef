"""Runs the suite on one device and says whether anything failed; ``suite_mutations.py`` starts it over a mutation.

It reads what to run as JSON from its standard input and writes one line of JSON: ``failed``, empty where nothing did,
and ``reached``, the places of the package's source that each operator came through, where the package tells them.
"""

from __future__ import annotations

import builtins
import json
import sys
from itertools import chain
from typing import Any

LOADING = "loading"
"""What is reached before the first operator is checked."""
STRICT = "strict"
"""The device over array-api-strict: no NumPy spellings, arrays that count as immutable."""

SLOWEST, FEW = ("index_backward", "large"), 3
"""What takes ``strict``, which has no scatter, two thirds of the time: left out where more than a few are checked."""


def main() -> None:
    asked = json.load(sys.stdin)
    reached: set[str] = set()
    builtins.__reached__ = reached.add  # type: ignore[attr-defined]
    found: dict[str, list[str]] = {}
    try:
        failed = run(asked, reached, found)
    except Exception as error:
        failed = f"{type(error).__name__}: {error}"
    print(json.dumps({"failed": failed, "reached": found}))


def run(asked: dict[str, Any], reached: set[str], found: dict[str, list[str]]) -> str:
    """Runs what was asked for until something fails, which is returned."""
    import tensorplay as tp
    from tensorplay_core.testing.suite import checks
    from tensorplay_core.testing.suite.outcome import FAILED, Gaps
    from tensorplay_core.testing.suite.subject import Subject, operators

    name = asked["device"]
    if name == STRICT:
        import array_api_strict

        tp.backends.from_namespace(array_api_strict, STRICT)
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
            if name == STRICT and len(wanted) > FEW:
                steps = [step for step in steps if step != SLOWEST]
            outcomes = chain.from_iterable(checks.check(known[one], area, subject, gaps) for _, area in steps)
        for outcome in outcomes:
            if outcome.status == FAILED:
                where = " ".join(part for part in (outcome.operator, outcome.area, outcome.dtype) if part)
                return f"{where}: {outcome.what}"
        found[one] = sorted(reached)
    return ""


if __name__ == "__main__":
    main()
