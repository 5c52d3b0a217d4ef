"""The conformance suite on the device ``vulkan``, without gaps; ``tensorplay backends check vulkan --quick``."""

from tensorplay_core.testing.suite import *  # noqa: F403

BACKEND = "vulkan"
QUICK = True
