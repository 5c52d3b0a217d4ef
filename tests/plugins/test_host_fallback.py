"""A device without a kernel, under TENSORPLAY_FALLBACK: what runs on the host says so, and nothing is written there."""

from __future__ import annotations

from typing import Any

import pytest

BARE = """
def add_(self, other):
    self += other
    return self

SPECIAL = {"exp": None, "neg": None, "max.dim": None, "transpose": None, "add": None, "add_": add_,
           "relu": None, "matmul": None, "arange": None}
"""
SETUP = """
x = tp.tensor([[1.0, -2.0], [3.0, 0.5]], device="bare", requires_grad=True)
y = tp.tensor([[1.0, -2.0], [3.0, 0.5]], device="bare")
"""


def test_raise_is_the_default_and_its_fix_names_the_way_out_where_it_would_serve(environment: Any) -> None:
    environment.install("bare", BARE)
    for fallback in ({}, {"TENSORPLAY_FALLBACK": "raise"}):
        seen = environment.sees("tp.exp(y)", "bare", before=SETUP, **fallback)
        assert seen.kind == "KernelMissing" and "NotImplementedError" in seen.kinds
        assert seen.message.startswith("exp: no kernel at Bare, nor at Composite.")
        assert "TENSORPLAY_FALLBACK=warn" in seen.fix
    for mode in ("raise", "warn", "allow"):  # of a view on the host the device would see nothing
        seen = environment.sees("y.transpose(0, 1)", "bare", before=SETUP, TENSORPLAY_FALLBACK=mode)
        assert seen.kind == "KernelMissing", (mode, seen)
        assert "TENSORPLAY_FALLBACK=warn" not in seen.fix, (mode, seen)
    bad = environment.run("pass", TENSORPLAY_FALLBACK="perhaps")
    assert "TENSORPLAY_FALLBACK" in bad.err and "allow" in bad.err and "warn" in bad.err and "raise" in bad.err


@pytest.mark.parametrize("mode", ["warn", "allow"])
def test_a_functional_operator_runs_on_the_host_with_gradients_and_is_counted(environment: Any, mode: str) -> None:
    environment.install("bare", BARE)
    script = (
        SETUP
        + """
warnings.simplefilter("always")
seen = {}
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    for _ in range(2):
        e = tp.exp(x)                                # the line of the warning
    e.sum().backward()
    seen["grad"] = [[round(v, 4) for v in row] for row in x.grad.tolist()]
    values, indices = y.max(0)
    seen["max"] = [values.tolist(), indices.tolist(), str(indices.dtype), str(values.device)]
    seen["matmul"] = (y @ y).tolist()
    seen["arange"] = [tp.arange(3, device="bare").tolist(), str(tp.arange(3, device="bare").device)]
    seen["mixed"] = (y @ tp.tensor(2.0).cpu().expand(2, 2).to("bare")).tolist()
    seen["device"] = [str(e.device), str(e.dtype), list(e.shape)]
    with tp.no_grad():
        seen["relu"] = tp.relu(y).tolist()
    seen["again"] = round(tp.exp(y).sum().item(), 3)
report = tp.backends.fallback_report()
seen["report"] = {row.op: [row.device, row.how, row.calls] for row in report}
seen["text"] = str(report)
import linecache
seen["told"] = [[w.category.__name__, str(w.message), w.filename.rsplit("/")[-1],
                 linecache.getline(w.filename, w.lineno).strip()] for w in caught]
give(seen)
"""
    )
    seen = environment.gives(script, TENSORPLAY_FALLBACK=mode)
    assert seen["grad"] == [[2.7183, 0.1353], [20.0855, 1.6487]]  # e to the power of x
    assert seen["max"] == [[3.0, 0.5], [1, 1], "tensorplay.int64", "bare:0"]
    assert seen["matmul"] == [[-5.0, -3.0], [4.5, -5.75]]
    assert seen["arange"] == [[0, 1, 2], "bare:0"]
    assert seen["device"] == ["bare:0", "tensorplay.float32", [2, 2]]
    assert seen["relu"] == [[1.0, 0.0], [3.0, 0.5]]
    assert seen["report"]["exp"] == ["bare", "host", 3]
    assert seen["report"]["max.dim"] == ["bare", "host", 1]
    assert "exp" in seen["text"] and max(map(len, seen["text"].splitlines())) <= 80
    if mode == "allow":
        assert seen["told"] == []
        return
    first = [row for row in seen["told"] if row[1].startswith("exp")]
    assert len(first) == 1  # once for the operator and the device
    kind, message, file, line = first[0]
    assert (kind, file) == ("RuntimeWarning", "program.py")
    assert line == "e = tp.exp(x)                                # the line of the warning"
    assert "tensorplay-bare" in message and "'bare'" in message and "TENSORPLAY_FALLBACK=allow" in message
    assert len({row[1] for row in seen["told"]}) == len(seen["told"])


@pytest.mark.parametrize("mode", ["raise", "warn", "allow"])
def test_an_in_place_kernel_is_never_run_on_the_host_and_what_it_would_write_is_right_or_untouched(
    environment: Any, mode: str
) -> None:
    environment.install("bare", BARE)
    script = (
        SETUP
        + """
warnings.simplefilter("ignore")
def version(t):
    return t._version[0] if t._version is not None else 0
def attempt(call):
    kept = y.tolist()
    try:
        call()
    except tp.TensorPlayError as error:
        assert y.tolist() == kept, (kept, y.tolist())
        return [type(error).__name__, str(error)]
    return ["value", y.tolist()]
seen = {}
view = y[0]
loss = (x * y).sum()
seen["own"] = attempt(lambda: y.add_(y))                 # it has add_, and no add
seen["view"] = view.tolist()                             # which shares its memory
seen["saved"] = raised(lambda: loss.backward())[:2]      # a saved tensor that was written to
seen["neg_"] = attempt(lambda: y.neg_())                 # neither neg_ nor neg
seen["out"] = attempt(lambda: tp.neg(x.detach(), out=y))
seen["alpha"] = attempt(lambda: y.sub_(y, alpha=1))      # sub_ through sub, which it has
seen["leaf"] = attempt(lambda: x.add_(1.0))
give(seen)
"""
    )
    seen = environment.gives(script, TENSORPLAY_FALLBACK=mode)
    assert seen["own"] == ["value", [[2.0, -4.0], [6.0, 1.0]]]
    assert seen["view"] == [2.0, -4.0]
    assert seen["saved"][0] == "AutogradError" and "modified" in seen["saved"][1]
    if mode == "raise":
        assert seen["neg_"][0] == seen["out"][0] == "KernelMissing"
        assert seen["neg_"][1].startswith("neg") and "Bare" in seen["neg_"][1]
    else:  # the value is computed on the host; the write is the device's own
        assert seen["neg_"] == ["value", [[-2.0, 4.0], [-6.0, -1.0]]]
        assert seen["out"] == ["value", [[-1.0, 2.0], [-3.0, -0.5]]]
    assert seen["alpha"] == ["value", [[0.0, 0.0], [0.0, 0.0]]]
    assert seen["leaf"][0] == "AutogradError"


def test_an_in_place_form_is_counted_once_and_configure_is_the_variables_equal(environment: Any) -> None:
    environment.install("bare", BARE)
    script = (
        SETUP
        + """
missing = raised(lambda: tp.exp(y))[0]
settings = tp.backends.configure(fallback="allow")
allowed = round(tp.exp(y).sum().item(), 3)
y.neg_()
report = {row.op: row.calls for row in tp.backends.fallback_report(reset=True)}
empty = len(tp.backends.fallback_report())
tp.backends.configure(fallback=None)
again = raised(lambda: tp.exp(y))[0]
wrong = raised(lambda: tp.backends.configure(fallback="perhaps"))
give([missing, settings.fallback, allowed, report, empty, again, wrong[:2], tp.backends.settings().fallback])
"""
    )
    missing, setting, allowed, report, empty, again, wrong, now = environment.gives(script)
    assert (missing, setting, allowed, again, now) == ("KernelMissing", "allow", 24.588, "KernelMissing", "raise")
    assert report == {"exp": 1, "neg": 1} and empty == 0
    assert wrong[0] == "ValueRangeError" and all(word in wrong[1] for word in ("perhaps", "raise", "warn", "allow"))
