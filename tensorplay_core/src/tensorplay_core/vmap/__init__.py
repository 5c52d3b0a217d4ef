"""``vmap``: functions of one element applied to a batch, by rules for operators rather than by a loop.

Importing this package registers the rules at the operators' ``Vmap`` slots. It is imported when ``tp.vmap`` or
``tp.func`` is first used, so that programs without them do not pay for it.
"""

from __future__ import annotations

import tensorplay_core.ops.load
import tensorplay_core.vmap.functions  # noqa: F401  lends itself to autograd.Function
from tensorplay_core.vmap.api import vmap as vmap
from tensorplay_core.vmap.install import register_all
from tensorplay_core.vmap.loop import VmapLoopWarning as VmapLoopWarning

register_all()
