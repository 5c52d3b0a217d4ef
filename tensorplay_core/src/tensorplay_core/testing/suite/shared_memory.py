"""Views of a device: what is written through one is seen by all, whatever overlaps with what, in the right order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from tensorplay_core.errors import TensorPlayError
from tensorplay_core.tensor.tensor import wrap
from tensorplay_core.testing.suite.calls import REFUSALS, Skip, bits_of
from tensorplay_core.testing.suite.device_checks import of_device
from tensorplay_core.testing.suite.outcome import Finding, Outcome
from tensorplay_core.testing.suite.subject import Subject

WRITES: tuple[tuple[str, str, list[Any]], ...] = (
    ("x[1:].copy_(x[:-1])", "x", [0.0, 0.0, 1.0, 2.0, 3.0, 4.0]),
    ("x[:-1].copy_(x[1:])", "x", [1.0, 2.0, 3.0, 4.0, 5.0, 5.0]),
    ("x[1:].add_(x[:-1])", "x", [0.0, 1.0, 3.0, 5.0, 7.0, 9.0]),
    ("x.mul_(x[3])", "x", [0.0, 3.0, 6.0, 9.0, 12.0, 15.0]),
    ("tp.add(x[:-1], 1, out=x[1:])", "x", [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]),
    ("tp.sub(x[1:], x[:-1], out=x[1:])", "x", [0.0, 1.0, 1.0, 1.0, 1.0, 1.0]),
    ("x.reshape(2, 3).transpose(0, 1).mul_(2)", "x", [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]),
    ("x.reshape(2, 3).copy_(x.reshape(2, 3).select(0, 1))", "x", [3.0, 4.0, 5.0, 3.0, 4.0, 5.0]),
    ("x[::2].copy_(x[:3])", "x", [0.0, 1.0, 1.0, 3.0, 2.0, 5.0]),
    ("x.unsqueeze(0).add_(1)", "x", [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]),
    ("x.expand(1, 6).add_(1)", "x", [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]),
    ("x[4:5].expand(1).zero_()", "x", [0.0, 1.0, 2.0, 3.0, 0.0, 5.0]),
    ("x.squeeze().fill_(7)", "x", [7.0] * 6),
    ("y = x[1:3]; x.add_(1)", "y", [2.0, 3.0]),
    ("y = x[2:]; z = x[:4]; z.mul_(10)", "y", [20.0, 30.0, 4.0, 5.0]),
    ("y = x.clone(); x.zero_()", "y", [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]),
    ("x.fill_(7); x.add_(1)", "x", [8.0] * 6),
    ("x.zero_(); x.fill_(2)", "x", [2.0] * 6),
    ("x.copy_(x[3]); x.mul_(2)", "x", [6.0] * 6),
    ("x.fill_(7); x[1:3] = 5", "x", [7.0, 5.0, 5.0, 7.0, 7.0, 7.0]),
)
"""What is done with 0 to 5 as ``x``, the tensor that is looked at then, and what it must be."""
STRIDED: tuple[tuple[str, str, list[Any]], ...] = (
    ("y = x[2:].as_strided((2,), (1,), 0)", "y", [0.0, 1.0]),
    ("y = x[1:3].as_strided((3,), (2,), 1)", "y", [1.0, 3.0, 5.0]),
    ("y = x[2:].as_strided((2,), (2,))", "y", [2.0, 4.0]),
    ("y = x[1:][1:].as_strided((4,), (1,))", "y", [2.0, 3.0, 4.0, 5.0]),
    ("y = x.reshape(2, 3)[1:].as_strided((2, 2), (1, 1), 1)", "y", [[1.0, 2.0], [2.0, 3.0]]),
    ("y = x.as_strided((1, 2), (1, 1), 3)", "y", [[3.0, 4.0]]),
    ("y = x[4:].as_strided((0, 2), (1, 1), 6)", "y", []),
    ("x[3:].as_strided((2,), (1,), 0).zero_()", "x", [0.0, 0.0, 2.0, 3.0, 4.0, 5.0]),
    ("x.as_strided((2,), (5,)).fill_(9)", "x", [9.0, 1.0, 2.0, 3.0, 4.0, 9.0]),
    ("x[:3].expand(2, 3)[1].add_(1)", "x", [1.0, 2.0, 3.0, 3.0, 4.0, 5.0]),
    ("x.unfold(0, 2, 2)[1].fill_(7)", "x", [0.0, 1.0, 7.0, 7.0, 4.0, 5.0]),
    ("x.reshape(2, 3).diagonal().fill_(7)", "x", [7.0, 1.0, 2.0, 3.0, 7.0, 5.0]),
    ("y = tp.tensor([x[2:].storage_offset(), x[1:][1:].storage_offset(), x[:3].storage_offset()])", "y", [2, 2, 0]),
    ("y = tp.tensor([x.reshape(2, 3)[1:, 1:].storage_offset(), x[6:].storage_offset() * 0])", "y", [4, 0]),
    ("y = tp.tensor([x[:0].clone().storage_offset(), x[2:].clone().storage_offset()])", "y", [0, 0]),
)
"""The same where arrays have strides: ``as_strided`` counts from the first element of the memory, not of the view."""
BACKWARDS: tuple[tuple[str, list[Any]], ...] = (
    ("x.as_strided((2,), (1,), 0)", [0.0, 1.0]),
    ("x.as_strided((1,), (1,))", [5.0]),
    ("x[2:4].as_strided((3,), (1,))", [3.0, 4.0, 5.0]),
    ("tp.tensor([x.storage_offset(), x[1:].storage_offset(), x[2:5].storage_offset()])", [5, 4, 3]),
    ("rows.as_strided((8,), (1,), 0)", [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]),
)
"""What is right where ``x`` is 5 to 0 and lies in memory from its last element on, as what others lend may.

``rows`` are two of four, of 0 to 7, of which the second lies first.
"""
HOST: tuple[tuple[str, str, list[Any]], ...] = (
    ("x.numpy()[1] = 9", "x", [0.0, 9.0, 2.0, 3.0, 4.0, 5.0]),
    ("x[2:].numpy()[0] = 9", "x", [0.0, 1.0, 9.0, 3.0, 4.0, 5.0]),
    ("a = x.numpy(); x.add_(1); y = tp.tensor(a.tolist())", "y", [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]),
)
"""The same on a device that says that it shares memory with the host."""
STRIDED_REFUSED = (
    "x[2:].as_strided((7,), (1,), 0).zero_()", "x[2:].as_strided((5,), (1,)).zero_()",
    "x[:2].as_strided((2,), (6,)).zero_()", "x.as_strided((2,), (0,)).zero_()",
    "x[:0].clone().as_strided((1,), (1,)).zero_()",
)  # fmt: skip
REFUSED = ("x[:1].expand(3).add_(1)", "x.expand(2, 6).copy_(x)", "x.reshape(2, 3)[:, :1].expand(2, 3).zero_()")
"""Writes to memory that several elements share."""

FROZEN = (
    "x[1:3]", "x.reshape(2, 3)[:, 1]", "x.reshape(2, 3).transpose(0, 1)", "x.reshape(2, 3).diagonal()",
    "x.unfold(0, 2, 1)", "x.as_strided((2, 2), (1, 1))", "x.unsqueeze(0).squeeze(0)", "x.expand(2, 6)",
    "x.unbind()[0]", "x.split(2)[1]",
)  # fmt: skip
"""Views of a tensor whose array may not be written to, as the numbers that core keeps for all calls."""

FROZEN_WRITES = (
    "x.fill_(7)", "x.zero_()", "x.copy_(y)", "x.add_(1)", "x.mul_(y)", "x.exp_()", "x[1:3].zero_()", "x[2] = 7",
    "x.index_put_([i], y[:2])", "x.index_put_([i], y[:2], True)", "x.index_add_(0, i, y[:2])",
    "x.masked_fill_(y > 1, 7)", "x.scatter_(0, i, 7)", "x.uniform_()", "tp.add(y, 1, out=x)",
)  # fmt: skip
"""Writes to a tensor whose array may not be written to."""


def views(subject: Subject) -> Iterator[Outcome]:
    """Writes through views, in float32."""
    strided = subject.views and hasattr(subject.tp.zeros(2, device=subject.device)._array, "strides")
    host = subject.mutable and subject.api.shares_memory_with_host
    checks: list[Callable[[], None]] = [
        partial(_written, subject, *one) for one in WRITES + STRIDED * strided + HOST * host
    ]
    checks += [partial(_refused, subject, one) for one in REFUSED + STRIDED_REFUSED * strided]
    frozen = FROZEN[: len(FROZEN) * strided]
    checks += [partial(_frozen, subject, one, part) for one in frozen for part in (False, True)]
    backwards = BACKWARDS[: len(BACKWARDS) * strided]
    checks += [partial(_backwards, subject, *one, lent) for one in backwards for lent in (False, True)]
    checks += [partial(_frozen_write, subject, one) for one in FROZEN_WRITES]
    yield from of_device(subject, "views", checks)


def _program(subject: Subject, what: str, name: str = "x") -> str:
    lines = ["import tensorplay as tp", "", f'x = tp.arange(6.0, device="{subject.device}")', *what.split("; ")]
    return "\n".join([*lines, f"print({name})"])


def _written(subject: Subject, what: str, name: str, right: list[Any]) -> None:
    names = {"tp": subject.tp, "x": subject.tp.arange(6.0, device=subject.device)}
    program = _program(subject, what, name)
    try:
        exec(what, names)
    except Exception as error:
        refused = isinstance(error, REFUSALS)
        raise Finding(f"{what} raised {type(error).__name__}: {error}", program, refused=refused) from error
    found = names[name].tolist()
    if found != right:
        raise Finding(f"after x = 0 … 5; {what}, {name} is {found}, and {right} is right", program)


def _backwards(subject: Subject, what: str, right: list[Any], lent: bool) -> None:
    """A tensor whose array has a negative stride; ``lent``: and knows of no array whose memory it is a part of."""
    made = subject.tp.arange(6.0, device=subject.device), subject.tp.arange(8.0, device=subject.device).reshape(2, 4)
    names = {"tp": subject.tp}
    for name, tensor in zip(("x", "rows"), made, strict=True):
        try:
            array = tensor._array[::-1]
            names[name] = wrap(subject.api.from_dlpack(array) if lent else array, tensor._type)
        except Exception:
            raise Skip from None  # it has no such arrays
    found = eval(what, names).tolist()
    if found != right:
        words = "where x is 5 … 0 and rows are 4 … 7 and 0 … 3, the last one first in memory,"
        raise Finding(f"{words} {what} is {found}, and {right} is right")


def _frozen(subject: Subject, what: str, part: bool) -> None:
    """A view of an array that may not be written to; ``part``: which is a part of one that may."""
    x = subject.tp.arange(7.0, device=subject.device)[1:] if part else subject.tp.arange(6.0, device=subject.device)
    subject.api.freeze(x._array)
    if getattr(getattr(x._array, "flags", None), "writeable", True):
        raise Skip
    view = eval(what, {"x": x})._array
    if view.flags.writeable and subject.api.may_alias(x._array, view):
        raise Finding(
            f"{what} can be written to, and what it is a view of cannot", _program(subject, f"y = {what}", "y")
        )


def _frozen_write(subject: Subject, what: str) -> None:
    tp, device = subject.tp, subject.device
    x, y = tp.arange(6.0, device=device), tp.arange(6.0, device=device)
    subject.api.freeze(x._array)
    if not subject.mutable or getattr(getattr(x._array, "flags", None), "writeable", True):
        raise Skip
    try:
        exec(what, {"tp": tp, "x": x, "y": y, "i": tp.tensor([1, 4], device=device)})
    except Exception:
        if x.tolist() == y.tolist():
            return
    raise Finding(f"{what} writes to memory that may not be written to, or does not say that it cannot: {x.tolist()}")


def _refused(subject: Subject, what: str) -> None:
    names = {"tp": subject.tp, "x": subject.tp.arange(6.0, device=subject.device)}
    before, program = bits_of(names["x"]), _program(subject, what)
    try:
        exec(what, names)
    except TensorPlayError:
        if bits_of(names["x"]) != before:
            raise Finding(f"{what} raises, and writes before it does", program) from None
    except Exception as error:
        raise Finding(f"{what} raised {type(error).__name__}, which is not TensorPlay's: {error}", program) from error
    else:
        raise Finding(f"{what} writes to elements that share memory, and must raise", program)
