"""What a symbolic derivative must not be, and the search for it: a choice, a removable singularity, lost digits.

Where the rule for a derivative is somebody's choice, or the formula that algebra gives computes badly, the record must
be written by hand (docs/contract.md). Choices are seen in the formula; the rest is found by trying it at points that
such formulas fail at: zero, tiny and huge numbers, the numbers that the formula mentions, and the places of its kinks.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from ctypes import c_float

import attrs

from tensorplay_core.codegen.formula import ast
from tensorplay_core.codegen.formula.ast import Expr
from tensorplay_core.codegen.math import algebra, numeric
from tensorplay_core.codegen.math.differentiate import Rules, depends

NOT_HOLOMORPHIC = frozenset({"abs", "sgn", "real", "conj", "maximum", "minimum", "relu", "lt", "le", "gt", "ge"})
KINKS = {"abs": 1, "relu": 1, "maximum": 2, "minimum": 2}
"""Operators whose slope jumps where their argument is 0, or where their two arguments are equal."""
EPS = 2.0**-24
LOST = 64.0
"""How many roundings of single precision a derivative may be off, times its condition number."""
_SMALL, _LARGE = 1e-30, 1e37
_GRIDS = (
    (1e-30, 1e-10, 1e-5, 1e-3, 0.01, 0.1, 0.25, 0.5, 0.75, 1, 1.5, 2, 3, 5, 8, 12, 20, 40, 100, 1e3, 1e6, 1e10, 1e30),
    (1e-10, 1e-3, 0.5, 1, 3, 20, 1e6),
    (1e-3, 1, 3, 50),
)
_SAFE = (0, 1, -1, 2)
_SHOWN = 80


@attrs.frozen
class Refusal:
    """Why a derivative must be written by hand.

    Attributes:
        reason: in one sentence.
        position: where in the formula.
    """

    reason: str
    position: int = 0


# ------------------------------------------------------------------------------------------------- seen in the formula


def choice_in(expr: Expr, inputs: tuple[str, ...], takes_complex: bool) -> Refusal | None:
    """Finds what makes a derivative a choice, or not one of complex numbers.

    Example:
        >>> from tensorplay_core.codegen.formula.parser import parse_formula
        >>> choice_in(parse_formula("where(self == 0, 1, self)"), ("self",), False).reason
        'it tests `self == 0` for equality: what the derivative is there is a choice'
    """
    for node in ast.walk(expr):
        found = algebra.as_call(node)
        if found is None or not depends(node, inputs):
            continue
        if found[0] in ("eq", "ne"):
            return Refusal(f"it tests `{node}` for equality: what the derivative is there is a choice", node.position)
        if takes_complex and found[0] in NOT_HOLOMORPHIC:
            reason = f"`{found[0]}` is not holomorphic, and without the tag `real` the operator takes complex tensors"
            return Refusal(reason, node.position)
    return None


# ---------------------------------------------------------------------------------------------------- found by trying


@attrs.frozen
class Trial:
    """One formula and its derivatives, to be tried at points.

    Attributes:
        expr: the formula of one output; operators made of ``math`` are written out in it.
        gradients: input to the formula of its gradient; ``grad`` is 1 here.
        constants: the arguments that are numbers, with the values that are tried.
        rules: the derivative records.
        functions: the operators, as functions of floats.
    """

    expr: Expr
    gradients: Mapping[str, Expr]
    constants: Mapping[str, float]
    rules: Rules
    functions: numeric.Functions = numeric.FUNCTIONS

    def value(self, expr: Expr, point: Mapping[str, float], *, single: bool = False) -> float:
        """Returns the value of one of the formulas at a point."""
        return numeric.evaluate(expr, point, self.functions, single=single)

    def points(self) -> Iterator[dict[str, float]]:
        """Yields the points: every combination of an input's values."""
        names = tuple(self.gradients)
        positive = _GRIDS[min(len(names), len(_GRIDS)) - 1]
        mentioned = {abs(v) for n in ast.walk(self.expr) if (v := algebra.value_of(n)) is not None and math.isfinite(v)}
        mentioned |= {abs(v) for v in self.constants.values()}
        grid = sorted({float(sign * v) for v in (*positive, *mentioned) for sign in (1, -1)} | {0.0})
        for point in itertools.product(grid, repeat=len(names)):
            yield {**self.constants, "grad": 1.0, **{n: c_float(v).value for n, v in zip(names, point, strict=True)}}

    def refusal(self) -> Refusal | None:
        """Returns the first thing that is wrong, or None."""
        if not self.can_be_tried():
            return None
        nearest = sorted(self.points(), key=lambda point: [(abs(point[n]), point[n] < 0) for n in self.gradients])
        for search in (self._no_number, self._lost_digits):
            for point in nearest:
                if (found := search(point)) is not None:
                    return found
        return self._kink()

    def can_be_tried(self) -> bool:
        """Whether every operator in it can be computed here."""
        every = (self.expr, *self.gradients.values())
        called = {found[0] for e in every for node in ast.walk(e) if (found := algebra.as_call(node)) is not None}
        return all(name in self.functions for name in called)

    def _no_number(self, point: dict[str, float]) -> Refusal | None:
        here = self.value(self.expr, point)
        for name, gradient in self.gradients.items():
            slope = self.value(gradient, point)
            if slope == slope:
                continue
            if here == here:
                where = f"{_at(point)}, where the value is {here:.6g}"
                return Refusal(f"its derivative{_shown(gradient)} is NaN at {where}")
            near = [self.value(self.expr, _moved(point, name, step)) for step in (1e-6, -1e-6)]
            if all(math.isfinite(v) for v in near) and abs(near[0] - near[1]) < 1e-3 * (1 + abs(near[0])):
                beside = f"it is NaN there, and {near[0]:.6g} beside it"
                return Refusal(f"it has a removable singularity at {_at(point)}: {beside}")
        return None

    def _lost_digits(self, point: dict[str, float]) -> Refusal | None:
        for gradient in self.gradients.values():
            exact = self.value(gradient, point)
            if not _SMALL < abs(exact) < _LARGE:
                continue
            rounded = self.value(gradient, point, single=True)
            if not math.isfinite(rounded):
                return Refusal(
                    f"its derivative{_shown(gradient)} overflows in float32 at {_at(point)}, where it is {exact:.6g}"
                )
            error = abs(rounded - exact) / abs(exact) / EPS
            if error > LOST * (1 + self._condition(gradient, point, exact)):
                digits = max(0, round(24 - math.log2(error)))
                return Refusal(
                    f"its derivative{_shown(gradient)} cancels: at {_at(point)} float32 gets {digits} of 24 bits right"
                )
        return None

    def _condition(self, gradient: Expr, point: dict[str, float], exact: float) -> float:
        """How much a relative error of the inputs is amplified: the sum of ``|x f'(x) / f(x)|``."""
        total = 0.0
        for name in self.gradients:
            step = 1e-6 * abs(point[name])
            if step:
                a, b = (self.value(gradient, {**point, name: point[name] + s}) for s in (step, -step))
                total += abs(point[name] * (a - b) / (2 * step) / exact) if math.isfinite(a - b) else math.inf
        return total

    def _kink(self) -> Refusal | None:
        """Refuses a derivative that jumps at a kink of ``abs``, ``maximum`` and the like."""
        for node in ast.walk(self.expr):
            found = algebra.as_call(node)
            if found is None or found[0] not in KINKS or not depends(node, tuple(self.gradients)):
                continue
            distance = found[1][0] if KINKS[found[0]] == 1 else algebra.sub(*found[1])
            for point in self._zeros(distance):
                if self._jumps(point):
                    kink = f"{_at(point)}, where `{node}` has a kink"
                    return Refusal(f"its derivative jumps at {kink}: what it is there is a choice", node.position)
        return None

    def _zeros(self, distance: Expr) -> Iterator[dict[str, float]]:
        """Yields points where a formula is zero, along one input."""
        name = next(n for n in self.gradients if depends(distance, (n,)))
        before: dict[str, float] | None = None
        for point in self.points():
            value = self.value(distance, point)
            if value == 0:
                yield point
            elif before is not None and before[name] < point[name]:
                last = self.value(distance, before)
                same = all(before[n] == point[n] for n in point if n != name)
                if same and last * value < 0:
                    yield self._bisected(distance, name, before, point)
            before = point

    def _bisected(self, distance: Expr, name: str, low: dict[str, float], high: dict[str, float]) -> dict[str, float]:
        for _ in range(200):
            middle = {**low, name: (low[name] + high[name]) / 2}
            same = self.value(distance, middle) * self.value(distance, low) > 0
            low, high = (middle, high) if same else (low, middle)
        return high

    def _jumps(self, point: dict[str, float]) -> bool:
        for gradient in self.gradients.values():
            here = self.value(gradient, point)
            for name in self.gradients:
                for step in (1e-7, -1e-7):
                    there = self.value(gradient, _moved(point, name, step))
                    if abs(there - here) > 1e-4 * (1 + abs(here)):
                        return True
        return False

    # ------------------------------------------------------------------------------------------- the second derivative

    def guarded(self, name: str) -> tuple[Expr, Refusal | None]:
        """Returns an input's gradient so that it can be differentiated again: a branch that is not taken stays finite.

        The engine differentiates both branches of a ``where`` and multiplies the one that is not taken by 0, which is
        NaN when its slope is infinite. There the branch is given a harmless argument instead.
        """
        gradient = self.gradients[name]
        if not self.can_be_tried():
            return gradient, None
        failing = self._not_differentiable_again(gradient)
        while failing:
            candidates = list(_with_a_guard(gradient, tuple(self.gradients)))
            left = {candidate: self._not_differentiable_again(candidate) for candidate in candidates}
            best = min(candidates, key=lambda c: (len(left[c]), self._has_infinities(c, failing)), default=gradient)
            if len(left.get(best, failing)) >= len(failing):
                return gradient, Refusal(f"its second derivative is NaN at {_at(failing[0])}, and need not be")
            gradient, failing = best, left[best]
        return gradient, None

    def _has_infinities(self, expr: Expr, points: list[dict[str, float]]) -> bool:
        steps = (value for point in points for value in numeric.values(expr, point, self.functions).values())
        return not all(math.isfinite(step) for step in steps)

    def _not_differentiable_again(self, gradient: Expr) -> list[dict[str, float]]:
        failing = []
        for point in self.points():
            here = self.value(gradient, point)
            if not math.isfinite(here):
                continue
            for name in self.gradients:
                slope = numeric.slope(gradient, name, point, self.rules, self.functions)
                if slope == slope:
                    continue
                beside = [self.value(gradient, _moved(point, name, step)) for step in (1e-6, -1e-6)]
                if min(abs(there - here) for there in beside) < 1e-3 * (1 + abs(here)):  # finite from one side at least
                    failing.append(point)
        return failing


def _with_a_guard(expr: Expr, inputs: tuple[str, ...]) -> Iterator[Expr]:
    """Yields a formula with one branch of one ``where`` given another argument where it is not taken."""
    match expr:
        case ast.Call(function="where", args=(condition, a, b)):
            for safe in map(algebra.number, _SAFE):
                yield ast.Call("where", (condition, a, _guarded_branch(b, inputs, condition, taken=False, safe=safe)))
                yield ast.Call("where", (condition, _guarded_branch(a, inputs, condition, taken=True, safe=safe), b))
            for inner in _with_a_guard(a, inputs):
                yield ast.Call("where", (condition, inner, b))
            for inner in _with_a_guard(b, inputs):
                yield ast.Call("where", (condition, a, inner))


def _guarded_branch(expr: Expr, inputs: tuple[str, ...], condition: Expr, *, taken: bool, safe: Expr) -> Expr:
    """Returns a branch whose inputs are ``safe`` wherever it is not taken; ``taken``: where the condition holds."""

    def replace(node: Expr) -> Expr | None:
        if isinstance(node, ast.Name) and node.name in inputs:
            return ast.Call("where", (condition, node, safe) if taken else (condition, safe, node))
        return None

    return ast.transform(expr, replace)


def _moved(point: dict[str, float], name: str, step: float) -> dict[str, float]:
    return {**point, name: point[name] + step * max(1.0, abs(point[name]))}


def _shown(formula: Expr) -> str:
    """Returns a formula for a message, unless it is too long to be read there."""
    text = str(formula)
    return f" `{text}`" if len(text) <= _SHOWN else ""


def _at(point: Mapping[str, float]) -> str:
    return ", ".join(f"{name} = {value:.6g}" for name, value in point.items() if name != "grad")
