"""Forward-mode formulas of derivative records: what may be written, and what is refused where it stands."""

# ruff: noqa: E501 (messages and files stand as they are)

from __future__ import annotations

from collections.abc import Callable

import pytest

from tensorplay_core.codegen.contract import Contract

Load = Callable[..., Contract]
Error = Callable[..., str]

D = "derivatives_test.yaml"
MUL = "- func: mul(Tensor self, Tensor other) -> Tensor\n  variants: function, method"
SUM = "- func: sum(Tensor self, int? dim=None) -> Tensor\n  variants: function, method"
GATHER = "- func: gather(Tensor self, int dim, Tensor index) -> Tensor\n  variants: function, method"
MAX = "- func: max.dim(Tensor self, int dim) -> (Tensor values, Tensor indices)"
COPY = "- func: set_(Tensor(a!) self, Tensor src) -> Tensor(a!)"
RECORDS = (MUL, SUM, GATHER, MAX, COPY)

GOOD = {
    "mul": "- name: mul\n  self: grad * other\n  other: grad * self\n  result: self_t * other + self * other_t",
    "mul, as PyTorch writes it": "- name: mul\n  self: grad * other\n  other: grad * self\n  result: other_t * self_p + self_t * other_p",
    "mul, elementwise": "- name: mul\n  self: grad * other\n  other: grad * self\n  result: auto_element_wise",
    "sum": "- name: sum\n  self: expand(grad, self.shape)\n  result: auto_linear",
    "gather": "- name: gather\n  self: expand(grad, self.shape)\n  not_differentiable: [index]\n  result: gather(self_t, dim, index)",
    "max.dim": "- name: max.dim\n  self: expand(grad, indices)\n  output_differentiability: [true, false]\n  values: gather(self_t, dim, indices)",
    "set_": "- name: set_\n  self: zeros_like(grad)\n  src: grad\n  result: zeros_like(self_t) + src_t",
}
HELPERS = {"expand", "zeros_like"}


@pytest.mark.parametrize("name", GOOD)
def test_formulas_that_are_linear_in_the_tangents(load: Load, name: str) -> None:
    (derivative,) = load(*RECORDS, derivatives=GOOD[name], helpers=HELPERS).derivatives
    assert derivative.result is not None
    assert str(derivative.result.expr) in GOOD[name]


def mul(result: str) -> str:
    return f"- name: mul\n  self: grad * other\n  other: grad * self\n  result: {result}"


ERRORS = {
    mul("self_t * other"): (
        f"{D}:4: the forward-mode formula does not read 'other_t', and 'other' has a gradient\n"
        "  4 |   result: self_t * other\n    |           ^\n"
        "fix: add its term; for one that is zero, `zeros_like(other_t)`"
    ),
    mul("self_t * other + other_t * self + 1"): (
        f"{D}:4: `1` reads no tangent, so the tangent of a result whose inputs have none would not be zero\n"
        "  4 |   result: self_t * other + other_t * self + 1\n    |                                             ^\n"
        "fix: each term reads one of self_t, other_t"
    ),
    mul("self_t * other - self * other"): (
        f"{D}:4: `-self * other` reads no tangent, so the tangent of a result whose inputs have none would not be zero\n"
        "  4 |   result: self_t * other - self * other\n    |                            ^\n"
        "fix: each term reads one of self_t, other_t"
    ),
    mul("self_t * other_t"): (
        f"{D}:4: `self_t * other_t` is not linear in the tangents: both sides read one\n"
        "  4 |   result: self_t * other_t\n    |           ^"
    ),
    mul("self_t * other + self / other_t"): (
        f"{D}:4: `self / other_t` is not linear in the tangents: its right side reads one\n"
        "  4 |   result: self_t * other + self / other_t\n    |                            ^"
    ),
    mul("self_t ** 2 + other_t"): (
        f"{D}:4: `self_t ** 2` is not linear in the tangents: '**' is not\n"
        "  4 |   result: self_t ** 2 + other_t\n    |           ^"
    ),
    mul("other * (self_t + self) + other_t"): (
        f"{D}:4: `self_t + self` is not linear in the tangents: only one side reads one\n"
        "  4 |   result: other * (self_t + self) + other_t\n    |                    ^"
    ),
    mul("self_t * othr + other_t"): (
        f"{D}:4: no input or output is named 'othr'. Did you mean 'other' or 'other_t'?\n"
        "  4 |   result: self_t * othr + other_t\n    |                    ^"
    ),
    mul("grad * other + self_t + other_t"): (
        f"{D}:4: no input or output is named 'grad'. There are: other, self, result, other_t, self_t.\n"
        "  4 |   result: grad * other + self_t + other_t\n    |           ^"
    ),
    mul("auto_linear"): (
        f"{D}:4: 'mul' is not linear: the gradient of other reads the value of 'self'\n"
        "  4 |   result: auto_linear\n    |           ^"
    ),
    "- name: sum\n  self: expand(grad, self.shape)\n  result: auto_element_wise": (
        f"{D}:2: the gradient of 'self' is not seen to be `grad` times a factor, as auto_element_wise needs it\n"
        "  2 |   self: expand(grad, self.shape)\n    |         ^\n"
        "fix: write the tangent as a formula: `result: ... self_t ...`"
    ),
    "- name: gather\n  self: grad\n  not_differentiable: [index]\n  result: gather(self_t, dim, index_t)": (
        f"{D}:4: 'index' has no gradient, so it has no tangent. There are: self_t.\n"
        "  4 |   result: gather(self_t, dim, index_t)\n    |                               ^"
    ),
    "- name: max.dim\n  self: grads[0] + grads[1]\n  values: gather(self_t, dim, indices)": (
        f"{D}:3: 'max.dim' has no forward-mode formula for its result 'indices'\n"
        "  3 |   values: gather(self_t, dim, indices)\n    |           ^"
    ),
    "- name: max.dim\n  self: grad\n  output_differentiability: [true, false]\n  indices: gather(self_t, dim, indices)": (
        f"{D}:4: a forward-mode formula for 'indices', which has no gradient, so no tangent\n"
        "  4 |   indices: gather(self_t, dim, indices)\n    |            ^"
    ),
    "- name: max.dim\n  self: grad\n  output_differentiability: [true, false]\n  values: auto_linear": (
        f"{D}:4: auto_linear is for an operator with one result; 'max.dim' has several\n"
        "  4 |   values: auto_linear\n    |           ^"
    ),
    "- name: set_\n  self: zeros_like(grad)\n  src: grad\n  result: auto_linear": (
        f"{D}:4: 'set_' writes to its input, so it cannot be called with the tangent in its place\n"
        "  4 |   result: auto_linear\n    |           ^"
    ),
}


@pytest.mark.parametrize("text", ERRORS, ids=lambda text: text.rpartition("\n")[2].strip())
def test_what_is_refused(error: Error, text: str) -> None:
    assert error(*RECORDS, derivatives=text, helpers=HELPERS) == ERRORS[text]
