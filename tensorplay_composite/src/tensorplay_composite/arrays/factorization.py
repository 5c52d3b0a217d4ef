"""Decompositions and what is solved with them, through the module's ``linalg``, which is LAPACK nearly everywhere.

What LAPACK leaves open is settled here, so that a result is the same on every device: the phases of eigenvectors and of
singular vectors, which triangle is read, and what is said of a matrix that is singular or not positive-definite.
Triangular systems are solved in blocks, since the array API has no function for them: the blocks on the diagonal by
``solve``, the rest by matrix products.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tensorplay_composite.arrays._support import Kernels, Support, module_name, quietly
from tensorplay_core.errors import LinAlgError, ShapeError, fix
from tensorplay_core.ops.shape_checks import broadcast_shapes
from tensorplay_core.ops.shapes_factorization import check_mode, check_uplo, item_name

BLOCK = 64
"""Rows of a triangular system that are solved at once."""
NEAR = 0.75
"""A component is large enough to settle a vector's phase if it is so large beside the largest: of equals, the first."""


@quietly
def kernels(xp: Any, support: Support) -> Kernels:
    """Returns the kernels of decompositions over ``xp``; none where it has no ``linalg``."""
    if getattr(xp, "linalg", None) is None:
        return {}
    kind, cast, copy, lapack = support.kind, support.cast, support.copy, xp.linalg
    raises = module_name(xp).startswith(("numpy", "array_api_strict"))  # others give NaN or infinities
    own = module_name(xp).startswith("numpy")  # reads one triangle alone
    native32 = support.native("int32")

    def adjoint(a: Any) -> Any:
        swapped = xp.matrix_transpose(a)
        return xp.conj(swapped) if kind[a.dtype] == "complex" else swapped

    def transposed(a: Any) -> Any:
        return xp.matrix_transpose(a)

    def square(a: Any) -> None:
        if a.ndim < 2 or a.shape[-1] != a.shape[-2]:
            raise ValueError("no square matrices")

    def items(a: Any) -> Any:
        """The matrices of a batch, as one list of them."""
        return xp.reshape(a, (-1, *a.shape[-2:]))

    def finite(a: Any) -> bool:
        return bool(xp.all(xp.isfinite(a)))

    def singular(a: Any) -> Iterator[int]:
        """The numbers of the matrices of a batch that have no inverse."""
        every = items(a)
        for i in range(every.shape[0]):
            one = every[i, ...]
            try:
                inverse = lapack.inv(one)
            except Exception:
                yield i
            else:
                if not raises and finite(one) and not finite(inverse):
                    yield i

    def guarded(op: str, function: Any, a: Any, *rest: Any) -> Any:
        """Calls a function that fails on singular matrices."""
        if 0 in a.shape:
            return None
        found: int | None
        try:
            result = function(a, *rest)
        except Exception:
            found = next(singular(a), 0)
        else:
            found = None if raises or finite(result) else next(singular(a), None)
            if found is None:  # what is not finite may also come of what was not before
                return result
        raise LinAlgError(
            f"{op}: {item_name(a.shape, found)}the matrix is singular, and has no inverse"
            + fix("tp.linalg.pinv or tp.linalg.lstsq takes singular matrices")
        )

    # ------------------------------------------------------------------------------------------------- Cholesky

    def lower_of(a: Any) -> Any:
        """A Hermitian matrix of the lower triangle alone, for a module that looks at both."""
        return a if own else xp.tril(a) + adjoint(xp.tril(a, k=-1))

    def factor(a: Any) -> Any:
        """The lower factor, or None where a matrix is not positive-definite."""
        try:
            result = lapack.cholesky(a)
        except Exception:
            return None
        return result if raises or finite(result) else None

    def leading_minor(a: Any) -> int:
        """The order of the least leading minor that is not positive-definite: 0 where all are."""
        if factor(a) is not None:
            return 0
        good, bad = 0, a.shape[-1]
        while bad - good > 1:
            middle = (good + bad) // 2
            good, bad = (good, middle) if factor(a[:middle, :middle]) is None else (middle, bad)
        return bad

    def cholesky_ex(self: Any, upper: bool) -> tuple[Any, list[int]]:
        square(self)
        a = lower_of(adjoint(self) if upper else self)
        if 0 in a.shape:
            return copy(a), [0] * items_count(a)
        result = factor(a)
        if result is not None:
            return (copy(adjoint(result)) if upper else result), []
        every = items(a)
        info = [leading_minor(every[i, ...]) for i in range(every.shape[0])]
        parts = [
            xp.full(a.shape[-2:], xp.nan, dtype=a.dtype) if minor else lapack.cholesky(every[i, ...])
            for i, minor in enumerate(info)
        ]
        result = xp.reshape(xp.stack(parts), a.shape)
        return (copy(adjoint(result)) if upper else result), info

    def items_count(a: Any) -> int:
        count = 1
        for size in a.shape[:-2]:
            count *= size
        return count

    def refuse(op: str, a: Any, info: list[int]) -> None:
        for i, minor in enumerate(info):
            if minor:
                raise LinAlgError(
                    f"{op}: {item_name(a.shape, i)}the matrix is not positive-definite: its leading minor of order "
                    f"{minor} is not"
                    + fix("check that it is Hermitian; a small multiple of tp.eye added to it may help")
                )

    def linalg_cholesky(self: Any, *, upper: bool = False) -> Any:
        result, info = cholesky_ex(self, upper)
        refuse("linalg_cholesky", self, info)
        return result

    def linalg_cholesky_ex(self: Any, *, upper: bool = False, check_errors: bool = False) -> Any:
        result, info = cholesky_ex(self, upper)
        if check_errors:
            refuse("linalg_cholesky_ex", self, info)
        numbers = xp.asarray(info or [0] * items_count(self), dtype=native32)
        return result, xp.reshape(numbers, self.shape[:-2])

    # --------------------------------------------------------------------------------------------------- solving

    def columns(a: Any, b: Any) -> tuple[Any, bool]:
        """The right side as matrices, and whether it was vectors."""
        vector = b.ndim == 1 or (a.ndim - 1 == b.ndim and b.shape == a.shape[:-1])
        return (b[..., None] if vector else b), vector

    def together(op: str, a: Any, b: Any) -> tuple[Any, Any]:
        """Both with the batch dims that they broadcast to."""
        if a.shape[:-2] == b.shape[:-2]:
            return a, b
        batch = broadcast_shapes(op, a.shape[:-2], b.shape[:-2])
        return xp.broadcast_to(a, batch + a.shape[-2:]), xp.broadcast_to(b, batch + b.shape[-2:])

    def linalg_solve(A: Any, B: Any, *, left: bool = True) -> Any:
        square(A)
        b, vector = columns(A, B)
        if left and b.shape[-2:-1] != A.shape[-1:]:  # LAPACK says so too, unless there are no elements
            raise ShapeError(f"linalg_solve: shapes {A.shape} and {B.shape} do not make a system")
        if not left:
            return copy(transposed(linalg_solve(transposed(A), transposed(b))))
        a, b = together("linalg_solve", A, b)
        x = xp.zeros(b.shape, dtype=b.dtype) if 0 in a.shape + b.shape else guarded("linalg_solve", lapack.solve, a, b)
        return x[..., 0] if vector else x

    def linalg_inv(A: Any) -> Any:
        square(A)
        result = guarded("linalg_inv", lapack.inv, A)
        return copy(A) if result is None else result

    def linalg_solve_triangular(
        self: Any, B: Any, *, upper: bool, left: bool = True, unitriangular: bool = False
    ) -> Any:
        square(self)
        if B.ndim < 2 or B.shape[-2 if left else -1] != self.shape[-1]:
            raise ValueError("no system")
        if not left:
            x = linalg_solve_triangular(transposed(self), transposed(B), upper=not upper, unitriangular=unitriangular)
            return copy(transposed(x))
        a, b = together("linalg_solve_triangular", self, B)
        n = a.shape[-1]
        if 0 in b.shape or not n:
            return xp.zeros(b.shape, dtype=b.dtype)
        if unitriangular:
            a = (xp.triu(a, k=1) if upper else xp.tril(a, k=-1)) + xp.eye(n, dtype=a.dtype)
        done: Any = None
        starts = range(0, n, BLOCK)
        for start in reversed(starts) if upper else starts:
            end = min(start + BLOCK, n)
            rows, right = a[..., start:end, :], b[..., start:end, :]
            if done is not None:
                right = right - xp.matmul(rows[..., end:] if upper else rows[..., :start], done)
            block = rows[..., start:end]
            block = xp.triu(block) if upper else xp.tril(block)
            x = guarded("linalg_solve_triangular", lapack.solve, block, right)
            done = x if done is None else xp.concat([x, done] if upper else [done, x], axis=-2)
        return done

    # ---------------------------------------------------------------------------------------------- determinants

    def linalg_det(A: Any) -> Any:
        square(A)
        if 0 in A.shape:
            return xp.ones(A.shape[:-2], dtype=A.dtype)
        if own:  # a Python function of NumPy, which would warn of an overflow, and of what complex numbers make of it
            with xp.errstate(over="ignore", invalid="ignore"):
                return lapack.det(A)
        return lapack.det(A)

    def linalg_slogdet(A: Any) -> Any:
        square(A)
        if 0 in A.shape:
            ones = xp.ones(A.shape[:-2], dtype=A.dtype)
            return ones, xp.zeros(A.shape[:-2], dtype=xp.abs(ones).dtype)
        sign, size = lapack.slogdet(A)
        return sign, size

    # ------------------------------------------------------------------------------- eigenvalues, singular values

    def phases(vectors: Any) -> Any:
        """The factors (..., 1, n) that make a large component of each column a positive real number."""
        size = xp.abs(vectors)
        large = size >= NEAR * xp.max(size, axis=-2, keepdims=True)
        first = xp.argmax(cast(large, native32), axis=-2, keepdims=True)
        pivot = xp.take_along_axis(vectors, first, axis=-2)
        length = xp.abs(pivot)
        if kind[vectors.dtype] == "complex":
            return xp.conj(pivot) / cast(length, vectors.dtype)
        return xp.sign(pivot)

    def triangle(a: Any, UPLO: str) -> Any:
        """The Hermitian matrices of the triangle that is named."""
        check_uplo("linalg_eigh", UPLO)
        square(a)
        return lower_of(adjoint(a) if UPLO.upper() == "U" else a)

    def linalg_eigh(self: Any, UPLO: str = "L") -> Any:
        a = triangle(self, UPLO)
        if 0 in a.shape:
            return xp.zeros(a.shape[:-1], dtype=xp.abs(a).dtype), copy(a)
        values, vectors = converged("linalg_eigh", lapack.eigh, a)
        return values, vectors * phases(vectors)

    def linalg_eigvalsh(self: Any, UPLO: str = "L") -> Any:
        a = triangle(self, UPLO)
        if 0 in a.shape:
            return xp.zeros(a.shape[:-1], dtype=xp.abs(a).dtype)
        return converged("linalg_eigvalsh", lapack.eigvalsh, a)

    def converged(op: str, function: Any, a: Any, **keywords: Any) -> Any:
        try:
            return function(a, **keywords)
        except Exception as error:
            raise LinAlgError(
                f"{op}: the algorithm did not converge ({error})" + fix("look for NaN and infinities in the input")
            ) from None

    def linalg_svd(A: Any, full_matrices: bool = True) -> Any:
        if A.ndim < 2:
            raise ValueError("no matrices")
        m, n = A.shape[-2:]
        k = min(m, n)
        if 0 in A.shape:

            def unit(size: int, shown: int) -> Any:
                return xp.broadcast_to(xp.eye(size, dtype=A.dtype), (*A.shape[:-2], size, size))[..., :shown] + 0

            u, vh = unit(m, m if full_matrices else k), copy(adjoint(unit(n, n if full_matrices else k)))
            return u, xp.zeros((*A.shape[:-2], k), dtype=xp.abs(A).dtype), vh
        u, s, vh = converged("linalg_svd", lapack.svd, A, full_matrices=full_matrices)
        factor = phases(u)
        pairs = transposed(factor)[..., :k, :]
        pairs = xp.conj(pairs) if kind[A.dtype] == "complex" else pairs
        if vh.shape[-2] > k:  # the rows beyond belong to no column of u
            rest = vh[..., k:, :]
            vh = xp.concat([vh[..., :k, :] * pairs, rest * transposed(phases(transposed(rest)))], axis=-2)
            return u * factor, s, vh
        return u * factor, s, vh * pairs

    def linalg_svdvals(A: Any) -> Any:
        if A.ndim < 2:
            raise ValueError("no matrices")
        if 0 in A.shape:
            return xp.zeros((*A.shape[:-2], min(A.shape[-2:])), dtype=xp.abs(A).dtype)
        return converged("linalg_svdvals", lapack.svdvals, A)

    def linalg_qr(A: Any, mode: str = "reduced") -> Any:
        check_mode("linalg_qr", mode)
        if A.ndim < 2:
            raise ValueError("no matrices")
        m, n = A.shape[-2:]
        if 0 in A.shape:
            size = m if mode == "complete" else min(m, n)
            q = xp.broadcast_to(xp.eye(m, dtype=A.dtype), (*A.shape[:-2], m, m))[..., :size] + 0
            r = xp.zeros((*A.shape[:-2], size, n), dtype=A.dtype)
        else:
            q, r = lapack.qr(A, mode="complete" if mode == "complete" else "reduced")
        return (xp.zeros((0,), dtype=A.dtype) if mode == "r" else q), r

    return {
        "linalg_cholesky": linalg_cholesky,
        "linalg_cholesky_ex": linalg_cholesky_ex,
        "linalg_solve": linalg_solve,
        "linalg_solve_triangular": linalg_solve_triangular,
        "linalg_inv": linalg_inv,
        "linalg_det": linalg_det,
        "linalg_slogdet": linalg_slogdet,
        "linalg_eigh": linalg_eigh,
        "linalg_eigvalsh": linalg_eigvalsh,
        "linalg_svd": linalg_svd,
        "linalg_svdvals": linalg_svdvals,
        "linalg_qr": linalg_qr,
    }
