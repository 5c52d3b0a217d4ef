"""Puts a prepared backend into force, and takes it out again: kernels, device, and the API that its tensors have.

Either everything of a backend is in force or nothing is. Tensors outlive their backend, so what they call afterwards
finds a stand-in that says why it is gone, or brings it back.
"""

from __future__ import annotations

import contextvars
import traceback
from typing import TYPE_CHECKING

import attrs

from tensorplay_core.dispatch import devices, staging, tensor_type
from tensorplay_core.dispatch.registry import REGISTRY
from tensorplay_core.plugins.absent import AbsentDevice
from tensorplay_core.plugins.loading import LoadFailure, Prepared, guarded
from tensorplay_core.plugins.records import BackendRecord

if TYPE_CHECKING:
    from tensorplay_core.dispatch.device_api import DeviceAPI


def activate(record: BackendRecord, prepared: Prepared) -> None:
    """Commits the kernels and installs the device, both or neither.

    Raises:
        LoadFailure: the batch conflicts with what others registered meanwhile, or the device cannot be installed.
    """
    contextvars.copy_context().run(_activate, record, prepared)


def _activate(record: BackendRecord, prepared: Prepared) -> None:
    staging.recording.set(None)  # this is no registration of the plugin whose import has asked for the backend
    record.stage = "activate"
    committed = guarded(record, "activate", prepared.staging.commit)
    try:
        if record.code is not None:
            guarded(record, "activate", record.code.restore)
        if prepared.device is not None:
            _install(record, prepared.device, prepared.device_count)
    except BaseException:
        if prepared.device is not None:
            devices.uninstall(record.name)
        committed.undo()
        raise
    record.committed, record.hooks, record.device_count = committed, prepared.hooks, prepared.device_count
    record.traceback = ""


def _install(record: BackendRecord, api: DeviceAPI, count: int) -> None:
    record.survives_fork = bool(getattr(api, "survives_fork", True))
    guarded(record, "activate", lambda: devices.install(record.name, api, count, record.info.distribution))


def deactivate(record: BackendRecord) -> LoadFailure | None:
    """Undoes :func:`activate`, then calls ``tensorplay_unload``; returns that hook's failure, if any."""
    hooks = record.hooks
    withdraw(record)
    if hooks is not None:
        try:
            guarded(record, "unload", hooks.hook.tensorplay_unload)
        except LoadFailure as failure:
            record.traceback = "".join(traceback.format_exception(failure.error))  # which its remedy asks for
            return failure
    return None


def withdraw(record: BackendRecord) -> None:
    """Takes a backend's device and kernels away and runs none of its code."""
    committed = record.committed
    record.hooks, record.committed, record.device_count = None, None, 0
    if record.owns_device:
        devices.uninstall(record.name)
        tensor_type.renew(devices.DeviceEntry(record.name, AbsentDevice(record.name), 1, record.info.distribution))
    if committed is not None:
        committed.undo()
    if record.code is not None:
        record.code.withdraw()


def rank(record: BackendRecord, priority: int) -> None:
    """Gives an active backend another priority, and its registrations their new places in the stacks."""
    record.info = attrs.evolve(record.info, priority=priority)
    if record.committed is None:
        return
    with REGISTRY.lock:
        emitters = record.committed.emitters
        found = [r for op in REGISTRY.operators.values() for stack in op.table.values() for r in stack]
        later = [r for r in found if r.emitter in emitters]  # also of operators that were defined since
        mine = list(dict.fromkeys([*record.committed.registrations, *later]))
        for registration in mine:
            registration.priority = priority
        for emitter in emitters:
            emitter.priority = priority
        REGISTRY.publish(added=mine, emitters=emitters)
