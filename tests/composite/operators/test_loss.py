"""cross_entropy against its definition in NumPy, with its gradient and its refusals."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tensorplay_core.errors import DimError, DTypeError, ShapeError, ValueRangeError
from tensorplay_core.ops import _generated_functional as F
from tensorplay_core.ops.creation import tensor
from tensorplay_core.types import dtype as dt

RNG = np.random.default_rng(0)
SHAPES = [(4,), (3, 4), (2, 4, 5), (2, 4, 3, 2)]


def reference(x, target, weight=None, ignore_index=-100, reduction="mean", label_smoothing=0.0):
    """The definition, row by row."""
    dim = 0 if x.ndim == 1 else 1
    classes = x.shape[dim]
    rows = np.moveaxis(x, dim, -1).reshape(-1, classes).astype("float64")
    log_p = rows - rows.max(1, keepdims=True)
    log_p = log_p - np.log(np.exp(log_p).sum(1, keepdims=True))
    w = np.ones(classes) if weight is None else weight
    probabilities = target.dtype.kind == "f"
    targets = np.moveaxis(target, dim, -1).reshape(-1, classes) if probabilities else target.reshape(-1)
    losses, scale = [], 0.0
    for p, t in zip(log_p, targets, strict=True):
        if not probabilities and t == ignore_index:
            losses.append(0.0)
            continue
        goal = t if probabilities else np.eye(classes)[t]
        goal = goal * (1 - label_smoothing) + label_smoothing / classes
        losses.append(-(goal * p * w).sum())
        scale += 1 if probabilities else w[t]
    if reduction == "none":
        return np.array(losses).reshape(x.shape[:dim] + x.shape[dim + 1 :])
    return np.sum(losses) if reduction == "sum" else np.sum(losses) / scale


def labels(shape, ignore=None):
    places = shape[:0] if len(shape) == 1 else (shape[0], *shape[2:])
    target = RNG.integers(0, 4, places)
    if ignore is not None and target.size > 1:
        target.flat[0] = ignore
    return np.asarray(target)


def t(array, dtype=dt.float64):
    return tensor(np.asarray(array).tolist(), dtype=dtype)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("smoothing", [0.0, 0.1, 1.0])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("ignore", [None, -100, 1])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_class_indices(shape, ignore, weighted, smoothing, reduction):
    x, target = RNG.standard_normal(shape) * 3, labels(shape, ignore)
    weight = np.array([0.5, 1.0, 2.0, 0.25]) if weighted else None
    if ignore == 1 and not np.any(target != 1):
        target = np.zeros_like(target)
    options = {"reduction": reduction, "label_smoothing": smoothing, "ignore_index": -100 if ignore is None else ignore}
    result = F.cross_entropy(t(x), t(target, dt.int64), None if weight is None else t(weight), **options)
    np.testing.assert_allclose(result.tolist(), reference(x, target, weight, **options), rtol=1e-10)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_probabilities(shape, weighted, smoothing, reduction):
    x, target = RNG.standard_normal(shape), RNG.random(shape)
    weight = np.array([0.5, 1.0, 2.0, 0.25]) if weighted else None
    options = {"reduction": reduction, "label_smoothing": smoothing}
    result = F.cross_entropy(t(x), t(target), None if weight is None else t(weight), **options)
    np.testing.assert_allclose(result.tolist(), reference(x, target, weight, **options), rtol=1e-10)


@pytest.mark.parametrize("dtype", [dt.int8, dt.int32, dt.uint8, dt.int64], ids=str)
def test_every_integer_dtype_is_a_class_index(dtype):
    x = RNG.standard_normal((2, 200))
    target = np.array([127, 3])
    np.testing.assert_allclose(F.cross_entropy(t(x), t(target, dtype)).item(), reference(x, target), rtol=1e-10)


@pytest.mark.parametrize("options", [{}, {"label_smoothing": 0.1}, {"ignore_index": 2}, {"reduction": "sum"}], ids=str)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("probabilities", [False, True])
def test_gradient(options, weighted, probabilities):
    if probabilities and "ignore_index" in options:
        return
    shape = (3, 4, 2)
    x = RNG.standard_normal(shape)
    target = RNG.random(shape) if probabilities else np.array([[0, 2], [3, 1], [2, 0]])
    weight = np.array([0.5, 1.0, 2.0, 0.25]) if weighted else None
    logits = t(x).requires_grad_()
    F.cross_entropy(
        logits, t(target, dt.float64 if probabilities else dt.int64), None if weight is None else t(weight), **options
    ).backward()
    numeric = np.zeros(shape)
    for place in np.ndindex(shape):
        step = np.zeros(shape)
        step[place] = 1e-6
        numeric[place] = (
            reference(x + step, target, weight, **options) - reference(x - step, target, weight, **options)
        ) / 2e-6
    np.testing.assert_allclose(logits.grad.tolist(), numeric, atol=1e-7)


def test_extremes():
    x = tensor([[1e4, 0.0], [0.0, 1e4]], requires_grad=True)
    loss = F.cross_entropy(x, tensor([0, 0]), reduction="none")
    assert loss.tolist() == [0, 10000]
    loss.sum().backward()
    assert x.grad.tolist() == [[0, 0], [-1, 1]]


def test_ignored_rows_are_left_alone():
    x = tensor([[math.inf, 0.0], [1.0, 1.0]], requires_grad=True)
    loss = F.cross_entropy(x, tensor([-100, 0]))
    np.testing.assert_allclose(loss.item(), math.log(2), rtol=1e-6)
    assert math.isnan(F.cross_entropy(tensor([[1.0, 2.0]]), tensor([-100])).item())
    assert F.cross_entropy(tensor([[1.0, 2.0]]), tensor([-100]), reduction="sum").item() == 0


def test_no_rows():
    x, target = F.zeros((0, 3)), F.zeros((0,), dtype=dt.int64)
    assert math.isnan(F.cross_entropy(x, target).item())
    assert F.cross_entropy(x, target, reduction="sum").item() == 0
    assert F.cross_entropy(x, target, reduction="none").shape == (0,)


@pytest.mark.parametrize(("wrong", "label"), [([0, 3], 3), ([0, -1], -1), ([-100, 7], 7)])
def test_a_label_that_is_no_class(wrong, label):
    x = tensor([[1.0, 2.0, 3.0], [1.0, 2.0, 3.0]])
    with pytest.raises(DimError, match=rf"target has class {label}, and self has 3 classes, 0 to 2") as error:
        F.cross_entropy(x, tensor(wrong))
    assert isinstance(error.value, IndexError) and "fix:" in str(error.value)


def test_refusals():
    x, y = F.zeros((2, 3)), tensor([0, 1])
    cases = [
        (ValueRangeError, r"got .men.\. Did you mean .mean.", lambda: F.cross_entropy(x, y, reduction="men")),
        (ValueRangeError, "from 0 to 1, got 1.5", lambda: F.cross_entropy(x, y, label_smoothing=1.5)),
        (ShapeError, r"has shape \(2,\), and this one has \(3,\)", lambda: F.cross_entropy(x, tensor([0, 1, 2]))),
        (ShapeError, "one-hot", lambda: F.cross_entropy(x, F.zeros((2, 3), dtype=dt.int64))),
        (ShapeError, "probabilities must have the shape of self", lambda: F.cross_entropy(x, F.zeros((2,)))),
        (ShapeError, "weight must have one element a class", lambda: F.cross_entropy(x, y, F.ones((2,)))),
        (ShapeError, "0-d", lambda: F.cross_entropy(tensor(1.0), tensor(0))),
        (DTypeError, "bool", lambda: F.cross_entropy(x, tensor([True, False]))),
        (DTypeError, "int64", lambda: F.cross_entropy(tensor([[1, 2]]), tensor([0]))),
    ]  # fmt: skip
    for kind, message, call in cases:
        with pytest.raises(kind, match=message):
            call()


@pytest.mark.parametrize("options", [{}, {"ignore_index": 3}, {"label_smoothing": 0.1}, {"reduction": "none"}])
def test_half_precision_does_not_overflow_where_the_sum_of_the_losses_would(options):
    x, target = 64 * RNG.standard_normal((3000, 10)).astype("float16"), RNG.integers(0, 10, 3000)
    weight = RNG.random(10).astype("float16") + np.float16(0.5)
    logits = tensor(x, requires_grad=True)
    loss = F.cross_entropy(logits, tensor(target), tensor(weight), **options)
    expected = reference(x, target, weight.astype("float64"), **options)
    np.testing.assert_allclose(loss.tolist(), expected, rtol=1e-3, atol=1e-6)
    loss.sum().backward()
    assert loss.dtype is logits.grad.dtype is dt.float16
    assert np.isfinite(logits.grad.tolist()).all()
