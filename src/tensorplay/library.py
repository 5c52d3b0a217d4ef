"""``import tensorplay.library``: the module that ``tp.library`` is, for import statements.

Such a statement looks for a file, and the module is one of core's. So this file puts core's module in its own place:
there is one object, whichever way it is reached, and nothing is loaded before it is asked for.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tensorplay_core.library import CustomOpDef as CustomOpDef
    from tensorplay_core.library import Library as Library
    from tensorplay_core.library import custom_op as custom_op
    from tensorplay_core.library import define as define
    from tensorplay_core.library import impl as impl
    from tensorplay_core.library import infer_schema as infer_schema
    from tensorplay_core.library import library_impl as library_impl
    from tensorplay_core.library import opcheck as opcheck
    from tensorplay_core.library import register_autocast as register_autocast
    from tensorplay_core.library import register_autograd as register_autograd
    from tensorplay_core.library import register_fake as register_fake
    from tensorplay_core.library import register_kernel as register_kernel
    from tensorplay_core.library import register_vmap as register_vmap
else:
    from tensorplay_core import library as _module

    sys.modules[__name__] = _module
