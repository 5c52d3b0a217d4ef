"""A batch of registrations that is checked as a whole and then published at once, or not at all.

A plugin's kernels pass through here: every problem of the batch is reported in one error, and a batch with a problem
changes nothing. Signatures are checked now, so that no call has to.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tensorplay_core.dispatch.checks import check_level, check_signature
from tensorplay_core.dispatch.emitters import Emit, Emitter
from tensorplay_core.dispatch.keys import BACKENDS, PAGE, parse_key, slot_name
from tensorplay_core.dispatch.operator import Operator, Registration, location
from tensorplay_core.errors import BackendConflict, RegistrationError, TensorPlayError

if TYPE_CHECKING:
    from tensorplay_core.dispatch.registry import Registry


class Committed:
    """What a batch put into the tables; undoing it takes out exactly that.

    Attributes:
        registrations: the registrations that are in force.
        emitters: the emitters; their kernels are among the registrations, but for operators that came later.
    """

    def __init__(
        self,
        registry: Registry,
        registrations: tuple[Registration, ...],
        opted_out: tuple[tuple[Operator, int], ...] = (),
        emitters: tuple[Emitter, ...] = (),
    ) -> None:
        """See the class."""
        self._registry = registry
        self.registrations = registrations
        self.emitters = emitters
        self._opted_out = opted_out

    def undo(self) -> None:
        """Takes the registrations out again; what lay beneath is exposed. A second call does nothing."""
        self._registry.publish(removed=self.registrations, emitters_removed=self.emitters)
        for op, key in self._opted_out:
            self._registry.opt_out_of_composite(op, key, undo=True)
        self.registrations, self.emitters, self._opted_out = (), (), ()


class Staging:
    """Registrations of one owner, not yet in force.

    Args:
        registry: where they will go.
        owner: who registers.
        distribution: the installed distribution of the owner.
        priority: orders stacks among overriding owners.
    """

    def __init__(self, registry: Registry, owner: str, distribution: str, priority: int = 0) -> None:
        """See the class."""
        self._registry = registry
        self.owner = owner
        self.distribution = distribution
        self.priority = priority
        self._pending: list[Registration] = []
        self._problems: list[str] = []
        self._seen: dict[tuple[str, int | str], str] = {}
        self._opted_out: list[tuple[Operator, int]] = []
        self._emitters: list[Emitter] = []
        self._emitted: dict[tuple[Emitter, Operator], Registration | None] = {}

    def impl(
        self,
        op: str,
        key: int | str,
        fn: Callable[..., Any],
        *,
        override: bool = False,
        level: str | None = None,
        with_keyset: bool = False,
        where: str | None = None,
    ) -> None:
        """Adds a kernel to the batch; whatever is wrong with it is kept for :meth:`problems`."""
        where = where or location(fn)
        try:
            operator = self._registry.find(op)
            slot = parse_key(key)
            level = check_level(slot, level, with_keyset)
            registration = Registration(
                fn,
                op=operator.qualified_name,
                key=slot,
                owner=self.owner,
                distribution=self.distribution,
                where=where,
                level=level,
                priority=self.priority,
                override=override,
                with_keyset=with_keyset,
            )
            check_signature(operator, registration)
            if (first := self._seen.get((operator.qualified_name, slot))) is not None:
                raise RegistrationError(f"it is registered twice in one batch: {first} and {where}")
            self._seen[operator.qualified_name, slot] = where
        except TensorPlayError as error:
            self._problems.append(f"{op} at {slot_name(key)} ({where}): {error}")
            return
        self._pending.append(registration)

    def emitter(self, key: int | str, emit: Emit, *, override: bool = False, where: str | None = None) -> None:
        """Adds an emitter to the batch, and its kernels for all operators that have ``math``.

        What is wrong with it, or with one of its kernels, is kept for :meth:`problems`.
        """
        where = where or location(emit)
        try:
            emitter = Emitter(
                emit,
                key=parse_key(key),
                owner=self.owner,
                distribution=self.distribution,
                where=where,
                priority=self.priority,
                override=override,
            )
            if (first := next((e for e in self._emitters if e.key == emitter.key), None)) is not None:
                raise RegistrationError(f"two emitters are registered in one batch: {first.where} and {where}")
        except TensorPlayError as error:
            self._problems.append(f"emitter at {slot_name(key)} ({where}): {error}")
            return
        self._emitters.append(emitter)
        self._emit()

    def _emit(self) -> None:
        """Asks the batch's emitters for kernels of all operators that they have not been asked about."""
        for op in self._registry.operators.values():
            if op.math is None:
                continue
            for emitter in self._emitters:
                if (emitter, op) in self._emitted:
                    continue
                self._emitted[emitter, op] = None
                try:
                    self._emitted[emitter, op] = emitter.registration(op)
                except Exception as error:
                    what = str(error) if isinstance(error, TensorPlayError) else f"{type(error).__name__}: {error}"
                    self._problems.append(
                        f"{op.display_name} at {slot_name(emitter.key)}, emitted by {emitter.name} "
                        f"({emitter.where}): {what}"
                    )

    def without_composite(self, op: str, key: int | str) -> None:
        """Makes a backend key of an operator empty rather than served by Composite: a call is KernelMissing then."""
        try:
            operator, slot = self._registry.find(op), parse_key(key)
            if isinstance(slot, str) or slot % PAGE >= BACKENDS:
                raise RegistrationError("only a backend key can opt out of Composite")
        except TensorPlayError as error:
            self._problems.append(f"{op} at {slot_name(key)}: {error}")
            return
        self._opted_out.append((operator, slot))

    def problem(self, text: str) -> None:
        """Adds a problem that was found elsewhere."""
        self._problems.append(text)

    def problems(self) -> list[str]:
        """Returns everything that is wrong with the batch, conflicts with other owners included."""
        conflicts = [self._registry.conflict(registration) for registration in self._pending]
        conflicts += [self._registry.emitter_conflict(emitter) for emitter in self._emitters]
        return self._problems + [conflict for conflict in conflicts if conflict is not None]

    def commit(self) -> Committed:
        """Publishes the batch as one change.

        Raises:
            BackendConflict: the only problems are slots that others own.
            RegistrationError: anything else; the message lists all problems, and nothing was changed.
        """
        with self._registry.lock:
            self._emit()  # for operators that were defined since
            problems = self.problems()
            if problems:
                kind = RegistrationError if self._problems else BackendConflict
                head = f"{self.distribution}: {len(problems)} problem{'s' * (len(problems) > 1)} in its registrations"
                raise kind("\n  ".join([head, *problems]))
            known = self._registry.operators
            emitted = [r for (_, op), r in self._emitted.items() if r and known.get(op.qualified_name) is op]
            added, emitters = (*self._pending, *emitted), tuple(self._emitters)
            self._registry.publish(added=added, emitters=emitters)
            for op, key in self._opted_out:
                self._registry.opt_out_of_composite(op, key)
        return Committed(self._registry, added, tuple(self._opted_out), emitters)
