"""What ``tp.linalg`` is: the functions of linear algebra by their short names, and the error of singular matrices."""

from __future__ import annotations

from tensorplay_core.errors import LinAlgError
from tensorplay_core.ops import _generated_linalg
from tensorplay_core.ops._generated_linalg import *  # noqa: F403

__all__ = ["LinAlgError", *_generated_linalg.__all__]
