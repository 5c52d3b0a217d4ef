"""``add`` and ``sub`` with ``alpha``, which kernels leave out: the kernel of ``mul``, then the call without ``alpha``.

That is what Composite makes of them too. Here it takes fast paths, where nothing else has a say: no layer sees the
call, nobody has another kernel for ``alpha``, and the tensors are of one type. Any other call is the slow path's.
"""

from __future__ import annotations

from typing import Any

from tensorplay_core.dispatch import active, fallbacks
from tensorplay_core.dispatch.context import STATE
from tensorplay_core.dispatch.keys import PAGE, DispatchKey
from tensorplay_core.dispatch.operator import Operator
from tensorplay_core.dispatch.resolution import at_key, composite_at, takes
from tensorplay_core.dispatch.tensor_type import TensorType
from tensorplay_core.ops import direct
from tensorplay_core.ops._generated_schemas_pointwise import MUL
from tensorplay_core.ops.call import call
from tensorplay_core.ops.slots import CORE, has_only_default_layers
from tensorplay_core.ops.typing_rules import scalar_like
from tensorplay_core.tensor.tensor import Tensor, wrap
from tensorplay_core.types.promotion import PLAIN_NUMBERS, SCALED

COMPOSITE = "composite"
"""Who registers the kernels at Composite that this takes the place of."""

_composed: dict[tuple[Operator, TensorType], tuple[tuple[int, int], bool]] = {}


def scaled(op: Operator, args: tuple[Any, Any], kwargs: dict[str, Any], out: Any = None) -> Any:
    """Calls an operator whose keyword ``alpha`` multiplies its second tensor.

    Args:
        op: the operator, or its in-place variant.
        args: the two tensors.
        kwargs: ``alpha`` alone.
        out: a tensor that receives the result.

    Raises:
        TensorPlayError: as :func:`call` does.
    """
    self, other = args
    alpha, function = kwargs["alpha"], op.function
    assert function is not None
    if alpha.__class__ is float and alpha == 1 and not active.special:
        return function(self, other) if out is None else function(self, other, out=out)  # the fast path asks for an int
    found = _factors(op, self, other, alpha, writes=out is not None or op.functional is not None)
    if found is None:
        return call(op, args, kwargs, out)
    type = self._type
    multiply, number = found
    try:
        product = wrap(type.as_array(multiply(other._array, number._array)), type)
    except Exception:  # the slow path meets it again and says it properly
        return call(op, args, kwargs, out)
    fallbacks.count(op.functional or op, PAGE * type.page + type.key, "composite")
    if not _recorded(other):
        return function(self, product) if out is None else function(self, product, out=out)
    result = function(wrap(self._array, type), product)
    op.node.record(result, self, other, **kwargs)
    return result


def serves(op: Operator, args: tuple[Any, ...], alpha: Any) -> bool:
    """Whether a call without ``out=`` is served here, and not on the slow path."""
    if SCALED not in (op.functional or op).tags:
        return False
    self, other = args
    return _factors(op, self, other, alpha, writes=op.functional is not None) is not None


def _factors(op: Operator, self: Any, other: Any, alpha: Any, *, writes: bool) -> tuple[direct.Kernel, Tensor] | None:
    """Returns the kernel of ``mul`` and ``alpha`` as a tensor; None where the call must decide.

    Args:
        op: the operator.
        self: the first tensor.
        other: the second.
        alpha: the number.
        writes: to a tensor that there is already, which would depend on ``other`` by this alone.
    """
    if alpha.__class__ not in PLAIN_NUMBERS or alpha == 1 or active.special:
        return None
    if not (self.__class__ is other.__class__ is Tensor and self._type is other._type):
        return None
    type = self._type
    number, multiply = scalar_like(other, alpha), direct.kernel(MUL, type)
    if number.__class__ is not Tensor or multiply is None or (writes and _recorded(other)) or not _composes(op, type):
        return None
    return multiply, number


def _recorded(tensor: Tensor) -> bool:
    return tensor._edge is not None and (not active.grad_off or STATE.get().grad)


def _composes(op: Operator, type: TensorType) -> bool:
    """Whether a call with ``alpha`` is served by Composite's kernel alone, and one without by a backend's."""
    functional = op.functional or op
    generation = op.generation, functional.generation
    known = _composed.get((op, type))
    if known is not None and known[0] == generation:
        return known[1]
    key = PAGE * type.page + type.key
    kernel, composite = at_key(functional, key).registration, composite_at(functional, key)
    answer = (
        kernel is not None
        and kernel.level == "array"
        and not takes(kernel, {"alpha": None})
        and composite is not None
        and composite.owner == COMPOSITE
        and has_only_default_layers(functional, type.page)
    )
    if op is not functional:
        step = at_key(op, key)
        core = step.slot == DispatchKey.Composite and step.registration is not None and step.registration.owner == CORE
        answer = answer and core and has_only_default_layers(op, type.page)
    _composed[op, type] = generation, answer
    return answer
