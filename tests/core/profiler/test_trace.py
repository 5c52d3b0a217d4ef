"""The trace prints the steps that really happen, for a block and for a process, and never breaks the program."""

from __future__ import annotations

import contextvars
import io
import os
import subprocess
import sys
import textwrap
import threading
from contextlib import closing

import pytest

import tensorplay as tp
from tensorplay_core import __version__
from tensorplay_core.dispatch import active
from tensorplay_core.dispatch.context import STATE
from tensorplay_core.errors import ArgumentError, ShapeError
from tensorplay_core.profiler import profile, record_function, set_process_trace, trace
from tensorplay_core.profiler.trace import described

CPU, COMPOSITE = "tensorplay-cpu", "tensorplay-composite"


def lines(file: io.StringIO) -> list[str]:
    """What was printed, without the prefix that every line must have."""
    found = file.getvalue().splitlines()
    assert all(line.startswith("tensorplay: ") for line in found)
    return [line.removeprefix("tensorplay: ") for line in found]


@pytest.fixture
def whole(monkeypatch: pytest.MonkeyPatch):
    """The process is traced, into a file; and afterwards it is not."""
    file = io.StringIO()
    monkeypatch.setattr(sys, "stderr", file)
    set_process_trace(True)
    try:
        yield file
    finally:
        set_process_trace(False)


def program(code: str, **environ: str) -> subprocess.CompletedProcess[str]:
    env = {name: value for name, value in os.environ.items() if not name.startswith("TENSORPLAY_")}
    code = textwrap.dedent(code)
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, env={**env, **environ}, check=False
    )


# -------------------------------------------------------------------------------------------------------- what it says


def test_the_whole_trace_of_one_add_with_a_gradient_and_its_backward() -> None:
    done = program(
        """
        import tensorplay as tp
        x = tp.tensor([[1.0, 2.0]], requires_grad=True)
        y = x + tp.tensor([[1.0], [2.0]])
        y.backward(tp.tensor([[1.0, 1.0], [1.0, 1.0]]))
        print(x.grad.tolist())
        """,
        TENSORPLAY_TRACE="1",
    )
    assert (done.returncode, done.stdout) == (0, "[[2.0, 2.0]]\n")
    assert done.stderr == textwrap.dedent(
        f"""\
        tensorplay: loading backend 'composite' (tensorplay-composite {__version__})
        tensorplay: loading backend 'cpu' (tensorplay-cpu {__version__})
        tensorplay: add(float32[1,2] cpu grad, float32[2,1] cpu) AutogradCPU: AddBackward from tensorplay-core
        tensorplay:   add(float32[1,2] cpu, float32[2,1] cpu) CPU: numpy.add from tensorplay-cpu
        tensorplay: backward AddBackward
        tensorplay: sum(float32[2,2] cpu, [0], True) AutogradCPU: SumBackward from tensorplay-core
        tensorplay:   sum(float32[2,2] cpu, [0], True) CPU: sum from tensorplay-cpu
        tensorplay: reshape(float32[1,2] cpu, [1, 2]) AutogradCPU: ReshapeBackward from tensorplay-core
        tensorplay:   reshape(float32[1,2] cpu, [1, 2]) CPU: reshape from tensorplay-cpu
        """
    )


def test_a_backward_formula_has_its_operators_one_deeper() -> None:
    x = tp.tensor([2.0], requires_grad=True)
    y = x * 3.0
    file = io.StringIO()
    with trace(file):
        y.backward()
    head, *rest = [line for line in lines(file) if "full" not in line]
    assert head == "backward MulBackward" and rest[0].startswith("  mul(float32[1] cpu, float32[] cpu) AutogradCPU: ")
    assert rest[1].startswith("    mul(") and len(rest) == 2 and x.grad.tolist() == [3.0]


def test_composite_emitted_and_a_third_partys_kernels_are_named_with_all_arguments() -> None:
    x, far = tp.ones(2, 3), tp.ones(2, device="loopback")
    file = io.StringIO()
    with trace(file):
        tp.add(x, x, alpha=2)
        tp.silu(x)
        tp.zeros(3, dtype=tp.int64, device="cpu")
        far + far
        with tp.inference_mode():
            tp.neg(tp.neg(x))
    assert [line for line in lines(file) if "Autograd" not in line] == [
        f"  add(float32[2,3] cpu, float32[2,3] cpu, alpha=2) CPU: add from {COMPOSITE} at Composite",
        f"    mul(float32[2,3] cpu, float32[] cpu) CPU: numpy.multiply from {CPU}",
        f"    add(float32[2,3] cpu, float32[2,3] cpu) CPU: numpy.add from {CPU}",
        f"  silu(float32[2,3] cpu) CPU: emitted by tensorplay_cpu.math.emit from {CPU}",
        f"  zeros([3], dtype=tensorplay.int64, device=cpu) CPU: zeros from {CPU}",
        "  add(float32[2] loopback:0, float32[2] loopback:0) Loopback: numpy.add from tensorplay-loopback",
        f"neg(float32[2,3] cpu) CPU: numpy.negative from {CPU}",
        f"neg(float32[2,3] cpu inference) CPU: numpy.negative from {CPU}",
    ]


def test_an_exception_is_told_once_where_it_was_raised() -> None:
    file = io.StringIO()
    with trace(file), pytest.raises(ShapeError):
        tp.linear(tp.ones(2, 3), tp.ones(4, 5))
    told = [line for line in lines(file) if "raised" in line]
    assert told == ["    matmul raised ShapeError"]
    assert STATE.get().probe is None and (active.applying, active.tell) == (None, None)


def test_another_error_in_the_place_of_the_first_is_told_too() -> None:
    def kernel(self, other):
        try:
            tp.add(tp.ones(2), tp.ones(3))
        except ShapeError:
            raise ZeroDivisionError from None

    file = io.StringIO()
    with closing(tp.library.Library("tp", "IMPL")) as lib:
        lib.impl("mul", kernel, "CPU", override=True, level="tensor")
        with trace(file), pytest.raises(ZeroDivisionError):
            tp.mul(tp.ones(2), tp.ones(2))
    assert [line.strip() for line in lines(file) if "raised" in line] == [
        "add raised ShapeError", "mul raised ZeroDivisionError"
    ]  # fmt: skip


def test_arguments_are_short_whatever_they_are() -> None:
    class Hidden:
        def __repr__(self) -> str:
            raise ValueError

    assert described((1, 2.5, True, None)) == "[1, 2.5, True, None]"
    assert described(list(range(100))) == "[0, 1, 2, 3, 4, 5, … 94 more]"
    assert described("mean") == "'mean'" and len(described("x" * 1000)) < 70
    assert described(Hidden()) == "<Hidden>" and described(10**5000) == "<int>"
    assert described([tp.ones(2), None]) == "[float32[2] cpu, None]"


# -------------------------------------------------------------------------------------------------- where it is printed


def test_a_stream_that_fails_breaks_nothing_and_one_that_is_none_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    class Full:
        def write(self, text: str) -> None:
            raise OSError(28, "No space left on device")

    closed = io.StringIO()
    closed.close()
    x = tp.ones(2)
    for stream in (Full(), closed):
        with trace(stream):
            assert (x + x).tolist() == [2.0, 2.0]
    monkeypatch.setattr(sys, "stderr", None)
    with trace():
        assert (x + x).tolist() == [2.0, 2.0]
    with pytest.raises(ArgumentError, match="file must have a method write, and str has none"):
        trace("out.txt")
    code = "import os, sys; os.close(2); import tensorplay as tp; print((tp.ones(2) + 1).tolist())"
    done = program(code, TENSORPLAY_TRACE="1")
    assert (done.returncode, done.stdout) == (0, "[2.0, 2.0]\n")


def test_lines_are_written_whole_by_many_threads(whole: io.StringIO) -> None:
    class Slow(io.StringIO):
        calls = 0

        def write(self, text: str) -> int:
            Slow.calls += 1
            return super().write(text)

    x, file = tp.ones(2, requires_grad=True), Slow()

    def work() -> None:
        with trace(file):
            for _ in range(50):
                x.exp()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    head, inner = "exp(float32[2] cpu grad) AutogradCPU", "  exp(float32[2] cpu) CPU"
    kinds = {line.partition(":")[0] for line in lines(file)}
    assert kinds == {head, inner} and len(lines(file)) == Slow.calls == 400


# ------------------------------------------------------------------------------------------- a block, and what is in it


def test_a_block_is_traced_in_its_context_alone_and_can_be_entered_again() -> None:
    x, file = tp.ones(2), io.StringIO()
    block = trace(file)
    for _ in range(2):
        with block:
            x.exp()
    stranger = threading.Thread(target=x.exp)
    with block:
        stranger.start()
        stranger.join()
        assert len(lines(file)) == 4
        copied = threading.Thread(target=contextvars.copy_context().run, args=(x.exp,))
        copied.start()
        copied.join()
    x.exp()
    assert len(lines(file)) == 6


def test_traces_and_profilers_nest_in_any_order() -> None:
    x, outer, inner = tp.ones(2), io.StringIO(), io.StringIO()
    with trace(outer), profile() as p, trace(inner), record_function("twice"):
        x.exp()
    expected = ["block twice", "  exp(float32[2] cpu) AutogradCPU", "    exp(float32[2] cpu) CPU"]
    assert [line.partition(":")[0] for line in lines(outer)] == expected
    assert lines(inner) == lines(outer)
    assert [(event.depth, event.op) for event in p.events] == [(0, "twice"), (1, "exp"), (2, "exp")]


def test_explain_is_not_traced(whole: io.StringIO) -> None:
    x, file = tp.ones(2, requires_grad=True), io.StringIO()
    x + x
    whole.truncate(0)
    with trace(file):
        tp.explain(tp.add, x, x)
        tp.explain("matmul(float32[2,3] cpu, float32[3,4] cpu)")
    assert file.getvalue() == "" and "add" not in whole.getvalue() and "matmul" not in whole.getvalue()


# -------------------------------------------------------------------------------------------------- the whole process


def test_a_process_is_traced_in_scopes_that_were_open_before_in_new_threads_and_tasks_once() -> None:
    done = program(
        """
        import asyncio, sys, threading
        import tensorplay as tp
        x = tp.ones(2, requires_grad=True)
        x.exp(); x.exp()  # the fast path knows the kernel
        async def task():
            x.exp()
        def count(what, run):
            print(what, file=sys.stderr)
            run()
        with tp.no_grad(), tp.profiler.profile() as p:
            tp.profiler.set_process_trace(True)
            tp.profiler.set_process_trace(True)
            count("scope", x.exp)
        thread = threading.Thread(target=x.exp)
        count("thread", lambda: (thread.start(), thread.join()))
        count("task", lambda: asyncio.run(task()))
        def block():
            with tp.profiler.trace():  # the process's trace prints there already
                x.exp()
        count("block", block)
        tp.profiler.set_process_trace(False)
        count("off", x.exp)
        assert len(p.events) == 2
        """
    )
    assert done.returncode == 0, done.stderr
    said: dict[str, int] = {}
    for line in done.stderr.splitlines():
        if not line.startswith("tensorplay: "):
            what = line
        said[what] = said.get(what, 0) + line.startswith("tensorplay: ")
    assert said == {"scope": 2, "thread": 2, "task": 2, "block": 2, "off": 0}


def test_switching_it_off_gives_the_fast_path_back(whole: io.StringIO) -> None:
    counts = active.special
    assert tp.explain(tp.add, tp.ones(2), tp.ones(2)).fast_reason == "the process is traced"
    set_process_trace(False)
    assert active.special == counts - 1 and (active.probe, active.applying, active.tell) == (None, None, None)


@pytest.mark.parametrize("value", ["0", ""])
def test_any_other_value_traces_nothing_and_loads_nothing(value: str) -> None:
    code = "import sys, tensorplay as tp; print('tensorplay_core.profiler.trace' in sys.modules)"
    done = program(code, TENSORPLAY_TRACE=value)
    assert (done.stdout, done.stderr) == ("False\n", "")
