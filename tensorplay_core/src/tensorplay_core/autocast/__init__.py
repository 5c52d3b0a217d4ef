"""Autocast's rules: which operators compute in a half, which in float32, and which are refused.

Importing this package registers them at the operators' ``Autocast`` slots, in less than a millisecond, so that ``ops
show``, ``has_kernel`` and plugins see what is there before anybody opens a region. Until one is open
(``State.autocast``), no call has an Autocast key, and none is slower.
"""

from __future__ import annotations

import tensorplay_core.ops.load  # noqa: F401  defines the operators
from tensorplay_core.autocast._generated_rules import RULES
from tensorplay_core.autocast.policies import install

install(RULES)
