"""``einsum``: an equation in letters becomes diagonals, sums, and a matrix product for each pair of operands.

Every mistake in an equation is shown where it stands, with a caret under it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from tensorplay_core.errors import ShapeError, ValueRangeError, fix
from tensorplay_core.ops import _generated_functional as F
from tensorplay_core.tensor.tensor import Tensor

ELLIPSIS = "..."
Label = str | int
"""A letter, or the number of a dim under the dots, counted from the last."""


class EquationError(ShapeError, ValueRangeError):
    """An equation that says nothing: a RuntimeError as in PyTorch, and a ValueError as in NumPy."""


class Operand(NamedTuple):
    """A tensor, and a label for each of its dims."""

    tensor: Tensor
    labels: tuple[Label, ...]


def einsum(equation: str, tensors: Sequence[Tensor], *, path: Sequence[int] | None = None) -> Tensor:
    """Contracts pairs of operands until one is left."""
    operands, result = _read(equation, tensors)
    sizes: dict[Label, int] = {}
    for operand in operands:
        for label, size in zip(operand.labels, operand.tensor.shape, strict=True):
            sizes[label] = max(sizes.get(label, 1), size) if size else 0
    steps = list(path or ())
    if len(steps) % 2 or (steps and len(steps) != 2 * (len(operands) - 1)):
        raise EquationError(
            f"einsum: path must have two numbers for each of {len(operands) - 1} steps, and has {len(steps)}"
        )
    while len(operands) > 1:
        i, j = _named(steps, len(operands)) if steps else _best(operands, result, sizes)
        pair = operands[i], operands[j]
        operands = [operand for k, operand in enumerate(operands) if k not in (i, j)]
        wanted = set(result).union(*(operand.labels for operand in operands))
        operands.append(_contracted(*pair, wanted))
    last = _ordered(_alone(operands[0], set(result)), result)
    summed = set(operands[0].labels) != set(result)
    return last if len(tensors) > 1 or summed else last.clone()  # the result has memory of its own


def _named(steps: list[int], count: int) -> tuple[int, int]:
    i, j = steps.pop(0), steps.pop(0)
    if i == j or not (0 <= i < count and 0 <= j < count):
        raise EquationError(f"einsum: path contracts operands {i} and {j}, and there are {count}, from 0 on")
    return i, j


def _best(operands: list[Operand], result: tuple[Label, ...], sizes: dict[Label, int]) -> tuple[int, int]:
    """Returns the pair whose product adds least to what is kept in memory, of several the first."""
    if len(operands) == 2:
        return 0, 1

    def size(labels: set[Label]) -> int:
        return math.prod(sizes[label] for label in labels)

    def growth(pair: tuple[int, int]) -> int:
        a, b = (set(operands[k].labels) for k in pair)
        others = set(result).union(*(o.labels for k, o in enumerate(operands) if k not in pair))
        return size((a | b) & others) - size(a) - size(b)

    return min(((i, j) for j in range(len(operands)) for i in range(j)), key=growth)


def _contracted(a: Operand, b: Operand, wanted: set[Label]) -> Operand:
    """Returns the product of two operands, summed over the labels that nothing else wants."""
    a, b = _alone(a, wanted | set(b.labels)), _alone(b, wanted | set(a.labels))
    a, b = _without_ones(a, b), _without_ones(b, a)
    shared = [label for label in a.labels if label in b.labels]
    batch = [label for label in shared if label in wanted]
    inner = [label for label in shared if label not in wanted]
    left = [label for label in a.labels if label not in shared]
    right = [label for label in b.labels if label not in shared]
    sizes = dict(zip(b.labels, b.tensor.shape, strict=True)) | dict(zip(a.labels, a.tensor.shape, strict=True))

    def count(labels: list[Label]) -> int:
        return math.prod(sizes[label] for label in labels)

    shape = tuple(sizes[label] for label in (*batch, *left, *right))
    first, second = _ordered(a, [*batch, *left, *inner]), _ordered(b, [*batch, *inner, *right])
    if inner:
        lead = (count(batch),) if batch else ()
        x = first.reshape((*lead, count(left), count(inner)))
        y = second.reshape((*lead, count(inner), count(right)))
        product = F.matmul(x, y).reshape(shape)
    else:  # nothing is summed: each element is one product
        ones = (1,) * len(right)
        product = first.reshape((*first.shape, *ones)) * second.reshape(
            (*second.shape[: len(batch)], *(1,) * len(left), *second.shape[len(batch) :])
        )
    return Operand(product, (*batch, *left, *right))


def _alone(operand: Operand, wanted: set[Label]) -> Operand:
    """Sums over the labels that no other operand and not the result has."""
    gone = [d for d, label in enumerate(operand.labels) if label not in wanted]
    if not gone:
        return operand
    return Operand(
        operand.tensor.sum(tuple(gone)).to(operand.tensor.dtype),
        tuple(label for label in operand.labels if label in wanted),
    )


def _without_ones(operand: Operand, other: Operand) -> Operand:
    """Drops the dims of size 1 that the other operand has in full: they broadcast."""
    sizes = dict(zip(other.labels, other.tensor.shape, strict=True))
    pairs = [*zip(operand.labels, operand.tensor.shape, strict=True)]
    gone = [d for d, (label, size) in enumerate(pairs) if size == 1 != sizes.get(label, 1)]
    if not gone:
        return operand
    kept = tuple(label for d, label in enumerate(operand.labels) if d not in gone)
    return Operand(operand.tensor.squeeze(tuple(gone)), kept)


def _ordered(operand: Operand, labels: Sequence[Label]) -> Tensor:
    order = [operand.labels.index(label) for label in labels]
    return operand.tensor if order == [*range(len(order))] else operand.tensor.permute(order)


# ------------------------------------------------------------------------------------------------------- the equation


def _read(equation: str, tensors: Sequence[Tensor]) -> tuple[list[Operand], tuple[Label, ...]]:
    """Returns the operands with their labels, without repeated ones, and the labels of the result."""
    if not tensors:
        raise EquationError("einsum: there must be at least one operand" + fix('tp.einsum("ij->ji", x)'))
    inputs, arrow, output = equation.partition("->")
    texts = inputs.split(",")
    if len(texts) != len(tensors):
        raise EquationError(
            f"einsum: the equation {equation!r} has {len(texts)} operands, and {len(tensors)} tensors are given"
        )
    operands, place, dots = [], 0, 0
    seen: dict[Label, tuple[int, int]] = {}
    for number, (text, tensor) in enumerate(zip(texts, tensors, strict=True)):
        labels, width = _labels(equation, text, place, tensor.ndim, number)
        dots = max(dots, width)
        operands.append(_diagonals(equation, place, number, tensor, labels, seen))
        place += len(text) + 1
    dims: tuple[Label, ...] = tuple(range(-dots, 0))
    if arrow:
        return operands, _output(equation, output, len(inputs) + 2, {*seen}, dims)
    letters = [c for c in sorted(set(inputs)) if c.isalpha() and inputs.count(c) == 1]
    return operands, (*dims, *letters)


def _labels(equation: str, text: str, place: int, ndim: int, number: int) -> tuple[tuple[Label, ...], int]:
    """Returns the labels of an operand's dims, and how many of them the dots stand for."""
    letters, dots = _letters(equation, text, place)
    count = sum(label != ELLIPSIS for label in letters)
    width = ndim - count
    if width < 0 or (width and not dots):
        what = f"operand {number} has {count} letters, and its tensor {ndim} dims"
        raise _mistake(equation, place, len(text), what, "" if dots or width < 0 else "write ... for the other dims")
    found: list[Label] = []
    for label in letters:
        found += range(-width, 0) if label == ELLIPSIS else [label]
    return tuple(found), width


def _letters(equation: str, text: str, place: int) -> tuple[list[str], bool]:
    """Returns the letters and the dots of a part of an equation."""
    found: list[str] = []
    i = 0
    while i < len(text):
        c = text[i]
        if text.startswith(ELLIPSIS, i):
            if ELLIPSIS in found:
                raise _mistake(equation, place + i, 3, "dots stand twice in one operand")
            found.append(ELLIPSIS)
            i += 3
            continue
        if c == ".":
            raise _mistake(equation, place + i, 1, "dots come in threes", "write ...")
        if c.isascii() and c.isalpha():
            found.append(c)
        elif not c.isspace():
            raise _mistake(equation, place + i, 1, f"{c!r} is no label", "labels are the letters a-z and A-Z")
        i += 1
    return found, ELLIPSIS in found


def _diagonals(
    equation: str,
    place: int,
    number: int,
    tensor: Tensor,
    labels: tuple[Label, ...],
    seen: dict[Label, tuple[int, int]],
) -> Operand:
    """Takes the diagonal of labels that an operand has twice, and checks sizes against those of the other operands."""
    at = list(labels)
    for label, size in zip(labels, tensor.shape, strict=True):
        known, first = seen.get(label, (1, number))
        if size != known and 1 not in (size, known):
            where = equation.index(str(label), place) if isinstance(label, str) else equation.index(ELLIPSIS, place)
            who = "the dots" if isinstance(label, int) else f"label {label!r}"
            raise _mistake(
                equation,
                where,
                3 if isinstance(label, int) else 1,
                f"{who} of operand {number} has size {size}, and had {known} in operand {first}",
                error=ShapeError,
            )
        seen[label] = (size, number) if label not in seen or known == 1 else (known, first)
    for label in dict.fromkeys(labels):
        while at.count(label) > 1:
            i = at.index(label)
            j = at.index(label, i + 1)
            if tensor.shape[i] != tensor.shape[j]:
                raise _mistake(
                    equation,
                    place,
                    1,
                    f"label {label!r} stands for dims of sizes {tensor.shape[i]} and {tensor.shape[j]} of operand "
                    f"{number}, which have no diagonal",
                    error=ShapeError,
                )
            tensor = tensor.diagonal(0, i, j)
            del at[j], at[i]
            at.append(label)
    return Operand(tensor, tuple(at))


def _output(equation: str, text: str, place: int, known: set[Label], dims: tuple[Label, ...]) -> tuple[Label, ...]:
    """Returns the labels of the result; dots that it does not name are summed over."""
    letters, _ = _letters(equation, text, place)
    found: list[Label] = []
    for letter in letters:
        where = place + text.index(letter)
        if letter == ELLIPSIS:
            found += dims
        elif letters.count(letter) > 1:
            raise _mistake(equation, where, 1, f"label {letter!r} stands twice in the result")
        elif letter not in known:
            raise _mistake(equation, where, 1, f"label {letter!r} of the result is in no operand")
        else:
            found.append(letter)
    return tuple(found)


def _mistake(
    equation: str, start: int, length: int, what: str, remedy: str = "", error: type[Exception] = EquationError
) -> Exception:
    """Returns the error that shows where in the equation something is wrong."""
    caret = " " * (2 + start) + "^" * max(length, 1)
    return error(f"einsum: {what}\n  {equation}\n{caret}" + (fix(remedy) if remedy else ""))
