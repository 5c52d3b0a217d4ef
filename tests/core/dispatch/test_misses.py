"""A call that nothing serves says what is there; with TP_TRACE_KERNEL_MISS=1 it also says who called."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from contextlib import closing

import pytest

import tensorplay as tp
from tensorplay_core.dispatch import fallbacks, misses
from tensorplay_core.errors import EnvironmentVariableError, KernelMissing

PROGRAM = """
import tensorplay as tp
lib = tp.library.Library("miss", "DEF")
lib.define("op(Tensor x) -> Tensor")
lib.impl("op", lambda x: x, "CUDA")
lib.impl("op", lambda x: x, "AutocastCPU")
deep0 = lambda: tp.ops.miss.op(x)
for i in range(1, 51):  # functions of their own: repeated lines of a stack are folded into one
    exec(f"def deep{i}(): return deep{i - 1}()")
try:
    x = tp.ones(2)
    print("discovered")
    deep50()
except NotImplementedError as error:
    print(type(error).__name__, error)
except ValueError as error:
    print(type(error).__name__, error)
"""


def run(value):
    environment = {k: v for k, v in os.environ.items() if k != "TP_TRACE_KERNEL_MISS"}
    if value is not None:
        environment["TP_TRACE_KERNEL_MISS"] = value
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, env=environment)
    assert done.returncode == 0, done.stderr
    return done


def test_the_trace_prints_operator_key_what_is_registered_and_at_most_32_frames():
    done = run("1")
    assert done.stdout.startswith("discovered\nKernelMissing miss::op")
    trace = done.stderr
    assert "operator miss::op" in trace and "key CPU" in trace and "KeySet(CPU)" in trace
    assert "AutocastCPU" in trace and "CUDA" in trace and "Autograd" in trace
    frames = [line for line in trace.splitlines() if line.startswith("  File ")]
    assert len(frames) == 32
    called = [line.rpartition(" in ")[2] for line in frames if " in deep" in line]
    assert len(called) > 15 and called == [f"deep{i}" for i in range(len(called), 0, -1)]
    assert "misses.py" not in frames[-1]


def test_the_frames_of_a_recursion_are_printed_each(monkeypatch, capsys):
    monkeypatch.setenv("TP_TRACE_KERNEL_MISS", "1")
    lib = tp.library.Library("miss3", "DEF")
    lib.define("op(Tensor x) -> Tensor")

    def deep(n):
        return deep(n - 1) if n else tp.ops.miss3.op(x)

    x = tp.ones(2)
    try:
        with pytest.raises(KernelMissing):
            deep(50)
    finally:
        lib.close()
    trace = capsys.readouterr().err
    frames = [line for line in trace.splitlines() if line.startswith("  File ")]
    assert len(frames) == 32 and "repeated" not in trace
    assert sum(" in deep" in line for line in frames) > 15


@pytest.mark.parametrize("value", [None, "0", ""])
def test_no_trace_unless_it_is_asked_for(value):
    done = run(value)
    assert done.stderr == "" and done.stdout.startswith("discovered\nKernelMissing miss::op")


@pytest.mark.parametrize("value", ["yes", "2", "true"])
def test_a_value_that_means_nothing_is_refused_when_backends_are_first_discovered(value):
    done = run(value)
    assert done.stdout.startswith("EnvironmentVariableError") and f"MISS={value!r} means nothing" in done.stdout
    assert "0 (no trace, the default) and 1 (trace to stderr)" in done.stdout and "fix: correct or unset" in done.stdout


def test_the_error_names_what_is_registered_and_the_remedy():
    lib = tp.library.Library("miss2", "DEF")
    lib.define("op(Tensor x) -> Tensor")
    lib.impl("op", lambda x: x, "CUDA")
    try:
        with pytest.raises(KernelMissing) as info:
            tp.ops.miss2.op(tp.ones(2))
    finally:
        lib.close()
    message = str(info.value)
    assert isinstance(info.value, NotImplementedError)
    assert "miss2::op: no kernel at CPU, nor at Composite" in message
    assert "Registered: CUDA, Autograd" in message and "fix: register a kernel for 'miss2::op'" in message


def test_what_a_program_sets_goes_before_the_variable(monkeypatch, capsys):
    from tensorplay_core.dispatch import misses

    monkeypatch.setenv("TP_TRACE_KERNEL_MISS", "1")
    with closing(tp.library.Library("miss4", "DEF")) as lib:
        lib.define("op(Tensor x) -> Tensor")
        for told, traced in ((None, True), (False, False), (True, True)):
            monkeypatch.setattr(misses, "trace", told)
            with pytest.raises(KernelMissing):
                tp.ops.miss4.op(tp.ones(2))
            assert ("kernel miss: operator miss4::op" in capsys.readouterr().err) is traced


def test_the_host_is_recommended_only_where_it_would_serve(monkeypatch):
    """Never for a call of the cpu or of meta; what it does otherwise is in tests/core/ops/test_host_fallback.py."""
    for mode in ("raise", "warn"):
        monkeypatch.setattr(fallbacks, "mode", mode)
        with closing(tp.library.Library("miss5", "DEF")) as lib:
            lib.define("op(Tensor x) -> Tensor")
            for device in ("cpu", "meta", "loopback"):
                with pytest.raises(KernelMissing) as info:
                    tp.ops.miss5.op(tp.ones(2, device=device))
                assert ("TENSORPLAY_FALLBACK" in str(info.value)) is (device == "loopback" and mode == "warn")


def test_a_bad_value_is_an_error_of_ours(monkeypatch):
    from tensorplay_core.dispatch.misses import trace_misses

    monkeypatch.setenv("TP_TRACE_KERNEL_MISS", "maybe")
    with pytest.raises(EnvironmentVariableError):
        trace_misses()


def test_tensors_of_an_unloaded_backend_say_so_and_are_revived():
    program = """
import tensorplay as tp
x = tp.ones(3, device="loopback", requires_grad=True)
y = (x * 2).sum()
for _ in range(3):
    x + x
tp.backends.unload("loopback")
calls = [lambda: x + x, lambda: x * 2, lambda: x[0], lambda: x.softmax(0), lambda: x.detach().add_(1), y.backward]
calls.append(x.cpu)
for call in calls:
    try:
        call()
    except tp.DeviceUnavailable as error:
        assert "was unloaded" in str(error) and "tensorplay.backends.load('loopback')" in str(error), error
    else:
        raise SystemExit("a call ran")
tp.backends.load("loopback")
assert x.cpu().tolist() == [1.0, 1.0, 1.0]
assert (x + x).tolist() == [2.0, 2.0, 2.0]
y.backward()
assert x.grad.tolist() == [2.0, 2.0, 2.0]
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("closed", [True, False])
def test_a_stderr_that_is_closed_or_absent_hides_no_error(monkeypatch, closed):
    stream = io.StringIO()
    stream.close()
    monkeypatch.setattr(sys, "stderr", stream if closed else None)
    monkeypatch.setattr(misses, "trace", True)
    with closing(tp.library.Library("quiet", "DEF")) as lib:
        lib.define("op(Tensor x) -> Tensor")
        with pytest.raises(KernelMissing, match="quiet::op: no kernel at CPU"):
            tp.ops.quiet.op(tp.ones(1))
