"""What makes tensors: what computes the same in PyTorch."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")


REFERENCES: dict[str, Any] = {
    "linspace": lambda a, b, n, dtype=None, device=None: torch.linspace(a, b, n, dtype=dtype),
    "logspace": lambda a, b, n, base=10.0, dtype=None, device=None: torch.logspace(a, b, n, base, dtype=dtype),
    **{
        name: lambda row, col, offset=0, dtype=torch.int64, device=None, name=name: getattr(torch, name)(
            row, col, offset, dtype=dtype
        )
        for name in ("tril_indices", "triu_indices")
    },
    "full": lambda size, value, dtype=None, device=None: torch.full(size, value, dtype=dtype),
    "eye": lambda n, m=None, dtype=None, device=None: torch.eye(n, n if m is None else m, dtype=dtype),
    "arange": lambda a, b, c, dtype=None, device=None: torch.arange(a, b, c, dtype=dtype),
    **{n: lambda size, dtype=None, device=None, n=n: getattr(torch, n)(size, dtype=dtype) for n in ("zeros", "ones")},
}
