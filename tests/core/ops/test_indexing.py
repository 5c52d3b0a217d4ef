"""``x[key]`` and ``x[key] = value`` against NumPy, in thousands of random cases, and their gradients."""

from __future__ import annotations

import random

import numpy as np
import pytest

import tensorplay as tp

CASES = 4000


def random_key(rng: random.Random, shape: tuple[int, ...]) -> list:
    """Returns a key for NumPy: ints, slices, None, Ellipsis, bools, index arrays, lists and masks."""
    key: list = []
    dims = list(shape)
    gathered: list[tuple[int, ...]] = []  # the shapes of the index arrays so far, which must broadcast
    use_arrays = rng.random() < 0.6
    stop = rng.randint(0, len(dims))
    dim = 0
    while dim < stop:
        n = dims[dim]
        kind = rng.choice(
            ["int", "slice", "slice", "full", "none", *(["array", "list", "mask", "array0"] if use_arrays else [])]
        )
        if kind == "none":
            key.append(None)
            continue
        if kind == "mask":
            span = rng.randint(1, min(2, stop - dim))
            mask = np.array([rng.random() < 0.5 for _ in range(int(np.prod(dims[dim : dim + span])))])
            mask = mask.reshape(dims[dim : dim + span]).astype(bool)
            if gathered and mask.sum() not in (1, *[s[-1] for s in gathered if s]):
                key.append(slice(None))
                dim += 1
                continue
            gathered.append((int(mask.sum()),))
            key.append(mask)
            dim += span
            continue
        if kind == "int" and n:
            key.append(rng.randint(-n, n - 1))
        elif kind in ("array", "list", "array0") and n:
            form = () if kind == "array0" else rng.choice([(3,), (1,), (2, 3), (2, 1)]) if kind == "array" else (3,)
            if not fits(gathered, form):
                form = ()
            array = np.array([rng.randint(-n, n - 1) for _ in range(int(np.prod(form)))]).reshape(form)
            gathered.append(form)
            key.append(
                array.tolist()
                if kind == "list" and form
                else array.astype(rng.choice(["int64", "int32", "uint8"]) if (array >= 0).all() else "int64")
            )
        elif kind == "slice":
            bound = [None, *range(-n - 2, n + 3)]
            key.append(slice(rng.choice(bound), rng.choice(bound), rng.choice([None, 1, 2, 3])))
        else:
            key.append(slice(None))
        dim += 1
    if stop < len(dims) and rng.random() < 0.3:
        key.append(...)
        for n in dims[stop:][::-1][: rng.randint(0, len(dims) - stop)]:
            key.append(rng.randint(-n, n - 1) if n and rng.random() < 0.5 else slice(None))
    if rng.random() < 0.05:
        key.insert(rng.randint(0, len(key)), None)
    return key


def fits(shapes, new) -> bool:
    try:
        np.broadcast_shapes(*shapes, new)
    except ValueError:
        return False
    return True


def in_two_steps(x: np.ndarray, key: list) -> np.ndarray:
    """Indexes as PyTorch does: ints, slices and None first, as views; then the index arrays, among whole slices.

    NumPy counts an int beside an index array as an array of one index, which moves dims when they are apart.
    """
    used = sum(
        0 if k is None or k is ... else k.ndim if isinstance(k, np.ndarray) and k.dtype == bool else 1 for k in key
    )
    whole = [slice(None)] * (x.ndim - used)
    if not any(k is ... for k in key):
        key = [*key, ...]
    where = next(i for i, k in enumerate(key) if k is ...)
    key = [*key[:where], *whole, *key[where + 1 :]]
    first: list = []
    second: list = []
    for k in key:
        array = np.asarray(k) if isinstance(k, (np.ndarray, list)) else None
        if array is not None:
            first += [slice(None)] * (array.ndim if array.dtype == bool else 1)
            second.append(array)
        else:
            first.append(k)
            if k is None or isinstance(k, slice):
                second.append(slice(None))
    return x[tuple(first)][tuple(second)]


def ours(key: list, rng: random.Random, device: str = "cpu") -> tuple:
    """The same key with tensors in the place of arrays."""
    return tuple(tp.tensor(k, device=device) if isinstance(k, np.ndarray) else k for k in key)


def arrays_apart_from_ints(key: list) -> bool:
    return any(isinstance(k, (np.ndarray, list)) for k in key) and any(isinstance(k, int) for k in key)


def random_case(rng: random.Random) -> tuple[np.ndarray, list]:
    shape = tuple(
        rng.choice([1, 2, 3, 4, 4, 0] if rng.random() < 0.1 else [1, 2, 3, 4]) for _ in range(rng.randint(0, 4))
    )
    x = np.arange(int(np.prod(shape)), dtype="float64").reshape(shape)
    if x.ndim > 1 and rng.random() < 0.3:
        x = x.T
    return x, random_key(rng, x.shape)


def describe(x, key) -> str:
    return f"shape {x.shape}, key {key}"


@pytest.mark.parametrize("part", range(4))
def test_reads_agree_with_numpy(part):
    rng = random.Random(part)
    numpy_too = 0
    for _ in range(CASES // 4):
        x, key = random_case(rng)
        try:
            expected = in_two_steps(x, key)
        except IndexError:
            with pytest.raises(IndexError):
                tp.tensor(x)[ours(key, rng)]
            continue
        if not arrays_apart_from_ints(key):
            assert expected.tolist() == x[tuple(key)].tolist(), describe(x, key)
            numpy_too += 1
        t = tp.from_numpy(x) if x.shape else tp.tensor(x)
        found = t[ours(key, rng)]
        assert found.shape == expected.shape, describe(x, key)
        assert found.tolist() == expected.tolist(), describe(x, key)
        views = not any(isinstance(k, (np.ndarray, list)) for k in key)
        if expected.size and x.shape:
            assert np.shares_memory(found.numpy(), x) is views, describe(x, key)
    assert numpy_too > CASES // 8


@pytest.mark.parametrize("device", ["cpu", "loopback"])
def test_gradients_of_reads(device):
    rng = random.Random(7)
    checked = 0
    for _ in range(500):
        x, key = random_case(rng)
        try:
            places = in_two_steps(np.arange(x.size).reshape(x.shape), key)
        except IndexError:
            continue
        expected = np.zeros(x.size)
        weights = np.arange(1.0, places.size + 1)
        np.add.at(expected, places.reshape(-1), weights)
        t = tp.tensor(x.copy(), device=device).requires_grad_()
        y = t[ours(key, rng, device)]
        (g,) = tp.autograd.grad(y, t, tp.tensor(weights.reshape(places.shape), dtype=tp.float64, device=device))
        assert g.tolist() == expected.reshape(x.shape).tolist(), describe(x, key)
        checked += 1
    assert checked > 400


def test_writes_through_views_agree_with_numpy():
    rng = random.Random(11)
    checked = 0
    while checked < 800:
        x, key = random_case(rng)
        if any(isinstance(k, (np.ndarray, list)) for k in key):
            continue
        x = x.copy()
        try:
            target = x[tuple(key)]
        except IndexError:
            with pytest.raises(IndexError):
                tp.tensor(x)[tuple(key)] = 1.0
            continue
        shape = tuple(n if rng.random() < 0.8 else 1 for n in target.shape)[rng.randint(0, target.ndim) :]
        value = np.arange(100.0, 100 + int(np.prod(shape))).reshape(shape)
        if rng.random() < 0.2:
            value = np.array(7.0)
        t = tp.tensor(x)
        expected = x.copy()
        expected[tuple(key)] = value
        t[tuple(key)] = tp.tensor(value) if rng.random() < 0.7 or not value.size else value.tolist()
        assert t.tolist() == expected.tolist(), describe(x, key)
        checked += 1


def test_one_key_without_a_tuple():
    x = tp.arange(6).reshape(2, 3)
    assert x[1].tolist() == [3, 4, 5]
    assert x[-1][-1].item() == 5
    assert x[1:].tolist() == [[3, 4, 5]]
    assert x[...].tolist() == x.tolist()
    assert x[None].shape == (1, 2, 3)
    assert x[[0, 1]].tolist() == x.tolist()
    assert x[()].tolist() == x.tolist()
    assert x[tp.tensor(1)].tolist() == [3, 4, 5]
    assert x[np.int64(1)].tolist() == [3, 4, 5]
    assert x[np.array([1, 0])].tolist() == [[3, 4, 5], [0, 1, 2]]
    assert x[x > 2].tolist() == [3, 4, 5]
    assert x[True].shape == (1, 2, 3)
    assert x[False].shape == (0, 2, 3)
    assert tp.tensor(5)[()].item() == 5
    assert tp.tensor(5)[None].tolist() == [5]
    assert tp.tensor(5)[...].item() == 5


def test_a_view_is_another_tensor_over_the_same_memory():
    x = tp.zeros(3)
    for key in (..., (), slice(None)):
        y = x[key]
        assert y is not x
        y.add_(1)
    assert x.tolist() == [3.0, 3.0, 3.0]


@pytest.mark.parametrize(
    ("key", "text"),
    [
        (3, "3"),
        (-4, "-4"),
        ((0, 4), "4"),
        ((0, 0, 0), "3 indices for a tensor of 2 dims"),
        ((..., ...), r"at most one \.\.\."),
        (slice(None, None, -1), "step is positive, not -1"),
        (slice(None, None, 0), "step is positive, not 0"),
        ([0, 5], "5"),
        ([[0], [-9]], "-9"),
        ([0.5], "integer dtype or bool, not float32"),
        ([True, False], r"\(2,\)|mask|shape"),
        (([0, 1], [0, 1, 2]), "shape|broadcast"),
    ],
)
def test_wrong_keys_are_index_errors_that_say_why(key, text):
    x = tp.zeros(3, 4)
    with pytest.raises(IndexError, match=text):
        x[key]
    with pytest.raises(tp.TensorPlayError):
        x[key]
    assert x.tolist() == tp.zeros(3, 4).tolist()


def test_keys_of_a_wrong_type():
    x = tp.zeros(3)
    for key in (1.0, "a", object(), {}):
        with pytest.raises(tp.ArgumentError, match="an index is an int, a slice"):
            x[key]
    with pytest.raises(tp.DimError, match=r"item\(\)"):
        tp.tensor(1.0)[0]


def test_writes():
    x = tp.zeros(2, 3)
    x[0] = 1
    x[1, 1:] = tp.tensor([5, 6])
    x[:, 0] = 9.0
    assert x.tolist() == [[9.0, 1.0, 1.0], [9.0, 5.0, 6.0]]
    x[...] = 2
    assert x.tolist() == [[2.0] * 3] * 2
    x[0] = tp.tensor([[[1.0, 2.0, 3.0]]])  # leading dims of size 1 are dropped, as in PyTorch
    assert x[0].tolist() == [1.0, 2.0, 3.0]
    x[1] += 1
    assert x[1].tolist() == [3.0, 3.0, 3.0]
    x[1] *= tp.tensor([1.0, 2.0, 3.0])
    assert x[1].tolist() == [3.0, 6.0, 9.0]
    y = tp.tensor(1.0)
    y[()] = 4
    y[...] += 1
    assert y.item() == 5.0
    i = tp.zeros(2, dtype=tp.int64)
    i[0] = 7
    assert i.tolist() == [7, 0]


def test_writes_that_do_not_fit_change_nothing():
    x = tp.zeros(2, 3)
    for key, value, error in (
        (0, tp.ones(2), tp.ShapeError),
        (slice(None), tp.ones(3, 3), tp.ShapeError),
        (5, 1.0, IndexError),
        (0, "a", TypeError),
        (0, None, TypeError),
        (0, [[1.0], [2.0, 3.0]], tp.ShapeError),
    ):
        with pytest.raises(error):
            x[key] = value
        with pytest.raises(tp.TensorPlayError):
            x[key] = value
    assert x.tolist() == [[0.0] * 3] * 2


def test_writing_through_an_index_tensor_is_refused_until_it_is_right():
    x = tp.zeros(3)
    for key in ([0, 1], tp.tensor([0]), x > 0, np.array([1])):
        with pytest.raises(tp.AutogradError, match="index tensor is not supported yet"):
            x[key] = 1.0
    assert x.tolist() == [0.0, 0.0, 0.0]


def test_indexing_keeps_the_dtype():
    for dtype in (tp.bool, tp.int8, tp.uint64, tp.float16, tp.bfloat16, tp.complex64):
        x = tp.ones(3, dtype=dtype)
        for key in (0, slice(1), None, [0, 2], tp.tensor([True, False, True])):
            assert x[key].dtype is dtype


def test_an_index_on_another_device_is_moved():
    x = tp.arange(3, device="loopback")
    assert x[tp.tensor([2, 0])].tolist() == [2, 0]
    assert x[[1]].device == x.device


def test_an_index_of_any_integer_dtype():
    x = tp.arange(5)
    for dtype in (tp.int8, tp.int16, tp.int32, tp.int64, tp.uint8, tp.uint16, tp.uint32):
        assert x[tp.tensor([3, 1], dtype=dtype)].tolist() == [3, 1]


@pytest.mark.parametrize("key", [slice(None), ..., ()], ids=str)
def test_writing_the_whole_of_a_tensor_records(key):
    x, v = tp.zeros(2), tp.ones(2, requires_grad=True)
    x[key] = v * 3
    assert x.requires_grad and tp.autograd.grad(x.sum(), v)[0].tolist() == [3.0, 3.0]
    y = v * 2
    y[key] = 7.0
    assert y.tolist() == [7.0, 7.0] and tp.autograd.grad(y.sum(), v)[0].tolist() == [0.0, 0.0]


def test_writing_a_part_is_refused_where_a_gradient_would_be_lost():
    v = tp.ones(2, requires_grad=True)
    for x, value in ((tp.zeros(2), v[0]), (v * 2, 1.0), (v, 1.0)):
        before = x.tolist()
        with pytest.raises(tp.AutogradError, match=r"(?s)setitem: .*no_grad"):
            x[0] = value
        assert x.tolist() == before
    with tp.no_grad():
        v[0] = 5.0
    assert v.tolist() == [5.0, 1.0]


@pytest.mark.parametrize("key", [slice(0, 2.5), slice("a", None), slice(None, None, 1.0)])
def test_a_bound_of_a_slice_is_an_int(key):
    with pytest.raises(tp.ArgumentError, match="index: a bound of a slice must be an int, not"):
        tp.ones(3)[key]
    assert tp.ones(3)[np.int64(1) :].shape == tp.ones(3)[tp.tensor(1) :].shape == (2,)
