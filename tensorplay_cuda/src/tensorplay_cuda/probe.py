"""Whether CUDA works here, and if not, the first true reason with what mends it.

From the bottom up: the platform, the driver, the devices, the CuPy wheel, NVRTC, a first kernel. The driver is asked
through ctypes, so that a machine without a GPU never imports CuPy, which takes a second and fails with a wall of text.
Every question is a method of :class:`Machine`, which tests replace.
"""

from __future__ import annotations

import ctypes
import os
import re
import sys
from importlib import metadata
from typing import Any

from tensorplay_core.plugins import Availability

WHEEL = "cupy-cuda12x"
INSTALL_DRIVER = "install the NVIDIA driver of this GPU (nvidia-smi must list it), or use device='cpu'"

# Results of cuInit that have a cause of their own: (reason, fix).
_NO_DEVICE = 100
_DRIVER_ERRORS = {
    3: ("the NVIDIA driver is not initialised", "load the kernel module (nvidia-smi does it), or restart the machine"),
    34: ("the CUDA driver library is a stub, which only serves to link programs", INSTALL_DRIVER),
    803: (
        "the NVIDIA driver's library and kernel module have different versions, as after an update",
        "restart the machine",
    ),
    804: (
        "a forward-compatible CUDA driver is installed, which this GPU does not support",
        "remove the cuda-compat package, or install a newer NVIDIA driver",
    ),
}


class DriverError(Exception):
    """The driver answered with an error code."""

    def __init__(self, code: int) -> None:
        super().__init__(f"CUDA driver error {code}")
        self.code = code


class Machine:
    """What the probe asks the machine."""

    platform = sys.platform

    def __init__(self) -> None:
        self._driver: Any = None

    def visible(self) -> str | None:
        """Returns CUDA_VISIBLE_DEVICES."""
        return os.environ.get("CUDA_VISIBLE_DEVICES")

    def load_driver(self) -> None:
        """Loads and initialises the driver's library.

        Raises:
            OSError: there is none.
            DriverError: it does not start.
        """
        self._driver = ctypes.CDLL("nvcuda.dll" if self.platform == "win32" else "libcuda.so.1")
        self._ask("cuInit", 0)

    def driver_version(self) -> int:
        """Returns the CUDA version that the driver supports, 12040 for 12.4."""
        value = ctypes.c_int()
        self._ask("cuDriverGetVersion", ctypes.byref(value))
        return value.value

    def device_count(self) -> int:
        """Returns how many devices the driver shows."""
        value = ctypes.c_int()
        self._ask("cuDeviceGetCount", ctypes.byref(value))
        return value.value

    def _ask(self, function: str, *arguments: Any) -> None:
        code = getattr(self._driver, function)(*arguments)
        if code:
            raise DriverError(code)

    def wheels(self) -> list[str]:
        """Returns the installed distributions that bring the module ``cupy``."""
        found = {
            re.sub(r"[-_.]+", "-", distribution.name).lower()
            for distribution in metadata.distributions()
            if distribution.name is not None
        }
        return sorted(name for name in found if re.fullmatch(r"cupy(-cuda\d+x?|-rocm-[\d-]+)?|amd-cupy", name))

    def import_cupy(self) -> Any:
        """Imports CuPy."""
        import cupy

        return cupy

    def nvrtc_version(self) -> tuple[int, int]:
        """Returns NVRTC's version; any exception says that it is not there."""
        return self.import_cupy().cuda.nvrtc.getVersion()

    def runtime_version(self) -> int:
        """Returns the version of the CUDA runtime that CuPy was built for."""
        return int(self.import_cupy().cuda.runtime.runtimeGetVersion())

    def first_kernel(self) -> None:
        """Compiles and runs one kernel."""
        cupy = self.import_cupy()
        with cupy.cuda.Device(0):
            if int((cupy.ones(2, dtype="int32") + 1).sum()) != 4:
                raise RuntimeError("1 + 1 is not 2 on this GPU")


def no(reason: str, fix: str = "") -> Availability:
    """Returns a refusal."""
    return Availability(ok=False, reason=reason, fix=fix)


def probe(machine: Machine | None = None) -> Availability:
    """Returns how many devices there are, or the first reason why none can be used."""
    machine = machine or Machine()
    count = _driver(machine)
    if isinstance(count, Availability):
        return count
    return _cupy(machine) or Availability(ok=True, device_count=count)


def _driver(machine: Machine) -> int | Availability:
    if machine.platform == "darwin":
        return no("CUDA does not exist on macOS", "use device='cpu'")
    try:
        machine.load_driver()
        count = machine.device_count()
    except OSError as error:
        library = "nvcuda.dll" if machine.platform == "win32" else "libcuda.so.1"
        return no(f"no NVIDIA driver: {library} was not found ({_line(error)})", INSTALL_DRIVER)
    except DriverError as error:
        if error.code != _NO_DEVICE:
            reason, fix = _DRIVER_ERRORS.get(
                error.code, (f"the NVIDIA driver fails to start with CUDA error {error.code}", INSTALL_DRIVER)
            )
            return no(reason, fix)
        count = 0
    if count:
        return count
    visible = machine.visible()
    if visible is not None:
        return no(
            f"no CUDA device is visible: CUDA_VISIBLE_DEVICES is {visible!r}",
            "unset CUDA_VISIBLE_DEVICES, or set it to 0",
        )
    return no("the NVIDIA driver is there, but no CUDA device", "check that nvidia-smi lists the GPU")


def _cupy(machine: Machine) -> Availability | None:
    wheels = machine.wheels()
    if not wheels:
        return no("CuPy is not installed", f"pip install {WHEEL}")
    if len(wheels) > 1:
        return no(
            f"{len(wheels)} CuPy distributions are installed and overwrite each other: {', '.join(wheels)}",
            f"pip uninstall -y {' '.join(wheels)} && pip install {WHEEL}",
        )
    wheel = wheels[0]
    return _too_old(machine, wheel) or _broken(machine, wheel) or _untested(machine, wheel)


def _too_old(machine: Machine, wheel: str) -> Availability | None:
    built_for = re.fullmatch(r"cupy-cuda(\d\d)\d?x?", wheel)
    if built_for is None:  # built from source: only CuPy itself knows
        return None
    needed, have = int(built_for[1]), machine.driver_version()
    if have >= needed * 1000:
        return None
    return no(
        f"the NVIDIA driver is too old: it supports CUDA {_dotted(have)}, and {wheel} needs {needed}.0 or newer",
        f"install a newer NVIDIA driver, one for CUDA {needed}",
    )


def _broken(machine: Machine, wheel: str) -> Availability | None:
    try:
        machine.import_cupy()
    except Exception as error:
        return no(f"CuPy cannot be imported: {_line(error)}", f"pip install --force-reinstall {wheel}")
    try:
        machine.nvrtc_version()
    except Exception as error:
        return no(
            f"NVRTC, the compiler that CuPy makes its kernels with, is missing: {_line(error)}",
            f"pip install {_nvrtc(wheel)}",
        )
    return None


def _untested(machine: Machine, wheel: str) -> Availability | None:
    try:
        have, needed = machine.driver_version(), machine.runtime_version()
        if have // 1000 < needed // 1000:
            return no(
                f"the NVIDIA driver is too old: it supports CUDA {_dotted(have)}, and {wheel} was built for "
                f"{_dotted(needed)}",
                f"install a newer NVIDIA driver, one for CUDA {needed // 1000}",
            )
        machine.first_kernel()
    except Exception as error:
        return no(f"a first CUDA kernel failed: {_line(error)}", f"pip install '{wheel}[ctk]'")
    return None


def _nvrtc(wheel: str) -> str:
    major = re.match(r"cupy-cuda(\d\d)", wheel)
    return "nvidia-cuda-nvrtc" if major is not None and int(major[1]) >= 13 else "nvidia-cuda-nvrtc-cu12"


def _dotted(version: int) -> str:
    return f"{version // 1000}.{version % 1000 // 10}"


def _line(error: BaseException) -> str:
    """Returns the first line that says something; CuPy frames its messages in rules."""
    lines = [line.strip() for line in str(error).splitlines()]
    text = next((line for line in lines if re.search(r"\w", line)), "")
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
