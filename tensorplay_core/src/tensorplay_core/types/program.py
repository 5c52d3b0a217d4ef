"""A pointwise operator as straight-line code: what the generator makes of a record's ``math``, and what emitters read.

A program says what is computed, not how: an interpreter runs its steps on tensors, a backend's emitter turns them into
a loop over blocks, a shader, a compiled kernel. Formulas are parsed by the generator alone; at run time there are only
these tuples.
"""

from __future__ import annotations

from typing import NamedTuple

Number = bool | int | float
Operand = str | Number
"""The name of an input or of an earlier step, or a literal, which is weak: it takes the dtype of what it meets."""
Step = tuple[Operand, ...]
"""``(name, operator, operand, ...)``: a new name, an operator of the contract by name, and what it is called with."""


class Program(NamedTuple):
    """What one pointwise operator computes, element by element.

    Every operator in :attr:`steps` is pointwise, and has kernels of its own: operators that are made of ``math``
    themselves have been replaced by their steps.

    Attributes:
        inputs: the positional arguments, in the order of the signature.
        keywords: the keyword-only ones, each with its default.
        numbers: those of both that are Python numbers; all others are tensors.
        scalar_steps: steps on numbers alone (``add``, ``sub``, ``mul``, ``div``, ``pow``, ``neg``), to run once in
            Python before everything else; later steps refer to them as to numbers.
        steps: the steps on elements, in order; each name is given once.
        results: one operand for each result of the operator.

    Example:
        >>> silu = Program(("self",), (), (), (), (("t0", "sigmoid", "self"), ("t1", "mul", "self", "t0")), ("t1",))
        >>> print(silu)
        t0 = sigmoid(self)
        t1 = mul(self, t0)
        return t1
    """

    inputs: tuple[str, ...]
    keywords: tuple[tuple[str, Number], ...]
    numbers: tuple[str, ...]
    scalar_steps: tuple[Step, ...]
    steps: tuple[Step, ...]
    results: tuple[Operand, ...]

    def operators(self) -> frozenset[str]:
        """Returns the names of the operators that the steps on elements call."""
        return frozenset(str(step[1]) for step in self.steps)

    def __str__(self) -> str:
        """Writes one line a step."""
        lines = [f"{name} = {op}({', '.join(map(str, args))})" for name, op, *args in (*self.scalar_steps, *self.steps)]
        return "\n".join([*lines, f"return {', '.join(map(str, self.results))}"])
