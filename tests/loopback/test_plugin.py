"""The smallest backend stays small, and says what a backend must."""

from __future__ import annotations

import inspect
from importlib.resources import files

import yaml

from tensorplay_core.dispatch.library import collect


def test_it_is_thirty_lines():
    text = files("tensorplay_loopback").joinpath("plugin.py").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 30


def test_it_registers_every_operator_of_the_general_kernels():
    import importlib
    import sys

    import numpy

    from tensorplay_composite.arrays import kernels

    sys.modules.pop("tensorplay_loopback.plugin", None)
    with collect() as blocks:
        plugin = importlib.import_module("tensorplay_loopback.plugin")
    seen = {}

    emitters = []

    class Staging:
        def impl(self, op, key, fn, **options):
            seen[op] = (key, fn)

        def emitter(self, key, emit, **options):
            emitters.append(key)

    for block in blocks:
        block.apply(Staging())
    assert set(seen) == set(kernels(numpy))
    assert {key for key, _ in seen.values()} == {"loopback"}
    assert emitters == ["loopback"]
    assert plugin.tensorplay_probe().ok and plugin.tensorplay_device() is plugin.DEVICE
    assert not plugin.DEVICE.shares_memory_with_host
    assert inspect.getdoc(plugin)


def test_info():
    for package in ("tensorplay_loopback", "tensorplay_cpu", "tensorplay_cuda", "tensorplay_composite"):
        info = yaml.safe_load(files(package).joinpath("backend.yaml").read_text(encoding="utf-8"))
        assert info["summary"] and info["api"] == ">=1,<2"
        assert info.get("extends") == (["*"] if package == "tensorplay_composite" else None)
