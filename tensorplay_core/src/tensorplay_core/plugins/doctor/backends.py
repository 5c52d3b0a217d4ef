"""Checks of the backends after each was tried: their states, and what works and will still surprise."""

from __future__ import annotations

import os
from collections.abc import Iterator

from tensorplay_core.dispatch import devices
from tensorplay_core.dispatch.keys import BACKENDS, DispatchKey
from tensorplay_core.errors import did_you_mean
from tensorplay_core.plugins.doctor.case import Case
from tensorplay_core.plugins.doctor.findings import Finding, Severity
from tensorplay_core.plugins.hookspecs import FROM_NAMESPACE, NAMES, PROJECT
from tensorplay_core.plugins.lifecycle import MANAGER
from tensorplay_core.plugins.records import COMPOSITE, State, install_hint

SLOW = 1.0
"""Seconds that an import may take before it is worth a word."""

SHOWN = 4
"""How many unchecked kernels a finding names."""

_LAYOUTS = frozenset(DispatchKey(key).name.lower() for key in range(BACKENDS))
"""Devices and layouts that have keys of their own, whether or not anything installed provides them."""

_SEVERITY: dict[State, Severity] = {
    State.ERROR: "error",
    State.INCOMPATIBLE: "error",
    State.UNAVAILABLE: "warning",
    State.BLOCKED: "note",
    State.UNLOADED: "note",
}


def states(case: Case) -> Iterator[Finding]:
    """Finds the backends that cannot be used, with the reason and the remedy that their errors have."""
    for record in case.records:
        remedy = record.fix or f"see what the authors of {record.info.distribution} say"
        if _told(case, record.reason):
            pass
        elif record.state in _SEVERITY:
            said = record.reason or f"it is {record.state}"
            what = f"it is {record.state}: {said}" if _SEVERITY[record.state] == "note" else said
            yield Finding(_SEVERITY[record.state], record.name, what, remedy)
        elif record.reason and not record.active:
            yield Finding("warning", record.name, f"it was not tried: {record.reason}", "wait for that, and look again")
        for note in record.notes:
            other = next((one for one in case.first_copies if note.startswith(f"{one.label} ")), None)
            mend = (
                f"pip uninstall {other.name}" if other is not None else f"look where {record.info.label} is installed"
            )
            if not _told(case, note):
                yield Finding("warning", record.name, note, mend)


def _told(case: Case, reason: str) -> bool:
    """Whether the cause is a folder of metadata, which has a finding of its own that says where it lies."""
    bad = [os.path.basename(one.folder) for one in case.installed if one.problem or one.leftover]
    bad += [f"{one.label} is also on the path" for one in case.readable]
    return any(text and text in reason for text in bad)


def waiting(case: Case) -> Iterator[Finding]:
    """Finds that backends were not tried, because they wait for a call that loads them."""
    settings = MANAGER.settings
    untried = [record.name for record in case.records if record.state is State.DISCOVERED]
    if settings is not None and not settings.autoload and untried:
        subject = settings.origin("autoload")
        what = f"no backend is loaded by itself, so these were not tried: {', '.join(untried)}"
        yield Finding("note", subject, what, f"change or unset {subject}, or call tensorplay.backends.load(name)")


def needed(case: Case) -> Iterator[Finding]:
    """Finds that nothing computes: no backend at all, none for the default device, or no general implementations."""
    names = {record.name for record in case.records}
    if not names:
        yield Finding("error", PROJECT, "no backend is installed, so nothing can be computed", install_hint("cpu"))
        return
    if "cpu" not in names:
        what = "no backend for the device cpu is installed, which is the default device"
        yield Finding("error", "cpu", what, install_hint("cpu"))
    if COMPOSITE not in names:
        what = "the backend composite is not installed: operators that a device has no kernel for do not run on it"
        yield Finding("warning", COMPOSITE, what, install_hint(COMPOSITE))


def hooks(case: Case) -> Iterator[Finding]:
    """Finds functions that are named like hooks and are none; one that is nearly a hook fails the load already."""
    for record in case.records:
        plugin = record.code.plugin if record.code is not None else None
        for name, value in sorted(vars(plugin).items() if hasattr(plugin, "__dict__") else ()):
            own = getattr(value, "__module__", None) == getattr(plugin, "__name__", "")
            if name.startswith(f"{PROJECT}_") and callable(value) and own and name not in (*NAMES, FROM_NAMESPACE):
                hint = did_you_mean(name, NAMES, limit=1)
                what = f"the function {name!r} of {record.info.module} is no hook, so nobody calls it.{hint}"
                remedy = f"name it otherwise in {record.info.distribution}; the hooks are {', '.join(NAMES)}"
                yield Finding("note", record.name, what, remedy)


def imports(case: Case) -> Iterator[Finding]:
    """Finds plugins whose import is slow: whoever lists backends, or first uses a device, waits for it.

    A note and no warning, because the first import after an installation compiles, and a cold disk is slow too.
    """
    for record in case.records:
        seconds = record.import_seconds
        if seconds is not None and seconds > SLOW:
            what = f"importing {record.info.module} took {seconds:.1f} s"
            remedy = (
                f"in {record.info.distribution}, import the array library inside tensorplay_probe, tensorplay_device"
                " and tensorplay_register, so that the machine is asked before it is loaded"
            )
            yield Finding("note", record.name, what, remedy)


def extenders(case: Case) -> Iterator[Finding]:
    """Finds extenders of devices that nothing provides."""
    owned = {record.name for record in case.records if record.owns_device}
    known = owned | set(devices.built_in) | _LAYOUTS
    for record in case.records:
        for name in record.info.extends:
            if name in known or name == "*":
                continue
            hint = did_you_mean(name, known, limit=1)
            what = f"it extends {name!r}, and no installed backend provides that device.{hint}"
            remedy = f"correct 'extends' in {record.info.file or record.info.distribution}, or install that backend"
            yield Finding("warning" if hint else "note", record.name, what, remedy)


def kernels(case: Case) -> Iterator[Finding]:
    """Finds kernels whose signatures could not be compared with the contract's."""
    for record in case.records:
        registrations = record.committed.registrations if record.committed is not None else ()
        unchecked = [f"{one.op} ({one.where})" for one in registrations if one.unchecked]
        if unchecked:
            more = f" and {len(unchecked) - SHOWN} more" if len(unchecked) > SHOWN else ""
            named = ", ".join(unchecked[:SHOWN]) + more
            what = f"the signatures of {len(unchecked)} of its kernels cannot be inspected, so unchecked: {named}"
            yield Finding("note", record.name, what, "wrap each in a Python function with the operator's arguments")
