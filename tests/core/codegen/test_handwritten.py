"""What people wrote by hand is read from the text of their modules."""

from __future__ import annotations

from pathlib import Path

import pytest

import tensorplay as tp
from tensorplay_core.codegen.context import PACKAGE
from tensorplay_core.codegen.handwritten import keys_of, public_functions, tensor_members
from tensorplay_core.errors import ContractError
from tensorplay_core.ops import helpers
from tensorplay_core.ops.shapes import RULES


def test_public_functions_are_those_of_the_module(tmp_path: Path) -> None:
    path = tmp_path / "m.py"
    path.write_text(
        "import os\ndef f(): pass\ndef _g(): pass\nclass C:\n    def h(self): pass\nx = 1\n", encoding="utf-8"
    )
    assert public_functions(path) == ("f",) and public_functions(tmp_path / "none.py") == ()
    found = public_functions(PACKAGE / "ops/helpers.py")
    assert found and all(getattr(helpers, name).__module__ == helpers.__name__ for name in found)
    for family in (PACKAGE / "ops").glob("helpers_*.py"):
        assert all(hasattr(helpers, name) for name in public_functions(family)), "a formula calls it as H.name"
    path.write_text("def f(:\n", encoding="utf-8")
    with pytest.raises(
        ContractError, match=r"m.py: the generator reads the names of its functions, but it is not Python"
    ):
        public_functions(path)


def test_the_names_of_the_shape_rules() -> None:
    assert set(keys_of(PACKAGE / "ops/shapes.py", "RULES")) == {name for name in RULES if "." not in name}
    assert keys_of(PACKAGE / "ops/shapes.py", "NO_SUCH") == ()


def test_the_members_of_tensor() -> None:
    found = tensor_members(PACKAGE)
    assert {"shape", "numpy", "item", "backward", "detach", "to", "__len__", "__init__", "T", "_array"} <= set(found)
    assert not {"add", "exp_", "sum"} & set(found), "these are generated"
    assert all(hasattr(tp.Tensor, name) for name in found)
    assert found["item"] == "it is written by hand in tensorplay_core/tensor/tensor.py"
