"""The handwritten digits, read from the file that ships with the package; DIGITS.md beside it says whose they are.

Python's own gzip and lists do for 1,797 images of 64 pixels, so that the demo needs no array library of its own and its
tensors can go to any device.
"""

from __future__ import annotations

import gzip
import random
from importlib.resources import files
from typing import NamedTuple

CLASSES = 10
PIXELS = 64


class Digits(NamedTuple):
    """Images and what they show.

    Attributes:
        images: 1,797 images of 64 pixels from 0 to 16, row by row.
        labels: the digits.
    """

    images: list[list[int]]
    labels: list[int]


class Split(NamedTuple):
    """The numbers of the images to learn from and of those held out to test with."""

    train: list[int]
    test: list[int]


def load() -> Digits:
    """Returns the data set.

    Example:
        >>> digits = load()
        >>> len(digits.images), len(digits.images[0]), digits.labels[:10]
        (1797, 64, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9])
    """
    text = gzip.decompress(files(__package__).joinpath("digits.csv.gz").read_bytes())
    rows = [[int(number) for number in line.split(b",")] for line in text.splitlines()]
    return Digits([row[:PIXELS] for row in rows], [row[PIXELS] for row in rows])


def split(labels: list[int], seed: int, held_out: float = 0.2) -> Split:
    """Divides a data set at random, with the same share of every class held out.

    Args:
        labels: the class of each image.
        seed: the same seed divides in the same way, on every device.
        held_out: the share to test with.

    Example:
        >>> train, test = split([0, 0, 0, 0, 1, 1, 1, 1], seed=0, held_out=0.25)
        >>> len(train), len(test)
        (6, 2)
    """
    order = random.Random(seed)
    train: list[int] = []
    test: list[int] = []
    for label in sorted(set(labels)):
        members = [i for i, other in enumerate(labels) if other == label]
        order.shuffle(members)
        count = round(len(members) * held_out)
        test += members[:count]
        train += members[count:]
    return Split(train, test)
