"""Records of operators: what they give, and an error gallery of a few lines of YAML each with the exact message."""

# ruff: noqa: E501 (messages and files stand as they are)

from __future__ import annotations

from collections.abc import Callable

import pytest

from tensorplay_core.codegen.contract import DISPATCH_KEYS, IGNORED_FIELDS, Contract

Load = Callable[..., Contract]
Error = Callable[..., str]


F, D = "native_functions_test.yaml", "derivatives_test.yaml"


def test_a_record_with_every_field(load: Load) -> None:
    (function,) = load(
        "- func: add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor\n"
        "  variants: function, method\n  inplace: true\n  out: true\n  shape: broadcast\n  promote: default\n"
        "  dispatch:\n    CPU, CUDA: add\n    Composite: add_general\n  autocast: promote\n  composite: explicit\n"
        "  tags: [core, pointwise]\n  aliases: [plus]\n  doc: |\n    Adds.\n  python_module: nn\n"
        "  structured: True\n"
    ).functions
    assert function.qualified_name == "tp::add.Tensor" and (function.name, function.base_name) == ("add", "add.Tensor")
    assert function.variants == ("function", "method") and function.is_function and function.is_method
    assert function.inplace and function.out
    assert (function.shape, function.promote, function.autocast, function.composite) == (
        "broadcast",
        "default",
        "promote",
        "explicit",
    )
    assert function.dispatch == {"CPU": "add", "CUDA": "add", "Composite": "add_general"}
    assert function.tags == ("core", "pointwise") and function.aliases == ("plus",)
    assert (function.doc, function.python_module, function.math) == ("Adds.", "nn", None)
    assert function.family == "test" and function.ignored == ("structured",)
    assert str(function.location) == f"{F}:1"


def test_a_record_that_is_silent(load: Load) -> None:
    (function,) = load("- func: f(Tensor x) -> Tensor").functions
    assert function.variants == ("function",) and not function.inplace and not function.out
    assert (function.shape, function.promote, function.autocast, function.composite) == (None, "none", "none", "none")
    assert (function.dispatch, function.tags, function.aliases, function.doc, function.math) == ({}, (), (), "", None)


def test_a_record_brought_along_from_pytorch(load: Load) -> None:
    (function,) = load(
        "- func: convolution(Tensor input, Tensor weight, Tensor? bias, int[] stride, int[] padding, int[] dilation, "
        "bool transposed, int[] output_padding, int groups) -> Tensor\n"
        "  variants: function\n  dispatch:\n    CPU: convolution_cpu\n    CUDA: convolution_cuda\n  tags: core\n"
    ).functions
    assert function.dispatch == {"CPU": "convolution_cpu", "CUDA": "convolution_cuda"}
    assert function.tags == ("core",) and function.variants == ("function",)
    assert len(function.schema.arguments) == 9


@pytest.mark.parametrize("field", IGNORED_FIELDS)
def test_fields_of_torchgen_are_ignored(load: Load, field: str) -> None:
    assert load(f"- func: f(Tensor x) -> Tensor\n  {field}: True").functions[0].ignored == (field,)


def test_keys_of_other_devices(load: Load, error: Error) -> None:
    record = "- func: f(Tensor x) -> Tensor\n  dispatch:\n    Loopback: f"
    assert load(record, dispatch_keys=["Loopback"]).functions[0].dispatch == {"Loopback": "f"}
    assert "unknown dispatch key 'Loopback'" in error(record)
    assert len([key for key in DISPATCH_KEYS if key not in ("Autograd", "Autocast", "Vmap")]) == 25


FUNCTION_ERRORS = {
    "- func: f(Tensor x) -> Tensor\n  dispach: {CPU: f}": (
        f"{F}:2: unknown field 'dispach' of an operator's record. Did you mean 'dispatch'?\n"
        "  2 |   dispach: {CPU: f}\n    |   ^"
    ),
    "- fun: f(Tensor x) -> Tensor": (
        f"{F}:1: unknown field 'fun' of an operator's record. Did you mean 'func'?\n"
        "  1 | - fun: f(Tensor x) -> Tensor\n    |   ^"
    ),
    "- variants: function": (
        f"{F}:1: a record without `func:`\n  1 | - variants: function\n    |   ^\n"
        "fix: start it with `- func: name(Tensor self) -> Tensor`"
    ),
    "- func: f(Tenso x) -> Tensor": (
        f"{F}:1: unknown type 'Tenso'. Did you mean 'Tensor'?\n  1 | - func: f(Tenso x) -> Tensor\n    |           ^"
    ),
    "- func: f(Tensor x,\n    Tenso y) -> Tensor": (
        f"{F}:2: unknown type 'Tenso'. Did you mean 'Tensor'?\n  2 |     Tenso y) -> Tensor\n    |     ^"
    ),
    "- func: [f]": (
        f"{F}:1: func is one text\n  1 | - func: [f]\n    |         ^\n"
        'fix: put a text that starts with a bracket into "quotes"'
    ),
    "- func:": f"{F}:1: func is empty\n  1 | - func:\n    |        ^",
    "- func: f(Tensor x) -> Tensor\n  func: g(Tensor x) -> Tensor": (
        f"{F}:2: duplicate key 'func'; the first is on line 1\n  2 |   func: g(Tensor x) -> Tensor\n    |   ^"
    ),
    "- func: f(Tensor x) -> Tensor\n  variants: function, metod": (
        f"{F}:2: unknown variant 'metod'. Did you mean 'method'?\n  2 |   variants: function, metod\n    |                       ^"
    ),
    "- func: f(Tensor x) -> Tensor\n  variants: function,": (
        f"{F}:2: nothing stands between two commas, or before or after one\n  2 |   variants: function,\n    |                      ^"
    ),
    "- func: f(Tensor x) -> Tensor\n  variants: [function, function]": (
        f"{F}:2: variant 'function' is given twice\n  2 |   variants: [function, function]\n    |                        ^"
    ),
    "- func: f(Tensor x) -> Tensor\n  variants: method": (
        f"{F}:2: a method needs a positional argument `Tensor self`; 'f' has none\n  2 |   variants: method\n    |   ^"
    ),
    "- func: f(Tensor self) -> Tensor\n  inplace: maybe": (
        f"{F}:2: inplace is true or false\n  2 |   inplace: maybe\n    |            ^"
    ),
    "- func: f(int n) -> Tensor\n  inplace: true": (
        f"{F}:2: 'f_' needs a tensor as its first argument\n  2 |   inplace: true\n    |   ^"
    ),
    "- func: f(Tensor self) -> (Tensor, Tensor)\n  inplace: true": (
        f"{F}:2: 'f_' needs one Tensor as its result\n  2 |   inplace: true\n    |   ^"
    ),
    "- func: f(Tensor(a) self) -> Tensor(a)\n  out: true": (
        f"{F}:2: 'f' writes to an argument or returns a view; it has no such variant\n  2 |   out: true\n    |   ^"
    ),
    "- func: f(Tensor self) -> int\n  out: true": (
        f"{F}:2: `out=` needs results that are tensors; 'f' has others\n  2 |   out: true\n    |   ^"
    ),
    "- func: f(Tensor x) -> Tensor\n  promote: defualt": (
        f"{F}:2: unknown value of promote 'defualt'. Did you mean 'default'?\n  2 |   promote: defualt\n    |            ^"
    ),
    "- func: f(Tensor x) -> Tensor\n  autocast: fp23": (
        f"{F}:2: unknown value of autocast 'fp23'. Did you mean 'fp32'?\n  2 |   autocast: fp23\n    |             ^"
    ),
    "- func: f(Tensor x) -> Tensor\n  composite: yes": (
        f"{F}:2: unknown value of composite 'yes'. Valid are explicit, implicit, none.\n"
        "  2 |   composite: yes\n    |              ^"
    ),
    "- func: f(Tensor x) -> Tensor\n  dispatch:\n    CPU, CUDDA: f": (
        f"{F}:3: unknown dispatch key 'CUDDA'. Did you mean 'CUDA' or 'VmapCUDA'?\n  3 |     CPU, CUDDA: f\n    |          ^"
    ),
    "- func: f(Tensor x) -> Tensor\n  dispatch:\n    CompositeExplicitAutograd: f": (
        f"{F}:3: unknown dispatch key 'CompositeExplicitAutograd'\n  3 |     CompositeExplicitAutograd: f\n    |     ^\n"
        "fix: write `Composite: f`, and `composite: explicit` in the record"
    ),
    "- func: f(Tensor x) -> Tensor\n  dispatch:\n    CPU: f\n    CUDA, CPU: g": (
        f"{F}:4: dispatch key 'CPU' is given twice\n  4 |     CUDA, CPU: g\n    |           ^"
    ),
    "- func: f(Tensor x) -> Tensor\n  dispatch: f": (
        f"{F}:2: dispatch maps dispatch keys to kernel names\n  2 |   dispatch: f\n    |             ^\n"
        "fix: write for example `CPU, CUDA: add`"
    ),
    "- func: f(Tensor x) -> Tensor\n  tags: [core, 3d]": (
        f"{F}:2: '3d' in tags is not a name\n  2 |   tags: [core, 3d]\n    |                ^"
    ),
    "- func: f(Tensor x) -> Tensor\n  python_module: a.b": (
        f"{F}:2: python_module is a name\n  2 |   python_module: a.b\n    |                  ^"
    ),
    "- func: f(Tensor x) -> Tensor\n  shape:": f"{F}:2: shape is empty\n  2 |   shape:\n    |         ^",
    "- func: f(Tensor x) -> Tensor\n  autocast:": (
        f"{F}:2: autocast is empty; valid are lower_precision_fp, fp32, promote, banned, none\n"
        "  2 |   autocast:\n    |            ^"
    ),
    "- func: f(Tensor x) -> Tensor\n  tags: [core, core]": (
        f"{F}:2: an item of tags, 'core' is given twice\n  2 |   tags: [core, core]\n    |                ^"
    ),
    "- func: f(Tensor x, Tensor y, *, Scalar alpha=2) -> Tensor\n  tags: [core, scaled_by_alpha]": (
        f"{F}:2: the tag 'scaled_by_alpha' is for (Tensor, Tensor, *, Scalar alpha=1) -> Tensor\n"
        "  2 |   tags: [core, scaled_by_alpha]\n    |                ^"
    ),
    "- func: f(Tensor x) -> Tensor\n  example: tp.f(1)": (
        f"{F}:2: an example starts with `>>> `\n  2 |   example: tp.f(1)\n    |            ^\n"
        "fix: write what Python shows, below `example: |`"
    ),
    "- func: max.dim(Tensor x) -> Tensor\n- func: max_dim(Tensor x) -> Tensor": (
        f"{F}:2: 'max_dim' and 'max.dim' are both MAX_DIM in generated code; rename one (the other is at {F}:1)\n"
        "  2 | - func: max_dim(Tensor x) -> Tensor\n    |   ^"
    ),
    "- func: f(Tensor self) -> Tensor\n  inplace: true\n- func: F_(Tensor(a!) x) -> Tensor(a!)": (
        f"{F}:3: 'F_' and 'f_' are both F_ in generated code; rename one (the other is at {F}:1)\n"
        "  3 | - func: F_(Tensor(a!) x) -> Tensor(a!)\n    |   ^"
    ),
    "- func: f(Tensor x) -> Tensor\n  tags: {core: 1}": (
        f"{F}:2: tags is one text\n  2 |   tags: {{core: 1}}\n    |         ^\n"
        'fix: put a text that starts with a bracket into "quotes"'
    ),
    "- func: f(Tensor x) -> Tensor\n  math: x ? 1 : 2": (
        f"{F}:2: not YAML: mapping values are not allowed in this context\n  2 |   math: x ? 1 : 2\n    |               ^\n"
        'fix: put a value that has `: `, ` #` or a leading bracket into "quotes"'
    ),
    "- func: f(Tensor x) -> Tensor\n  math: x &&  y": (
        f"{F}:2: '&&' is not in the formula language; write `and`\n  2 |   math: x &&  y\n    |           ^"
    ),
    "- func: f(Tensor x) -> Tensor\n- func: f(Tensor x, int n) -> Tensor": (
        f"{F}:2: a second record for 'f'; the first is at {F}:1\n  2 | - func: f(Tensor x, int n) -> Tensor\n    |   ^"
    ),
    "- func: f(Tensor x, ScalarType t=flot32) -> Tensor": (
        f"{F}:1: the default of 't': there is no dtype 'flot32'. Did you mean 'float32' or 'float64' or 'float16'?\n"
        "  1 | - func: f(Tensor x, ScalarType t=flot32) -> Tensor\n    |                     ^"
    ),
    "- func: f(Tensor x, int[1] reduction=[Men]) -> Tensor": (
        f"{F}:1: the default of 'reduction' is no number; names of numbers: None, Mean, Sum\n"
        "  1 | - func: f(Tensor x, int[1] reduction=[Men]) -> Tensor\n    |                     ^"
    ),
    "- func: f(Tensor x) -> Tensor\n  aliases: g\n- func: g(Tensor x) -> Tensor": (
        f"{F}:1: alias 'g' of 'f' is an operator's name\n  1 | - func: f(Tensor x) -> Tensor\n    |   ^"
    ),
    "- func: f(Tensor x) -> Tensor\n  aliases: h\n- func: g(Tensor x) -> Tensor\n  aliases: [h]": (
        f"{F}:3: alias 'h' of 'g' is an alias of 'f' too\n  3 | - func: g(Tensor x) -> Tensor\n    |   ^"
    ),
}


@pytest.mark.parametrize("text", FUNCTION_ERRORS, ids=lambda text: text.replace("\n", "|"))
def test_errors_in_operators(error: Error, text: str) -> None:
    assert error(text) == FUNCTION_ERRORS[text]


def test_an_unknown_shape_rule(load: Load, error: Error) -> None:
    record = "- func: f(Tensor x) -> Tensor\n  shape: brodcast"
    assert error(record, shape_rules=["broadcast", "same"]) == (
        f"{F}:2: unknown shape rule 'brodcast'. Did you mean 'broadcast'?\n  2 |   shape: brodcast\n    |          ^"
    )
    assert load(record).functions[0].shape == "brodcast"
