"""What bisect has found: which operator, whose kernel, at which line of the program, and the smallest call of it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, NamedTuple

from tensorplay_core.dispatch.operator import Operator, Registration
from tensorplay_core.profiler.events import kernel_label
from tensorplay_core.testing.bisect.comparison import Difference
from tensorplay_core.testing.bisect.slices import descriptions, each
from tensorplay_core.types.device import Device

_PACKAGES = ("tensorplay", "tensorplay_core", "tensorplay_composite")
_ROOTS = tuple(
    str(Path(file).parent) + "/"
    for name in _PACKAGES
    if (file := getattr(sys.modules.get(name), "__file__", None)) is not None
)


class Place(NamedTuple):
    """Where in the program a call was made.

    Attributes:
        line: ``file:line`` of the program.
        node: the node of a backward pass that was applied; empty in a forward one.
    """

    line: str
    node: str = ""


def place_here() -> Place:
    """Returns where the program is: the innermost frame that is none of ours nor of Python's own library."""
    node, frame = "", sys._getframe(1)
    library = str(Path(sys.modules["contextlib"].__file__ or "").parent) + "/"
    while frame.f_back is not None:
        name = frame.f_code.co_filename
        if frame.f_code.co_name == "_walk" and not node:
            node = getattr(frame.f_locals.get("node"), "name", "")
        ours = name.startswith(_ROOTS) or name.startswith("<")
        if not ours and not (name.startswith(library) and "site-packages" not in name):
            break
        frame = frame.f_back
    return Place(f"{frame.f_code.co_filename}:{frame.f_lineno}", node)


class Finding(NamedTuple):
    """One kernel whose result is wrong.

    Attributes:
        op: the operator.
        kernel: what computed it, or None where nothing is registered.
        device, against: the device, and the one that it was compared with.
        place: where in the program.
        difference: how it is wrong.
        call: the smallest call that shows it: ``(args, kwargs)`` with descriptions in the place of tensors.
        reduced: whether that call shows it by itself.
    """

    op: Operator
    kernel: Registration | None
    device: Device
    against: Device
    place: Place
    difference: Difference
    call: Any
    reduced: bool = True

    @property
    def key(self) -> tuple[str, str]:
        """What makes it the same finding again."""
        return self.op.qualified_name, self.kernel.where if self.kernel is not None else ""

    @property
    def overload(self) -> str:
        """The operator with its overload, as ``tp.ops`` has it."""
        return f"{self.op.namespace}::{self.op.name}.{self.op.overload or 'default'}"

    @property
    def call_text(self) -> str:
        """The smallest call in words: dtypes, shapes and layouts."""
        args, kwargs = each(self.call, lambda one: _Shown(described(one)))
        parts = [repr(value) for value in args] + [f"{name}={value!r}" for name, value in kwargs.items()]
        return f"{self.op.display_name}({', '.join(parts)})"

    def lines(self) -> list[str]:
        """Returns it for a reader."""
        kernel = self.kernel
        whose = "no kernel" if kernel is None else f"{kernel_label(kernel)} from {kernel.distribution}"
        where = "" if kernel is None else kernel.where
        during = f", in the backward pass: {self.place.node}" if self.place.node else ""
        found = [
            f"{self.overload} on {self.device.type} is wrong: {self.difference.what}",
            f"  kernel   {whose}",
            f"           {where}",
            f"  program  {self.place.line}{during}",
            f"  shown by {self.call_text}",
        ]
        small = [one for one in descriptions(self.call) if one.host.size <= 8]
        found += [f"           {described(one)} = {one.host.tolist()}" for one in small]
        return found

    def as_dict(self) -> dict[str, Any]:
        """Returns plain values, for ``--json``."""
        kernel, difference = self.kernel, self.difference
        return {
            "operator": f"{self.op.namespace}::{self.op.name}",
            "overload": self.op.overload or "default",
            "device": self.device.type,
            "against": self.against.type,
            "distribution": None if kernel is None else kernel.distribution,
            "kernel": None if kernel is None else kernel_label(kernel),
            "where": None if kernel is None else kernel.where,
            "program": self.place.line,
            "node": self.place.node,
            "what": difference.what,
            "place": None if difference.place is None else list(difference.place),
            "error": repr(difference.error),
            "allowed": repr(difference.allowed),
            "call": self.call_text,
        }


class _Shown(str):
    def __repr__(self) -> str:
        return str(self)


def described(one: Any) -> str:
    """Returns a tensor in words: ``float32[2,3]``, and how it lies in memory where that is not C order."""
    layout = " expanded" * bool(one.expanded) + " with gaps" * one.gaps
    if one.order != tuple(range(one.host.ndim)) and not one.expanded:
        layout += f" permuted{one.order}"
    return f"{one.dtype.name}[{','.join(map(str, one.host.shape))}]{layout}"
