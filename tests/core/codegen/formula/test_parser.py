"""The formula language: what parses, to what tree, how it prints, and what an error says."""

# ruff: noqa: E501 (messages stand as they are)

from __future__ import annotations

import contextlib
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensorplay_core.codegen.formula import ast
from tensorplay_core.codegen.formula.parser import MAX_NESTING, parse_formula
from tensorplay_core.codegen.formula.tokens import CONSTANTS, FormulaError
from tensorplay_core.errors import ContractError

# What hypothesis says about the recursive strategy below, not about the code.
pytestmark = pytest.mark.filterwarnings("ignore:Generating overly large repr")

# written; printed, where it differs
FORMULAS = {
    "grad * other.conj()": "",
    "-x ** 2": "",
    "(-x) ** 2": "",
    "-(x ** 2)": "-x ** 2",
    "2**-x": "2 ** -x",
    "a ** b ** c": "",
    "(a ** b) ** c": "",
    "a ** (b ** c)": "a ** b ** c",
    "a - b - c": "",
    "a - (b - c)": "",
    "(a - b) - c": "a - b - c",
    "a * (b / c)": "",
    "(a + b) * c": "",
    "((a)) + ((b))": "a + b",
    "a @ b // c % d": "",
    "--x": "",
    "-(a + b)": "",
    "-a * b": "",
    "a * -b": "",
    "not a and b or c": "",
    "not (a and b)": "",
    "a and (b or c)": "",
    "not a == b": "",
    "(not a) == b": "",
    "(a < b) == c": "",
    "a + 1 < b * 2": "",
    "x is None": "",
    "x is not None and y is None": "",
    "(x is None) == y": "",
    "a if b else c if d else e": "",
    "(a if b else c) if d else e": "",
    "a if (b if c else d) else e": "",
    "(a if b else c) + d": "",
    "where(x > 0, grad, 0)": "",
    "f()": "",
    "f(a, dim=-1, keepdim=True,)": "f(a, dim=-1, keepdim=True)",
    "grad.sum(dim, keepdim=True).reshape(self.shape)": "",
    "(a + b).conj().x": "",
    "(-x).abs()": "",
    "-x.abs()": "",
    "(1).real": "",
    "1.5.real": "(1.5).real",
    "x[0]": "",
    "x[1:, ::2, None, -1]": "",
    "x[:]": "",
    "x[a:b:c]": "",
    "x[::]": "x[:]",
    "x[(0, 1)]": "",
    "grads[0][1]": "",
    "(a, b)": "",
    "(a,)": "",
    "()": "",
    "[]": "",
    "[a, (b, c), [d],]": "[a, (b, c), [d]]",
    "needs[self]": "",
    "1e-5 * .5": "1e-05 * 0.5",
    "1. + 1E3": "1.0 + 1000.0",
    '\'mean\' == "su\\"m\\n"': '"mean" == "su\\"m\\n"',
    "inf - nan * pi": "",
    "a  \n + b": "a + b",
    "a if x[b if c else d] else (e, f)": "",
}


@pytest.mark.parametrize("written", FORMULAS)
def test_formulas_parse_and_print_minimally(written: str) -> None:
    expr = parse_formula(written)
    assert str(expr) == (FORMULAS[written] or written)
    assert parse_formula(str(expr)) == expr
    assert hash(parse_formula(str(expr))) == hash(expr)


@pytest.mark.parametrize("written", FORMULAS)
def test_formulas_mean_what_python_means(written: str) -> None:
    """The printed text is Python, and Python reads the same tree from the printed text as from the written one."""
    import ast as python

    assert python.dump(python.parse(str(parse_formula(written)), mode="eval")) == python.dump(
        python.parse(written.replace("\n", " "), mode="eval")
    )


def test_trees() -> None:
    grad, two = ast.Name("grad"), ast.Number("2")
    assert parse_formula("-grad ** 2") == ast.Unary("-", ast.Binary("**", grad, two))
    assert parse_formula("grad.sum(2, keepdim=True)") == ast.Method(
        grad, "sum", (two,), (("keepdim", ast.Constant("True")),)
    )
    assert parse_formula("f(grad)[2:]") == ast.Index(ast.Call("f", (grad,)), (ast.Slice(two),))
    assert parse_formula("grad is not None") == ast.IsNone(grad, negated=True)
    assert parse_formula("2 if grad else ()") == ast.Conditional(two, grad, ast.Tuple())


def test_numbers_of_different_kind_differ() -> None:
    assert parse_formula("1") != parse_formula("1.0")
    assert parse_formula("0.10") == parse_formula(".1")
    assert [parse_formula(text).value for text in ("7", "0.5", "1e3")] == [7, 0.5, 1000.0]  # type: ignore[attr-defined]


def test_a_number_node_is_a_number() -> None:
    with pytest.raises(ValueError, match="not a number"):
        ast.Number("-1")


def test_positions_point_at_what_an_error_would_be_about() -> None:
    expr = parse_formula("grad * other.conj(dim)")
    assert [node.position for node in ast.walk(expr)] == [5, 0, 13, 7, 18]


def test_transform_replaces_from_the_top() -> None:
    expr = parse_formula("f(x, y=[x, 1])[x:2] if x is None else -x")
    renamed = ast.transform(expr, lambda node: ast.Name("z") if node == ast.Name("x") else None)
    assert str(renamed) == "f(z, y=[z, 1])[z:2] if z is None else -z"
    assert ast.transform(expr, lambda node: None) is expr


ERRORS = {
    "": (0, "the formula is empty"),
    "grad *": (6, "expected a value, found the end of the formula"),
    "grad * )": (7, "expected a value, found ')'"),
    "grad other": (5, "expected an operator or the end of the formula, found 'other'"),
    "f(x": (3, "expected ',' or ')', found the end of the formula"),
    "(x": (2, "expected ',' or ')', found the end of the formula"),
    "[x": (2, "expected ',' or ']', found the end of the formula"),
    "x[": (2, "expected a value, found the end of the formula"),
    "x[]": (2, "expected an index, found ']'"),
    "x[1,]": (4, "expected an index, found ']'"),
    "x[, 1]": (2, "expected an index, found ','"),
    "x[1:2:3:4]": (7, "expected ',' or ']', found ':'"),
    "x.": (2, "expected the name of an attribute or a method, found the end of the formula"),
    "x.None": (2, "expected the name of an attribute or a method, found 'None'"),
    "a ? b : c": (2, "'?' is not in the formula language; write `a if condition else b`"),
    "a && b": (2, "'&&' is not in the formula language; write `and`"),
    "a || b": (2, "'||' is not in the formula language; write `or`"),
    "a->b": (1, "'->' is not in the formula language; write `.`"),
    "!a": (0, "'!' is not in the formula language; write `not`"),
    "a & b": (2, "'&' is not in the formula language; call logical_and or bitwise_and"),
    "at::sum(x)": (
        2,
        "expected an operator or the end of the formula, found ':'; an operator is called by its name alone, without a namespace",
    ),
    "{a}": (0, "'{' is not in the formula language; a list is written [a, b]"),
    "a $ b": (2, "'$' is not in the formula language"),
    "a < b < c": (6, "comparisons are not chained; write `a < b and b < c`"),
    "a is b": (5, "expected None after 'is', found 'b'; equality is written =="),
    "a is None + 1": (10, "an operator behind `is None`; put the comparison into parentheses"),
    "a is None is None": (10, "comparisons are not chained; write `a < b and b < c`"),
    "a = b": (2, "expected an operator or the end of the formula, found '='"),
    "(a = b)": (3, "expected ',' or ')', found '='; `=` names a keyword argument of a call"),
    "+a": (0, "a formula has no unary plus"),
    "a == not b": (5, "`not` binds looser than the operator before it; put it into parentheses"),
    "a if b": (6, "expected 'else'; a condition is written `a if condition else b`, found the end of the formula"),
    "(a)(b)": (3, "only operators, helpers and methods can be called, by their name"),
    "f(a=1, b)": (7, "a positional argument behind a keyword argument"),
    "f(a=1, a=2)": (7, "'a' cannot be given here, or is given twice"),
    "f(None=1)": (2, "'None' cannot be given here, or is given twice"),
    "2x": (1, "this number runs into a name"),
    "1e999": (0, "this number is too large for a float; write inf"),
    "007": (0, "an integer is written without leading zeros"),
    "9" * 50: (0, "this integer is too long"),
    "'abc": (0, "this string is not closed"),
    "'\\q'": (1, "unknown escape in a string"),
    "lambda: 0": (0, "'lambda' is a word of Python that formulas do not have; a formula is one expression"),
    "await grad": (0, "'await' is a word of Python that formulas do not have; a formula is one expression"),
    "lambda x: x": (0, "'lambda' is a word of Python that formulas do not have; a formula is one expression"),
    "[x for x in y]": (3, "'for' is a word of Python that formulas do not have; a formula is one expression"),
}


@pytest.mark.parametrize(
    "text", ["grad * lambda", "f(grad, from)", "x[from + 1]", "from if from > 0 else -from", "from"]
)
def test_an_argument_may_be_named_by_a_word_of_python(text: str) -> None:
    assert str(parse_formula(text)) == text


@pytest.mark.parametrize("text", ERRORS)
def test_errors_show_the_formula_and_the_place(text: str) -> None:
    position, reason = ERRORS[text]
    with pytest.raises(FormulaError) as caught:
        parse_formula(text)
    expected = f"{reason}\n  {text}\n  {' ' * position}^" if text else reason
    assert str(caught.value) == expected
    assert isinstance(caught.value, ContractError)


@pytest.mark.parametrize(
    "text",
    [
        "(" * 5000,
        "-" * 5000,
        "not " * 2000,
        "f(" * 3000,
        "x[" * 3000,
        "+".join("a" * 400),
        "a.b" + ".b" * 2000,
        "a" * 20_000,
    ],
)
def test_depth_and_length_are_limited(text: str) -> None:
    with pytest.raises(FormulaError, match=r"nested too deeply|operators deep|characters"):
        parse_formula(text)


def test_useful_depths_are_allowed() -> None:
    parse_formula("(" * (MAX_NESTING - 1) + "x" + ")" * (MAX_NESTING - 1))
    parse_formula(" + ".join(["x"] * 100))


def test_an_error_pickles() -> None:
    with pytest.raises(FormulaError) as caught:
        parse_formula("a ? b")
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


# round trip of generated trees

names = st.sampled_from(["x", "grad", "self_1", "_", "isnot", "Nonesuch"])
leaves = st.one_of(
    st.builds(ast.Name, names),
    st.integers(0, 10**6).map(lambda value: ast.Number(repr(value))),
    st.floats(min_value=0, allow_nan=False, allow_infinity=False).map(lambda value: ast.Number(repr(value))),
    st.builds(ast.Constant, st.sampled_from(CONSTANTS)),
    st.builds(ast.String, st.text(max_size=4)),
)


def _grown(expr: st.SearchStrategy[ast.Expr]) -> st.SearchStrategy[ast.Expr]:
    args = st.lists(expr, max_size=2).map(tuple)
    kwargs = st.lists(st.tuples(names, expr), max_size=2, unique_by=lambda pair: pair[0]).map(tuple)
    slices = st.builds(ast.Slice, st.none() | expr, st.none() | expr, st.none() | expr)
    binary = st.sampled_from(sorted(ast.BINARY_LEVELS))
    return st.one_of(
        st.builds(ast.Binary, binary, expr, expr),
        st.builds(ast.Unary, st.sampled_from(["-", "not"]), expr),
        st.builds(ast.Compare, st.sampled_from(sorted(ast.COMPARISONS)), expr, expr),
        st.builds(ast.IsNone, expr, st.booleans()),
        st.builds(ast.Boolean, st.sampled_from(["and", "or"]), expr, expr),
        st.builds(ast.Conditional, expr, expr, expr),
        st.builds(ast.Call, names, args, kwargs),
        st.builds(ast.Method, expr, names, args, kwargs),
        st.builds(ast.Attribute, expr, names),
        st.builds(ast.Index, expr, st.lists(expr | slices, min_size=1, max_size=3).map(tuple)),
        st.builds(ast.Tuple, args),
        st.builds(ast.List, args),
    )


trees = st.recursive(leaves, _grown, max_leaves=12)


@given(trees)
def test_any_tree_parses_back_to_itself(expr: ast.Expr) -> None:
    assert parse_formula(str(expr)) == expr


@given(trees)
def test_no_parenthesis_of_the_printer_is_needless(expr: ast.Expr) -> None:
    """Without any one pair of parentheses around an operator, the text means something else or nothing."""
    text = str(expr)
    for start, end in _groups(text):
        bare = f"{text[:start]} {text[start + 1 : end]} {text[end + 1 :]}"
        with contextlib.suppress(FormulaError):
            assert parse_formula(bare) != expr


def _groups(text: str) -> list[tuple[int, int]]:
    """The pairs of parentheses that group: no calls, no tuples, not the `(1).x` that keeps a number from running into a name."""
    found, stack = [], []
    if '"' in text:
        return []
    for index, character in enumerate(text):
        if character in "([":
            call = character == "[" or (index > 0 and (text[index - 1].isalnum() or text[index - 1] in "_)]"))
            stack.append((index, call))
        elif character in ")]":
            start, call = stack.pop()
            if (
                not call
                and "," not in text[start:index]
                and index > start + 1
                and not text[index + 1 :].startswith(".")
            ):
                found.append((start, index))
    return found


@given(st.sampled_from(sorted(FORMULAS)), st.data())
def test_mutated_formulas_give_a_tree_or_a_clean_error(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 4)))
    text = text[:start] + data.draw(st.text("()[]?!*,=->:. \t\n'\"\\0aif²\x00", max_size=4)) + text[end:]
    try:
        expr = parse_formula(text)
    except FormulaError as error:
        assert 0 <= error.position <= len(text)
    else:
        assert parse_formula(str(expr)) == expr
