"""What tests of TensorPlay, of its backends and of programs that use it need.

Nothing is imported until it is asked for: a program that only wants :func:`assert_close` does not pay for the rest. The
inputs that operators are tested with are in :mod:`tensorplay_core.testing.samples`.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tensorplay_core.testing.close import assert_close as assert_close
    from tensorplay_core.testing.sample_specs import Sample as Sample
    from tensorplay_core.testing.sample_specs import TensorSpec as TensorSpec
    from tensorplay_core.testing.slow_path import force_slow_path as force_slow_path

_WHERE = {
    "Sample": "tensorplay_core.testing.sample_specs",
    "TensorSpec": "tensorplay_core.testing.sample_specs",
    "assert_close": "tensorplay_core.testing.close",
    "force_slow_path": "tensorplay_core.testing.slow_path",
}


def __getattr__(name: str) -> Any:
    if (module := _WHERE.get(name)) is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name, obj=sys.modules[__name__])
    value = globals()[name] = getattr(import_module(module), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_WHERE})
