"""The operator objects: what a generated schema module says is what the contract says."""

from __future__ import annotations

from collections.abc import Callable

from tensorplay_core.codegen.context import CodegenContext, constant
from tensorplay_core.codegen.targets import schemas
from tensorplay_core.codegen.targets.schemas import inplace_name
from tensorplay_core.dispatch.registry import REGISTRY


def test_every_record_is_an_operator_with_the_same_signature_and_rules(ours: CodegenContext) -> None:
    expected = set()
    for record in ours.contract.functions:
        op = REGISTRY.operators[record.qualified_name]
        expected.add(record.qualified_name)
        assert str(op.schema) == str(record.schema) == op.schema_text
        assert (op.shape, op.promote, op.composite, op.autocast) == (
            record.shape,
            record.promote,
            record.composite,
            record.autocast,
        )
        assert op.tags == record.tags
        assert dict(op.promises) == {key: (kernel,) for key, kernel in record.dispatch.items()}
        assert op.fast is ours.is_fast(record)
        if record.inplace:
            form = REGISTRY.operators[f"tp::{inplace_name(record)}"]
            expected.add(form.qualified_name)
            assert form.functional is op and form.schema.is_inplace
    ours_in_registry = {name for name, op in REGISTRY.operators.items() if op.namespace == "tp"}
    assert ours_in_registry == expected


def test_constants_and_inplace_names(small: Callable[..., CodegenContext]) -> None:
    assert [constant(name) for name in ("add", "max.dim", "add_", "_to_copy")] == ["ADD", "MAX_DIM", "ADD_", "_TO_COPY"]
    records = "- func: f(Tensor self) -> Tensor\n- func: g.x(Tensor self) -> Tensor\n"
    (plain, overloaded) = small(records).contract.functions
    assert (inplace_name(plain), inplace_name(overloaded)) == ("f_", "g_.x")


def test_what_a_record_does_not_say_is_not_emitted(small: Callable[..., CodegenContext]) -> None:
    ((name, text),) = schemas.generate(small("- func: g(Tensor self) -> Tensor\n"))
    assert name == "_generated_schemas_small.py"
    assert text.endswith('\nG = operator("g(Tensor self) -> Tensor")\n')


def test_an_operator_may_be_named_as_something_that_generated_code_imports() -> None:
    assert [constant(name) for name in ("f", "h", "state", "saving")] == ["F_OP", "H_OP", "STATE_OP", "SAVING_OP"]


def test_quotes_and_long_signatures(small: Callable[..., CodegenContext]) -> None:
    arguments = ", ".join(f'str name_{i}="value {i}"' for i in range(8))
    record = f"- func: f(Tensor self, {arguments}) -> Tensor\n"
    ((_, text),) = schemas.generate(small(record))
    assert max(len(line) for line in text.splitlines()) <= 120
    found: list[str] = []
    exec(text.replace("from tensorplay_core.ops.define import inplace, operator", ""), {"operator": found.append})
    assert found == [f"f(Tensor self, {arguments}) -> Tensor"]


def test_an_operator_without_a_gradient_says_so(ours: CodegenContext) -> None:
    texts = dict(schemas.generate(ours))
    assert 'EQ = operator(\n    "eq(Tensor self, Tensor other) -> Tensor",' in texts["_generated_schemas_pointwise.py"]
    assert REGISTRY.find("eq").differentiable == (False,)
    assert texts["_generated_schemas_pointwise.py"].count("differentiable=False") == 6
