"""What ran, in which order, for how long: the record of every step that calls take while a profiler is open.

The dispatcher asks a probe around each step of the slow path, and an open profiler is such a probe, so what is recorded
is the road that :func:`tensorplay.explain` describes.
"""

from __future__ import annotations

from tensorplay_core.profiler.averages import Average, Averages
from tensorplay_core.profiler.events import Event
from tensorplay_core.profiler.session import profile, record_function
from tensorplay_core.profiler.trace import set_process_trace, trace

__all__ = ["Average", "Averages", "Event", "profile", "record_function", "set_process_trace", "trace"]
