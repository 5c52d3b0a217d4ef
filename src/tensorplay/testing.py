"""``import tensorplay.testing``: the module that ``tp.testing`` is, for import statements.

Such a statement looks for a file, and the module is one of core's. So this file puts core's module in its own place:
there is one object, whichever way it is reached, and nothing is loaded before it is asked for.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tensorplay_core.testing import Sample as Sample
    from tensorplay_core.testing import TensorSpec as TensorSpec
    from tensorplay_core.testing import assert_close as assert_close
    from tensorplay_core.testing import force_slow_path as force_slow_path
else:
    from tensorplay_core import testing as _module

    sys.modules[__name__] = _module
