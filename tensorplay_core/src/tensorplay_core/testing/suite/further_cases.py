"""Calls that samples do not have: every magnitude, neighbours, large integers, one tensor twice, and many dims.

Samples are small numbers of few dims that are told apart easily. A kernel that overflows early, makes 0 of what is not
normal, compares through a narrower dtype, takes a whole number through a float or has room for four dims is right on
all of them.
"""

from __future__ import annotations

import cmath
import itertools
import math
import random
from collections.abc import Callable, Iterator
from typing import Any

from tensorplay_core.dispatch.operator import Operator
from tensorplay_core.testing.references.rounding import Format, format_of, round_to
from tensorplay_core.testing.sample_domains import DOMAINS
from tensorplay_core.testing.sample_specs import ANY, Named, values
from tensorplay_core.testing.suite.cases import Case, takes_any_integer
from tensorplay_core.testing.suite.given import Given
from tensorplay_core.types.dtype import by_name

COUNT = 24
"""Elements of a tensor here."""
MANY = (2, 1, 3, 1, 2, 2)
"""A shape of more dims than a kernel may have thought of."""
OF_MANY: dict[str, tuple[tuple[int, ...], ...]] = {
    "same": (MANY,), "broadcast": (MANY, (1, 2, 1, 3, 2, 1)), "matmul": ((2, 1, 1, 2, 3), (1, 3, 1, 3, 2)),
    **dict.fromkeys(("reduction", "max_dim", "dimwise", "permute", "reshape", "transpose", "expand", "select", "slice",
                     "squeeze", "unsqueeze"), (MANY,)),
}  # fmt: skip
"""By shape rule, the shapes of tensors of many dims; those of further ones repeat."""
REST: dict[str, tuple[Any, ...]] = {
    "max_dim": (2,), "dimwise": (-2,), "permute": ((4, 2, 0, 5, 3, 1),), "reshape": ((2, 3, 1, 2, 1, 2),),
    "transpose": (0, 4), "expand": ((2, 2, 3, 2, 2, 2),), "select": (4, 1), "slice": (2, 0, 3, 2), "squeeze": ((1, 3),),
    "unsqueeze": (3,),
}  # fmt: skip
"""By shape rule, the arguments besides tensors."""
SCALED = {"f": -1.5, "c": -1.5, "i": -3}
"""An ``alpha`` by kind of dtype."""
UNBOUNDED = frozenset({"add", "sub", "mul", "div", "neg", "abs", "sgn", "square", "reciprocal", "sqrt", "rsqrt", "exp",
                       "expm1", "exp2", "log", "log1p", "log2", "log10", "logaddexp", "sinh", "cosh", "tanh", "asinh",
                       "atan", "atan2", "hypot", "erfc", "sigmoid", "relu", "maximum", "minimum", "where",
                       "clone", "floor", "ceil", "trunc", "round", "copysign", "signbit", "isnan", "isinf", "isfinite",
                       "eq", "ne", "lt", "le", "gt", "ge", "pow"})  # fmt: skip
"""Operators that are exact up to the last numbers of a dtype; formulas may overflow on the way to a result."""
EXPONENTIAL = {"exp": math.e, "exp2": 2.0, "expm1": math.e, "sinh": math.e, "cosh": math.e}
"""Operators whose results have every exponent, with the base; an error of their input is one of the result's digits."""
FAR = frozenset({"abs", "log1p"})
"""Operators on complex numbers that need not overflow where the square of a part does."""


def further_cases(op: Operator, dtype: str, rng: random.Random, plain: Case | None) -> Iterator[Case]:
    """Yields further calls of an operator.

    Args:
        op: the operator.
        dtype: the dtype of its tensors.
        rng: what numbers are drawn from.
        plain: a sample whose tensors have one shape; None where there is none.
    """
    if plain is not None and "pointwise" in op.tags:
        yield from _pointwise(op, dtype, rng, plain)
    if plain is not None and op.shape in OF_MANY:
        yield from _of_many_dims(op, dtype, rng)
    large = 1 << (8 * by_name(dtype).itemsize - 2) if by_name(dtype).is_integral else 0
    given: dict[str, Any] = {"device": Named("device", "")}
    if op.shape == "sized" and op.schema.argument("fill_value") is not None and large:
        yield Case("a large integer", ((3,), large + 1), {"dtype": Named("dtype", dtype), **given}, dtype)
    elif op.name == "fill_" and large:
        yield Case("a large integer", (Given((3,), [1, 2, 3], dtype), large + 1), {}, dtype)
    elif op.name == "matmul" and by_name(dtype).kind == "f":
        for place in range(2):
            numbers = [[0.0, 1.5, -2.0, 0.0, 3.0, 0.5], [1.0, 2.0, math.nan, math.inf, -1.0, 0.5]]
            left, right = numbers[::-1] if place else numbers
            yield Case("not finite times 0", (Given((2, 3), left, dtype), Given((3, 2), right, dtype)), {}, dtype)
    elif op.name in ("linalg_det", "det") and dtype in ("float32", "float64"):
        far = 1e30 if dtype == "float32" else 1e200
        yield Case("out of range", (Given((2, 2), round_to([far, 0, 0, far], dtype), dtype),), {}, dtype, placed=True)
    elif op.name == "linalg_cholesky_ex" and dtype in ("float32", "float64"):
        for upper in (False, True):
            yield Case("leading minors", (_bands(dtype),), {"upper": upper}, dtype, placed=True)
        yield Case("no factor", (Given((2, 2), [1.0, 2.0, 2.0, 1.0], dtype),), {}, dtype, placed=True)
    elif op.name == "linalg_qr" and dtype in ("float32", "float64"):
        for shape, mode in itertools.product(((3, 2), (2, 2, 3), (0, 2), (2, 0)), ("complete", "r")):
            some = [4.0, -1.0, 0.5, 1.5, -5.0, 2.0, 1.0, 0.25, 3.0, -2.0, 6.0, 0.75][: math.prod(shape)]
            yield Case(f"{mode}, shape {shape}", (Given(shape, some, dtype), mode), {}, dtype, placed=True)
    elif op.name == "pow" and large:
        yield _powers(dtype)
    elif op.name == "arange" and dtype == "int64":
        yield Case("large integers", (2**53 + 1, 2**53 + 9, 3), given, dtype)
    elif op.name == "arange" and dtype == "float64":
        yield Case("numbers with digits", (0.1, 1.0, 0.1), {"dtype": Named("dtype", dtype), **given}, dtype)
    elif op.name == "arange" and dtype == "uint64":
        yield Case("large integers", (2**63, 2**63 + 5, 2), {"dtype": Named("dtype", dtype), **given}, dtype)


def _powers(dtype: str) -> Case:
    """Every small integer to every small power, and to the lowest, which has no negation."""
    lowest = [-(1 << 8 * by_name(dtype).itemsize - 1)] if by_name(dtype).is_signed else []
    small = range(-3 if lowest else 0, 4)
    pairs = [(base, power) for base in small for power in (*small, *lowest)]
    bases, powers = ([pair[i] for pair in pairs] for i in range(2))
    return Case(
        "small integers to every power",
        (Given((len(pairs),), bases, dtype), Given((len(pairs),), powers, dtype)),
        {},
        dtype,
    )


def _bands(dtype: str) -> Given:
    """Matrices of which each but the first stops being positive-definite at another leading minor."""
    diagonals = ((1, 2, 3, 4, 5), (1, 1, -1, 1, 1), (-1, 1, 1, 1, 1), (2, 1, 1, 1, -1), (1, 0, 2, 1, 1))
    rows = [[d[i] if i == j else (abs(i - j) == 1) / 4 for j in range(5)] for d in diagonals for i in range(5)]
    return Given((5, 5, 5), [float(x) for row in rows for x in row], dtype)


def _of_many_dims(op: Operator, dtype: str, rng: random.Random) -> Iterator[Case]:
    shapes, tensors = OF_MANY[op.shape or ""], []
    for i, argument in enumerate(a for a in op.schema.positional if a.type.is_tensor):
        shape, domain = shapes[i % len(shapes)], DOMAINS.get(op.name, {}).get(argument.name, ANY)
        own = "bool" if argument.name == "condition" else dtype
        tensors.append(Given(shape, round_to(values(rng, math.prod(shape), by_name(own), domain), own), own))
    rest = REST.get(op.shape or "", ())
    dim = op.schema.argument("dim")
    if op.shape == "reduction" and dim is not None:
        rest = ((1, 2, -1),) if dim.type.is_list else (2,)
    needed = [a for a in op.schema.positional if a.default is None and not a.type.is_tensor]
    if len(needed) <= len(rest):  # what needs more is no operator that a table speaks of
        yield Case("many dims", (*tensors, *rest), {}, dtype)


def _pointwise(op: Operator, dtype: str, rng: random.Random, plain: Case) -> Iterator[Case]:
    form, kind = format_of(dtype), by_name(dtype).kind
    givens = plain.tensors
    several = len(givens) > 1 and all(given.dtype == dtype for given in givens)
    if form is not None and kind == "f" and op.name in UNBOUNDED:
        yield _with(plain, "numbers of every magnitude", lambda given: _magnitudes(given, form, rng))
    if form is not None and kind == "f" and op.name in EXPONENTIAL:
        reach = 0.98 * math.log(form.largest, EXPONENTIAL[op.name])
        yield _with(plain, "large exponents", lambda given: [rng.uniform(-reach, reach) for _ in range(COUNT)])
    if kind == "c" and op.name in FAR:
        yield _with(plain, "complex numbers of many magnitudes", lambda given: _far(given.dtype, rng))
    if kind == "c" and op.name == "log1p":
        yield _with(plain, "complex numbers near -1", lambda given: _near_minus_one(rng))
    if kind == "c" and op.name in ("sgn", "abs"):
        yield _with(plain, "complex numbers on the axes", lambda given: [1j**k * (k // 4) for k in range(COUNT)])
    if kind == "c" and op.name == "sigmoid":
        yield _with(plain, "complex numbers of large real parts", lambda given: _wide(given.dtype, rng))
    if several and kind in "iuf" and (form is not None or takes_any_integer(op, dtype)):
        base = _bases(dtype, rng)
        yield _with(plain, "neighbours", lambda given: _neighbours(given, base, rng))
    if several:
        one = givens[0]
        yield plain.replaced(lambda given: one, "one tensor twice")._replace(shared=True, smooth=False)
    if op.schema.argument("alpha") is not None and kind in SCALED:
        yield plain._replace(name="another alpha", kwargs={**plain.kwargs, "alpha": SCALED[kind]}, smooth=False)


def _with(plain: Case, name: str, numbers: Callable[[Given], list[Any]]) -> Case:
    """Returns a case with other numbers, ``COUNT`` in each of its tensors."""

    def one(given: Given) -> Given:
        return Given((COUNT,), round_to(numbers(given), given.dtype), given.dtype)

    return plain.replaced(one, name)._replace(smooth=False)


def _magnitudes(given: Given, form: Format, rng: random.Random) -> list[Any]:
    """Returns the outermost numbers of a floating dtype, and others whose exponents are anything between."""
    if not by_name(given.dtype).is_inexact:
        return [rng.random() < 0.5 for _ in range(COUNT)]
    least = form.tiny * form.eps  # the smallest number at all
    edges = [form.largest, form.tiny, least, 1 - form.eps / 2, 1 + form.eps, 0.0]
    exponents = [rng.uniform(math.log2(least), math.log2(form.largest)) for _ in range(COUNT - 2 * len(edges))]
    found = [*edges, *(-edge for edge in edges), *(rng.choice((1, -1)) * 2.0**exponent for exponent in exponents)]
    rng.shuffle(found)
    return found


def _far(dtype: str, rng: random.Random) -> list[Any]:
    """Returns complex numbers whose parts have any exponent, but the outermost."""
    reach = 100 if dtype == "complex64" else 900
    return [complex(*(rng.choice((1, -1)) * 2.0 ** rng.uniform(-reach, reach) for _ in range(2))) for _ in range(COUNT)]


def _wide(dtype: str, rng: random.Random) -> list[Any]:
    """Returns complex numbers whose exponentials are 0 or infinite."""
    least = 120 if dtype == "complex64" else 900
    return [complex(rng.choice((1, -1)) * least * rng.uniform(1, 1.2), rng.uniform(-1.5, 1.5)) for _ in range(COUNT)]


def _near_minus_one(rng: random.Random) -> list[Any]:
    """Returns complex numbers whose sums with 1 are small, down to 2**-16."""
    return [cmath.rect(2.0 ** rng.uniform(-16, -1), rng.uniform(-math.pi, math.pi)) - 1 for _ in range(COUNT)]


def _bases(dtype: str, rng: random.Random) -> list[Any]:
    """Returns numbers far apart, which are near one another in no narrower dtype."""
    bits = 8 * by_name(dtype).itemsize
    if by_name(dtype).is_integral:
        return [(1 << rng.randrange(bits - 4, bits - 1)) + rng.getrandbits(bits - 5) for _ in range(COUNT)]
    return [rng.choice((1, -1)) * rng.uniform(1, 2) * 2.0 ** rng.randrange(-6, 6) for _ in range(COUNT)]


def _neighbours(given: Given, base: list[Any], rng: random.Random) -> list[Any]:
    """Returns numbers that are equal to others or next to them."""
    form = format_of(given.dtype)
    if form is None:
        return [value + rng.randrange(-1, 2) for value in base]
    rounded = round_to(base, given.dtype)
    return [value + rng.randrange(-1, 2) * form.ulp(value) for value in rounded]
