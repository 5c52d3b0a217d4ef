"""The references of softmax and the cross entropy against mpmath, and their budgets against NumPy's float32."""

from __future__ import annotations

import itertools
import math

import mpmath
import numpy as np
import pytest

from tensorplay_core.testing.references import Array, reference

M = mpmath.MPContext()
M.dps = 50
FLOATS = ("float16", "bfloat16", "float32", "float64")
NAN, INF = math.nan, math.inf


def softmax(x, dim, *, dtype=None):
    if not x.size:
        return x
    shifted = np.exp(x - np.max(x, axis=dim if x.ndim else None, keepdims=True))
    return shifted / np.sum(shifted, axis=dim if x.ndim else None, keepdims=True)


def log_softmax(x, dim, *, dtype=None):
    if not x.size:
        return x
    axis = dim if x.ndim else None
    shifted = x - np.max(x, axis=axis, keepdims=True)
    return shifted - np.log(np.sum(np.exp(shifted), axis=axis, keepdims=True))


def test_along_every_dim(against):
    against("softmax", softmax, "same", FLOATS, rtol=1e-14)
    against("log_softmax", log_softmax, "same", FLOATS, rtol=1e-14, atol=1e-15)


def test_the_digits_of_both_ends():
    rows = [[0.0, -50.0, -700.0], [1e-9, 0.0, -40.0], [3.0], [1000.0, 999.0, -1000.0]]
    for row in rows:
        x = Array((len(row),), row, "float64")
        size = sum(M.exp(M.mpf(v)) for v in row)
        for v, p, log_p in zip(
            row, reference("softmax")(x, 0)[0].data, reference("log_softmax")(x, -1)[0].data, strict=True
        ):
            assert p == pytest.approx(float(M.exp(v) / size), rel=1e-14, abs=0)
            assert log_p == pytest.approx(float(M.log(M.exp(v) / size)), rel=4e-15, abs=0)


def test_what_is_not_finite():
    def both(*row):
        x = Array((len(row),), list(row), "float32")
        return [[str(v) for v in reference(name)(x, 0)[0].data] for name in ("softmax", "log_softmax")]

    assert both(-INF, 0.0) == [["0.0", "1.0"], ["-inf", "0.0"]]
    for row in ((NAN, 1.0), (INF, 1.0), (-INF, -INF)):
        assert both(*row) == [["nan", "nan"]] * 2, row
    assert reference("softmax")(Array((), [3.0], "float16"), 0)[0].data == [1.0]
    assert reference("softmax")(Array((2, 0), [], "float32"), 1)[0].shape == (2, 0)
    with pytest.raises(TypeError):
        reference("softmax")(Array((1,), [1], "int64"), 0)
    assert reference("softmax")(Array((1,), [1], "int64"), 0, dtype="float64")[0].data == [1.0]


# ------------------------------------------------------------------------------------------------------ cross entropy


def textbook(logits, target, weight=None, ignore_index=-100, reduction="mean", label_smoothing=0.0):
    """As the documentation of torch.nn.CrossEntropyLoss defines it, one element after another."""
    x = np.moveaxis(np.atleast_2d(logits), 1, -1)
    classes = x.shape[-1]
    w = np.ones(classes) if weight is None else weight
    dense = target.dtype.kind == "f"
    y = np.moveaxis(np.atleast_2d(target), 1, -1).reshape(-1, classes) if dense else target.reshape(-1)
    losses, scale = [], 0.0
    for row, label in zip(x.reshape(-1, classes), y, strict=True):
        log_p = [float(v - M.log(sum(M.exp(M.mpf(u)) for u in row))) for v in map(M.mpf, row)]
        hot = label if dense else [float(c == label) for c in range(classes)]
        hot = [p * (1 - label_smoothing) + label_smoothing / classes for p in hot]
        kept = dense or label != ignore_index
        losses.append(-sum(a * b * c for a, b, c in zip(log_p, hot, w, strict=True)) if kept else 0.0)
        scale += 1.0 if dense else w[label] if kept else 0.0
    if reduction == "none":
        return np.array(losses).reshape((*logits.shape[:1], *logits.shape[2:]) if logits.ndim > 1 else ())
    return np.array(sum(losses) if reduction == "sum" else sum(losses) / scale if scale else NAN)


def test_cross_entropy(against):
    against("cross_entropy", textbook, "same", FLOATS, rtol=1e-13)


@pytest.mark.parametrize("shape", [(4,), (5, 4), (2, 4, 3), (2, 4, 2, 2)])
def test_every_option_of_the_cross_entropy_together(shape):
    rng = np.random.default_rng(len(shape))
    logits, weight = rng.standard_normal(shape), rng.uniform(0.5, 2, 4)
    places = (*shape[:1], *shape[2:]) if len(shape) > 1 else ()
    labels, chances = rng.integers(0, 4, places), rng.uniform(size=shape)
    for target, w, ignored, how, smoothing in itertools.product(
        (np.asarray(labels), chances), (None, weight), (-100, 2), ("none", "sum", "mean"), (0.0, 0.3)
    ):
        expected = textbook(logits, target, w, ignored, how, smoothing)
        given = [None if a is None else Array.read(a) for a in (logits, target, w)]
        result = reference("cross_entropy")(*given, None, ignored, None, how, smoothing)[0]
        assert result.shape == expected.shape
        assert result.data == pytest.approx(np.ravel(expected).tolist(), rel=1e-12, nan_ok=True), (
            w,
            ignored,
            how,
            smoothing,
        )


def test_the_mean_of_no_losses_is_nan_and_a_class_out_of_range_an_error():
    x = Array((2, 3), [0.0] * 6, "float32")
    ignored = Array((2,), [-100, -100], "int64")
    assert math.isnan(reference("cross_entropy")(x, ignored)[0].data[0])
    assert reference("cross_entropy")(x, ignored, reduction="sum")[0].data == [0.0]
    for label in (3, -1):
        with pytest.raises(IndexError):
            reference("cross_entropy")(x, Array((2,), [0, label], "int64"))
    wide = reference("cross_entropy")(x, Array((2,), [0, 1], "int64"), Array((3,), [1.0] * 3, "float64"))
    assert wide[0].dtype == "float64"


@pytest.mark.parametrize("shape", [(60, 9), (3, 4000)])
@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_numpys_float32_is_right_and_fewer_digits_are_not(draw, name, shape):
    x = draw(shape, "float32", 5, -6, 4)
    function = {"softmax": softmax, "log_softmax": log_softmax}[name]
    for dim in (0, 1):
        expected = reference(name)(x, dim)[0]
        array = np.array(x.data, "float32").reshape(shape)
        found = function(array, dim)
        assert not list(reference(name).mismatches(Array.read(found), expected))
        rough = found.astype("float16").astype("float32")
        assert len(list(reference(name).mismatches(Array.read(rough), expected))) > x.shape[0]
        rounded = function(array.astype("float16").astype("float32"), dim)
        assert len(list(reference(name).mismatches(Array.read(rounded), expected))) > x.shape[0]


def test_numpys_float32_cross_entropy_is_right_and_wrong_ones_are_not(draw):
    x, labels = draw((300, 7), "float32", 6, -6, 4), np.arange(300) % 7
    array = np.array(x.data, "float32").reshape(x.shape)
    picked = -log_softmax(array, 1)[np.arange(300), labels]
    target, judge = Array.read(labels), reference("cross_entropy").mismatches
    for how, found in (("none", picked), ("sum", np.sum(picked)), ("mean", np.mean(picked))):
        expected = reference("cross_entropy")(x, target, reduction=how)[0]
        assert not list(judge(Array.read(np.asarray(found)), expected)), how
        assert list(judge(Array.read(np.asarray(np.float32(found * 1.0005))), expected)), how
        assert list(judge(Array.read(np.asarray(found.astype("float16").astype("float32"))), expected)), how
