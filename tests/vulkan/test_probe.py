"""Each reason why Vulkan cannot be used, with what mends it; the machine is a made-up one."""

from __future__ import annotations

import os
from types import SimpleNamespace

import pytest

pytest.importorskip("tensorplay_vulkan")

from tensorplay_vulkan import probe as module
from tensorplay_vulkan.probe import Machine, probe


def adapter(kind="DiscreteGPU", name="a GPU", api="Vulkan"):
    return SimpleNamespace(info={"adapter_type": kind, "device": name, "backend_type": api})


class Fake(Machine):
    """A machine on which everything works; a test spoils one thing."""

    def __init__(self, **answers):
        self.answers = {"has_wgpu": True, "load_library": None, "adapters": [adapter()], **answers}
        self.platform = self.answers.pop("platform", "linux")

    def answer(self, name):
        if isinstance(self.answers[name], Exception):
            raise self.answers[name]
        return self.answers[name]

    def has_wgpu(self):
        return self.answer("has_wgpu")

    def adapters(self):
        return self.answer("adapters")

    def load_library(self):
        return self.answer("load_library")


def test_a_machine_with_a_gpu():
    found, best = probe(Fake(adapters=[adapter(name="first"), adapter(name="second")]))
    assert found.ok and found.device_count == 1 and best.info["device"] == "first"
    assert probe(Fake(platform="win32", load_library=OSError("it has another name there")))[0].ok


@pytest.mark.parametrize(
    ("spoiled", "reason", "fix"),
    [
        ({"has_wgpu": False}, "wgpu is not installed", "pip install wgpu"),
        ({"adapters": OSError("no libwgpu")}, "wgpu cannot be used: OSError: no libwgpu", "--force-reinstall wgpu"),
        ({"adapters": []}, "no Vulkan driver", "apt-get install mesa-vulkan-drivers"),
        (
            {"load_library": OSError("no\n file")},
            "libvulkan.so.1 was not found (OSError: no file)",
            "install the Vulkan",
        ),
    ],
)
def test_what_is_missing_is_said_with_what_mends_it(spoiled, reason, fix):
    found, best = probe(Fake(**spoiled))
    assert not found.ok and reason in found.reason and fix in found.fix and best is None


def test_the_best_adapter_of_vulkan_is_taken(monkeypatch):
    wgpu = pytest.importorskip("wgpu")
    found = [adapter("CPU", "llvmpipe"), adapter("DiscreteGPU", "gl", "OpenGL"), adapter("IntegratedGPU", "built in")]
    found += [adapter("odd", "odd"), adapter("DiscreteGPU", "card")]
    seen = []

    def enumerate_adapters():
        seen.append("XDG_RUNTIME_DIR" in os.environ)
        return found

    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    monkeypatch.setattr(wgpu.gpu, "enumerate_adapters_sync", enumerate_adapters)
    names = [one.info["device"] for one in Machine().adapters()]
    assert names == ["card", "built in", "llvmpipe", "odd"]
    assert seen == [os.name == "posix"] and "XDG_RUNTIME_DIR" not in os.environ
    assert module.PREFERENCE[-1] == "CPU"


def test_a_gpu_that_does_not_start_is_said_when_a_tensor_is_made():
    pytest.importorskip("wgpu")
    from tensorplay_core.errors import BackendError
    from tensorplay_vulkan.array import FLOAT32
    from tensorplay_vulkan.gpu import Gpu

    def request_device_sync(**options):
        raise RuntimeError("out of\n luck")

    broken = adapter()
    broken.limits = {"max-buffer-size": 2**20, "max-storage-buffer-binding-size": 2**19}
    broken.limits["max-storage-buffers-per-shader-stage"] = 8
    broken.request_device_sync = request_device_sync
    gpu = Gpu(broken)
    assert gpu.largest == 2**19
    for _ in range(2):
        with pytest.raises(BackendError, match=r"(?s)a GPU cannot be started: out of luck\nfix: update"):
            gpu.empty((2,), FLOAT32)
