"""Conformance of the device ``vulkan``, with its declared gaps; ``tensorplay backends check vulkan --quick``."""

from tensorplay_core.testing.suite import *  # noqa: F403
from tensorplay_vulkan.conformance import PROFILE as PROFILE

BACKEND = "vulkan"
QUICK = True
