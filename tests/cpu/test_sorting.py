"""``topk`` of rows so long that a few of them are looked for by columns, against NumPy's stable sort."""

from __future__ import annotations

import numpy as np
import pytest

import tensorplay as tp
from tensorplay_cpu.sorting import LONG

ROWS = {"one": (LONG + 5,), "some": (3, LONG + 77)}


def of(kind: str, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    rng = np.random.default_rng(4)
    x = rng.normal(0, 1000, shape).astype(dtype)
    if kind == "few values":
        x = rng.integers(0, 3, shape).astype(dtype)
    elif kind == "in order":
        x = np.sort(x, -1)
    elif kind == "mostly the least":
        x[rng.random(shape) < 0.9999] = -np.inf if dtype.startswith("float") else 1 - 2**31
    elif kind == "both zeros":
        x = np.where(rng.random(shape) < 0.5, 0.0, -0.0).astype(dtype)
    return x


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64"])
@pytest.mark.parametrize("kind", ["any", "few values", "in order", "mostly the least", "both zeros"])
@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("shape", ROWS.values(), ids=ROWS)
def test_the_few_of_a_long_row_are_the_first_of_a_stable_sort(
    shape: tuple[int, ...], largest: bool, kind: str, dtype: str
) -> None:
    x = of(kind, shape, dtype)
    for k in (1, 40):
        order = np.argsort(-x if largest else x, axis=-1, kind="stable")[..., :k]
        for _ in range(2):  # the second call takes the fast path
            values, indices = tp.topk(tp.from_numpy(x), k, largest=largest)
            assert indices.tolist() == order.tolist()
            assert values.tolist() == np.take_along_axis(x, order, -1).tolist()


@pytest.mark.parametrize("places", [[5, 70, LONG], [LONG + 4, LONG + 3, LONG + 1]])
@pytest.mark.parametrize("largest", [True, False])
def test_nan_counts_as_the_largest(largest: bool, places: list[int]) -> None:
    x = of("any", (LONG + 5,), "float32")
    x[places] = np.nan
    values = tp.topk(tp.from_numpy(x), 4, largest=largest)[0].numpy()
    expected = np.sort(x)[:-5:-1] if largest else np.sort(x)[:4]
    np.testing.assert_array_equal(values, expected)
    assert np.isnan(values).sum() == (3 if largest else 0)


def test_along_the_first_dim() -> None:
    x = of("any", (LONG, 2), "float32")
    values, indices = tp.topk(tp.from_numpy(x), 3, dim=0)
    order = np.argsort(-x, axis=0, kind="stable")[:3]
    assert indices.tolist() == order.tolist() and values.tolist() == np.take_along_axis(x, order, 0).tolist()
