"""Gradients of elementwise operators turned into tangents: the same factor, conjugated back."""

from __future__ import annotations

import pytest

from tensorplay_core.codegen.formula.analysis import Scope
from tensorplay_core.codegen.formula.parser import parse_formula
from tensorplay_core.codegen.formula.transpose import transposed
from tensorplay_core.types.schema import parse_schema

SCOPE = Scope.of(parse_schema("f(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"))

TANGENTS = {
    "grad": "t",
    "-grad": "-t",
    "grad * other.conj()": "t * other",
    "other.conj() * grad": "other * t",
    "grad / (2 * result.conj())": "t / (2 * result)",
    "grad * (a * b).conj() + grad": "t * (a * b) + t",
    "grad * result": "t * conjugate(result)",
    "grad * (1 - result.conj() * result.conj())": "t * (1 - result * result)",
    "grad if alpha == 1 else grad * alpha": "t if alpha == 1 else t * alpha",
    "where(self == other, grad / 2, where(self == 0, 0, grad))": "where(self == other, t / 2, where(self == 0, 0, t))",
    "where(self < other, 0, grad * result)": "where(self < other, 0, t * result)",
    "grad * where(self == 0, 0, self.conj())": "t * where(self == 0, 0, self)",
    "zeros_like(grad)": "zeros_like(t)",
}


@pytest.mark.parametrize("gradient", TANGENTS)
def test_a_gradient_that_is_a_product(gradient: str) -> None:
    assert str(transposed(SCOPE, parse_formula(gradient), "t")) == TANGENTS[gradient]


@pytest.mark.parametrize(
    "gradient",
    [
        "grad.conj()",
        "grad.real()",
        "grad.sum()",
        "grad.reshape(self.shape)",
        "h(grad, self)",
        "grad * grad",
        "self / grad",
        "where(grad == 0, 0, grad)",
        "grad + 1",
        "grad if grad is None else grad",
    ],
)
def test_what_is_not_seen_to_be_one(gradient: str) -> None:
    assert transposed(SCOPE, parse_formula(gradient), "t") is None


def test_real_numbers_need_no_conjugation() -> None:
    assert str(transposed(SCOPE, parse_formula("grad * self"), "t", real=True)) == "t * self"
