"""``tp.func``: functions that take functions and return their derivatives, or them applied to batches; as torch.func.

They compose to any depth: ``vmap(grad(f))`` gives the gradient of each sample, ``jacfwd(jacrev(f))`` a Hessian.
"""

from __future__ import annotations

import tensorplay_core.vmap  # noqa: F401  the rules, which the derivatives of several outputs need
from tensorplay_core.func.functional_call import functional_call as functional_call
from tensorplay_core.func.functional_call import stack_module_state as stack_module_state
from tensorplay_core.func.functionalize import functionalize as functionalize
from tensorplay_core.func.jacobians import hessian as hessian
from tensorplay_core.func.jacobians import jacfwd as jacfwd
from tensorplay_core.func.jacobians import jacrev as jacrev
from tensorplay_core.func.transforms import grad as grad
from tensorplay_core.func.transforms import grad_and_value as grad_and_value
from tensorplay_core.func.transforms import jvp as jvp
from tensorplay_core.func.transforms import linearize as linearize
from tensorplay_core.func.transforms import vjp as vjp
from tensorplay_core.vmap.api import vmap as vmap

__all__ = [
    "functional_call",
    "functionalize",
    "grad",
    "grad_and_value",
    "hessian",
    "jacfwd",
    "jacrev",
    "jvp",
    "linearize",
    "stack_module_state",
    "vjp",
    "vmap",
]
