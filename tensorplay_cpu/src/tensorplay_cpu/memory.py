"""Freed memory stays with the process, so that the pages of the next results are there already.

A result of more than a few kilobytes is new memory, and the system fills each of its pages with zeros when it is first
written to: that costs as much as the sum of two arrays. glibc gives freed memory back whenever more than twice its
largest freed block lies at the end of its heap, which a step of training reaches each time. It learns with every larger
block that is freed; here it is told at once what it would know after one of 32 MB.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Mapping

from tensorplay_core.errors import EnvironmentVariableError, fix

VARIABLE = "TENSORPLAY_CPU_KEEP_MEMORY"
THEIRS = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "MALLOC_TOP_PAD_", "MALLOC_MMAP_MAX_", "GLIBC_TUNABLES")
"""Whoever sets one of these has decided for himself; ``man mallopt`` explains them."""
TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3
"""Names of mallopt(3)."""
KEPT, LARGEST = 128 << 20, 32 << 20
"""Bytes of freed memory that stay, and of a block that may: larger ones go back at once. The second is glibc's most."""


def keep_memory(environment: Mapping[str, str] = os.environ) -> bool:
    """Tells glibc to keep freed memory, unless the environment says otherwise; returns whether it was told.

    Raises:
        EnvironmentVariableError: the variable is neither 0 nor 1.
    """
    value = environment.get(VARIABLE, "").strip()
    if value not in ("", "0", "1"):
        what = f"{VARIABLE} is 1 (freed memory stays with the process, the default) or 0 (glibc decides), not {value!r}"
        raise EnvironmentVariableError(what + fix(f"correct or unset {VARIABLE}"))
    if value == "0" or sys.platform != "linux" or any(name in environment for name in THEIRS):
        return False
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "gnu_get_libc_version"):  # another libc gives memory back in another way
        return False
    return all([libc.mallopt(TRIM_THRESHOLD, KEPT), libc.mallopt(MMAP_THRESHOLD, LARGEST)])
