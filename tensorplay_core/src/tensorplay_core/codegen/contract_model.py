"""What a contract holds once it is checked.

Every target of the generator reads these records and none changes them, so they are frozen, and whatever two targets
would otherwise derive twice (which outputs have a gradient, what a node saves) is an answer that the record gives.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import attrs

from tensorplay_core.codegen.formula.analysis import Analysis, Scope
from tensorplay_core.codegen.formula.ast import Expr
from tensorplay_core.codegen.formula.rewrite import Shared, shared
from tensorplay_core.codegen.yaml_loader import Location, Scalar
from tensorplay_core.types.program import Program
from tensorplay_core.types.schema import Argument, OpSchema

PROMOTIONS = ("default", "float", "bool", "keep", "none", "sum", "index", "real")
AUTOCAST_POLICIES = ("lower_precision_fp", "fp32", "promote", "banned", "none")
COMPOSITE_KINDS = ("explicit", "implicit", "none")
VARIANTS = ("function", "method")


@attrs.frozen
class Formula:
    """One formula: a gradient in a derivative record, or what a pointwise operator computes.

    Attributes:
        targets: the inputs whose gradient it gives, usually one; several where one call answers them, in order, as a
            tuple. Of a forward-mode formula, and of ``math``, the output.
        expr: the tree.
        text: the YAML value, for its place in the file.
    """

    targets: tuple[str, ...]
    expr: Expr
    text: Scalar = attrs.field(eq=False, repr=False)

    @property
    def key(self) -> str:
        """``self``, or ``self, other``: the key in :class:`Analysis` and :class:`Shared`."""
        return ", ".join(self.targets)


@attrs.frozen(cache_hash=True)
class NativeFunction:
    """One record of ``native_functions*.yaml``: an operator and what follows from it.

    Attributes:
        schema: the signature.
        variants: of ``function`` and ``method``; ``("function",)`` where the record is silent.
        inplace: whether ``name_`` is generated too.
        out: whether the function takes ``out=``.
        shape: the name of the shape rule, or None.
        promote: the promotion rule; ``none`` where the record is silent.
        dispatch: dispatch key to kernel name, one entry a key.
        autocast: the autocast policy; ``none`` where the record is silent.
        composite: how the Composite kernel stands to autograd; ``none`` where the record is silent.
        tags: free labels.
        aliases: further names of the same function.
        doc: one sentence or more, or an empty string.
        python_module: the module of the public function (``nn``, ``linalg``), or None.
        formulas: what a pointwise operator computes, one formula for each result, from the record's ``math``.
        program: the same as steps, for emitters; None without ``math``.
        example: a session that doctest runs, or an empty string; ``tp`` is imported.
        family: what follows ``native_functions_`` in the name of the record's file.
        ignored: torchgen's fields in the record that mean nothing here.
        location: where the record stands.
    """

    schema: OpSchema
    variants: tuple[str, ...] = ("function",)
    inplace: bool = False
    out: bool = False
    shape: str | None = None
    promote: str = "none"
    dispatch: Mapping[str, str] = attrs.field(factory=dict, hash=False)
    autocast: str = "none"
    composite: str = "none"
    tags: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    doc: str = ""
    python_module: str | None = None
    formulas: tuple[Formula, ...] = attrs.field(default=(), eq=False)
    program: Program | None = None
    example: str = ""
    family: str = ""
    ignored: tuple[str, ...] = ()
    location: Location | None = attrs.field(default=None, eq=False, repr=False)

    @property
    def name(self) -> str:
        """The name without overload: ``max``."""
        return self.schema.name

    @property
    def base_name(self) -> str:
        """Name and overload: ``max.dim``."""
        return self.schema.base_name

    @property
    def qualified_name(self) -> str:
        """``tp::max.dim``."""
        return self.schema.qualified_name

    @property
    def display_name(self) -> str:
        """The name for messages: with the namespace unless it is our own, ``max.dim`` or ``my::op``."""
        return self.qualified_name.removeprefix("tp::")

    @property
    def short_name(self) -> str:
        """The name in its own module: ``linalg_det`` of ``python_module: linalg`` is ``tp.linalg.det``."""
        return self.name.removeprefix(f"{self.python_module}_")

    @property
    def place(self) -> str:
        """The module that offers its function."""
        if self.python_module == "nn":
            return "tp.nn.functional"
        return "tp" if self.short_name == self.name else f"tp.{self.python_module}"

    @property
    def math(self) -> str | None:
        """The formulas as they were written, several with a semicolon between; None without ``math``."""
        return "; ".join(formula.text.text for formula in self.formulas) or None

    @property
    def is_function(self) -> bool:
        """Whether a function is made."""
        return "function" in self.variants

    @property
    def is_method(self) -> bool:
        """Whether a method of Tensor is made."""
        return "method" in self.variants


@attrs.frozen(slots=False)
class Derivative:
    """One record of ``derivatives*.yaml``.

    Attributes:
        function: the operator.
        formulas: one per differentiable input, or per group of inputs, in the order of the record.
        not_differentiable: the tensor inputs that the record declares without a gradient.
        output_differentiability: one flag per output; where the record is silent, true for tensors.
        forward: forward-mode formulas, one per output.
        takes_none: the gradient of a result that none reached is None in the formulas, not zeros.
        analysis: what the formulas read.
        location: where the record stands; for a symbolic one, the operator's.
        symbolic: nobody wrote it: it was found from the operator's ``math``.
    """

    function: NativeFunction
    formulas: tuple[Formula, ...]
    not_differentiable: tuple[str, ...]
    output_differentiability: tuple[bool, ...]
    forward: tuple[Formula, ...]
    analysis: Analysis = attrs.field(eq=False, repr=False)
    location: Location = attrs.field(eq=False, repr=False)
    symbolic: bool = False
    takes_none: bool = False

    @property
    def schema(self) -> OpSchema:
        """The operator's own signature (the record's may differ in what is keyword-only)."""
        return self.function.schema

    @property
    def result(self) -> Formula | None:
        """The forward-mode formula of the only, or first, output."""
        return self.forward[0] if self.forward else None

    @property
    def is_differentiable(self) -> bool:
        """Whether any output has a gradient with respect to any input; of ``eq`` none has."""
        return any(self.output_differentiability) and bool(self.formulas)

    @cached_property
    def scope(self) -> Scope:
        """The names that the formulas may use."""
        return Scope.of(self.schema, self.output_differentiability)

    @property
    def expressions(self) -> dict[str, Expr]:
        """Formula key to tree, as ``analyze`` and ``shared`` take them."""
        return {formula.key: formula.expr for formula in self.formulas}

    @property
    def inputs(self) -> tuple[Argument, ...]:
        """The arguments that have a formula, in the order of the signature; the edges of the operator's node."""
        targets = {target for formula in self.formulas for target in formula.targets}
        return tuple(argument for argument in self.schema.arguments if argument.name in targets)

    def formula_of(self, name: str) -> tuple[Formula, int | None] | None:
        """The formula of an input, and the input's index in the tuple that it gives when it answers several inputs."""
        for formula in self.formulas:
            if name in formula.targets:
                return formula, (formula.targets.index(name) if len(formula.targets) > 1 else None)
        return None

    def shared(self) -> Shared:
        """What several formulas share; see :func:`tensorplay_core.codegen.formula.rewrite.shared`."""
        return shared(self.expressions)


@attrs.frozen(slots=False)
class Contract:
    """Every operator and every derivative, in the order of the files (sorted by name) and of their records."""

    functions: tuple[NativeFunction, ...] = ()
    derivatives: tuple[Derivative, ...] = ()

    @cached_property
    def by_name(self) -> dict[str, NativeFunction]:
        """``tp::max.dim`` to its record."""
        return {function.qualified_name: function for function in self.functions}

    @cached_property
    def overloads(self) -> dict[str, tuple[NativeFunction, ...]]:
        """Name without overload to its records; aliases are names too."""
        found: dict[str, list[NativeFunction]] = {}
        for function in self.functions:
            for name in (function.name, *function.aliases):
                found.setdefault(name, []).append(function)
        return {name: tuple(functions) for name, functions in found.items()}

    @cached_property
    def families(self) -> dict[str, tuple[NativeFunction, ...]]:
        """Family to its records."""
        found: dict[str, list[NativeFunction]] = {}
        for function in self.functions:
            found.setdefault(function.family, []).append(function)
        return {name: tuple(functions) for name, functions in found.items()}

    @cached_property
    def _derivatives(self) -> dict[str, Derivative]:
        return {derivative.function.qualified_name: derivative for derivative in self.derivatives}

    def derivative_of(self, function: NativeFunction) -> Derivative | None:
        """The derivative record of an operator, or None."""
        return self._derivatives.get(function.qualified_name)
