"""The short Python program that goes with each failure, so that whoever writes the kernel can run it at once.

Small inputs are written out; large ones repeat a few numbers, so they are short too.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from typing import Any

from tensorplay_core import public
from tensorplay_core.dispatch.operator import Operator
from tensorplay_core.ops.arguments import plan_of
from tensorplay_core.testing.sample_specs import Named
from tensorplay_core.testing.suite.cases import Case
from tensorplay_core.testing.suite.given import Given, literal

SHOWN = 8
"""How many elements of a result a message shows."""


class Script:
    """Writes a program line by line.

    Args:
        device: the device that its tensors are on.
    """

    def __init__(self, device: str) -> None:
        """Begins with nothing."""
        self.device = device
        self.lines: list[str] = []
        self.made = 0
        self.shared = False

    def name(self, given: Given) -> str:
        """Adds a line that makes a tensor; returns its name."""
        if self.shared and self.made:
            return "x0"
        name = f"x{self.made}"
        self.made += 1
        self.lines.append(f"{name} = {given.text(self.device)}")
        return name

    def argument(self, value: Any) -> str:
        """Returns an argument as an expression."""
        if isinstance(value, Given):
            return self.name(value)
        if isinstance(value, Named):
            return f"tp.{value.name}" if value.kind == "dtype" else f'"{self.device}"'
        if isinstance(value, list):
            return f"[{', '.join(map(self.argument, value))}]"
        return literal(value)

    def call(self, op: Operator, case: Case, more: str = "") -> str:
        """Adds lines for the tensors of a case; returns the expression of its call."""
        self.shared = case.shared
        args = [self.argument(value) for value in case.args]
        self.shared = False
        spelled = {name: word for word, name in plan_of(op).spelled.items()}
        args += [f"{spelled.get(name, name)}={self.argument(value)}" for name, value in case.kwargs.items()]
        if more:
            args.append(more)
        if op.name in public.NAMES:
            return f"tp.{op.name}({', '.join(args)})"
        if op.schema.mutates or op.is_inplace:
            return f"{args[0]}.{op.name}({', '.join(args[1:])})"
        return f"tp.ops.tp.{op.name}({', '.join(args)})"

    def add(self, *lines: str) -> None:
        """Adds lines."""
        self.lines += lines

    def text(self) -> str:
        """Returns the whole program."""
        head = ["import tensorplay as tp"]
        if words := [w for w in ("inf", "nan") if any(re.search(rf"\b{w}\b", line) for line in self.lines)]:
            head.insert(0, f"from math import {', '.join(words)}\n")
        return "\n".join([*head, "", *self.lines])


def program_of(op: Operator, case: Case, device: str, how: str = "", wanted: str = "") -> str:
    """Returns a program that makes a call and prints its result.

    Args:
        op: the operator.
        case: the call.
        device: where.
        how: "" for a plain call, "again" for a second one, "slow" for the slow path, "thread" for another thread.
        wanted: what the result should be, for a comment.
    """
    script = Script(device)
    call = script.call(op, case)
    if how == "again":
        script.add("for _ in range(3):", f"    y = {call}")
    elif how == "slow":
        script.add("with tp.testing.force_slow_path():", f"    y = {call}")
    elif how == "thread":
        script.lines.insert(0, "from concurrent.futures import ThreadPoolExecutor")
        script.add("with ThreadPoolExecutor(2) as pool:")
        script.add(f"    jobs = [pool.submit(lambda: {call}) for _ in range(8)]", "y = jobs[-1].result()")
    else:
        script.add(f"y = {call}")
    script.add("print(y)")
    if wanted:
        script.add(f"# {wanted}")
    return script.text()


def runnable(program: str, device: str) -> str:
    """Returns a program that makes its device first, where that is made of an array module rather than installed."""
    from tensorplay_core.plugins import public as backends

    made = backends.info(device).made
    module = made and getattr(made.xp, "__name__", None)
    if not program or made is None or not isinstance(module, str) or sys.modules.get(module) is not made.xp:
        return program
    given = {name: repr(value) for name, value in made.options.items() if value is not None}
    if given["device_count"] == "1":
        del given["device_count"]
    if "dtypes" in given:
        names = ", ".join(f'"{name}"' for name in made.options["dtypes"])
        given["dtypes"] = f"{{name: getattr({module}, name) for name in ({names})}}"
    call = ", ".join([module, f'"{device}"', *(f"{name}={value}" for name, value in given.items())])
    head, line, rest = program.partition("import tensorplay as tp\n")
    return f"{head}import {module}\n\n{line}\ntp.backends.from_namespace({call})\n{rest}"


def shown(values: Sequence[Any]) -> str:
    """Returns the first elements of a list for a message."""
    more = ", ..." if len(values) > SHOWN else ""
    return f"[{', '.join(map(literal, values[:SHOWN]))}{more}]"


def call_text(op: Operator, case: Case) -> str:
    """Returns a call for a message: the operator with the dtypes and shapes of its tensors.

    Example:
        >>> from tensorplay_core.testing.suite.subject import operators
        >>> call_text(operators()["add"], Case("", (Given((2,), [1.0, 2.0], "float32"), 3), {"alpha": 2}, "float32"))
        'add(float32[2], 3, alpha=2)'
    """

    def one(value: Any) -> str:
        if isinstance(value, Given):
            return f"{value.dtype}[{', '.join(map(str, value.shape))}]" + ("" if value.plain else f" {value.layout}")
        if isinstance(value, Named):
            return value.name or "device"
        if isinstance(value, list):
            return f"[{', '.join(map(one, value))}]"
        return literal(value)

    named = [f"{name}={one(value)}" for name, value in case.kwargs.items() if name != "device"]
    return f"{op.display_name}({', '.join([*map(one, case.args), *named])})"
