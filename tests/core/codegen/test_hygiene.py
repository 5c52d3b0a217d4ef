"""Arguments and operators may have any name: generated code gives way, and still does the same."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest

import tensorplay as tp
from tensorplay_core.codegen.hygiene import apart
from tensorplay_core.dispatch.library import Library

NAMES = (
    *("c", "t", "r", "y", "o", "n", "w", "v", "n0", "call", "active", "share", "scalar_like", "scaled", "ints"),
    *(
        "next_number",
        "version_of",
        "STATE",
        "Tensor",
        "Exception",
        "pick",
        "spread",
        "second_name",
        "created",
        "input",
        "out",
    ),
    *("args", "kwargs", "from", "lambda", "in", "class", "None", "node", "record", "save", "unpack", "tuple", "len"),
    *("F", "H", "OWN", "SQUASH", "result", "graph", "op", "self_", "p0__", "_n", "inf", "Any", "int", "float"),
)


def test_nothing_changes_where_no_name_is_shared() -> None:
    assert apart(lambda names: [f"n = f({names['x']})"], {"x": "x"}, {"n", "f"}) == (["n = f(x)"], {})


def test_locals_and_imports_give_way() -> None:
    body, renamed = apart(
        lambda names: [f"n = call({names['n']}, {names['call']}.n)", 'return n.call, "n", n'],
        {"n": "n", "call": "call"},
        {"n", "call"},
    )
    assert body == ["_n = _call(n, call.n)", 'return _n.call, "n", _n']
    assert renamed == {"_call": "call", "_n": "n"}


def test_a_new_name_is_taken_by_nobody() -> None:
    body, renamed = apart(lambda names: [f"n = {names['n']} + {names['_n']}"], {"n": "n", "_n": "_n"}, {"n"})
    assert body == ["__n = n + _n"] and renamed == {"__n": "n"}


def test_what_the_module_defines_itself_is_not_taken_for_an_import() -> None:
    assert apart(lambda _: ["return call(1)"], {"x": "x"}, {"call"}, {"call"}) == (
        ["return _call(1)"],
        {"_call": "call"},
    )


@pytest.mark.parametrize("name", NAMES)
def test_an_argument_of_any_name(package: Callable[..., Any], name: str) -> None:
    """Positional, keyword-only, saved by the node; on the fast path, the slow one, in place and with ``out=``."""
    made = package(
        f"- func: hyg::squash(Tensor self, Scalar {name}, *, Scalar other=2) -> Tensor\n"
        "  shape: same\n  promote: float\n  inplace: true\n  out: true\n"
        f"- func: hyg::grown(Tensor self, *, Scalar {name}=3) -> Tensor\n  shape: same\n  promote: float\n",
        f"- name: hyg::squash\n  self: grad * {'1' if name in _NO_FORMULA else name} * other\n"
        "- name: hyg::grown\n  self: grad\n",
    )
    lib = Library("hyg", "IMPL")
    lib.impl("squash", lambda x, k, *, other=2: x * k * other, "CPU", level="array")
    lib.impl("grown", lambda x, **given: x * given.get(name, 3), "CPU", level="array")
    parameter = list(inspect.signature(made.squash).parameters)[1]
    assert parameter == (f"{name}_" if name in ("from", "lambda", "in", "class", "None") else name)
    wanted = [3.0 * 2, 6.0 * 2]
    for slow in (False, True, True, False):
        with tp.testing.force_slow_path() if slow else tp.enable_grad():
            x = tp.tensor([1.0, 2.0], requires_grad=True)
            for _ in range(3):
                y = made.squash(x, 3)
                assert y.tolist() == wanted == made.squash(x, **{parameter: 3}).tolist()
                assert made.squash_(tp.tensor([1.0, 2.0]), 3).tolist() == wanted
                assert made.grown(x.detach()).tolist() == [3.0, 6.0]
                assert made.grown(x, **{parameter: 4}).tolist() == [4.0, 8.0]
            if name != "out":
                out = tp.zeros(2)
                assert made.squash(x.detach(), 3, out=out) is out and out.tolist() == wanted
            y.sum().backward()
            assert x.grad is not None and x.grad.tolist() == [2.0 if name in _NO_FORMULA else 6.0] * 2
    lib.close()


_NO_FORMULA = ("lambda", "in", "class", "None", "from", "int", "float", "result", "inf")
"""Words that formulas have another meaning for, or none."""

OPERATORS = (
    "call",
    "share",
    "pick",
    "active",
    "Tensor",
    "STATE",
    "scalar_like",
    "scaled",
    "ints",
    "version_of",
    "next_number",
    "n",
    "ADDED",
)


def test_operators_of_any_name_beside_each_other(package: Callable[..., Any]) -> None:
    """Each is called as the helpers are that the other functions of its module use."""
    records = [f"- func: hyg::{name}(Tensor self) -> Tensor\n  shape: same\n  promote: float\n" for name in OPERATORS]
    both = "  shape: broadcast\n  promote: default\n"
    records.append(f"- func: hyg::added(Tensor self, Tensor other) -> Tensor\n{both}".replace("added", "add_up"))
    records.append("- func: hyg::of(Tensor self) -> Tensor\n- func: hyg::of.two(Tensor self, int k) -> Tensor\n")
    derivatives = "".join(f"- name: hyg::{name}\n  self: grad * self\n" for name in OPERATORS)
    made = package("".join(records), derivatives)
    lib = Library("hyg", "IMPL")
    for i, name in enumerate(OPERATORS):
        lib.impl(name, lambda x, i=i: x + i, "CPU", level="array")
    lib.impl("add_up", lambda x, y: x + y, "CPU", level="array")
    lib.impl("of", lambda x: x, "Composite")
    lib.impl("of.two", lambda x, k: x * k, "Composite")
    for _ in range(3):
        for i, name in enumerate(OPERATORS):
            x = tp.tensor([1.0, 2.0], requires_grad=True)
            y = getattr(made, name)(x)
            assert y.tolist() == [1.0 + i, 2.0 + i]
            y.sum().backward()
            assert x.grad is not None and x.grad.tolist() == [1.0, 2.0]
        assert made.add_up(x.detach(), 2).tolist() == [3.0, 4.0] and made.of(x.detach(), 3).tolist() == [3.0, 6.0]
    lib.close()


def test_self_and_input_are_two_arguments(package: Callable[..., Any]) -> None:
    made = package("- func: hyg::both(Tensor self, Tensor input, int axis=0, int dim=1) -> Tensor\n")
    assert list(inspect.signature(made.both).parameters) == ["self", "input", "axis", "dim"]


def test_defaults_of_every_type(package: Callable[..., Any]) -> None:
    made = package(
        "- func: hyg::many(Tensor self, float p=inf, int reduction=Mean, ScalarType dtype=long, "
        "Layout? layout=strided, int[2] k=[1, 2], int[] e=[], bool[2] b=[True, False], "
        "str s='it\\'s', Device d='cpu', float[1] o=[0.5]) -> Tensor\n"
    )
    found = {n: p.default for n, p in inspect.signature(made.many).parameters.items()}
    del found["input"]
    assert found == {
        "p": float("inf"), "reduction": 1, "dtype": tp.int64, "layout": "strided", "k": (1, 2), "e": (),
        "b": (True, False), "s": "it's", "d": "cpu", "o": (0.5,),
    }  # fmt: skip
