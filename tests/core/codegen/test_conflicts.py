"""What is not emitted and why, and overloads that one call could mean: found before anything is written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import pytest

from tensorplay_core.codegen.conflicts import ambiguities, overload_sets
from tensorplay_core.codegen.context import CodegenContext
from tensorplay_core.codegen.contract import NativeFunction
from tensorplay_core.codegen.generate import texts
from tensorplay_core.errors import ContractError
from tensorplay_core.types.schema import parse_schema

Small = Callable[..., CodegenContext]


def shown(*signatures: str) -> list[str]:
    """The calls that could mean two of some overloads."""
    functions = [NativeFunction(schema=parse_schema(text)) for text in signatures]
    (group,) = overload_sets(functions).values()
    return [found.call for found in ambiguities(group)]


# calls that could mean two


@pytest.mark.parametrize(
    ("one", "other", "call"),
    [
        ("Tensor self, int dim", "Tensor self, int index", "f(x, 2)"),
        ("Tensor self", "Tensor self", "f(x)"),
        ("", "", "f()"),
        ("Tensor self, int dim=0", "Tensor self, float p=1.0", "f(x)"),
        ("Tensor self, int a, Scalar b", "Tensor self, Scalar a, int b", "f(x, 2, 2)"),
        ("Tensor self, int[] size", "Tensor self, int[] dims", "f(x, 2)"),
        ("Tensor self, *, int a=1", "Tensor self, *, int b=1", "f(x)"),
        ("Tensor self, *, int k", "Tensor other, *, int k", "f(x, k=2)"),
        ("Tensor self, int k", "Tensor self, *, int k", "f(x, k=2)"),
        ("Tensor self, Tensor[] a", "Tensor self, Tensor[] b", "f(x, [])"),
        ("Tensor self, str mode", "Tensor self, str name", 'f(x, "a")'),
    ],
)
def test_the_call_that_could_mean_two_is_shown(one: str, other: str, call: str) -> None:
    pair = (f"f({one}) -> Tensor", f"f.other({other}) -> Tensor")
    assert shown(*pair) == [call] == shown(*reversed(pair))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Tensor self, int dim", "Tensor self, Scalar other"),
        ("Tensor self, Scalar other", "Tensor self, Tensor other"),
        ("Tensor self", "Tensor self, int dim"),
        ("Tensor self, int dim", "Tensor self, int[] dims"),
        ("Tensor self, int[1]? dim", "Tensor self, *, int b=1"),
        ("Tensor self, Scalar? min=None", "Tensor self, Tensor? min=None"),
    ],
)
def test_what_the_rule_tells_apart_is_none(one: str, other: str) -> None:
    assert shown(f"f({one}) -> Tensor", f"f.other({other}) -> Tensor") == []


def test_a_third_overload_may_settle_it() -> None:
    two = ("f.a(Tensor self, int a, Scalar b) -> Tensor", "f.b(Tensor self, Scalar a, int b) -> Tensor")
    assert shown(*two) == ["f(x, 2, 2)"]
    assert shown(*two, "f.c(Tensor self, int a, int b) -> Tensor") == []


def test_the_error_shows_the_call_both_signatures_and_both_places(small: Small) -> None:
    records = "- func: f(Tensor self, int dim) -> Tensor\n- func: f.at(Tensor self, int index) -> Tensor\n"
    with pytest.raises(ContractError) as caught:
        _ = small(records).contract
    assert str(caught.value) == (
        "native_functions_small.yaml:2: `f(x, 2)` could mean both\n"
        "    f(Tensor self, int dim) -> Tensor\n"
        "    f.at(Tensor self, int index) -> Tensor\n"
        "  (the first is at native_functions_small.yaml:1)\n"
        "  2 | - func: f.at(Tensor self, int index) -> Tensor\n"
        "    |   ^\n"
        "fix: make the types of their arguments differ, or give one of them another name"
    )


def test_every_pair_is_told_at_once(small: Small) -> None:
    records = "".join(
        f"- func: {n}{o}(Tensor self, int {a}) -> Tensor\n" for n in "fg" for o, a in (("", "x"), (".b", "y"))
    )
    with pytest.raises(ContractError, match=r"(?s)`f\(x, 2\)` could mean both.*`g\(x, 2\)` could mean both"):
        _ = small(records).contract


def test_the_families_of_one_function_are_one(ours: CodegenContext) -> None:
    moved = [attrs.evolve(f, family="other") if f.base_name == "max.dim" else f for f in ours.contract.functions]
    context = attrs.evolve(ours, contract=attrs.evolve(ours.contract, functions=tuple(moved)))
    with pytest.raises(ContractError, match=r"the overloads of 'max' are in several families: other, reduction"):
        _ = context.contract


# variants that are left out


def left_out(context: CodegenContext) -> dict[str, tuple[str, str]]:
    return {s.name: (s.variant, s.reason) for s in context.skipped}


def test_a_record_of_its_own_takes_the_place_of_an_in_place_variant(small: Small) -> None:
    context = small(
        "- func: f(Tensor self) -> Tensor\n  inplace: true\n"
        "- func: f_(Tensor(a!) self) -> Tensor(a!)\n  variants: method\n"
    )
    assert left_out(context) == {"f_": ("in-place", "it has a record of its own, at native_functions_small.yaml:3")}
    made = texts(context)
    assert made["_generated_schemas_small.py"].count("F_ = ") == 1
    assert made["_generated_inplace_small.py"].count("def f_(") == 1


def test_an_in_place_variant_that_could_be_taken_for_a_record_is_left_out(small: Small) -> None:
    context = small(
        "- func: f(Tensor self, int dim) -> Tensor\n  inplace: true\n"
        "- func: f_.at(Tensor(a!) self, int index) -> Tensor(a!)\n"
    )
    assert left_out(context) == {"f_": ("in-place", "`f_(x, 2)` could mean 'f_.at' too")}
    assert "def f_(input: Tensor, index: int)" in texts(context)["_generated_inplace_small.py"]


def test_an_in_place_variant_with_an_aliass_name_is_left_out(small: Small) -> None:
    context = small(
        "- func: f(Tensor self) -> Tensor\n  inplace: true\n- func: g(Tensor self) -> Tensor\n  aliases: f_\n"
    )
    assert left_out(context) == {"f_": ("in-place", "'f_' is an alias of 'g'")}


def test_out_of_an_operator_that_has_its_own(small: Small) -> None:
    context = small(
        "- func: f(Tensor self) -> Tensor\n  out: true\n"
        "- func: f.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)\n"
        "- func: g(Tensor self, int out) -> Tensor\n  out: true\n"
    )
    assert left_out(context) == {
        "f(out=)": ("out", "'f.out', at native_functions_small.yaml:3, takes it"),
        "g(out=)": ("out", "it has an argument `out` of its own"),
    }
    text = texts(context)["_generated_functional_small.py"]
    assert "def g(input: Tensor, out: int) -> Tensor:" in text
    assert 'OverloadSet("f", {F_OP: _f__default, F_OUT: ' in text


def test_a_method_that_is_written_by_hand_is_left_out(small: Small) -> None:
    context = small(
        "- func: numpy(Tensor self) -> Tensor\n  variants: function, method\n"
        "- func: backward(Tensor self) -> Tensor\n  variants: method\n"
        "- func: __init__(Tensor self) -> Tensor\n  variants: method\n"
    )
    assert left_out(context) == {
        "numpy": ("method", "Tensor has it already: it is written by hand in tensorplay_core/tensor/tensor.py"),
        "backward": ("method", "Tensor has it already: it is written by hand in tensorplay_core/autograd/methods.py"),
        "__init__": ("method", "Tensor has it already: it belongs to every object of Python"),
    }
    made = texts(context)
    assert "def numpy(" in made["_generated_functional_small.py"]
    assert "def backward(" not in made["_generated_functional_small.py"], "nothing is left that would call it"
    assert "numpy =" not in made["_generated_methods.py"] and "__init__ =" not in made["_generated_methods.py"]


@pytest.mark.parametrize(("name", "reason"), [("lambda", "word of Python"), ("__getattr__", "meaning of its own")])
def test_a_name_that_no_function_can_have(small: Small, name: str, reason: str) -> None:
    context = small(f"- func: {name}(Tensor self) -> Tensor\n")
    assert reason in left_out(context)[name][1]
    made = texts(context)
    assert f'operator("{name}(Tensor self) -> Tensor")' in made["_generated_schemas_small.py"]
    assert f"def {name}(" not in made.get("_generated_functional_small.py", "")


def test_what_is_left_out_is_gone_from_the_records_that_targets_see(small: Small) -> None:
    context = small(
        "- func: numpy(Tensor self) -> Tensor\n  variants: function, method\n", "- name: numpy\n  self: grad\n"
    )
    (function,) = context.contract.functions
    assert function.variants == ("function",)
    derivative: Any = context.derivative(function)
    assert derivative.function is function


def test_our_own_contract_leaves_nothing_out(ours: CodegenContext) -> None:
    assert ours.skipped == ()
