"""The program of about ten lines that shows a finding, and fails for as long as the kernel is wrong."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

from tensorplay_core.ops.arguments import plan_of
from tensorplay_core.profiler.events import kernel_label
from tensorplay_core.testing.bisect.finding import Finding
from tensorplay_core.testing.bisect.slices import Laid, each
from tensorplay_core.types.device import Device
from tensorplay_core.types.dtype import DType

INLINE = 64
"""Elements up to which a tensor is written into the program; more go to a file beside it."""


class _Code(str):
    """Source text, which is its own repr."""

    def __repr__(self) -> str:
        return str(self)


def write(finding: Finding, path: Path) -> str:
    """Writes the program, and a file of numbers where they are many; returns its text."""
    text, data = program(finding, path)
    path.write_text(text, encoding="utf-8")
    if data:
        from tensorplay_core.ops.files import save_file

        save_file(data, path.with_suffix(".safetensors"))
    return text


def program(finding: Finding, path: Path) -> tuple[str, dict[str, Any]]:
    """Returns the program's text, and the tensors that it reads from a file beside it."""
    op, kernel = finding.op, finding.kernel
    data: dict[str, Any] = {}
    lines: list[str] = []

    def named(one: Laid) -> _Code:
        name = f"x{len(lines)}"
        memory = one.memory()
        kind = f"dtype=tp.{one.dtype.name}, device=device"
        if memory.size > INLINE:
            data[name] = Laid(memory, one.dtype, Device("cpu"), tuple(range(memory.ndim))).build()
            made = f'data["{name}"].to(device)'
        else:
            made = f"tp.tensor({memory.ravel().tolist()}, {kind}).reshape({memory.shape})"
        lines.append(f"    {name} = {made}{one.steps()}")
        return _Code(name)

    args, kwargs = each(finding.call, named)
    given = [_text(value) for value in args] + [f"{name}={_text(value)}" for name, value in kwargs.items()]
    called = f"tp.ops.{op.namespace}.{op.name}.{op.overload or 'default'}({', '.join(given)})"
    who = f"{kernel_label(kernel)} from {kernel.distribution} ({kernel.where})" if kernel is not None else "no kernel"
    head = [f'"""{finding.overload} is wrong on {finding.device.type}: {who}."""', "from math import inf, nan", ""]
    head += [*_imports(finding), "import tensorplay as tp", ""]
    if data:
        head.append(f"data = tp.load_file({str(path.with_suffix('.safetensors'))!r})")
    head += ["def run(device):", *lines]
    body = [f"    return {called}"]
    if finding.difference.kind == "view":
        body = [f"    view = {called}", f"    {args[0]}.add_(1)", "    return view"]
    elif finding.difference.kind == "input":
        body = [f"    {called}", f"    return ({', '.join(f'x{i}' for i in range(len(lines)))},)"]
    elif plan_of(op).written and not plan_of(op).returns:
        body = [f"    {called}", f"    return {args[0]}"]
    tail = [
        "",
        f'got, expected = run("{finding.device.type}"), run("{finding.against.type}")',
        'print(got, expected, sep="\\n")',
        f"tp.testing.assert_close(got, expected, rtol=0.0, atol={_allowed(finding)!r}, check_device=False)",
        "",
    ]
    return "\n".join(head + body + tail), data


def _allowed(finding: Finding) -> float:
    """Returns what the program allows: the budget, and less than what was seen."""
    difference = finding.difference
    if not (math.isfinite(difference.error) and difference.error > 0):
        return difference.allowed if math.isfinite(difference.allowed) else 0.0
    return min(difference.allowed, difference.error / 4)


def _text(value: Any) -> str:
    if isinstance(value, _Code):
        return str(value)
    if isinstance(value, DType):
        return f"tp.{value.name}"
    if isinstance(value, Device):
        return "tp.device(device)"
    if isinstance(value, (tuple, list)):
        return f"[{', '.join(map(_text, value))}]"
    return repr(value)


def _imports(finding: Finding) -> list[str]:
    """Returns what a program must import for the kernel to be there: nothing where an installed backend brings it."""
    kernel = finding.kernel
    if kernel is None or not kernel.run_time:
        return []
    name = getattr(kernel.function, "__module__", None)
    module = sys.modules.get(name or "")
    file = getattr(module, "__file__", None)
    if name in (None, "__main__") or file is None:
        where = kernel.where
        return [f"# The kernel was registered by the program itself, at {where}; do so here too."]
    folder = Path(file).parents[name.count(".")]
    return ["import sys", f"sys.path.insert(0, {str(folder)!r})", f"import {name}  # it registers the kernel"]
