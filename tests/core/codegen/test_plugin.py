"""A contract of a package of its own: what it may use, what it must not do, and where its files go."""

from __future__ import annotations

import importlib
import math
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tensorplay as tp
from tensorplay_core.codegen.context import DOCS_HEADER, PACKAGE, CodegenContext, own_folders
from tensorplay_core.codegen.generate import TARGETS, generate, texts
from tensorplay_core.codegen.plugin import files_of, load_plugin, package_of
from tensorplay_core.dispatch.library import Library
from tensorplay_core.dispatch.registry import REGISTRY
from tensorplay_core.errors import ContractError, RegistrationError, ShapeError
from tensorplay_core.ops import autograd_kernels

Package = Callable[..., Any]
FUNCTIONS = """\
- func: mine::blend(Tensor self, Tensor other, float weight=0.5) -> Tensor
  variants: function, method
  inplace: true
  out: true
  shape: broadcast
  promote: float
  tags: pointwise
- func: mine::bounds(Tensor self, Tensor other) -> (Tensor low, Tensor high)
  out: true
  shape: two
  promote: default
- func: mine::warm(Tensor self) -> Tensor
  math: self * sigmoid(self) + self
- func: mine::by_hand(Tensor self) -> Tensor
  composite: implicit
"""
DERIVATIVES = """\
- name: mine::blend
  self: weighted(grad, 1 - weight)
  other: weighted(grad, weight)
- name: mine::bounds
  self: where(self <= other, grads[0], grads[1])
  other: where(self <= other, grads[1], grads[0])
"""
HELPERS = "def weighted(grad, weight):\n    return grad * weight\n"
SHAPES = """\
from tensorplay_core.ops.shapes import broadcast


def two(op, self, other):
    shape = broadcast(op, self, other)
    return shape, shape
"""
HANDWRITTEN = 'def by_hand(input):\n    """Written by hand."""\n    return input + 1\n'


@pytest.fixture
def mine(package: Package) -> Any:
    made = package(FUNCTIONS, DERIVATIVES, helpers=HELPERS, shapes=SHAPES, handwritten=HANDWRITTEN)
    lib = Library("mine", "IMPL")
    lib.impl("blend", lambda x, y, weight: x * (1 - weight) + y * weight, "CPU", level="array")
    lib.impl("bounds", _bounds, "CPU", level="array")
    yield made
    lib.close()


def _bounds(x: Any, y: Any) -> Any:
    import numpy

    return numpy.minimum(x, y), numpy.maximum(x, y)


def folder_of(made: Any) -> Path:
    return Path(str(made.__file__)).parent


def contract(folder: Path, functions: str, derivatives: str = "") -> Path:
    """A package with a contract, in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "__init__.py").touch()
    (folder / "native_functions.yaml").write_text(functions, encoding="utf-8")
    if derivatives:
        (folder / "derivatives.yaml").write_text(derivatives, encoding="utf-8")
    return folder


# what it gives


def test_functions_methods_in_place_out_and_gradients(mine: Any) -> None:
    for slow in (False, True, False):
        with tp.testing.force_slow_path() if slow else tp.enable_grad():
            x = tp.tensor([1.0, 5.0], dtype=tp.float64, requires_grad=True)
            y = tp.tensor([3.0, 1.0], dtype=tp.float64, requires_grad=True)
            blended: Any = x
            for z in (mine.blend(x, y, 0.25), blended.blend(y, weight=0.25)):
                assert z.tolist() == [1.5, 4.0] and type(z._node).__name__ == "BlendBackward"
            target: Any = tp.tensor([1.0, 5.0])
            assert target.blend_(tp.tensor([3.0, 1.0])) is target and target.tolist() == [2.0, 3.0]
            low, high = mine.bounds(x, y)
            (low * 2 + high).sum().backward()
            assert x.grad is not None and y.grad is not None
            assert x.grad.tolist() == [2.0, 1.0] and y.grad.tolist() == [1.0, 2.0]
            outs = tp.zeros(2, dtype=tp.float64), tp.zeros(2, dtype=tp.float64)
            found = mine.bounds(x.detach(), y.detach(), out=outs)
            assert found.low is outs[0] and found[1] is outs[1] and outs[0].tolist() == [1.0, 1.0]
    assert tp.autograd.gradcheck(lambda a, b: mine.blend(a, b, 0.3), [x, y])
    assert tp.autograd.gradgradcheck(mine.bounds, [x, y])


def test_the_operators_are_like_built_in_ones(mine: Any) -> None:
    op = REGISTRY.find("mine::blend")
    assert op.fast and op.slot == "k_mine__blend" and op.function is mine.blend and op.node.op is op
    x = tp.ones(2)
    mine.blend(x, x)
    assert callable(x._type.__dict__["k_mine__blend"]), "the second call takes the fast path"
    assert "k_mine__blend_" in x._type.__dict__
    assert tp.ops.mine.blend(x, x).tolist() == [1.0, 1.0] == tp.ops.mine.blend_.default(tp.ones(2), x).tolist()
    assert mine.blend.__doc__.startswith(
        f"{folder_of(mine).name}.blend(input, other, weight=0.5, *, out=None) -> Tensor"
    )
    assert tp.explain(mine.blend, x, x).steps[-1].key is not None


def test_math_of_a_plugin_is_made_of_our_operators(mine: Any) -> None:
    x = tp.tensor([0.0, 1.0, -2.0], dtype=tp.float64, requires_grad=True)
    wanted = [v / (1 + math.exp(-v)) + v for v in (0.0, 1.0, -2.0)]
    assert mine.warm(x).tolist() == pytest.approx(wanted, rel=1e-12)
    assert tp.autograd.gradcheck(mine.warm, [x])


def test_a_shape_rule_of_its_own(mine: Any) -> None:
    with pytest.raises(ShapeError, match="mine::bounds"):
        mine.bounds(tp.ones(2), tp.ones(3))


def test_what_is_written_by_hand_takes_the_place_of_what_would_be_generated(mine: Any) -> None:
    assert mine.by_hand.__doc__ == "Written by hand." and mine.by_hand(tp.ones(1)).item() == 2.0
    context = load_plugin([folder_of(mine)], folder_of(mine))
    assert context.handwritten == {"by_hand": f"{folder_of(mine).name}.handwritten"}
    assert generate(context, check=True).handwritten == ("by_hand",)
    assert "def by_hand" not in texts(context)["_generated_functional_mine.py"]
    public = importlib.import_module(f"{folder_of(mine).name}._generated_public")
    assert set(public.__all__) == {"blend", "bounds", "warm", "by_hand"}


# importing it again


def reload_all(package: str) -> None:
    order = (
        "schemas_mine",
        "functional_mine",
        "inplace_mine",
        "nodes_mine",
        "functional",
        "methods",
        "autograd",
        "install",
    )
    for name in order:
        importlib.reload(sys.modules[f"{package}._generated_{name}"])


@pytest.mark.parametrize("how", ["install", "everything", "anew"])
def test_it_may_be_imported_again(mine: Any, how: str) -> None:
    package = folder_of(mine).name
    op = REGISTRY.find("mine::blend")
    if how == "install":
        importlib.reload(sys.modules[f"{package}._generated_install"])
    elif how == "everything":
        reload_all(package)
    else:
        for module in [m for m in sys.modules if m.partition(".")[0] == package]:
            del sys.modules[module]
        importlib.import_module(f"{package}._generated_install")
    functional: Any = importlib.import_module(f"{package}._generated_functional")
    assert REGISTRY.find("mine::blend") is op, "its kernels are still there"
    assert functional.blend.__module__ == f"{package}._generated_functional_mine"
    x: Any = tp.tensor([1.0, 3.0], requires_grad=True)
    for _ in range(3):
        y = functional.blend(x, x.detach(), 0.25)
        assert type(y._node) is sys.modules[f"{package}._generated_nodes_mine"].BlendBackward
        assert y.tolist() == [1.0, 3.0] == x.blend(x).tolist()
    y.sum().backward()
    assert x.grad.tolist() == [0.75, 0.75]


def test_a_changed_signature_takes_the_place_of_the_old_one(mine: Any) -> None:
    folder = folder_of(mine)
    path = folder / "native_functions.yaml"
    path.write_text(path.read_text("utf-8").replace("float weight=0.5", "float weight=0.25"), encoding="utf-8")
    written = generate(load_plugin([folder], folder)).written
    assert "_generated_schemas_mine.py" in written
    for name in written:
        os.utime(folder / name, (1, 1))  # a reload within one second would take the old byte code
    before = REGISTRY.find("mine::blend")
    reload_all(folder.name)
    after = REGISTRY.find("mine::blend")
    assert after is not before and after.schema.argument("weight").default.value == 0.25  # type: ignore[union-attr]
    with pytest.raises(tp.KernelMissing):  # the kernel was one of the old signature
        mine.blend(tp.ones(2), tp.ones(2))
    reload_kernels = Library("mine", "IMPL")
    reload_kernels.impl("blend", lambda x, y, weight: x * (1 - weight) + y * weight, "CPU", level="array")
    assert sys.modules[f"{folder.name}._generated_functional"].blend(tp.ones(1), tp.ones(1) * 5).item() == 2.0
    reload_kernels.close()


def test_an_operator_of_somebody_else_is_not_replaced(mine: Any, package: Package) -> None:
    with pytest.raises(RegistrationError, match=r"mine::warm is defined twice: at .*_generated_schemas_mine.py"):
        package("- func: mine::warm(Tensor self) -> Tensor\n")


def test_a_method_of_somebody_else_is_not_replaced(mine: Any, package: Package) -> None:
    with pytest.raises(RegistrationError) as caught:
        package("- func: others::blend(Tensor self) -> Tensor\n  variants: function, method\n")
    assert f"puts the method 'blend' on Tensor, which has it from {folder_of(mine).name}" in str(caught.value)
    assert "take `method` out of the record's variants" in str(caught.value)


def test_autograd_has_one_kernel_for_each(mine: Any) -> None:
    for name in ("blend", "bounds", "warm", "blend_"):
        stack = REGISTRY.find(f"mine::{name}").table["Autograd"]
        assert len(stack) == 1 and stack[0].owner == autograd_kernels.CORE


# the files


def test_a_second_run_rewrites_nothing_and_a_deleted_line_is_shown(mine: Any) -> None:
    folder = folder_of(mine)
    context = load_plugin([folder], folder)
    before = {p.name: p.stat().st_mtime_ns for p in folder.glob("_generated_*")}
    assert generate(context).clean
    assert {p.name: p.stat().st_mtime_ns for p in folder.glob("_generated_*")} == before
    path = folder / "_generated_nodes_mine.py"
    lines = path.read_text("utf-8").splitlines(keepends=True)
    gone = lines.pop(next(i for i, line in enumerate(lines) if "weighted" in line and "return" not in line))
    path.write_text("".join(lines), encoding="utf-8")
    result = generate(context, check=True)
    assert result.written == (path.name,) and f"+{gone}" in result.diffs[0]
    for each in folder.glob("_generated_*"):
        each.unlink()
    assert set(generate(context).written) == set(before) and generate(context, check=True).clean


def test_pages_go_where_they_are_asked_for(mine: Any, tmp_path: Path) -> None:
    folder = folder_of(mine)
    result = generate(load_plugin([folder], folder, docs=tmp_path / "pages"))
    assert all(name.startswith("docs/") for name in result.written) and result.written
    for page in (tmp_path / "pages").rglob("*.md"):
        assert page.read_text("utf-8").startswith(DOCS_HEADER)
    assert any("mine::blend" in page.read_text("utf-8") for page in (tmp_path / "pages").rglob("*.md"))


def test_every_target_goes_through(mine: Any) -> None:
    folder = folder_of(mine)
    context = load_plugin([folder], folder)
    for target in TARGETS:
        made = texts(context, (target,))
        assert generate(context, (target,), check=True).clean
        for name, text in made.items():
            assert name.startswith("_generated_") and "tensorplay_core.ops._generated_schemas" not in text


# what it must not do


@pytest.mark.parametrize(
    ("functions", "parts"),
    [
        (
            "- func: softer(Tensor self) -> Tensor\n",
            ("native_functions.yaml:1: 'softer' is in the namespace 'tp', which holds the built-in operators only",
             "fix: name the plugin's: `mypackage::softer(...)`"),
        ),
        (
            "- func: tp::softer(Tensor self) -> Tensor\n",
            ("'softer' is in the namespace 'tp'",),
        ),
        (
            "- func: a::f(Tensor self) -> Tensor\n- func: b::g(Tensor self) -> Tensor\n",
            ("native_functions.yaml:2: 'b::g' is in another namespace than 'a::f'", "give this one a folder"),
        ),
        (
            "- func: a::exp(Tensor self) -> Tensor\n  variants: function, method\n",
            ("a method 'exp' for 'exp': Tensor has it already: core's contract makes it, at ",
             "fix: take `method` out of `variants`"),
        ),
        (
            "- func: a::numpy(Tensor self) -> Tensor\n  variants: method\n",
            ("Tensor has it already: it is written by hand in tensorplay_core/tensor/tensor.py",),
        ),
        ("- func: a::f(Tensor self) -> Tensor\n  shape: brodcast\n", ("Did you mean 'broadcast'",)),
        ("", ("the contract has no operators",)),
    ],
)  # fmt: skip
def test_a_contract_that_is_wrong(tmp_path: Path, functions: str, parts: tuple[str, ...]) -> None:
    folder = contract(tmp_path / "pack", functions)
    with pytest.raises(ContractError) as caught:
        load_plugin([folder / "native_functions.yaml"], folder)
    assert all(part in str(caught.value) for part in parts), caught.value
    assert not list(folder.glob("_generated_*"))


def test_a_formula_names_what_there_is(tmp_path: Path) -> None:
    folder = contract(
        tmp_path / "pack", "- func: a::f(Tensor self) -> Tensor\n", "- name: a::f\n  self: helped(grad)\n"
    )
    with pytest.raises(ContractError, match="helped"):
        load_plugin([folder], folder)
    (folder / "helpers.py").write_text("def helped(grad):\n    return grad\n", encoding="utf-8")
    (derivative,) = load_plugin([folder], folder).contract.derivatives
    assert derivative.function.name == "f"
    (folder / "helpers.py").write_text("def helped(:\n", encoding="utf-8")
    with pytest.raises(
        ContractError, match=r"helpers.py: the generator reads the names of its functions, but it is not"
    ):
        load_plugin([folder], folder)


def test_the_name_of_a_package(tmp_path: Path) -> None:
    inner = contract(tmp_path / "outer" / "inner", "")
    (tmp_path / "outer" / "__init__.py").touch()
    assert package_of(inner) == "outer.inner"
    with pytest.raises(ContractError, match=r"holds no __init__.py, so the name .* cannot be told"):
        package_of(tmp_path)
    with pytest.raises(ContractError, match="'my-pack' is not a name of Python"):
        package_of(contract(tmp_path / "my-pack", ""))
    folder = contract(tmp_path / "my-pack", "- func: a::f(Tensor self) -> Tensor\n")
    for wrong in ("my-pack", "a..b", "a.class"):
        with pytest.raises(ContractError, match=rf"(?s)'{wrong}' is no name of a package.*fix: "):
            load_plugin([folder], folder, package=wrong)
    context = load_plugin([folder], folder, package="somewhere.else_")
    assert context.module("_generated_schemas_a") == "somewhere.else_._generated_schemas_a"


def test_files_and_folders_of_a_contract(tmp_path: Path) -> None:
    folder = contract(tmp_path / "p", "- func: a::f(Tensor self) -> Tensor\n", "- name: a::f\n  self: grad\n")
    (folder / "native_functions_more.yaml").write_text("- func: a::g(Tensor self) -> Tensor\n", encoding="utf-8")
    everything = ["native_functions.yaml", "native_functions_more.yaml", "derivatives.yaml"]
    assert [p.name for p in files_of([folder])] == everything
    assert [p.name for p in files_of([folder / "native_functions.yaml", folder / "native_functions_more.yaml"])] == [
        "native_functions.yaml", "derivatives.yaml", "native_functions_more.yaml",
    ]  # fmt: skip
    families = load_plugin([folder], folder).families
    assert {family: [f.name for f in found] for family, found in families.items()} == {"a": ["f"], "more": ["g"]}
    with pytest.raises(ContractError, match="there is no such file or folder"):
        files_of([tmp_path / "nowhere"])
    with pytest.raises(ContractError, match=r"(?s)holds no native_functions\*.yaml\nfix: "):
        files_of([tmp_path])
    with pytest.raises(
        ContractError, match=r"(?s)derivatives.yaml: holds derivatives.*\nfix: give its native_functions"
    ):
        files_of([folder / "derivatives.yaml"])


def test_the_folders_of_core_are_no_plugins(tmp_path: Path) -> None:
    folder = contract(tmp_path / "p", "- func: a::f(Tensor self) -> Tensor\n")
    (tmp_path / "link").symlink_to(PACKAGE / "ops")
    for out in (PACKAGE, PACKAGE / "ops", PACKAGE / "ops" / "new", PACKAGE / "autocast", tmp_path / "link"):
        with pytest.raises(ContractError, match=r"(?s)which has the files that core's own contract makes\nfix: "):
            load_plugin([folder], out)
    pages = own_folders()["docs"]
    assert pages is not None
    with pytest.raises(ContractError, match="core's own contract makes"):
        load_plugin([folder], folder, docs=pages)


def test_our_own_contract_is_no_plugins(ours: CodegenContext) -> None:
    assert ours.is_core and ours.plugin is None


@pytest.mark.parametrize("rule", ["two(self, other)", "two(op, self)", "two()"])
def test_a_shape_rule_that_cannot_be_called_is_told_with_what_it_is_given(package: Package, rule: str) -> None:
    shapes = SHAPES.replace("two(op, self, other)", rule)
    with pytest.raises(RegistrationError, match=r"(?s)its shape rule is two\(.*\nfix: write two\(op, self, other\)"):
        package(FUNCTIONS, DERIVATIVES, helpers=HELPERS, shapes=shapes, handwritten=HANDWRITTEN)
