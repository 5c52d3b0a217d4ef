"""A batch of registrations that is checked as a whole and then published at once, or not at all.

A plugin's kernels pass through here: every problem of the batch is reported in one error, and a batch with a problem
changes nothing. Signatures are checked now, so that no call has to.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tensorplay_core.dispatch.keys import BACKENDS, PAGE, DispatchKey, parse_key, slot_name
from tensorplay_core.dispatch.operator import Operator, Registration, location
from tensorplay_core.errors import BackendConflict, RegistrationError, TensorPlayError

if TYPE_CHECKING:
    from tensorplay_core.dispatch.registry import Registry


class Committed:
    """What a batch put into the tables; undoing it takes out exactly that.

    Attributes:
        registrations: the registrations that are in force.
    """

    def __init__(
        self,
        registry: Registry,
        registrations: tuple[Registration, ...],
        opted_out: tuple[tuple[Operator, int], ...] = (),
    ) -> None:
        """See the class."""
        self._registry = registry
        self.registrations = registrations
        self._opted_out = opted_out

    def undo(self) -> None:
        """Takes the registrations out again; what lay beneath is exposed. A second call does nothing."""
        self._registry.publish(removed=self.registrations)
        for op, key in self._opted_out:
            self._registry.opt_out_of_composite(op, key, undo=True)
        self.registrations, self._opted_out = (), ()


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
        return self._problems + [conflict for conflict in conflicts if conflict is not None]

    def commit(self) -> Committed:
        """Publishes the batch as one change.

        Raises:
            BackendConflict: the only problems are slots that others own.
            RegistrationError: anything else; the message lists all problems, and nothing was changed.
        """
        with self._registry.lock:
            problems = self.problems()
            if problems:
                kind = RegistrationError if self._problems else BackendConflict
                head = f"{self.distribution}: {len(problems)} problem{'s' * (len(problems) > 1)} in its registrations"
                raise kind("\n  ".join([head, *problems]))
            self._registry.publish(added=self._pending)
            for op, key in self._opted_out:
                self._registry.opt_out_of_composite(op, key)
        return Committed(self._registry, tuple(self._pending), tuple(self._opted_out))


def default_level(slot: int | str) -> str:
    """Returns what kernels of a slot take: raw arrays at backend keys, tensors everywhere else."""
    if isinstance(slot, int) and slot % PAGE < BACKENDS and slot != DispatchKey.Composite:
        return "array"
    return "tensor"


def check_level(slot: int | str, level: str | None, with_keyset: bool) -> str:
    """Returns what a kernel takes, arrays or tensors.

    Raises:
        RegistrationError: arrays where only tensors will do.
    """
    default = default_level(slot)
    if level not in (None, "array", "tensor"):
        raise RegistrationError(f"level is 'array' or 'tensor', not {level!r}")
    if level == "array" and default == "tensor":
        raise RegistrationError(
            f"a kernel at {slot_name(slot)} takes tensors; only backend keys have kernels on arrays"
        )
    if (level or default) == "array" and with_keyset:
        raise RegistrationError("a kernel on raw arrays cannot redispatch; pass level='tensor' to get the key set")
    return level or default


def check_signature(op: Operator, registration: Registration) -> None:
    """Refuses a kernel that the operator's arguments do not fit, and notes which keywords it takes.

    Raises:
        RegistrationError: with both signatures.
    """
    import inspect  # here, because kernels are registered when a backend is first used, not at import

    function, schema = registration.function, op.schema
    if not callable(function):
        raise RegistrationError(f"a kernel is a callable, not {function!r}")
    positional, keyword_only = schema.positional, schema.keyword_only
    inputs = getattr(function, "nin", None)
    if isinstance(inputs, int):  # a ufunc
        registration.keywords = frozenset()
        if inputs != len(positional):
            raise RegistrationError(f"the kernel takes {inputs} arrays, the operator is {schema}")
        return
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        registration.unchecked = True
        return
    parameters = signature.parameters.values()
    takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters)
    named = {p.name for p in parameters if p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD)}
    registration.keywords = None if takes_any else frozenset(a.name for a in keyword_only if a.name in named)
    # An array kernel may omit keyword-only arguments: a call that changes one goes to Composite.
    passed = {a.name: None for a in keyword_only if takes_any or a.name in named or registration.level == "tensor"}
    arguments = [None] * (len(positional) + registration.with_keyset)
    # A call passes the keywords that it changes, so the kernel must do without those that have a default.
    always = ("dtype", "device") if "creation" in op.tags else ()
    fewest = {a.name: None for a in keyword_only if a.name in passed and (a.default is None or a.name in always)}
    try:
        signature.bind(*arguments, **passed)
        signature.bind(*arguments, **fewest)
    except TypeError as error:
        raise RegistrationError(f"the kernel's signature is {signature}, the operator is {schema}: {error}") from None
