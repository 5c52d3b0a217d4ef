"""In-place variants: one kernel at Composite that serves ``add_`` through the kernel of ``add``.

It writes through ``out=`` where the functional kernel has it, else computes and copies. Everything is checked before
anything is written. A backend that registers ``add_`` itself overrides it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tensorplay_core.dispatch.key_set import KeySet
from tensorplay_core.dispatch.keys import PAGE, DispatchKey
from tensorplay_core.dispatch.operator import Operator
from tensorplay_core.dispatch.registry import REGISTRY
from tensorplay_core.dispatch.resolution import resolve
from tensorplay_core.errors import ShapeError, fix
from tensorplay_core.ops import call, kernels, typing_rules
from tensorplay_core.tensor.tensor import Tensor
from tensorplay_core.tensor.version import bump


def check(op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Refuses a write that would change the tensor's shape or dtype, or that has no memory of its own to go to.

    Raises:
        ShapeError, DTypeError: nothing has been written.
    """
    functional = op.functional
    target = args[0]
    if functional is None:
        kernels.expected_shape(op, args, kwargs)
        kernels.check_writable(op, target)
        return
    shape = kernels.expected_shape(functional, args, kwargs)
    if shape is not None and tuple(shape) != target.shape:
        raise ShapeError(
            f"{op.display_name}: the result has shape {tuple(shape)}, the tensor to write to {target.shape}"
            + fix(f"use {functional.display_name}, which returns a new tensor.")
        )
    compute = kernels.compute_type(functional, args, kwargs)
    result = typing_rules.result_type(functional, compute) or compute
    kernels.check_cast(op, result.dtype, target.dtype, "a tensor")
    kernels.check_writable(op, target)


def through_functional(op: Operator) -> Callable[..., Tensor]:
    """Returns the Composite kernel of an in-place variant."""
    functional = op.functional
    assert functional is not None

    def inplace(keys: KeySet, self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        everything = (self, *args)
        check(op, everything, kwargs)
        step = resolve(functional, keys)
        registration = step.registration if step is not None else None
        compute = kernels.compute_type(functional, everything, kwargs)
        if (
            registration is not None
            and step is not None
            and step.slot != DispatchKey.Composite
            and isinstance(getattr(registration.function, "nin", None), int)
            and not kwargs
            and compute.dtype is self.dtype
            and (registration, compute) not in kernels.needs_cast
        ):
            arrays = kernels.to_arrays(functional, everything, compute)
            registration.function(*arrays, out=arrays[0])
            bump(self)
            return self
        result = call.run(functional, keys, everything, kwargs)
        call.run(REGISTRY.operators["tp::copy_"], keys, (self, result, False), {})
        return self

    inplace.__qualname__ = f"inplace({functional.display_name})"
    return inplace


def backend_slot(keys: KeySet) -> int:
    """Returns the backend key of a set."""
    return PAGE * keys.page + (keys.bits & 0b11111).bit_length() - 1
