"""Conformance of the device ``vulkan``, with its declared gaps, of a choice of the operators that it has kernels for.

It is those that are not pointwise, and one in four of those that are. All others are Composite's, which tests/composite
tries; ``tensorplay backends check vulkan --quick`` takes every one.
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
    found = [op for op in REGISTRY.operators.values() if op.table.get(PAGE * type.page + type.key)]
    alike = [op for op in found if "pointwise" in op.tags]  # one shader with another expression each
    kept = {*found} - {*alike} | {*alike[::4]}
    return tuple(op.display_name for op in found if op in kept)


BACKEND = "vulkan"
QUICK = True
OPERATORS = with_kernels()
