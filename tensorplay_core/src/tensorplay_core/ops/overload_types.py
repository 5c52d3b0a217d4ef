"""What a type checker and an editor see of ``tp.ops``: packets and overloads that know their operator's signature.

A generated stub is one signature; what else a packet and an overload have follows from its parameters and its result.
Nothing here exists at run time, where the objects come from :mod:`packets`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Generic, ParamSpec, TypeVar

    from tensorplay_core.dispatch.key_set import KeySet
    from tensorplay_core.ops.packets import OpOverload, OpPacket

    P = ParamSpec("P")
    R = TypeVar("R", covariant=True)

    class Overload(OpOverload, Generic[P, R]):
        """An operator with its signature."""

        def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
            """Calls the operator."""

        def redispatch(self, keys: KeySet, *args: P.args, **kwargs: P.kwargs) -> R:
            """Continues a call at the keys that are left, below the layer that calls this."""

    class Packet(OpPacket, Generic[P, R]):
        """A name with one operator, which has no overload name."""

        default: Overload[P, R]

        def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
            """Calls the operator."""

    def packet(signature: Callable[P, R]) -> Packet[P, R]:
        """Makes a signature the packet of a name with one operator."""

    def one(signature: Callable[P, R]) -> Overload[P, R]:
        """Makes a signature one of several overloads."""
