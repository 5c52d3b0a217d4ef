"""PyTorch's own contract goes through our grammar and our formula language; the change of spelling does what it says."""

# ruff: noqa: E501 (formulas stand as PyTorch writes them)

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tensorplay_core.codegen.formula.parser import parse_formula

pytestmark = pytest.mark.peers

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))
try:
    import pytorch_contract
    import pytorch_records
    from pytorch_spelling import change
finally:
    sys.path.remove(str(BENCHMARKS))

# C++, and what it becomes
SPELLINGS = {
    # words
    "grad * true": "grad * True",
    "at::where(self > 0, grad, 0)": "where(self > 0, grad, 0)",
    "f(grad, at::Reduction::None, M_PI)": "f(grad, 0, pi)",
    "f(grad, c10::MemoryFormat::Contiguous, ::std::nullopt)": 'f(grad, "contiguous_format", None)',
    # numbers and strings
    "1.f * 2. + .5 - 3e-5": "1.0 * 2.0 + 0.5 - 3e-05",
    'not_implemented("a ? b : c && d")': 'not_implemented("a ? b : c && d")',
    'f(grad, /*rounding_mode=*/"trunc")': 'f(grad, "trunc")',
    # operators
    "a && b || !c": "a and b or not c",
    "-a * -(b - c)": "-a * -(b - c)",
    "(a == 0.) & (b <= 1)": "logical_and(a == 0.0, b <= 1)",
    "a * *b": "a * b",
    "dtype.has_value() ? *dtype : self.scalar_type()": "dtype if dtype is not None else self.dtype",
    # conditions
    "a ? b : c ? d : e": "b if a else d if c else e",
    "a ? b ? c : d : e": "(c if b else d) if a else e",
    "(a ? b : c) * f(d ? e : g)": "(b if a else c) * f(e if d else g)",
    "a || b ? c : d": "c if a or b else d",
    # members
    "self.sym_sizes()": "self.shape",
    "bias->sym_sizes()": "bias.shape",
    "self.sym_size(-1) * self.sym_numel()": "self.size(-1) * self.numel()",
    "grad.to(self.scalar_type())": "grad.to(self.dtype)",
    "grad.defined() ? grad : Tensor()": "grad if grad is not None else None",
    "!weight.defined()": "weight is None",
    "f(padding.size(), dim.value_or(IntArrayRef({})))": "f(len(padding), [] if dim is None else dim)",
    "alpha.toDouble() * alpha.isComplex()": "alpha * alpha.is_complex()",
    "grad.expand_symint({ a.sym_size(0), 1 }).bmm(b)": "grad.expand([a.size(0), 1]).bmm(b)",
    # brackets and templates
    "f(grad, {{1, 1}}, {}, {true, false})": "f(grad, [1, 1], [], [True, False])",
    "std::get<1>(f(grad, std::get<0>(g(x))))": "f(grad, g(x)[0])[1]",
    "c ? f(grad) : std::tuple<Tensor, Tensor>()": "f(grad) if c else (None, None)",
    "std::tuple<Tensor, Tensor>(a, b)": "(a, b)",
    "std::vector<c10::SymInt>(padding.size(), 0)": "[0] * len(padding)",
    "std::vector<Tensor>(list.size())": "[None] * len(list)",
    "std::optional<Tensor>(a)": "a",
    "result[i].options()": "result[i].options()",
}


@pytest.mark.parametrize("text", SPELLINGS)
def test_the_change_of_spelling(text: str) -> None:
    assert str(parse_formula(change(text))) == SPELLINGS[text]


@pytest.mark.parametrize(
    "text",
    [
        "grad * other",
        "f(grad.sum(dim, keepdim), self_t) / 2",
        "grads[0] + grads[1]",
        "-grad",
        'f("it\'s")',
        "a - b - c",
        "",
    ],
)
def test_what_is_the_same_in_both_stays(text: str) -> None:
    assert change(text) == text


@pytest.mark.parametrize(
    "text", ["f([](c10::SymInt i){return -i;})", "a ?", "a ? b", "f(", ")", "a) * b", "f(a]", "a; b", "x = 1", "a b"]
)
def test_what_is_no_formula_stays_none(text: str) -> None:
    assert pytorch_contract.formula_fault(text) is not None


def test_the_rest_is_counted_by_reason() -> None:
    items = [("a", "f(Tensr x) -> Tensor"), ("b", "g(Tnsor x) -> Tensor"), ("c", "f(Tensor x) -> Tensor")]
    items += [("d", "f( Tensor x) -> Tensor")]
    row = pytorch_contract.measured("signatures", 0.5, items, pytorch_contract.signature_fault)
    assert (row["taken"], row["of"], row["share"]) == (1, 4, 0.25)
    assert [(left["count"], left["example"]) for left in row["left"]] == [
        (2, "a: f(Tensr x) -> Tensor"),
        (1, "d: f( Tensor x) -> Tensor"),
    ]


def test_the_committed_operators_read_back(tmp_path: Path) -> None:
    operators = pytorch_records.read()
    assert len(operators) > 1500 and sum(bool(o.formulas) for o in operators) > 500
    pytorch_records.write(operators, tmp_path / "again.txt")
    assert (tmp_path / "again.txt").read_bytes() == pytorch_records.DATA.read_bytes()


# PyTorch's files


def files() -> tuple[Path, Path]:
    spec = importlib.util.find_spec("torchgen")
    if spec is None or spec.origin is None:
        pytest.skip("torchgen is not installed: pip install torch, and PyTorch's own contract is read")
    packaged = Path(spec.origin).parent / "packaged"
    return packaged / "ATen/native/native_functions.yaml", packaged / "autograd/derivatives.yaml"


def test_pytorchs_own_contract() -> None:
    script = [sys.executable, str(BENCHMARKS / "pytorch_contract.py"), *map(str, files()), "--check", "--json"]
    done = subprocess.run(script, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    signatures, formulas = json.loads(done.stdout)["rows"]
    assert signatures["of"] > 2000 and signatures["share"] >= 0.99
    assert formulas["of"] > 1000 and formulas["share"] >= 0.90
    for row in (signatures, formulas):
        assert row["taken"] + sum(left["count"] for left in row["left"]) == row["of"]
        assert all(left["example"] and left["reason"] for left in row["left"])


def test_the_operators_come_from_pytorchs_files() -> None:
    operators, left_out = pytorch_records.extract(*files())
    assert len(operators) > 1500 and left_out < 60
    names = {operator.name for operator in operators}
    assert {"abs", "add.Tensor", "convolution", "max.dim"} <= names and not names & {"add_.Tensor", "add.out"}


def test_a_contract_of_such_records_is_generated() -> None:
    """The benchmark on a tenth of its records: everything compiles, a second run writes nothing, a family imports."""
    script = [sys.executable, str(BENCHMARKS / "codegen_scale.py"), "--records", "300", "--json", "--check"]
    done = subprocess.run(script, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    figures = json.loads(done.stdout)
    assert figures["records"] == 300 and figures["derivatives"] > 50 and figures["defined"] >= 250
    first, second = figures["runs"]["first run"], figures["runs"]["second run"]
    assert first["written"] == second["unchanged"] == figures["files"] - 2, "all but __init__.py and helpers.py"
    assert second["written"] == 0
