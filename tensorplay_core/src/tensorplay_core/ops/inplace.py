"""In-place variants: one kernel at Composite that serves ``add_`` through the kernel of ``add``.

It writes through ``out=`` where the functional kernel has it, else computes and copies. Everything is checked before
anything is written. A backend that registers ``add_`` itself overrides it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tensorplay_core.dispatch.key_set import KeySet
from tensorplay_core.dispatch.keys import DispatchKey
from tensorplay_core.dispatch.operator import Operator
from tensorplay_core.dispatch.resolution import resolve
from tensorplay_core.dispatch.wrapped import BATCHED
from tensorplay_core.ops import call, kernels
from tensorplay_core.ops._generated_schemas_creation import COPY_
from tensorplay_core.ops.direct import written
from tensorplay_core.tensor.tensor import Tensor
from tensorplay_core.tensor.version import family_of
from tensorplay_core.tensor.views import bump

check = kernels.check_inplace


def through_functional(op: Operator) -> Callable[..., Tensor]:
    """Returns the Composite kernel of an in-place variant."""
    functional = op.functional
    assert functional is not None

    def inplace(keys: KeySet, self: Tensor, /, *args: Any, **kwargs: Any) -> Tensor:
        everything = (self, *args)
        check(op, everything, kwargs)
        step = resolve(functional, keys)
        registration = step.registration if step is not None else None
        compute = kernels.compute_type(functional, everything, kwargs)
        if (
            registration is not None
            and step is not None
            and step.slot != DispatchKey.Composite
            and kernels.has_out(registration)
            and not kwargs
            and compute.dtype is self.dtype
            and compute not in registration.casts
            and self._type.mutable
            and family_of(self) is None
        ):
            arrays = kernels.to_arrays(functional, everything, compute)
            with compute.as_current():
                done = kernels.write_into(registration.function, arrays)
            if done:
                bump(self)
                return self
        if self._type.wrapper == BATCHED:  # what is below may be recorded, and saves what the copy would overwrite
            everything = tuple([a.clone() if a is self else a for a in everything])
        result = call.run(functional, keys, everything, kwargs)
        kernels.check_keeps_shape(op, result.shape, self)  # without a shape rule it was not known before
        if not written(COPY_, self, result, result._array, False):
            call.run(COPY_, keys, (self, result, False), {})
        return self

    inplace.__qualname__ = f"inplace({functional.display_name})"
    return inplace
