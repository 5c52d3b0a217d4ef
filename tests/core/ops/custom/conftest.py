"""A namespace for each test: what it defines leaves with it, although custom operators stay for the process."""

from __future__ import annotations

import pytest

from tensorplay_core.dispatch.registry import REGISTRY
from tensorplay_core.ops.custom import registration


@pytest.fixture(autouse=True)
def leave_no_operator_behind():
    before = set(registration.DEFINITIONS), set(registration._kept)
    tables = dict(REGISTRY.operators)
    yield
    for name in set(registration.DEFINITIONS) - before[0]:
        registration.DEFINITIONS.pop(name)._lib.close()
    for key in set(registration._kept) - before[1]:
        registration._kept.pop(key).close()
    assert set(REGISTRY.operators) == set(tables)
