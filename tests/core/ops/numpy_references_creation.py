"""NumPy's divided ranges, and the places of its triangles."""

from __future__ import annotations

from typing import Any

import numpy as np


def linspace(start: Any, end: Any, steps: int, dtype: Any = None, device: Any = None) -> Any:
    if "int" in str(dtype):  # as in PyTorch, ends are of the dtype too
        start, end = int(start), int(end)
    return np.linspace(start, end, steps)


def logspace(start: Any, end: Any, steps: int, base: float = 10.0, dtype: Any = None, device: Any = None) -> Any:
    return np.power(base, linspace(start, end, steps, dtype))


REFERENCES: dict[str, Any] = {
    "linspace": linspace,
    "logspace": logspace,
    "tril_indices": lambda row, col, offset=0, dtype=None, device=None: np.stack(np.tril_indices(row, offset, col)),
    "triu_indices": lambda row, col, offset=0, dtype=None, device=None: np.stack(np.triu_indices(row, offset, col)),
}


def whole(dtype: str, args: Any, kwargs: Any) -> str:
    return kwargs["dtype"].name if kwargs.get("dtype") is not None else "int64"


def of_numbers(dtype: str, args: Any, kwargs: Any, first: int = 0) -> str:
    """The dtype that Python's numbers have, where none is given."""
    classes = {type(number) for number in args[first:]}
    if kwargs.get("dtype") is not None:
        return str(kwargs["dtype"].name)
    if complex in classes:
        return "complex64"
    return "float32" if float in classes else "bool" if classes == {bool} else "int64"


PROMISED: dict[str, Any] = {
    **dict.fromkeys(("randint", "randperm", "tril_indices", "triu_indices"), whole),
    "arange": of_numbers,
    "full": lambda dtype, args, kwargs: of_numbers(dtype, args, kwargs, 1),
}
"""The result's dtype where no rule of the contract says it, by operator."""
