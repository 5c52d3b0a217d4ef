"""The one resolution: from an operator and a key set to the kernel that runs, step by step.

A call and ``tp.explain`` read the same function, so what is explained is what happens.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tensorplay_core.dispatch.key_set import KeySet
from tensorplay_core.dispatch.keys import BACKENDS, PAGE, DispatchKey, family_of, key_name
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
    if step < BACKENDS:
        return _at_backend_key(op, key)
    exact = key if family_of(step) else step
    found = op.kernel_at(exact)
    if found is not None:
        return Step(key, exact, found, "registered at this key")
    shared = family_of(step) or ("Python" if step == DispatchKey.Python else None)
    if shared is not None and (found := op.kernel_at(shared)) is not None:
        return Step(key, shared, found, f"{shared} serves every device")
    if op.composite == "implicit" and (found := op.kernel_at(int(DispatchKey.Composite))) is not None:
        return Step(key, int(DispatchKey.Composite), found, "implicit: decomposes here")
    if shared == "Vmap":  # a kernel below would take the batch dim for one of its own
        if (found := op.kernel_at(int(DispatchKey.Composite))) is not None:
            return Step(key, int(DispatchKey.Composite), found, "no batching rule: Composite serves batched tensors")
        return Step(key, None, None, "no batching rule, and no kernel at Composite")
    return Step(key, None, None, "no kernel: falls through to the next key")


def _at_backend_key(op: Operator, key: int) -> Step:
    found = op.kernel_at(key)
    if found is not None:
        return Step(key, key, found, "made of the operator's formula" if found.emitted else "specialised kernel")
    if key in op.without_composite:
        return Step(key, None, None, "no kernel, and the backend opted out of Composite")
    composite = int(DispatchKey.Composite)
    if (found := op.kernel_at(composite)) is not None:
        return Step(key, composite, found, "no specialised kernel: Composite serves")
    return Step(key, None, None, "no kernel here and none at Composite")


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
        if step.key % PAGE < BACKENDS or family_of(step.key % PAGE) == "Vmap":
            return None
    return None


def describe(op: Operator, step: Step) -> str:
    """Returns one line about a step for a reader."""
    if step.registration is None:
        return f"{key_name(step.key)}: {step.reason}"
    r = step.registration
    return f"{key_name(step.key)}: {r.kernel_name} from {r.distribution} ({r.where}); {step.reason}"
