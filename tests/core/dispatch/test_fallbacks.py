"""What fell back is counted, exactly and in every thread; the report is printed at the end of a traced process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing

import pytest

import tensorplay as tp
from tensorplay_core.dispatch import fallbacks
from tensorplay_core.dispatch.fallbacks import FallbackReport, FallbackRow, device_type_of
from tensorplay_core.dispatch.keys import PAGE, DispatchKey, assign_page, backend_key
from tensorplay_core.dispatch.registry import REGISTRY

Library = tp.library.Library


@pytest.fixture(autouse=True)
def counted() -> Iterator[Library]:
    """Defines ``counted::twice``, which Composite serves everywhere, and starts the count anew."""
    with closing(Library("counted", "DEF")) as lib:
        lib.define("twice(Tensor x, *, int n=2) -> Tensor")
        lib.impl("twice", lambda x, n=2: x * n, "Composite")
        fallbacks.fallback_report(reset=True)
        yield lib


def rows() -> list[tuple[str, str, str, int]]:
    return [tuple(row) for row in tp.backends.fallback_report(reset=True)]  # type: ignore[misc]


def test_every_call_that_composite_serves_counts_and_no_other() -> None:
    x = tp.ones(2)
    for _ in range(3):
        tp.ops.counted.twice(x, n=3), x * 2
    assert rows() == [("counted::twice", "cpu", "composite", 3)]
    tp.add(x, x, alpha=2)  # NumPy's add takes no alpha
    x.add_(1), x.exp_(), x.to(tp.float64)  # core's own: the operator computes with a kernel of the backend
    assert rows() == [("add", "cpu", "composite", 1)]


def test_a_composite_kernel_that_was_lifted_into_a_slot_counts_each_time() -> None:
    x = tp.ones(2, device="loopback")
    own = REGISTRY.find("exp").table[backend_key("loopback")]
    REGISTRY.publish(removed=own)
    try:
        with closing(Library("tp", "IMPL")) as lib:
            lib.impl("exp", lambda x: x * 2, "Composite", override=True)
            for _ in range(5):
                assert x.exp().tolist() == [2.0, 2.0]
            assert x._type.k_exp.__name__ == "lifted" and rows() == [("exp", "loopback", "composite", 5)]
            x.exp_()
            assert rows() == [("exp", "loopback", "composite", 1)]
    finally:
        REGISTRY.publish(added=own)


def test_an_implicit_operator_counts_where_composite_stood_in_for_a_backend() -> None:
    x, w = tp.ones(1, 2), tp.ones(1, 2, requires_grad=True)
    tp.ops.tp.linear(x, w)  # decomposes for the sake of the gradient
    assert "linear" not in [row[0] for row in rows()]
    tp.ops.tp.linear(x, w.detach())
    assert ("linear", "cpu", "composite", 1) in rows()


def test_a_failed_call_counts_and_one_that_nothing_serves_does_not() -> None:
    with closing(Library("counted", "FRAGMENT")) as lib:
        lib.define("fails(Tensor x) -> Tensor")
        lib.impl("fails", lambda x: 1 // 0, "Composite")
        lib.define("nothing(Tensor x) -> Tensor")
        with pytest.raises(ZeroDivisionError):
            tp.ops.counted.fails(tp.ones(2))
        with pytest.raises(tp.KernelMissing):
            tp.ops.counted.nothing(tp.ones(2))
    assert rows() == [("counted::fails", "cpu", "composite", 1)]


def test_the_count_is_exact_under_threads_and_a_reset_loses_no_call() -> None:
    start, x, found, running = threading.Barrier(9), tp.ones(1), [], [True]

    def work() -> None:
        start.wait()
        for _ in range(250):
            tp.ops.counted.twice(x)

    def read() -> None:
        start.wait()
        while running:
            found.extend(rows())

    threads = [threading.Thread(target=work) for _ in range(8)]
    reader = threading.Thread(target=read)
    for thread in (reader, *threads):
        thread.start()
    for thread in threads:
        thread.join()
    running.clear()
    reader.join()
    assert sum(count for op, _, _, count in [*found, *rows()] if op == "counted::twice") == 2000


def test_the_report_reads_as_a_table_as_plain_values_and_as_a_sequence() -> None:
    report = FallbackReport(
        [
            FallbackRow("softmax", "foo", "composite", 3),
            FallbackRow(
                "my_namespace::" + "long_" * 15 + "name.and_an_overload", "a_device_of_a_long_name", "host", 12345
            ),
            FallbackRow("add", "foo", "composite", 3),
        ]
    )
    assert [row.op for row in report][1:] == ["add", "softmax"] and len(report) == 3 and report
    assert json.loads(json.dumps(report.as_dict()))["rows"][1] == {
        "op": "add", "device": "foo", "how": "composite", "calls": 3,
    }  # fmt: skip
    lines = str(report).splitlines()
    assert max(map(len, lines)) <= 80 and lines[0].split() == ["calls", "how", "device", "operator"]
    assert "name.and_an_overload" in "".join(line.strip() for line in lines)
    assert lines[-1].split() == ["3", "composite", "foo", "softmax"]
    assert lines[0].index("operator") == lines[-1].index("softmax")
    assert (
        not FallbackReport([]) and str(FallbackReport([])) == "no call fell back: each ran on a kernel of its backend"
    )
    assert repr(report) == "<FallbackReport: 12351 calls of 3 operators>"


def test_the_device_of_a_key_on_any_page() -> None:
    page = assign_page("loopback")
    assert device_type_of(PAGE * page) == device_type_of(PAGE * page + DispatchKey.Sparse) == "loopback"
    assert [device_type_of(key) for key in range(5)] == ["cpu", "cuda", "vulkan", "sparse", "meta"]


PROGRAM = """
import tensorplay as tp
x = tp.ones(2)
tp.add(x, x, alpha=2), tp.add(x, x, alpha=3)
{more}
"""
TABLE = """tensorplay: calls that no kernel of their backend served:
calls  how        device  operator
    2  composite  cpu     add
"""


def run(more: str, **environ: str) -> str:
    program = PROGRAM.format(more=more)
    environ = {**os.environ, **environ}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, env=environ)
    assert done.returncode == 0, done.stderr
    return done.stderr


def test_a_traced_process_prints_the_report_when_it_ends() -> None:
    assert run("", TENSORPLAY_TRACE="1").endswith(TABLE)
    assert run("tp.backends.configure(trace=True)") == TABLE
    assert run("") == ""
    assert run("tp.backends.configure(trace=True); tp.backends.configure(trace=False)") == ""
    assert run("tp.backends.configure(trace=True); tp.backends.fallback_report(reset=True)") == ""
    assert run("tp.backends.configure(trace=True); import sys; sys.stderr.close()") == ""


def test_a_forked_child_counts_with_a_lock_of_its_own() -> None:
    code = """
import os
from tensorplay_core.dispatch.fallbacks import LOG
with LOG._lock:
    child = os.fork()
    if child == 0:
        tp.add(x, x, alpha=4)
        os._exit(tp.backends.fallback_report().rows[0].calls)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
"""
    if hasattr(os, "fork"):
        run(code)


@pytest.mark.parametrize("mode", ["warn", "allow"])
def test_the_environment_variable_does_what_it_says(mode: str) -> None:
    code = """
from tensorplay_core.dispatch.registry import REGISTRY
y = tp.ones(2, device="loopback")
REGISTRY.publish(removed=REGISTRY.find("tanh").table[y._type.page * 32])
assert y.tanh().tolist() == tp.ones(2).tanh().tolist()
assert tp.backends.settings().fallback == {mode!r}
"""
    err = run(code.format(mode=mode), TENSORPLAY_FALLBACK=mode)
    assert ("RuntimeWarning: tanh: tensorplay-loopback has no kernel" in err) is (mode == "warn")
