"""``tp.ops``: every operator by namespace, name and overload, built-in and custom ones alike.

``tp.ops.ns.name`` is a packet that picks an overload, ``tp.ops.ns.name.overload`` one operator (``default`` for the one
without an overload name).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tensorplay_core.dispatch import library
from tensorplay_core.dispatch.key_set import KeySet
from tensorplay_core.dispatch.keys import parse_key
from tensorplay_core.dispatch.operator import Operator
from tensorplay_core.dispatch.registry import REGISTRY
from tensorplay_core.errors import did_you_mean
from tensorplay_core.ops import call as slow
from tensorplay_core.ops.arguments import bind
from tensorplay_core.ops.frontend import pick

if TYPE_CHECKING:
    from tensorplay_core.ops._generated_overloads import GeneratedOverloads
    from tensorplay_core.types.schema import OpSchema


class OpOverload:
    """One operator as a callable; there is one object for it, so it can be compared and be a key.

    Attributes:
        namespace: such as ``"tp"``.

    Example:
        >>> import tensorplay as tp
        >>> tp.ops.tp.add.default(tp.ones(2), tp.ones(2))
        tensor([2., 2.])
        >>> tp.ops.tp.max.dim.name(), tp.ops.tp.max.dim is tp.ops.tp.max.dim
        ('tp::max.dim', True)
    """

    def __init__(self, op: Operator) -> None:
        """See the class; :func:`overload_of` gives the one there is."""
        self._op = op
        self._overloadname = op.overload or "default"
        self._opname = op.name
        self.__name__ = f"{op.name}.{self._overloadname}"
        self.__qualname__ = f"{op.namespace}.{self.__name__}"
        self.__doc__ = getattr(op.function, "__doc__", None)
        self.namespace = op.namespace

    @property
    def tags(self) -> tuple[str, ...]:
        """The operator's tags; a definition that is run again may change them."""
        return self._op.tags

    @property
    def _schema(self) -> OpSchema:
        return self._op.schema

    @property
    def overloadpacket(self) -> OpPacket:
        """The packet of all overloads of the name."""
        return packet_of(self.namespace, self._opname)

    def name(self) -> str:
        """Returns the qualified name: ``tp::add``, ``tp::max.dim``."""
        return self._op.qualified_name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the operator."""
        return slow.call(self._op, *bind(self._op, args, kwargs))

    def redispatch(self, keys: KeySet, *args: Any, **kwargs: Any) -> Any:
        """Continues a call at the keys that are left, below the layer that calls this."""
        return slow.redispatch(self._op, keys, *bind(self._op, args, kwargs))

    def has_kernel(self, key: str | int) -> bool:
        """Whether a kernel is registered at exactly this slot."""
        return self._op.kernel_at(parse_key(key)) is not None

    def __reduce__(self) -> tuple[Any, tuple[str, ...]]:
        """Pickles by name."""
        return _named, (self._op.namespace, self._op.name, self._op.overload or "default")

    def __repr__(self) -> str:
        """Names the operator."""
        return f"<OpOverload {self._op.qualified_name}>"


def overload_of(op: Operator) -> OpOverload:
    """Returns an operator as users know it, always the same object."""
    known: OpOverload | None = op.__dict__.get("as_overload")
    return known if known is not None else op.__dict__.setdefault("as_overload", OpOverload(op))


class _Index:
    """The operators by namespace and name, made anew when an operator was defined or removed."""

    def __init__(self) -> None:
        self._made: tuple[object, dict[str, dict[str, tuple[Operator, ...]]]] = (None, {})

    def __call__(self) -> dict[str, dict[str, tuple[Operator, ...]]]:
        operators = REGISTRY.operators  # replaced, never mutated
        source, found = self._made
        if source is not operators:
            found = {}
            for op in operators.values():
                names = found.setdefault(op.namespace, {})
                names[op.name] = (*names.get(op.name, ()), op)
            self._made = (operators, found)  # in one piece, because readers take no lock
        return found


by_name = _Index()


class OpPacket:
    """The overloads of one name; calling it picks the one that the arguments fit."""

    def __init__(self, namespace: str, name: str) -> None:
        """See the class; :func:`packet_of` gives the one there is."""
        self._namespace, self._name = namespace, name
        self.__name__ = name
        self.__qualname__ = f"{namespace}.{name}"

    def _operators(self) -> tuple[Operator, ...]:
        return by_name().get(self._namespace, {}).get(self._name, ())

    def overloads(self) -> list[str]:
        """Returns the names of the overloads."""
        return [op.overload or "default" for op in self._operators()]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the overload that the arguments fit."""
        found = self._operators()
        if len(found) == 1:
            return slow.call(found[0], *bind(found[0], args, kwargs))
        return pick(f"{self._namespace}::{self._name}", found, args, kwargs)

    def __getattr__(self, name: str) -> OpOverload:
        """Returns one overload."""
        for op in self._operators():
            if (op.overload or "default") == name:
                return overload_of(op)
        raise AttributeError(
            f"{self._namespace}::{self._name} has no overload {name!r}.{did_you_mean(name, self.overloads())}"
        )

    def __reduce__(self) -> tuple[Any, tuple[str, ...]]:
        """Pickles by name."""
        return _named, (self._namespace, self._name)

    def __dir__(self) -> list[str]:
        """Lists the overloads besides what every packet has."""
        return sorted({*object.__dir__(self), *self.overloads()})

    def __repr__(self) -> str:
        """Names the packet."""
        return f"<OpPacket {self._namespace}::{self._name}({', '.join(self.overloads())})>"


_packets: dict[tuple[str, str], OpPacket] = {}


def packet_of(namespace: str, name: str) -> OpPacket:
    """Returns the packet of a name, always the same object; its operators may come and go."""
    known = _packets.get((namespace, name))
    return known if known is not None else _packets.setdefault((namespace, name), OpPacket(namespace, name))


class Namespace:
    """The operators of one namespace."""

    def __init__(self, name: str) -> None:
        """See the class."""
        self._name = name

    def __getattr__(self, name: str) -> OpPacket:
        """Returns a packet."""
        names = by_name().get(self._name, {})
        if name not in names:
            raise AttributeError(f"there is no operator {self._name}::{name}.{did_you_mean(name, names)}")
        return packet_of(self._name, name)

    def __reduce__(self) -> tuple[Any, tuple[str, ...]]:
        """Pickles by name."""
        return _named, (self._name,)

    def __dir__(self) -> list[str]:
        """Lists the operators."""
        return sorted(by_name().get(self._name, ()))


class Ops:
    """All namespaces."""

    if TYPE_CHECKING:
        tp: GeneratedOverloads

    def __getattr__(self, name: str) -> Namespace:
        """Returns a namespace."""
        names = by_name()
        if name not in names:
            raise AttributeError(f"there is no operator namespace {name!r}.{did_you_mean(name, names)}")
        return Namespace(name)

    def __dir__(self) -> list[str]:
        """Lists the namespaces."""
        return sorted(by_name())


def _named(*path: str) -> Any:
    """Returns what ``tp.ops`` calls by a path of names: a namespace, a packet or an overload."""
    import tensorplay_core.ops.load  # noqa: F401  the process that reads a pickle need not have imported the package

    found: Any = ops
    for name in path:
        found = getattr(found, name)
    return found


ops = Ops()
library.as_overload = overload_of
