"""Views, writes in place, indexing and arithmetic in random programs: they do in PyTorch what they do here.

Values, gradients, ``requires_grad``, ``is_leaf``, whether there is a ``grad_fn``, and which steps are refused.
"""

from __future__ import annotations

import itertools
import os
from collections import Counter

import pytest

import tensorplay as tp
from tensorplay_core.errors import TensorPlayError

torch = pytest.importorskip("torch", reason="torch is not installed: pip install torch, and these comparisons run")
hypothesis = pytest.importorskip("hypothesis")

import importlib.util  # noqa: E402
from pathlib import Path  # noqa: E402

from hypothesis import strategies as st  # noqa: E402

_spec = importlib.util.spec_from_file_location("view_programs", Path(__file__).with_name("view_programs.py"))
assert _spec is not None and _spec.loader is not None
programs = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(programs)

pytestmark = pytest.mark.peers

PROGRAMS = int(os.environ.get("TENSORPLAY_PROGRAMS", "2000"))
DONE: Counter[str] = Counter()
NUMBER = st.integers(0, 63)
# Writes as often as all views together, or few programs would write where views live.
KIND = st.one_of(
    st.sampled_from(list(programs.VIEWS)),
    st.sampled_from(list(programs.WRITES)),
    st.sampled_from(list(programs.VALUES)),
)
STEP = st.builds(
    programs.Step,
    KIND,
    NUMBER,
    NUMBER,
    st.tuples(NUMBER, NUMBER, NUMBER),
    st.sampled_from([False, False, False, False, False, True]),
)


@hypothesis.settings(
    max_examples=PROGRAMS,
    deadline=None,
    database=None,
    derandomize=True,
    suppress_health_check=list(hypothesis.HealthCheck),
)
@hypothesis.given(st.lists(STEP, min_size=4, max_size=16), st.lists(NUMBER, min_size=1, max_size=4))
def test_random_programs_do_here_what_they_do_in_pytorch(steps, chosen):
    program = programs.Program(tp, torch, TensorPlayError)
    for step in steps:
        program.run(step)
    program.compare(chosen)
    DONE.update(program.done)
    DONE["programs"] += 1
    if DONE["programs"] % 500 == 0:
        print(f"\nviews: {DONE['programs']} programs", end="", flush=True)


def test_the_programs_reached_what_they_are_about():
    counts = ", ".join(f"{name} {number}" for name, number in sorted(DONE.items()))
    print(f"\nviews: {counts}")
    assert DONE["programs"] >= PROGRAMS
    missing = [kind for kind in itertools.chain(programs.KINDS, ("backward", "refused")) if not DONE[kind]]
    assert not missing
