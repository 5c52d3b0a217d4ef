"""TensorPlay: a tensor framework whose backends are pip packages.

>>> import tensorplay as tp
>>> x = tp.tensor([1.0, 2.0], requires_grad=True)
>>> (x * x).sum().backward()
>>> x.grad
tensor([2., 4.])
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tensorplay_core import __version__ as __version__
from tensorplay_core import public as _public
from tensorplay_core.errors import *  # noqa: F403
from tensorplay_core.ops._generated_public import *  # noqa: F403
from tensorplay_core.public import *  # noqa: F403

if TYPE_CHECKING:
    from tensorplay_core import func as func
    from tensorplay_core import profiler as profiler
    from tensorplay_core import testing as testing
    from tensorplay_core import utils as utils
    from tensorplay_core.autocast import amp as amp
    from tensorplay_core.autograd.anomaly import is_anomaly_check_nan_enabled as is_anomaly_check_nan_enabled
    from tensorplay_core.autograd.anomaly import is_anomaly_enabled as is_anomaly_enabled
    from tensorplay_core.ops import accelerator as accelerator
    from tensorplay_core.ops.exchange import asarray as asarray
    from tensorplay_core.ops.exchange import from_dlpack as from_dlpack
    from tensorplay_core.ops.exchange import frombuffer as frombuffer
    from tensorplay_core.ops.explain import explain as explain
    from tensorplay_core.ops.files import load_file as load_file
    from tensorplay_core.ops.files import load_metadata as load_metadata
    from tensorplay_core.ops.files import save_file as save_file
    from tensorplay_core.ops.generators import Generator as Generator
    from tensorplay_core.ops.settings import get_rng_state as get_rng_state
    from tensorplay_core.ops.settings import initial_seed as initial_seed
    from tensorplay_core.ops.settings import seed as seed
    from tensorplay_core.ops.settings import set_default_device as set_default_device
    from tensorplay_core.ops.settings import set_rng_state as set_rng_state
    from tensorplay_core.ops.settings import show_config as show_config
    from tensorplay_core.plugins import public as _backends
    from tensorplay_core.vmap.api import vmap as vmap

    backends = _backends
else:
    __all__ = ["__version__", *_public.NAMES, *_public.LAZY]

    def __getattr__(name: str) -> Any:
        """Serves what is imported only when it is used: ``backends``, ``profiler``, ``testing``, ``explain``."""
        if name in _public.LAZY:
            return getattr(_public, name)
        near = _public.errors.did_you_mean(name, __all__)
        raise AttributeError(f"module 'tensorplay' has no attribute {name!r}.{near}".removesuffix("."))

    def __dir__() -> list[str]:
        return sorted(__all__)
