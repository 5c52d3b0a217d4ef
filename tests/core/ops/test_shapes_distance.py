"""The shape rules of distances: batches that broadcast, and what each refusal says."""

from __future__ import annotations

import pytest

import tensorplay as tp
from tensorplay_core.ops import shapes_distance as rules
from tensorplay_core.ops.shape_checks import Shaped


def of(*shape, dtype=tp.float32):
    return Shaped(shape, dtype)


def test_batches_broadcast():
    assert rules.cdist("cdist", of(2, 1, 4, 3), of(5, 6, 3)) == (2, 5, 4, 6)
    distances = of(2, 5, 4, 6)
    assert rules.cdist_backward("b", distances, of(2, 1, 4, 3), of(5, 6, 3), 2.0, distances) == (2, 5, 4, 3)


@pytest.mark.parametrize(
    ("arguments", "error", "said"),
    [
        ((of(3), of(2, 3)), tp.ShapeError, r"x1 must have rows, \(..., n, m\), and has shape \(3,\)"),
        ((of(2, 3), of(2, 4)), tp.ShapeError, "rows of x1 have 3 elements, and those of x2 4"),
        ((of(2, 4, 3), of(3, 4, 3)), tp.ShapeError, "do not broadcast"),
        ((of(2, 3), of(2, 3, dtype=tp.int64)), tp.DTypeError, "takes floating tensors, and x2 is int64"),
        ((of(2, 3), of(2, 3), -1.0), tp.ArgumentError, "p must not be negative, and is -1.0"),
        ((of(2, 3), of(2, 3), float("nan")), tp.ArgumentError, "p must not be negative"),
        ((of(2, 3), of(2, 3), 2.0, 3), tp.ArgumentError, "compute_mode must be 0, 1 or 2, not 3"),
    ],
)
def test_what_is_refused(arguments, error, said):
    with pytest.raises(error, match=said):
        rules.cdist("cdist", *arguments)


def test_the_gradient_has_the_shape_of_the_distances():
    with pytest.raises(tp.ShapeError, match=r"must have the shape of the distances, \(2, 4\), not \(4, 2\)"):
        rules.cdist_backward("b", of(4, 2), of(2, 3), of(4, 3), 2.0, of(2, 4))
