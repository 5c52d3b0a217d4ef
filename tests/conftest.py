"""What all tests share: a collector that looks at what the tests make, and at nothing else."""

from __future__ import annotations

import gc


def pytest_collection_finish() -> None:
    """Takes the tests themselves out of the collector's sight: they are many, and some collect hundreds of times."""
    gc.collect()
    gc.freeze()
