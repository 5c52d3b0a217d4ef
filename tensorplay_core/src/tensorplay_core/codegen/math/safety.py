"""What a symbolic derivative must not be, and the search for it: a choice, a removable singularity, lost digits.

Where the rule for a derivative is somebody's choice, or the formula that algebra gives computes badly, the record must
be written by hand (docs/contract.md). Choices are seen in the formula; the rest is found by trying it at points that
such formulas fail at: zero, tiny and huge numbers, the numbers that the formula mentions, and the places of its kinks.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from ctypes import c_float
from functools import cached_property

import attrs

from tensorplay_core.codegen.formula import ast
from tensorplay_core.codegen.formula.ast import Expr
from tensorplay_core.codegen.math import algebra, numeric
from tensorplay_core.codegen.math.differentiate import Rules, depends

NOT_HOLOMORPHIC = frozenset({"abs", "sgn", "real", "conj", "maximum", "minimum", "relu", "lt", "le", "gt", "ge"})
KINKS = {"abs": 1, "sgn": 1, "relu": 1, "maximum": 2, "minimum": 2}
"""Operators whose slope jumps where their argument is 0, or where their two arguments are equal."""
EPS = 2.0**-24
LOST = 64.0
"""How many roundings of single precision a derivative may be off, times its condition number."""
_SMALL, _LARGE = 1e-30, 1e37
_FINE = (
    1e-30, 1e-10, 1e-5, 1e-3, 0.01, 0.1, 0.25, 0.5, 0.75, 1, 1.5, 2, 3, 5, 8, 12, 20, 40, 100, 1e3, 1e6, 1e10, 1e30,
    1e38,
)  # fmt: skip
_COARSE = {2: (1e-10, 1e-3, 0.5, 1, 3, 20, 1e6), 3: (1e-3, 1, 3), 4: (1, 20)}
"""How many inputs there are, to the numbers that all of them take in every combination; of more inputs, none."""
_FEW = 700
"""How many combinations are tried at most; beyond that, each input takes all numbers beside fixed others."""
_OTHERS = (1.0, -2.0, 0.3)
"""What the others are while one of several inputs takes all numbers."""
_STEPS = (1e-10, 1e-12)
BESIDE = (1.3724861e-6, -1.3724861e-6)
"""How far the neighbours of a point are; of an integer they are none."""
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


@attrs.frozen(eq=False, slots=False)
class Trial:
    """One formula and its derivatives, to be tried at points.

    Attributes:
        expr: the formula of one output; operators made of ``math`` are written out in it.
        gradients: input to the formula of its gradient.
        constants: the arguments that are numbers, with the values that are tried.
        rules: the derivative records.
        functions: the operators, as functions of floats.
    """

    expr: Expr
    gradients: Mapping[str, Expr]
    constants: Mapping[str, float]
    rules: Rules
    functions: numeric.Functions = numeric.FUNCTIONS
    incoming: tuple[str, ...] = ("grad",)
    """The names of the gradients that come in, which are 1 here."""

    def value(self, expr: Expr, point: Mapping[str, float], *, single: bool = False) -> float:
        """Returns the value of one of the formulas at a point."""
        return numeric.evaluate(expr, point, self.functions, single=single)

    def points(self) -> Sequence[dict[str, float]]:
        """Returns the points; every number in them is one of single precision, or one that the formula mentions."""
        return self._points

    @cached_property
    def _points(self) -> list[dict[str, float]]:
        names = tuple(self.gradients)
        fine = self._grid(_FINE)
        combinations: dict[tuple[float, ...], None] = {}
        if len(names) == 1:
            combinations = {(x,): None for x in fine}
        elif len(names) in _COARSE:
            grid = self._grid(_COARSE[len(names)])
            if len(grid) ** len(names) > _FEW:
                grid = self._grid(_COARSE[len(names)], numbers=())
            combinations = dict.fromkeys(itertools.product(grid, repeat=len(names)))
        if len(names) > 1:
            for i, other in itertools.product(range(len(names)), _OTHERS):
                others = tuple(other * (1 + k / 8) for k in range(len(names)))
                combinations.update({(*others[:i], x, *others[i + 1 :]): None for x in fine})
        fixed = {**self.constants, **dict.fromkeys(self.incoming, 1.0)}
        return [{**fixed, **dict(zip(names, point, strict=True))} for point in combinations]

    def _grid(self, positive: Sequence[float], numbers: Sequence[float] | None = None) -> list[float]:
        """Returns numbers of both signs in order; among them those that the formula has."""
        mentioned = {abs(v) for v in (self._mentioned if numbers is None else numbers)}
        every = {*(c_float(v).value for v in (*positive, *mentioned)), *mentioned}
        return sorted({sign * v for v in every for sign in (1.0, -1.0) if math.isfinite(v)} | {0.0})

    @cached_property
    def _mentioned(self) -> tuple[float, ...]:
        literals = (algebra.value_of(node) for node in ast.walk(self.expr))
        found = (numeric.as_float(v) for v in literals if v is not None)
        return tuple(v for v in (*found, *self.constants.values()) if math.isfinite(v))

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
            if here == here and slope == slope:
                continue
            near = [self.value(self.expr, moved(point, name, step)) for step in BESIDE]
            if here != here:
                if all(math.isfinite(v) for v in near) and abs(near[0] - near[1]) < 1e-3 * (1 + abs(near[0])):
                    beside = f"it is NaN there, and {near[0]:.6g} beside it"
                    return Refusal(f"it has a removable singularity at {at(point)}: {beside}")
            elif any(v == v for v in near) and (math.isfinite(here) or not any(map(math.isfinite, near))):
                where = f"{at(point)}, where the value is {here:.6g}"  # beside a pole there are finite numbers
                return Refusal(f"its derivative{_shown(gradient)} is NaN at {where}")
        return None

    def _lost_digits(self, point: dict[str, float]) -> Refusal | None:
        if (here := self.value(self.expr, point)) != here:
            return None
        for gradient in self.gradients.values():
            exact = self.value(gradient, point)
            if not abs(exact) < _LARGE:
                continue
            rounded = self.value(gradient, point, single=True)
            if not math.isfinite(rounded):
                if (value := self.value(self.expr, point, single=True)) != value:
                    continue  # the formula itself cannot be computed there
                if exact and self._condition(gradient, point, exact) * EPS > 0.1:
                    continue  # beside a pole, which rounding can hit
                how = "is NaN" if rounded != rounded else "overflows"
                return Refusal(
                    f"its derivative{_shown(gradient)} {how} in float32 at {at(point)}, where it is {exact:.6g}"
                )
            error = abs(rounded - exact) / abs(exact) / EPS if abs(exact) > _SMALL else 0
            if error > LOST and error > LOST * (1 + self._condition(gradient, point, exact)):
                if math.isfinite(here) and not math.isfinite(self.value(self.expr, point, single=True)):
                    continue  # the formula itself overflows there
                digits = max(0, round(24 - math.log2(error)))
                return Refusal(
                    f"its derivative{_shown(gradient)} cancels: at {at(point)} float32 gets {digits} of 24 bits right"
                )
        return None

    def _condition(self, gradient: Expr, point: dict[str, float], exact: float) -> float:
        """How much a relative error of the inputs is amplified: the sum of ``|x f'(x) / f(x)|``.

        Of several steps the one that shows most: a wave may have the same height at both ends of one of them.
        """
        total = 0.0
        for name in self.gradients:
            x, worst = point[name], 0.0
            for step in (1e-6, EPS, 0.618 * EPS) if x else ():
                for there in (self.value(gradient, {**point, name: x * (1 + s)}) for s in (step, -step)):
                    change = abs(there - exact) / step / abs(exact)
                    worst = max(worst, change if math.isfinite(change) else math.inf)
            total += worst
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
                    kink = f"{at(point)}, where `{node}` has a kink"
                    return Refusal(f"its derivative jumps at {kink}: what it is there is a choice", node.position)
        return None

    def _zeros(self, distance: Expr) -> Iterator[dict[str, float]]:
        """Yields points where a formula is zero, along each input that it depends on."""
        for name in (n for n in self.gradients if depends(distance, (n,))):
            lines: dict[tuple[float, ...], list[dict[str, float]]] = {}
            for point in self.points():
                lines.setdefault(tuple(v for n, v in point.items() if n != name), []).append(point)
            for line in lines.values():
                line.sort(key=lambda point: point[name])
                values = [self.value(distance, point) for point in line]
                for i, value in enumerate(values):
                    if value == 0:
                        yield line[i]
                    elif i and values[i - 1] * value < 0:
                        yield self._bisected(distance, name, line[i - 1], line[i])

    def _bisected(self, distance: Expr, name: str, low: dict[str, float], high: dict[str, float]) -> dict[str, float]:
        for _ in range(200):
            middle = {**low, name: (low[name] + high[name]) / 2}
            same = self.value(distance, middle) * self.value(distance, low) > 0
            low, high = (middle, high) if same else (low, middle)
        return high

    def _jumps(self, point: dict[str, float]) -> bool:
        """Whether a derivative changes at a point however small the step is."""
        for gradient in self.gradients.values():
            here = self.value(gradient, point)
            for name, side in itertools.product(self.gradients, (1, -1)):
                far, near = (abs(self.value(gradient, moved(point, name, side * s)) - here) for s in _STEPS)
                if near > 1e-4 * (1 + abs(here)) and near > far / 2:
                    return True
        return False


def moved(point: dict[str, float], name: str, step: float) -> dict[str, float]:
    """Returns a point beside another, along one input; the step is relative where the input is large."""
    return {**point, name: point[name] + step * max(1.0, abs(point[name]))}


def _shown(formula: Expr) -> str:
    """Returns a formula for a message, unless it is too long to be read there."""
    text = str(formula)
    return f" `{text}`" if len(text) <= _SHOWN else ""


def at(point: Mapping[str, float]) -> str:
    """Returns a point for a message."""
    return ", ".join(f"{name} = {value:.6g}" for name, value in point.items() if not name.startswith("grad"))
