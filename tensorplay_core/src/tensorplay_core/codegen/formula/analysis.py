"""What a backward node must keep, found by one walk over the formulas.

A gradient formula decides what its operator's node saves: a tensor that is used as a value must be kept alive until the
backward pass; one of which only the shape is read must not. The node's constructor, what it saves and what its backward
reads all come from the answers given here, so they cannot disagree. The walk answers for each formula apart, because
``other`` need not be kept when the only formula that reads it belongs to an input that needs no gradient.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import attrs

from tensorplay_core.codegen.formula import ast
from tensorplay_core.codegen.formula.ast import Expr
from tensorplay_core.codegen.formula.tokens import FormulaError
from tensorplay_core.errors import did_you_mean
from tensorplay_core.types.schema import OpSchema

# How metadata is written, and under which kind it is kept. `size` is kept as the shape.
METADATA_ATTRIBUTES = {"shape": "shape", "ndim": "ndim", "dtype": "dtype", "device": "device"}
METADATA_METHODS = {
    "size": "shape",
    "dim": "ndim",
    "numel": "numel",
    "stride": "stride",
    "storage_offset": "storage_offset",
    "is_complex": "is_complex",
}
PRESENT = "present"  # `x is None`, `x is not None`: whether an optional tensor was given
LENGTH = "length"  # `len(tensors)`
METADATA_KINDS = (
    *("shape", "ndim", "numel", "dtype", "device", "stride", "storage_offset", "is_complex"),
    *(PRESENT, LENGTH),
)
PYTHON_FUNCTIONS = frozenset({"len"})  # besides operators and helpers

GRAD, GRADS, NEEDS = "grad", "grads", "needs"
RESERVED = (GRAD, GRADS, NEEDS)


@attrs.frozen
class Scope:
    """The names that the formulas of one operator may use.

    Attributes:
        tensors: the arguments of type Tensor and ``Tensor?``.
        lists: the arguments that are lists of tensors.
        others: the remaining arguments.
        outputs: the operator's results: ``result``, or their own names.
        gradients: the indices of the outputs that have a gradient.
        listed: whether the one result is a list of tensors, whose gradients are the list ``grads``.
        tangents: whether ``x_t`` (and ``x_p``, the primal) may be written, as in a forward-mode rule.
    """

    tensors: frozenset[str]
    lists: frozenset[str]
    others: frozenset[str]
    outputs: tuple[str, ...]
    gradients: tuple[int, ...] = (0,)
    listed: bool = False
    tangents: bool = False

    @classmethod
    def of(
        cls, schema: OpSchema, output_differentiability: Iterable[bool] | None = None, *, tangents: bool = False
    ) -> Scope:
        """The scope of an operator; where nothing is said, every tensor among its results has a gradient."""
        arguments = [a for a in schema.arguments if a not in schema.out_arguments and a.name not in RESERVED]
        flags = list(output_differentiability) if output_differentiability is not None else None
        if flags is None:
            flags = [result.type.holds_tensors for result in schema.returns]
        return cls(
            tensors=frozenset(a.name for a in arguments if a.type.is_tensor),
            lists=frozenset(a.name for a in arguments if a.type.is_tensor_list),
            others=frozenset(a.name for a in arguments if not a.type.holds_tensors),
            outputs=schema.return_names,
            gradients=tuple(i for i, flag in enumerate(flags) if flag),
            listed=schema.returns_list,
            tangents=tangents,
        )

    @property
    def inputs(self) -> frozenset[str]:
        """Every argument."""
        return self.tensors | self.lists | self.others

    def names(self) -> list[str]:
        """Everything that may be written, for suggestions."""
        tangents = [f"{name}_t" for name in sorted(self.tensors | self.lists)] if self.tangents else list(RESERVED)
        return sorted(self.inputs) + list(self.outputs) + tangents

    def tangent_of(self, name: str) -> str | None:
        """The input whose tangent or primal ``name`` is, in a forward-mode rule."""
        if not self.tangents or name[-2:] not in ("_t", "_p"):
            return None
        return name[:-2] if name[:-2] in self.tensors | self.lists else None


@attrs.frozen
class Uses:
    """What one formula, or several, read.

    Attributes:
        values: tensor inputs whose values are read; the node saves these tensors.
        outputs: outputs whose values are read; the node saves these too.
        metadata: input or output to the kinds of metadata that are read; the node keeps these as Python values.
        arguments: the arguments that are no tensors and are read; the node keeps them.
        gradients: the indices of the outputs whose gradient is read.
        needs: the inputs of which is asked whether they need a gradient.
        tangents: in a forward-mode rule, the inputs whose tangent is read.
        calls: operators and helpers that are called.
        methods: methods that are called, metadata apart.
    """

    values: frozenset[str] = frozenset()
    outputs: frozenset[str] = frozenset()
    metadata: Mapping[str, frozenset[str]] = attrs.field(factory=dict, hash=False)
    arguments: frozenset[str] = frozenset()
    gradients: frozenset[int] = frozenset()
    needs: frozenset[str] = frozenset()
    tangents: frozenset[str] = frozenset()
    calls: frozenset[str] = frozenset()
    methods: frozenset[str] = frozenset()

    def union(self, other: Uses) -> Uses:
        """What both read."""
        metadata = {
            name: self.metadata.get(name, frozenset()) | other.metadata.get(name, frozenset())
            for name in sorted({*self.metadata, *other.metadata})
        }
        sets = {
            field.name: getattr(self, field.name) | getattr(other, field.name)
            for field in attrs.fields(Uses)
            if field.name != "metadata"
        }
        return Uses(metadata=metadata, **sets)


@attrs.frozen
class Analysis:
    """What the formulas of one operator read.

    Attributes:
        formulas: the key of each formula (its input, or ``"self, other"``) to what it reads.
        total: what they read together.
    """

    formulas: Mapping[str, Uses] = attrs.field(hash=False)
    total: Uses

    def value_readers(self, name: str) -> tuple[str, ...]:
        """The keys of the formulas that read the value of ``name``: save it only when one of them is wanted."""
        return tuple(key for key, uses in self.formulas.items() if name in uses.values or name in uses.outputs)

    def metadata_readers(self, name: str, kind: str) -> tuple[str, ...]:
        """The keys of the formulas that read that metadata."""
        return tuple(key for key, uses in self.formulas.items() if kind in uses.metadata.get(name, ()))


def analyze(scope: Scope, formulas: Mapping[str, Expr]) -> Analysis:
    """Finds what formulas read.

    Args:
        scope: the names that exist, :meth:`Scope.of` the operator.
        formulas: one tree per input, or per group of inputs that one call answers.

    Raises:
        FormulaError: for a name that does not exist; only its ``reason`` and ``position`` are set, the caller has the
            text.

    Example:
        >>> from tensorplay_core.codegen.formula.parser import parse_formula
        >>> from tensorplay_core.types.schema import parse_schema
        >>> scope = Scope.of(parse_schema("mul(Tensor self, Tensor other) -> Tensor"))
        >>> formulas = {"self": "grad * other", "other": "grad.reshape(self.shape)"}
        >>> found = analyze(scope, {name: parse_formula(text) for name, text in formulas.items()})
        >>> sorted(found.total.values), {name: sorted(kinds) for name, kinds in found.total.metadata.items()}
        (['other'], {'self': ['shape']})
        >>> found.value_readers("other")
        ('self',)
    """
    return combined({key: uses_of(scope, expr) for key, expr in formulas.items()})


def combined(found: Mapping[str, Uses]) -> Analysis:
    """What formulas read together, from what each of them does."""
    first, *others = found.values() or (Uses(),)
    for uses in others:
        first = first.union(uses)
    return Analysis(found, first)


def uses_of(scope: Scope, expr: Expr) -> Uses:
    """What one formula reads; see :func:`analyze`."""
    return _Walk(scope).run(expr)


@attrs.frozen
class Metadata:
    """A place that reads metadata of ``name``; ``item`` is the index where one tensor of a list is asked."""

    name: str
    kind: str
    item: Expr | None = None
    args: tuple[Expr, ...] = ()


def metadata_at(scope: Scope, expr: Expr) -> Metadata | None:
    """What metadata of an input or output ``expr`` itself reads, or None when it is something else."""
    match expr:
        case ast.Attribute(object=receiver, name=name) if name in METADATA_ATTRIBUTES:
            kind, args = METADATA_ATTRIBUTES[name], tuple[Expr, ...]()
        case ast.Method(object=receiver, name=name, args=args, kwargs=()) if name in METADATA_METHODS:
            kind = METADATA_METHODS[name]
        case ast.IsNone(operand=ast.Name(name=name)) if _is_saved(scope, name):
            return Metadata(name, PRESENT)
        case ast.Call(function="len", args=(ast.Name(name=name),), kwargs=()) if name in scope.lists:
            return Metadata(name, LENGTH)
        case _:
            return None
    match receiver:
        case ast.Name(name=name) if _is_saved(scope, name):
            return Metadata(name, kind, None, args)
        case ast.Index(object=ast.Name(name=name), items=(item,)) if name in scope.lists and isinstance(item, Expr):
            return Metadata(name, kind, item, args)
    return None


def _is_saved(scope: Scope, name: str) -> bool:
    return name in scope.tensors or name in scope.lists or name in scope.outputs


class _Walk:
    """Collects the uses of one formula."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.sets: dict[str, set[str]] = {
            name: set() for name in ("values", "outputs", "arguments", "needs", "tangents", "calls", "methods")
        }
        self.gradients: set[int] = set()
        self.metadata: dict[str, set[str]] = {}

    def run(self, expr: Expr) -> Uses:
        self.visit(expr)
        return Uses(
            metadata={name: frozenset(kinds) for name, kinds in sorted(self.metadata.items())},
            gradients=frozenset(self.gradients),
            **{name: frozenset(found) for name, found in self.sets.items()},
        )

    def visit(self, expr: Expr) -> None:
        metadata = metadata_at(self.scope, expr)
        if metadata is not None:
            self.metadata.setdefault(metadata.name, set()).add(metadata.kind)
            for part in (metadata.item, *metadata.args):
                if part is not None:
                    self.visit(part)
            return
        match expr:
            case ast.Index(object=ast.Name(name="grads" | "needs" as name), items=items) if not self.scope.tangents:
                self.gradient(expr, items) if name == GRADS else self.need(expr, items)
                return
            case ast.Name():
                self.name(expr)
            case ast.Call(function=function):
                self.sets["calls"].add(function)
            case ast.Method(name=name) if name not in METADATA_METHODS:
                self.sets["methods"].add(name)
        for child in ast.children(expr):
            self.visit(child)

    def name(self, expr: ast.Name) -> None:
        name, scope = expr.name, self.scope
        if name in scope.outputs and name not in scope.inputs:
            self.sets["outputs"].add(name)
        elif name in scope.tensors or name in scope.lists:
            self.sets["values"].add(name)
        elif name in scope.others:
            self.sets["arguments"].add(name)
        elif (tangent := scope.tangent_of(name)) is not None:
            self.sets["tangents" if name.endswith("_t") else "values"].add(tangent)
        elif name == GRAD and not scope.tangents:
            self.gradient_of_the_output(expr)
        elif name == GRADS and scope.listed and not scope.tangents:
            self.gradients.add(0)
        elif name in (GRADS, NEEDS) and not scope.tangents:
            what = "an output's number, grads[0]" if name == GRADS else "an input's name, needs[self]"
            raise FormulaError(f"'{name}' is indexed with {what}", "", expr.position)
        else:
            near = did_you_mean(name, scope.names()) or f" There are: {', '.join(scope.names())}."
            raise FormulaError(f"no input or output is named '{name}'.{near}", "", expr.position)

    def gradient_of_the_output(self, expr: Expr) -> None:
        gradients = self.scope.gradients
        if self.scope.listed:
            reason = "the result is a list of tensors, and 'grads' is that of their gradients"
            raise FormulaError(reason, "", expr.position)
        if len(gradients) != 1:
            reason = (
                "'grad' is used, but no output is differentiable"
                if not gradients
                else f"'grad' may be any of {len(gradients)} gradients; write grads[i], or say output_differentiability"
            )
            raise FormulaError(reason, "", expr.position)
        self.gradients.add(gradients[0])

    def gradient(self, expr: Expr, items: tuple[Expr | ast.Slice, ...]) -> None:
        valid = " or ".join(f"grads[{index}]" for index in self.scope.gradients) or "none"
        if len(items) == 1 and isinstance(items[0], ast.Number) and items[0].value in self.scope.gradients:
            self.gradients.add(int(items[0].value))
        else:
            raise FormulaError(f"there is no such gradient; there is {valid}", "", expr.position)

    def need(self, expr: Expr, items: tuple[Expr | ast.Slice, ...]) -> None:
        name = needed_name(items)
        valid = sorted(self.scope.tensors | self.scope.lists)
        if name is None or name not in valid:
            near = did_you_mean(name, valid) if name is not None else ""
            raise FormulaError(f"needs[...] takes the name of a tensor input.{near}", "", expr.position)
        self.sets["needs"].add(name)


def needed_name(items: tuple[Expr | ast.Slice, ...]) -> str | None:
    """The name inside ``needs[self]`` or ``needs["self"]``."""
    match items:
        case (ast.Name(name=name),) | (ast.String(value=name),):
            return name
    return None
