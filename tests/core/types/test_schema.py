"""Signatures: PyTorch's spellings print back to the same text, and faults are shown where they are."""

# ruff: noqa: E501 (signatures stand as PyTorch writes them)

from __future__ import annotations

import copy
import pickle
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensorplay_core.errors import SchemaError
from tensorplay_core.types.schema import (
    Alias,
    Argument,
    BaseType,
    Default,
    Identifier,
    ListSuffix,
    OpSchema,
    OptionalSuffix,
    Return,
    Type,
    parse_schema,
)
from tensorplay_core.types.schema_parser import SchemaSyntaxError

SIGNATURES = """
add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor
add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)
add.out(Tensor self, Tensor other, *, Scalar alpha=1, Tensor(a!) out) -> Tensor(a!)
__and__.Scalar(Tensor self, Scalar other) -> Tensor
__iand__.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)
_cast_Byte(Tensor self, bool non_blocking=False) -> Tensor
data(Tensor self) -> Tensor
set_data(Tensor(a!) self, Tensor new_data) -> ()
is_leaf(Tensor self) -> bool
output_nr(Tensor self) -> int
item(Tensor self) -> Scalar
retain_grad(Tensor(a!) self) -> ()
_backward(Tensor self, Tensor[] inputs, Tensor? gradient=None, bool? retain_graph=None, bool create_graph=False) -> ()
max.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)
max.dim_max(Tensor self, int dim, bool keepdim=False, *, Tensor(a!) max, Tensor(b!) max_values) -> (Tensor(a!) values, Tensor(b!) indices)
sum.dim_IntList(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor
index.Tensor(Tensor self, Tensor?[] indices) -> Tensor
split.Tensor(Tensor(a -> *) self, SymInt split_size, int dim=0) -> Tensor(a)[]
unbind.int(Tensor(a -> *) self, int dim=0) -> Tensor(a)[]
transpose.int(Tensor(a) self, int dim0, int dim1) -> Tensor(a)
as_strided(Tensor(a) self, SymInt[] size, SymInt[] stride, SymInt? storage_offset=None) -> Tensor(a)
slice.Tensor(Tensor(a) self, int dim=0, SymInt? start=None, SymInt? end=None, SymInt step=1) -> Tensor(a)
allclose(Tensor self, Tensor other, float rtol=1e-05, float atol=1e-08, bool equal_nan=False) -> bool
clamp(Tensor self, Scalar? min=None, Scalar? max=None) -> Tensor
conv2d.padding(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] stride=1, str padding="valid", SymInt[2] dilation=1, SymInt groups=1) -> Tensor
convolution(Tensor input, Tensor weight, Tensor? bias, int[] stride, int[] padding, int[] dilation, bool transposed, int[] output_padding, int groups) -> Tensor
convolution_backward(Tensor grad_output, Tensor input, Tensor weight, SymInt[]? bias_sizes, SymInt[] stride, SymInt[] padding, SymInt[] dilation, bool transposed, SymInt[] output_padding, SymInt groups, bool[3] output_mask) -> (Tensor, Tensor, Tensor)
max_pool2d(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, int[2] dilation=1, bool ceil_mode=False) -> Tensor
cross_entropy_loss(Tensor self, Tensor target, Tensor? weight=None, int reduction=Mean, SymInt ignore_index=-100, float label_smoothing=0.0) -> Tensor
div.Tensor_mode(Tensor self, Tensor other, *, str? rounding_mode) -> Tensor
gelu(Tensor self, *, str approximate='none') -> Tensor
scatter_reduce.two(Tensor self, int dim, Tensor index, Tensor src, str reduce, *, bool include_self=True) -> Tensor
empty.memory_format(SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor
contiguous(Tensor(a) self, *, MemoryFormat memory_format=contiguous_format) -> Tensor(a)
tril_indices(int row, int col, int offset=0, *, ScalarType? dtype=long, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor
normal_(Tensor(a!) self, float mean=0, float std=1, *, Generator? generator=None) -> Tensor(a!)
fft_fft2(Tensor self, SymInt[1]? s=None, int[1] dim=[-2,-1], str? norm=None) -> Tensor
roll(Tensor self, SymInt[1] shifts, int[1] dims=[]) -> Tensor
nll_loss_forward(Tensor self, Tensor target, Tensor? weight, int reduction, SymInt ignore_index) -> (Tensor output, Tensor total_weight)
_foreach_add.Scalar(Tensor[] self, Scalar scalar) -> Tensor[]
_foreach_add_.Scalar(Tensor(a!)[] self, Scalar scalar) -> ()
lstm.input(Tensor input, Tensor[] hx, Tensor[] params, bool has_biases, int num_layers, float dropout, bool train, bool bidirectional, bool batch_first) -> (Tensor, Tensor, Tensor)
rot90(Tensor self, int k=1, int[] dims=[0,1]) -> Tensor
linalg_svd.U(Tensor A, bool full_matrices=True, *, str? driver=None, Tensor(a!) U, Tensor(b!) S, Tensor(c!) Vh) -> (Tensor(a!) U, Tensor(b!) S, Tensor(c!) Vh)
histogramdd(Tensor self, int[] bins, float[]? range=None, Tensor? weight=None, bool density=False) -> (Tensor hist, Tensor[] bin_edges)
_assert_tensor_metadata(Tensor a, SymInt[]? size=None, SymInt[]? stride=None, ScalarType? dtype=None, *, Device? device=None, Layout? layout=None) -> ()
quantize(Tensor self, Scalar[] levels, bool[2] mask=True, float? eps=.5) -> Tensor?
myns::blend.weighted(Tensor self, Tensor(a|b) other, float[2] weight=[0.5,0.5], Device device='cpu:0') -> (Tensor mixed, Scalar weight)
""".strip().splitlines()


@pytest.mark.parametrize("text", SIGNATURES, ids=lambda text: text.split("(")[0])
def test_signature_prints_back_to_the_same_text(text: str) -> None:
    schema = parse_schema(text)
    assert str(schema) == text
    assert parse_schema(str(schema)) == schema
    assert hash(parse_schema(text)) == hash(schema)


def test_the_parts_of_a_signature() -> None:
    schema = parse_schema("func: add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor")
    assert (schema.namespace, schema.name, schema.overload) == ("tp", "add", "Tensor")
    assert schema.qualified_name == "tp::add.Tensor"
    assert schema.base_name == "add.Tensor"
    assert [a.name for a in schema.positional] == ["self", "other"]
    assert [a.name for a in schema.keyword_only] == ["alpha"]
    assert schema.self_argument is not None and schema.self_argument.type.is_tensor
    assert schema.argument("alpha") == Argument("alpha", Type(BaseType.SCALAR), Default(1, "1"), kwarg_only=True)
    assert schema.argument("beta") is None
    assert schema.return_names == ("result",)
    assert schema.is_functional and not schema.is_view and not schema.is_inplace and not schema.is_out


@pytest.mark.parametrize(
    ("name", "inplace"),
    [("add_", True), ("add", False), ("__and__", False), ("__iand__", True), ("__ilshift__", True), ("_foo", False)],
)
def test_which_names_are_in_place(name: str, inplace: bool) -> None:
    assert parse_schema(f"{name}(Tensor self) -> Tensor").is_inplace is inplace


def test_what_is_written_to() -> None:
    schema = parse_schema(
        "aminmax.out(Tensor self, *, Tensor(a!) min, Tensor(b!) max) -> (Tensor(a!) min, Tensor(b!) max)"
    )
    assert schema.mutates == ("min", "max")
    assert [a.name for a in schema.out_arguments] == ["min", "max"]
    assert [a.name for a in schema.tensor_arguments] == ["self"]
    assert schema.is_out and not schema.is_view and not schema.is_functional
    assert schema.return_names == ("min", "max")


def test_views_and_aliases() -> None:
    schema = parse_schema("split(Tensor(a -> *) self, int size) -> Tensor(a)[]")
    assert schema.is_view
    assert schema.arguments[0].alias == Alias(("a",), False, ("*",))
    assert schema.returns == (Return(None, Type(BaseType.TENSOR, (ListSuffix(),)), Alias(("a",))),)


def test_unnamed_results_are_numbered() -> None:
    assert parse_schema("lstm(Tensor x) -> (Tensor, Tensor)").return_names == ("result0", "result1")
    assert parse_schema("f(Tensor x) -> (Tensor out)").return_names == ("out",)
    assert parse_schema("f(Tensor x) -> ()").return_names == ()


def test_types_say_what_they_hold() -> None:
    types = {
        a.name: a.type
        for a in parse_schema("f(Tensor?[] a, int[2]? b, Tensor? c, float d, Tensor[]? e) -> ()").arguments
    }
    assert types["a"].is_tensor_list and types["a"].item.is_optional and not types["a"].is_optional
    assert types["b"].is_list and types["b"].is_optional and types["b"].list_size == 2
    assert str(types["b"].required) == "int[2]" and str(types["b"].item) == "int"
    assert types["c"].is_tensor and types["c"].is_optional and types["c"].holds_tensors
    assert not types["d"].is_list and types["d"].list_size is None and types["d"].item == types["d"]
    assert types["e"].is_tensor_list and types["e"].is_optional


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("int a=-100", -100),
        ("float a=1e-05", 1e-5),
        ("bool a=True", True),
        ("int[]? a=None", None),
        ("int[] a=[]", ()),
        ("int[] a=[0,1]", (0, 1)),
        ("int[2] a=1", 1),
        ("str a='it\\'s'", "it's"),
        ('str a="mean"', "mean"),
        ("int a=Mean", Identifier("Mean")),
        ("MemoryFormat a=contiguous_format", Identifier("contiguous_format")),
        ("Scalar a=1.5", 1.5),
    ],
)
def test_defaults_are_python_values(written: str, value: object) -> None:
    default = parse_schema(f"f({written}) -> ()").arguments[0].default
    assert default is not None
    assert default.value == value and type(default.value) is type(value)


def test_defaults_mean_the_same() -> None:
    def default(text: str) -> Default:
        found = parse_schema(f"f(Scalar a={text}) -> ()").arguments[0].default
        assert found is not None
        return found

    assert default("1e-05").means_same(default("0.00001"))
    assert not default("True").means_same(default("1"))


def test_schemas_are_values() -> None:
    schema = parse_schema(SIGNATURES[0])
    assert pickle.loads(pickle.dumps(schema)) == schema
    assert copy.deepcopy(schema) == schema
    with pytest.raises(AttributeError):
        schema.name = "sub"  # type: ignore[misc]


ERRORS = {
    "add(Tenso self) -> Tensor": (4, "unknown type 'Tenso'. Did you mean 'Tensor'?"),
    "add(Quux self) -> Tensor": (
        4,
        "unknown type 'Quux'. Types are Tensor, Scalar, int, SymInt, float, bool, str, ScalarType, Device, Layout, MemoryFormat, Generator.",
    ),
    "add.default(Tensor self) -> Tensor": (4, "'default' is what the overload without a name is called; leave it out"),
    "add(Tensor self": (15, "expected ',' or ')', found the end of the signature"),
    "add(Tensor self)": (16, "expected '->' and the results, found the end of the signature"),
    "add(Tensor self) -> ": (20, "expected a type, found the end of the signature"),
    "add(Tensor self) -> Tensor Tensor Tensor": (34, "the signature ends here; found 'Tensor'"),
    "": (0, "expected the operator's name, found the end of the signature"),
    "add": (3, "expected '(' and the arguments, found the end of the signature"),
    "3d(Tensor self) -> Tensor": (0, "expected the operator's name, found '3'"),
    "add(Tensor) -> Tensor": (10, "expected the argument's name, found ')'"),
    "add(Tensor self, Tensor self) -> Tensor": (24, "two arguments are named 'self'"),
    "add(Tensor self, *) -> Tensor": (17, "'*' is followed by no argument"),
    "add(Tensor self, *, int a, *, int b) -> Tensor": (27, "a second '*' in the arguments"),
    "add(int a=1, int b) -> Tensor": (17, "argument 'b' has no default but stands behind one that has"),
    "add(int a=None) -> Tensor": (10, "the default None is not a value of type int"),
    "add(int a=1.5) -> Tensor": (10, "the default 1.5 is not a value of type int"),
    "add(bool a=1) -> Tensor": (11, "the default 1 is not a value of type bool"),
    "add(int[] a=0) -> Tensor": (12, "the default 0 is not a value of type int[]"),
    "add(Tensor a=x) -> Tensor": (13, "the default x is not a value of type Tensor"),
    "add(str a='x) -> Tensor": (10, "this string is not closed"),
    "add(str a='\\q') -> Tensor": (11, "unknown escape in a string"),
    "add(float a=1e999) -> Tensor": (12, "this number is too large for a float"),
    "add(int[0] a) -> Tensor": (8, "the size of a list is a positive integer without leading zeros"),
    "add(int[x] a) -> Tensor": (8, "expected ']' or the size of the list, found 'x'"),
    "add(int?? a) -> Tensor": (8, "'?' twice"),
    "add(Tensor(!) a) -> Tensor": (11, "expected the name of an alias set, such as 'a', found '!'"),
    "add(Tensor(a! a) -> Tensor": (14, "expected ')' at the end of the alias annotation, found 'a'"),
    "add(Tensor a) -> Tensor(b)": (23, "the result shares alias set 'b', but no argument is in it"),
    "add(int a=) -> Tensor": (10, "expected a default value, found ')'"),
    f"add(int[] a={'[' * 9}) -> Tensor": (20, "a default nested this deep means nothing"),
    f"add(int a={'9' * 41}) -> Tensor": (10, "this integer is too long"),
    f"add(int{'[]' * 9} a) -> Tensor": (23, "a type nested this deep means nothing"),
    "add(Tensor a) -> (Tensor x, Tensor x)": (35, "two results are named 'x'"),
}


@pytest.mark.parametrize("text", ERRORS)
def test_errors_show_the_text_and_the_place(text: str) -> None:
    column, reason = ERRORS[text]
    with pytest.raises(SchemaError) as caught:
        parse_schema(text)
    assert str(caught.value) == f"{reason}\n  {text}\n  {' ' * column}^"


def test_an_error_keeps_its_parts_and_pickles() -> None:
    with pytest.raises(SchemaSyntaxError) as caught:
        parse_schema("add(Tenso self) -> Tensor")
    error = pickle.loads(pickle.dumps(caught.value))
    assert (error.reason, error.column) == ("unknown type 'Tenso'. Did you mean 'Tensor'?", 4)
    assert str(error) == str(caught.value)


# round trip of what a generator makes

words = st.from_regex(r"[a-z][a-z0-9_]{0,6}[a-z0-9]", fullmatch=True)
suffixes = st.lists(
    st.just(OptionalSuffix()) | st.builds(ListSuffix, st.none() | st.integers(1, 9)), max_size=3
).filter(lambda found: all(a != b or isinstance(a, ListSuffix) for a, b in pairwise(found)))
types = st.builds(Type, st.sampled_from(BaseType), suffixes.map(tuple))
aliases = st.none() | st.builds(
    Alias,
    st.lists(st.sampled_from("abc"), min_size=1, max_size=2, unique=True).map(tuple),
    st.booleans(),
    st.sampled_from([(), ("*",)]),
)


def _quoted(value: str) -> str:
    escapes = str.maketrans({"\\": "\\\\", "'": "\\'", "\n": "\\n", "\t": "\\t"})
    return f"'{value.translate(escapes)}'"


INTEGERS = st.integers(-(10**20), 10**20).map(lambda value: Default(value, str(value)))
FLOATS = st.floats(allow_nan=False, allow_infinity=False).map(lambda value: Default(value, repr(value)))
BOOLS = st.booleans().map(lambda value: Default(value, str(value)))
STRINGS = st.text(max_size=4).map(lambda value: Default(value, _quoted(value)))
NAMES = words.map(lambda name: Default(Identifier(name), name))
ITEMS = {
    BaseType.INT: INTEGERS | NAMES,
    BaseType.SYMINT: INTEGERS,
    BaseType.FLOAT: INTEGERS | FLOATS | st.just(Default(float("inf"), "inf")),
    BaseType.SCALAR: INTEGERS | FLOATS | BOOLS,
    BaseType.BOOL: BOOLS,
    BaseType.STR: STRINGS,
    BaseType.DEVICE: STRINGS,
    BaseType.LAYOUT: NAMES,
    BaseType.MEMORY_FORMAT: NAMES,
    BaseType.SCALAR_TYPE: NAMES,
}


def defaults(type_: Type) -> st.SearchStrategy[Default]:
    """What may stand behind the `=` of an argument."""
    none = st.just(Default(None, "None"))
    if type_.is_optional:
        return none | defaults(type_.required)
    if not type_.is_list:
        return ITEMS.get(type_.base, st.nothing())
    item = defaults(type_.item)
    items = st.just([]) if item.is_empty else st.lists(item, max_size=2)
    listed = items.map(lambda found: Default(tuple(d.value for d in found), f"[{', '.join(d.text for d in found)}]"))
    one = item.filter(lambda default: default.value is not None)  # None is the whole list, or nothing
    return listed | one if type_.list_size is not None and not type_.item.is_list else listed


@st.composite
def schemas(draw: st.DrawFn) -> OpSchema:
    names = draw(st.lists(words, max_size=5, unique=True))
    split = draw(st.integers(0, len(names)))
    arguments = []
    for position, name in enumerate(names):
        type_ = draw(types)
        kwarg_only = position >= split
        default = draw(defaults(type_)) if draw(st.booleans()) and not defaults(type_).is_empty else None
        if default is None and not kwarg_only and any(a.default is not None for a in arguments):
            type_, default = Type(BaseType.INT), Default(1, "1")
        arguments.append(Argument(name, type_, default, kwarg_only, draw(aliases)))
    results = draw(st.lists(st.tuples(words, types), max_size=3, unique_by=lambda result: result[0]))
    named = draw(st.booleans())
    sets = sorted({name for a in arguments if a.alias is not None for name in a.alias.before})
    alias = st.none() | (st.builds(lambda name: Alias((name,)), st.sampled_from(sets)) if sets else st.nothing())
    returns = tuple(Return(name if named else None, type_, draw(alias)) for name, type_ in results)
    overload = draw(st.just("") | words)
    return OpSchema(draw(st.just("tp") | words), draw(words), overload, tuple(arguments), returns)


@given(schemas())
def test_any_schema_parses_back_to_itself(schema: OpSchema) -> None:
    assert parse_schema(str(schema)) == schema
    assert str(parse_schema(str(schema))) == str(schema)


@given(st.sampled_from(SIGNATURES), st.data())
def test_mutated_signatures_give_a_schema_or_a_clean_error(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 4)))
    text = text[:start] + data.draw(st.text("()[]?!*,=->:. \t\n'\"\\0aT|²", max_size=4)) + text[end:]
    try:
        schema = parse_schema(text)
    except SchemaSyntaxError as error:
        assert 0 <= error.column <= len(text)
    else:
        assert parse_schema(str(schema)) == schema
