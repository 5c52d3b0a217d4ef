"""``import tensorplay.autograd``: the module that ``tp.autograd`` is, for import statements.

Such a statement looks for a file, and the module is one of core's. So this file puts core's module in its own place:
there is one object, whichever way it is reached, and nothing is loaded before it is asked for.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tensorplay_core.autograd.public import *  # noqa: F403
else:
    from tensorplay_core.autograd import public as _module

    # What lies in this folder is found by statements such as `import tensorplay.autograd.graph`, when it is asked for.
    _module.__path__ = __path__  # noqa: F405
    sys.modules[__name__] = _module
