"""Linear algebra where a sample cannot look: messages, what is read, large systems, and values to check by hand."""

from __future__ import annotations

import numpy as np
import pytest

import tensorplay as tp


@pytest.mark.parametrize(
    ("equation", "shapes", "said", "caret"),
    [
        ("ij,jk->iz", ((2, 3), (3, 2)), "label 'z' of the result is in no operand", "        ^"),
        ("ij,jk", ((2, 3), (2, 3)), "label 'j' of operand 1 has size 2, and had 3 in operand 0", "   ^"),
        ("i..j", ((2, 3),), "dots come in threes", " ^"),
        ("i1", ((2, 3),), "'1' is no label", " ^"),
        ("ij->ii", ((2, 3),), "label 'i' stands twice in the result", "    ^"),
        ("ijk", ((2, 3),), "operand 0 has 3 letters, and its tensor 2 dims", "^^^"),
        ("......", ((2, 3),), "dots stand twice in one operand", "   ^^^"),
    ],
)
def test_einsum_shows_where_an_equation_is_wrong(equation, shapes, said, caret):
    with pytest.raises(RuntimeError) as caught:
        tp.einsum(equation, *(tp.ones(shape) for shape in shapes))
    assert f"einsum: {said}\n  {equation}\n  {caret}" in str(caught.value)
    assert isinstance(caught.value, tp.TensorPlayError)


def test_einsum_counts_operands_and_takes_a_path():
    with pytest.raises(tp.TensorPlayError, match="has 2 operands, and 1 tensors"):
        tp.einsum("ij,jk", tp.ones(2, 2))
    a, b, c = (tp.tensor(np.random.default_rng(i).random(s)) for i, s in enumerate(((2, 3), (3, 4), (4, 5))))
    wanted = a.numpy() @ b.numpy() @ c.numpy()
    for path in (None, [0, 1, 0, 1], [1, 2, 0, 1]):
        np.testing.assert_allclose(tp.einsum("ij,jk,kl->il", a, b, c, path=path).numpy(), wanted)
    with pytest.raises(tp.TensorPlayError, match="contracts operands 0 and 7"):
        tp.einsum("ij,jk,kl->il", a, b, c, path=[0, 7, 0, 1])


def test_a_beta_of_0_leaves_nan_out():
    nothing = tp.full((2, 2), float("nan"))
    assert tp.addmm(nothing, tp.ones(2, 1), tp.ones(1, 2), beta=0).tolist() == [[1.0, 1.0], [1.0, 1.0]]
    assert tp.addmv(nothing[0], tp.ones(2, 1), tp.ones(1), beta=0).tolist() == [1.0, 1.0]


@pytest.mark.parametrize("name", ["mm", "bmm", "mv", "dot", "outer"])
def test_dims_are_those_that_an_operator_takes(name):
    with pytest.raises(tp.ShapeError, match=name):
        getattr(tp, name)(tp.ones(2, 2, 2, 2), tp.ones(2, 2, 2, 2))


def test_a_singular_matrix_is_named():
    x = tp.tensor([[[1.0, 0.0], [0.0, 1.0]], [[1.0, 2.0], [2.0, 4.0]]])
    for call in (tp.linalg.inv, lambda a: tp.linalg.solve(a, tp.ones(2, 2, 1))):
        with pytest.raises(tp.linalg.LinAlgError, match=r"\(batch element 1\) the matrix is singular"):
            call(x)
    assert issubclass(tp.linalg.LinAlgError, RuntimeError)


def test_the_leading_minor_is_named():
    x = tp.tensor([[4.0, 0.0, 0.0], [0.0, 1.0, 2.0], [0.0, 2.0, 1.0]])
    with pytest.raises(tp.linalg.LinAlgError, match="leading minor of order 3"):
        tp.linalg.cholesky(x)
    assert tp.linalg.cholesky_ex(tp.stack([tp.eye(3), x])).info.tolist() == [0, 3]
    with pytest.raises(tp.linalg.LinAlgError, match=r"\(batch element 1\)"):
        tp.linalg.cholesky(tp.stack([tp.eye(3), x]))


@pytest.mark.parametrize("dtype", [tp.float16, tp.bfloat16, tp.int64, tp.bool])
def test_what_lapack_has_not_is_refused(dtype):
    for call in (tp.linalg.inv, tp.linalg.cholesky, tp.linalg.eigh, tp.linalg.svd, tp.linalg.qr, tp.linalg.det):
        with pytest.raises(tp.DTypeError, match="takes float32, float64, complex64 and complex128"):
            call(tp.ones(2, 2).to(dtype))


@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("left", [False, True])
def test_triangular_systems_of_several_blocks(upper, left):
    rng = np.random.default_rng(0)
    a = rng.standard_normal((150, 150)) + 20 * np.eye(150)
    b = rng.standard_normal((150, 3) if left else (3, 150))
    x = tp.linalg.solve_triangular(tp.tensor(a), tp.tensor(b), upper=upper, left=left).numpy()
    t = np.triu(a) if upper else np.tril(a)
    np.testing.assert_allclose(t @ x if left else x @ t, b, atol=1e-10)


def test_vectors_have_a_definite_phase():
    rng = np.random.default_rng(1)
    x = rng.standard_normal((5, 5)) + 1j * rng.standard_normal((5, 5))
    for vectors in (tp.linalg.eigh(tp.tensor(x + x.conj().T))[1], tp.linalg.svd(tp.tensor(x))[0]):
        v = vectors.numpy()
        size = np.abs(v)
        first = (size >= 0.75 * size.max(0)).argmax(0)
        pivots = v[first, range(5)]
        np.testing.assert_allclose(pivots.imag, 0, atol=1e-12)
        assert (pivots.real > 0).all()


def test_multi_dot_takes_the_cheap_order():
    assert tp.linalg.multi_dot([tp.ones(10, 100), tp.ones(100, 5), tp.ones(5, 50)])[0, 0].item() == 500.0


def test_the_module_can_be_imported():
    import tensorplay.linalg as linalg

    assert linalg is tp.linalg and linalg.det is tp.linalg.det
    assert not hasattr(tp, "linalg_det") and not hasattr(tp.Tensor, "linalg_det")
