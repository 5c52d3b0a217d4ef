"""Kernels that break their operators' promises: the first call says which one, and how; nothing wrong is kept."""

from __future__ import annotations

import textwrap
from typing import Any

WRONG = '''
import array, inspect

class Foreign:
    """An array of another library."""
    shape, dtype = (2,), "float32"

HOW = ["right"]

def spoil(first, args):
    return {
        "right": lambda: first,
        "dtype": lambda: first.astype("complex64"),
        "no dtype of ours": lambda: first.astype("S4"),
        "objects": lambda: first.astype(object),
        "shape": lambda: numpy.concatenate([numpy.atleast_1d(first)] * 2),
        "one dim more": lambda: first[None],
        "scalar": lambda: float(numpy.asarray(first).ravel()[0]),
        "None": lambda: None,
        "text": lambda: "hello",
        "foreign": lambda: Foreign(),
        "alias": lambda: args[0],
        "view": lambda: args[0][::-1],
        "list": lambda: first.tolist(),
        "transposed": lambda: numpy.asfortranarray(first) if first.ndim else first,
        "strided": lambda: numpy.repeat(first, 2, -1)[..., ::2] if first.ndim else first,
        "read-only": lambda: numpy.broadcast_to(first, first.shape),
    }[HOW[0]]()

def wrong(good):
    def kernel(*args, **kwargs):
        result = good(*args, **kwargs)
        if HOW[0] in ("few", "many"):
            return (numpy.zeros(2),) * (1 if HOW[0] == "few" else 3)
        if isinstance(result, tuple):
            return (spoil(result[0], args), *result[1:])
        return spoil(result, args)
    kernel.__signature__ = inspect.signature(good)
    return kernel

made = kernels(numpy)
def add(self, other): return self + other
def relu(self): return numpy.maximum(self, 0)
def sum(self, dim=None, keepdim=False, *, dtype=None): return self.sum(None if dim is None else tuple(dim))
def matmul(self, other): return self @ other
def max_dim(self, dim, keepdim=False): return made["max.dim"](self, dim, keepdim)
def full(size, fill_value, *, dtype, device): return numpy.full(size, fill_value, dtype)
def empty(size, *, dtype, device): return numpy.zeros(size, dtype)
good = {"add": add, "relu": relu, "sum": sum, "matmul": matmul, "max.dim": max_dim, "full": full, "empty": empty}
SPECIAL = {op: wrong(kernel) for op, kernel in good.items()}
'''
TRY = """
from tensorplay_bad import plugin
CALLS = {
    "add": lambda: x + x.t(), "relu": lambda: tp.relu(x), "sum": lambda: x.sum(), "matmul": lambda: x @ x,
    "max.dim": lambda: x.max(0)[0], "full": lambda: tp.full((2,), 3.0, device="bad"),
    "empty": lambda: tp.empty(2, device="bad"),
}
def attempt(call):
    try:
        value = call()
    except tp.TensorPlayError as error:
        return [type(error).__name__, str(error)]
    return ["value", value.tolist(), str(value.dtype)]
found = {}
for how in HOWS:
    tp.backends.load("bad"); tp.backends.unload("bad"); tp.backends.load("bad")  # each is a first call
    plugin.HOW[0] = "right"
    x = tp.tensor([[1.0, -2.0], [3.0, 4.0]], device="bad")
    plugin.HOW[0] = how
    once = {op: attempt(call) for op, call in CALLS.items()}
    again = {op: attempt(call) for op, call in CALLS.items()}
    assert once == again, (how, once, again)
    cpu_works()
    found[how] = once
    plugin.HOW[0] = "right"
    assert x.tolist() == [[1.0, -2.0], [3.0, 4.0]]
give(found)
"""
EVERYWHERE = {
    "dtype": "should be float32, it returned complex64", "no dtype of ours": "which device 'bad' does not have",
    "objects": "dtype object, which device 'bad' does not have", "one dim more": "should have shape",
    "shape": "should have shape", "None": "it returned None", "text": "it returned str",
    "foreign": "it returned tensorplay_bad.plugin.Foreign",
}  # fmt: skip


def test_a_result_that_the_operator_does_not_promise_names_the_kernel_and_what_it_returned(environment: Any) -> None:
    environment.install("bad", WRONG)
    hows = [*EVERYWHERE, "scalar", "few", "many", "alias", "view"]
    found = environment.gives(f"HOWS = {hows!r}\n" + TRY)
    code = (environment.site / "tensorplay_bad" / "plugin.py").read_text(encoding="utf-8").splitlines()
    line = code.index("    def kernel(*args, **kwargs):") + 1
    for how in hows:
        for op, (kind, message, *rest) in found[how].items():
            if how in ("scalar", "objects") and op == "sum":  # one number, whose class is the device's affair
                assert (kind, message) == ("value", 6.0)
                continue
            if how in ("alias", "view") and op in ("full", "empty"):
                continue  # its argument is no tensor
            assert kind == "KernelError", (how, op, message, rest)
            assert message.startswith(f"{op}: the kernel of tensorplay-bad ("), (how, op, message)
            assert f"tensorplay_bad/plugin.py:{line}) is wrong: " in message, (how, op, message)
            assert "\nfix: " in message, (how, op, message)
            if how in EVERYWHERE:
                numpys = how == "no dtype of ours" and op == "sum"  # which is one number, and so a scalar of NumPy's
                assert ("not an array" if numpys else EVERYWHERE[how]) in message, (how, op, message)
                assert "authors of tensorplay-bad" in message
    assert "2 results are promised, it returned a tuple of 1" in found["few"]["max.dim"][1]
    assert "2 results are promised, it returned a tuple of 3" in found["many"]["max.dim"][1]
    assert "should have shape (2, 2), it returned ()" in found["scalar"]["matmul"][1]
    for op in ("add", "relu", "matmul"):
        for how in ("alias", "view"):
            assert "shares memory with the argument" in found[how][op][1]
            assert found[how][op][1].endswith("fix: return a copy.")


def test_a_result_that_is_laid_out_otherwise_or_is_a_list_is_as_good_as_any(environment: Any) -> None:
    environment.install("bad", WRONG)
    hows = ["right", "transposed", "strided", "read-only", "list"]
    found = environment.gives(f"HOWS = {hows!r}\n" + TRY)
    right = {
        "add": [[2.0, 1.0], [1.0, 8.0]], "relu": [[1.0, 0.0], [3.0, 4.0]], "sum": 6.0,
        "matmul": [[-5.0, -10.0], [15.0, 10.0]], "max.dim": [3.0, 4.0], "full": [3.0, 3.0], "empty": [0.0, 0.0],
    }  # fmt: skip
    for how in hows:
        for op, values in right.items():
            if (how, op) == ("list", "max.dim"):  # a list has no dtype, and the device would guess one
                assert "values should be float32" in found[how][op][1]
            else:
                assert found[how][op] == ["value", values, "tensorplay.float32"], (how, op)


def test_a_kernel_that_writes_to_its_input_is_told_and_the_input_is_whole_again(environment: Any) -> None:
    environment.install(
        "bad",
        """
        def relu(self):
            self[self < 0] = 0
            return self.copy()

        def mul(self, other):
            other *= self
            return other.copy()

        def exp(self):
            self += 1
            raise ValueError("half-way")

        def add_(self, other):
            self += other
            return self

        SPECIAL = {"relu": relu, "mul": mul, "exp": exp, "add_": add_}
        """,
    )
    before = """
    x = tp.tensor([-1.0, 2.0], device="bad", requires_grad=True)
    y = tp.tensor([3.0, 5.0], device="bad")
    kept = (x.detach() - y)
    """
    for call, argument in (("tp.relu(x)", "self"), ("x * y", "other"), ("y.detach().relu()", "")):
        seen = environment.sees(call, "bad", before=before) if argument else None
        if seen is not None:
            assert seen.kind == "KernelError"
            assert "tensorplay_bad/plugin.py" in seen.message and "tensorplay-bad" in seen.message
            assert f"changed its argument {argument}" in seen.message, seen.message
    after = (
        before
        + """
    told = [raised(lambda: tp.relu(x))[1], raised(lambda: x * y)[1], raised(lambda: tp.exp(y))[1]]
    whole = [x.tolist(), y.tolist(), kept.tolist()]
    z = x.detach() + 1  # its own memory
    z.add_(y)  # a declared write is none of that
    (x + y).sum().backward()
    give([told, whole, z.tolist(), x.grad.tolist()])
    """
    )
    told, whole, z, grad = environment.gives(textwrap.dedent(after))
    assert whole == [[-1.0, 2.0], [3.0, 5.0], [-4.0, -3.0]]
    assert "ValueError: half-way" in told[2]
    assert (z, grad) == ([3.0, 8.0], [1.0, 1.0])


def test_a_kernel_may_call_tensorplay_and_even_unload_or_register_while_it_runs(environment: Any) -> None:
    environment.install(
        "busy",
        """
        def relu(self):
            import tensorplay as tp
            on_cpu = tp.ones(2) + 1
            own = tp.tensor(self.tolist(), device="busy") * 2 + 1
            return numpy.maximum(self, 0) * on_cpu.numpy() / (own.cpu().numpy() - 2 * self + 1)

        def exp(self):
            import tensorplay as tp
            tp.backends.unload("busy")
            return numpy.exp(self)

        def neg(self):
            from tensorplay_core.dispatch.library import Library
            LIBRARIES.append(Library("tp", "IMPL"))
            LIBRARIES[-1].impl("neg", lambda self: -self * 10, "busy", override=True)
            return -self

        def sigmoid(self):
            import tensorplay as tp
            return tp.relu(tp.tensor(self.tolist(), device="busy")).cpu().numpy()

        LIBRARIES = []
        SPECIAL = {"relu": relu, "exp": exp, "neg": neg, "sigmoid": sigmoid}
        """,
    )
    script = """
    import math
    x = tp.tensor([1.0, -1.0], device="busy", requires_grad=True)
    y = tp.relu(x)
    y.sum().backward()
    seen = [y.tolist(), x.grad.tolist(), tp.sigmoid(x.detach()).tolist()]
    seen += [(-x.detach()).tolist(), (-x.detach()).tolist(), (-x.detach()).tolist()]
    try:
        seen.append(tp.exp(x.detach()).tolist())
    except tp.errors.DeviceUnavailable as error:
        seen.append(str(error))
    seen.append(raised(lambda: x + x)[0])
    cpu_works()
    tp.backends.load("busy")
    seen.append((x + x).tolist())
    try:
        seen.append(tp.exp(x.detach() * 0).tolist())
    except tp.errors.DeviceUnavailable as error:
        seen.append(str(error))
    give(seen)
    """
    relu, grad, nested, first, second, third, gone, after, revived, again = environment.gives(script)
    assert (relu, grad, nested) == ([1.0, 0.0], [1.0, 0.0], [1.0, 0.0])
    assert (first, second, third) == ([-1.0, 1.0], [-10.0, 10.0], [-10.0, 10.0])
    for text in (gone, again):  # the kernel had its answer, and nobody to make a tensor of it: either will do
        assert isinstance(text, list) or "tensorplay.backends.load('busy')" in text
    assert (after, revived) == ("DeviceUnavailable", [2.0, -2.0])
