"""Matrix products of every rank and layout, within the error that n multiplications and additions can have."""

from __future__ import annotations

import numpy as np
import pytest

import tensorplay as tp

pytestmark = pytest.mark.usefixtures("adapter")
EPS = float(np.finfo("float32").eps)
SHAPES = [
    ((3,), (3,)),
    ((4, 3), (3,)),
    ((3,), (3, 5)),
    ((1, 1), (1, 1)),
    ((16, 16), (16, 16)),
    ((17, 33), (33, 15)),
    ((64, 200), (200, 40)),
    ((2, 5, 4), (4, 3)),
    ((5, 4), (2, 4, 3)),
    ((2, 1, 5, 4), (3, 4, 6)),
    ((3,), (2, 3, 4)),
    ((2, 4, 3), (3,)),
    ((0, 4), (4, 3)),
    ((2, 0), (0, 3)),
    ((0, 2, 3), (3, 4)),
]


def there(array):
    return tp.tensor(array, device="vulkan")


def assert_product(got, a, b):
    wide = np.abs(a.astype("float64")), np.abs(b.astype("float64"))
    bound = (a.shape[-1] + 1) * EPS * (wide[0] @ wide[1])
    assert got.shape == bound.shape
    assert (np.abs(got.cpu().numpy() - a.astype("float64") @ b.astype("float64")) <= bound).all()


@pytest.mark.parametrize(("left", "right"), SHAPES)
def test_shapes(left, right, rng):
    a, b = rng.normal(size=left).astype("float32"), rng.normal(size=right).astype("float32")
    assert_product(there(a) @ there(b), a, b)


def test_layouts(rng):
    a, b = rng.normal(size=(20, 30)).astype("float32"), rng.normal(size=(20, 30)).astype("float32")
    x, y = there(a), there(b)
    assert_product(x @ y.t(), a, b.T)
    assert_product(x.t() @ y, a.T, b)
    assert_product(x[1:, ::3] @ y[:10, 4:9], a[1:, ::3], b[:10, 4:9])
    assert_product(x[:, 0] @ y[:, 1], a[:, 0], b[:, 1])
    assert_product(x[:1].expand(5, 30) @ y.t(), a[:1].repeat(5, 0), b.T)
    three = rng.normal(size=(3, 2, 4, 5)).astype("float32")
    z = there(three)
    assert_product(z.transpose(0, 1) @ z.permute((1, 0, 3, 2)), three.swapaxes(0, 1), three.transpose(1, 0, 3, 2))


def test_integers_and_bools():
    a, b = np.arange(12).reshape(3, 4) - 5, np.arange(8).reshape(4, 2) * 3
    assert (there(a.tolist()) @ there(b.tolist())).tolist() == (a @ b).tolist()
    assert (there([[True, False]]) @ there([[True], [True]])).tolist() == [[True]]
