"""A batch of registrations that is checked as a whole and then published at once, or not at all.

A plugin's kernels pass through here: every problem of the batch is reported in one error, and a batch with a problem
changes nothing. Signatures are checked now, so that no call has to.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from tensorplay_core.dispatch.checks import check_level, check_signature, device_of
from tensorplay_core.dispatch.emitters import Emit, Emitter
from tensorplay_core.dispatch.keys import BACKENDS, PAGE, parse_key, slot_name
from tensorplay_core.dispatch.operator import Operator, OptOut, Registration, Slot, location
from tensorplay_core.errors import BackendConflict, RegistrationError, TensorPlayError, fix

if TYPE_CHECKING:
    from tensorplay_core.dispatch.below import Below
    from tensorplay_core.dispatch.registry import Registry

SHOWN = 3
"""How many registrations with one and the same fault are named."""
recording: ContextVar[list[Committed] | None] = ContextVar("tensorplay_recording", default=None)
"""Collects what this context commits: a plugin's registrations at its import are its backend's, and leave with it."""


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
        opted_out: tuple[OptOut, ...] = (),
        emitters: tuple[Emitter, ...] = (),
    ) -> None:
        """See the class."""
        self._registry = registry
        self.registrations = registrations
        self.emitters = emitters
        self._opted_out = opted_out
        self._undone = self.registrations, self.emitters, self._opted_out

    @property
    def in_force(self) -> bool:
        """Whether anything of the batch is in the tables."""
        return bool(self.registrations or self.emitters or self._opted_out)

    def undo(self) -> None:
        """Takes the registrations out again; what lay beneath is exposed. A second call does nothing."""
        if self.in_force:
            self._undone = self.registrations, self.emitters, self._opted_out
        self._registry.publish(
            removed=self.registrations, emitters_removed=self.emitters, opted_out_removed=self._opted_out
        )
        self.registrations, self.emitters, self._opted_out = (), (), ()

    def redo(self) -> None:
        """Puts in again what :meth:`undo` took out, but for operators that are gone.

        Raises:
            BackendConflict: a slot has another owner now; nothing is changed then.
        """
        if self.in_force:
            return
        registrations, emitters, opted_out = self._undone
        known = self._registry.operators
        registrations = tuple(r for r in registrations if r.op in known)
        self._registry.publish(added=registrations, emitters=emitters, opted_out=opted_out)
        self.registrations, self.emitters, self._opted_out = registrations, emitters, opted_out


class Staging:
    """Registrations of one owner, not yet in force.

    Args:
        registry: where they will go.
        owner: who registers.
        distribution: the installed distribution of the owner.
        priority: orders stacks among overriding owners.
        run_time: the owner is a program, or a module of its own, and no plugin: its overrides lie above all plugins'.
        serves: whether the owner registers kernels for a device type; for any when None. A built-in operator's kernel
            for a device that it does not serve is a problem, unless it says ``override``.
    """

    def __init__(
        self,
        registry: Registry,
        owner: str,
        distribution: str,
        priority: int = 0,
        *,
        run_time: bool = False,
        serves: Callable[[str], bool] | None = None,
    ) -> None:
        """See the class."""
        self._registry = registry
        self.owner = owner
        self.distribution = distribution
        self.priority = priority
        self.run_time = run_time
        self._serves = serves
        self._pending: list[Registration] = []
        self._problems: list[str] = []
        self._unknown_keys: dict[str, list[str]] = {}
        self._seen: dict[tuple[str, int | str], str] = {}
        self._opted_out: list[OptOut] = []
        self._emitters: list[Emitter] = []
        self._emitted: dict[tuple[Emitter, Operator], Registration | None] = {}
        self._sealed = False
        self.committed: Committed | None = None

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
        block: str = "",
    ) -> None:
        """Adds a kernel to the batch; whatever is wrong with it is kept for :meth:`problems`.

        Args:
            op: the operator's name.
            key: a dispatch key's number or name, or a device's type.
            fn: the kernel.
            override: may take a slot that another owner has.
            level: ``"array"`` or ``"tensor"``: what the kernel takes, where that is not what its key says.
            with_keyset: the kernel's first argument is the call's key set.
            where: the kernel's ``file:line``.
            block: the block that registers it, for messages.

        Raises:
            RegistrationError: the batch is sealed.
        """
        self._check_open(f"a kernel of {op} at {slot_name(key)}")
        where = where or location(fn)
        slot = self._slot(key, f"{op} ({_placed(where, block)})")
        if slot is None:
            return
        try:
            operator = self._registry.find(op)
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
                run_time=self.run_time,
                with_keyset=with_keyset,
            )
            check_signature(operator, registration)
            if (first := self._seen.get((operator.qualified_name, slot))) is not None:
                raise RegistrationError(f"it is registered twice in one batch: {first} and {where}")
            self._seen[operator.qualified_name, slot] = where
        except TensorPlayError as error:
            self._problems.append(f"{op} at {slot_name(slot)} ({_placed(where, block)}): {error}")
            return
        self._pending.append(registration)

    def _slot(self, key: int | str, what: str) -> Slot | None:
        """Returns the slot of a key; of one that does not exist it notes who asked, and returns None."""
        try:
            return parse_key(key)
        except TensorPlayError as error:
            self._unknown_keys.setdefault(str(error), []).append(what)
            return None

    def emitter(
        self, key: int | str, emit: Emit, *, override: bool = False, where: str | None = None, block: str = ""
    ) -> None:
        """Adds an emitter to the batch, and its kernels for all operators that have ``math``.

        What is wrong with it, or with one of its kernels, is kept for :meth:`problems`.

        Raises:
            RegistrationError: the batch is sealed.
        """
        self._check_open(f"an emitter at {slot_name(key)}")
        where = where or location(emit)
        slot = self._slot(key, f"an emitter ({_placed(where, block)})")
        if slot is None:
            return
        try:
            emitter = Emitter(
                emit,
                key=slot,
                owner=self.owner,
                distribution=self.distribution,
                where=where,
                priority=self.priority,
                override=override,
                run_time=self.run_time,
            )
            if (first := next((e for e in self._emitters if e.key == emitter.key), None)) is not None:
                raise RegistrationError(f"two emitters are registered in one batch: {first.where} and {where}")
        except TensorPlayError as error:
            self._problems.append(f"emitter at {slot_name(slot)} ({_placed(where, block)}): {error}")
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

    def without_composite(self, op: str, key: int | str, *, where: str | None = None, block: str = "") -> None:
        """Makes a backend key of an operator empty rather than served by Composite: a call is KernelMissing then."""
        self._check_open(f"that {op} at {slot_name(key)} does without Composite")
        where = where or location(None)
        slot = self._slot(key, f"without_composite({op!r}) ({_placed(where, block)})")
        if slot is None:
            return
        try:
            operator = self._registry.find(op)
            if isinstance(slot, str) or slot % PAGE >= BACKENDS:
                raise RegistrationError(
                    "only a backend's key can opt out of Composite, which serves no other by itself"
                )
        except TensorPlayError as error:
            self._problems.append(f"{op} without Composite at {slot_name(slot)} ({_placed(where, block)}): {error}")
            return
        self._opted_out.append(OptOut(operator.qualified_name, slot, self.owner, self.distribution, where))

    def below(self, op: str, key: int | str, *, where: str | None = None, block: str = "") -> Below:
        """Returns what lies beneath this owner's kernel at a key, as a callable; see :class:`Below`.

        An operator or a key that does not exist is kept for :meth:`problems`.
        """
        from tensorplay_core.dispatch.below import Below  # here, because an import of the package can do without it

        where = where or location(None)
        slot, name = self._slot(key, f"below({op!r}) ({_placed(where, block)})"), op
        try:
            name = self._registry.find(op).qualified_name
        except TensorPlayError as error:
            self._problems.append(f"below({op!r}) at {slot_name(key)} ({_placed(where, block)}): {error}")
        return Below(
            self._registry,
            name,
            key if slot is None else slot,
            owner=self.owner,
            distribution=self.distribution,
            where=where,
        )

    def seal(self) -> None:
        """Closes the batch to additions: whoever was given it to register into has had the time to."""
        self._sealed = True

    def _check_open(self, what: str) -> None:
        if self._sealed or self.committed is not None:
            raise RegistrationError(
                f"{self.distribution} registers {what} too late: this batch of registrations is complete"
                + fix("register all kernels before tensorplay_register returns, or with a tensorplay.library.Library")
            )

    def problem(self, text: str) -> None:
        """Adds a problem that was found elsewhere."""
        self._problems.append(text)

    def problems(self) -> list[str]:
        """Returns everything that is wrong with the batch, conflicts with other owners included."""
        return [*self._faults(), *self._conflicts()]

    def _faults(self) -> list[str]:
        """Returns what is wrong with the batch itself."""
        unknown = [f"{error} Asked for by {_listed(who)}." for error, who in self._unknown_keys.items()]
        return [*self._problems, *unknown, *self._foreign()]

    def _foreign(self) -> list[str]:
        """Returns which devices the batch has kernels for that are not the owner's to serve."""
        found: dict[str, list[str]] = {}
        mine: list[Registration | Emitter] = [*self._pending, *self._emitters]
        for one in mine:
            device = device_of(one.key)
            if device is None or self._serves is None or self._serves(device) or one.override:
                continue
            if isinstance(one, Emitter):
                found.setdefault(device, []).append(f"an emitter ({one.where})")
            elif one.op.startswith("tp::") and self._registry.conflict(one) is None:  # a conflict says it already
                found.setdefault(device, []).append(f"{one.op.removeprefix('tp::')} ({one.where})")
        return [
            f"{self.owner!r} does not serve the device {device!r}, and registers for it: {_listed(who)}."
            + fix(
                f"register at the keys of {self.owner!r}; or in an extender, whose backend.yaml says "
                f"'extends: [{device}]'; or with override=True, if it is meant."
            )
            for device, who in found.items()
        ]

    def _conflicts(self) -> list[str]:
        conflicts = [self._registry.conflict(registration) for registration in self._pending]
        conflicts += [self._registry.emitter_conflict(emitter) for emitter in self._emitters]
        return [conflict for conflict in conflicts if conflict is not None]

    def commit(self) -> Committed:
        """Publishes the batch as one change.

        Raises:
            BackendConflict: the only problems are slots that others own.
            RegistrationError: anything else; the message lists all problems, and nothing was changed.
        """
        with self._registry.lock:
            if self.committed is not None:
                raise RegistrationError(f"{self.distribution}: this batch of registrations was committed already")
            self._emit()  # for operators that were defined since
            faults = self._faults()
            problems = [*faults, *self._conflicts()]
            if problems:
                kind = RegistrationError if faults else BackendConflict
                head = f"{self.distribution}: {len(problems)} problem{'s' * (len(problems) > 1)} in its registrations"
                raise kind("\n  ".join([head, *problems]))
            known = self._registry.operators
            emitted = [r for (_, op), r in self._emitted.items() if r and known.get(op.qualified_name) is op]
            added, emitters, opted_out = (*self._pending, *emitted), tuple(self._emitters), tuple(self._opted_out)
            self._registry.publish(added=added, emitters=emitters, opted_out=opted_out)
            self.committed = committed = Committed(self._registry, added, opted_out, emitters)
        batches = recording.get()
        if batches is not None:
            batches.append(committed)
        return committed


def _placed(where: str, block: str) -> str:
    """Returns where a kernel is, with its block; the path only once where both are in one file."""
    return where + block.replace(f" at {where.rpartition(':')[0]}:", " of line ")


def _listed(who: list[str]) -> str:
    """Returns the first few of a list: what is wrong once is often wrong for a whole block."""
    return ", ".join(who[:SHOWN]) + f" and {len(who) - SHOWN} more" * (len(who) > SHOWN)
