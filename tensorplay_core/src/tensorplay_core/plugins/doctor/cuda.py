"""What the probe of tensorplay-cuda cannot say where it stops at an earlier question: two CuPy wheels at once.

They install files of the same names over each other, which no driver mends, and which a machine without one can see.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tensorplay_core.plugins.doctor.case import Case
from tensorplay_core.plugins.doctor.findings import Finding
from tensorplay_core.plugins.records import install_hint

_WHEEL = re.compile(r"cupy|cupy-cuda\d+x?|cupy-rocm-[\d-]+|amd-cupy")


def cupy(case: Case) -> Iterator[Finding]:
    """Finds several distributions of CuPy, where a backend uses it."""
    wheels = sorted(name for name in case.everything if _WHEEL.fullmatch(name))
    if len(wheels) > 1 and case.backend("cuda") is not None:
        what = f"{len(wheels)} CuPy distributions are installed and overwrite each other: {', '.join(wheels)}"
        remedy = f"pip uninstall -y {' '.join(wheels)}, then {install_hint('cuda')}, which brings the right one"
        yield Finding("error", "cuda", what, remedy)
