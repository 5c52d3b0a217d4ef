"""The casts of weights: used again where that is right, and only there; and nothing of them is left afterwards."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Callable
from contextlib import nullcontext

import numpy as np
import pytest

import tensorplay as tp
from tensorplay_core.dispatch.context import STATE

X = tp.tensor([[1.0, 1.0]])


def weight() -> tp.Tensor:
    return tp.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)


def casts(program: Callable[[], object]) -> int:
    """How often a program casts a weight, which is the only thing that has 2 x 2 elements."""
    with tp.profiler.profile(record_shapes=True) as seen:
        program()
    return sum(e.op == "_to_copy" and e.key == "CPU" and e.shapes == ((2, 2),) for e in seen.events)


def held() -> int:
    return len(STATE.get().autocast.cache)


def test_a_weight_is_cast_once_while_the_outermost_region_is_open() -> None:
    w = weight()

    def program() -> None:
        with tp.autocast("cpu"):
            X @ w
            with tp.autocast("cpu", enabled=False), tp.autocast("cpu"):
                X @ w
            tp.nn.functional.linear(X, w)

    assert casts(program) == 1
    assert casts(lambda: [program(), program()]) == 2


@pytest.mark.parametrize("quiet", [tp.no_grad, tp.inference_mode])
@pytest.mark.parametrize("nested", [False, True])
def test_a_cast_without_gradient_is_never_used_where_one_is_wanted(quiet, nested: bool) -> None:
    w = weight()
    with tp.autocast("cpu", dtype=tp.bfloat16):
        with quiet(), tp.autocast("cpu") if nested else nullcontext():
            first = X @ w
            assert not first.requires_grad
        y = X @ w
        with quiet():
            again = X @ w
            assert again.is_inference() == first.is_inference() == (quiet is tp.inference_mode)
            assert not again.requires_grad
        z = X @ w
    assert y.dtype is tp.bfloat16
    (y.float().sum() + z.float().sum()).backward()
    assert w.grad.dtype is tp.float32 and w.grad.tolist() == [[2.0, 2.0]] * 2


def test_two_passes_through_one_cast() -> None:
    w = weight()
    with tp.autocast("cpu"):
        one, two = (X @ w).sum(), (X @ w).exp().sum()
        one.backward()
        assert w.grad.tolist() == [[1.0, 1.0]] * 2
    two.backward()
    assert np.isfinite(w.grad.numpy()).all() and (w.grad > 1).all()


def test_a_write_makes_a_cast_stale() -> None:
    w = weight()
    writes: list[Callable[[], object]] = [
        lambda: w.mul_(2.0),
        lambda: w.detach().add_(1.0),
        lambda: w[0].zero_(),
        lambda: setattr(w, "data", tp.full((2, 2), 7.0)),
    ]
    with tp.autocast("cpu"):
        before = (X @ w).tolist()
        for write in writes:
            with tp.no_grad():
                write()
            after = (X @ w).tolist()
            assert after == w.sum(0, keepdim=True).tolist() != before
            before = after


def test_training_inside_one_region_sees_every_step() -> None:
    w = weight()
    with tp.autocast("cpu"):
        seen = []
        for _ in range(3):
            y = (X @ w).float().sum()
            seen.append(y.item())
            y.backward()
            with tp.no_grad():
                w.sub_(w.grad)
            w.grad = None
    assert seen == [10.0, 6.0, 2.0]


def test_a_write_to_the_cast_itself_does_not_reach_the_next_call() -> None:
    w = weight()
    with tp.autocast("cpu"):
        y = tp.einsum("ij->ij", w)
        with tp.no_grad():
            y.detach().zero_()
        assert tp.einsum("ij->ij", w).tolist() == w.tolist()


def test_switching_requires_grad_makes_a_cast_stale() -> None:
    w = weight()
    with tp.autocast("cpu"):
        assert (X @ w).requires_grad
        w.requires_grad_(False)
        assert not (X @ w).requires_grad and held() == 1
        w.requires_grad_(True)
        (X @ w).sum().backward()
    assert w.grad.tolist() == [[1.0, 1.0]] * 2


def test_only_leaves_that_require_a_gradient_are_kept_and_each_dtype_apart() -> None:
    w = weight()
    with tp.autocast("cpu"):
        X @ tp.ones(2, 2)
        X @ (w * 2)
        X @ w.bfloat16()
        X.double() @ w.double()
        assert held() == 0
        assert (X @ w).dtype is tp.bfloat16 and held() == 1
        with tp.autocast("cpu", dtype=tp.float16):
            assert (X @ w).dtype is tp.float16 and held() == 2
        assert (X @ w).dtype is tp.bfloat16 and held() == 2


def test_clearing_and_switching_off() -> None:
    w = weight()

    def cleared() -> None:
        with tp.autocast("cpu"):
            X @ w
            tp.clear_autocast_cache()
            X @ w

    def off() -> None:
        with tp.autocast("cpu", cache_enabled=False):
            assert not tp.is_autocast_cache_enabled()
            X @ w
            X @ w
            with tp.autocast("cpu", cache_enabled=True):
                X @ w
                X @ w
            with tp.autocast("cpu"):
                X @ w

    def set_off() -> None:
        with tp.autocast("cpu"):
            X @ w
            tp.set_autocast_cache_enabled(False)
            X @ w
            tp.set_autocast_cache_enabled(True)
            X @ w

    def set_on_without_a_region() -> None:
        with tp.no_grad():
            tp.set_autocast_enabled("cpu", True)
            X @ w
            X @ w

    assert [casts(program) for program in (cleared, off, set_off, set_on_without_a_region)] == [2, 4, 2, 2]
    tp.clear_autocast_cache()
    assert tp.is_autocast_cache_enabled()


def test_nothing_is_kept_alive() -> None:
    """Reference counting alone frees casts, caches and weights, also where the region is left by an exception."""
    gc.disable()
    try:
        w = weight()
        for error in (None, KeyError):
            with nullcontext() if error is None else pytest.raises(KeyError), tp.autocast("cpu"):
                X @ w
                cache = weakref.ref(STATE.get().autocast.cache)
                (kept,) = STATE.get().autocast.cache._casts.values()
                cast = weakref.ref(kept.result)
                del kept
                if error is not None:
                    raise error
            assert cast() is None
            assert cache() is None if error is None else not len(cache() or ()), "a traceback may hold the empty one"
        with tp.autocast("cpu"):
            X @ w
            gone = weakref.ref(w)
            del w
            assert gone() is None and held() == 0, "a weight that is gone takes its cast with it"
    finally:
        gc.enable()


def test_a_task_that_outlives_the_region_keeps_nothing() -> None:
    w = weight()

    async def later(left: asyncio.Event) -> tuple[int, str]:
        await left.wait()
        y = X @ w
        return held(), y.dtype.name

    async def program() -> tuple[int, str]:
        left = asyncio.Event()
        with tp.autocast("cpu"):
            X @ w
            task = asyncio.create_task(later(left))
            await asyncio.sleep(0)
            assert held() == 1
        left.set()
        return await task

    assert asyncio.run(program()) == (0, "bfloat16")


def test_forward_mode_makes_casts_of_its_own() -> None:
    w = weight()
    with tp.autocast("cpu"):
        X @ w
        with tp.autograd.forward_ad.dual_level():
            dual = tp.autograd.forward_ad.make_dual(w, tp.ones(2, 2))
            tangent = tp.autograd.forward_ad.unpack_dual(X @ dual).tangent
        assert tangent is not None and tangent.tolist() == [[2.0, 2.0]]


def test_gradients_equal_those_without_the_cache() -> None:
    rng = np.random.default_rng(0)
    values, x = rng.normal(size=(4, 4)).astype(np.float32), tp.from_numpy(rng.normal(size=(3, 4)).astype(np.float32))
    grads = []
    for caching in (True, False):
        w = tp.from_numpy(values).requires_grad_()
        with tp.autocast("cpu", cache_enabled=caching):
            loss = tp.tanh(x @ w).float().sum()
        loss.backward()
        grads.append(w.grad.tolist())
    assert grads[0] == grads[1]


@pytest.mark.parametrize("transform", ["grad", "vmap", "vmap of grad", "jvp", "jacrev"])
def test_casts_made_inside_a_transform_stay_there(transform: str) -> None:
    """``inner`` is closed over: its cast inside belongs to the transform's level, which closes before the region."""
    w, inner, x = weight(), weight(), tp.tensor([[1.0, 2.0], [3.0, 4.0]])

    def f(w: tp.Tensor, x: tp.Tensor) -> tp.Tensor:
        return ((x @ w) @ inner).float().sum()

    with tp.autocast("cpu"):
        {
            "grad": lambda: tp.func.grad(f)(w.detach(), x),
            "vmap": lambda: tp.vmap(f, in_dims=(None, 0))(w, x),
            "vmap of grad": lambda: tp.vmap(tp.func.grad(f), in_dims=(None, 0))(w.detach(), x),
            "jvp": lambda: tp.func.jvp(lambda w: f(w, x), (w.detach(),), (tp.ones(2, 2),)),
            "jacrev": lambda: tp.func.jacrev(lambda w: f(w, x))(w.detach()),
        }[transform]()
        assert not any(kept.result._type.special for kept in STATE.get().autocast.cache._casts.values())
        y = f(w, x)
    y.backward()
    expected = (x.detach() @ w.detach()).sum(0)
    assert inner.grad.tolist() == [[value] * 2 for value in expected.tolist()]
