"""What ``tp.amp`` is: mixed precision under the names that ``torch.amp`` has."""

from __future__ import annotations

from tensorplay_core.autocast.custom import custom_bwd, custom_fwd
from tensorplay_core.autocast.mode import autocast, is_autocast_available
from tensorplay_core.autocast.scaler import GradScaler

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd", "is_autocast_available"]
