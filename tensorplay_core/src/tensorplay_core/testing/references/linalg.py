"""References of matrix products: every element the exact sum of its products.

Half precisions multiply and accumulate in float32 and round once, so their errors are float32's and one rounding. Of
bool, a product is *and* and a sum *or*.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Sequence
from typing import Any

from tensorplay_core.testing.references import ieee
from tensorplay_core.testing.references.array import Array, Shape, broadcast_shape, places, strides_of
from tensorplay_core.testing.references.elementwise import as_array, budget, common_dtype
from tensorplay_core.testing.references.reference import Reference
from tensorplay_core.testing.references.rounding import FORMATS, Format, accumulator_of, format_of, round_to, ulp_of
from tensorplay_core.testing.references.sums import growth, magnitude, slack_of, total
from tensorplay_core.testing.references.views import transpose
from tensorplay_core.types.dtype import by_name


def _matrices(self: Array, batch: Shape, *, columns: bool) -> list[list[list[Any]]]:
    """Returns the rows, or the columns, of each matrix of an array broadcast over a batch."""
    rows, inner = self.shape[-2:]
    strides = strides_of(self.shape)
    new = len(batch) - (self.ndim - 2)
    steps = [0 if d < new or self.shape[d - new] == 1 else strides[d - new] for d in range(len(batch))]
    data, found = self.data, []
    for start in places(batch, steps):
        if columns:
            found.append([data[start + j : start + rows * inner : inner] for j in range(inner)])
        else:
            found.append([data[start + i * inner : start + (i + 1) * inner] for i in range(rows)])
    return found


def matmul(self: Array, other: Array) -> Array:
    """The matrix product; leading dims broadcast, a vector is a row on the left and a column on the right."""
    dtype = by_name(common_dtype([self, other]).name)
    a, b = as_array(self, dtype.name), as_array(other, dtype.name)
    left = a if a.ndim > 1 else Array((1, *a.shape), a.data, a.dtype)
    right = b if b.ndim > 1 else Array((*b.shape, 1), b.data, b.dtype)
    if left.shape[-1] != right.shape[-2]:
        raise ValueError(f"shapes {self.shape} and {other.shape} do not multiply")
    batch = broadcast_shape(left.shape[:-2], right.shape[:-2])
    pairs = zip(_matrices(left, batch, columns=False), _matrices(right, batch, columns=True), strict=True)
    shape = (*batch, *(left.shape[-2:-1] if a.ndim > 1 else ()), *(right.shape[-1:] if b.ndim > 1 else ()))
    times = ieee.cmul if dtype.is_complex else operator.mul
    products = (
        list(map(times, row, column)) for rows, columns in pairs for row, column in itertools.product(rows, columns)
    )
    if not dtype.is_inexact:
        return Array(shape, round_to([total(terms) for terms in products], dtype.name), dtype.name)
    form, zero = accumulator_of(dtype.name), 0j if dtype.is_complex else 0.0
    data, slack = [], []
    for terms in products:
        data.append(total(terms) if terms else zero)
        slack.append(slack_of_products(terms, form))
    return Array(shape, data, dtype.name, [2 * s for s in slack] if dtype.is_complex else slack)


def slack_of_products(products: Sequence[Any], form: Format) -> float:
    """How far a sum of products may be off; those of float64 numbers are rounded here too, so no sum is exact."""
    if form is FORMATS["float64"]:
        return growth(products) * form.eps / 2 * magnitude(products)
    return slack_of(products, form)


def linear(input: Array, weight: Array, bias: Array | None = None) -> Array:
    """``input @ weight.T + bias``; a 1-d weight is one output feature, whose dim disappears."""
    product = matmul(input, transpose(weight, 0, 1) if weight.ndim == 2 else weight)
    if bias is None:
        return product
    dtype = common_dtype([product, bias]).name
    added = as_array(bias, dtype)
    shape = broadcast_shape(product.shape, added.shape)
    data = [x + y for x, y in zip(product.broadcast(shape), added.broadcast(shape), strict=True)]
    form = format_of(product.dtype)
    if form is None or product.slack is None:
        return Array(shape, round_to(data, dtype), dtype)
    # The product is rounded to its dtype before the bias is added.
    rounding = [ulp_of(form, x) + s for x, s in zip(product.data, product.slack, strict=True)]
    return Array(shape, data, dtype, Array(product.shape, rounding, "float64").broadcast(shape))


REFERENCES: dict[str, Reference] = {
    "linear": Reference(linear, budget(1)),
    "matmul": Reference(matmul, budget(1)),
}
