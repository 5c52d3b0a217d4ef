"""An operator and its table: who registered which kernel at which key.

A slot of the table holds a stack of registrations ordered by :attr:`Registration.rank`, never by arrival, so that two
orders of installation give the same winner. A table is replaced, never mutated: a reader takes no lock.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from tensorplay_core.dispatch.keys import slot_name

if TYPE_CHECKING:
    from tensorplay_core.dispatch.emitters import Emitter
    from tensorplay_core.types.program import Program
    from tensorplay_core.types.schema import OpSchema


class OptOut:
    """An operator's backend key that Composite does not serve, because whoever registers for the device said so.

    Attributes:
        op: the operator's qualified name.
        key: the backend key.
        owner, distribution, where: as those of a :class:`Registration`.
    """

    __slots__ = ("distribution", "key", "op", "owner", "where")

    def __init__(self, op: str, key: int, owner: str, distribution: str, where: str) -> None:
        """See the class."""
        self.op = op
        self.key = key
        self.owner = owner
        self.distribution = distribution
        self.where = where


Slot = int | str
Table = Mapping[Slot, tuple["Registration", ...]]


class Registration:
    """One kernel in one slot, with where it came from.

    Attributes:
        function: the kernel.
        op: the operator's qualified name.
        key: the slot: a key's number, or the name of a shared slot.
        owner: who registered it; the same owner registering again replaces its own.
        distribution: the installed distribution it belongs to.
        where: ``file:line``.
        level: ``"array"`` (raw arrays) or ``"tensor"``.
        keywords: the keyword-only arguments that the kernel takes; None when it takes any.
        unchecked: the signature could not be inspected.
        number: a serial number, for messages.
        run_time: registered outside any plugin, by a program or a module of its own.
        placeholder: stands only until somebody registers a kernel; never a conflict, always beneath.
        emitter: what made the kernel of its operator's ``math``; None for a handwritten one.
        casts: types that it computes in with a result of another dtype than its operator promises.
        verified: types for which the kernel has been seen to keep its operator's promises.
        circular: the kernel has been seen to call its own operator with the same arguments.
    """

    __slots__ = (
        "casts",
        "circular",
        "distribution",
        "emitter",
        "function",
        "key",
        "keywords",
        "level",
        "number",
        "op",
        "override",
        "owner",
        "placeholder",
        "priority",
        "run_time",
        "unchecked",
        "verified",
        "where",
        "with_keyset",
    )

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        op: str,
        key: Slot,
        owner: str,
        distribution: str,
        where: str,
        level: str,
        priority: int = 0,
        override: bool = False,
        run_time: bool = False,
        with_keyset: bool = False,
    ) -> None:
        """See the class."""
        self.function = function
        self.op = op
        self.key = key
        self.owner = owner
        self.distribution = distribution
        self.where = where
        self.level = level
        self.priority = priority
        self.override = override
        self.run_time = run_time
        self.with_keyset = with_keyset
        self.keywords: frozenset[str] | None = None
        self.unchecked = False
        self.number = 0
        self.placeholder = False
        self.emitter: Emitter | None = None
        self.casts: set[Any] = set()
        self.verified: set[Any] = set()
        self.circular = False

    @property
    def rank(self) -> tuple[bool, bool, bool, bool, int, str]:
        """What orders a stack, the largest on top.

        Emitted kernels lie beneath all handwritten ones. Among these an override lies above what does not say so; then
        what was registered at run time, by somebody who asked last and by hand, above every plugin's; then the higher
        priority; then the name, so that no order of installation or import decides.
        """
        return (not self.placeholder, not self.emitted, self.override, self.run_time, self.priority, self.owner)

    @property
    def emitted(self) -> bool:
        """Whether an emitter made the kernel, rather than somebody who wrote it for this operator."""
        return self.emitter is not None

    @property
    def kernel_name(self) -> str:
        """The kernel's name for a reader, such as ``numpy.add``."""
        return kernel_name(self.function) if self.emitter is None else f"emitted by {self.emitter.name}"

    def __repr__(self) -> str:
        """Names the kernel, its slot and its origin."""
        return f"<{self.op} at {slot_name(self.key)}: {self.kernel_name}, {self.distribution} ({self.where})>"


def kernel_name(function: Callable[..., Any]) -> str:
    """Returns a readable name of a kernel."""
    name = getattr(function, "__qualname__", None) or getattr(function, "__name__", None) or repr(function)
    module = getattr(function, "__module__", None)
    if module is None and type(function).__name__ == "ufunc":
        module = type(function).__module__
    short = name.replace("<locals>.", "")
    return f"{module}.{short}" if module and module != "builtins" else short


def location(function: Callable[..., Any] | None, depth: int = 1) -> str:
    """Returns ``path:line`` of a Python function, or of the caller ``depth`` frames up for anything else."""
    code = getattr(function, "__code__", None)
    if code is not None:
        return f"{code.co_filename}:{code.co_firstlineno}"
    frame = sys._getframe(depth + 1)
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


class Operator:
    """An operator of the contract, or one defined at run time: its schema, its rules and its table.

    Attributes:
        namespace, name, overload: the parts of its qualified name.
        shape, promote, composite, autocast, tags: the contract's fields.
        promises: what the contract's ``dispatch`` promises: key name to kernel names.
        functional: the operator that an in-place variant is a form of, else None.
        math: what it computes, for emitters, when its record says so in one line; else None.
        node: the class of its autograd node; None when it has no derivative record.
        slot: the attribute of a ``TensorType`` that holds its resolved kernel.
        function: its public Python function, once there is one.
        owner, library: who defined it at run time.
        roads: what calls have resolved to since the table last changed, by key set.
        fast: whether its public function has a fast path, so that slots of tensor types are filled.
        passes: the keyword-only arguments that it passes on to the kernel in the slot.
        without_composite: the backend keys that Composite does not serve, and who said so; replaced, never mutated.
    """

    def __init__(
        self,
        schema: str,
        *,
        namespace: str = "tp",
        shape: str | None = None,
        promote: str = "none",
        composite: str = "none",
        autocast: str = "none",
        tags: tuple[str, ...] = (),
        promises: Mapping[str, tuple[str, ...]] | None = None,
        functional: Operator | None = None,
        math: Program | None = None,
        where: str = "",
    ) -> None:
        """See the class; ``schema`` is parsed when it is first asked for."""
        full, _, _ = schema.partition("(")
        scope, _, full = full.rpartition("::")
        self.namespace = scope or namespace
        self.name, _, self.overload = full.partition(".")
        self.schema_text = schema
        self.shape = shape
        self.promote = promote
        self.composite = composite
        self.autocast = autocast
        self.tags = tags
        self.promises: Mapping[str, tuple[str, ...]] = promises or {}
        self.functional = functional
        self.math = math
        self.where = where
        self.node: Any = None
        self.record: Callable[..., None] | None = None
        self.differentiable: tuple[bool, ...] | None = None
        self.function: Callable[..., Any] | None = None
        plain = f"k_{self.name}" if self.namespace == "tp" else f"k_{self.namespace}__{self.name}"
        self.slot = f"{plain}__{self.overload}" if self.overload else plain
        self.table: Table = MappingProxyType({})
        self.generation = 0
        self.roads: dict[tuple[int, int], Any] = {}
        self.fast = False
        self.passes: frozenset[str] = frozenset()
        self.without_composite: Mapping[int, tuple[OptOut, ...]] = MappingProxyType({})
        self.owner = ""
        self.library: object = None
        self._schema: OpSchema | None = None

    @property
    def qualified_name(self) -> str:
        """``namespace::name`` or ``namespace::name.overload``."""
        return f"{self.namespace}::{self.name}{'.' + self.overload if self.overload else ''}"

    @property
    def display_name(self) -> str:
        """The name for messages: without the namespace for built-in operators."""
        return self.qualified_name.removeprefix("tp::")

    @property
    def schema(self) -> OpSchema:
        """The parsed signature."""
        if self._schema is None:
            from tensorplay_core.types.schema import parse_schema

            self._schema = parse_schema(self.schema_text)
        return self._schema

    @property
    def is_inplace(self) -> bool:
        """Whether the operator writes into its first argument, and its name says so."""
        return self.name.endswith("_") and "!)" in self.schema_text.partition(",")[0]

    def kernel_at(self, slot: Slot) -> Registration | None:
        """Returns the registration on top of a slot, or None when the slot is empty."""
        stack = self.table.get(slot)
        return stack[0] if stack else None

    def opted_out_by(self, key: int) -> str:
        """Returns the distributions that opted a backend key out of Composite, for messages."""
        return ", ".join(sorted({one.distribution for one in self.without_composite.get(key, ())}))

    def __repr__(self) -> str:
        """Names the operator."""
        return f"<operator {self.qualified_name}>"
