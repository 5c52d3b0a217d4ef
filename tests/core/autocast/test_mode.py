"""Regions: how they nest, decorate and end, what they refuse, and what the state says about them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import numpy as np
import pytest

import tensorplay as tp
from tensorplay_core.dispatch import active
from tensorplay_core.dispatch.context import STATE

A = tp.ones(2, 2)


def product() -> str:
    return (A @ A).dtype.name


@pytest.fixture(autouse=True)
def _leaves_nothing() -> Iterator[None]:
    state, special = STATE.get(), active.special
    yield
    assert STATE.get() is state and active.special == special
    assert product() == "float32"


# ------------------------------------------------------------------------------------------------------------- nesting


def test_a_region_and_what_is_around_it() -> None:
    with tp.autocast("cpu", dtype=tp.bfloat16) as region:
        assert isinstance(region, tp.autocast) and product() == "bfloat16"
        with tp.autocast("cpu", dtype=tp.float16):
            assert product() == "float16" and tp.get_autocast_dtype("cpu") is tp.float16
            with tp.autocast("cpu", enabled=False):
                assert product() == "float32" and not tp.is_autocast_enabled("cpu")
                with tp.autocast("cpu"):
                    assert product() == "float16", "without a dtype it is that of the region around"
            assert product() == "float16"
        assert product() == "bfloat16"
    assert tp.get_autocast_dtype("cpu") is tp.bfloat16 and tp.get_autocast_dtype("cuda") is tp.float16


def test_one_region_is_entered_again() -> None:
    region = tp.autocast("cpu", dtype=tp.float16)
    for _ in range(2):
        with region, tp.autocast("cpu", enabled=False):
            with region:
                assert product() == "float16"
            assert product() == "float32"


def test_several_device_types_at_once() -> None:
    there = tp.ones(2, 2, device="loopback")
    with tp.autocast("cpu", dtype=tp.bfloat16):
        assert (there @ there).dtype is tp.float32
        with tp.autocast("loopback", dtype=tp.float16):
            assert ((there @ there).dtype, product()) == (tp.float16, "bfloat16")
            assert tp.is_autocast_enabled("cpu") and tp.is_autocast_enabled("loopback")
            with tp.autocast("cpu", enabled=False):
                assert ((there @ there).dtype, product()) == (tp.float16, "float32")
        assert (there @ there).dtype is tp.float32
    with tp.autocast("meta", dtype=tp.float16):
        assert (tp.ones(2, 2, device="meta") @ tp.ones(2, 3, device="meta")).dtype is tp.float16


def test_a_device_of_a_third_party_trains_in_its_half() -> None:
    """loopback has float16 alone: that is its default; the gradients are those of a cast by hand."""
    x, w = tp.tensor([[1.0, 2.0], [3.0, 4.0]]), tp.tensor([[0.1, 0.2], [0.3, 0.4]])
    here, there = w.clone().requires_grad_(), w.to("loopback").requires_grad_()
    with tp.autocast("loopback"):
        loss = tp.nn.functional.cross_entropy(x.to("loopback") @ there, tp.tensor([0, 1], device="loopback"))
        assert loss.dtype is tp.float32
    loss.backward()
    tp.nn.functional.cross_entropy((x.half() @ here.half()).float(), tp.tensor([0, 1])).backward()
    assert there.grad.dtype is tp.float32 and there.grad.tolist() == here.grad.tolist()


@pytest.mark.parametrize("dtype", [tp.float16, tp.bfloat16], ids=lambda d: d.name)
def test_both_halves_on_the_cpu(dtype: tp.dtype) -> None:
    values = np.random.default_rng(0).normal(size=(3, 5)).astype(np.float32)
    x, w = tp.from_numpy(values), tp.from_numpy(values.T.copy())
    with tp.autocast("cpu", dtype=dtype):
        y = x @ w
        z = tp.nn.functional.softmax(y, -1)
    assert y.dtype is dtype and z.dtype is tp.float32
    rounded = x.to(dtype).double().numpy()
    eps = 2.0**-11 if dtype is tp.float16 else 2.0**-8
    np.testing.assert_allclose(y.double().numpy(), rounded @ rounded.T, rtol=eps, atol=1e-6)


# ------------------------------------------------------------------------------------------------------ how it is left


def test_an_exception_restores_the_state_at_every_depth() -> None:
    with pytest.raises(ZeroDivisionError), tp.autocast("cpu"), tp.no_grad(), tp.autocast("cuda"):
        raise ZeroDivisionError
    with tp.autocast("cpu"):
        with pytest.raises(tp.ShapeError), tp.autocast("cpu", enabled=False):
            tp.matmul(A, tp.ones(3, 3))
        assert product() == "bfloat16"


def test_decorating_functions_methods_and_recursion() -> None:
    @tp.autocast("cpu", dtype=tp.float16)
    def name(depth: int = 0) -> str:
        """The name."""
        return product() if depth == 0 else name(depth - 1)

    class Model:
        @tp.amp.autocast("cpu")
        def forward(self) -> str:
            return product()

    assert (name(), name(2), Model().forward()) == ("float16", "float16", "bfloat16")
    assert name.__doc__ == "The name." and tp.amp.autocast is tp.autocast

    @tp.autocast("cpu")
    def fails() -> None:
        raise KeyError

    with pytest.raises(KeyError):
        fails()


def test_a_decorated_generator_is_in_the_region_only_while_it_runs() -> None:
    @tp.autocast("cpu")
    def steps() -> Iterator[str]:
        try:
            yield product()
            yield product()
        finally:
            seen.append(product())

    seen: list[str] = []
    running = steps()
    assert next(running) == "bfloat16" and product() == "float32"
    assert next(running) == "bfloat16" and product() == "float32"
    running.close()
    assert seen == ["bfloat16"]


def test_generators_that_open_regions_and_are_left_out_of_turn() -> None:
    def opens(dtype: tp.dtype) -> Iterator[str]:
        with tp.autocast("cpu", dtype):
            yield product()

    one, two = opens(tp.float16), opens(tp.bfloat16)
    assert (next(one), next(two)) == ("float16", "bfloat16")
    one.close()
    assert product() == "bfloat16", "the second is still open here, as in PyTorch"
    two.close()


def test_coroutines_tasks_and_threads() -> None:
    @tp.autocast("cpu")
    async def inside() -> list[str]:
        before = product()
        await asyncio.sleep(0)
        return [before, product()]

    async def program() -> list[object]:
        task = asyncio.create_task(inside())
        await asyncio.sleep(0)
        outside = product()
        with tp.autocast("cpu", dtype=tp.float16):
            copied = asyncio.create_task(later())
        return [outside, await task, await copied]

    async def later() -> str:
        return product()

    assert asyncio.run(program()) == ["float32", ["bfloat16"] * 2, "float16"], "a task keeps what it began with"
    with pytest.raises(tp.ArgumentError, match="asynchronous generator"):

        @tp.autocast("cpu")
        async def many() -> object:
            yield 1

    seen: list[str] = []
    with tp.autocast("cpu"):
        thread = threading.Thread(target=lambda: seen.append(product()))
        thread.start()
        thread.join()
    assert seen == ["float32"], "a thread starts with the defaults"


# ------------------------------------------------------------------------------------------------------------ setters


def test_setters_hold_until_the_end_of_the_block() -> None:
    with tp.no_grad():
        tp.set_autocast_enabled("cpu", True)
        assert product() == "bfloat16" and tp.is_autocast_enabled("cpu")
        tp.set_autocast_dtype("cpu", tp.float16)
        assert product() == "float16" and not tp.is_grad_enabled()
        tp.set_autocast_enabled("cpu", False)
        assert product() == "float32" and tp.get_autocast_dtype("cpu") is tp.float16
        with tp.autocast("cpu"):
            assert product() == "float16"
            tp.set_autocast_enabled("cpu", False)
            assert product() == "float32"
        assert product() == "float32"
    assert tp.get_autocast_dtype("cpu") is tp.bfloat16


def test_setters_outside_a_block_hold_on_and_leave_one_state() -> None:
    def program() -> list[str]:
        tp.set_autocast_dtype("cpu", tp.float16)
        for _ in range(50):
            tp.set_autocast_enabled("cpu", True)
            seen.append(product())
            tp.set_autocast_enabled("cpu", False)
            seen.append(product())
        depth, state = 0, STATE.get()
        while state.beneath is not None:
            depth, state = depth + 1, state.beneath
        seen.append(str(depth))

    seen: list[str] = []
    thread = threading.Thread(target=program)  # whose context ends with it
    thread.start()
    thread.join()
    assert seen == ["float16", "float32"] * 50 + ["1"]


# -------------------------------------------------------------------------------------------------------- what is wrong


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (("cudda",), tp.AutocastError, r"no device type 'cudda'. Did you mean 'cuda'\?(.|\n)*fix: "),
        (("cuda:0",), tp.AutocastError, r"Did you mean 'cuda'\?(.|\n)*without an index"),
        (("CPU",), tp.AutocastError, r"Did you mean 'cpu'\?"),
        (("AutogradCPU",), tp.AutocastError, "no device type 'AutogradCPU'"),
        ((tp.device("cpu"),), tp.ArgumentError, r"a string such as 'cpu'(.|\n)*fix: .*device\.type"),
        (("cpu", tp.float32), tp.DTypeError, "lowers to float16 or bfloat16, not to float32(.|\n)*enabled=False"),
        (("cpu", tp.int8), tp.DTypeError, "not to int8"),
        (("cpu", "float16"), tp.ArgumentError, r"must be a tensorplay dtype.*tp\.float16"),
        (("loopback", tp.bfloat16), tp.DTypeError, r"no dtype bfloat16(.|\n)*fix: pass dtype=tp\.float16"),
        (("cpu", None, 1), tp.ArgumentError, "enabled is True or False, not 1"),
        (("cpu", None, True, "yes"), tp.ArgumentError, "cache_enabled is True or False, not 'yes'"),
    ],
)
def test_bad_arguments_are_refused_before_a_region_opens(arguments, error, message) -> None:
    with pytest.raises(error, match=message):
        tp.autocast(*arguments)
    if len(arguments) == 2:
        with pytest.raises(error, match=message):
            tp.set_autocast_dtype(*arguments)


def test_what_is_off_needs_no_half() -> None:
    with tp.autocast("cpu", dtype=tp.float32, enabled=False):
        assert product() == "float32" and tp.get_autocast_dtype("cpu") is tp.bfloat16


def test_queries_of_unknown_devices_are_errors() -> None:
    for query in (tp.is_autocast_enabled, tp.get_autocast_dtype):
        with pytest.raises(tp.AutocastError, match=r"no device type 'vulcan'\. Did you mean 'vulkan'"):
            query("vulcan")
    assert tp.is_autocast_available("vulkan") and not tp.is_autocast_available("vulcan")


# ------------------------------------------------------------------------------------------------------------ backward


@pytest.mark.parametrize("inside", [True, False])
def test_a_backward_pass_computes_in_the_dtypes_of_the_forward_pass(inside: bool) -> None:
    """Formulas call products and sums themselves; inside a region those would be cast once more."""
    x = tp.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    w = tp.tensor([[0.5, -1.0], [2.0, 0.25]], requires_grad=True)
    with tp.profiler.profile() as seen:
        with tp.autocast("cpu"):
            loss = (x.double() @ w.double()).sum() + (x @ w).float().sum() + tp.exp(x).sum()
            if inside:
                loss.backward()
        if not inside:
            loss.backward()
    inside_nodes = [event for event in seen.events if _in_backward(event)]
    assert {event.key for event in inside_nodes if event.kind == "step"} == {"AutogradCPU", "CPU"}
    assert any(event.op == "matmul" for event in inside_nodes), "formulas call what autocast would cast"
    rows = np.array([[-0.5, 2.25]] * 2) * 2
    np.testing.assert_allclose(x.grad.numpy(), rows + np.exp([[1.0, 2.0], [3.0, 4.0]]), rtol=1e-6)
    assert x.grad.dtype is w.grad.dtype is tp.float32


def _in_backward(event) -> bool:
    while event is not None and event.kind != "node":
        event = event.parent
    return event is not None


def test_hooks_see_autocast_off_and_second_gradients_are_right() -> None:
    x = tp.tensor([1.0, 2.0], requires_grad=True)
    seen: list[bool] = []
    with tp.autocast("cpu"):
        y = (x * x * x).sum()
        x.register_hook(lambda grad: seen.append(tp.is_autocast_enabled("cpu")))
        (first,) = tp.autograd.grad(y, x, create_graph=True)
        assert tp.is_autocast_enabled("cpu")
        (second,) = tp.autograd.grad(first.sum(), x)
    assert seen[0] is False
    assert first.tolist() == [3.0, 12.0] and second.tolist() == [6.0, 12.0]


def test_checkpoints_compute_again_in_the_region_that_they_were_made_in() -> None:
    x = tp.tensor([[1.0, 2.0]], requires_grad=True)
    w = tp.tensor([[0.1], [0.7]], requires_grad=True)
    grads = []
    for wrapped in (False, True):
        x.grad = w.grad = None
        with tp.autocast("cpu"):
            network = lambda a, b: (a @ b).exp()  # noqa: E731
            y = tp.utils.checkpoint.checkpoint(network, x, w, use_reentrant=False) if wrapped else network(x, w)
        y.sum().backward()
        grads.append([x.grad.tolist(), w.grad.tolist()])
    assert grads[0] == grads[1]


# ------------------------------------------------------------------------------------------------- writes and the rest


def test_in_place_and_out_keep_the_dtype_of_what_is_written_to() -> None:
    out, x = tp.empty(2, 2), tp.ones(2, 2)
    with tp.autocast("cpu"):
        assert tp.matmul(A, A, out=out) is out and out.dtype is tp.float32
        assert x.mul_(A.bfloat16()).dtype is tp.float32
        half = tp.ones(2, 2, dtype=tp.bfloat16)
        half.add_(A)
        assert half.dtype is tp.bfloat16
        half.exp_()
        assert half.dtype is tp.bfloat16


def test_a_kernel_of_autocast_cannot_be_reached_while_it_is_off() -> None:
    from tensorplay_core.dispatch.key_set import KeySet
    from tensorplay_core.dispatch.keys import DispatchKey

    keys = KeySet(1 << DispatchKey.AutocastCPU | 1 << DispatchKey.AutogradCPU | 1 << DispatchKey.CPU, 0)
    for region in (tp.autocast("cpu", enabled=False), tp.autocast("cuda")):
        with region, pytest.raises(tp.AutocastError, match=r"matmul: .* autocast is off for cpu(.|\n)*fix: "):
            tp.ops.tp.matmul.default.redispatch(keys, A, A)
    with tp.autocast("cpu"):
        assert tp.ops.tp.matmul.default.redispatch(keys, A, A).dtype is tp.bfloat16
