"""Kernels that raise while something is switched on: whatever was raised, it is off again, and gradients are right."""

from __future__ import annotations

import itertools
from typing import Any

RAISES = """
import inspect
HOW = ["well"]

class Silent(Exception):
    \"\"\"Raised without a word.\"\"\"

def burst():
    how = HOW[0]
    if how == "ValueError": raise ValueError("no luck")
    if how == "Silent": raise Silent
    if how == "StopIteration": raise StopIteration(7)
    if how == "GeneratorExit": raise GeneratorExit
    if how == "SystemExit": raise SystemExit(3)
    if how == "KeyboardInterrupt": raise KeyboardInterrupt
    if how == "ShapeError":
        import tensorplay as tp
        raise tp.errors.ShapeError("of the plugin's own")

def bursting(kernel):
    def wrapped(*args, **kwargs):
        burst()
        return kernel(*args, **kwargs)
    wrapped.__signature__ = inspect.signature(kernel)
    return wrapped

def exp(self): return numpy.exp(self)
def mul(self, other): return self * other
SPECIAL = {"exp": bursting(exp), "mul": bursting(mul)}
"""
STATE = """
import gc, sys
from tensorplay_core.dispatch import active
from tensorplay_core.dispatch.context import STATE, Scope, exclude, include
from tensorplay_core.dispatch.keys import FAMILIES
from tensorplay_bad import plugin

def state():
    now = STATE.get()
    return [now == now.__class__(), tp.is_grad_enabled(), tp.is_inference_mode_enabled(), now.probe is None,
            now.autocast is None, str(tp.get_default_device()), bool(active.special)]

def gradients():
    x = tp.tensor([1.0, 2.0], device="bad", requires_grad=True)
    (tp.exp(x) * x).sum().backward()  # e**x (1 + x)
    return [round(g, 3) for g in x.grad.tolist()]

x = tp.tensor([1.0, 2.0], device="bad", requires_grad=True)
graph = (x * x).sum()
def burst(how):
    plugin.HOW[0] = how
    try:
        return tp.exp(x)
    finally:
        plugin.HOW[0] = "well"
"""
MODES = {
    "nothing": "burst(how)",
    "no_grad": "with tp.no_grad(): burst(how)",
    "enable_grad": "with tp.no_grad():\n        with tp.enable_grad(): burst(how)",
    "inference": "with tp.inference_mode(): burst(how)",
    "profiler": "with tp.profiler.profile(): burst(how)",
    "trace": "with tp.profiler.trace(file=open('trace.txt', 'w')): burst(how)",
    "device": "with tp.device('bad'): burst(how)",
    "autocast": "with Scope(autocast={'bad': tp.float16}): burst(how)",
    "excluded": "with exclude(FAMILIES['Autograd']): burst(how)",
    "all": "with tp.no_grad(), tp.device('bad'), tp.profiler.profile(), Scope(autocast={'bad': tp.float16}):"
    " burst(how)",
    "decorated": "tp.no_grad()(burst)(how)",
    "generator": "list(tp.no_grad()(lines)(how))",
    "inference generator": "list(tp.inference_mode()(lines)(how))",
    "backward": "backward(how)",
}
OURS = ("ValueError", "Silent", "StopIteration", "GeneratorExit", "SystemExit", "ShapeError")
RUN = """
def lines(how):
    yield tp.is_grad_enabled()
    yield burst(how)

def backward(how):
    loss = (x * x).sum()
    plugin.HOW[0] = how
    try:
        loss.backward()
    finally:
        plugin.HOW[0] = "well"

MODES = {{}}
{modes}
found = {{}}
clean, right = state(), gradients()
for mode, once in MODES.items():
    x.grad = None
    graph = (x * x).sum()
    seen = found[mode] = {{}}
    for how in {hows!r}:
        both = []
        for attempt in range(2):
            x.grad = None
            both.append(raised(lambda: once(how))[:3])
            gc.collect()
            assert state() == clean, (mode, how, state())
            assert gradients() == right, (mode, how)
            assert x.grad is None, (mode, how)
            cpu_works()
        assert both[0] == both[1], (mode, both)
        seen[how] = both[0]
    graph.backward()
    assert x.grad.tolist() == [2.0, 4.0], mode
give([found, clean, right])
"""


def test_whatever_a_kernel_raises_in_a_mode_the_state_is_as_before_and_gradients_are_right(environment: Any) -> None:
    environment.install("bad", RAISES)
    modes = "".join(f"def once(how):\n    {body}\nMODES[{mode!r}] = once\n" for mode, body in MODES.items())
    found, clean, right = environment.gives(STATE + RUN.format(modes=modes, hows=(*OURS, "KeyboardInterrupt")))
    assert clean == [True, True, False, True, True, "cpu", False]
    assert right == [5.437, 22.167]
    assert list(found) == list(MODES)
    for mode, how in itertools.product(MODES, (*OURS, "KeyboardInterrupt")):
        kind, message, cause = found[mode][how]
        told = (mode, how, kind, message)
        if how == "KeyboardInterrupt":  # the user's
            assert (kind, message) == ("KeyboardInterrupt", ""), told
            continue
        if how in ("SystemExit", "GeneratorExit") and kind == how:
            continue  # once a kernel is trusted, these may come from a signal's handler
        if how == "ShapeError":  # one of ours says all there is
            assert (kind, message) == ("ShapeError", "of the plugin's own"), told
            continue
        op = "mul" if mode == "backward" else "exp"
        assert kind == "KernelError", told
        assert message.startswith(f"{op}: the kernel of tensorplay-bad ("), told
        assert "tensorplay_bad/plugin.py:" in message and "failed on (float32[2]" in message, told
        assert "authors of tensorplay-bad" in message, told
        text = {"ValueError": ": no luck", "StopIteration": ": 7", "SystemExit": ": 3"}.get(how, "")
        assert f": {how}{text}\n" in message, told
        assert cause.startswith(how), told


def test_a_kernel_that_would_end_the_program_or_a_generator_is_told_at_every_call_of_it(environment: Any) -> None:
    raising = "def exp(self):\n    raise {0}(3)\n\nSPECIAL = {{'exp': exp}}\n"
    for name, kind in (("ends", "SystemExit"), ("stops", "GeneratorExit"), ("skips", "StopIteration")):
        environment.install(name, raising.format(kind))
        seen = environment.sees(f"list(tp.exp(x) for x in [tp.ones(2, device={name!r})])", name)
        assert seen.kind == "KernelError", seen
        assert f"tensorplay_{name}/plugin.py:5" in seen.message and f"{kind}: 3" in seen.message, seen.message
        assert seen.cause == f"{kind}: 3"


def test_a_signal_that_ends_the_program_while_a_kernel_runs_ends_it(environment: Any) -> None:
    environment.install(
        "slow",
        """
        def exp(self):
            import os, signal
            os.kill(os.getpid(), signal.SIGTERM)
            for _ in range(1000000): pass
            return self
        SPECIAL = {"exp": exp}
        """,
    )
    script = """
    import signal, sys
    def stop(number, frame):
        sys.exit(5)
    signal.signal(signal.SIGTERM, stop)
    try:
        tp.exp(tp.ones(2, device="slow"))
    except tp.TensorPlayError as error:
        print("swallowed", error)
    print("survived")
    """
    done = environment.run(script)
    assert (done.code, done.out, done.err) == (5, "", "")
