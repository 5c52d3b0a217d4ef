"""``Library``: operators and kernels that are registered at run time, by anybody, and leave when they are told to."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from tensorplay_core.dispatch.blocks import Block as Block
from tensorplay_core.dispatch.blocks import batch
from tensorplay_core.dispatch.blocks import claim as claim
from tensorplay_core.dispatch.blocks import collect as collect
from tensorplay_core.dispatch.blocks import library_impl as library_impl
from tensorplay_core.dispatch.emitters import Emit
from tensorplay_core.dispatch.keys import BACKENDS, PAGE, DispatchKey, family_of, parse_key
from tensorplay_core.dispatch.operator import Operator, kernel_name, location
from tensorplay_core.dispatch.registry import REGISTRY
from tensorplay_core.dispatch.staging import Committed
from tensorplay_core.errors import ArgumentError, RegistrationError, fix

if TYPE_CHECKING:
    from tensorplay_core.dispatch.below import Below
    from tensorplay_core.dispatch.operator import Registration


class Library:
    """Operators and kernels registered at run time; all of them leave with :meth:`close` or with the object.

    They belong to the module that makes the library. Where that is a plugin's they are the plugin's; otherwise what it
    registers with ``override=True`` lies above the kernels of every plugin.

    Args:
        namespace: the namespace of names without one; ``"tp"`` is the built-in operators'.
        kind: ``"DEF"`` owns the namespace's definitions, ``"FRAGMENT"`` adds to it, ``"IMPL"`` only registers kernels.
        dispatch_key: the key that :meth:`impl` uses when it is given none.

    Raises:
        ArgumentError: no such kind, or the namespace is no identifier.
        RegistrationError: ``"DEF"`` for a namespace that a library of another module defines.

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
        if kind == "DEF":
            self._own_namespace()

    def _own_namespace(self) -> None:
        """Makes this library the one that defines its namespace; of one module the last one is, as of a cell run twice.

        Raises:
            RegistrationError: another module's is.
        """
        remedy = fix(f"Library({self.namespace!r}, 'FRAGMENT') adds operators to it, 'IMPL' kernels.")
        if self.namespace == BUILT_IN:
            raise RegistrationError(f"the namespace {BUILT_IN!r} is that of TensorPlay's own operators{remedy}")
        with REGISTRY.lock:
            known = _defining.get(self.namespace)
            if known is not None and known.owner != self.owner:
                raise RegistrationError(
                    f"the namespace {self.namespace!r} is defined by {known.owner} ({known.where}), and {self.owner} "
                    f"({self.where}) would define it too{remedy}"
                )
            _defining[self.namespace] = self

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
        key, name = self._key(key, op), self._qualified(op)
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
        staging = batch(self.owner)
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
        key = self._key(key, "emitter")
        staging = batch(self.owner)
        staging.emitter(key, emit, override=override, where=location(emit))
        self._committed.append(staging.commit())

    def below(self, op: str, key: str | None = None) -> Below:
        """Returns what lies beneath this library's kernel of an operator, as a callable for that kernel to call.

        Args:
            op: the operator's name.
            key: the dispatch key; the library's when None.

        Raises:
            RegistrationError: no such operator or key.

        Example:
            >>> import tensorplay as tp
            >>> lib = tp.library.Library("tp", "IMPL", "CPU")
            >>> add = lib.below("add")
            >>> lib.impl("add", lambda self, other: add(self, other) + 10, override=True)
            >>> tp.ones(2) + tp.ones(2)
            tensor([12., 12.])
            >>> lib.close()
        """
        key, name, where = self._key(key, op), self._qualified(op), location(None)
        staging = batch(self.owner)
        found = staging.below(name, key, where=where)
        staging.commit()
        return found

    def without_composite(self, op: str, key: str | None = None) -> None:
        """Refuses the Composite kernel of an operator at a backend's key, until the library is closed.

        Args:
            op: the operator's name.
            key: the backend's key; the library's when None.

        Raises:
            RegistrationError: no such operator or key, or the key is not a backend's.
        """
        key, name, where = self._key(key, op), self._qualified(op), location(None)
        staging = batch(self.owner)
        staging.without_composite(name, key, where=where)
        self._committed.append(staging.commit())

    def _key(self, key: str | None, what: str) -> str:
        key = key or self.dispatch_key
        if key is None:
            raise ArgumentError(f"{what}: which dispatch key? Pass key=, or give the Library a dispatch_key")
        return key

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
        staging = batch(self.owner)
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
        if vars(self).get("kind") == "DEF" and _defining.get(self.namespace) is self:
            del _defining[self.namespace]

    def __del__(self) -> None:
        """Closes the library with its last reference."""
        self.close()

    def __repr__(self) -> str:
        """Names the namespace and the kind."""
        return f"Library({self.namespace!r}, {self.kind!r})"


BUILT_IN = "tp"
_defining: WeakValueDictionary[str, Library] = WeakValueDictionary()
"""Namespace to the library that defines it, while that lives and is not closed."""


def as_overload(op: Operator) -> Any:
    """Returns an operator as users know it, callable; the floor of operators replaces this by its own answer."""
    return op


def adapt_below(below: Below, op: Operator, level: str, found: Registration | None) -> Callable[..., Any]:
    """Returns what calls the kernel beneath an override as a kernel of ``level`` is called.

    The floor of operators replaces this by its own answer, which knows tensors.

    Args:
        below: who asks.
        op: the operator.
        level: ``"array"`` or ``"tensor"``: what the override takes.
        found: the next registration in the slot, or None when the slot has no more.

    Raises:
        KernelMissing: nothing else serves the key.
    """
    if found is None:
        raise below.missing("the slot has no other kernel")
    return found.function


def _bind_operator(fn: Callable[..., Any], op: Any) -> Callable[..., Any]:
    def fallback(keys: Any, *args: Any, **kwargs: Any) -> Any:
        return fn(op, keys, *args, **kwargs)

    fallback.__qualname__ = kernel_name(fn)
    return fallback
