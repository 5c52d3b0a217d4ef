"""The project's own derivative records, as rules for tests of symbolic derivatives."""

from __future__ import annotations

import pytest

from tensorplay_core.codegen.context import CodegenContext


@pytest.fixture(scope="session")
def contract():
    return CodegenContext.load().contract
