"""Runs operators that are given by ``math`` alone as the operators that their formulas are made of.

This is what serves a device without an emitter of its own: a third party's backend, tensors without data, an operator
that the device's emitter could not do. It runs below autograd, like every explicit operator at Composite.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tensorplay_core.dispatch.registry import REGISTRY
from tensorplay_core.ops import _generated_functional as F
from tensorplay_core.ops.call import call
from tensorplay_core.ops.program_types import Use, Weak, numbers_of, typed
from tensorplay_core.ops.shapes import broadcast_shapes
from tensorplay_core.ops.typing_rules import scalar_tensor
from tensorplay_core.types.program import Program
from tensorplay_core.types.promotion import NOT_PROMOTED


def emit(program: Program) -> Callable[..., Any]:
    """Returns a kernel on tensors that interprets a program.

    Its tensors have one dtype already, but for conditions. Half precisions compute in float32 and are rounded once.
    """

    def interpreted(*args: Any, **keywords: Any) -> Any:
        return interpret(program, args, keywords)

    return interpreted


def interpret(program: Program, args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """Runs a program on tensors; a tuple is returned where the operator has several results."""
    tensors = {name: v for name, v in zip(program.inputs, args, strict=True) if name not in program.numbers}
    first = next((v for name, v in tensors.items() if name not in NOT_PROMOTED), None)
    if first is None:
        first = next(iter(tensors.values()))
    numbers = numbers_of(program, args, keywords)
    plan = typed(program, first.dtype, numbers)
    values = {name: value.to(plan.dtypes[name]) for name, value in tensors.items()}
    device = first.device

    def operand(wanted: Any) -> Any:
        if isinstance(wanted, Use):
            return values[wanted.name].to(wanted.dtype)
        if isinstance(wanted, Weak):
            return scalar_tensor(wanted.value, wanted.dtype, device)
        return numbers[wanted] if isinstance(wanted, str) else wanted

    for step in plan.steps:
        op = REGISTRY.find(step.operator)
        values[step.name] = call(op, tuple([operand(o) for o in step.operands]))
    shape = broadcast_shapes("", *[t.shape for t in tensors.values()])
    taken, results = list(tensors.values()), []
    for wanted, dtype in zip(plan.results, plan.returned, strict=True):
        result = operand(wanted).to(dtype)
        if result.shape != shape:
            result = F.clone(F.expand(result, shape))
        elif isinstance(wanted, Weak) or any(result is other for other in taken):
            result = F.clone(result)  # every result has memory of its own
        taken.append(result)
        results.append(result)
    return results[0] if len(results) == 1 else tuple(results)
