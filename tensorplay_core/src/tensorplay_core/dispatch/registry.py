"""The registry: every operator, and the one place where tables change.

Writers hold the lock and publish a new table with the next generation; kernels that were resolved into tensor types
before that are thrown out under the same lock, so that no stale kernel can stay. Readers take no lock.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from types import MappingProxyType

from tensorplay_core.dispatch.emitters import Emitter
from tensorplay_core.dispatch.keys import slot_name
from tensorplay_core.dispatch.operator import Operator, OptOut, Registration, Slot
from tensorplay_core.dispatch.staging import Staging
from tensorplay_core.dispatch.tensor_type import forget_slot, lock
from tensorplay_core.errors import BackendConflict, RegistrationError, did_you_mean, fix


class Registry:
    """All operators and their tables.

    Attributes:
        operators: qualified name to operator; replaced, never mutated, so that readers can iterate over it.
        emitters: key to the emitters there, the highest ranking first; replaced like the operators.
        lock: held by every writer, and while a slot is resolved into a tensor type.
    """

    def __init__(self) -> None:
        """Makes an empty registry."""
        self.operators: dict[str, Operator] = {}
        self.emitters: dict[Slot, tuple[Emitter, ...]] = {}
        self.lock = lock
        self.on_define: list[Callable[[Operator], None]] = []
        self._numbers = itertools.count(1)

    def define(self, op: Operator) -> Operator:
        """Adds an operator; what listens (autograd's default kernels) fills its shared slots, emitters their keys'.

        Raises:
            RegistrationError: an operator of that name exists.
        """
        with self.lock:
            known = self.operators.get(op.qualified_name)
            if known is not None:
                raise RegistrationError(
                    f"operator {op.qualified_name} is defined twice: at {known.where} and at {op.where}."
                    + fix("choose another name or overload, or register a kernel for the existing operator.")
                )
            before = self.operators
            self.operators = {**before, op.qualified_name: op}
            try:
                for listen in self.on_define:
                    listen(op)
            except BaseException:
                self.operators = before
                raise
            if op.math is not None and self.emitters:
                self.publish(added=self._emit(op))
        return op

    def _emit(self, op: Operator) -> list[Registration]:
        """Returns what the emitters in force make of a new operator."""
        found = []
        for emitter in [emitter for stack in self.emitters.values() for emitter in stack]:
            try:
                registration = emitter.registration(op)
            except Exception as error:  # the emitter's fault, and whoever defines the operator cannot help it
                import warnings

                what = f"{emitter!r} failed on {op.display_name}, which has no kernel of it now"
                warnings.warn(f"{what}: {type(error).__name__}: {error}", RuntimeWarning, stacklevel=4)
                continue
            if registration is not None:
                found.append(registration)
        return found

    def remove(self, op: Operator) -> None:
        """Takes a run-time operator out again."""
        with self.lock:
            if self.operators.get(op.qualified_name) is op:
                self.operators = {name: other for name, other in self.operators.items() if other is not op}
                op.generation += 1  # what was resolved of its table is void
                forget_slot(op.slot)

    def find(self, name: str) -> Operator:
        """Returns the operator called ``name``: ``add``, ``max.dim``, ``tp::add`` or ``mine::op``.

        Raises:
            RegistrationError: there is none; the message offers the nearest names.
        """
        op = self.operators.get(name if "::" in name else f"tp::{name}")
        if op is None:
            known = [full if "::" in name else full.removeprefix("tp::") for full in self.operators]
            raise RegistrationError(f"there is no operator {name!r}.{did_you_mean(name, known)}")
        return op

    def stage(
        self,
        owner: str,
        distribution: str,
        priority: int = 0,
        *,
        run_time: bool = False,
        serves: Callable[[str], bool] | None = None,
    ) -> Staging:
        """Returns an empty batch of registrations of one owner; see :class:`Staging`."""
        return Staging(self, owner, distribution, priority, run_time=run_time, serves=serves)

    def conflict(self, new: Registration) -> str | None:
        """Says why a registration may not enter its slot, or returns None."""
        op = self.operators.get(new.op)
        if op is None:
            return f"operator {new.op} does not exist any more; {new.distribution} has a kernel for it ({new.where})."
        for old in op.table.get(new.key, ()):
            yields = any(r.override or r.placeholder or r.emitted for r in (old, new))
            if old.owner != new.owner and not yields:
                return (
                    f"{op.display_name} at {slot_name(new.key)} is taken by {old.distribution} ({old.where}); "
                    f"{new.distribution} claims it too ({new.where})."
                    + fix("pass override=True if the new kernel should win.")
                )
        return None

    def emitter_conflict(self, new: Emitter) -> str | None:
        """Says why an emitter may not enter its key, or returns None."""
        for old in self.emitters.get(new.key, ()):
            if old.owner != new.owner and not (old.override or new.override):
                return (
                    f"{slot_name(new.key)} has the emitter {old.name} of {old.distribution} ({old.where}); "
                    f"{new.distribution} brings {new.name} too ({new.where})."
                    + fix("pass override=True if the new emitter should win.")
                )
        return None

    def publish(
        self,
        added: Iterable[Registration] = (),
        removed: Iterable[Registration] = (),
        *,
        emitters: Iterable[Emitter] = (),
        emitters_removed: Iterable[Emitter] = (),
        opted_out: Iterable[OptOut] = (),
        opted_out_removed: Iterable[OptOut] = (),
    ) -> None:
        """Puts registrations, emitters and opt-outs in and takes others out, as one change.

        What an emitter has made leaves with it, whatever operator it is for.

        Raises:
            BackendConflict: a slot has another owner; nothing is changed then.
        """
        added, emitters = tuple(added), tuple(emitters)
        with self.lock:
            conflicts = (*map(self.conflict, added), *map(self.emitter_conflict, emitters))
            for conflict in filter(None, conflicts):
                raise BackendConflict(conflict)
            leaving_emitters = self._replace_emitters(emitters, tuple(emitters_removed))
            removed = (*removed, *self._made_by(leaving_emitters))
            changes: dict[str, tuple[list[Registration], list[Registration]]] = {}
            for new in added:
                changes.setdefault(new.op, ([], []))[0].append(new)
            for old in removed:
                changes.setdefault(old.op, ([], []))[1].append(old)
            for name, (entering, leaving) in changes.items():
                if (op := self.operators.get(name)) is not None:
                    self._replace(op, entering, leaving)
            self._opt_out(tuple(opted_out), tuple(opted_out_removed))

    def _replace_emitters(self, added: tuple[Emitter, ...], removed: tuple[Emitter, ...]) -> list[Emitter]:
        """Publishes the emitters of each key, and returns those that were in force and are not any more."""
        before = [emitter for stack in self.emitters.values() for emitter in stack]
        mine = {(emitter.key, emitter.owner) for emitter in added}
        stay = [emitter for emitter in before if emitter not in removed and (emitter.key, emitter.owner) not in mine]
        after: dict[Slot, tuple[Emitter, ...]] = {}
        for emitter in sorted((*stay, *added), key=lambda e: e.rank, reverse=True):
            after[emitter.key] = (*after.get(emitter.key, ()), emitter)
        self.emitters = after
        return [emitter for emitter in before if emitter not in stay and emitter not in added]

    def _made_by(self, emitters: list[Emitter]) -> list[Registration]:
        return [
            registration
            for emitter in emitters
            for op in self.operators.values()
            for registration in op.table.get(emitter.key, ())
            if registration.emitter is emitter
        ]

    def _replace(self, op: Operator, added: list[Registration], removed: list[Registration]) -> None:
        table = dict(op.table)
        for old in removed:
            table[old.key] = tuple(r for r in table.get(old.key, ()) if r is not old)
        for new in added:
            new.number = next(self._numbers)
            others = [r for r in table.get(new.key, ()) if r.owner != new.owner or r.emitted != new.emitted]
            table[new.key] = tuple(sorted((*others, new), key=lambda r: r.rank, reverse=True))
        op.table = MappingProxyType({slot: stack for slot, stack in table.items() if stack})
        self._changed(op)

    def _opt_out(self, added: tuple[OptOut, ...], removed: tuple[OptOut, ...]) -> None:
        """Opts backend keys out of Composite, and back in when nobody is left who wants them out."""
        for one in (*removed, *added):
            op = self.operators.get(one.op)
            if op is None:
                continue
            before = op.without_composite.get(one.key, ())
            after = tuple(other for other in before if other is not one)
            if one in added:
                after = (*(other for other in after if other.owner != one.owner), one)
            if after != before:
                changed = {**op.without_composite, one.key: after}
                op.without_composite = MappingProxyType({key: who for key, who in changed.items() if who})
                self._changed(op)

    def _changed(self, op: Operator) -> None:
        op.roads = {}
        op.generation += 1
        forget_slot(op.slot)
        # Variants that write, and use this operator's kernel, have the same slot with an underscore after the name.
        if op.functional is None:
            variant = self.operators.get(f"{op.namespace}::{op.name}_{'.' * bool(op.overload)}{op.overload}")
            if variant is not None:
                variant.generation += 1
                forget_slot(variant.slot)


REGISTRY = Registry()
