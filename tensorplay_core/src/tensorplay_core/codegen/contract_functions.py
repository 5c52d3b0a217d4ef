"""Turns a record of ``native_functions*.yaml`` into a :class:`NativeFunction`, or says where it is wrong."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from tensorplay_core.codegen.contract_model import (
    AUTOCAST_POLICIES,
    COMPOSITE_KINDS,
    PROMOTIONS,
    VARIANTS,
    Formula,
    NativeFunction,
)
from tensorplay_core.codegen.formula.ast import Expr
from tensorplay_core.codegen.formula.parser import parse_formula
from tensorplay_core.codegen.formula.tokens import FormulaError
from tensorplay_core.codegen.yaml_loader import Mapping, Scalar, Sequence, Value, check_fields
from tensorplay_core.errors import ArgumentError, ContractError, did_you_mean
from tensorplay_core.types.dtype import in_schema
from tensorplay_core.types.promotion import SCALED
from tensorplay_core.types.schema import REDUCTIONS, BaseType, OpSchema, parse_schema
from tensorplay_core.types.schema_parser import SchemaSyntaxError

_BACKENDS = ("CPU", "CUDA", "Vulkan", "Sparse", "Meta")
# The names of dispatch/keys.py, which the generator must not import; a test of the dispatcher compares the two.
DISPATCH_KEYS = (
    *_BACKENDS,
    "Python",
    "DynamicLayerBackMode",
    *(f"{family}{backend}" for family in ("Autograd", "Autocast", "Vmap") for backend in _BACKENDS),
    *("Autograd", "Autocast", "Vmap"),
    "Composite",
    "VmapMode",
    "DynamicLayerFrontMode",
)

FIELDS = (
    "func",
    "variants",
    "inplace",
    "out",
    "shape",
    "promote",
    "dispatch",
    "autocast",
    "composite",
    "tags",
    "aliases",
    "doc",
    "python_module",
    "math",
    "example",
)

# torchgen's fields that records may bring along; they mean something to PyTorch's C++ only.
IGNORED_FIELDS = (
    "autogen",
    "category_override",
    "cpp_no_default_args",
    "device_check",
    "device_guard",
    "manual_cpp_binding",
    "manual_kernel_registration",
    "precomputed",
    "structured",
    "structured_delegate",
    "structured_inherits",
    "ufunc_inner_loop",
    "use_const_ref_for_mutable_tensors",
)


_MAX_LISTED = 12
_TORCH_COMPOSITE = {"CompositeExplicitAutograd": "explicit", "CompositeImplicitAutograd": "implicit"}


def read_function(
    record: Mapping, family: str, dispatch_keys: Collection[str], shape_rules: Collection[str] | None
) -> NativeFunction:
    """Checks one record.

    Args:
        record: the YAML.
        family: of the file.
        dispatch_keys: the names that ``dispatch`` may use.
        shape_rules: the names that ``shape`` may use; None leaves them unchecked.

    Raises:
        ContractError: for the first thing that is wrong with it.
    """
    check_fields(record, (*FIELDS, *IGNORED_FIELDS), "an operator's record")
    schema = _schema(record)
    function = NativeFunction(
        schema=schema,
        variants=_variants(record),
        inplace=_flag(record, "inplace"),
        out=_flag(record, "out"),
        shape=_shape(record, shape_rules),
        promote=_choice(record, "promote", PROMOTIONS, "none"),
        dispatch=_dispatch(record, dispatch_keys),
        autocast=_choice(record, "autocast", AUTOCAST_POLICIES, "none"),
        composite=_choice(record, "composite", COMPOSITE_KINDS, "none"),
        tags=_tags(record, schema),
        aliases=tuple(item.text for item in _words(record, "aliases")),
        doc=_doc(record),
        python_module=_word(record, "python_module"),
        formulas=_math(record, schema),
        example=_example(record),
        family=family,
        ignored=tuple(key.text for key, _ in record if key.text in IGNORED_FIELDS),
        location=record.location,
    )
    _check_variants(record, function)
    return function


def text_of(value: Value, what: str) -> Scalar:
    """The value as one text; a list or mapping in its place is an error."""
    if not isinstance(value, Scalar):
        value.location.fail(f"{what} is one text", 'put a text that starts with a bracket into "quotes"')
    if value.kind == "null":
        value.location.fail(f"{what} is empty")
    return value


def list_of(value: Value, what: str) -> tuple[Scalar, ...]:
    """The value as a list of texts; a single text is a list of one, and commas in it separate several."""
    if isinstance(value, Sequence):
        return tuple(text_of(item, f"an item of {what}") for item in value.items)
    return split(text_of(value, what))


def split(text: Scalar) -> tuple[Scalar, ...]:
    """The parts of a text between commas, each with its place."""
    if text.kind == "str" and text.text.isidentifier():
        return (text,)
    parts: list[Scalar] = []
    start = 0
    for part in text.text.split(","):
        offset = start + len(part) - len(part.lstrip())
        location = text.location if offset == 0 else text.at(offset)
        if not part.strip():
            location.fail("nothing stands between two commas, or before or after one")
        parts.append(Scalar(part.strip(), "str", location, text.end_line))
        start += len(part) + 1
    return tuple(parts)


def refuse_unknown(word: Scalar, valid: Iterable[str], what: str) -> None:
    """Refuses a word that is not among ``valid``."""
    valid = list(valid)
    if word.text not in valid:
        every = f" Valid are {', '.join(sorted(valid))}." if len(valid) <= _MAX_LISTED else ""
        word.location.fail(f"unknown {what} '{word.text}'.{did_you_mean(word.text, valid) or every}")


def refuse_repeated(words: Iterable[Scalar], what: str) -> None:
    """Refuses a word that stands twice in one list."""
    seen: set[str] = set()
    for word in words:
        if word.text in seen:
            word.location.fail(f"{what} '{word.text}' is given twice")
        seen.add(word.text)


def schema_of(text: Scalar) -> OpSchema:
    """Parses a signature; its errors become errors of the file."""
    try:
        schema = parse_schema(text.text)
        _check_defaults(text, schema)
        return schema
    except SchemaSyntaxError as error:
        raise ContractError(text.at(error.column).describe(error.reason)) from None


def _check_defaults(text: Scalar, schema: OpSchema) -> None:
    """Refuses a default that is a name without a meaning: of a dtype that there is not, or in the place of a number."""
    for argument in schema.arguments:
        value = None if argument.default is None else argument.default.plain
        for name in value if isinstance(value, tuple) else (value,):
            if not isinstance(name, str):
                continue
            if argument.type.base is BaseType.SCALAR_TYPE:
                try:
                    in_schema(name)
                except ArgumentError as error:
                    text.at(argument.column).fail(f"the default of '{argument.name}': {error}")
            elif argument.type.base in (BaseType.INT, BaseType.SYMINT):
                names = ", ".join(REDUCTIONS)
                text.at(argument.column).fail(
                    f"the default of '{argument.name}' is no number; names of numbers: {names}"
                )


def _schema(record: Mapping) -> OpSchema:
    value = record.get("func")
    if value is None:
        record.location.fail("a record without `func:`", "start it with `- func: name(Tensor self) -> Tensor`")
    return schema_of(text_of(value, "func"))


def _tags(record: Mapping, schema: OpSchema) -> tuple[str, ...]:
    words = _words(record, "tags")
    for word in words:
        if word.text == SCALED and not _is_scaled(schema):
            word.location.fail(f"the tag '{SCALED}' is for (Tensor, Tensor, *, Scalar alpha=1) -> Tensor")
    return tuple(word.text for word in words)


def _is_scaled(schema: OpSchema) -> bool:
    tensors, keywords = schema.positional, schema.keyword_only
    pair = len(tensors) == 2 and all(str(a.type) == "Tensor" and a.alias is None for a in tensors)
    named = [(a.name, str(a.type), a.default and a.default.plain) for a in keywords] == [("alpha", "Scalar", 1)]
    return pair and named and [str(r.type) for r in schema.returns] == ["Tensor"]


def _variants(record: Mapping) -> tuple[str, ...]:
    value = record.get("variants")
    if value is None:
        return ("function",)
    words = list_of(value, "variants")
    for word in words:
        refuse_unknown(word, VARIANTS, "variant")
    refuse_repeated(words, "variant")
    return tuple(name for name in VARIANTS if any(word.text == name for word in words))


def _flag(record: Mapping, field: str) -> bool:
    value = record.get(field)
    if value is None:
        return False
    truth = value.truth if isinstance(value, Scalar) else None
    if truth is None:
        value.location.fail(f"{field} is true or false")
    return truth


def _choice(record: Mapping, field: str, valid: tuple[str, ...], default: str) -> str:
    value = record.get(field)
    if value is None:
        return default
    if isinstance(value, Scalar) and value.kind == "null":
        value.location.fail(f"{field} is empty; valid are {', '.join(valid)}")
    word = text_of(value, field)
    refuse_unknown(word, valid, f"value of {field}")
    return word.text


def _word(record: Mapping, field: str) -> str | None:
    value = record.get(field)
    if value is None:
        return None
    word = text_of(value, field)
    if not word.text.isidentifier():
        word.location.fail(f"{field} is a name")
    return word.text


def _words(record: Mapping, field: str) -> tuple[Scalar, ...]:
    value = record.get(field)
    if value is None:
        return ()
    words = list_of(value, field)
    for word in words:
        if not word.text.isidentifier():
            word.location.fail(f"'{word.text}' in {field} is not a name")
    refuse_repeated(words, f"an item of {field},")
    return words


def _shape(record: Mapping, shape_rules: Collection[str] | None) -> str | None:
    name = _word(record, "shape")
    value = record.get("shape")
    if name is not None and shape_rules is not None and isinstance(value, Scalar):
        refuse_unknown(value, shape_rules, "shape rule")
    return name


def _doc(record: Mapping) -> str:
    value = record.get("doc")
    return "" if value is None else text_of(value, "doc").text.strip()


def _example(record: Mapping) -> str:
    value = record.get("example")
    if value is None:
        return ""
    text = text_of(value, "example")
    if not text.text.startswith(">>> "):
        text.location.fail("an example starts with `>>> `", "write what Python shows, below `example: |`")
    return text.text.rstrip()


def _math(record: Mapping, schema: OpSchema) -> tuple[Formula, ...]:
    """The formulas of ``math``, parsed; what they may call is checked when every operator is known."""
    value = record.get("math")
    if value is None:
        return ()
    texts = value.items if isinstance(value, Sequence) else (value,)
    if len(texts) != len(schema.returns):
        count = len(schema.returns)
        value.location.fail(
            f"math has {len(texts)} formula{'s' * (len(texts) != 1)}, '{schema.base_name}' has {count} "
            f"result{'s' * (count != 1)}",
            "write one formula for each result, as a list",
        )
    return tuple(
        Formula((name,), parsed(text_of(text, "math")), text_of(text, "math"))
        for name, text in zip(schema.return_names, texts, strict=True)
    )


def parsed(text: Scalar) -> Expr:
    """Parses a formula; its errors become errors of the file."""
    try:
        return parse_formula(text.text)
    except FormulaError as error:
        raise ContractError(text.at(error.position).describe(error.reason)) from None


def _dispatch(record: Mapping, dispatch_keys: Collection[str]) -> dict[str, str]:
    value = record.get("dispatch")
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        value.location.fail("dispatch maps dispatch keys to kernel names", "write for example `CPU, CUDA: add`")
    kernels: dict[str, str] = {}
    for keys, kernel in value:
        name = text_of(kernel, "a kernel's name").text
        for key in split(keys):
            if key.text in _TORCH_COMPOSITE:
                remedy = f"write `Composite: {name}`, and `composite: {_TORCH_COMPOSITE[key.text]}` in the record"
                key.location.fail(f"unknown dispatch key '{key.text}'", remedy)
            refuse_unknown(key, dispatch_keys, "dispatch key")
            if key.text in kernels:
                key.location.fail(f"dispatch key '{key.text}' is given twice")
            kernels[key.text] = name
    return kernels


def _check_variants(record: Mapping, function: NativeFunction) -> None:
    schema = function.schema
    receiver = schema.self_argument
    if function.is_method and (receiver is None or not receiver.type.is_tensor):
        _fail_at(
            record, "variants", f"a method needs a positional argument `Tensor self`; '{function.base_name}' has none"
        )
    if function.inplace:
        first = schema.arguments[0] if schema.arguments else None
        if first is None or not first.type.is_tensor or first.kwarg_only:
            _fail_at(record, "inplace", f"'{function.name}_' needs a tensor as its first argument")
        if len(schema.returns) != 1 or not schema.returns[0].type.is_tensor:
            _fail_at(record, "inplace", f"'{function.name}_' needs one Tensor as its result")
    if function.inplace or function.out:
        field = "inplace" if function.inplace else "out"
        if schema.mutates or schema.is_view:
            _fail_at(
                record, field, f"'{function.base_name}' writes to an argument or returns a view; it has no such variant"
            )
    if function.out and not (schema.returns and all(result.type.is_tensor for result in schema.returns)):
        _fail_at(record, "out", f"`out=` needs results that are tensors; '{function.base_name}' has others")


def _fail_at(record: Mapping, field: str, message: str) -> None:
    key = record.key(field)
    (key.location if key is not None else record.location).fail(message)
