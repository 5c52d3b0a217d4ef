"""``m.below``: how an override calls what it overrides, whatever that is at the time of the call.

An override is often the kernel beneath it with something added: a check, a cast, a faster road for some shapes. It must
not remember that kernel itself, because what lies beneath may be undone, unloaded or overridden too; and it cannot call
the operator, which would come back to it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tensorplay_core.dispatch import library
from tensorplay_core.dispatch.checks import default_level
from tensorplay_core.dispatch.keys import slot_name
from tensorplay_core.dispatch.operator import Operator, Slot
from tensorplay_core.errors import KernelMissing, fix

if TYPE_CHECKING:
    from tensorplay_core.dispatch.registry import Registry


class Below:
    """What lies beneath an owner's registration in one slot, as a callable; ``m.below`` and ``Library.below`` make it.

    It takes what the owner's kernel takes, raw arrays or tensors, and returns what such a kernel returns. Beneath a
    layer's kernel a key set may come first, as a kernel that was registered with ``with_keyset`` gets one; without it
    the call's own is used. What was found is kept until the operator's table changes.

    Args:
        registry: where the operator is.
        op: the operator's qualified name.
        slot: the slot.
        owner: whose registration it lies beneath.
        distribution, where: of the owner, for messages.

    Raises:
        KernelMissing: when it is called, and nothing lies beneath any more.
    """

    __slots__ = ("_found", "_rank", "_registry", "distribution", "op", "owner", "slot", "where")

    def __init__(self, registry: Registry, op: str, slot: Slot, *, owner: str, distribution: str, where: str) -> None:
        """See the class."""
        self._registry = registry
        self.op = op
        self.slot = slot
        self.owner = owner
        self.distribution = distribution
        self.where = where
        self._rank: tuple[Any, ...] | None = None
        self._found: tuple[Operator | None, int, Callable[..., Any]] = (None, 0, self._resolve)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls it."""
        op, generation, function = self._found  # in one piece, because a reader takes no lock
        if op is None or op.generation != generation:
            function = self._resolve()
        return function(*args, **kwargs)

    def _resolve(self) -> Callable[..., Any]:
        op = self._registry.operators.get(self.op)
        if op is None:
            raise self.missing("the operator does not exist any more")
        generation = op.generation  # read before the table, so that what a stale table gives is not kept
        stack = op.table.get(self.slot, ())
        place = next((i for i, one in enumerate(stack) if one.owner == self.owner), None)
        level = default_level(self.slot)
        if place is not None:
            own = stack[place]
            level, self._rank = own.level, own.rank
            rest = stack[place + 1 :]
        else:  # undone while it runs, or not in force yet: what it would lie above
            rest = tuple(one for one in stack if self._rank is None or one.rank < self._rank)
        function = library.adapt_below(self, op, level, rest[0] if rest else None)
        self._found = (op, generation, function)
        return function

    def missing(self, why: str, registered: str = "nothing") -> KernelMissing:
        """Returns the error for a call that finds nothing beneath."""
        return KernelMissing(
            f"{self.op.removeprefix('tp::')} at {slot_name(self.slot)}: nothing lies beneath the kernel of "
            f"{self.distribution} ({self.where}): {why}. Registered: {registered}."
            + fix("load the backend whose kernel it builds on, or give it one that needs none beneath.")
        )

    def __repr__(self) -> str:
        """Names the operator, the slot and the owner."""
        return f"<what lies beneath {self.distribution} in {self.op} at {slot_name(self.slot)}>"
