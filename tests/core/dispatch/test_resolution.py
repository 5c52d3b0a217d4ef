"""What serves each key of a call, on small tables written for the purpose."""

from __future__ import annotations

import pytest

from tensorplay_core.dispatch.key_set import KeySet
from tensorplay_core.dispatch.keys import DispatchKey, assign_page
from tensorplay_core.dispatch.operator import Operator
from tensorplay_core.dispatch.registry import Registry
from tensorplay_core.dispatch.resolution import at_key, composite_at, describe, ended_at, resolve, steps, takes

CPU, AUTOGRAD = int(DispatchKey.CPU), int(DispatchKey.AutogradCPU)
BOTH = KeySet.of(CPU, AUTOGRAD)


def operator(*keys, composite="explicit"):
    registry = Registry()
    op = registry.define(Operator("op(Tensor x) -> Tensor", namespace="t", composite=composite))
    staging = registry.stage("me", "my-distribution")
    for key in keys:
        staging.impl("t::op", key, lambda x: x)
    staging.commit()
    return op


def found(op, keys=BOTH):
    step = resolve(op, keys)
    return step and (step.key, step.slot)


def test_the_highest_key_with_a_kernel_runs():
    assert found(operator("CPU", "Autograd", "Composite")) == (AUTOGRAD, "Autograd")
    assert found(operator("CPU", "Composite")) == (CPU, CPU)
    assert found(operator("CUDA")) is None


def test_an_exact_key_overrides_the_shared_slot():
    assert found(operator("CPU", "Autograd", "AutogradCPU")) == (AUTOGRAD, AUTOGRAD)
    assert found(operator("CPU", "Autograd", "AutogradCUDA")) == (AUTOGRAD, "Autograd")


def test_composite_serves_an_empty_backend_key():
    assert found(operator("Composite")) == (CPU, int(DispatchKey.Composite))
    assert found(operator("Composite"), KeySet.of(DispatchKey.CUDA)) == (1, 22)


@pytest.mark.parametrize("key", ["AutocastCPU", "Python", "VmapMode", "DynamicLayerFrontMode"])
def test_an_explicit_operator_falls_through_an_empty_layer(key):
    op = operator("CPU")
    assert found(op, KeySet.of(CPU, DispatchKey[key])) == (CPU, CPU)
    assert "falls through" in at_key(op, DispatchKey[key]).reason


@pytest.mark.parametrize("key", ["AutocastCPU", "Python", "VmapCPU", "AutogradCPU"])
def test_an_implicit_operator_decomposes_at_an_empty_layer_even_where_it_is_specialised(key):
    op = operator("CPU", "Composite", composite="implicit")
    assert found(op, KeySet.of(CPU, DispatchKey[key])) == (DispatchKey[key], 22)
    assert found(op, KeySet.of(CPU)) == (CPU, CPU)


def test_an_operator_never_falls_through_an_empty_vmap():
    """A kernel below would take the batch dim for one of its own."""
    batched = KeySet.of(CPU, DispatchKey.VmapCPU)
    assert found(operator("CPU"), batched) is None
    assert found(operator("CPU", "Composite"), batched) == (DispatchKey.VmapCPU, 22)
    assert found(operator("CPU", "Vmap"), batched) == (DispatchKey.VmapCPU, "Vmap")


def test_shared_slots_serve_the_devices_of_every_page():
    page = 32 * assign_page("loopback")
    op = operator("Autograd", "Vmap", "Composite", "Python")
    assert found(op, KeySet.of(page, page + 7)) == (page + 7, "Autograd")
    assert found(op, KeySet.of(page, page + 17)) == (page + 17, "Vmap")
    assert found(op, KeySet.of(page)) == (page, 22)
    assert found(op, KeySet(1 << 0 | 1 << 5, page // 32)) == (page + 5, "Python")


def test_an_exact_kernel_of_another_page_does_not_serve():
    page = 32 * assign_page("loopback")
    op = operator("AutogradLoopback", "loopback", "CPU")
    assert found(op, KeySet.of(page, page + 7)) == (page + 7, page + 7)
    assert found(op) == (CPU, CPU)


def test_every_step_is_told_from_the_highest_with_its_reason():
    op = operator("CPU", "Autograd")
    told = list(steps(op, KeySet.of(CPU, AUTOGRAD, DispatchKey.AutocastCPU)))
    assert [step.key for step in told] == [12, 7, 0]
    assert [bool(step.registration) for step in told] == [False, True, True]
    line = describe(op, told[2])
    assert line.startswith("CPU: ") and "my-distribution" in line and f"{__file__}:" in line and "specialised" in line


def test_where_a_call_without_a_kernel_ends():
    batched = KeySet.of(CPU, DispatchKey.VmapCPU)
    assert ended_at(operator("CUDA"), KeySet.of(CPU, DispatchKey.AutocastCPU)) == CPU
    assert ended_at(operator("CPU"), batched) == DispatchKey.VmapCPU
    assert ended_at(operator("CPU"), KeySet(0, 0)) is None


def test_what_composite_serves_and_which_keywords_a_kernel_takes():
    op = operator("CPU", "Composite")
    assert composite_at(op, CPU) is op.kernel_at(22) and composite_at(operator("CPU"), CPU) is None
    op.without_composite = frozenset({CPU})
    assert composite_at(op, CPU) is None and composite_at(op, DispatchKey.CUDA) is op.kernel_at(22)
    kernel = op.kernel_at(CPU)
    assert takes(kernel, {})
    kernel.keywords = frozenset({"a", "b"})
    assert takes(kernel, {"a": 1}) and not takes(kernel, {"a": 1, "c": 2})
