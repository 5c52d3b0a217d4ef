"""``import tensorplay.nn``: the module that ``tp.nn`` is, for import statements.

Such a statement looks for a file, and the module is one of core's. So this file puts core's module in its own place:
there is one object, whichever way it is reached, and nothing is loaded before it is asked for.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tensorplay.nn import functional as functional
else:
    from tensorplay_core.ops import nn as _module

    sys.modules[__name__] = _module
    # Nobody can look for a file below a module without a folder, so what is in this one is named here too.
    sys.modules[f"{__name__}.functional"] = _module.functional
