"""The account of a contract: nothing that is missing is missing in silence."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tensorplay_core.codegen.context import CodegenContext
from tensorplay_core.codegen.report import RAISES, report

Small = Callable[..., CodegenContext]


@pytest.mark.parametrize(
    ("record", "derivative", "reason", "declared"),
    [
        ("f(Tensor self) -> Tensor", "", RAISES, False),
        ("f(Tensor self) -> Tensor\n  promote: bool", "", RAISES, False),
        ("f(Tensor self) -> Tensor\n  composite: explicit", "", RAISES, False),
        ("f(Tensor self) -> Tensor\n  composite: implicit", "", "composite: implicit", True),
        ("f(int[] size) -> Tensor\n  tags: creation", "", "no input is a tensor", True),
        ("f(Tensor self) -> int", "", "no result is a tensor", True),
        ("f(Tensor self) -> ()", "", "no result is a tensor", True),
        ("f_(Tensor(a!) self) -> Tensor(a!)", "", "it only writes, to self", True),
        ("f(Tensor self, Tensor(a!) log, *, Tensor(b!) out) -> Tensor(b!)", "", "it only writes, to log, out", True),
        (
            "f(Tensor self) -> Tensor",
            "- name: f\n  output_differentiability: [false]\n",
            "no result has a gradient: output_differentiability at derivatives_small.yaml:1",
            True,
        ),
        (
            "f(Tensor self) -> Tensor",
            "- name: f\n  not_differentiable: [self]\n",
            "no input has a gradient: not_differentiable at derivatives_small.yaml:1",
            True,
        ),
    ],
)
def test_why_an_operator_has_no_derivative(
    small: Small, record: str, derivative: str, reason: str, declared: bool
) -> None:
    found = report(small(f"- func: {record}\n", derivative))
    (operator,) = found.without
    assert operator.reason.startswith(reason) and operator.declared is declared
    assert (found.operators, found.written, found.symbolic) == (1, 0, 0)


def test_derivatives_are_counted_by_where_they_come_from(small: Small) -> None:
    context = small(
        "- func: f(Tensor self) -> Tensor\n- func: g(Tensor self) -> Tensor\n  math: self * exp(self)\n",
        "- name: f\n  self: grad\n",
    )
    found = report(context)
    assert (found.written, found.symbolic, found.without) == (1, 1, ())


def test_what_is_left_out_and_what_is_written_by_hand(ours: CodegenContext, small: Small) -> None:
    found = report(small("- func: numpy(Tensor self) -> Tensor\n  variants: function, method\n"))
    (skipped,) = found.skipped
    assert (skipped.variant, skipped.name, skipped.operator) == ("method", "numpy", "numpy")
    assert found.as_json()["skipped"][0]["reason"].endswith("tensorplay_core/tensor/tensor.py")
    own = report(ours)
    assert own.handwritten["full"] == "ops/creation.py" and own.handwritten["conj"] == "ops/conversion.py"
    assert own.operators == len(ours.contract.functions) == own.written + own.symbolic + len(own.without)
    assert own.inplace == sum(f.inplace for f in ours.contract.functions)


def test_every_gap_in_our_contract_has_its_reason(ours: CodegenContext) -> None:
    assert [w for w in report(ours).without if not w.declared] == []
