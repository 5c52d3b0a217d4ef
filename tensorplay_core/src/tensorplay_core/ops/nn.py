"""What ``tp.nn`` is: the functional form of neural network operators."""

from __future__ import annotations

from types import SimpleNamespace

from tensorplay_core.ops import _generated_functional as _F

functional = SimpleNamespace(
    cross_entropy=_F.cross_entropy,
    linear=_F.linear,
    log_softmax=_F.log_softmax,
    relu=_F.relu,
    sigmoid=_F.sigmoid,
    softmax=_F.softmax,
    tanh=_F.tanh,
)
