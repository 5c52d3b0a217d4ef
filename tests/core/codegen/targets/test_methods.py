"""The methods: at run time the public functions themselves, for the type checker stubs with the same signatures."""

from __future__ import annotations

import ast
import inspect
import typing
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest

import tensorplay as tp
from tensorplay_core.codegen.context import CodegenContext
from tensorplay_core.codegen.generate import texts
from tensorplay_core.codegen.targets.methods import BINARY, COMPARISONS, UNARY
from tensorplay_core.codegen.targets.schemas import inplace_name
from tensorplay_core.dispatch.library import Library
from tensorplay_core.ops import _generated_functional as F


@cache
def stubs() -> dict[str, list[ast.FunctionDef]]:
    """The stubs of the mixin under ``if TYPE_CHECKING``, by name; several for overloads."""
    text = texts(CodegenContext.load(), ("methods",))["_generated_methods.py"]
    (checked,) = [n for n in ast.parse(text).body if isinstance(n, ast.If)]
    (mixin,) = [n for n in checked.body if isinstance(n, ast.ClassDef)]
    assert ast.unparse(checked.test) == "TYPE_CHECKING" and ast.unparse(mixin.bases[0]) == "TensorBase"
    found: dict[str, list[ast.FunctionDef]] = {}
    for node in mixin.body:
        if isinstance(node, ast.FunctionDef):
            found.setdefault(node.name, []).append(node)
    return found


def of_stub(node: ast.FunctionDef) -> str:
    arguments = node.args
    assert arguments.args[0].arg == "self" and arguments.args[0].annotation is None
    return f"({ast.unparse(arguments)}) -> {ast.unparse(node.returns) if node.returns else ''}"


def of_function(function: Callable[..., object]) -> str:
    """The signature of a function as a stub of its method would have it."""
    found = inspect.signature(function)
    first, *rest = found.parameters.values()
    # Parsed and printed again, so that spacing and quotes are those of the stub.
    text = str(found.replace(parameters=[first.replace(annotation=inspect.Parameter.empty), *rest]))
    (node,) = ast.parse(f"def f{text}: ...").body
    assert isinstance(node, ast.FunctionDef)
    for argument in (*node.args.args, *node.args.kwonlyargs, node.args.vararg):
        if argument is not None and isinstance(argument.annotation, ast.Constant):
            argument.annotation = ast.parse(str(argument.annotation.value)).body[0].value  # type: ignore[attr-defined]
    if isinstance(node.returns, ast.Constant):
        node.returns = ast.parse(str(node.returns.value)).body[0].value  # type: ignore[attr-defined]
    node.args.args[0].arg = "self"
    return f"({ast.unparse(node.args)}) -> {ast.unparse(node.returns) if node.returns else ''}"


def promised(context: CodegenContext) -> dict[str, str]:
    """The methods that the contract promises, with the name of the function behind each."""
    found: dict[str, str] = {}
    for record in context.contract.functions:
        if record.is_method:
            own = [record.name] if record.short_name == record.name else []  # a method of tp.linalg's has aliases
            found |= dict.fromkeys((*own, *record.aliases), record.name)
        if record.inplace:
            name = inplace_name(record).partition(".")[0]
            found[name] = name
    return found


def test_every_method_that_the_contract_promises_exists(ours: CodegenContext) -> None:
    methods = promised(ours)
    assert len(methods) > 60
    for name, function in methods.items():
        assert callable(getattr(tp.Tensor, name)), name
        if hasattr(F, function):
            assert inspect.getattr_static(tp.Tensor, name) is getattr(F, function), f"{name} is another function"


def test_every_method_has_a_stub_with_its_signature(ours: CodegenContext) -> None:
    compared = 0
    for name in promised(ours):
        if name in ours.handwritten:
            continue
        method = inspect.getattr_static(tp.Tensor, name)
        overloads = typing.get_overloads(method)
        found = [of_stub(node) for node in stubs()[name]]
        if overloads:
            found_by = [f for f in ours.contract.functions if name in (f.name, *f.aliases)]
            records = ours.overloads(found_by[0]) if found_by else ()
            offered = (
                [each for f, each in zip(records, overloads, strict=True) if f.is_method] if records else overloads
            )
            assert found[:-1] == [of_function(each) for each in offered]
            assert all(ast.unparse(d) == "overload" for node in stubs()[name][:-1] for d in node.decorator_list)
        else:
            assert found == [of_function(method)]
        compared += 1
    assert compared >= 60


def test_every_stub_is_bound(ours: CodegenContext) -> None:
    for name in stubs():
        assert inspect.getattr_static(tp.Tensor, name) is not None
    assert set(promised(ours)) - set(stubs()) == {"conj", "nonzero"}, "written by hand, in ops/methods.py"


def test_the_operators_of_python(ours: CodegenContext) -> None:
    for name, dunder in BINARY.items():
        assert f"__{dunder}__" in stubs()
        if name not in COMPARISONS:
            assert f"__r{dunder}__" in stubs()
            assert (f"__i{dunder}__" in stubs()) is next(f for f in ours.contract.functions if f.name == name).inplace
    assert all(f"__{dunder}__" in stubs() for dunder in UNARY.values())
    x = tp.tensor([1.0, 2.0])
    y = tp.tensor([4.0, 0.5])
    for found, wanted in (
        (x + y, [5.0, 2.5]),
        (3 - x, [2.0, 1.0]),
        (x * 2, [2.0, 4.0]),
        (1 / x, [1.0, 0.5]),
        (x**2, [1.0, 4.0]),
        (2**x, [2.0, 4.0]),
        (x @ y, 5.0),
        (-x, [-1.0, -2.0]),
        (abs(-x), [1.0, 2.0]),
        (x < y, [True, False]),
        (x == 2, [False, True]),
        (x <= 2, [True, True]),
    ):
        assert found.tolist() == wanted
    before = x
    x += y
    x *= 2
    assert x is before and x.tolist() == [10.0, 5.0]


class Stranger:
    """An operand that knows what to do with a tensor."""

    def __radd__(self, other: object) -> str:
        return "mine"

    __rmatmul__ = __rmul__ = __add__ = __gt__ = __radd__


@pytest.mark.parametrize("name", ["__add__", "__radd__", "__lt__", "__eq__", "__matmul__", "__rpow__"])
def test_a_stranger_is_not_refused_but_asked(name: str) -> None:
    assert getattr(tp.ones(2), name)(Stranger()) is NotImplemented
    x: Any = tp.ones(2)
    assert [x + Stranger(), Stranger() + x, x < Stranger(), x @ Stranger(), x * Stranger()] == ["mine"] * 5
    with pytest.raises(TypeError):
        x - Stranger()


def test_of_overloads_only_those_that_are_methods_have_stubs(small: Callable[..., CodegenContext]) -> None:
    two = "- func: f(Tensor self) -> Tensor\n- func: f.dim(Tensor self, int dim) -> Tensor\n  variants: method\n"
    text = texts(small(two))["_generated_methods.py"]
    assert "        def f(self, dim: int) -> Tensor: ...\n" in text
    assert "@overload" not in text.partition("TYPE_CHECKING:")[2]
    assert text.count(" f = ") == 1


def test_a_self_that_is_not_the_first_argument(package: Callable[..., Any]) -> None:
    """As in PyTorch, ``x.choose(condition, y)`` is ``choose(condition, x, y)``."""
    made = package(
        "- func: moved::choose(Tensor condition, Tensor self, Tensor other) -> Tensor\n  variants: function, method\n"
        "- func: moved::choose.Scalar(Tensor condition, Tensor self, Scalar other) -> Tensor\n  variants: method\n"
    )
    lib = Library("moved", "IMPL")
    for name in ("choose", "choose.Scalar"):
        lib.impl(name, lambda condition, self, other: tp.where(condition, self, other), "Composite")
    condition, x, y = tp.tensor([True, False]), tp.tensor([1.0, 2.0]), tp.tensor([5.0, 6.0])
    method: Any = x
    assert made.choose(condition, x, y).tolist() == [1.0, 6.0] == method.choose(condition, y).tolist()
    assert method.choose(condition, 0).tolist() == [1.0, 0.0] == method.choose(other=0, condition=condition).tolist()
    with pytest.raises(TypeError, match="choose: no overload takes"):
        method.choose(y)
    lib.close()
