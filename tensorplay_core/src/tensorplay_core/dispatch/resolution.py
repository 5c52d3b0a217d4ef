"""The one resolution: from an operator and a key set to the kernel that runs, step by step.

A call and ``tp.explain`` read the same function, so what is explained is what happens.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from tensorplay_core.dispatch.key_set import KeySet
from tensorplay_core.dispatch.keys import BACKENDS, MODES, PAGE, DispatchKey, family_of, key_name
from tensorplay_core.dispatch.operator import Operator, Registration, Slot


class Step(NamedTuple):
    """What is found at one key of a call.

    Attributes:
        key: the key.
        slot: the slot of the table that serves it, or None.
        registration: the kernel there, or None when the key is skipped or nothing serves it.
        reason: why this kernel, or why none.
    """

    key: int
    slot: Slot | None
    registration: Registration | None
    reason: str


def at_key(op: Operator, key: int) -> Step:
    """Returns what an operator has for one key: the exact slot, the shared one, or Composite."""
    step = key % PAGE
    backend = step < BACKENDS
    exact = key if backend or family_of(step) else step
    found = op.kernel_at(exact)
    if found is not None:
        return Step(key, exact, found, _specialised(op, exact, found) if backend else "registered at this key")
    return beneath(op, key, exact)


def beneath(op: Operator, key: int, slot: Slot) -> Step:
    """Returns what an operator has for one key where the exact slot has nothing more, or the shared one, as said."""
    step = key % PAGE
    if step < BACKENDS:
        return _beneath_backend_key(op, key)
    shared = family_of(step) or ("Python" if step == DispatchKey.Python else None)
    if shared is not None and shared != slot and (found := op.kernel_at(shared)) is not None:
        return Step(key, shared, found, f"{shared} serves every device")
    implicit = op.composite == "implicit" and step not in MODES  # a mode is no layer: only what it has a kernel for
    if implicit and (found := op.kernel_at(int(DispatchKey.Composite))) is not None:
        return Step(key, int(DispatchKey.Composite), found, "implicit: decomposes here")
    if shared == "Vmap":  # a kernel below would take the batch dim for one of its own
        if (found := op.kernel_at(int(DispatchKey.Composite))) is not None:
            return Step(key, int(DispatchKey.Composite), found, "no batching rule: Composite serves batched tensors")
        return Step(key, None, None, "no batching rule, and no kernel at Composite")
    return Step(key, None, None, "no kernel: falls through to the next key")


def _specialised(op: Operator, slot: Slot, found: Registration) -> str:
    if found.emitted:
        return "made of the operator's formula"
    beneath = [r.distribution for r in op.table.get(slot, ()) if r is not found and not r.emitted and not r.placeholder]
    return "specialised kernel" + f", over those of {' and '.join(beneath)}" * bool(beneath)


def _beneath_backend_key(op: Operator, key: int) -> Step:
    if key in op.without_composite:
        return Step(key, None, None, f"no kernel, and opted out of Composite by {op.opted_out_by(key)}")
    if (found := composite_at(op, key)) is not None:
        return Step(key, int(DispatchKey.Composite), found, "no specialised kernel: Composite serves")
    return Step(key, None, None, "no kernel here and none at Composite")


def composite_at(op: Operator, key: int) -> Registration | None:
    """Returns the Composite kernel that may serve a backend key; None also where the device opted out of it."""
    return None if key in op.without_composite else op.kernel_at(int(DispatchKey.Composite))


def why_no_composite(op: Operator, key: int) -> str:
    """Returns why Composite serves nothing at a backend key, as the end of a sentence."""
    who = op.opted_out_by(key)
    return f"{who} opted out of Composite for it" if who else "Composite has none"


def takes(registration: Registration, kwargs: dict[str, Any]) -> bool:
    """Whether a kernel takes the keywords that a call has changed."""
    accepted = registration.keywords
    return accepted is None or all(name in accepted for name in kwargs)


def steps(op: Operator, keys: KeySet) -> Iterator[Step]:
    """Yields what each key of a set has, from the highest."""
    return (at_key(op, key) for key in keys)


def resolve(op: Operator, keys: KeySet) -> Step | None:
    """Returns the step that runs: the first, from the highest key, that has a kernel.

    It is remembered until the operator's table changes.
    """
    roads = op.roads  # read before the table, so that what a stale table gives lands in a dict that nobody reads
    known = roads.get((keys.bits, keys.page))
    if known is not None:
        return known  # type: ignore[no-any-return]
    for step in steps(op, keys):
        if step.registration is not None:
            roads[keys.bits, keys.page] = step
            return step
        if ends(step.key):
            return None
    return None


def ends(key: int) -> bool:
    """Whether a call ends at a key that has no kernel, rather than fall through to the next one."""
    return key % PAGE < BACKENDS or family_of(key % PAGE) == "Vmap"


def ended_at(op: Operator, keys: KeySet) -> int | None:
    """Returns the key at which a call that :func:`resolve` finds no kernel for ends; None where the set is empty."""
    return next((step.key for step in steps(op, keys) if step.registration is None and ends(step.key)), None)


def describe(op: Operator, step: Step) -> str:
    """Returns one line about a step for a reader."""
    if step.registration is None:
        return f"{key_name(step.key)}: {step.reason}"
    r = step.registration
    return f"{key_name(step.key)}: {r.kernel_name} from {r.distribution} ({r.where}); {step.reason}"
