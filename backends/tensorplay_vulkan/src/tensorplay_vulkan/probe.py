"""Whether Vulkan works here, and if not, the first true reason with what mends it.

From the bottom up: wgpu, the system's Vulkan library, an adapter. The GPU is not started: who only lists backends does
not wait for that, and where it fails the first tensor says so. Every question is a method of :class:`Machine`, which
tests replace.
"""

from __future__ import annotations

import ctypes
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

from tensorplay_core.plugins import Availability

DRIVER = (
    "install the Vulkan driver of this GPU, or one that runs on the CPU (Debian, Ubuntu: apt-get install "
    "mesa-vulkan-drivers); or use device='cpu'"
)
PREFERENCE = ("DiscreteGPU", "IntegratedGPU", "VirtualGPU", "CPU")
"""Kinds of adapters, the best first."""


class Machine:
    """What the probe asks the machine."""

    platform = sys.platform

    def has_wgpu(self) -> bool:
        """Whether wgpu is installed."""
        return find_spec("wgpu") is not None

    def load_library(self) -> None:
        """Loads the system's Vulkan library, which takes no time, so that without one wgpu is not imported.

        Raises:
            OSError: there is none.
        """
        ctypes.CDLL("libvulkan.so.1")

    def adapters(self) -> list[Any]:
        """Returns wgpu's adapters of Vulkan, the best first.

        Raises:
            ImportError, OSError: wgpu, or the library in it, cannot be loaded.
        """
        with _a_runtime_folder():
            import wgpu

            found = wgpu.gpu.enumerate_adapters_sync()
        vulkan = [adapter for adapter in found if adapter.info["backend_type"] == "Vulkan"]
        return sorted(vulkan, key=lambda adapter: _rank(adapter.info["adapter_type"]))


def probe(machine: Machine) -> tuple[Availability, Any]:
    """Returns that there is a device, with its adapter, or the first reason why there is none, with None."""
    if not machine.has_wgpu():
        return _no("wgpu is not installed", "pip install wgpu")
    if machine.platform.startswith("linux"):
        try:
            machine.load_library()
        except OSError as error:
            return _no(f"no Vulkan driver: libvulkan.so.1 was not found ({_line(error)})", DRIVER)
    try:
        adapters = machine.adapters()
    except Exception as error:
        return _no(f"wgpu cannot be used: {_line(error)}", "pip install --force-reinstall wgpu")
    if not adapters:
        return _no("no Vulkan driver: wgpu finds no Vulkan adapter", DRIVER)
    return Availability(ok=True, device_count=1), adapters[0]


@contextmanager
def _a_runtime_folder() -> Iterator[None]:
    """Gives the process an XDG_RUNTIME_DIR while drivers are looked for: without one, they complain on stderr."""
    if "XDG_RUNTIME_DIR" in os.environ or os.name != "posix":
        yield
        return
    os.environ["XDG_RUNTIME_DIR"] = tempfile.gettempdir()
    try:
        yield
    finally:
        os.environ.pop("XDG_RUNTIME_DIR", None)


def _rank(kind: str) -> int:
    return PREFERENCE.index(kind) if kind in PREFERENCE else len(PREFERENCE)


def _no(reason: str, fix: str) -> tuple[Availability, None]:
    return Availability(ok=False, reason=reason, fix=fix), None


def _line(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
