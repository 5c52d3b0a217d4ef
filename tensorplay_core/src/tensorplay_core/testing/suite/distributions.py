"""What operators that draw random numbers draw: thousands at once, whose distribution is set against the right one.

A single draw has no right value, but the share of numbers up to a point has one, known to a few percent of many draws.
Each law is given in closed form; rows of a tensor may have laws of their own. With a generator the numbers must follow
from its seed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from tensorplay_core.dispatch.operator import Operator
from tensorplay_core.errors import BackendError
from tensorplay_core.testing.references.rounding import format_of, round_to
from tensorplay_core.testing.sample_maker import Maker
from tensorplay_core.testing.sample_specs import Named
from tensorplay_core.testing.suite.calls import Judge, Made
from tensorplay_core.testing.suite.cases import Case, suited
from tensorplay_core.testing.suite.given import Given
from tensorplay_core.testing.suite.subject import Subject
from tensorplay_core.types.dtype import by_name

COUNT = 4096
"""Numbers of each law; a share of them is off by at most ``SIGMAS`` / 2 / 64, but for one time in 10**9."""
SIGMAS = 6
ROUNDED = 2**-7
"""What share may lie on the other side of a point because numbers are rounded, to eight bits in bfloat16."""
ENDS: tuple[tuple[float, ...], ...] = ((), (-2, 3), (0, 2), (1, 3), (1, 1))
"""Between which numbers ``uniform_`` draws."""
DRAWN = "the distribution of many"


class Law(NamedTuple):
    """A distribution.

    Attributes:
        inside: whether a number can be drawn.
        below: the probability of a number up to a point.
        points: where that is looked at.
        fine: whether numbers have all the digits of their dtype.
    """

    inside: Callable[[float], bool]
    below: Callable[[float], float]
    points: tuple[float, ...]
    fine: bool = False


def uniform(low: float, high: float) -> Law:
    """On [low, high)."""
    points = tuple(low + (high - low) * k / 8 for k in range(1, 8)) if low < high else ()
    inside = lambda x: low <= x < high or low == x == high  # noqa: E731
    return Law(inside, lambda x: (x - low) / (high - low), points, low < high)


def normal(mean: float, std: float) -> Law:
    """Of a mean and a standard deviation."""
    points = tuple(mean + std * k for k in (-2, -1, -0.5, 0, 0.5, 1, 2))
    return Law(math.isfinite, lambda x: (1 + math.erf((x - mean) / std / math.sqrt(2))) / 2, points, True)


def exponential(rate: float) -> Law:
    """Of a rate, which is one over the mean."""
    points = tuple(-math.log1p(-q) / rate for q in (0.1, 0.25, 0.5, 0.75, 0.9))
    return Law(lambda x: 0 <= x < math.inf, lambda x: -math.expm1(-rate * x), points, True)


def geometric(chance: float) -> Law:
    """How many trials it takes until one succeeds."""
    return Law(lambda x: x >= 1 and x == int(x), lambda x: 1 - (1 - chance) ** math.floor(x), (1, 2, 3, 5))


def chances(*shares: float) -> Law:
    """The numbers from 0 on with these probabilities, or what they are proportional to."""
    total = math.fsum(shares)
    return Law(
        lambda x: x == int(x) and 0 <= x < len(shares) and shares[int(x)] > 0,
        lambda x: math.fsum(shares[: math.floor(x) + 1]) / total,
        tuple(k + 0.5 for k in range(len(shares))),
    )


def integers(low: int, high: int) -> Law:
    """Integers from low to high - 1, each as likely as another."""
    many = high - low
    points = tuple(low + many * k // 8 - 0.5 for k in range(1, 8)) if many > 8 else tuple(range(low, high))
    return Law(lambda x: x == int(x) and low <= x < high, lambda x: (math.floor(x) - low + 1) / many, points)


def second(*shares: float) -> Law:
    """The second of two that are drawn without replacement."""
    total = math.fsum(shares)
    return chances(*(
        math.fsum(other / total * one / (total - other) for j, other in enumerate(shares) if j != i)
        for i, one in enumerate(shares)
    ))  # fmt: skip


def every(step: int, first: int) -> Law:
    """Only integers that are so many apart; nothing is said of their shares."""
    return Law(lambda x: x % step == first, lambda x: 1.0, ())


def dropped(chance: float) -> Law:
    """What dropout makes of ones: 0 with a probability, else one over the other probability."""
    return Law(lambda x: x in (0, 1 / (1 - chance)), lambda x: chance, (0.5,))


class Draw(NamedTuple):
    """A call that draws ``COUNT`` numbers of each law.

    Attributes:
        args: the positional arguments.
        laws: what is drawn: of each result where there are several, else of each row.
        kwargs: keyword arguments.
        by_columns: a law is that of a column rather than of a row.
    """

    args: tuple[Any, ...]
    laws: tuple[Law, ...]
    kwargs: dict[str, Any] = {}  # noqa: RUF012  it is never written to
    by_columns: bool = False


def rows(dtype: str, *values: float) -> Given:
    """A matrix of ``COUNT`` columns, each row of one number."""
    data = [one for one in round_to([float(value) for value in values], dtype) for _ in range(COUNT)]
    return Given((len(values), COUNT), data, dtype, spelled=f"[v for v in {values} for _ in range({COUNT})]")


def _whole(dtype: str) -> int:
    """The largest integer that ``random_`` draws: of the dtype, or up to which a floating dtype has all."""
    form = format_of(dtype)
    if form is not None:
        return round(2 / form.eps)
    type = by_name(dtype)
    return 1 if type.is_bool else 2 ** (8 * type.itemsize - type.is_signed) - 1


def draws(op: Operator, dtype: str) -> Iterator[Draw]:
    """Yields calls of an operator with the laws of what they draw; none where no table speaks of it."""
    x, ones, typed = rows(dtype, 0), rows(dtype, 1), {"dtype": Named("dtype", dtype), "device": Named("device", "")}
    half = chances(0.5, 0.5)
    weights = ((1.0, 2.0, 0.0, 5.0), (4.0, 0.0, 3.0, 1.0))
    table: dict[str, Callable[[], Any]] = {
        "uniform_": lambda: [Draw((x, *ends), (uniform(*(ends or (0, 1))),)) for ends in ENDS],
        "normal_": lambda: [
            Draw((x, *given), (normal(*(given or (0, 1))),)) for given in ((), (2, 0.5), (0, 2), (1, 1))
        ],
        "normal.float_float": lambda: [
            Draw((*given, (COUNT,)), (normal(*given),), typed) for given in ((0, 1), (2, 0.5), (1, 1))
        ],
        "normal.Tensor_float": lambda: [Draw((rows(dtype, -1, 3), 0.5), (normal(-1, 0.5), normal(3, 0.5)))],
        "normal.float_Tensor": lambda: [Draw((1.5, rows(dtype, 0.5, 2)), (normal(1.5, 0.5), normal(1.5, 2)))],
        "normal.Tensor_Tensor": lambda: [
            Draw((rows(dtype, -1, 3), rows(dtype, 0.5, 2)), (normal(-1, 0.5), normal(3, 2))),
        ],
        "exponential_": lambda: [Draw((x, *rate), (exponential(*(rate or (1,))),)) for rate in ((), (2,), (0.5,))],
        "geometric_": lambda: [Draw((x, chance), (geometric(chance),)) for chance in (0.5, 0.75, 1)],
        "bernoulli": lambda: [
            Draw((rows(dtype, 0, 0.25, 0.75, 1),), tuple(chances(1 - p, p) for p in (0, 0.25, 0.75, 1))),
        ],
        "bernoulli.p": lambda: [Draw((x, p), (chances(1 - p, p),)) for p in (0, 0.25, 0.75, 1)],
        "bernoulli_.float": lambda: [Draw((x,), (half,)), *(Draw((x, p), (chances(1 - p, p),)) for p in (0, 0.25, 1))],
        "bernoulli_.Tensor": lambda: [
            Draw((rows(dtype, 0, 0), rows("float32", 0.25, 0.75)), (chances(0.75, 0.25), chances(0.25, 0.75))),
        ],
        "random_": lambda: [Draw((x,), (integers(0, _whole(dtype) + 1),))],
        "random_.to": lambda: [Draw((x, n), (integers(0, n),)) for n in ((2,) if dtype == "bool" else (2, 100))],
        "random_.from": lambda: [
            *(Draw((x, *ends), (integers(*ends),)) for ends in (((0, 2),) if dtype == "bool" else ((3, 9), (1, 101)))),
            Draw((x, 0, None), (integers(0, _whole(dtype) + 1),)),
        ],
        "randint": lambda: [
            Draw((*ends, (COUNT,)), (integers(*ends),), typed)
            for ends in (((0, 2),) if dtype == "bool" else ((0, 2), (3, 9), (1, 101)))
        ],
        "multinomial": lambda: [
            Draw((_matrix(dtype, weights), COUNT, True), tuple(chances(*row) for row in weights)),
            Draw((_matrix(dtype, weights[:1] * COUNT), 2), (chances(*weights[0]), second(*weights[0])), {}, True),
            Draw((Given((1000,), [float(k % 10 == 7) for k in range(1000)], dtype), 100), (every(10, 7),)),
        ],
        "native_dropout": lambda: [Draw((ones, p, True), (dropped(p), chances(p, 1 - p))) for p in (0.5, 0.75)],
        "dropout": lambda: [Draw((ones, p, True), (dropped(p),)) for p in (0.5, 0.75)],
    }  # fmt: skip
    if op.display_name in table and Maker(op, dtype, 0).supported and not by_name(dtype).is_complex:
        yield from table[op.display_name]()


def _matrix(dtype: str, values: tuple[tuple[float, ...], ...]) -> Given:
    return Given((len(values), len(values[0])), round_to([one for row in values for one in row], dtype), dtype)


def drawn(subject: Subject, op: Operator, dtype: str) -> Iterator[tuple[Case, Draw]]:
    """Yields what :func:`draws` does as cases that the device can be asked for."""
    for draw in draws(op, dtype):
        case = suited(subject, Case(DRAWN, draw.args, draw.kwargs, dtype))
        if case is not None:
            yield case, draw


def distributed(judge: Judge, case: Case, draw: Draw) -> None:
    """Makes a call and looks at what it draws; then again in the same state, and twice with generators of one seed.

    Raises:
        Finding: a number cannot be, their shares are not right, or a state or a generator is not obeyed.
    """
    function = judge.op.function
    assert function is not None
    tp, seed = judge.subject.tp, judge.subject.rng("drawn", judge.op.display_name, case.dtype).getrandbits(32)
    tp.manual_seed(seed)
    made = Made(judge.subject, judge.op, case)
    state = _state(judge)
    result = judge.call(case, function, made.args, made.kwargs)
    judge.calls += 1
    for numbers, law in zip(_by_law(result, draw), draw.laws, strict=True):
        what = _unlike(numbers, law)
        if not what and law.fine and case.dtype == "float64" and round_to(numbers, "float32") == numbers:
            what = "numbers that all have no more digits than float32"
        if what:
            judge.wrong(case, f"after tp.manual_seed({seed}) draws {what}")
    if state is not None:
        tp.set_rng_state(state, judge.subject.device)
        made, first = Made(judge.subject, judge.op, case), _values(result)
        if _values(judge.call(case, function, made.args, made.kwargs)) != first:
            judge.wrong(case, "draws other numbers after set_rng_state than after get_rng_state")
    if judge.op.schema.argument("generator") is not None:
        _obeys(judge, case, seed)


def _state(judge: Judge) -> Any:
    """Returns the state of the device's generator; None where it gives none."""
    try:
        return judge.subject.tp.get_rng_state(judge.subject.device)
    except BackendError:
        return None


def _values(result: Any) -> list[Any]:
    return [one.tolist() for one in (result if isinstance(result, tuple) else (result,))]


def _obeys(judge: Judge, case: Case, seed: int) -> None:
    """Draws twice with generators of one seed, and the device's own numbers in between."""
    tp, place = judge.subject.tp, judge.subject.device
    try:
        tp.Generator(place)
    except BackendError:
        return
    found = []
    for _ in range(2):
        made = Made(judge.subject, judge.op, case)
        keywords = {**made.kwargs, "generator": tp.Generator(place).manual_seed(seed)}
        found.append(judge.call(case, judge.op.function, made.args, keywords).tolist())  # type: ignore[arg-type]
    if found[0] != found[1]:
        judge.wrong(case, f"draws other numbers from generators of the seed {seed}, so it ignores generator=")


def _by_law(result: Any, draw: Draw) -> Iterator[list[float]]:
    """Yields the numbers of each law."""
    if isinstance(result, tuple):
        yield from ([*map(float, _flat(one.tolist()))] for one in result)
        return
    nested = result.tolist()
    if not isinstance(nested[0], list):
        nested = [nested]
    yield from ([*map(float, row)] for row in (zip(*nested, strict=True) if draw.by_columns else nested))


def _flat(data: Any) -> list[Any]:
    return [x for item in data for x in _flat(item)] if isinstance(data, list) else [data]


def _unlike(numbers: list[float], law: Law) -> str:
    """Returns what is wrong with some numbers, or an empty text."""
    wrong = next((value for value in numbers if not law.inside(value)), None)
    if wrong is not None:
        return f"{wrong!r}, which it cannot"
    for point in law.points:
        right, found = law.below(point), sum(value <= point for value in numbers) / len(numbers)
        if abs(found - right) > SIGMAS * math.sqrt(right * (1 - right) / len(numbers)) + ROUNDED * (0 < right < 1):
            return f"numbers of which {found:.2%} are up to {point:.6g}; {right:.2%} is right"
    return ""
