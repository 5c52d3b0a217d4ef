"""The generated forward-mode rules: what they look like, whatever the signature, and that a wrong one is noticed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tensorplay as tp
from tensorplay_core.codegen.context import CodegenContext
from tensorplay_core.codegen.generate import texts
from tensorplay_core.dispatch.registry import REGISTRY
from tensorplay_core.ops.forward_rules import Generated

fwAD = tp.autograd.forward_ad
Small = Callable[..., CodegenContext]


def rules(context: CodegenContext) -> str:
    return texts(context, ["forward"])["_generated_forward_small.py"]


def test_a_formula_is_cut_where_an_input_has_no_tangent(small: Small) -> None:
    text = rules(
        small(
            "- func: both(Tensor self, Tensor other) -> Tensor",
            "- name: both\n  self: exp(grad) * other\n  other: exp(grad)\n"
            "  result: exp(self_t) * other - self * other_t",
        )
    )
    assert (
        "    self_t, other_t = tangents\n"
        "    return total(\n"
        "        None if self_t is None else F.exp(self_t) * other,\n"
        "        None if other_t is None else -self * other_t,\n"
        "    )\n"
    ) in text
    assert (
        'RULES: dict[str, Generated] = {\n    "both": Generated("result", ("self", "other"), both_tangent),\n}' in text
    )


def test_a_term_of_two_tangents_gets_zeros_for_the_one_that_is_absent(small: Small) -> None:
    text = rules(
        small(
            "- func: both(Tensor self, Tensor other) -> Tensor",
            "- name: both\n  self: exp(grad)\n  other: exp(grad)\n  result: maximum(self_t, other_t)",
        )
    )
    assert "    other_t = filled(other_t, other)\n    self_t = filled(self_t, self)\n" in text
    assert "    return F.maximum(self_t, other_t)\n" in text


def test_a_linear_operator_is_called_with_the_tangents(small: Small) -> None:
    text = rules(
        small(
            "- func: join(Tensor[] xs, Tensor last, int dim=0, *, bool flag=False) -> Tensor",
            "- name: join\n  xs: '[grad]'\n  last: exp(grad)\n  result: auto_linear",
        )
    )
    assert 'return call(JOIN, (filled(xs_t, xs), filled(last_t, last), dim), {"flag": flag})' in text


def test_a_long_formula_is_broken_and_what_it_repeats_is_computed_once(small: Small) -> None:
    long = " + ".join(f"self_t * exp(exp(self)) * {number}" for number in range(1, 6))
    text = rules(small("- func: f(Tensor self) -> Tensor", f"- name: f\n  self: exp(grad)\n  result: {long}"))
    assert "shared_0 = self_t * F.exp(F.exp(self))\n" in text
    assert max(map(len, text.splitlines())) <= 120


def test_several_results(small: Small) -> None:
    text = rules(
        small(
            "- func: two(Tensor self) -> (Tensor y, Tensor where_)",
            "- name: two\n  self: grad * y\n  output_differentiability: [true, false]\n  y: self_t * y * where_",
        )
    )
    assert "    y, where_ = result\n    y_t = self_t * y * where_\n    return y_t, None\n" in text


@pytest.mark.parametrize("name", ["from", "tangents", "total", "call", "F"])
def test_any_name_of_an_argument(package: Callable[..., Any], name: str) -> None:
    module = package(
        f"- func: any_{name}::g(Tensor {name}, Tensor y, *, float z=2.0) -> Tensor\n  composite: explicit",
        f"- name: any_{name}::g\n  {name}: grad * y * z\n  y: grad * {name} * z\n"
        f"  result: {name}_t * y * z + {name} * y_t * z",
    )
    space = f"any_{name}"
    library = tp.library.Library(space, "IMPL")
    library.impl("g", lambda x, y, z=2.0: x * y * z, "Composite")
    try:
        with fwAD.dual_level():
            x = fwAD.make_dual(tp.tensor([3.0]), tp.tensor([1.0]))
            y = fwAD.make_dual(tp.tensor([5.0]), tp.tensor([10.0]))
            found = module.g(x, y, z=4.0)
            assert fwAD.unpack_dual(found).tangent.tolist() == [(1.0 * 5 + 3 * 10) * 4]
            assert isinstance(REGISTRY.operators[f"{space}::g"].__dict__["forward"], Generated)
    finally:
        library.close()


def test_our_rules_are_of_every_kind(ours: CodegenContext) -> None:
    text = "".join(texts(ours, ["forward"]).values())
    for kind in ("result", "linear", "elementwise"):
        assert f'Generated("{kind}"' in text
