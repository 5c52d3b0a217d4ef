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
    recorded = not active.grad_off or STATE.get().grad
    recorded = recorded and other.__class__ is Tensor and other._edge is not None
    writes = out is not None or op.functional is not None  # and what is written to would depend on the tensor
    product = None if recorded and writes else _product(op, self, other, kwargs["alpha"])
    if product is None:
        return call(op, args, kwargs, out)
    function: Any = op.function
    if not recorded:
        return function(self, product) if out is None else function(self, product, out=out)
    result = function(wrap(self._array, self._type), product)
    op.node.record(result, self, other, **kwargs)
    return result


def _product(op: Operator, self: Any, other: Any, alpha: Any) -> Tensor | None:
    """Returns ``alpha * other``, recorded by nobody; None where the call must decide."""
    if alpha == 1 or not (self.__class__ is other.__class__ is Tensor and self._type is other._type) or active.special:
        return None
    type = self._type
    number, multiply = scalar_like(other, alpha), direct.kernel(MUL, type)
    if number.__class__ is not Tensor or multiply is None or not _composes(op, type):
        return None
    fallbacks.count(op.functional or op, PAGE * type.page + type.key, "composite")
    return wrap(type.as_array(multiply(other._array, number._array)), type)


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
