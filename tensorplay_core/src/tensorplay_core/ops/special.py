"""What ``tp.special`` is: functions of mathematical physics and statistics, by the names that PyTorch and SciPy use.

Each is a function of ``tp`` too; ``expit`` is called ``sigmoid`` there.
"""

from __future__ import annotations

from tensorplay_core.ops._generated_functional import (
    erf,
    erfc,
    exp2,
    expm1,
    log1p,
    log_softmax,
    logit,
    round,
    sinc,
    softmax,
    xlogy,
)
from tensorplay_core.ops._generated_functional import sigmoid as expit

__all__ = [
    "erf",
    "erfc",
    "exp2",
    "expit",
    "expm1",
    "log1p",
    "log_softmax",
    "logit",
    "round",
    "sinc",
    "softmax",
    "xlogy",
]
