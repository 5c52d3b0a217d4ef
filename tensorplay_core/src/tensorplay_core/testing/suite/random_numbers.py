"""Random numbers: their range, distribution and resolution; the same for the same seed and state, and never twice."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from tensorplay_core.errors import BackendError, TensorPlayError
from tensorplay_core.plugins import public as backends
from tensorplay_core.testing.references.philox import KEYS, MARK, STATE, WORDS, Philox
from tensorplay_core.testing.references.rounding import round_to
from tensorplay_core.testing.suite.calls import Skip
from tensorplay_core.testing.suite.device_checks import Check, of_device
from tensorplay_core.testing.suite.independence import independence
from tensorplay_core.testing.suite.outcome import Finding, Outcome
from tensorplay_core.testing.suite.subject import Subject
from tensorplay_core.types.dtype import by_name

COUNT = 20_000
"""So many numbers are drawn where their distribution is looked at."""
SIGMAS = 6
"""A mean further off than this is no chance: about 2 in a thousand million."""
BELOW = {"rand": 0.5 + math.sqrt(1 / 12), "randn": (1 + math.erf(math.sqrt(0.5))) / 2}
"""The share of numbers that are less than one standard deviation above the mean."""
CREATED = {
    "rand": "tp.rand(20", "randn": "tp.randn(20", "randperm": "tp.randperm(20", "randint": "tp.randint(0, 1000, (20,)",
    "normal": "tp.normal(0.0, 1.0, (20,)",
}  # fmt: skip
"""The functions that make a tensor of random numbers, with the text of a call up to the device."""
NORMALS = 1000
"""So many normal numbers are drawn to see what they take: one in fifty needs another try."""
TAKING: dict[str, Callable[[Any, Any], Any]] = {
    "tp.bernoulli(x)": lambda tp, x: tp.bernoulli(x),
    "tp.bernoulli(x, 0.25)": lambda tp, x: tp.bernoulli(x, 0.25),
    "x.bernoulli_(0.25)": lambda tp, x: x.bernoulli_(0.25),
    "x.bernoulli_(x.clone())": lambda tp, x: x.bernoulli_(x.clone()),
    "tp.normal(x, 2.0)": lambda tp, x: tp.normal(x, 2.0),
    "tp.normal(x, x)": lambda tp, x: tp.normal(x, x),
    "x.normal_()": lambda tp, x: x.normal_(),
    "x.uniform_()": lambda tp, x: x.uniform_(),
    "x.exponential_()": lambda tp, x: x.exponential_(),
}
"""What draws as many numbers as ``x`` has, each with as many bits as its dtype needs."""
HALVES = 8
"""After each of so many draws the state is saved, as a generator may keep what a draw has left of a longer number."""


def random(subject: Subject) -> Iterator[Outcome]:
    """``rand``, ``randn`` and ``randperm`` in each floating dtype, seeds and states."""
    checks: list[Check] = []
    for dtype in subject.dtypes:
        if by_name(dtype).is_inexact:
            checks += [partial(_rand, subject, dtype), partial(_randn, subject, dtype)]
            checks += [partial(_repeats, subject, name, dtype) for name in ("rand", "randn")]
    checks += [
        partial(one, subject) for one in (_randperm, _state, _generators_apart, _indices_apart, _generator, _philox)
    ]
    yield from of_device(subject, "random", [*checks, *independence(subject)])


def _draw(subject: Subject, name: str, count: int, dtype: str) -> Any:
    function = getattr(subject.tp, name)
    return function(count, dtype=getattr(subject.tp, dtype), device=subject.device)


def _program(subject: Subject, name: str, dtype: str, seed: int, *more: str) -> str:
    call = f'tp.{name}({COUNT}, dtype=tp.{dtype}, device="{subject.device}")'
    return "\n".join(["import tensorplay as tp", "", f"tp.manual_seed({seed})", f"x = {call}", *more])


def _seeded(subject: Subject, *what: str) -> int:
    seed = subject.rng("random", *what).getrandbits(32)
    subject.tp.manual_seed(seed)
    return seed


def _distribution(
    subject: Subject, name: str, dtype: str, mean: float, variance: float, inside: Callable[[float], bool]
) -> None:
    """Draws numbers and looks at each, their mean, their variance and how many are different."""
    seed = _seeded(subject, name, dtype)
    x = _draw(subject, name, COUNT, dtype)
    if x.dtype.name != dtype or tuple(x.shape) != (COUNT,) or str(x.device) != subject.place:
        raise Finding(
            f"{name} gives {x.dtype.name}{list(x.shape)} on {x.device}; {dtype}[{COUNT}] on {subject.place} is right",
            _program(subject, name, dtype, seed, "print(x.dtype, x.shape, x.device)"),
        )
    program = _program(subject, name, dtype, seed, "print(x.mean(), (x * x).mean() - x.mean() ** 2)", "print(x)")
    drawn = x.tolist()
    parts = [[z.real for z in drawn], [z.imag for z in drawn]] if by_name(dtype).is_complex else [drawn]
    for part in parts:
        what = _odd(name, part, dtype, mean, variance / len(parts) if name == "randn" else variance, inside)
        if what:
            raise Finding(f"{name} in {dtype} draws {what}", program)
    if len(parts) > 1:
        product = math.fsum((a - mean) * (b - mean) for a, b in zip(*parts, strict=True)) / COUNT
        if abs(product) > SIGMAS * variance / math.sqrt(COUNT):
            raise Finding(f"{name} in {dtype} draws real and imaginary parts that depend on each other", program)


def _odd(
    name: str, drawn: list[float], dtype: str, mean: float, variance: float, inside: Callable[[float], bool]
) -> str:
    """Returns what is wrong with some numbers, or an empty text."""
    wrong = next((value for value in drawn if not inside(value)), None)
    if wrong is not None:
        return repr(wrong)
    found = math.fsum(drawn) / COUNT
    spread = math.fsum((value - mean) ** 2 for value in drawn) / COUNT
    coarse = 2 ** -(8 if dtype == "bfloat16" else 11 if dtype == "float16" else 24)
    far = abs(found - mean) > SIGMAS * math.sqrt(variance / COUNT) + coarse
    if far or abs(spread / variance - 1) > SIGMAS * math.sqrt(3 / COUNT) + 4 * coarse:
        return f"numbers of mean {found:.4g} and variance {spread:.4g}; about {mean} and {variance:.4g} is right"
    below, right = sum(value < mean + math.sqrt(variance) for value in drawn) / COUNT, BELOW[name]
    if abs(below - right) > SIGMAS * math.sqrt(right * (1 - right) / COUNT) + 2 * coarse:
        return f"numbers of which {below:.2%} lie below mean plus deviation; {right:.2%} is right for {name}"
    if dtype in ("float64", "complex128") and round_to(drawn, "float32") == drawn:
        return "numbers that all have no more digits than float32"
    different = len(set(drawn))
    few = different < (60 if dtype in ("float16", "bfloat16") else COUNT // 2)
    return f"only {different} different numbers among {COUNT}" if few else ""


def _rand(subject: Subject, dtype: str) -> None:
    _distribution(subject, "rand", dtype, 0.5, 1 / 12, lambda value: 0 <= value < 1)


def _randn(subject: Subject, dtype: str) -> None:
    _distribution(subject, "randn", dtype, 0.0, 1.0, math.isfinite)


def _repeats(subject: Subject, name: str, dtype: str) -> None:
    seed = _seeded(subject, name, dtype, "seed")
    first = _draw(subject, name, 50, dtype).tolist()
    other = _draw(subject, name, 50, dtype).tolist()
    subject.tp.manual_seed(seed)
    again = _draw(subject, name, 50, dtype).tolist()
    others = [seed + 1, seed ^ 1 << subject.rng("random", name, dtype, "bit").randrange(8, 32)]
    drawn = {}
    for one in others:
        subject.tp.manual_seed(one)
        drawn[one] = _draw(subject, name, 50, dtype).tolist()
    more = [f"tp.manual_seed({seed})", f'print(x - tp.{name}({COUNT}, dtype=tp.{dtype}, device="{subject.device}"))']
    program = _program(subject, name, dtype, seed, *more)
    if first != again:
        raise Finding(f"{name} in {dtype} draws other numbers after the same manual_seed({seed})", program)
    if first == other:
        raise Finding(f"{name} in {dtype} draws the same numbers twice", program)
    for one, found in drawn.items():
        if first == found:
            raise Finding(f"{name} in {dtype} draws the same numbers for the seeds {seed} and {one}", program)


def _randperm(subject: Subject) -> None:
    seed = _seeded(subject, "randperm")
    drawn = [subject.tp.randperm(50, device=subject.device).tolist() for _ in range(2)]
    call = f'tp.randperm(50, device="{subject.device}")'
    program = "\n".join(["import tensorplay as tp", "", f"tp.manual_seed({seed})", f"print({call}, {call})"])
    if any(sorted(one) != [*range(50)] for one in drawn):
        raise Finding("randperm(50) gives no permutation of 0 to 49", program)
    subject.tp.manual_seed(seed)
    if subject.tp.randperm(50, device=subject.device).tolist() != drawn[0] or drawn[0] == drawn[1]:
        raise Finding("randperm: the same seed gives another permutation, or two draws the same one", program)


def _state(subject: Subject) -> None:
    from tensorplay_core.ops import settings

    try:
        settings.get_rng_state(subject.device)
    except BackendError as error:
        if "does not implement" in str(error):  # it is optional
            raise Skip from None
        raise
    device = f'"{subject.device}"'
    for count in range(HALVES):
        begin = f"import tensorplay as tp\n\ntp.rand({count}, device={device})\nstate = tp.get_rng_state({device})\n"
        _draw(subject, "rand", count, "float32")
        state = settings.get_rng_state(subject.device)
        first = _draw(subject, "rand", 20, "float32").tolist()
        _seeded(subject, "state", str(count))
        settings.set_rng_state(state, subject.device)
        for bad in (b"", state[:-1], state + b"0", "0" * len(state), None):
            try:
                settings.set_rng_state(bad, subject.device)
            except TensorPlayError:
                continue
            program = f"{begin}print(tp.set_rng_state({bad!r}, {device}))"
            raise Finding(f"set_rng_state takes {type(bad).__name__} that get_rng_state did not return", program)
        if _draw(subject, "rand", 20, "float32").tolist() != first:
            program = (
                f"{begin}x = tp.rand(20, device={device})\ntp.manual_seed(0)\ntp.set_rng_state(state, {device})\n"
                f"print(x - tp.rand(20, device={device}))"
            )
            raise Finding("after set_rng_state other numbers are drawn than after get_rng_state", program)


def _generators_apart(subject: Subject) -> None:
    """Drawing on another device must not change what is drawn here."""
    if subject.device == "cpu":
        raise Skip
    seed = _seeded(subject, "apart")
    first = _draw(subject, "rand", 20, "float32").tolist()
    subject.tp.manual_seed(seed)
    subject.tp.rand(7, device="cpu")
    if _draw(subject, "rand", 20, "float32").tolist() != first:
        program = _program(
            subject, "rand", "float32", seed, f"tp.manual_seed({seed})", "tp.rand(7)", "# not x any more"
        )
        raise Finding("numbers that the cpu draws change what the device draws", program)


def _indices_apart(subject: Subject) -> None:
    """Of several devices, drawing on one must not change what another draws."""
    if backends.load(subject.device).device_count < 2:
        raise Skip
    one, other = (f"{subject.device}:{index}" for index in range(2))
    for name, text in CREATED.items():
        function, drawn = getattr(subject.tp, name), []
        args = {"randint": (0, 1000, (20,)), "normal": (0.0, 1.0, (20,))}.get(name, (20,))
        for count in (0, 3):
            seed = _seeded(subject, "indices", name)
            for _ in range(count):
                function(*args, device=one)
            drawn.append(function(*args, device=other).tolist())
        if drawn[0] != drawn[1]:
            draw = f'print({text}, device="{other}"))'
            before = f'{text}, device="{one}")'
            lines = [f"tp.manual_seed({seed})", draw, f"tp.manual_seed({seed})", *[before] * 3, draw]
            program = "\n".join(["import tensorplay as tp", "", *lines])
            raise Finding(f"numbers that {name} draws on {one} change what {other} draws after one seed", program)


def _philox(subject: Subject) -> None:
    """A device whose states say that they are Philox's must draw what follows from them."""
    tp, name = subject.tp, subject.device
    program = f'import tensorplay as tp\n\ntp.manual_seed(0)\nprint(tp.rand(5, device="{name}"))'
    _seeded(subject, "philox")
    try:
        first = tp.get_rng_state(name)
    except BackendError:
        raise Skip from None
    if not first.startswith(MARK):
        raise Skip
    # Whose state it is, where in the buffer it is, and whether half a word is left.
    for place, bad in ((0, MARK[::-1]), (-3, WORDS + 1), (-2, 2)):
        parts = [*STATE.unpack(first)]
        parts[place] = bad
        try:
            tp.set_rng_state(STATE.pack(*parts), name)
        except TensorPlayError:
            if tp.get_rng_state(name) == first:
                continue
        raise Finding("set_rng_state takes a state that is damaged, or changes something before it raises", program)
    for seed, key in KEYS.items():
        tp.manual_seed(seed)
        if tuple(Philox(tp.get_rng_state(name)).key) != key:
            raise Finding(f"manual_seed({seed}) gives another key than on other devices", program)
    for dtype in subject.dtypes:
        if not by_name(dtype).is_inexact:
            continue
        for count in (3, 8):
            state = Philox(tp.get_rng_state(name))
            drawn, right = _draw(subject, "rand", count, dtype).tolist(), state.uniform(count, dtype)
            if drawn != right:
                raise Finding(f"rand in {dtype} draws {drawn}, where {right} follows from the state", program)
        before = Philox(tp.get_rng_state(name)).taken
        _draw(subject, "randn", NORMALS, dtype)
        least = NORMALS * max(by_name(dtype).itemsize, 4) / 8  # in float32 half of a word, in complex128 two
        if not least <= Philox(tp.get_rng_state(name)).taken - before <= 1.1 * least:
            raise Finding(f"randn in {dtype} takes more or less of the generator than on other devices", program)
        for text in () if by_name(dtype).is_complex else TAKING:
            x = tp.full((NORMALS,), 0.5, dtype=getattr(tp, dtype), device=name)
            before = Philox(tp.get_rng_state(name)).taken
            try:
                TAKING[text](tp, x)
            except BackendError:
                continue  # it is optional
            if not least <= Philox(tp.get_rng_state(name)).taken - before <= 1.1 * least:
                raise Finding(f"{text} in {dtype} takes more or less of the generator than on other devices", program)


def _generator(subject: Subject) -> None:
    """What a program's generator draws follows from its seed, and leaves the device's own numbers as they are."""
    tp = subject.tp
    seed = _seeded(subject, "generator")
    try:
        tp.Generator(subject.device)
    except BackendError:
        raise Skip from None
    own = _draw(subject, "rand", 20, "float32").tolist()
    for name in ("rand", "randn", "randperm"):
        tp.manual_seed(seed)
        generators = [tp.Generator(subject.device).manual_seed(seed) for _ in range(2)]
        first, again = (getattr(tp, name)(20, generator=g, device=subject.device).tolist() for g in generators)
        call = f'tp.{name}(20, generator=g.manual_seed({seed}), device="{subject.device}")'
        program = f'import tensorplay as tp\n\ng = tp.Generator("{subject.device}")\nprint({call} - {call})'
        if first != again:
            raise Finding(f"{name} draws other numbers from generators of one seed, so it ignores generator=", program)
        if _draw(subject, "rand", 20, "float32").tolist() != own:
            raise Finding(f"numbers that {name} draws from a generator change what the device draws", program)
