"""What else sees a call that runs on the host: the profiler, explain, autocast, gradients, slots, warnings and threads.

The device is loopback, from which the kernels of some operators are taken; each of them is nowhere else but on the cpu.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorplay as tp
from tensorplay_core.dispatch import devices, fallbacks
from tensorplay_core.dispatch.context import STATE, Scope
from tensorplay_core.dispatch.keys import DispatchKey, backend_key
from tensorplay_core.dispatch.registry import REGISTRY
from tensorplay_core.dispatch.tensor_type import unresolved
from tensorplay_core.errors import AutogradError, KernelMissing
from tensorplay_core.ops import host_fallback
from tensorplay_core.plugins.lifecycle import MANAGER

Library = tp.library.Library
LACKING = ("exp", "tanh", "mul", "matmul", "pow", "sum")


@pytest.fixture(autouse=True)
def allowed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    devices.entry("loopback")
    keys = backend_key("loopback"), int(DispatchKey.Composite)
    taken = [r for name in LACKING for key in keys for r in REGISTRY.find(name).table.get(key, ())]
    REGISTRY.publish(removed=taken)
    monkeypatch.setattr(fallbacks, "mode", "allow")
    monkeypatch.setattr(host_fallback, "_warned", set())
    fallbacks.fallback_report(reset=True)
    yield
    REGISTRY.publish(added=taken)


def x(*values: Any, requires_grad: bool = False) -> tp.Tensor:
    return tp.tensor(list(values), dtype=tp.float32, device="loopback", requires_grad=requires_grad)


def rows() -> list[tuple[Any, ...]]:
    return [tuple(row) for row in fallbacks.fallback_report(reset=True)]


def test_the_host_call_is_an_inner_step_of_profile_trace_and_explain(capsys: pytest.CaptureFixture[str]) -> None:
    a = x(1, 2, requires_grad=True)
    with tp.profiler.profile() as p:
        a.exp()
    ran = [(e.key, e.slot, e.kernel, e.where) for e in p.events]
    assert [e.depth for e in p.events] == [0, 1, 2] and p.key_averages()["exp"].calls == 1
    road = tp.explain(tp.exp, a)
    assert [(s.key, s.slot, s.kernel, s.where) for s in road.steps if s.state == "runs"] == ran
    assert road.ok and road.steps[1].reason.endswith("runs on the host, because TENSORPLAY_FALLBACK=allow")
    assert [key for key, *_ in ran] == ["AutogradLoopback", "Loopback", "CPU"]
    assert ran[1][1:3] == ("Host", "host fallback")
    with tp.profiler.trace():
        a.exp()
    assert capsys.readouterr().err.splitlines()[1:] == [
        "tensorplay:   exp(float32[2] loopback:0) Loopback: host fallback from tensorplay-core",
        "tensorplay:     exp(float32[2] cpu) CPU: numpy.exp from tensorplay-cpu",
    ]


def test_nothing_that_runs_on_the_host_sits_in_a_slot() -> None:
    a = x(1, 2)
    for _ in range(3):
        a.exp(), a.exp_(), a * a
        assert all(a._type.__dict__[k] is unresolved for k in ("k_exp", "k_exp_", "k_mul"))
        assert not tp.explain(tp.exp, a).fast and not tp.explain(tp.Tensor.exp_, a).fast


def test_a_kernel_that_is_registered_later_is_used_from_then_on(monkeypatch: pytest.MonkeyPatch) -> None:
    a = x(1, 2)
    a.exp()
    with closing(Library("tp", "IMPL")) as lib:
        lib.impl("exp", np.exp2, "loopback")
        assert [a.exp().tolist() for _ in range(2)] == [[2.0, 4.0]] * 2 and len(rows()) == 1
    assert a.exp().tolist() == pytest.approx([2.718282, 7.389056])
    monkeypatch.setattr(fallbacks, "mode", "raise")
    with pytest.raises(KernelMissing):
        a.exp()


def test_autocast_of_the_device_has_cast_already_and_that_of_the_cpu_does_not() -> None:
    """The policy is applied once, on the device of the call; the host computes in what it left."""
    a = x(1, 2, 3, 4).reshape(2, 2)
    with Scope(autocast={"loopback": tp.float16, "cpu": tp.float64}):
        assert (a @ a).dtype is tp.float16 and a.exp().dtype is tp.float32
    with Scope(autocast={"cpu": tp.float16}):
        assert (a @ a).dtype is tp.float32


def test_a_kernel_on_tensors_runs_on_the_host_below_the_layers_that_the_call_has_passed() -> None:
    modes = []

    def kernel(x: tp.Tensor) -> tp.Tensor:
        modes.append(STATE.get().grad)
        return x @ x

    with closing(Library("hosted", "DEF")) as lib:
        lib.define("twice(Tensor x) -> Tensor")
        lib.impl("twice", kernel, "CPU", level="tensor")
        with Scope(autocast={"cpu": tp.float16}):
            y = tp.ops.hosted.twice(x(3, 4))
        assert y.dtype is tp.float32 and y.item() == 25.0
    assert modes == [False]


def test_inference_mode_and_no_grad_hold_on_the_host_too() -> None:
    a = x(1, 2, requires_grad=True)
    with tp.no_grad():
        assert a.exp()._node is None
    with tp.inference_mode():
        y = a.exp() * 2
        assert y.is_inference() and y.exp_().is_inference()
    assert not a.exp().is_inference() and a.exp()._node is not None


def test_a_second_gradient_and_a_stale_save_are_what_they_are_elsewhere() -> None:
    a = x(0.5, 2.0, requires_grad=True)
    (first,) = tp.autograd.grad((a**3).sum(), [a], create_graph=True)
    (second,) = tp.autograd.grad(first.sum(), [a])
    assert second.tolist() == pytest.approx([3.0, 12.0])
    y = a * 1
    z = y.exp()
    z.mul_(2)
    with pytest.raises(AutogradError, match="exp"):
        z.sum().backward()


# ------------------------------------------------------------------------------------------------------------- warnings


def test_one_warning_per_operator_and_device_that_names_the_callers_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fallbacks, "mode", "warn")
    a = x(1, 2, requires_grad=True)
    with pytest.warns(RuntimeWarning) as caught:
        warnings.simplefilter("always")
        y = tp.mean(a)  # by way of Composite, whose steps fall back; the line is this one all the same
        a.tanh(), a.tanh()
        y.sum().backward()
    texts = [str(w.message) for w in caught]
    assert len(set(texts)) == len(texts) and {w.filename for w in caught} == {__file__}
    tanh = next(w for w in caught if str(w.message).startswith("tanh"))
    assert str(tanh.message) == (
        "tanh: tensorplay-loopback has no kernel of it for 'loopback', nor has Composite; it runs on the host, its "
        "tensors copied there and back at each call\nfix: TENSORPLAY_FALLBACK=allow silences this, "
        "TENSORPLAY_FALLBACK=raise makes it an error; in Python tp.backends.configure(fallback='allow')."
    )
    lines = Path(__file__).read_text().splitlines()
    assert "a.tanh(), a.tanh()" in lines[tanh.lineno - 1]
    assert any(lines[w.lineno - 1].strip() == "y.sum().backward()" for w in caught)


def test_a_warning_that_is_an_error_is_one_at_every_try(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fallbacks, "mode", "warn")
    a = x(1, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):
            with pytest.raises(RuntimeWarning, match=r"^tanh: tensorplay-loopback"):
                a.tanh()
    assert rows() == []


def test_threads_at_once_warn_once_and_count_every_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fallbacks, "mode", "warn")
    a, found = x(1, 2), []
    monkeypatch.setattr(warnings, "warn", lambda message, *args, **kwargs: found.append(message))
    start = threading.Barrier(8)

    def work() -> None:
        start.wait()
        for _ in range(25):
            a.tanh()

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 1 and ("tanh", "loopback", "host", 200) in rows()


def test_a_composite_kernel_that_the_host_ends_counts_once() -> None:
    with closing(Library("hosted", "DEF")) as lib:
        lib.define("roundabout(Tensor x) -> Tensor")
        lib.impl("roundabout", lambda x: tp.ops.hosted.roundabout(x), "Composite")
        lib.impl("roundabout", lambda a: a + 1, "CPU", level="array")
        assert tp.ops.hosted.roundabout(x(1, 2)).tolist() == [2.0, 3.0]
    assert rows() == [("hosted::roundabout", "loopback", "host", 1)]


def test_a_view_comes_from_the_host_where_the_devices_own_would_be_copies() -> None:
    tp.backends.from_namespace(np, "sliceless", views=False)
    keys = backend_key("sliceless"), int(DispatchKey.Composite)
    taken = [r for name in ("unsqueeze", "transpose") for k in keys for r in REGISTRY.find(name).table.get(k, ())]
    REGISTRY.publish(removed=taken)
    try:
        base = tp.tensor([[1.0, 2.0], [3.0, 4.0]], device="sliceless", requires_grad=True)
        assert tp.explain(tp.unsqueeze, base, 0).steps[-2].slot == "Host"
        (base.transpose(0, 1) * tp.tensor([1.0, 10.0], device="sliceless")).sum().backward()
        assert base.grad.tolist() == [[1.0, 1.0], [10.0, 10.0]]
        plain = base.detach().clone()
        column = plain.unsqueeze(0).transpose(0, 1)[1]
        column.fill_(7)
        plain[0, 1] = 5
        assert plain.tolist() == [[1.0, 5.0], [7.0, 7.0]] and column.tolist() == [[7.0, 7.0]]
        assert {row[:3] for row in rows()} >= {("unsqueeze", "sliceless", "host"), ("transpose", "sliceless", "host")}
    finally:
        REGISTRY.publish(added=taken)
        tp.backends.unload("sliceless")
        MANAGER._records.pop("sliceless")
