"""The array kernel of an operator without its call: for indexing, whose arguments the generated fast paths do not take.

As there, only a kernel is called that the slow path has tried for the tensor's type, and only where no layer would see
the call: nothing special is active, nothing is recorded, one device of its type, arrays that can be written to.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tensorplay_core.dispatch import active
from tensorplay_core.dispatch.context import STATE
from tensorplay_core.dispatch.keys import PAGE, DispatchKey
from tensorplay_core.dispatch.operator import Operator
from tensorplay_core.dispatch.resolution import at_key
from tensorplay_core.dispatch.tensor_type import TensorType
from tensorplay_core.ops import kernels
from tensorplay_core.ops._generated_schemas_creation import COPY_
from tensorplay_core.ops.arguments import normalise
from tensorplay_core.ops.slots import CORE, has_only_default_layers
from tensorplay_core.tensor.tensor import Tensor, wrap
from tensorplay_core.tensor.views import bump, root_of

Kernel = Callable[..., Any]

_found: dict[tuple[Operator, TensorType], tuple[int, Kernel]] = {}


def kernel(op: Operator, type: TensorType) -> Kernel | None:
    """Returns the kernel that serves an operator for a type, on raw arrays; None where the call must decide.

    Args:
        op: an operator whose kernel takes the arrays as they are, whatever their dtype.
        type: of its first tensor.
    """
    known = _found.get((op, type))
    if known is not None and known[0] == op.generation:
        return known[1]
    if type.special or type.inference or type.rebinds or type.several:
        return None
    generation = op.generation
    registration = at_key(op, PAGE * type.page + type.key).registration
    if registration is None or registration.level != "array" or type not in registration.verified:
        return None
    if not has_only_default_layers(op, type.page):
        return None
    function: Kernel = registration.function
    _found[op, type] = generation, function
    return function


def kernel_on_tensors(op: Operator, type: TensorType) -> Kernel | None:
    """Returns the Composite kernel of core that serves an operator for a type; None where the call must decide."""
    known = _found.get((op, type))
    if known is not None and known[0] == op.generation:
        return known[1]
    generation = op.generation
    step = at_key(op, PAGE * type.page + type.key)
    registration = step.registration
    if type.special or registration is None or step.slot != DispatchKey.Composite or registration.owner != CORE:
        return None
    if not has_only_default_layers(op, type.page):
        return None
    function: Kernel = registration.function
    _found[op, type] = generation, function
    return function


def plain(op: Operator, x: Tensor, other: Tensor, *values: Any) -> Tensor | None:
    """Returns what an operator's kernel makes of two tensors of one type, which its result has; else None.

    The kernel must refuse what the shape rule refuses, whatever it raises.
    """
    if not (x.__class__ is other.__class__ is Tensor and x._type is other._type and unrecorded(x, other)):
        return None
    try:
        function = kernel(op, x._type)
        return None if function is None else wrap(x._type.as_array(function(x._array, other._array, *values)), x._type)
    except Exception:  # the call says it properly
        return None


def written(op: Operator, x: Tensor, source: Tensor, *arrays: Any) -> bool:
    """Writes a source of a tensor's own type to it, where nobody else has a say; returns whether that was so.

    The kernels check before they write.
    """
    type = x._type
    if source._type is not type or not unrecorded(x, source) or (function := kernel(op, type)) is None:
        return False
    if type.api.overlaps_itself(x._array):  # which the call refuses
        return False
    try:
        function(x._array, *arrays)
    except Exception:  # the call says it properly
        return False
    bump(x)
    return True


def copy_into(x: Tensor, source: Tensor) -> None:
    """``x.copy_(source)``, by its kernel at once where no layer would see the call."""
    if not written(COPY_, x, source, source._array, False):
        x.copy_(source)


def created(op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor | None:
    """Returns what a creation operator makes, by its kernel at once; None where the call must decide, or say why not.

    Only where the same operator has made the same type before: its result has been checked then.
    """
    if active.special or active.inference:
        return None
    try:
        args, kwargs = normalise(op, args, kwargs)
        type = kernels.creation_type(op, args, kwargs)
        function = kernel(op, type)
        if function is None:
            return None
        kernels.expected_shape(op, args, kwargs)
        return wrap(function(*args, **kernels.native_keywords(op, kwargs, type)), type)
    except Exception:  # whatever it is, the slow path meets it again and says it properly
        return None


def records(x: Tensor) -> bool | None:
    """Whether a call that reads a tensor is recorded; None where some layer must see the call."""
    if active.special or active.inference:
        return None
    return x._node is not None and (not active.grad_off or STATE.get().grad)


def unrecorded(x: Tensor, other: Tensor | None = None) -> bool:
    """Whether a call with these tensors is plain: no layer sees it, and no gradient is recorded."""
    if active.special or active.inference:
        return False
    if active.grad_off and not STATE.get().grad:
        return True
    # A view that requires none itself may be one of a tensor that does.
    return root_of(x)._edge is None and x._node is None and (other is None or other._node is None)
