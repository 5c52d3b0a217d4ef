"""Emitters: what makes a kernel of an operator's one-line formula, so that a backend gets all such operators at once.

A backend registers one function at its key. It is asked for a kernel for every operator that has a
:class:`~tensorplay_core.types.program.Program`, those that are defined later included, and what it returns lies in the
operator's table like any other kernel, only beneath every handwritten one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tensorplay_core.dispatch.checks import check_signature, default_level
from tensorplay_core.dispatch.keys import BACKENDS, PAGE, DispatchKey, slot_name
from tensorplay_core.dispatch.operator import Operator, Registration, Slot, kernel_name
from tensorplay_core.errors import RegistrationError

if TYPE_CHECKING:
    from tensorplay_core.types.program import Program

Emit = Callable[["Program"], Callable[..., Any] | None]
"""Returns a kernel for a program, or None where it cannot make one. It must be quick: what takes time, such as
compiling, belongs into the kernel's first call."""


class Emitter:
    """An emitter at one key, and where it came from.

    Attributes:
        emit: the function.
        key: a backend's key, where its kernels take arrays, or Composite, where they take tensors.
        owner, distribution, where, priority, override, run_time: as those of a :class:`Registration`; its kernels have
            the same.
    """

    __slots__ = ("distribution", "emit", "key", "override", "owner", "priority", "run_time", "where")

    def __init__(
        self,
        emit: Emit,
        *,
        key: Slot,
        owner: str,
        distribution: str,
        where: str,
        priority: int = 0,
        override: bool = False,
        run_time: bool = False,
    ) -> None:
        """See the class.

        Raises:
            RegistrationError: the key is a layer's, or ``emit`` cannot be called.
        """
        if isinstance(key, str) or not (key % PAGE < BACKENDS or key == DispatchKey.Composite):
            raise RegistrationError(
                f"{slot_name(key)}: emitters stand at a backend's key or at Composite; a layer has no formulas to run"
            )
        if not callable(emit):
            raise RegistrationError(f"an emitter is a callable that takes a Program, not {emit!r}")
        self.emit = emit
        self.key = key
        self.owner = owner
        self.distribution = distribution
        self.where = where
        self.priority = priority
        self.override = override
        self.run_time = run_time

    @property
    def rank(self) -> tuple[bool, bool, int, str]:
        """What orders the emitters of one key, the largest on top, as kernels are ordered."""
        return (self.override, self.run_time, self.priority, self.owner)

    @property
    def name(self) -> str:
        """The function's name for a reader, such as ``tensorplay_cpu.math.emit``."""
        return kernel_name(self.emit)

    def registration(self, op: Operator) -> Registration | None:
        """Returns the emitted kernel of an operator, checked; None where the emitter cannot make one.

        Raises:
            RegistrationError: what was returned is no kernel for the operator.
            Exception: whatever the emitter raises.
        """
        assert op.math is not None
        kernel = self.emit(op.math)
        if kernel is None:
            return None
        registration = Registration(
            kernel,
            op=op.qualified_name,
            key=self.key,
            owner=self.owner,
            distribution=self.distribution,
            where=self.where,
            level=default_level(self.key),
            priority=self.priority,
            override=self.override,
            run_time=self.run_time,
        )
        registration.emitter = self
        check_signature(op, registration)
        return registration

    def __repr__(self) -> str:
        """Names the emitter, its key and its origin."""
        return f"<emitter {self.name} at {slot_name(self.key)}, {self.distribution} ({self.where})>"
