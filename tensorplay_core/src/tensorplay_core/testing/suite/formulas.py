"""What an emitter makes of formulas that no operator of the contract has; whoever declares one later may write them.

A formula can return an input as it is, one result twice, or a number; each result has memory of its own all the same.
One with an operator that the backend has no kernel of is left to Composite: the emitter answers None.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

from tensorplay_core.dispatch.emitters import Emit
from tensorplay_core.dispatch.keys import backend_key
from tensorplay_core.dispatch.registry import REGISTRY
from tensorplay_core.errors import TensorPlayError
from tensorplay_core.tensor.tensor import wrap
from tensorplay_core.testing.suite.calls import Skip, bits_of
from tensorplay_core.testing.suite.device_checks import of_device
from tensorplay_core.testing.suite.outcome import Finding, Outcome
from tensorplay_core.testing.suite.subject import Subject
from tensorplay_core.types.program import Operand, Program, Step

ROW, MATRIX = [1.0, 2.0, 3.0], [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]
UNKNOWN = "no_such_operator"
WRITTEN = 9.0
"""What results are overwritten with; no formula here gives it."""


class Formula(NamedTuple):
    """A formula: what it is called with, and what it gives."""

    inputs: dict[str, Any]
    steps: tuple[Step, ...]
    results: tuple[Operand, ...]
    right: tuple[Any, ...]

    @property
    def program(self) -> Program:
        """What an emitter is asked with."""
        return Program((*self.inputs,), (), (), (), self.steps, self.results)


FORMULAS = (
    Formula({"self": MATRIX}, (), ("self",), (MATRIX,)),
    Formula({"self": 2.0}, (), ("self",), (2.0,)),
    Formula({"self": MATRIX}, (), ("self", "self"), (MATRIX, MATRIX)),
    Formula({"self": ROW}, (("t0", "neg", "self"),), ("t0", "t0"), ([-1.0, -2.0, -3.0],) * 2),
    Formula({"self": ROW}, (), (2.5,), ([2.5] * 3,)),
    Formula({"self": 2.0}, (), (2.5, 2.5), (2.5, 2.5)),
    Formula({"self": ROW, "other": MATRIX}, (), ("self",), ([ROW, ROW],)),
    Formula(
        {"condition": [True, False, True], "self": ROW}, (("t0", "where", "condition", "self", 0.5),), ("t0",),
        ([1.0, 0.5, 3.0],),
    ),
    Formula({"self": ROW, "other": MATRIX}, (("t0", "neg", "self"),), ("t0",), ([[-1.0, -2.0, -3.0]] * 2,)),
)  # fmt: skip


def formulas(subject: Subject) -> Iterator[Outcome]:
    """Asks the emitter at the device's key for kernels, in float32, and calls them."""
    found = REGISTRY.emitters.get(backend_key(subject.device), ())
    checks: list[Callable[[], None]] = []
    if found and subject.has("float32"):
        checks = [partial(_computes, subject, found[0].emit, formula) for formula in FORMULAS]
        checks.append(partial(_leaves, found[0].emit))
    yield from of_device(subject, "formulas", checks)


def _leaves(emit: Emit) -> None:
    program = Program(("self",), (), (), (), (("t0", UNKNOWN, "self"),), ("t0",))
    if emit(program) is not None:
        raise Finding(f"the emitter makes a kernel of a formula with {UNKNOWN!r}, and should return None")


def _computes(subject: Subject, emit: Emit, formula: Formula) -> None:
    kernel, words = emit(formula.program), _words(formula)
    if kernel is None:
        raise Skip
    tp = subject.tp
    inputs = [
        tp.tensor(data, dtype=tp.bool if name == "condition" else tp.float32, device=subject.device)
        for name, data in formula.inputs.items()
    ]
    results = []
    for _ in range(2):
        given = kernel(*[x._array for x in inputs])
        given = given if isinstance(given, tuple) else (given,)
        results += [wrap(subject.api.as_array(one), inputs[-1]._type) for one in given]
        found = tuple(one.tolist() for one in results[-len(given) :])
        if found != formula.right:
            raise Finding(f"{words} gives {found}, and {formula.right} is right")
    if subject.mutable:
        _apart(words, [*results, *inputs])


def _apart(words: str, tensors: list[Any]) -> None:
    for i, one in enumerate(tensors):
        others = tensors[i + 1 :]
        before = [*map(bits_of, others)]
        try:
            one.fill_(WRITTEN)
        except TensorPlayError as error:
            raise Finding(f"{words} gives a result that cannot be written to: {error}") from error
        if [*map(bits_of, others)] != before:
            raise Finding(f"{words} gives a result that shares memory with an input or with another result")


def _words(formula: Formula) -> str:
    text = str(formula.program).replace("\n", "; ")
    shapes = " and ".join(f"{name} = {value}" for name, value in formula.inputs.items())
    return f"the emitter's kernel of '{text}' for {shapes}"
