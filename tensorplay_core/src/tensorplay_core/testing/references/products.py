"""References of products of given dims, of triangles, of equations in Einstein's notation, and of distances.

An equation is done literally: for each element of the result one loop over everything that is summed. Errors are those
of one rounding for each product and each addition; half precisions round between two contractions too.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

from tensorplay_core.testing.references import ieee
from tensorplay_core.testing.references.array import Array, Shape, broadcast_shape, strides_of
from tensorplay_core.testing.references.elementwise import as_array, budget, common_dtype
from tensorplay_core.testing.references.linalg import matmul
from tensorplay_core.testing.references.reference import Reference
from tensorplay_core.testing.references.rounding import accumulator_of, format_of, round_to
from tensorplay_core.testing.references.sums import growth, magnitude, slack_of, total
from tensorplay_core.testing.references.views import dim_of
from tensorplay_core.types.dtype import by_name


def _times(dtype: str) -> Callable[[Any, Any], Any]:
    return ieee.cmul if by_name(dtype).is_complex else lambda a, b: a * b


def _conj(self: Array) -> Array:
    complex = by_name(self.dtype).is_complex
    return Array(self.shape, [z.conjugate() for z in self.data], self.dtype) if complex else self


def vdot(self: Array, other: Array) -> Array:
    """The sum of products with the first conjugated."""
    return matmul(_conj(self), other)


def outer(self: Array, vec2: Array) -> Array:
    """Each element of the one times each of the other."""
    (n,), (m,) = self.shape, vec2.shape
    return matmul(Array((n, 1), self.data, self.dtype), Array((1, m), vec2.data, vec2.dtype))


def added(self: Array, a: Array, b: Array, *, beta: Any = 1, alpha: Any = 1) -> Array:
    """``beta * self + alpha * (a @ b)``; nothing of ``self`` where beta is 0."""
    dtype = common_dtype([self, a, b]).name
    product = matmul(as_array(a, dtype), as_array(b, dtype))
    first = as_array(self, dtype).broadcast(product.shape)
    times = _times(dtype)
    scaled = product.data if alpha == 1 else [times(type(p)(alpha), p) for p in product.data]
    own = [None] * len(scaled) if beta == 0 else [x if beta == 1 else times(type(x)(beta), x) for x in first]
    data = [p if x is None else p + x for p, x in zip(scaled, own, strict=True)]
    if not by_name(dtype).is_inexact:
        return Array(product.shape, round_to(data, dtype), dtype)
    unit = accumulator_of(dtype).eps
    slack = [
        abs(alpha) * s + 2 * unit * (_size(p) + (0.0 if x is None else _size(x)))
        for s, p, x in zip(product.slack or [0.0] * len(data), scaled, own, strict=True)
    ]
    return Array(product.shape, data, dtype, slack)


def _size(value: Any) -> float:
    size = abs(value) if math.isfinite(value.real) and math.isfinite(value.imag) else 0.0
    return float(size)


# ----------------------------------------------------------------------------------------------- triangles, diagonals


def _triangle(keeps: Callable[[int, int], bool]) -> Callable[..., Array]:
    def triangle(self: Array, diagonal: int = 0) -> Array:
        rows, columns = self.shape[-2:]
        zero = round_to([0], self.dtype)[0]
        places = itertools.product(range(len(self.data) // max(rows * columns, 1)), range(rows), range(columns))
        kept = [keeps(j - i, diagonal) for _, i, j in places]
        return Array(self.shape, [x if k else zero for x, k in zip(self.data, kept, strict=True)], self.dtype)

    return triangle


def trace(self: Array) -> Array:
    """The sum of the diagonal; of integers in int64."""
    terms = [self.data[i * self.shape[1] + i] for i in range(min(self.shape))]
    if not by_name(self.dtype).is_inexact:
        return Array((), round_to([sum(map(int, terms))], "int64"), "int64")
    zero = 0j if by_name(self.dtype).is_complex else 0.0
    return Array((), [total(terms) if terms else zero], self.dtype, [2 * slack_of(terms, accumulator_of(self.dtype))])


def diag_embed(self: Array, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Array:
    """Zeros with the last dim on a diagonal of two new ones."""
    ndim, n = self.ndim + 1, self.shape[-1] + abs(offset)
    first, second = dim1 % ndim, dim2 % ndim
    sizes = list(self.shape[:-1])
    for dim in sorted((first, second)):
        sizes.insert(dim, n)
    strides, data = strides_of(sizes), round_to([0] * math.prod(sizes), self.dtype)
    others = [d for d in range(ndim) if d not in (first, second)]
    for place, index in enumerate(itertools.product(*map(range, self.shape))):
        at = index[-1] + max(-offset, 0), index[-1] + max(offset, 0)
        where = at[0] * strides[first] + at[1] * strides[second]
        data[where + sum(i * strides[d] for i, d in zip(index[:-1], others, strict=True))] = self.data[place]
    return Array(tuple(sizes), data, self.dtype)


def diag(self: Array, diagonal: int = 0) -> Array:
    """A diagonal matrix of a vector; the diagonal of a matrix."""
    if self.ndim == 1:
        return diag_embed(self, diagonal)
    rows, columns = self.shape
    found = [self.data[i * columns + i + diagonal] for i in range(rows) if 0 <= i + diagonal < columns]
    return Array((len(found),), found, self.dtype)


# ------------------------------------------------------------------------------------------------------------- products


def kron(self: Array, other: Array) -> Array:
    """Each element of the one times the whole of the other."""
    dtype = common_dtype([self, other]).name
    a, b = as_array(self, dtype), as_array(other, dtype)
    ndim = max(a.ndim, b.ndim)
    left, right = ((1,) * (ndim - x.ndim) + x.shape for x in (a, b))
    shape = tuple(n * m for n, m in zip(left, right, strict=True))
    times, data = _times(dtype), []
    s, t = strides_of(left), strides_of(right)
    for index in itertools.product(*map(range, shape)):
        i = sum(k // m * step for k, m, step in zip(index, right, s, strict=True))
        j = sum(k % m * step for k, m, step in zip(index, right, t, strict=True))
        data.append(times(a.data[i], b.data[j]))
    return Array(shape, data if by_name(dtype).is_inexact else round_to(data, dtype), dtype)


def cross(self: Array, other: Array, dim: int | None = None) -> Array:
    """The cross product along a dim, the first of size 3 where none is given."""
    dtype = common_dtype([self, other]).name
    a, b = as_array(self, dtype), as_array(other, dtype)
    shape = broadcast_shape(a.shape, b.shape)
    d = shape.index(3) if dim is None else dim % len(shape)
    x, y, step = a.broadcast(shape), b.broadcast(shape), strides_of(shape)[d]
    times, data, slack = _times(dtype), [], []
    for place, index in enumerate(itertools.product(*map(range, shape))):
        start = place - index[d] * step
        i, j = (start + (index[d] + k) % 3 * step for k in (1, 2))
        first, second = times(x[i], y[j]), times(x[j], y[i])
        data.append(first - second)
        slack.append(_size(first) + _size(second))
    if not by_name(dtype).is_inexact:
        return Array(shape, round_to(data, dtype), dtype)
    unit = accumulator_of(dtype).eps
    return Array(shape, data, dtype, [2 * unit * s for s in slack])


def einsum(equation: str, tensors: Sequence[Array], *, path: Any = None) -> Array:
    """One loop over everything that is summed, for each element of the result."""
    text, arrow, output = equation.replace(" ", "").partition("->")
    operands: list[list[Any]] = []
    for part, tensor in zip(text.split(","), tensors, strict=True):
        before, dots, after = part.partition("...")
        width = tensor.ndim - len(before) - len(after)
        operands.append([*before, *(range(-width, 0) if dots else ()), *after])
    widest = max((-label for labels in operands for label in labels if isinstance(label, int)), default=0)
    dots_of_result = [*range(-widest, 0)]
    if arrow:
        before, dots, after = output.partition("...")
        result = [*before, *(dots_of_result if dots else ()), *after]
    else:
        result = [*dots_of_result, *(c for c in sorted(set(text)) if c.isalpha() and text.count(c) == 1)]
    return contraction(operands, result, tensors)


def contraction(operands: Sequence[Sequence[Any]], result: Sequence[Any], tensors: Sequence[Array]) -> Array:
    """Sums products over the labels that the result does not have."""
    dtype = common_dtype(tensors)
    arrays = [as_array(tensor, dtype.name) for tensor in tensors]
    sizes: dict[Any, int] = {}
    for labels, array in zip(operands, arrays, strict=True):
        for label, size in zip(labels, array.shape, strict=True):
            sizes[label] = size if sizes.get(label, 1) == 1 else sizes[label]
    summed = [label for label in sizes if label not in result]
    steps = []
    for labels, array in zip(operands, arrays, strict=True):
        step: dict[Any, int] = dict.fromkeys(sizes, 0)
        for label, size, stride in zip(labels, array.shape, strides_of(array.shape), strict=True):
            step[label] += stride if size > 1 else 0
        steps.append(step)
    times = _times(dtype.name)
    shape: Shape = tuple(sizes[label] for label in result)
    data: list[Any] = []
    slack: list[float] = []
    for index in itertools.product(*(range(n) for n in shape)):
        terms = []
        for more in itertools.product(*(range(sizes[label]) for label in summed)):
            at = dict(zip((*result, *summed), (*index, *more), strict=True))
            factors = [
                array.data[sum(step[label] * i for label, i in at.items())]
                for array, step in zip(arrays, steps, strict=True)
            ]
            term = factors[0]
            for factor in factors[1:]:
                term = times(term, factor)
            terms.append(term)
        zero = 0j if dtype.is_complex else 0.0 if dtype.is_inexact else 0
        data.append(total(terms) if terms else zero)
        if dtype.is_inexact:
            slack.append(_slack(terms, len(arrays), dtype.name))
    if not dtype.is_inexact:
        return Array(shape, round_to(data, dtype.name), dtype.name)
    return Array(shape, data, dtype.name, slack)


def _slack(terms: Sequence[Any], operands: int, dtype: str) -> float:
    """A rounding for each factor and addition; with several contractions one to the dtype after each."""
    form = accumulator_of(dtype)
    own = format_of(dtype)
    assert own is not None
    between = (operands - 1) * own.eps if form is not own else 0.0
    return ((growth(terms) + 2 * operands) * form.eps + between) * magnitude(terms)


def tensordot(self: Array, other: Array, dims_self: Sequence[int], dims_other: Sequence[int]) -> Array:
    """An equation whose labels are the numbers of dims."""
    first: list[Any] = [("a", d) for d in range(self.ndim)]
    second: list[Any] = [("b", d) for d in range(other.ndim)]
    for i, j in zip(dims_self, dims_other, strict=True):
        second[j] = first[i]
    result = [label for label in first if label not in second] + [label for label in second if label not in first]
    return contraction([first, second], result, [self, other])


# ------------------------------------------------------------------------------------------------------------ distances


def norm(values: Sequence[Any], p: float) -> float:
    """The p-norm of numbers; for 0 how many are not 0."""
    sizes = [abs(v) for v in values]
    if p == 0:
        return math.fsum(s if math.isnan(s) else s > 0 for s in sizes)
    if p == math.inf:
        return max(sizes, default=0.0)
    if p == 1:
        return math.fsum(sizes)
    return math.sqrt(math.fsum(s * s for s in sizes)) if p == 2 else math.fsum(s**p for s in sizes) ** (1 / p)


def _rows(self: Array, dim: int) -> tuple[list[list[Any]], list[tuple[int, int]]]:
    """Returns the vectors along a dim, and for each element its vector and its place in it."""
    d = dim_of(dim, self.ndim)
    size = self.shape[d] if self.ndim else 1
    step = strides_of(self.shape)[d] if self.ndim else 1
    starts: dict[int, int] = {}
    rows: list[list[Any]] = []
    places = []
    for place, value in enumerate(self.data):
        k = place // step % size
        number = starts.setdefault(place - k * step, len(starts))
        if number == len(rows):
            rows.append([])
        rows[number].append(value)
        places.append((number, k))
    return rows, places


def normalize(input: Array, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Array:
    """Vectors divided by their norm or eps."""
    rows, places = _rows(input, dim)
    lengths = [max(norm(row, p), eps) for row in rows]
    return Array(input.shape, [x / lengths[r] for x, (r, _) in zip(input.data, places, strict=True)], input.dtype)


def cosine_similarity(x1: Array, x2: Array, dim: int = 1, eps: float = 1e-8) -> Array:
    """The sum of products of vectors, each divided by its length or eps."""
    dtype = common_dtype([x1, x2]).name
    shape = broadcast_shape(x1.shape, x2.shape)
    a, b = (Array(shape, as_array(x, dtype).broadcast(shape), dtype) for x in (x1, x2))
    d = dim_of(dim, len(shape))
    result = (*shape[:d], *shape[d + 1 :]) if shape else ()
    unit, data, slack = accumulator_of(dtype).eps, [], []
    if not a.data:
        return Array(result, [0.0] * math.prod(result), dtype)
    for row, other in zip(_rows(a, dim)[0], _rows(b, dim)[0], strict=True):
        scale = max(norm(row, 2), eps), max(norm(other, 2), eps)
        terms = [(x / scale[0]) * (y / scale[1]) for x, y in zip(row, other, strict=True)]
        data.append(math.fsum(terms))
        slack.append((len(terms) + 8) * unit * magnitude(terms))
    return Array(result, data, dtype, slack)


def pairwise_distance(x1: Array, x2: Array, p: float = 2, eps: float = 1e-6, keepdim: bool = False) -> Array:
    """The norm of the difference plus eps."""
    dtype = common_dtype([x1, x2]).name
    shape = broadcast_shape(x1.shape, x2.shape)
    a, b = (as_array(x, dtype).broadcast(shape) for x in (x1, x2))
    n, unit = shape[-1], accumulator_of(dtype).eps
    data, slack = [], []
    for start in range(0, len(a), n or 1):
        pairs = [*zip(a[start : start + n], b[start : start + n], strict=True)]
        data.append(norm([x - y + eps for x, y in pairs], p))
        slack.append(2 * unit * sum(abs(x) + abs(y) + eps for x, y in pairs))
    return Array((*shape[:-1], *((1,) if keepdim else ())), data, dtype, slack)


def cdist(x1: Array, x2: Array, p: float = 2, compute_mode: int | None = None) -> Array:
    """The norms of the differences of all pairs of rows."""
    dtype = common_dtype([x1, x2]).name
    a, b = as_array(x1, dtype), as_array(x2, dtype)
    batch = broadcast_shape(a.shape[:-2], b.shape[:-2])
    (n, m), k = a.shape[-2:], b.shape[-2]
    left, right = a.broadcast((*batch, n, m)), b.broadcast((*batch, k, m))
    distance = functools.cache(lambda x, y: norm([u - v for u, v in zip(x, y, strict=True)], p))  # large inputs repeat
    data = []
    for one in range(math.prod(batch)):
        rows, others = (
            [tuple(values[(one * count + i) * m :][:m]) for i in range(count)]
            for values, count in ((left, n), (right, k))
        )
        data += [distance(x, y) for x in rows for y in others]
    return Array((*batch, n, k), data, dtype)


def cdist_backward(grad_output: Array, x1: Array, x2: Array, p: float, cdist: Array) -> Array:
    """Each distance's gradient times its slope for each element, summed over the rows of the second."""
    dtype = common_dtype([x1, x2]).name
    a, b = as_array(x1, dtype), as_array(x2, dtype)
    batch = broadcast_shape(a.shape[:-2], b.shape[:-2])
    (n, m), k = a.shape[-2:], b.shape[-2]
    left, right = a.broadcast((*batch, n, m)), b.broadcast((*batch, k, m))
    unit, data, slack = accumulator_of(dtype).eps, [], []
    for one in range(math.prod(batch)):
        others = [right[(one * k + j) * m :][:m] for j in range(k)]
        known: dict[Any, tuple[list[float], list[float]]] = {}  # large inputs repeat
        for i in range(one * n, (one + 1) * n):
            row, grads, distances = left[i * m :][:m], grad_output.data[i * k :][:k], cdist.data[i * k :][:k]
            key = (*row, *grads, *distances)
            if key not in known:
                differences = [[u - v for u, v in zip(row, other, strict=True)] for other in others]
                each = [*zip(grads, differences, distances, strict=True)]
                terms = [[g * _slope(by, c, size, p) for g, by, size in each] for c in range(m)]
                known[key] = [*map(math.fsum, terms)], [(growth(t) + 16) * unit * magnitude(t) for t in terms]
            data += known[key][0]
            slack += known[key][1]
    return Array((*batch, n, m), data, dtype, slack)


def _slope(row: Sequence[float], c: int, distance: float, p: float) -> float:
    """How a distance changes with one component of the difference; a distance that is rounded is no component."""
    size = abs(row[c])
    if not distance or not size or p == 0:
        return 0.0
    if p == math.inf:
        largest = [abs(x) for x in row].count(max(abs(x) for x in row))
        return math.copysign(1 / largest, row[c]) if size == max(abs(x) for x in row) else 0.0
    return math.copysign((size / distance) ** (p - 1), row[c])


REFERENCES: dict[str, Reference] = {
    "_cdist_backward": Reference(cdist_backward, budget(16)),
    **dict.fromkeys(("bmm", "dot", "mm", "mv"), Reference(matmul, budget(1))),
    **dict.fromkeys(("addmm", "addmv", "baddbmm"), Reference(added, budget(1))),
    "cdist": Reference(cdist, budget(16)),
    "cosine_similarity": Reference(cosine_similarity, budget(1)),
    "cross": Reference(cross, budget(1)),
    "diag": Reference(diag, {}, bits=True),
    "diag_embed": Reference(diag_embed, {}, bits=True),
    "einsum": Reference(einsum, budget(1)),
    "kron": Reference(kron, budget(1, complex=4)),
    "linalg_cross": Reference(lambda self, other, *, dim=-1: cross(self, other, dim), budget(1)),
    "normalize": Reference(normalize, budget(16)),
    "outer": Reference(outer, budget(1)),
    "pairwise_distance": Reference(pairwise_distance, budget(16)),
    "tensordot": Reference(tensordot, budget(1)),
    "trace": Reference(trace, budget(1)),
    "tril": Reference(_triangle(lambda offset, diagonal: offset <= diagonal), {}, bits=True),
    "triu": Reference(_triangle(lambda offset, diagonal: offset >= diagonal), {}, bits=True),
    "vdot": Reference(vdot, budget(1)),
}
