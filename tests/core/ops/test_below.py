"""What lies beneath an override is called as the override is, whatever it takes itself: arrays, tensors or keys."""

from __future__ import annotations

import functools
from contextlib import closing, contextmanager

import numpy as np
import pytest

import tensorplay as tp
from tensorplay_composite.arrays import ArrayDevice, kernels
from tensorplay_core.dispatch import devices
from tensorplay_core.dispatch.context import STATE, Scope
from tensorplay_core.dispatch.keys import backend_key
from tensorplay_core.dispatch.registry import REGISTRY
from tensorplay_core.errors import ArgumentError, DTypeError, KernelMissing, RegistrationError

CALLS = {
    "specialised": ("add", lambda: (tp.tensor([[1.0, 2.0]]), tp.tensor([3.0, 4.0])), {}),
    "a number": ("mul", lambda: (tp.tensor([1, 2]), 2.5), {}),
    "through Composite": ("linear", lambda: (tp.ones(2, 3), tp.ones(4, 3), tp.tensor([1.0, 2.0, 3.0, 4.0])), {}),
    "without the optional tensor": ("linear", lambda: (tp.ones(2, 3), tp.ones(4, 3)), {}),
    "emitted": ("silu", lambda: (tp.tensor([-1.0, 2.0]),), {}),
    "emitted, with a number": ("leaky_relu", lambda: (tp.tensor([-1.0, 2.0]), 0.1), {}),
    "a keyword that the kernel beneath does not take": ("add", lambda: (tp.ones(2), tp.ones(2)), {"alpha": 3}),
    "a list of tensors": ("cat", lambda: ([tp.ones(2), tp.zeros(1)],), {}),
    "several results": ("max", lambda: (tp.tensor([[1.0, 5.0], [7.0, 2.0]]), 1), {}),
    "creation": ("full", lambda: ([2], 7), {"dtype": tp.int64}),
    "a view": ("transpose", lambda: (tp.tensor([[1.0, 2.0]]), 0, 1), {}),
}


def values(result):
    if isinstance(result, tuple):
        return [values(one) for one in result]
    return result.dtype, result.shape, result.tolist()


@pytest.mark.parametrize("level", ["array", "tensor"])
@pytest.mark.parametrize("name", CALLS)
def test_an_override_that_only_passes_on_changes_nothing(name, level):
    op, make, kwargs = CALLS[name]
    function = getattr(tp, op)
    expected = values(function(*make(), **kwargs))
    calls = []
    with closing(tp.library.Library("tp", "IMPL", "CPU")) as lib:
        full_name = "max.dim" if op == "max" else op
        beneath = lib.below(full_name)

        def kernel(*args, **keywords):
            calls.append(args)
            return beneath(*args, **keywords)

        lib.impl(full_name, kernel, override=True, level=level)
        for _ in range(3):
            assert values(function(*make(), **kwargs)) == expected
        tensors = [v for v in calls[0] if hasattr(v, "shape")]
        assert all(isinstance(v, tp.Tensor) == (level == "tensor") for v in tensors)
        assert len(calls) == (6 if kwargs.get("alpha") else 3)  # Composite's add calls mul, and then add again


def test_a_composite_kernel_beneath_an_array_kernel_runs_below_autograd_and_the_gradient_is_kept():
    x, w = tp.ones(2, 3, requires_grad=True), tp.ones(4, 3, requires_grad=True)
    seen = []
    lib = tp.library.Library("below", "FRAGMENT")
    with closing(lib):
        lib.define("scaled(Tensor x, float by) -> Tensor")
        lib.impl("scaled", lambda x, by: seen.append((tp.is_grad_enabled(), x.requires_grad)) or x * by, "Composite")
        beneath = lib.below("scaled", "CPU")
        lib.impl("scaled", lambda x, by: beneath(x, by) + np.float32(1), "CPU", level="array")
        assert tp.ops.below.scaled(x, 2.0).tolist() == [[3.0] * 3] * 2
        assert seen == [(False, False)] and STATE.get().grad
        with closing(tp.library.Library("tp", "IMPL", "CPU")) as mine:
            add = mine.below("add")
            mine.impl("add", lambda self, other, *, alpha=1: add(self, other, alpha=alpha), override=True)
            tp.add(x, w.sum(), alpha=2).sum().backward()
    assert x.grad.tolist() == [[1.0] * 3] * 2 and w.grad.tolist() == [[12.0] * 3] * 4


def test_a_result_that_is_an_argument_is_copied_as_the_signature_promises():
    lib = tp.library.Library("below", "FRAGMENT")
    with closing(lib):
        lib.define("same(Tensor x) -> Tensor")
        lib.impl("same", lambda x: x, "Composite")
        beneath = lib.below("same", "CPU")
        lib.impl("same", lambda x: beneath(x), "CPU", level="array")
        x = tp.ones(2)
        y = tp.ops.below.same(x)
        y.add_(1)
        assert (x.tolist(), y.tolist()) == ([1.0, 1.0], [2.0, 2.0])


def test_an_emitted_kernel_beneath_still_refuses_numbers_that_do_not_go_with_the_tensors():
    with closing(tp.library.Library("tp", "IMPL", "CPU")) as lib:
        beneath = lib.below("leaky_relu")
        lib.impl("leaky_relu", lambda *args: beneath(*args), override=True)
        with pytest.raises(DTypeError, match="leaky_relu"):
            tp.leaky_relu(tp.tensor([-2.0, 2.0]), 1j)
        assert tp.leaky_relu(tp.tensor([-2.0, 2.0]), 0.5).tolist() == [-1.0, 2.0]


def test_an_in_place_kernel_beneath_writes_to_the_array_that_it_is_given():
    x = tp.tensor([1.0, 2.0])
    array = x._array
    for level in ("array", "tensor"):
        with closing(tp.library.Library("tp", "IMPL", "CPU")) as lib:
            beneath = lib.below("add_")
            calls = []
            lib.impl("add_", lambda *args, **kw: calls.append(1) or beneath(*args, **kw), override=True, level=level)  # noqa: B023
            assert x.add_(1.0) is x and x._array is array and calls == [1]
    assert x.tolist() == [3.0, 4.0]


# ------------------------------------------------------------------------------------------------------- the layers


@pytest.mark.parametrize("with_keyset", [False, True])
@pytest.mark.parametrize("key", ["Autograd", "AutogradCPU"])
def test_an_autograd_override_calls_the_default_kernel_beneath_it(key, with_keyset):
    calls = []
    with closing(tp.library.Library("tp", "IMPL", key)) as lib:
        beneath = lib.below("exp")

        def kernel(*args):
            calls.append(len(args))
            return beneath(*args)

        lib.impl("exp", kernel, override=True, with_keyset=with_keyset)
        x = tp.zeros(2, requires_grad=True)
        y = x.exp()
        y.sum().backward()
        with tp.no_grad():
            assert x.exp().grad_fn is None
    assert calls == [1 + with_keyset] * 2
    assert type(y.grad_fn).__name__ == "ExpBackward" and x.grad.tolist() == [1.0, 1.0]


def test_an_autocast_override_keeps_the_policy_and_an_empty_layer_beneath_falls_through():
    x = tp.ones(2, 2)
    calls = []
    with closing(tp.library.Library("tp", "IMPL", "AutocastCPU")) as lib:
        for op in ("matmul", "neg"):  # neg has no autocast policy
            beneath = lib.below(op)
            lib.impl(op, lambda *args, f=beneath, op=op: calls.append(op) or f(*args))
        with Scope(autocast={"cpu": tp.bfloat16}):
            assert (tp.matmul(x, x).dtype, tp.neg(x).dtype) == (tp.bfloat16, tp.float32)
        assert calls == ["matmul", "neg"]
        tp.matmul(x, x)
        assert calls == ["matmul", "neg"]


def test_composite_beneath_composite_and_none():
    with closing(tp.library.Library("tp", "IMPL", "Composite")) as lib:
        linear, exp = lib.below("linear"), lib.below("exp")
        lib.impl("linear", lambda x, w, b: linear(x, w, b) + 1, override=True)
        assert tp.linear(tp.ones(1, 2), tp.ones(1, 2)).tolist() == [[3.0]]
        w = tp.ones(1, 2, requires_grad=True)
        tp.linear(tp.ones(1, 2), w).sum().backward()  # implicit: the gradient is that of what lies beneath
        assert w.grad.tolist() == [[1.0, 1.0]]
        with pytest.raises(
            KernelMissing, match=r"exp at Composite: nothing lies beneath the kernel of .*Composite has no"
        ):
            exp(tp.ones(1))


# ---------------------------------------------------------------------------------------------- one of several devices


class Pair(ArrayDevice):
    """Two devices whose arrays do not say where they are: the current one is, while a kernel runs."""

    current = 0

    @contextmanager
    def device(self, index):
        before, Pair.current = Pair.current, index
        try:
            yield
        finally:
            Pair.current = before


@pytest.fixture
def seen():
    """Where the kernels of the device ``pair`` have run."""
    places = []

    def watched(kernel):
        @functools.wraps(kernel)
        def run(*args, **kwargs):
            places.append(Pair.current)
            return kernel(*args, **kwargs)

        if (inputs := getattr(kernel, "nin", None)) is not None:
            run.nin = inputs  # a ufunc stays one
        return run

    devices.install("pair", Pair(np), 2, "tests-pair")
    staging = REGISTRY.stage("pair", "tests-pair")
    for name, kernel in kernels(np).items():
        if f"tp::{name}" in REGISTRY.operators:
            staging.impl(name, backend_key("pair"), watched(kernel))
    committed = staging.commit()
    yield places
    committed.undo()
    devices.uninstall("pair")


@pytest.mark.parametrize("index", [1, 0])
def test_what_lies_beneath_runs_on_the_device_of_the_call(seen, index):
    with closing(tp.library.Library("tp", "IMPL", "pair")) as lib:
        add, silu = lib.below("add"), lib.below("silu")
        lib.impl("add", lambda self, other, *, alpha=1: add(self, other, alpha=alpha), override=True)
        lib.impl("silu", lambda self: silu(self), override=True)
        x = tp.tensor([1.0, 2.0], device=f"pair:{index}", requires_grad=True)
        for _ in range(3):  # the second call fills the slot of the fast path
            y = tp.add(x, x, alpha=3)  # through Composite, as no kernel takes alpha
            z = tp.nn.functional.silu(x)
        assert y.tolist() == [4.0, 8.0] and z.tolist() == pytest.approx([0.7310586, 1.7615942])
        (y.sum() + z.sum()).backward()
        assert str(x.grad.device) == str(y.device) == f"pair:{index}"
        assert set(seen) == {index} and Pair.current == 0


# ------------------------------------------------------------------------------------------------------ what is refused


def test_wrong_use_is_answered():
    with closing(tp.library.Library("tp", "IMPL")) as lib:
        with pytest.raises(RegistrationError, match="no operator 'tp::adn'"):
            lib.below("adn", "CPU")
        with pytest.raises(RegistrationError, match=r"no dispatch key 'CPUU'\. Did you mean 'CPU'"):
            lib.below("add", "CPUU")
        with pytest.raises(ArgumentError, match="which dispatch key"):
            lib.below("add")
        lib.without_composite("linear", "CPU")
        beneath = lib.below("linear", "CPU")
        with pytest.raises(KernelMissing, match="opted out of Composite by"):
            beneath(np.ones((2, 2)), np.ones((2, 2)), None)


def test_a_composite_kernel_that_calls_its_operator_again_ends_in_an_error_and_not_in_a_loop():
    lib = tp.library.Library("below", "FRAGMENT")
    with closing(lib):
        lib.define("loop(Tensor x) -> Tensor")
        lib.impl("loop", lambda x: tp.ops.below.loop(x), "Composite")
        beneath = lib.below("loop", "CPU")
        lib.impl("loop", lambda x: beneath(x), "CPU", level="array")
        with pytest.raises(KernelMissing, match=r"below::loop at CPU: nothing .* calls its own operator with the same"):
            tp.ops.below.loop(tp.ones(1))
