"""The core of TensorPlay: contract, dispatch, autograd, plugins. It imports no array library.

Nothing is imported here until a public name is asked for, so the generator runs when no generated file exists. What
users import is ``tensorplay``.
"""

from __future__ import annotations

from typing import Any

__version__ = "2026.12.0"


def __getattr__(name: str) -> Any:
    """Serves the public names, those of :mod:`tensorplay_core.public`."""
    if name.startswith("_"):
        raise AttributeError(f"module 'tensorplay_core' has no attribute {name!r}")
    from importlib import import_module

    public = import_module("tensorplay_core.public")
    try:
        return getattr(public, name)
    except AttributeError:
        raise AttributeError(f"module 'tensorplay_core' has no attribute {name!r}") from None
