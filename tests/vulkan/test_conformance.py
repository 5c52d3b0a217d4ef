"""Conformance of the device ``vulkan``, with its declared gaps, of the operators that it has kernels for.

All others are Composite's, which tests/composite tries; ``tensorplay backends check vulkan --quick`` takes them too.
"""

import tensorplay as tp
from tensorplay_core.dispatch.keys import PAGE
from tensorplay_core.dispatch.registry import REGISTRY
from tensorplay_core.testing.suite import *  # noqa: F403
from tensorplay_vulkan.conformance import PROFILE as PROFILE


def with_kernels() -> tuple[str, ...]:
    try:
        type = tp.zeros(1, device=BACKEND)._type
    except tp.DeviceUnavailable:  # every test is skipped, and says so
        return ()
    return tuple(op.display_name for op in REGISTRY.operators.values() if op.table.get(PAGE * type.page + type.key))


BACKEND = "vulkan"
QUICK = True
OPERATORS = with_kernels()
