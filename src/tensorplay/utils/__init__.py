"""``import tensorplay.utils``: the module that ``tp.utils`` is, for import statements.

Such a statement looks for a file, and the module is one of core's. So this file puts core's module in its own place:
there is one object, whichever way it is reached, and nothing is loaded before it is asked for.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tensorplay.utils import checkpoint as checkpoint
else:
    from tensorplay_core import utils as _module

    # What lies in this folder is found by statements such as `import tensorplay.utils.checkpoint`.
    _module.__path__ = __path__
    sys.modules[__name__] = _module
