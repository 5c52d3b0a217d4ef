"""The conformance suite: a backend's whole test file is three lines, and the same checks run on the command line.

    from tensorplay_core.testing.suite import *
    BACKEND = "foo"
    PROFILE = Profile(never={"matmul[int64]": "the library multiplies no matrices of integers"})

The file may also set ``SEED`` (repeat a run), ``QUICK = True`` and ``OPERATORS`` (names; the others are left out).
``tensorplay backends check foo`` runs it without pytest, which is imported only when the names of its face are.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tensorplay_core.testing.suite.outcome import Profile as Profile
    from tensorplay_core.testing.suite.pytest_face import conformance as conformance
    from tensorplay_core.testing.suite.pytest_face import pytest_generate_tests as pytest_generate_tests
    from tensorplay_core.testing.suite.pytest_face import test_device as test_device
    from tensorplay_core.testing.suite.pytest_face import test_operator as test_operator

_FACE = "tensorplay_core.testing.suite.pytest_face"
_WHERE = {
    "Profile": "tensorplay_core.testing.suite.outcome",
    **dict.fromkeys(("conformance", "pytest_generate_tests", "test_device", "test_operator"), _FACE),
}
__all__ = ["Profile", "conformance", "pytest_generate_tests", "test_device", "test_operator"]


def __getattr__(name: str) -> Any:
    """Serves the names of the face, and pytest with them, only where they are asked for."""
    if (module := _WHERE.get(name)) is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name, obj=sys.modules[__name__])
    value = globals()[name] = getattr(import_module(module), name)
    return value
