"""Ten thousand random reads and writes of ``x[key]`` against NumPy, on the cpu; and on other devices against the cpu.

Where NumPy and PyTorch differ it is as in PyTorch: an int, or an index tensor without dims, is no index array but a
view, so that it moves no dims; and steps of a slice are positive.
"""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tensorplay as tp
from tensorplay_core.tensor.version import version_of

CASES = 5000
"""Of reads, and as many of writes."""
CHECKED = settings(max_examples=CASES, deadline=None, suppress_health_check=list(HealthCheck), database=None)
RANDOMS = st.randoms(use_true_random=False)


FORMS: tuple[tuple[int, ...], ...] = ((), (3,), (1,), (2, 3), (2, 1), (0,))
DTYPES = ("int64", "int32", "int16", "int8", "uint8")


def random_shape(rng: random.Random) -> tuple[int, ...]:
    return tuple(rng.choice((1, 2, 3, 4, 4, 3, 2, 0)) for _ in range(rng.choice((0, 1, 2, 2, 3, 3, 4))))


def random_key(rng: random.Random, shape: tuple[int, ...]) -> list[Any]:
    """Returns a key: ints, slices, None, ..., bools, index arrays, lists and masks; seldom one that is wrong."""
    kinds = ["int", "slice", "slice", "whole", "none"]
    if rng.random() < 0.65:
        kinds += ["array", "array", "list", "mask", "bool"]
    key: list[Any] = []
    forms: list[tuple[int, ...]] = []
    dim, stop = 0, rng.randint(0, len(shape))
    while dim < stop:
        size, kind = shape[dim], rng.choice(kinds)
        if kind == "none":
            key.append(None)
        elif kind == "bool":
            if not any(isinstance(k, bool) for k in key):
                key.append(rng.random() < 0.8)
        elif kind == "mask":
            span = min(rng.choice((1, 1, 2)), stop - dim)
            key.append(_mask(rng, shape[dim : dim + span], forms))
            dim += span
        else:
            key.append(_of_one_dim(rng, kind, size, forms))
            dim += 1
    if stop < len(shape) and rng.random() < 0.3:
        key.append(...)
        for size in shape[len(shape) - rng.randint(0, len(shape) - stop) :]:
            key.append(_of_one_dim(rng, rng.choice(("int", "slice", "whole")), size, forms))
    if rng.random() < 0.1:
        key.insert(rng.randint(0, len(key)), None)
    if rng.random() < 0.02:
        key.append(0)  # one too many, perhaps
    return key


def _of_one_dim(rng: random.Random, kind: str, size: int, forms: list[tuple[int, ...]]) -> Any:
    beyond = rng.random() < 0.03
    low, high = (-size - 2, size + 1) if beyond or not size else (-size, size - 1)
    if kind == "int":
        return rng.randint(low, high)
    if kind == "slice":
        bounds = (None, *range(-size - 2, size + 3))
        return slice(rng.choice(bounds), rng.choice(bounds), rng.choice((None, 1, 2, 3)))
    if kind not in ("array", "list"):
        return slice(None)
    form = rng.choice(FORMS)
    if rng.random() < 0.95 and not _broadcast([*forms, form]):
        form = ()
    forms.append(form)
    array = np.array([rng.randint(low, high) for _ in range(math.prod(form))], dtype="int64").reshape(form)
    if kind == "list" and form:
        return array.tolist()
    return array if (array < 0).any() else array.astype(rng.choice(DTYPES))


def _mask(rng: random.Random, sizes: tuple[int, ...], forms: list[tuple[int, ...]]) -> Any:
    mask = np.array([rng.random() < 0.5 for _ in range(math.prod(sizes))], dtype=bool).reshape(sizes)
    if not _broadcast([*forms, (int(mask.sum()),)]) and rng.random() < 0.9:
        mask = np.zeros(sizes, dtype=bool)
        if mask.size:
            mask.flat[rng.randrange(mask.size)] = True
    forms.append((int(mask.sum()),))
    return mask.tolist() if mask.ndim == 1 and mask.size and rng.random() < 0.3 else mask


def _broadcast(forms: list[tuple[int, ...]]) -> bool:
    try:
        np.broadcast_shapes(*forms)
    except ValueError:
        return False
    return True


def steps(key: list[Any], ndim: int) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Divides a key as PyTorch does: ints, slices and None first, as views; then index arrays, among whole dims.

    NumPy counts an int beside an index array as an index array, which moves dims where the two are apart.

    Raises:
        IndexError: there are too many indices.
    """
    arrays = [np.asarray(k) if isinstance(k, (np.ndarray, list, bool)) else None for k in key]
    arrays = [a.astype("int64") if a is not None and a.size == 0 and a.dtype == float else a for a in arrays]
    used = 0
    for k, array in zip(key, arrays, strict=True):
        used += 0 if k is None or k is ... else 1 if array is None or array.dtype != bool else array.ndim
    if used > ndim:
        raise IndexError(f"{used} indices for {ndim} dims")
    first: list[Any] = []
    second: list[Any] = []
    for k, array in zip(
        [*key, *([...] if ... not in [x for x in key if x is ...] else [])], [*arrays, None], strict=False
    ):
        if k is ...:
            first += [slice(None)] * (ndim - used)
            second += [slice(None)] * (ndim - used)
        elif array is not None and (array.ndim or array.dtype == bool):
            first += [slice(None)] * (array.ndim if array.dtype == bool else 1)
            second.append(array)
        else:
            first.append(int(array) if array is not None else k)
            second += [slice(None)] if k is None or isinstance(k, slice) else []
    return (*first, ...), (*second, ...)


def is_view(key: list[Any]) -> bool:
    """Whether no index array, list, mask or bool takes part; an array without dims is an int."""
    return not any(
        isinstance(k, (list, bool)) or (isinstance(k, np.ndarray) and (k.ndim or k.dtype == bool)) for k in key
    )


def array_of(rng: random.Random, dtype: str = "float64") -> np.ndarray:
    shape = random_shape(rng)
    x = np.arange(math.prod(shape), dtype=dtype).reshape(shape)
    if x.ndim > 1 and rng.random() < 0.3:
        x = x.T
    return x[::2] if x.ndim and rng.random() < 0.1 else x


def ours(key: list[Any], device: str = "cpu") -> tuple[Any, ...]:
    return tuple(tp.tensor(k, device=device) if isinstance(k, np.ndarray) else k for k in key)


def tensor_over(x: np.ndarray) -> tp.Tensor:
    return tp.from_numpy(x) if x.shape else tp.tensor(x)


@CHECKED
@given(RANDOMS)
def test_reads_agree_with_numpy(rng):
    x = array_of(rng)
    key = random_key(rng, x.shape)
    t = tensor_over(x)
    try:
        first, second = steps(key, x.ndim)
        expected = x[first][second]
    except IndexError:
        with pytest.raises(IndexError) as error:
            t[ours(key)]
        assert isinstance(error.value, tp.TensorPlayError)
        return
    found = t[ours(key)]
    assert found.shape == expected.shape
    assert found.tolist() == expected.tolist()
    if expected.size and x.shape:
        assert np.shares_memory(found.numpy(), x) is is_view(key)


def value_for(rng: random.Random, target: np.ndarray) -> Any:
    """A number, or an array that fits the target: broadcast, with dims of 1 in front; seldom one that does not fit."""
    if rng.random() < 0.25:
        return rng.choice((7, -2.5, True))
    sizes = [n if rng.random() < 0.8 else 1 for n in target.shape][rng.randint(0, target.ndim) * (rng.random() < 0.4) :]
    shape = (*(1,) * rng.choice((0, 0, 0, 1, 2)), *sizes)
    if rng.random() < 0.05:
        shape = (*shape[:-1], 5)
    return np.arange(100.0, 100 + math.prod(shape)).reshape(shape)


def without_leading(value: Any) -> Any:
    while isinstance(value, np.ndarray) and value.ndim and value.shape[0] == 1:
        value = value[0]
    return value


@CHECKED
@given(RANDOMS)
def test_writes_agree_with_numpy(rng):
    x = array_of(rng, rng.choice(("float64", "float32", "int64"))).copy()
    key = random_key(rng, x.shape)
    t, expected, value = tensor_over(x.copy()), x.copy(), 1.0
    try:
        first, second = steps(key, x.ndim)
        target = expected[first][second]
        value = value_for(rng, target)
        expected[first][second] = without_leading(value)
    except (IndexError, ValueError):
        with pytest.raises((IndexError, RuntimeError)) as error:
            t[ours(key)] = tp.tensor(value, dtype=t.dtype) if isinstance(value, np.ndarray) else value
        assert isinstance(error.value, tp.TensorPlayError)
        assert t.tolist() == x.tolist()
        return
    how = rng.choice(("tensor", "array", "list")) if isinstance(value, np.ndarray) else "number"
    given_as = {
        "tensor": lambda: tp.tensor(value, dtype=None if is_view(key) else t.dtype),
        "list": lambda: value.tolist() if value.size else value,
    }.get(how, lambda: value)()
    version = version_of(t)[0]
    t[ours(key)] = given_as
    assert t.tolist() == expected.tolist()
    assert version_of(t)[0] == version + 1  # one write, whatever the way


@settings(CHECKED, max_examples=500)
@given(RANDOMS)
def test_reading_and_writing_in_one_statement(rng):
    x = array_of(rng).copy()
    key = random_key(rng, x.shape)
    t = tensor_over(x.copy())
    try:
        first, second = steps(key, x.ndim)
        x[first][second] += 1.0
    except IndexError:
        return
    t[ours(key)] += 1.0
    assert t.tolist() == x.tolist()


@pytest.mark.parametrize("device", ["loopback"])
@settings(CHECKED, max_examples=300)
@given(rng=RANDOMS)
def test_other_devices_do_what_the_cpu_does(device, rng):
    x = array_of(rng, "float32").copy()
    key = random_key(rng, x.shape)
    on_cpu, there = tp.tensor(x), tp.tensor(x, device=device)
    try:
        expected = on_cpu[ours(key)]
    except IndexError:
        with pytest.raises(IndexError):
            there[ours(key, device)]
        with pytest.raises(IndexError):
            there[ours(key)] = 1.0
        return
    assert there[ours(key)].tolist() == there[ours(key, device)].tolist() == expected.tolist()
    value = expected + 1
    on_cpu[ours(key)] = value
    there[ours(key, device)] = value.to(device=device)
    assert there.tolist() == on_cpu.tolist()


@settings(CHECKED, max_examples=300)
@given(RANDOMS)
def test_gradients_of_reads_add_up_where_elements_came_from(rng):
    x = array_of(rng).copy()
    key = random_key(rng, x.shape)
    try:
        first, second = steps(key, x.ndim)
        places = np.arange(x.size).reshape(x.shape)[first][second]
    except IndexError:
        return
    expected, weights = np.zeros(x.size), np.arange(1.0, places.size + 1)
    np.add.at(expected, places.reshape(-1), weights)
    t = tp.tensor(x).requires_grad_()
    (grad,) = tp.autograd.grad(t[ours(key)], t, tp.tensor(weights.reshape(places.shape), dtype=tp.float64))
    assert grad.tolist() == expected.reshape(x.shape).tolist()
