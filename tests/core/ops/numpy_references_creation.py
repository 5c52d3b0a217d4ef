"""NumPy's divided ranges, and the places of its triangles."""

from __future__ import annotations

from typing import Any

import numpy as np


def linspace(start: Any, end: Any, steps: int, dtype: Any = None, device: Any = None) -> Any:
    return np.linspace(start, end, steps)


def logspace(start: Any, end: Any, steps: int, base: float = 10.0, dtype: Any = None, device: Any = None) -> Any:
    return np.power(base, np.linspace(start, end, steps))


REFERENCES: dict[str, Any] = {
    "linspace": linspace,
    "logspace": logspace,
    "tril_indices": lambda row, col, offset=0, dtype=None, device=None: np.stack(np.tril_indices(row, offset, col)),
    "triu_indices": lambda row, col, offset=0, dtype=None, device=None: np.stack(np.triu_indices(row, offset, col)),
}
