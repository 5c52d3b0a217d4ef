"""Operators that would share one name in generated code."""

from __future__ import annotations

import pytest

from tensorplay_core.codegen.contract_model import NativeFunction
from tensorplay_core.codegen.contract_names import colliding, constant, node_name
from tensorplay_core.codegen.yaml_loader import Location, Source
from tensorplay_core.types.schema import parse_schema

PLACE = Location(Source("f.yaml", "one\ntwo"), 1, 1)


def functions(*names: str, inplace: bool = False) -> list[NativeFunction]:
    schemas = [parse_schema(f"{name}(Tensor self) -> Tensor") for name in names]
    return [NativeFunction(schema, inplace=inplace, location=PLACE) for schema in schemas]


@pytest.mark.parametrize(
    ("name", "wanted"),
    [("max.dim", "MAX_DIM"), ("add_", "ADD_"), ("H", "H_OP"), ("_x", "_X"), ("__and__", "_AND__"), ("__a.b", "_A_B")],
)
def test_constants_are_not_changed_inside_a_class(name: str, wanted: str) -> None:
    """Python changes names there that start with two underscores."""
    assert constant(name) == wanted and not wanted.startswith("__")


@pytest.mark.parametrize(
    ("name", "wanted"),
    [("sum", "SumBackward"), ("max.dim", "MaxDimBackward"), ("_f", "_FBackward"), ("__and__.x", "_AndXBackward")],
)
def test_names_of_nodes(name: str, wanted: str) -> None:
    assert node_name(name) == wanted


@pytest.mark.parametrize("names", [("max.dim", "max_dim"), ("f", "F"), ("f", "f_op"), ("a::f", "b::f"), ("_f", "__f")])
def test_two_operators_of_one_name(names: tuple[str, str]) -> None:
    assert (len(list(colliding(functions(*names)))) == 1) is (
        constant(names[0].split("::")[-1]) == constant(names[1].split("::")[-1])
    )


def test_an_in_place_variant_has_a_name_too() -> None:
    (error,) = colliding([*functions("add", inplace=True), *functions("ADD_")])
    assert error.startswith("f.yaml:1: 'ADD_' and 'add_' are both ADD_ in generated code; rename one (the other is at")
    assert list(colliding([*functions("add", inplace=True), *functions("add_")])) == []  # told by itself elsewhere
