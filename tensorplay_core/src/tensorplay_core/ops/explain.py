"""``tp.explain``: the road of a call without running it.

The call is bound and typed by the very code that would run it, up to the moment where a kernel would start; there it
stops, and what the dispatcher was about to do is written down.
"""

from __future__ import annotations

import textwrap
from typing import Any, NamedTuple

from tensorplay_core.dispatch.fallbacks import HOST
from tensorplay_core.dispatch.key_set import KeySet
from tensorplay_core.dispatch.keys import BACKENDS, PAGE, DispatchKey, key_name
from tensorplay_core.dispatch.operator import Operator
from tensorplay_core.ops import explain_fast
from tensorplay_core.ops import explain_road as roads
from tensorplay_core.ops.arguments import plan_of, tensors_in
from tensorplay_core.ops.call import key_set_of_call
from tensorplay_core.ops.explain_call import Call, find_call, target_of
from tensorplay_core.ops.explain_road import MISSING, PROMISED, RUNS, Result, RoadStep
from tensorplay_core.types.dtype import DType

WIDTH = 80


class Absent(NamedTuple):
    """A device that is not here.

    Attributes:
        type: the device type.
        why: the kept error of its backend, or that there is none.
        promise: the kernel that the contract promises for the operator there, or empty.
    """

    type: str
    why: str
    promise: str

    def step(self, step: RoadStep) -> RoadStep:
        """Returns what would be at a step if the device were here."""
        if step.number % PAGE >= BACKENDS or step.slot == step.key:
            return step
        if self.promise:
            reason = f"the contract promises a specialised kernel; it is not registered while {self.type} is not here"
            owner = f"a backend for {self.type}"
            return RoadStep(step.key, step.number, step.key, self.promise, self.promise, owner, "", PROMISED, reason)
        reason = f"{step.reason}; the contract promises none, a backend for {self.type} may bring one"
        return step._replace(reason=reason)


class Explanation:
    """The road of one call.

    Attributes:
        op: the operator's name, with its overload.
        schema: its signature.
        arguments: what was given, for a reader.
        key_set: the keys of the call.
        note: which keys the context took out, and why.
        steps: each key from the highest: the kernel there, whether it runs, why.
        composite: what is at the Composite slot beside a specialised kernel, or empty.
        fast: whether the public function's fast path serves the call, and ``fast_reason`` why.
        result: shapes and dtypes by the operator's rules, or the error instead.
        here: why the call cannot run on this machine, or empty.
    """

    def __init__(
        self,
        call: Call,
        keys: KeySet,
        steps: tuple[RoadStep, ...],
        fast: tuple[bool, str],
        result: Result,
        device: str,
        here: str = "",
    ) -> None:
        self.op = call.op.display_name
        self.schema = str(call.op.schema)
        self.arguments = _arguments(call)
        self.key_set = keys
        self.note = roads.left_out(keys, call.args, call.kwargs)
        self.steps = steps
        self.composite = _beside(call.op, steps)
        self.fast, self.fast_reason = fast
        self.result = result
        self.device = device
        self.here = here

    @property
    def ok(self) -> bool:
        """Whether the call would succeed, as far as the rules can tell."""
        return not self.result.error and not self.here and all(step.state != MISSING for step in self.steps)

    def as_dict(self) -> dict[str, Any]:
        """Returns everything as plain values."""
        return {
            "op": self.op, "schema": self.schema, "arguments": list(self.arguments), "ok": self.ok,
            "key_set": [key_name(key) for key in self.key_set], "page": self.key_set.page, "note": self.note,
            "steps": [step.as_dict() for step in self.steps], "composite": self.composite,
            "fast_path": {"serves": self.fast, "reason": self.fast_reason},
            "result": {
                "shapes": [None if shape is None else list(shape) for shape in self.result.shapes],
                "dtypes": list(self.result.dtypes), "device": self.device, "error": self.result.error,
            },
            "cannot_run_here": self.here,
        }  # fmt: skip

    def __str__(self) -> str:
        lines = [*_folded(f"{self.op}(", ", ".join(self.arguments) + ")", len(self.op) + 1)]
        lines += _folded("schema     ", self.schema)
        names = ", ".join(key_name(key) for key in self.key_set) or "empty"
        page = f", on page {self.key_set.page}" if self.key_set.page else ""
        lines += _folded("key set    ", f"{names}{page}" + f" ({self.note})" * bool(self.note))
        for number, step in enumerate(self.steps, 1):
            lines += ["", *_step_lines(number, step)]
        if self.composite:
            lines += _folded("     ", f"beside it, Composite: {self.composite}")
        lines.append("")
        lines += _folded("fast path  ", f"{'yes' if self.fast else 'no'}: {self.fast_reason}")
        lines += _folded("result     ", self._result_text())
        if self.here:
            lines += _folded("here       ", self.here)
        return "\n".join(lines)

    def _result_text(self) -> str:
        if self.result.error:
            return f"the call raises {self.result.error}"
        parts = []
        for shape, dtype in zip(self.result.shapes, self.result.dtypes, strict=True):
            sizes = "[shape depends on data]" if shape is None else str(list(shape))
            parts.append(f"{dtype or '(dtype: the kernel decides) '}{sizes}")
        text = " and ".join(parts) + f" on {self.device}"
        nodes = [step.reason.partition(",")[0].removeprefix("records ") for step in self.steps]
        recorded = [node for node in nodes if node.endswith("Backward")]
        return f"{text}, grad_fn {recorded[0]}" if recorded else text

    def __repr__(self) -> str:
        return f"<Explanation of {self.op}: {' → '.join(step.key for step in self.steps if step.state == RUNS)}>"


def _folded(head: str, text: str, indent: int | None = None) -> list[str]:
    indent = len(head) if indent is None else indent
    lines = []
    for i, part in enumerate(text.split("\n")):
        first = head if i == 0 else " " * indent
        rest = " " * indent
        lines += textwrap.wrap(
            part, WIDTH, initial_indent=first, subsequent_indent=rest, break_long_words=False, break_on_hyphens=False
        ) or [first.rstrip()]
    return lines


def _step_lines(number: int, step: RoadStep) -> list[str]:
    head = f"{number:>3}  {step.key} ({step.number})"
    if step.kernel:
        via = f" at {step.slot}" if step.slot not in ("", step.key, HOST) else ""
        lines = _folded(f"{head}: ", f"{step.label} from {step.distribution}{via}", 9)
        lines += _folded("     ", step.short_where) if step.where else []
    else:
        lines = [f"{head}: no kernel"]
    return lines + _folded("     ", f"{step.state}: {step.reason}")


def _arguments(call: Call) -> tuple[str, ...]:
    pairs = [(spec.name, value) for spec, value in zip(plan_of(call.op).positional, call.args, strict=False)]
    return tuple(f"{name}: {described(value)}" for name, value in [*pairs, *call.kwargs.items()])


def described(value: Any) -> str:
    """Returns an argument for a reader: a tensor as dtype, shape, device, and whether a gradient reaches it."""
    if value.__class__ is tuple and any(True for _ in tensors_in((value,), {})):
        return f"[{', '.join(described(item) for item in value)}]"
    for tensor in tensors_in((value,), {}):
        extra = " requires grad" * (tensor._node is not None) + " inference" * tensor._type.inference
        return f"{tensor.dtype.name}{list(tensor.shape)} {tensor.device}{extra}"
    if value.__class__ is tuple:
        return str(list(value))
    return value.name if value.__class__ is DType else str(value)


def _beside(op: Operator, steps: tuple[RoadStep, ...]) -> str:
    found = op.kernel_at(int(DispatchKey.Composite))
    last = steps[-1] if steps else None
    if found is None or last is None or last.slot == "Composite" or not last.kernel:
        return ""
    where = roads.short_location(found.where)
    return f"{roads.kernel_label(found)} from {found.distribution} ({where}), not needed: a specialised kernel exists"


def explain(what: Any, /, *args: Any, **kwargs: Any) -> Explanation:
    """Describes the road of a call without running it.

    Args:
        what: a function such as ``tp.add``, a method, an operator, or a name; or, alone, a whole call as text, such as
            ``"add(float32[2,3], float32[3] grad)"``, which needs neither data nor the device.
        *args: the arguments of the call.
        **kwargs: those that are given by name.

    Returns:
        An :class:`Explanation`; print it, or read ``steps``, ``key_set`` and ``as_dict()``.

    Raises:
        ArgumentError: there is no such operator, or the arguments do not fit.

    Example:
        >>> import tensorplay as tp
        >>> x = tp.ones(2, 3, requires_grad=True)
        >>> road = tp.explain(tp.add, x, x)
        >>> [(step.key, step.label, step.distribution) for step in road.steps]
        [('AutogradCPU', 'AddBackward', 'tensorplay-core'), ('CPU', 'numpy.add', 'tensorplay-cpu')]
        >>> print(road.result.shapes[0], road.result.dtypes[0])
        (2, 3) float32
    """
    if isinstance(what, str) and "(" in what and not args and not kwargs:
        from tensorplay_core.ops.explain_text import explain_text

        return explain_text(what)
    return explain_call(find_call(target_of(what), args, kwargs))


def explain_call(call: Call, keys: KeySet | None = None, absent: Absent | None = None) -> Explanation:
    """Describes a call that was found; ``keys`` and ``absent`` are given for a device that is not here."""
    keys = keys if keys is not None else key_set_of_call(call.op, call.args, call.kwargs)
    steps = tuple(roads.road(call.op, keys, call.args, call.kwargs))
    result = roads.result_of(call.op, call.args, call.kwargs)
    if absent is not None:
        steps, fast = tuple(absent.step(step) for step in steps), (False, f"{absent.type} is not here")
    elif result.error:
        fast = (False, "the call fails, and the slow path says why")
    elif call.slow:
        fast = (False, call.slow)
    else:
        fast = explain_fast.fast_path(call.op, call.args, call.kwargs, call.given)
    return Explanation(call, keys, steps, fast, result, _device(call), absent.why if absent is not None else "")


def _device(call: Call) -> str:
    if (wanted := call.kwargs.get("device")) is not None:
        return str(wanted)
    tensors = list(tensors_in(call.args, call.kwargs))
    if not tensors:
        from tensorplay_core.dispatch.devices import default_device

        return str(default_device())
    return str(next((t.device for t in tensors if t._array.shape), tensors[0].device))


__all__ = ["Absent", "Explanation", "explain", "explain_call"]
