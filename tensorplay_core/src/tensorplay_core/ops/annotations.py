"""Types that generated signatures use."""

from __future__ import annotations

from typing import TypeAlias

Number: TypeAlias = bool | int | float | complex
