"""Functions that the derivatives of decompositions are written in; see :mod:`helpers`.

Sources: M. Giles, "An extended collection of matrix derivative results for forward and reverse mode algorithmic
differentiation", 2008; I. Murray, "Differentiation of the Cholesky decomposition", 2016, https://arxiv.org/abs/1602.07527;
Z.-Q. Wan and S.-X. Zhang, "Automatic differentiation for complex valued SVD", 2019, https://arxiv.org/abs/1909.02659;
G. Golub and V. Pereyra, "The differentiation of pseudo-inverses", 1973. All of them hold for batches.
"""

from __future__ import annotations

from tensorplay_core.errors import AutogradError, fix
from tensorplay_core.ops import _generated_functional as F
from tensorplay_core.ops.helpers_linalg import adjoint
from tensorplay_core.tensor.tensor import Tensor
from tensorplay_core.tensor.wrappers import every_element

NEAR = 0.75
"""Which component of a vector settles its phase; the kernels' number."""
SMALL = 6
"""Adjugates of singular matrices up to this size are made of minors, which need no decomposition to be smooth."""


def _imag(x: Tensor) -> Tensor:
    return (x * -1j).real()


def _diagonal(x: Tensor) -> Tensor:
    return x.diagonal(0, -2, -1)


def _halved(square: Tensor) -> Tensor:
    """Half of the Hermitian matrix that has the lower triangle of ``square``, and the real part of its diagonal."""
    low = F.tril(square, -1)
    diagonal = F.diag_embed(_diagonal(square).real().to(square.dtype))
    return 0.5 * (low + adjoint(low) + diagonal)


def cholesky_backward(grad: Tensor, factor: Tensor, upper: bool) -> Tensor:
    """Hermitian, though one triangle alone was read: as if both were."""
    low, grad = (adjoint(factor), adjoint(grad)) if upper else (factor, grad)
    inner = _halved(adjoint(low) @ grad)
    left = F.linalg_solve_triangular(adjoint(low), inner, upper=True)
    return F.linalg_solve_triangular(low, left, upper=False, left=False)


def solve_backward_matrix(grad: Tensor, result: Tensor, left: bool, ndim: int) -> Tensor:
    """The gradient of the matrix, given that of the right side; vectors are columns."""
    if result.ndim == 1 or result.ndim == ndim - 1:
        return -(grad.unsqueeze(-1) * result.unsqueeze(-2).conj())
    return -(grad @ adjoint(result)) if left else -(adjoint(result) @ grad)


def solve_triangular_backward(grad: Tensor, result: Tensor, upper: bool, left: bool, unitriangular: bool) -> Tensor:
    """The gradient of the triangle that was read, given that of the right side."""
    full = -(grad @ adjoint(result)) if left else -(adjoint(result) @ grad)
    return F.triu(full, int(unitriangular)) if upper else F.tril(full, -int(unitriangular))


def det_backward(grad: Tensor, A: Tensor, result: Tensor) -> Tensor:
    """The gradient times the conjugate transpose of the adjugate, which a singular matrix has too."""
    singular = result == 0
    some = not result.is_meta and bool(every_element(singular).any().item())
    if not some:
        return (grad * result.conj()).unsqueeze(-1).unsqueeze(-1) * adjoint(F.linalg_inv(A))
    apart = singular.unsqueeze(-1).unsqueeze(-1)
    one = F.eye(A.shape[-1], dtype=A.dtype, device=A.device)
    regular = result.unsqueeze(-1).unsqueeze(-1) * F.linalg_inv(F.where(apart, one, A))
    return grad.unsqueeze(-1).unsqueeze(-1) * adjoint(F.where(apart, _adjugate(A), regular))


def _adjugate(A: Tensor) -> Tensor:
    """The transposed matrix of cofactors."""
    n = A.shape[-1]
    if n == 1:
        return F.ones(A.shape, dtype=A.dtype, device=A.device)
    if n <= SMALL:
        rows = [[_minor(A, j, i) * (-1) ** (i + j) for j in range(n)] for i in range(n)]
        return F.stack([F.stack(row, -1) for row in rows], -2)
    u, s, vh = F.linalg_svd(A, False)
    others = [F.stack([s.select(-1, j) for j in range(n) if j != i], -1) for i in range(n)]
    products = F.stack([_product(other) for other in others], -1).to(A.dtype).unsqueeze(-2)
    phase = (F.linalg_det(u) * F.linalg_det(vh)).unsqueeze(-1).unsqueeze(-1)
    return phase * ((adjoint(vh) * products) @ adjoint(u))


def _product(x: Tensor) -> Tensor:
    result = x.select(-1, 0)
    for i in range(1, x.shape[-1]):
        result = result * x.select(-1, i)
    return result


def _minor(A: Tensor, row: int, column: int) -> Tensor:
    """The determinant without a row and a column."""
    n = A.shape[-1]
    rows = [A.select(-2, i) for i in range(n) if i != row]
    kept = F.stack(rows, -2)
    return F.linalg_det(F.stack([kept.select(-1, j) for j in range(n) if j != column], -1))


def slogdet_backward(sign_grad: Tensor, log_grad: Tensor, A: Tensor, sign: Tensor) -> Tensor:
    """``inv(A).mH`` times the gradient of the logarithm; NaN for a singular matrix, whose logarithm is -inf."""
    factor = log_grad.to(A.dtype)
    if A.is_complex():
        factor = factor + 1j * _imag(sign_grad * sign.conj())
    apart = (sign == 0).unsqueeze(-1).unsqueeze(-1)
    one = F.eye(A.shape[-1], dtype=A.dtype, device=A.device)
    inverse = F.linalg_inv(F.where(apart, one, A))
    return F.where(apart, float("nan"), factor.unsqueeze(-1).unsqueeze(-1) * adjoint(inverse))


# --------------------------------------------------------------------------------------- eigenvalues, singular values


def _without_phase(grad: Tensor, turn: Tensor, vectors: Tensor) -> Tensor:
    """The gradient of complex vectors before their phase was settled.

    Each column was turned until its pivot was real; ``turn`` says, for each, how the loss changes with the angle.
    """
    size = vectors.detach().abs()
    large = (size >= NEAR * F.max(size, -2, True)[0]).to(size.dtype)
    first = F.argmax(large, -2, True)
    rows = F.arange(vectors.shape[-2], device=vectors.device).unsqueeze(-1)
    at_pivot = (rows == first).to(vectors.dtype)
    pivot = (vectors * at_pivot).sum(-2, True)
    return grad + at_pivot * (1j * (turn.unsqueeze(-2) / pivot.real()))


def _turned(grad: Tensor, vectors: Tensor) -> Tensor:
    """How a loss changes with the angle that each column is turned back by."""
    return _imag((grad * vectors.conj()).sum(-2))


def _differences(values: Tensor, squares: bool = False) -> Tensor:
    """``values[j] - values[i]``, or of their squares; with infinities on the diagonal, whose quotients are 0."""
    across, down = values.unsqueeze(-2), values.unsqueeze(-1)
    difference = (across - down) * (across + down) if squares else across - down
    one = F.eye(values.shape[-1], dtype=values.dtype, device=values.device)
    return F.where(one == 1, float("inf"), difference)


def eigh_backward(grad_values: Tensor, grad_vectors: Tensor, values: Tensor, vectors: Tensor) -> Tensor:
    """``V (diag(gL) + (V.mH gV) / E) V.mH`` with the differences of eigenvalues in E."""
    if not values.numel():
        return vectors * 0
    if vectors.is_complex():
        grad_vectors = _without_phase(grad_vectors, -_turned(grad_vectors, vectors), vectors)
    inner = (adjoint(vectors) @ grad_vectors) / _differences(values)
    inner = inner + F.diag_embed(grad_values).to(vectors.dtype)
    return vectors @ inner @ adjoint(vectors)


def eigvalsh_backward(grad: Tensor, self: Tensor, UPLO: str) -> Tensor:
    """``V diag(gL) V.mH``; the vectors are computed for it."""
    vectors = F.linalg_eigh(self, UPLO)[1]
    return (vectors * grad.unsqueeze(-2)) @ adjoint(vectors)


def svdvals_backward(grad: Tensor, A: Tensor) -> Tensor:
    """``U diag(gS) Vh``; the vectors are computed for it."""
    u, _, vh = F.linalg_svd(A, False)
    return (u * grad.unsqueeze(-2)) @ vh


def svd_backward(gu: Tensor, gs: Tensor, gvh: Tensor, u: Tensor, s: Tensor, vh: Tensor) -> Tensor:
    """The gradient of all vectors; those that ``full_matrices`` adds turn with the others, not among each other."""
    k, m, n = s.shape[-1], u.shape[-2], vh.shape[-1]
    if not s.numel():
        return F.matmul(u.narrow(-1, 0, k), vh.narrow(-2, 0, k)) * 0
    u, gu = _first(u, gu, k)
    v, gv = _first(adjoint(vh), adjoint(gvh), k)
    vh, gvh = adjoint(v), adjoint(gv)
    if u.is_complex():
        turn = -_turned(gv, v) - _turned(gu, u)
        gu = _without_phase(gu, turn, u)
    left, right = adjoint(u) @ gu, vh @ adjoint(gvh)
    gap = _differences(s, squares=True)
    across, down = s.unsqueeze(-2), s.unsqueeze(-1)
    inner = (left - adjoint(left)) / gap * across + down * ((right - adjoint(right)) / gap)
    inner = inner + F.diag_embed(gs).to(u.dtype)
    if u.is_complex():
        inner = inner + F.diag_embed(1j * _imag(_diagonal(left)) / s)
    result = u @ inner @ vh
    if m > k:
        scaled = gu / across
        result = result + (scaled - u @ (adjoint(u) @ scaled)) @ vh
    if n > k:
        scaled = gvh / down
        result = result + u @ (scaled - (scaled @ adjoint(vh)) @ vh)
    return result


def _first(vectors: Tensor, grad: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The first k columns, and their gradient with that of the others, which stay orthogonal to them."""
    first, own = vectors.narrow(-1, 0, k), grad.narrow(-1, 0, k)
    more = vectors.shape[-1] - k
    if not more:
        return first, own
    rest, other = vectors.narrow(-1, k, more), grad.narrow(-1, k, more)
    if rest.is_complex():
        other = _without_phase(other, -_turned(other, rest), rest)
    return first, own - rest @ (adjoint(other) @ first)


def qr_backward(gq: Tensor, gr: Tensor, q: Tensor, r: Tensor, mode: str) -> Tensor:
    """Of the square part as in Giles; further columns are ``Q @ R`` of their own.

    Raises:
        AutogradError: Q is empty, or has columns that the matrix does not determine.
    """
    if mode == "r":
        raise AutogradError('linalg_qr: mode "r" has no gradient, for it takes Q' + fix('use mode="reduced"'))
    m, n, k = q.shape[-2], r.shape[-1], q.shape[-1]
    if mode == "complete" and m > n:
        raise AutogradError(
            f'linalg_qr: mode "complete" of {m} rows and {n} columns has no gradient: the last {m - n} columns of Q '
            "are any that are orthogonal" + fix('use mode="reduced"')
        )
    more = n > k
    if more:
        rest = r.narrow(-1, k, n - k)
        grad_rest = gr.narrow(-1, k, n - k)
        gq = gq + q @ (rest @ adjoint(grad_rest))
        r, gr = r.narrow(-1, 0, k), gr.narrow(-1, 0, k)
    inner = gr @ adjoint(r) - adjoint(q) @ gq
    both = F.triu(inner, 1)
    real = F.diag_embed(_diagonal(inner).real().to(inner.dtype))
    right = gq + q @ (both + adjoint(both) + real)
    grad = F.linalg_solve_triangular(adjoint(r), right, upper=False, left=False)
    return F.cat([grad, q @ grad_rest], -1) if more else grad


def pinv_backward(grad: Tensor, result: Tensor, self: Tensor) -> Tensor:
    """The derivative of Golub and Pereyra, transposed."""
    p, ph, gh = result, adjoint(result), adjoint(grad)
    first = ph @ grad @ ph
    second = (ph @ (p @ gh)) - (ph @ (p @ gh) @ p) @ self
    third = gh @ (p @ ph) - self @ (p @ (gh @ (p @ ph)))
    return second + third - first
