"""``import tensorplay.overrides``: the module that ``tp.overrides`` is, for import statements.

Such a statement looks for a file, and the module is one of core's. So this file puts core's module in its own place:
there is one object, whichever way it is reached, and nothing is loaded before it is asked for.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tensorplay_core.overrides import *  # noqa: F403
else:
    from tensorplay_core import overrides as _module

    sys.modules[__name__] = _module
