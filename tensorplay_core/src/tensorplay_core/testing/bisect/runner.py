"""Runs a script from start to end, or to the first finding, with its default device set to the one that is examined."""

from __future__ import annotations

import os
import runpy
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tensorplay_core.dispatch import devices
from tensorplay_core.testing.bisect.mode import Bisect, Stop
from tensorplay_core.types.device import Device

VARIABLE = "TENSORPLAY_BISECT_DEVICE"
"""The environment variable that tells a script which device is examined."""


@contextmanager
def _as_started(script: Path, arguments: Sequence[str], device: Device) -> Iterator[None]:
    """The process as if Python had started the script, on a device."""
    argv, path, chosen = sys.argv, [*sys.path], devices.chosen_device()
    before = os.environ.get(VARIABLE)
    sys.argv, sys.path[0:0] = [str(script), *arguments], [str(script.resolve().parent)]
    os.environ[VARIABLE] = device.type
    devices.set_default_device(device)
    try:
        yield
    finally:
        sys.argv, sys.path[:] = argv, path
        devices.set_default_device(chosen)
        os.environ.pop(VARIABLE)
        if before is not None:
            os.environ[VARIABLE] = before


def run_script(script: Path, arguments: Sequence[str], mode: Bisect) -> None:
    """Runs a script inside a mode.

    Raises:
        BaseException: what the script raises, but for an exit without an error.
    """
    with _as_started(script, arguments, mode.device):
        try:
            with mode:
                runpy.run_path(str(script), run_name="__main__")
        except Stop:
            return
        except SystemExit as end:
            if end.code not in (None, 0):
                raise
