"""The conformance suite on the device ``loopback``, without gaps; ``tensorplay backends check loopback --quick``."""

from tensorplay_core.testing.suite import *  # noqa: F403

BACKEND = "loopback"
QUICK = True
