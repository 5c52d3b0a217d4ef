"""How kernels and operators are registered: ``library_impl`` blocks in plugins, :class:`Library` anywhere.

A plugin's blocks are collected while its module is imported and applied to a staging batch afterwards, even if somebody
imported the module earlier; outside a plugin a block is applied at once.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from tensorplay_core.dispatch.emitters import Emit
from tensorplay_core.dispatch.keys import BACKENDS, PAGE, DispatchKey, family_of, parse_key
from tensorplay_core.dispatch.operator import Operator, kernel_name, location
from tensorplay_core.dispatch.registry import REGISTRY
from tensorplay_core.dispatch.staging import Committed, Staging
from tensorplay_core.errors import ArgumentError, RegistrationError, fix

_collecting: ContextVar[list[Block] | None] = ContextVar("tensorplay_collecting", default=None)

_unclaimed: dict[str, list[Block]] = {}
"""Blocks of plugins that somebody imported outside a load, by top-level package."""


class BlockLibrary:
    """The ``m`` of a ``library_impl`` block: registers kernels for one key."""

    def __init__(self, staging: Staging, key: str) -> None:
        """See the class."""
        self._staging = staging
        self.key = key

    def impl(
        self,
        op: str,
        fn: Callable[..., Any],
        *,
        override: bool = False,
        level: str | None = None,
        with_keyset: bool = False,
    ) -> None:
        """Registers a kernel.

        Args:
            op: the operator's name, such as ``"add"`` or ``"max.dim"``.
            fn: the kernel; at a backend key it takes raw arrays, elsewhere tensors.
            override: may take a slot that another owner has.
            level: ``"tensor"`` for a backend kernel that takes tensors.
            with_keyset: the kernel's first argument is the call's key set, to redispatch with.
        """
        where = location(fn)
        self._staging.impl(op, self.key, fn, override=override, level=level, with_keyset=with_keyset, where=where)

    def emitter(self, emit: Emit, *, override: bool = False) -> None:
        """Registers what makes kernels of the operators that are given by ``math`` alone.

        Args:
            emit: takes a :class:`~tensorplay_core.types.program.Program` and returns a kernel, which takes what other
                kernels at this key take, or None where it cannot make one.
            override: may stand beside another owner's emitter, above it.
        """
        self._staging.emitter(self.key, emit, override=override, where=location(emit))


class Block:
    """A ``library_impl`` block that waits for its staging batch."""

    def __init__(self, key: str, name: str, function: Callable[[Any], None]) -> None:
        """See the class."""
        self.key = key
        self.name = name
        self.function = function
        self.where = location(function)

    def apply(self, staging: Staging) -> None:
        """Adds the block's kernels to a batch."""
        self.function(BlockLibrary(staging, self.key))


@contextmanager
def collect() -> Iterator[list[Block]]:
    """While open, ``library_impl`` blocks of this context are collected rather than applied."""
    blocks: list[Block] = []
    token = _collecting.set(blocks)
    try:
        yield blocks
    finally:
        _collecting.reset(token)


def is_plugin(module: str) -> bool:
    """Whether a module belongs to an installed plugin; the plugins floor replaces this by the true answer.

    Until then no operator is defined either, so every block must wait.
    """
    return True


def apply_now(block: Block, module: str) -> None:
    """Puts the kernels of a block into force, as the registrations of a module that belongs to no plugin."""
    staging = REGISTRY.stage(module, module.partition(".")[0])
    block.apply(staging)
    staging.commit()


def apply_waiting() -> None:
    """Applies the blocks that waited for the operators to be defined and belong to no plugin."""
    for package in [name for name in _unclaimed if not is_plugin(name)]:
        for block in claim(package):
            apply_now(block, package)


def claim(module: str) -> list[Block]:
    """Returns the blocks of a plugin whose module was imported before its backend was loaded, by anybody, once."""
    return _unclaimed.pop(module.partition(".")[0], [])


def library_impl(key: str, name: str = "") -> Callable[[Callable[[Any], None]], Callable[[Any], None]]:
    """Marks a function that registers kernels for one dispatch key.

    Args:
        key: a dispatch key's name (``"CPU"``, ``"Composite"``, ``"Autograd"`` …) or a device's type.
        name: the block's name, for messages.

    Example:
        >>> import operator
        >>> from tensorplay_core.dispatch.library import collect, library_impl
        >>> with collect() as blocks:
        ...     @library_impl("CPU", "PointwiseCPU")
        ...     def _(m):
        ...         m.impl("add", operator.add)
        >>> blocks[0].name
        'PointwiseCPU'
    """

    def register(function: Callable[[Any], None]) -> Callable[[Any], None]:
        block = Block(key, name or function.__name__, function)
        module = getattr(function, "__module__", "__main__")
        collecting = _collecting.get()
        if collecting is not None:
            collecting.append(block)
        elif is_plugin(module):
            _unclaimed.setdefault(module.partition(".")[0], []).append(block)
        else:
            apply_now(block, module)
        return function

    return register


class Library:
    """Operators and kernels registered at run time; all of them leave with :meth:`close` or with the object.

    Args:
        namespace: the namespace of names without one; ``"tp"`` is the built-in operators'.
        kind: ``"DEF"`` owns the namespace's definitions, ``"FRAGMENT"`` adds to it, ``"IMPL"`` only registers kernels.
        dispatch_key: the key that :meth:`impl` uses when it is given none.

    Example:
        >>> import tensorplay as tp
        >>> lib = tp.library.Library("demo", "FRAGMENT")
        >>> _ = lib.define("double(Tensor x) -> Tensor")
        >>> lib.impl("double", lambda x: x + x, "Composite")
        >>> tp.ops.demo.double(tp.ones(2))
        tensor([2., 2.])
        >>> lib.close()
    """

    def __init__(self, namespace: str, kind: str = "FRAGMENT", dispatch_key: str | None = None) -> None:
        """See the class."""
        self._committed: list[Committed] = []
        self._defined: list[Operator] = []
        self._token = object()  # what its operators know it by: a reference to the library itself would keep it alive
        if kind not in ("DEF", "FRAGMENT", "IMPL"):
            raise ArgumentError(f"a library's kind is 'DEF', 'FRAGMENT' or 'IMPL', not {kind!r}")
        if not namespace.isidentifier():
            raise ArgumentError(f"a namespace is an identifier, not {namespace!r}")
        self.namespace, self.kind, self.dispatch_key = namespace, kind, dispatch_key
        frame = sys._getframe(1)
        self.owner = str(frame.f_globals.get("__name__", "__main__"))
        self.where = f"{frame.f_code.co_filename}:{frame.f_lineno}"

    def _qualified(self, name: str) -> str:
        return name if "::" in name else f"{self.namespace}::{name}"

    def define(self, schema: str, *, tags: tuple[str, ...] = (), composite: str = "explicit") -> Operator:
        """Defines an operator by its signature.

        Raises:
            SchemaError: the signature is not in the schema language.
            RegistrationError: another signature, or another owner, has the name; both places are named.
        """
        return self.define_at(schema, location(None), tags=tags, composite=composite)

    def define_at(
        self, schema: str, where: str, *, tags: tuple[str, ...] = (), composite: str = "explicit"
    ) -> Operator:
        """Defines an operator as :meth:`define` does, for callers who know better which line it comes from."""
        if self.kind == "IMPL":
            raise RegistrationError(f"{self.namespace}: a library of kind 'IMPL' defines no operators")
        op = Operator(schema, namespace=self.namespace, tags=tags, composite=composite, where=where)
        text = str(op.schema)
        op.owner = self.owner
        with REGISTRY.lock:
            known = REGISTRY.operators.get(op.qualified_name)
            if known is not None:
                if known.owner != self.owner or str(known.schema) != text or known.composite != composite:
                    owner = known.owner or "the contract"
                    raise RegistrationError(
                        f"operator {op.qualified_name} is defined at {known.where} by {owner} as {known.schema} "
                        f"({known.composite}); {where} ({self.owner}) defines it as {text} ({composite})."
                        + fix("choose another name or overload.")
                    )
                known.where, known.tags = where, tags
                known.library = self._token
                self._defined.append(known)
                return known
            op.library = self._token
            REGISTRY.define(op)
        self._defined.append(op)
        return op

    def impl(
        self,
        op: str,
        fn: Callable[..., Any],
        key: str | None = None,
        *,
        override: bool = False,
        level: str | None = None,
        with_keyset: bool = False,
    ) -> None:
        """Registers a kernel for an operator, in force at once.

        Kernels of a backend key that this library registers for operators of its own namespace take tensors unless
        ``level="array"``; kernels for built-in operators take raw arrays, as every backend's do.

        Raises:
            RegistrationError: no such operator or key, or the signature does not fit.
            BackendConflict: another owner has the slot.
        """
        key = key or self.dispatch_key
        if key is None:
            raise ArgumentError(f"{op}: which dispatch key? Pass key=, or give the Library a dispatch_key")
        name = self._qualified(op)
        if level is None and not name.startswith("tp::"):
            level = "tensor"
        self.impl_at(name, fn, [key], location(fn), override=override, level=level, with_keyset=with_keyset)

    def impl_at(
        self,
        op: str,
        fn: Callable[..., Any],
        keys: Iterable[str | int],
        where: str,
        *,
        override: bool = False,
        level: str | None = None,
        with_keyset: bool = False,
    ) -> None:
        """Registers a kernel at several keys, for callers who wrap it and know which line it comes from."""
        staging = REGISTRY.stage(self.owner, self.owner.partition(".")[0])
        for key in keys:
            staging.impl(op, key, fn, override=override, level=level, with_keyset=with_keyset, where=where)
        self._committed.append(staging.commit())

    def emitter(self, emit: Emit, key: str | None = None, *, override: bool = False) -> None:
        """Registers an emitter, in force at once for every operator with ``math``, those defined later included.

        Args:
            emit: takes a :class:`~tensorplay_core.types.program.Program` and returns a kernel, or None where it cannot
                make one.
            key: a backend's key, where the kernels take raw arrays, or Composite, where they take tensors.
            override: may stand beside another owner's emitter, above it.

        Raises:
            RegistrationError: no such key, or a kernel does not fit its operator.
            BackendConflict: another owner has an emitter at the key.
        """
        key = key or self.dispatch_key
        if key is None:
            raise ArgumentError("emitter: which dispatch key? Pass key=, or give the Library a dispatch_key")
        staging = REGISTRY.stage(self.owner, self.owner.partition(".")[0])
        staging.emitter(key, emit, override=override, where=location(emit))
        self._committed.append(staging.commit())

    def take(self) -> list[Committed]:
        """Hands over what is registered so far, for the caller to undo or give back; the operators stay defined."""
        taken, self._committed = self._committed, []
        return taken

    def give(self, committed: list[Committed]) -> None:
        """Takes back what :meth:`take` handed over."""
        self._committed = [*committed, *self._committed]

    def fallback(self, fn: Callable[..., Any], key: str) -> None:
        """Registers one kernel at ``key`` for every operator that has none there.

        Args:
            fn: takes the operator (as ``tp.ops`` has it), then the call's key set, then its arguments.
            key: a functional or mode key, or a shared slot.

        Raises:
            RegistrationError: a backend key, or Composite: there a fallback would hide Composite's kernels.
        """
        slot = parse_key(key)
        if isinstance(slot, int) and (slot % PAGE < BACKENDS or slot == DispatchKey.Composite):
            raise RegistrationError(
                f"{key}: a fallback stands at a functional key, above the backends"
                + fix("register kernels one by one with impl().")
            )
        staging = REGISTRY.stage(self.owner, self.owner.partition(".")[0])
        family = family_of(slot % PAGE) if isinstance(slot, int) else None
        for name, op in REGISTRY.operators.items():
            if op.kernel_at(slot) is None and (family is None or op.kernel_at(family) is None):
                bound = _bind_operator(fn, as_overload(op))
                staging.impl(name, slot, bound, with_keyset=True, where=location(fn))
        self._committed.append(staging.commit())

    def close(self) -> None:
        """Takes everything that this library registered out again."""
        while self._committed:
            self._committed.pop().undo()
        while self._defined:
            op = self._defined.pop()
            if op.library is self._token:
                REGISTRY.remove(op)

    def __del__(self) -> None:
        """Closes the library with its last reference."""
        self.close()

    def __repr__(self) -> str:
        """Names the namespace and the kind."""
        return f"Library({self.namespace!r}, {self.kind!r})"


def as_overload(op: Operator) -> Any:
    """Returns an operator as users know it, callable; the floor of operators replaces this by its own answer."""
    return op


def _bind_operator(fn: Callable[..., Any], op: Any) -> Callable[..., Any]:
    def fallback(keys: Any, *args: Any, **kwargs: Any) -> Any:
        return fn(op, keys, *args, **kwargs)

    fallback.__qualname__ = kernel_name(fn)
    return fallback
