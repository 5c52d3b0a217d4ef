"""The public functions: one for each operator, with a signature and a text that help() shows."""

from __future__ import annotations

import inspect
import pydoc
import re
from collections.abc import Callable

import pytest

import tensorplay as tp
from tensorplay_core.codegen.context import HANDWRITTEN, CodegenContext, public_functions
from tensorplay_core.codegen.generate import generate, texts
from tensorplay_core.codegen.targets import functional
from tensorplay_core.codegen.targets.functional import is_public
from tensorplay_core.ops import _generated_functional as everything
from tensorplay_core.ops import conversion, creation, indexing

BODY = re.compile(r"^def (\w+)\(.*?(?=^def |^\w+ = |\Z)", re.M | re.S)

OWN = re.compile(r"def _\w+\(.*?\"\"\"``([\w.]+)``; see", re.S)
"""The function of an overload, and which."""


def bodies(context: CodegenContext) -> dict[str, str]:
    """The text of each generated function, by name; that of an overload by its full name, such as ``max.dim``."""
    files = texts(context, ("functional",))
    found = [(m[1], m[0]) for name, text in files.items() if "_functional_" in name for m in BODY.finditer(text)]
    own = {of[1]: body for _, body in found if (of := OWN.match(body))}
    return {name: body for name, body in found if OWN.match(body) is None} | own


# which functions there are


def test_every_operator_has_one_public_function_or_a_reason(ours: CodegenContext) -> None:
    """The reasons: a method only, private by its name, for gradients only. An overload shares its packet's function."""
    reasons: dict[str, str] = {}
    for record in ours.contract.functions:
        found = getattr(everything, record.name, None)
        if record.schema.is_inplace:
            assert found is None and not record.is_function
            reasons[record.base_name] = "writes to its first argument: a method"
            continue
        assert callable(found), f"{record.base_name} has no function"
        assert tp.ops.tp.__getattr__(record.name)._operators()[0].function is found
        if record.name.startswith("_"):
            reasons[record.base_name] = "private"
        elif "backward" in record.tags:
            reasons[record.base_name] = "for gradients only"
        else:
            if not record.is_function:
                assert not hasattr(tp, record.name) and record.is_method
                continue
            if record.short_name != record.name:  # tp.linalg.det for linalg_det
                assert getattr(getattr(tp, str(record.python_module)), record.short_name) is found
                assert not hasattr(tp, record.name)
                continue
            assert getattr(tp, record.name) is found, record.base_name
            assert all(getattr(tp, alias) is found for alias in record.aliases)
            if record.python_module == "nn":
                # That one is another function, with one argument more, or written by hand for this module alone.
                other = "inplace_flag" in record.tags or record.name in ours.nn_functions
                assert (getattr(tp.nn.functional, record.name) is found) is not other
            continue
        assert not is_public(ours, record.name) and not hasattr(tp, record.name), record.base_name
    assert (
        reasons.items()
        >= {
            "_to_copy": "private",
            "copy_": "writes to its first argument: a method",
            "fill_": "writes to its first argument: a method",
            "zero_": "writes to its first argument: a method",
            "index_put_": "writes to its first argument: a method",
            "index_backward": "for gradients only",
            "select_backward": "for gradients only",
            "slice_backward": "for gradients only",
            "gelu_backward": "for gradients only",
        }.items()
    )
    assert all("backward" in name for name, reason in reasons.items() if reason == "for gradients only")


def test_overloads_share_one_function(ours: CodegenContext) -> None:
    files = texts(ours, ("functional",))
    assert files["_generated_functional_reduction.py"].count("\ndef max(") == 4  # three stubs and the function
    x = tp.tensor([[1.0, 3.0], [2.0, 0.0]])
    assert tp.max(x).item() == 3.0
    values, indices = tp.max(x, 1)
    assert (values.tolist(), indices.tolist()) == ([3.0, 2.0], [1, 0])


def test_handwritten_functions_are_skipped_and_listed(ours: CodegenContext) -> None:
    assert (
        *("creation.py", "indexing.py", "conversion.py", "comparison.py", "products.py", "convolution.py"),
        *("joining.py", "random.py", "uniqueness.py"),
    ) == HANDWRITTEN
    generated = bodies(ours)
    listed = generate(ours, check=True).handwritten
    for module in (creation, indexing, conversion):
        for name in public_functions(ours.ops / f"{module.__name__.rpartition('.')[2]}.py"):
            assert name in listed and name not in generated
            assert getattr(everything, name) is getattr(module, name)
    assert {"tensor", "full", "arange", "conj", "to", "manual_seed"} <= set(listed)
    operators = {f.name for f in ours.contract.functions}
    assert {"full", "arange", "conj"} <= set(listed) & operators, "these take the place of a generated one"


def test_the_module_of_nn_holds_what_the_contract_tags_so(ours: CodegenContext) -> None:
    ours_of_nn = [f for f in ours.contract.functions if "nn" in f.tags or f.python_module == "nn"]
    wanted = {name for f in ours_of_nn for name in (f.name, *f.aliases)}
    wanted |= {f"{f.name}_" for f in ours_of_nn if "inplace_flag" in f.tags} | {*ours.nn_functions}
    assert set(tp.nn.functional.__all__) == wanted >= {"linear", "cross_entropy", "softmax", "relu", "tanh", "sigmoid"}


def test_a_method_without_a_function_has_one_that_tp_does_not_offer(small: Callable[..., CodegenContext]) -> None:
    context = small("- func: f(Tensor self) -> Tensor\n  variants: method\n- func: g(Tensor self) -> Tensor\n")
    files = texts(context)
    assert "def f(" in files["_generated_functional_small.py"] and '"f",' in files["_generated_functional.py"]
    assert '"f",' not in files["_generated_public.py"] and '"g",' in files["_generated_public.py"]
    assert "f = _generated_functional_small.f\n" in files["_generated_methods.py"]


# what help() shows


def test_help_of_add() -> None:
    shown = pydoc.render_doc(tp.add, renderer=pydoc.plaintext)
    for part in (
        "add(input: 'Tensor | Number', other: 'Tensor | Number', *, alpha: 'Number' = 1, out: 'Tensor | None' = None)",
        "tp.add(input, other, *, alpha=1, out=None) -> Tensor",
        "Adds ``alpha * other`` to ``input``.",  # the parameter's name, which the contract calls self
        "The inputs are promoted to one dtype, which the result has.",
        "Gradients:\n        self: grad\n        other: grad if alpha == 1 else grad * alpha",
    ):
        # Python 3.13 puts each parameter of a long signature on a line of its own.
        assert "".join(part.split()) in "".join(shown.split()).replace(",)", ")"), shown


def test_every_function_describes_itself(ours: CodegenContext) -> None:
    for record in ours.contract.functions:
        if not functional.is_generated(ours, record):
            continue
        function = getattr(everything, record.name)
        text = inspect.getdoc(function)
        assert text is not None
        prefix = f"{record.place}."
        head, _, rest = text.partition("\n\n")
        head = " ".join(head.split())
        assert head.startswith(f"{prefix}{record.short_name}(")
        assert head.endswith(
            (
                "-> Tensor",
                "-> tuple[Tensor, Tensor]",
                "-> tuple[Tensor, Tensor, Tensor]",
                "-> tuple[Tensor, Tensor, Tensor, Tensor]",
                "-> tuple[Tensor, ...]",
            )
        )
        flat = " ".join(rest.split())
        assert " ".join((record.doc or "No description.").replace("``self``", "``input``").split()) in flat
        derivative = ours.derivative(record)
        if derivative is not None and len(ours.overloads(record)) == 1:
            for formula in derivative.formulas:
                assert f"{formula.key}: {formula.expr}" in flat
        if len(ours.overloads(record)) == 1:
            names = [p.name for p in inspect.signature(function).parameters.values()]
            inside = head.partition("(")[2].rpartition(") ->")[0]
            shown = re.sub(r"\([^()]*\)|\[[^\[\]]*\]", "", inside).split(", ")  # a tuple's commas are none of it
            assert [part.partition("=")[0].lstrip("*") for part in shown if part != "*"] == names


@pytest.mark.parametrize(
    "doc",
    ['"quoted"', 'ends with a quote"', 'three """ quotes', "back\\slash \\n \\sum \\N{x}", "a\n    b", "{braces} %s"],
)
def test_any_description_is_one(small: Callable[..., CodegenContext], doc: str) -> None:
    record = "- func: f(Tensor self) -> Tensor\n  inplace: true\n  promote: keep\n  doc: |\n"
    record += "".join(f"    {line}\n" for line in doc.splitlines())
    text = texts(small(record))["_generated_functional_small.py"]
    scope: dict[str, object] = {}
    exec(text.partition("\n\n\n")[2], {"Tensor": object}, scope)
    assert doc.splitlines()[0] in str(scope["f"].__doc__)


# what a function does


def test_only_plain_functions_have_a_fast_path(ours: CodegenContext) -> None:
    found = {name for name, body in bodies(ours).items() if re.search(r"\._?type\.k_|= t\.k_", body)}
    decomposing = {f.base_name for f in ours.contract.functions if ours.is_fast(f) and f.composite == "implicit"}
    assert {"flatten", "movedim", "narrow", "t", "unflatten", "masked_fill.Scalar", "var.dim"} <= decomposing
    assert {
        *("add", "mul", "exp", "sum", "matmul", "reshape", "where", "eq", "softmax", "max", "max.dim", "topk"),
        *("cat", "index", "stack", "split_with_sizes", "split", "_embedding", "var.correction"),
    } <= found
    assert not found & {"zeros", "rand", "_to_copy", "div.Tensor_mode"}
    fast = [f for f in ours.contract.functions if ours.is_fast(f)]
    assert found == {f.base_name if len(ours.overloads(f)) > 1 else f.name for f in fast}


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ("f(Tensor self) -> Tensor[]", "the result is a list"),
        ("f(Tensor self, Tensor(a) other) -> Tensor(a)", "it is a view of another argument than the first"),
        ("f(Tensor self, *, ScalarType dtype) -> Tensor", "a dtype without a default decides what the result is"),
        ("f() -> Tensor", "there is no tensor whose type could be asked"),
        ("f(int k) -> Tensor", "there is no tensor whose type could be asked"),
        ("f(Tensor[] tensors, Tensor[] others) -> Tensor", "there are two lists"),
        ("f(Tensor?[] tensors) -> Tensor", "a list may hold None, and so has no first tensor"),
        ("f(Tensor(a) self) -> (Tensor(a), Tensor(a))", "two views"),
        ("f(Tensor self) -> (Tensor, Tensor[])", "one of two results is a list"),
        ("f(Tensor(a!) self) -> Tensor(a!)", "it writes"),
    ],
)
def test_what_keeps_a_function_off_the_fast_path(small: Callable[..., CodegenContext], schema: str, why: str) -> None:
    context = small(f"- func: {schema}\n  variants: function\n  promote: keep\n")
    assert not context.is_fast(context.contract.functions[0]), why
    assert "    try:\n" not in bodies(context)["f"]


def test_the_fast_path_of_lists_and_indices_asks_for_their_types(ours: CodegenContext) -> None:
    found = bodies(ours)
    assert "a = [x._array for x in tensors if x._type is t]" in found["cat"]
    assert "if len(a) == len(tensors) and dim.__class__ is int and not active.special:" in found["cat"]
    assert "for x in indices if x is None or x._type is t.index_type]" in found["index"]
    assert "indices._type is t.index_type" in found["_embedding"]


def test_the_fast_path_passes_plain_keywords_to_the_kernel(ours: CodegenContext) -> None:
    found = bodies(ours)
    body = found["linalg_solve_triangular"]
    assert "and upper.__class__ is bool\n" in body
    assert "upper=upper, left=left, unitriangular=unitriangular)" in body
    body = found["addcmul"]
    assert "((value.__class__ is int and value == 1) or (value.__class__ in (float, int)" in body
    assert "value=value)" in body
    assert (
        "LINALG_CHOLESKY_EX.node.record(y, input, upper=upper, check_errors=check_errors)"
        in found["linalg_cholesky_ex"]
    )
    assert "alpha=alpha)" not in found["add"].partition("call(")[0], "a ufunc takes no keywords"


def test_the_fast_path_is_left_when_a_keyword_is_changed(ours: CodegenContext) -> None:
    body = bodies(ours)["add"]
    condition = next(line for line in body.splitlines() if line.startswith("        if t is other._type and "))
    assert all(f" and {part}" in condition for part in ("alpha == 1", "out is None"))
    last = body.rstrip().splitlines()[-1].strip()
    assert last.startswith('return scaled(ADD, (input, other), {"alpha": alpha}, out)')
    x = tp.tensor([1.0, 2.0])
    assert tp.add(x, x, alpha=3).tolist() == [4.0, 8.0]
    out = tp.zeros(2)
    assert tp.add(x, x, out=out) is out and out.tolist() == [2.0, 4.0]


def test_an_argument_that_no_one_saves_is_not_read_after_the_kernel(ours: CodegenContext) -> None:
    body = bodies(ours)["eq"]
    assert "_node = n" not in body and "y._type = o = t.bool_type" in body


def test_creation_takes_out_and_requires_grad_once(small: Callable[..., CodegenContext]) -> None:
    context = small(
        "- func: made(int[] size, *, ScalarType? dtype=None, Device? device=None) -> Tensor\n"
        "  tags: creation\n  out: true\n"
        "- func: own(int k, *, bool requires_grad=False) -> Tensor\n  tags: creation\n"
    )
    text = texts(context)["_generated_functional_small.py"]
    assert 'return created(MADE, (size,), {"dtype": dtype, "device": device}, requires_grad, out)\n' in text
    assert "def own(k: int, *, requires_grad: bool = False) -> Tensor:" in text
    assert 'return call(OWN_OP, (k,), {"requires_grad": requires_grad})' in text


def test_out_of_several_results_and_of_overloads(small: Callable[..., CodegenContext]) -> None:
    text = texts(
        small(
            "- func: two(Tensor self) -> (Tensor a, Tensor b)\n  out: true\n"
            "- func: f(Tensor self) -> Tensor\n- func: f.dim(Tensor self, int dim) -> Tensor\n  out: true\n"
        )
    )["_generated_functional_small.py"]
    assert "def two(input: Tensor, *, out: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, Tensor]:" in text
    assert '_F_OVERLOADS = OverloadSet("f", {F_OP: _f__default, F_DIM: _f__dim}, ("dim",))\n' in text
    assert "def _f__dim(input: Tensor, dim: int, *, out: Tensor | None = None) -> Tensor:" in text


def test_an_alias_of_an_overload_is_one_of_the_function(small: Callable[..., CodegenContext]) -> None:
    context = small("- func: f(Tensor self) -> Tensor\n- func: f.k(Tensor self, int k) -> Tensor\n  aliases: also\n")
    assert "\nalso = f\n" in texts(context)["_generated_functional_small.py"]
