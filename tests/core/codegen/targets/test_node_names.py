"""What a signature calls its arguments does not decide whether the gradient is right."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import tensorplay as tp
from tensorplay_core.codegen.context import CodegenContext
from tensorplay_core.codegen.targets.node_names import LOCALS, apart
from tensorplay_core.dispatch.library import Library
from tensorplay_core.dispatch.registry import REGISTRY

MULTIPLY = """\
- name: names::f
  {a}: grad * {b}
  {b}: grad * {a} if needs[{b}] else None
"""


@pytest.fixture
def kernels() -> Iterator[Library]:
    library = Library("names", "IMPL")
    yield library
    library.close()


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("from", "lambda"),
        ("node", "graph"),
        ("unpack", "save"),
        ("F", "H"),
        ("record", "len"),
        ("each", "x"),
        ("grad_x", "x"),
        ("saved_x", "x"),
        ("edge_x", "x"),
        ("x", "x_shape"),
        ("shared_0", "others"),
    ],
)
def test_gradients_of_arguments_with_names_that_nodes_use(
    package: Callable[..., Any], kernels: Library, a: str, b: str
) -> None:
    module = package(f"- func: names::f(Tensor {a}, Tensor {b}) -> Tensor", MULTIPLY.format(a=a, b=b))
    kernels.impl("f", lambda one, two: one * two, "CPU", level="array")
    x, y = tp.tensor([2.0, 3.0]).double().requires_grad_(), tp.tensor([5.0, 7.0]).double().requires_grad_()
    assert tp.autograd.gradcheck(module.f, [x, y]) and tp.autograd.gradgradcheck(module.f, [x, y])
    (gradient,) = tp.autograd.grad(module.f(x, y.detach()).sum(), [x])
    assert gradient.tolist() == [5.0, 7.0]


def test_keyword_only_arguments_keep_their_names_for_callers(package: Callable[..., Any], kernels: Library) -> None:
    module = package(
        "- func: names::scaled(Tensor self, *, float node=2.0, float graph) -> Tensor",
        "- name: names::scaled\n  self: grad * node * graph",
    )
    kernel = lambda x, *, node=2.0, graph: x * node * graph  # noqa: E731
    kernels.impl("scaled", kernel, "CPU", level="array")
    x = tp.tensor([1.0], requires_grad=True)
    module.scaled(x, graph=3.0).backward()
    assert x.grad is not None and x.grad.tolist() == [6.0]
    x.grad = None
    module.scaled(x, node=5.0, graph=3.0).backward()
    assert x.grad.tolist() == [15.0]


def test_metadata_and_an_argument_of_its_name_stay_apart(package: Callable[..., Any], kernels: Library) -> None:
    """``self.shape`` is kept beside an argument that is called ``self_shape``."""
    module = package(
        "- func: names::spread(Tensor self, int[] self_shape) -> Tensor",
        "- name: names::spread\n  self: grad.sum(0).reshape(self.shape) * len(self_shape)",
    )
    kernel = lambda x, shape: x.reshape(1, -1) * 2 + 0 * x  # noqa: E731
    kernels.impl("spread", kernel, "CPU", level="array")
    x = tp.tensor([1.0, 2.0], requires_grad=True)
    module.spread(x, [7, 8]).sum().backward()
    assert x.grad is not None and x.grad.tolist() == [2.0, 2.0]


@pytest.mark.parametrize(("formula", "slope"), [("grad * pi", 3.141592653589793), ("grad * inf", float("inf"))])
def test_constants_are_there(package: Callable[..., Any], kernels: Library, formula: str, slope: float) -> None:
    module = package("- func: names::turn(Tensor self) -> Tensor", f"- name: names::turn\n  self: {formula}")
    kernels.impl("turn", lambda x: x * 2, "CPU", level="array")
    x = tp.tensor([1.0]).double().requires_grad_()
    module.turn(x).backward()
    assert x.grad is not None and x.grad.tolist() == [slope]


def test_the_gradient_of_one_of_several_results_is_grad(package: Callable[..., Any], kernels: Library) -> None:
    module = package(
        "- func: names::both(Tensor self) -> (Tensor one, Tensor twice)",
        "- name: names::both\n  self: grad * 2\n  output_differentiability: [false, true]",
    )
    kernels.impl("both", lambda x: (x * 1, x * 2), "CPU", level="array")
    x = tp.tensor([1.0], requires_grad=True)
    one, twice = module.both(x)
    twice.backward()
    assert not one.requires_grad and x.grad is not None and x.grad.tolist() == [2.0]


def test_most_records_stay_as_they_are(ours: CodegenContext) -> None:
    for derivative in ours.contract.derivatives:
        reserved = {"from", "nan"}  # of random_ and nan_to_num: a keyword, and a name of the formulas' own
        if not reserved & {a.name for a in derivative.schema.arguments}:
            assert apart(derivative, {"F", "H"}) == (derivative, {})


def test_a_new_name_is_no_other_argument(small: Callable[..., CodegenContext]) -> None:
    context = small(
        "- func: f(Tensor node, Tensor node_, Tensor self) -> Tensor save",
        "- name: f\n  node: grad * node_ * save\n  node_: needs[node]\n  self: grad",
    )
    (derivative,) = context.contract.derivatives
    changed, given = apart(derivative, ())
    assert given == {"node__": "node", "save_": "save"} and {"node", "save"} <= LOCALS
    assert [str(f.expr) for f in changed.formulas] == ["grad * node_ * save_", "needs[node__]", "grad"]
    assert [f.key for f in changed.formulas] == ["node__", "node_", "self"]
    assert changed.analysis.total.outputs == {"save_"} and changed.analysis.total.needs == {"node__"}


def test_whether_an_input_was_given_is_asked_by_its_name_in_the_function(
    package: Callable[..., Any], kernels: Library
) -> None:
    """``self`` is ``input`` in a function, in ``self is None`` too."""
    module = package(
        "- func: names::kept(Tensor self) -> Tensor\n  promote: keep\n  shape: same",
        "- name: names::kept\n  self: grad * 9 if self is None else grad * 4",
    )
    kernels.impl("kept", lambda x: x * 4, "CPU", level="array")
    x = tp.tensor([1.0, 2.0], requires_grad=True)
    for _ in range(2):  # the second call takes the fast path
        x.grad = None
        module.kept(x).sum().backward()
        assert x.grad is not None and x.grad.tolist() == [4.0, 4.0]
    assert REGISTRY.find("names::kept").fast
