"""Makes a derivative differentiable again: a branch of a ``where`` that is not taken must stay finite.

The engine differentiates both branches of a ``where`` and multiplies the one that is not taken by 0, which is NaN where
its slope is infinite. There the branch is given a harmless argument instead.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterable, Iterator, Sequence

from tensorplay_core.codegen.formula import ast
from tensorplay_core.codegen.formula.ast import Expr
from tensorplay_core.codegen.math import algebra, numeric
from tensorplay_core.codegen.math.safety import BESIDE, Refusal, Trial, at, moved

_SAFE = (0, 1, -1, 2)
_ROUNDS = 8  # how many guards a formula gets at most
Points = Sequence[dict[str, float]]


def guarded(trial: Trial, name: str) -> tuple[Expr, Refusal | None]:
    """Returns an input's gradient with the guards that it needs, or why it cannot be differentiated again.

    Args:
        trial: the formula and its derivatives.
        name: the input.
    """
    gradient = trial.gradients[name]
    if not trial.can_be_tried():
        return gradient, None
    failing = _Failing(trial, gradient, trial.points())
    for _ in range(_ROUNDS):
        if not failing.points or (best := _best_guard(trial, gradient, failing)) is None:
            break
        gradient, failing = best
    if failing.double:
        nearest = min(failing.double, key=lambda point: [abs(point[n]) for n in trial.gradients])
        reason = f"its second derivative is NaN at {at(nearest)}, and need not be"
        return trial.gradients[name], Refusal(reason)
    return gradient, None


class _Failing:
    """The points where a derivative has a value and its slope is NaN.

    Attributes:
        double: those of double precision; that must not be.
        single: those of single precision alone, where formulas overflow that a guard may keep from it.
    """

    def __init__(self, trial: Trial, gradient: Expr, points: Points) -> None:
        self.double = [p for p in points if _is_lost(trial, gradient, p, single=False)]
        self.single = [p for p in points if p not in self.double and _is_lost(trial, gradient, p, single=True)]

    @property
    def points(self) -> Points:
        return [*self.double, *self.single]

    @property
    def count(self) -> tuple[int, int]:
        return len(self.double), len(self.single)


def _best_guard(trial: Trial, gradient: Expr, failing: _Failing) -> tuple[Expr, _Failing] | None:
    """Returns the formula with the one guard that helps most, and where it still fails; None where none helps."""
    tried = []
    for candidate in _with_a_guard(gradient, tuple(trial.gradients)):
        left = _Failing(trial, candidate, failing.points)  # elsewhere it is looked at only where it helps here
        if left.count < failing.count:
            tried.append((left.count, _has_infinities(trial, candidate, failing.points), candidate))
    for _, _, candidate in sorted(tried, key=lambda one: one[:2]):
        left = _Failing(trial, candidate, trial.points())
        if left.count < failing.count:
            return candidate, left
    return None


def _has_infinities(trial: Trial, expr: Expr, points: Points) -> bool:
    steps = (v for point in points for v in numeric.tape(expr).run(point, trial.functions))
    return not all(map(math.isfinite, steps))


def _is_lost(trial: Trial, gradient: Expr, point: dict[str, float], *, single: bool) -> bool:
    here = trial.value(gradient, point, single=single)
    if not math.isfinite(here):
        return False
    slopes = numeric.slopes(gradient, point, trial.rules, trial.functions, single=single)
    for name in trial.gradients:
        if (slope := slopes.get(name, 0.0)) == slope:
            continue
        beside = [trial.value(gradient, moved(point, name, step), single=single) for step in BESIDE]
        if min(abs(there - here) for there in beside) < 1e-3 * (1 + abs(here)):  # finite from one side at least
            return True
    return False


def _with_a_guard(expr: Expr, inputs: tuple[str, ...]) -> Iterator[Expr]:
    """Yields a formula with a branch of one ``where`` given another argument where it is not taken.

    Then one with that branch of every ``where`` that asks the same.
    """
    found = [n for n in dict.fromkeys(ast.walk(expr)) if isinstance(n, ast.Call) and n.function == "where"]
    every = [{n for n in found if n.args[0] == condition} for condition in dict.fromkeys(n.args[0] for n in found)]
    for nodes in (*({n} for n in found), *(same for same in every if len(same) > 1)):
        for safe, taken in itertools.product(map(algebra.number, _SAFE), (False, True)):
            changed = _changed(expr, nodes, inputs, taken, safe)
            if changed != expr:
                yield changed


def _changed(expr: Expr, nodes: Collection[Expr], inputs: tuple[str, ...], taken: bool, safe: Expr) -> Expr:
    def replace(node: Expr) -> Expr | None:
        match node:
            case ast.Call(args=(condition, a, b)) if node in nodes:
                a, b = (ast.transform(branch, replace) for branch in (a, b))
                if taken:
                    return ast.Call("where", (condition, _guarded_branch(a, inputs, condition, taken, safe), b))
                return ast.Call("where", (condition, a, _guarded_branch(b, inputs, condition, taken, safe)))
        return None

    return ast.transform(expr, replace)


def _guarded_branch(expr: Expr, inputs: Iterable[str], condition: Expr, taken: bool, safe: Expr) -> Expr:
    """Returns a branch whose inputs are ``safe`` wherever it is not taken; ``taken``: where the condition holds.

    Conditions in it stay, since nothing is passed back through them; so do branches that are an input alone, whose
    slope is finite.
    """

    def replace(node: Expr) -> Expr | None:
        match node:
            case ast.Call(function="where", args=(inner, a, b)):
                return ast.Call("where", (inner, ast.transform(a, replace), ast.transform(b, replace)))
            case ast.Name(name=name) if name in inputs:
                return ast.Call("where", (condition, node, safe) if taken else (condition, safe, node))
        return None

    return expr if isinstance(expr, ast.Name) else ast.transform(expr, replace)
