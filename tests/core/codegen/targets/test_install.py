"""The module by whose import a plugin's operators come into force."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tensorplay_core.codegen.context import CodegenContext
from tensorplay_core.codegen.generate import texts
from tensorplay_core.codegen.plugin import load_plugin
from tensorplay_core.codegen.targets import install
from tensorplay_core.dispatch.registry import REGISTRY


def test_core_has_none(ours: CodegenContext) -> None:
    assert list(install.generate(ours)) == []


def test_it_imports_what_there_is_and_nothing_else(package: Callable[..., Any]) -> None:
    made = package("- func: few::f(Tensor self) -> Tensor\n  variants: method\n")
    folder = Path(str(made.__file__)).parent
    text = texts(load_plugin([folder], folder), ("install",))["_generated_install.py"]
    assert f"from {folder.name} import _generated_functional_few\n" in text
    assert f"from {folder.name} import _generated_methods\n" in text
    assert "inplace" not in text and "handwritten" not in text
    assert text.endswith(f'install("{folder.name}", "few", NODES, (_generated_functional_few,))\n')
    assert "import tensorplay_core.ops.load" in text, "core comes first, whoever imports what"


def test_it_may_be_the_first_thing_that_a_process_imports(package: Callable[..., Any], tree: Any) -> None:
    made = package("- func: few::f(Tensor self) -> Tensor\n  promote: keep\n", "- name: few::f\n  self: grad\n")
    folder = Path(str(made.__file__)).parent
    program = f"import sys; sys.path.insert(0, {str(folder.parent)!r}); import {folder.name}._generated_install"
    assert tree.python("-c", program + "; from tensorplay_core.dispatch.registry import REGISTRY as r; "
                       "print(r.find('few::f').node.__name__, r.find('few::f').kernel_at('Autograd').kernel_name)") == (
        "FBackward tensorplay_core.ops.autograd_kernels.FBackward\n"
    )  # fmt: skip


def test_every_operator_knows_its_function_and_its_node(package: Callable[..., Any]) -> None:
    made = package(
        "- func: few::f(Tensor self) -> Tensor\n  inplace: true\n  promote: keep\n"
        "- func: few::f.k(Tensor self, int k) -> Tensor\n",
        "- name: few::f\n  self: grad\n",
    )
    one, other, writes = (REGISTRY.find(f"few::{name}") for name in ("f", "f.k", "f_"))
    assert one.function is other.function is made.f and writes.function is made.f_
    assert one.node.op is one and other.node is None and writes.functional is one
