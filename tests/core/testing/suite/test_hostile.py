"""Kernels that lie, each in a way of its own, over a backend that is right: the suite must catch every one of them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

Kernel = Callable[..., Any]
HOSTILE: dict[str, tuple[str, str, Callable[[], Kernel]]] = {}
"""Name to: the operator that is registered, the operator or device check that is run, and what makes the kernel."""


def hostile(registered: str, checked: str = "") -> Callable[[Callable[[], Kernel]], Callable[[], Kernel]]:
    def add(make: Callable[[], Kernel]) -> Callable[[], Kernel]:
        HOSTILE[make.__name__] = (registered, checked or registered, make)
        return make

    return add


def exp(x: Any) -> Any:
    return np.exp(x, dtype=x.dtype)


def total(self: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    wide = np.int64 if self.dtype.kind in "bui" else None
    return np.sum(self, axis=dim if dim != () else None, keepdims=keepdim, dtype=dtype or wide)


def softmax(self: Any, dim: int, *, dtype: Any = None) -> Any:
    x = self if dtype is None else self.astype(dtype)
    if 0 in x.shape:
        return x.copy()
    e = np.exp((x - x.max(axis=dim if x.ndim else None, keepdims=True)).astype("float64"))
    return (e / e.sum(axis=dim if x.ndim else None, keepdims=True)).astype(x.dtype)


@hostile("exp")
def cached_output() -> Kernel:
    buffers: dict[Any, Any] = {}

    def kernel(x):
        return np.exp(x, out=buffers.setdefault((x.shape, x.dtype), np.empty(x.shape, x.dtype)))

    return kernel


@hostile("exp")
def cached_by_shape() -> Kernel:
    known: dict[Any, Any] = {}
    return lambda x: known.setdefault((x.shape, x.dtype), exp(x)).copy()


@hostile("exp")
def mutated_input() -> Kernel:
    def kernel(x):
        result = exp(x)
        x[...] = 0
        return result

    return kernel


@hostile("exp")
def mutated_input_once_it_is_trusted() -> Kernel:
    calls = []

    def kernel(x):
        calls.append(1)
        result = exp(x)
        if len(calls) > 40 and x.size:
            x.reshape(-1)[-1:] = 0
        return result

    return kernel


@hostile("exp")
def nan_everywhere() -> Kernel:
    return lambda x: np.full_like(x, np.nan)


@hostile("neg")
def alias_returned() -> Kernel:
    def kernel(x):
        x *= -1
        result = x[...]
        return result

    return kernel


@hostile("clone")
def alias_returned_by_clone() -> Kernel:
    return lambda x: x[...]


@hostile("exp")
def late_result() -> Kernel:
    def kernel(x):
        right, result = exp(x), np.zeros_like(x)

        def fill() -> None:
            time.sleep(0.02)
            result[...] = right

        threading.Thread(target=fill, daemon=True).start()
        return result

    return kernel


@hostile("exp")
def lazy_result() -> Kernel:
    """Computes when the next call is made, from what the inputs are then."""
    waiting: list[tuple[Any, Any]] = []

    def kernel(x):
        for array, result in waiting:
            result[...] = exp(array)
        waiting[:] = [(x, exp(x))]
        return waiting[0][1]

    return kernel


@hostile("exp")
def wrong_for_what_is_not_contiguous() -> Kernel:
    def kernel(x):
        return (
            exp(x)
            if x.flags.c_contiguous
            else exp(np.lib.stride_tricks.as_strided(x, x.shape, np.empty(x.shape, x.dtype).strides))
        )

    return kernel


@hostile("mul")
def wrong_in_the_last_block() -> Kernel:
    def kernel(x, y):
        result = np.array(x * y)
        if result.size > 4096:
            result.reshape(-1)[result.size // 4096 * 4096 :] = 0
        return result

    return kernel


@hostile("exp")
def wrong_dtype_once_it_is_trusted() -> Kernel:
    calls = []

    def kernel(x):
        calls.append(1)
        return exp(x) if len(calls) < 3 else np.exp(x.astype("complex128" if x.dtype.kind == "c" else "float64"))

    return kernel


@hostile("exp")
def wrong_for_0d() -> Kernel:
    return lambda x: exp(x) if x.ndim else exp(x) + x.dtype.type(1)


@hostile("sum")
def wrong_for_empty() -> Kernel:
    def kernel(self, dim=None, keepdim=False, *, dtype=None):
        result = np.array(total(self, dim, keepdim, dtype=dtype))
        return result if self.size else np.ones_like(result)

    return kernel


@hostile("softmax")
def wrong_for_a_negative_dim() -> Kernel:
    def kernel(self, dim, *, dtype=None):
        return softmax(self, dim if dim >= 0 or not self.ndim else -1 - dim, dtype=dtype)

    return kernel


@hostile("exp")
def off_by_one_in_ten_thousand() -> Kernel:
    return lambda x: (exp(x) * x.dtype.type(1 + 1e-4)).astype(x.dtype)


@hostile("mul")
def computed_in_float16() -> Kernel:
    def kernel(x, y):
        return (x.astype("float16") * y.astype("float16")).astype("float32") if x.dtype == "float32" else x * y

    return kernel


@hostile("add")
def saturates() -> Kernel:
    def kernel(x, y):
        if x.dtype.kind not in "ui" or x.dtype.itemsize > 4:
            return np.add(x, y)
        return np.clip(x.astype("int64") + y, np.iinfo(x.dtype).min, np.iinfo(x.dtype).max).astype(x.dtype)

    return kernel


@hostile("add")
def ignores_alpha() -> Kernel:
    return lambda x, y, *, alpha=1: np.add(x, y)


@hostile("sum")
def ignores_keepdim() -> Kernel:
    calls = []

    def kernel(self, dim=None, keepdim=False, *, dtype=None):
        calls.append(1)
        return total(self, dim, keepdim and len(calls) < 9, dtype=dtype)

    return kernel


@hostile("add")
def broadcasts_wrongly() -> Kernel:
    def kernel(x, y):
        right = np.array(np.add(x, y))
        return right if x.shape == y.shape or right.ndim < 2 else np.ascontiguousarray(right[..., ::-1])

    return kernel


@hostile("add_", "add")
def in_place_writes_nothing() -> Kernel:
    return lambda self, other, *, alpha=1: self


@hostile("add_", "add")
def in_place_writes_a_copy() -> Kernel:
    return lambda self, other, *, alpha=1: (self + alpha * other).astype(self.dtype)


@hostile("copy_", "mul")
def out_is_ignored() -> Kernel:
    return lambda self, src, non_blocking=False: self


@hostile("exp")
def wrong_on_the_second_call() -> Kernel:
    calls = []

    def kernel(x):
        calls.append(1)
        return exp(x) if len(calls) % 5 != 2 else exp(x) * x.dtype.type(2)

    return kernel


@hostile("exp")
def wrong_in_a_second_thread() -> Kernel:
    first = threading.get_ident()
    return lambda x: exp(x) if threading.get_ident() == first else exp(x) * x.dtype.type(2)


@hostile("rand", "random")
def ignores_the_seed() -> Kernel:
    rng = np.random.default_rng()
    return lambda size, *, dtype, device=0: np.minimum(rng.random(size), 0.99).astype(dtype)


@hostile("randn", "random")
def normal_numbers_of_another_spread() -> Kernel:
    right = drawn_by("randn")
    return lambda size, *, generator=None, dtype, device=0: np.asarray(
        right(size, dtype=dtype, device=device) * 1.1, dtype
    )


@hostile("rand", "random")
def complex_numbers_of_one_part() -> Kernel:
    right = drawn_by("rand")

    def kernel(size, *, generator=None, dtype, device=0):
        result = right(size, dtype=dtype, device=device)
        return np.asarray(result.real * (1 + 1j), dtype) if result.dtype.kind == "c" else result

    return kernel


def drawn_by(name: str) -> Kernel:
    from tensorplay_composite.arrays import kernels
    from tensorplay_loopback.plugin import DEVICE

    return kernels(np, random=DEVICE.random)[name]


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_kernel_is_caught(name, failures_of):
    registered, checked, make = HOSTILE[name]
    found = [*failures_of(registered, make(), checked)]
    assert found, f"{name} passes"
    assert all(outcome.what and "Warning" not in outcome.what for outcome in found)


@pytest.mark.parametrize("checked", sorted({checked for _, checked, _ in HOSTILE.values()}))
def test_the_same_checks_pass_without_it(checked, failures_of):
    assert [*failures_of("", None, checked)] == []


def test_there_are_twenty_and_more():
    assert len(HOSTILE) >= 20
