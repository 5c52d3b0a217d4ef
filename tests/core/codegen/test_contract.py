"""The contract as a whole: files, families, problems shown at once, and records that do not go together."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tensorplay_core import errors
from tensorplay_core.codegen.contract import Contract, Source, load_contract
from tensorplay_core.errors import ContractError

Load = Callable[..., Contract]
Error = Callable[..., str]


F, D = "native_functions_test.yaml", "derivatives_test.yaml"
CONFIG = Path(errors.__file__).parent / "config"
ADD = (
    "- func: add(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor\n  variants: function, method\n  inplace: true"
)
SUM = "- func: sum(Tensor self, int[1]? dim=None, bool keepdim=False) -> Tensor\n  variants: function, method"
MAX = "- func: max.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)"


def test_overloads_families_and_names() -> None:
    contract = load_contract(
        [
            Source("native_functions_a.yaml", MAX),
            Source("native_functions.yaml", "- func: max(Tensor self) -> Tensor\n  aliases: top"),
        ]
    )
    assert [f.base_name for f in contract.overloads["max"]] == ["max.dim", "max"]
    assert [f.base_name for f in contract.overloads["top"]] == ["max"]
    assert list(contract.families) == ["a", ""]
    assert list(contract.by_name) == ["tp::max.dim", "tp::max"]


def test_the_shipped_contract_loads() -> None:
    """Names of helpers are checked by the generator, which knows them; everything else is checked here."""
    contract = load_contract(CONFIG, helpers=None)
    assert len(contract.functions) >= 45
    for function in contract.functions:
        assert function.doc, function.base_name


def test_all_problems_are_shown_at_once(error: Error) -> None:
    message = error(
        "- func: f(Tenso x) -> Tensor", "- func: g(Tensor x) -> Tensor\n  promote: x", "- func: h(Tensor x) -> Tensor"
    )
    assert message.startswith("2 problems in the contract\n\n")
    assert f"{F}:1: unknown type 'Tenso'" in message and f"{F}:3: unknown value of promote" in message
    many = error(*(f"- func: f{i}(Tenso x) -> Tensor" for i in range(50)))
    assert many.startswith("50 problems") and many.endswith("... and 30 more")


def test_derivatives_wait_for_sound_operators(error: Error) -> None:
    message = error("- func: f(Tenso x) -> Tensor", derivatives="- name: f\n  x: grad")
    assert "derivative" not in message


def test_a_folder_of_files(tmp_path: Path) -> None:
    (tmp_path / "native_functions_b.yaml").write_text(SUM)
    (tmp_path / "native_functions_a.yaml").write_text(ADD)
    (tmp_path / "derivatives_b.yaml").write_text("- name: sum\n  self: grad")
    (tmp_path / "other.yaml").write_text("- nothing")
    contract = load_contract(tmp_path)
    assert [f.family for f in contract.functions] == ["a", "b"] and len(contract.derivatives) == 1
    assert load_contract(tmp_path / "native_functions_a.yaml").functions == contract.functions[:1]
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(ContractError, match=r"empty: holds neither native_functions\*\.yaml nor derivatives\*\.yaml"):
        load_contract(empty)
    with pytest.raises(
        ContractError, match=r"native_function\.yaml: a contract file is named .* Did you mean 'native_functions'\?"
    ):
        load_contract(Source("native_function.yaml", ""))
