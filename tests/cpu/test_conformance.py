"""The conformance suite on the device ``cpu``, without gaps; ``tensorplay backends check cpu --quick``."""

from tensorplay_core.testing.suite import *  # noqa: F403

BACKEND = "cpu"
QUICK = True
