"""Each reason why CUDA cannot be used, with what mends it; the machine is a made-up one."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tensorplay_cuda.probe import DriverError, Machine, probe


class Fake(Machine):
    """A machine on which everything works; a test spoils one thing."""

    platform = "linux"

    def __init__(self, **answers):
        super().__init__()
        self.answers = {
            "visible": None,
            "load_driver": None,
            "driver_version": 12040,
            "device_count": 2,
            "wheels": ["cupy-cuda12x"],
            "import_cupy": None,
            "nvrtc_version": (12, 4),
            "runtime_version": 12090,
            "first_kernel": None,
            **answers,
        }
        self.platform = self.answers.pop("platform", "linux")
        self.asked = []

    def answer(self, name):
        self.asked.append(name)
        value = self.answers[name]
        if isinstance(value, Exception):
            raise value
        return value

    def visible(self):
        return self.answer("visible")

    def load_driver(self):
        return self.answer("load_driver")

    def driver_version(self):
        return self.answer("driver_version")

    def device_count(self):
        return self.answer("device_count")

    def wheels(self):
        return self.answer("wheels")

    def import_cupy(self):
        return self.answer("import_cupy")

    def nvrtc_version(self):
        return self.answer("nvrtc_version")

    def runtime_version(self):
        return self.answer("runtime_version")

    def first_kernel(self):
        return self.answer("first_kernel")


def test_a_good_machine():
    found = probe(Fake())
    assert found.ok and found.device_count == 2 and found.reason == "" and found.fix == ""


REFUSALS = {
    "macOS": ({"platform": "darwin"}, "macOS", "device='cpu'"),
    "no driver": (
        {"load_driver": OSError("libcuda.so.1: cannot open shared object file")},
        "no NVIDIA driver: libcuda.so.1 was not found",
        "install the NVIDIA driver",
    ),
    "no driver on Windows": ({"load_driver": OSError(""), "platform": "win32"}, "nvcuda.dll was not found", "install"),
    "stub": ({"load_driver": DriverError(34)}, "stub", "install the NVIDIA driver"),
    "half updated": ({"load_driver": DriverError(803)}, "different versions", "restart"),
    "compat": ({"load_driver": DriverError(804)}, "forward-compatible", "cuda-compat"),
    "unknown code": ({"load_driver": DriverError(999)}, "CUDA error 999", "install the NVIDIA driver"),
    "hidden": ({"load_driver": DriverError(100), "visible": ""}, "CUDA_VISIBLE_DEVICES is ''", "unset"),
    "hidden, counted": ({"device_count": 0, "visible": "-1"}, "CUDA_VISIBLE_DEVICES is '-1'", "unset"),
    "no device": ({"load_driver": DriverError(100)}, "no CUDA device", "nvidia-smi"),
    "no CuPy": ({"wheels": []}, "CuPy is not installed", "pip install cupy-cuda12x"),
    "two CuPys": (
        {"wheels": ["cupy", "cupy-cuda12x"]},
        "2 CuPy distributions are installed and overwrite each other: cupy, cupy-cuda12x",
        "pip uninstall -y cupy cupy-cuda12x && pip install cupy-cuda12x",
    ),
    "old driver": (
        {"driver_version": 11080},
        "driver is too old: it supports CUDA 11.8, and cupy-cuda12x needs 12.0",
        "newer NVIDIA driver, one for CUDA 12",
    ),
    "old driver, CuPy from source": (
        {"wheels": ["cupy"], "driver_version": 12020, "runtime_version": 13000},
        "it supports CUDA 12.2, and cupy was built for 13.0",
        "one for CUDA 13",
    ),
    "broken CuPy": (
        {"import_cupy": ImportError("\n=====\nFailed to import CuPy.\n")},
        "CuPy cannot be imported: ImportError: Failed to import CuPy.",
        "pip install --force-reinstall cupy-cuda12x",
    ),
    "no NVRTC": (
        {"nvrtc_version": RuntimeError('Failure finding "libnvrtc.so.12"')},
        "NVRTC, the compiler that CuPy makes its kernels with, is missing",
        "pip install nvidia-cuda-nvrtc-cu12",
    ),
    "no NVRTC for CUDA 13": (
        {"nvrtc_version": RuntimeError(""), "wheels": ["cupy-cuda13x"], "driver_version": 13000},
        "NVRTC",
        "pip install nvidia-cuda-nvrtc",
    ),
    "no first kernel": (
        {"first_kernel": RuntimeError("cannot find cuda_fp16.h")},
        "a first CUDA kernel failed: RuntimeError: cannot find cuda_fp16.h",
        "pip install 'cupy-cuda12x[ctk]'",
    ),
}


@pytest.mark.parametrize(("answers", "reason", "fix"), REFUSALS.values(), ids=REFUSALS)
def test_refusals(answers, reason, fix):
    found = probe(Fake(**answers))
    assert not found.ok and found.device_count == 0
    assert reason in found.reason
    assert fix in found.fix
    assert "\n" not in found.reason


def test_cupy_is_not_imported_without_a_device():
    for answers in ({"load_driver": OSError("")}, {"device_count": 0}, {"wheels": []}, {"driver_version": 11000}):
        machine = Fake(**answers)
        probe(machine)
        assert "import_cupy" not in machine.asked


def test_this_machine_gets_an_answer_in_a_fresh_process():
    code = (
        "import sys, tensorplay_core.dispatch.library as library\n"
        "with library.collect() as blocks:\n"
        "    import tensorplay_cuda.plugin as plugin\n"
        "assert len(blocks) == 1 and 'cupy' not in sys.modules\n"
        "a = plugin.tensorplay_probe()\n"
        "assert a.ok or (a.reason and a.fix), a\n"
        "print(a.ok)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(r"(True|False)\n", done.stdout)


def test_wheels_are_real_distributions():
    assert all(re.match(r"cupy|amd-cupy", name) for name in Machine().wheels())
