"""TensorPlay: a tensor framework whose backends are pip packages.

>>> import tensorplay as tp
>>> x = tp.tensor([1.0, 2.0], requires_grad=True)
>>> (x * x).sum().backward()
>>> x.grad
tensor([2., 4.])
"""

from __future__ import annotations

from typing import Any

from tensorplay_core import __version__ as __version__
from tensorplay_core import public as _public
from tensorplay_core.public import *  # noqa: F403


def __getattr__(name: str) -> Any:
    return getattr(_public, name)
