"""What a gradient check says when it fails: the worst element, both values, what was allowed, and the likely cause."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from tensorplay_core.autograd.api import grad
from tensorplay_core.autograd.jacobians import Point, flat, tensor_of
from tensorplay_core.errors import AutogradError, fix
from tensorplay_core.tensor.tensor import Tensor


class GradcheckError(AutogradError):
    """A gradient is not that of the values."""


class Settings(NamedTuple):
    """What was asked of a check."""

    name: str
    eps: float
    atol: float
    rtol: float
    nondet_tol: float
    dtypes: bool


def size(value: complex) -> float:
    """Returns the absolute value; where ``abs`` raises that it is too large, as it may of a complex NaN, it is inf."""
    return math.hypot(value.real, value.imag)


def close(found: complex, wanted: complex, settings: Settings) -> bool:
    """Whether two numbers are equal within the tolerance; a NaN never is."""
    return found == wanted or size(found - wanted) <= settings.atol + settings.rtol * size(wanted)


class Worst:
    """The worst of the elements that a check has seen.

    Args:
        what: what is compared: ``"gradient"`` or ``"tangent"``.

    Attributes:
        wrong, seen: how many differ, of how many.
        found, wanted, place: of the worst: both values; output, its element, input, its element.
        zero: whether everything that was found wrong was 0.
        conjugate: whether the conjugate would have been right everywhere.
    """

    def __init__(self, what: str) -> None:
        """See the class."""
        self.what = what
        self.wrong = self.seen = 0
        self.excess = -1.0
        self.found: complex = 0.0
        self.wanted: complex = 0.0
        self.place = (0, 0, 0, 0)
        self.zero = self.conjugate = True

    def see(
        self, found: Sequence[complex], wanted: Sequence[complex], place: tuple[int, int, int], settings: Settings
    ) -> None:
        """Takes the derivatives of one element of an output by all of an input into account."""
        self.seen += len(found)
        for k, (a, b) in enumerate(zip(found, wanted, strict=True)):
            if not (a == b or close(a, b, settings)):  # most are 0 and equal
                self._take(a, b, (*place, k), settings)

    def _take(self, found: complex, wanted: complex, place: tuple[int, int, int, int], settings: Settings) -> None:
        self.wrong += 1
        self.zero = self.zero and found == 0
        self.conjugate = self.conjugate and close(complex(found).conjugate(), wanted, settings)
        excess = size(found - wanted) / (settings.atol + settings.rtol * size(wanted) or 1e-300)
        if math.isnan(excess):
            excess = math.inf
        if excess > self.excess:
            self.excess, self.found, self.wanted, self.place = excess, found, wanted, place


def describe(worst: Worst, point: Point, outputs: list[Tensor], settings: Settings) -> str:
    """Returns the message for what is wrong."""
    o, j, i, k = worst.place
    y, x = outputs[o], point.arguments[i]
    difference = size(worst.found - worst.wanted)
    allowed = settings.atol + settings.rtol * size(worst.wanted)
    rows = [
        ("by autograd", f"{worst.found!r}"),
        ("by differences", f"{worst.wanted!r}"),
        ("difference", f"{difference:.3e}, allowed {allowed:.3e} (atol={settings.atol:g}, rtol={settings.rtol:g})"),
    ]
    causes = _causes(worst, point, settings)
    return (
        f"{settings.name}: the {worst.what} of output {o} with respect to input {i} is wrong, worst at "
        f"output{_index(y.shape, j)} by input{_index(x.shape, k)} ({worst.wrong} of {worst.seen} elements are wrong)"
        + "".join(f"\n  {name}: {value}" for name, value in rows)
        + "".join(f"\n  likely cause: {cause}" for cause in causes)
    )


def _index(shape: tuple[int, ...], n: int) -> str:
    """Returns an element's index as one writes it, from its place in C order."""
    index = []
    for size in reversed(shape):
        index.append(n % size)
        n //= size
    return f"[{', '.join(map(str, reversed(index)))}]" if shape else "[()]"


def _causes(worst: Worst, point: Point, settings: Settings) -> list[str]:
    """Returns what may have made the two differ, by looking again at the worst element."""
    o, _, i, _ = worst.place
    x = point.arguments[i]
    causes = []
    if not _repeats(point, o):
        causes.append("the function is not deterministic: two calls with the same inputs differ")
    if x.dtype.itemsize < (16 if x.is_complex() else 8):
        wide = "complex128" if x.is_complex() else "float64"
        return [*causes, f"input {i} is {x.dtype.name}, and differences with eps={settings.eps:g} need {wide}"]
    undefined = worst.wanted != worst.wanted
    if undefined and (missing := _missing(point, worst, settings)) is not None:
        causes.append(missing)
    elif undefined or size(worst.wanted) == math.inf:
        causes.append("the function is not finite near this input: check it elsewhere")
    elif (jump := _kink(point, worst, settings)) is not None:
        causes.append(jump)
    elif worst.found != worst.found:
        causes.append("a formula divides by 0 or takes a root of 0 here: guard it with where()")
    elif worst.zero:
        causes.append("no gradient arrives: the input was detached, or went through item(), numpy() or no_grad()")
    elif x.is_complex() and worst.conjugate:
        causes.append("the gradient is the conjugate of what it should be: a formula lacks .conj()")
    if any(s == 0 and n > 1 for s, n in zip(x.stride(), x.shape, strict=True)):
        causes.append(f"elements of input {i} overlap (strides {x.stride()}): a write to one would change others")
    return causes


def _repeats(point: Point, o: int) -> bool:
    first, second = (flat(point.outputs()[o]) for _ in range(2))
    return all(a == b or (a != a and b != b) for a, b in zip(first, second, strict=True))


def _beside(point: Point, worst: Worst, settings: Settings) -> list[list[Any]]:
    """Returns the output's elements where the worst element of the input is a little less, and a little more."""
    o, _, i, k = worst.place
    x = point.arguments[i].detach()
    at, found = flat(x), []
    for sign in (-1, 1):
        moved = [value + sign * settings.eps * (n == k) for n, value in enumerate(at)]
        found.append(flat(point.outputs({i: tensor_of(moved, x)})[o]))
    return found


def _missing(point: Point, worst: Worst, settings: Settings) -> str | None:
    """Returns that the worst element of the output is none beside this input, where that is so."""
    j = worst.place[1]
    short = next((side for side in _beside(point, worst, settings) if j >= len(side)), None)
    if short is None:
        return None
    return f"the function returns {len(short)} elements a little beside this input, where element {j} is none"


def _kink(point: Point, worst: Worst, settings: Settings) -> str | None:
    """Returns what differences from either side say, where they disagree."""
    o, j, _, _ = worst.place
    middle = flat(point.outputs()[o])[j]
    below, above = (side[j] for side in _beside(point, worst, settings))
    left, right = (middle - below) / settings.eps, (above - middle) / settings.eps
    if size(left - right) <= 10 * (settings.atol + settings.rtol * max(size(left), size(right))):
        return None
    before, after = left + 0.0, right + 0.0  # no -0
    return f"the function has a kink or a jump here: its slope is {before:.6g} on one side, {after:.6g} on the other"


def nondeterministic(one: tuple[Tensor, Tensor, tuple[Any, ...]], point: Point, settings: Settings) -> str | None:
    """Repeats a backward pass, and says where it gave something else."""
    y, seed, found = one
    again = grad(y, point.inputs, seed, retain_graph=True, allow_unused=True)
    for i, a, b in zip(point.checked, found, again, strict=True):
        if a is None or b is None:
            continue
        for k, (p, q) in enumerate(zip(flat(a), flat(b), strict=True)):
            if size(p - q) > settings.nondet_tol:
                return (
                    f"{settings.name}: backward is not deterministic: two passes over one graph give {p!r} and {q!r} "
                    f"for element {_index(point.arguments[i].shape, k)} of input {i} (nondet_tol {settings.nondet_tol})"
                    + fix("find what depends on more than its inputs, or pass a nondet_tol.")
                )
    return None
