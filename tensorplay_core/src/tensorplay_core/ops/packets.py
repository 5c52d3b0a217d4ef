"""``tp.ops``: every operator by namespace, name and overload, built-in and custom ones alike.

``tp.ops.ns.name`` is a packet that picks an overload, ``tp.ops.ns.name.overload`` one operator (``default`` for the one
without an overload name).
"""

from __future__ import annotations

from typing import Any

from tensorplay_core.dispatch import library
from tensorplay_core.dispatch.key_set import KeySet
from tensorplay_core.dispatch.keys import parse_key
from tensorplay_core.dispatch.operator import Operator
from tensorplay_core.dispatch.registry import REGISTRY
from tensorplay_core.errors import did_you_mean
from tensorplay_core.ops import call as slow
from tensorplay_core.ops.arguments import bind
from tensorplay_core.ops.frontend import pick


class OpOverload:
    """One operator as a callable.

    Example:
        >>> import tensorplay as tp
        >>> tp.ops.tp.add.default(tp.ones(2), tp.ones(2))
        tensor([2., 2.])
    """

    def __init__(self, op: Operator) -> None:
        """See the class."""
        self._op = op

    @property
    def _schema(self) -> Any:
        return self._op.schema

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


class OpPacket:
    """The overloads of one name; calling it picks the one that the arguments fit."""

    def __init__(self, namespace: str, name: str) -> None:
        """See the class."""
        self._namespace, self._name = namespace, name

    def _operators(self) -> tuple[Operator, ...]:
        return tuple(
            op for op in REGISTRY.operators.values() if op.namespace == self._namespace and op.name == self._name
        )

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
                return OpOverload(op)
        raise AttributeError(
            f"{self._namespace}::{self._name} has no overload {name!r}.{did_you_mean(name, self.overloads())}"
        )

    def __reduce__(self) -> tuple[Any, tuple[str, ...]]:
        """Pickles by name."""
        return _named, (self._namespace, self._name)

    def __repr__(self) -> str:
        """Names the packet."""
        return f"<OpPacket {self._namespace}::{self._name}({', '.join(self.overloads())})>"


class Namespace:
    """The operators of one namespace."""

    def __init__(self, name: str) -> None:
        """See the class."""
        self._name = name

    def __getattr__(self, name: str) -> OpPacket:
        """Returns a packet."""
        names = [op.name for op in REGISTRY.operators.values() if op.namespace == self._name]
        if name not in names:
            raise AttributeError(f"there is no operator {self._name}::{name}.{did_you_mean(name, names)}")
        return OpPacket(self._name, name)

    def __reduce__(self) -> tuple[Any, tuple[str, ...]]:
        """Pickles by name."""
        return _named, (self._name,)

    def __dir__(self) -> list[str]:
        """Lists the operators."""
        return sorted({op.name for op in REGISTRY.operators.values() if op.namespace == self._name})


class Ops:
    """All namespaces."""

    def __getattr__(self, name: str) -> Namespace:
        """Returns a namespace."""
        names = {op.namespace for op in REGISTRY.operators.values()}
        if name not in names:
            raise AttributeError(f"there is no operator namespace {name!r}.{did_you_mean(name, names)}")
        return Namespace(name)

    def __dir__(self) -> list[str]:
        """Lists the namespaces."""
        return sorted({op.namespace for op in REGISTRY.operators.values()})


def _named(*path: str) -> Any:
    """Returns what ``tp.ops`` calls by a path of names: a namespace, a packet or an overload."""
    import tensorplay_core.ops.load  # noqa: F401  the process that reads a pickle need not have imported the package

    found: Any = ops
    for name in path:
        found = getattr(found, name)
    return found


ops = Ops()
library.as_overload = OpOverload
