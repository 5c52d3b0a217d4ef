"""The list of operators that autocast has a rule for."""

from __future__ import annotations

from collections.abc import Callable

from tensorplay_core.autocast import RULES
from tensorplay_core.codegen.context import CodegenContext
from tensorplay_core.codegen.targets import autocast


def test_it_is_what_the_records_say(ours: CodegenContext) -> None:
    for policy, names in RULES.items():
        assert list(names) == [f.base_name for f in ours.contract.functions if f.autocast == policy]
    assert "matmul" in RULES["lower_precision_fp"] and "exp" in RULES["fp32"] and "cat" in RULES["promote"]


def test_a_file_of_few_lines(small: Callable[..., CodegenContext]) -> None:
    records = (
        "- func: f.x(Tensor self) -> Tensor\n  autocast: fp32\n"
        "- func: g(Tensor self) -> Tensor\n"
        "- func: mine::h(Tensor self) -> Tensor\n  autocast: banned\n"
    )
    ((name, text),) = autocast.generate(small(records))
    assert (autocast.FOLDER, name) == ("autocast", "_generated_rules.py")
    namespace: dict[str, object] = {}
    exec(text, namespace)
    assert namespace["RULES"] == {"lower_precision_fp": (), "fp32": ("f.x",), "promote": (), "banned": ("mine::h",)}


def test_no_file_where_no_record_has_a_policy(small: Callable[..., CodegenContext]) -> None:
    assert list(autocast.generate(small("- func: f(Tensor self) -> Tensor\n"))) == []
