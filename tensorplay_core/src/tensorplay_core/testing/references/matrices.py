"""Algorithms on one matrix of Python numbers, a list of rows: what the references of decompositions are made of.

They are chosen to be short and accurate, not fast: elimination with pivots, Householder's reflections, and Jacobi's
rotations, which give small singular values to full relative accuracy (Golub and Van Loan, "Matrix computations",
chapters 3, 5 and 8).
"""

from __future__ import annotations

import cmath
import math
from typing import Any

Matrix = list[list[Any]]
NEAR = 0.75
"""Which component of a vector settles its phase: the first of at least so much of the largest."""


def adjoint(a: Matrix, rows: int, columns: int) -> Matrix:
    """The conjugate transpose of a matrix of so many rows and columns."""
    return [[a[i][j].conjugate() for i in range(rows)] for j in range(columns)]


def product(a: Matrix, b: Matrix, columns: int) -> Matrix:
    """The product, whose second factor has so many columns."""
    return [[sum((x * b[k][j] for k, x in enumerate(row)), 0.0) for j in range(columns)] for row in a]


def norm(a: Matrix) -> float:
    """The largest sum of the absolute values of a row."""
    return max((sum(map(abs, row)) for row in a), default=0.0)


def solve(a: Matrix, b: Matrix) -> tuple[Matrix, Any]:
    """The X of ``a @ X = b`` and the determinant; X is empty where that is 0."""
    n, rows, det = len(a), [[*left, *right] for left, right in zip(a, b, strict=True)], 1.0
    for k in range(n):
        pivot = max(range(k, n), key=lambda i: abs(rows[i][k]))
        if rows[pivot][k] == 0:
            return [], 0.0
        if pivot != k:
            rows[k], rows[pivot], det = rows[pivot], rows[k], -det
        det = det * rows[k][k]
        for i in range(k + 1, n):
            factor = rows[i][k] / rows[k][k]
            rows[i] = [x - factor * y for x, y in zip(rows[i], rows[k], strict=True)]
    for k in reversed(range(n)):
        rows[k] = [x / rows[k][k] for x in rows[k]]
        for i in range(k):
            factor = rows[i][k]
            rows[i] = [x - factor * y for x, y in zip(rows[i], rows[k], strict=True)]
    return [row[n:] for row in rows], det


def identity(n: int) -> Matrix:
    """The identity."""
    return [[float(i == j) for j in range(n)] for i in range(n)]


def condition(a: Matrix) -> float:
    """The condition number for errors of single elements, 1 for none."""
    inverse, det = solve(a, identity(len(a)))
    return norm(a) * norm(inverse) if det else math.inf


def cholesky(a: Matrix) -> tuple[Matrix, int]:
    """The lower factor, and 0 or the order of the first leading minor that is not positive."""
    n = len(a)
    low = [[0.0] * n for _ in range(n)]
    for j in range(n):
        pivot = a[j][j].real - sum(abs(low[j][k]) ** 2 for k in range(j))
        if not pivot > 0:
            return low, j + 1
        low[j][j] = math.sqrt(pivot)
        for i in range(j + 1, n):
            low[i][j] = (a[i][j] - sum(low[i][k] * low[j][k].conjugate() for k in range(j))) / low[j][j]
    return low, 0


def settled(column: list[Any]) -> list[Any]:
    """A vector times the phase that makes its first large component a positive number."""
    large = max(map(abs, column), default=0.0)
    pivot = next((x for x in column if abs(x) >= NEAR * large), 1.0) if large else 1.0
    return [x * pivot.conjugate() / abs(pivot) for x in column]


def eigh(a: Matrix) -> tuple[list[float], Matrix]:
    """The eigenvalues of a Hermitian matrix, ascending, and its eigenvectors, each a list; by Jacobi's rotations."""
    n = len(a)
    a = [[*row] for row in a]
    vectors: Matrix = identity(n)  # rows are columns of the unitary matrix
    for _ in range(60):
        if sum(abs(a[i][j]) for i in range(n) for j in range(i)) <= 1e-300:
            break
        for p in range(n):
            for q in range(p + 1, n):
                if abs(a[p][q]) > 1e-20 * math.sqrt(abs(a[p][p] * a[q][q])) + 1e-300:
                    _rotate(a, vectors, p, q)
                else:
                    a[p][q] = a[q][p] = 0.0
    order = sorted(range(n), key=lambda i: a[i][i].real)
    return [a[i][i].real for i in order], [vectors[i] for i in order]


def _rotate(a: Matrix, vectors: Matrix, p: int, q: int) -> None:
    """Makes one element of a Hermitian matrix 0 by a unitary rotation of two rows and columns."""
    c, s = _angle(a[p][p].real, a[q][q].real, a[p][q])
    for row in a:
        x, y = row[p], row[q]
        row[p], row[q] = c * x - s.conjugate() * y, s * x + c * y
    for j in range(len(a)):
        x, y = a[p][j], a[q][j]
        a[p][j], a[q][j] = c * x - s * y, s.conjugate() * x + c * y
    x_row, y_row = vectors[p], vectors[q]
    vectors[p] = [c * x - s.conjugate() * y for x, y in zip(x_row, y_row, strict=True)]
    vectors[q] = [s * x + c * y for x, y in zip(x_row, y_row, strict=True)]
    a[p][q] = a[q][p] = 0.0


def _angle(app: float, aqq: float, apq: Any) -> tuple[float, Any]:
    """The cosine, and the sine with a phase, of the rotation that makes ``apq`` 0."""
    size = abs(apq)
    tau = (aqq - app) / (2 * size)
    t = math.copysign(1.0, tau) / (abs(tau) + math.hypot(1.0, tau))
    c = 1 / math.hypot(1.0, t)
    return c, t * c * (apq / size)


def svd(a: Matrix, rows: int, columns: int) -> tuple[Matrix, list[float], Matrix]:
    """Left vectors, singular values descending, and right vectors, each a list, with the phase that the left settle.

    One-sided rotations make the columns orthogonal; their lengths are the singular values.
    """
    if rows < columns:
        left, values, right = svd(adjoint(a, rows, columns), columns, rows)
        pairs = [(settled(v), u, v) for u, v in zip(left, right, strict=True)]
        turns = [_turn(new, old) for new, _, old in pairs]
        return [n for n, _, _ in pairs], values, [[x * t for x in u] for t, (_, u, _) in zip(turns, pairs, strict=True)]
    work = [[a[i][j] for i in range(rows)] for j in range(columns)]
    vectors = identity(columns)
    for _ in range(60):
        largest = 0.0
        for p in range(columns):
            for q in range(p + 1, columns):
                inner = sum((x.conjugate() * y for x, y in zip(work[p], work[q], strict=True)), 0.0)
                app, aqq = (sum(abs(x) ** 2 for x in work[k]) for k in (p, q))
                scale = math.sqrt(app * aqq)
                if not scale or abs(inner) <= 1e-17 * scale:
                    continue
                largest = max(largest, abs(inner) / scale)
                c, s = _angle(app, aqq, inner)
                for lists in (work, vectors):
                    x_row, y_row = lists[p], lists[q]
                    lists[p] = [c * x - s.conjugate() * y for x, y in zip(x_row, y_row, strict=True)]
                    lists[q] = [s * x + c * y for x, y in zip(x_row, y_row, strict=True)]
        if largest <= 1e-17:
            break
    lengths = [math.sqrt(math.fsum(abs(x) ** 2 for x in column)) for column in work]
    order = sorted(range(columns), key=lambda k: -lengths[k])
    left, right = [], []
    for k in order:
        u = [x / lengths[k] for x in work[k]] if lengths[k] else work[k]
        new = settled(u)
        left.append(new)
        right.append([x * _turn(new, u) for x in vectors[k]])
    return left, [lengths[k] for k in order], right


def _turn(new: list[Any], old: list[Any]) -> Any:
    """The factor from one vector to the same with another phase."""
    k = max(range(len(old)), key=lambda i: abs(old[i]), default=0)
    return new[k] / old[k] if old and old[k] else 1.0


def completed(vectors: Matrix, size: int) -> Matrix:
    """Orthonormal vectors and one more that is orthogonal to them, with its phase settled."""
    best: list[Any] = []
    for k in range(size):
        v: list[Any] = [float(i == k) for i in range(size)]
        for _ in range(3):
            for u in vectors:
                inner = sum((x.conjugate() * y for x, y in zip(u, v, strict=True)), 0.0)
                v = [y - inner * x for x, y in zip(u, v, strict=True)]
        if math.hypot(*map(abs, v)) > math.hypot(*map(abs, best), 0.0):
            best = v
    length = math.hypot(*map(abs, best))
    return [*vectors, settled([x / length for x in best])]


def qr(a: Matrix, rows: int, columns: int) -> tuple[Matrix, Matrix]:
    """The square Q and R that LAPACK's reflections give: R's diagonal is real, against the sign of what was there."""
    r, q = [[*row] for row in a], identity(rows)
    for k in range(min(rows, columns)):
        x = [r[i][k] for i in range(k, rows)]
        below = math.hypot(*map(abs, x[1:]), 0.0)
        if not below and not (isinstance(x[0], complex) and x[0].imag):
            continue
        beta = -math.copysign(math.hypot(abs(x[0]), below), x[0].real)
        v = [x[0] - beta, *x[1:]]
        tau = (beta - x[0]) / beta
        unit = [t / v[0] for t in v]
        for j in range(columns):
            inner = sum((u.conjugate() * r[k + i][j] for i, u in enumerate(unit)), 0.0)
            for i, u in enumerate(unit):
                r[k + i][j] = r[k + i][j] - tau.conjugate() * u * inner
        for row in q:  # Q = H1 H2 …, with H = 1 - tau v v.H
            inner = sum((row[k + i] * u for i, u in enumerate(unit)), 0.0)
            for i, u in enumerate(unit):
                row[k + i] = row[k + i] - tau * inner * u.conjugate()
        for i in range(k + 1, rows):
            r[i][k] = 0.0
    return q, r


def phase(z: Any) -> Any:
    """``z / abs(z)``, 0 for 0."""
    return z / abs(z) if z else z


def log(z: Any) -> Any:
    """The logarithm of a complex number, or NaN and -inf where a real one has none."""
    if isinstance(z, complex):
        return cmath.log(z)
    return math.log(z) if z > 0 else -math.inf if z == 0 else math.nan
