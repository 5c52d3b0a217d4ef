"""The table of meta kernels: every record is in it, under what its rules say."""

from __future__ import annotations

from collections.abc import Callable

import attrs

from tensorplay_core.codegen.context import CodegenContext, constant, public_functions
from tensorplay_core.codegen.targets import meta


def rows(context: CodegenContext) -> dict[str, list[str]]:
    """The rows of each table of the file, by the table's name."""
    ((name, text),) = meta.generate(context)
    assert name == "_generated_meta.py"
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        if ": tuple[" in line:
            current = found.setdefault(line.partition(":")[0], [])
        elif line.startswith("    "):
            current.append(line.strip().rstrip(","))
    return found


def test_each_record_of_our_contract_is_in_one_table(ours: CodegenContext) -> None:
    found = rows(ours)
    assert [*found] == ["BY_RULE", "HANDWRITTEN", "LEFT_TO_COMPOSITE", "WITHOUT"]
    assert sum(map(len, found.values())) == len(ours.contract.functions)
    assert '(pointwise.ADD, "broadcast", "default")' in found["BY_RULE"]
    assert '(creation.ZEROS, "sized", "created")' in found["BY_RULE"]
    assert '(creation.COPY_, "write", "self")' in found["BY_RULE"]
    assert "(reduction.MAX_DIM, kernels.max_dim)" in found["HANDWRITTEN"]
    left = [f for f in ours.contract.functions if f.shape is None and f.composite != "none"]
    assert {row.rpartition(".")[2] for row in found["LEFT_TO_COMPOSITE"]} == {
        "_TO_COPY",
        *("DIV_TENSOR_MODE", "LINALG_SOLVE_TRIANGULAR", "ROUND_DECIMALS"),  # every call gives a keyword
        *(constant(f.base_name) for f in left),
    }
    assert not found["WITHOUT"]


def test_every_view_and_no_other_handwritten_kernel_lacks_a_record(ours: CodegenContext) -> None:
    written = set(public_functions(ours.ops / "meta_kernels.py")) - {"by_rule", "derived"}
    assert written == {row.rpartition(".")[2].rstrip(")") for row in rows(ours)["HANDWRITTEN"]}
    views = [f for f in ours.contract.functions if f.schema.is_view and f.composite != "implicit"]
    assert {f.base_name for f in views} <= written


def test_what_each_kind_of_record_gives(small: Callable[..., CodegenContext]) -> None:
    records = """
- func: pointwise_one(Tensor self) -> Tensor
  shape: same
  promote: float
  composite: explicit
- func: permute(Tensor(a) self, int[] dims) -> Tensor(a)
  shape: permute
  promote: keep
- func: made(SymInt[] size, *, ScalarType? dtype=None, Device? device=None) -> Tensor
  shape: sized
  tags: creation
- func: made_of_others(Tensor self) -> Tensor
  composite: implicit
- func: moved(Tensor self, *, Device? device=None) -> Tensor
  shape: same
  tags: device
- func: another_view(Tensor(a) self) -> Tensor(a)
  shape: same
  promote: keep
- func: dtype_of_its_own(Tensor self) -> Tensor
  shape: same
- func: shape_of_its_own(Tensor self) -> Tensor
  promote: keep
- func: rounded(Tensor self, *, int decimals) -> Tensor
  shape: same
  promote: keep
  composite: explicit
"""
    assert rows(small(records)) == {
        "BY_RULE": ['(small.POINTWISE_ONE, "same", "float")', '(small.MADE, "sized", "created")'],
        "HANDWRITTEN": ["(small.PERMUTE, kernels.permute)"],
        "LEFT_TO_COMPOSITE": ["small.MADE_OF_OTHERS", "small.MOVED", "small.ROUNDED"],
        "WITHOUT": ['"tp::another_view"', '"tp::dtype_of_its_own"', '"tp::shape_of_its_own"'],
    }


def test_a_plugins_operators_need_no_table(ours: CodegenContext) -> None:
    assert [*meta.generate(attrs.evolve(ours, packages={"ops": "mine"}))] == []
