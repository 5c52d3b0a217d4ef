"""What ran, in which order, for how long: the record of every step that calls take while a profiler is open.

The dispatcher asks a probe around each step of the slow path, and an open profiler is such a probe, so what is recorded
is the road that :func:`tensorplay.explain` describes. Nodes of backward passes and named blocks are recorded besides.
"""

from __future__ import annotations

from tensorplay_core.profiler.averages import Average, Averages
from tensorplay_core.profiler.blocks import record_function
from tensorplay_core.profiler.chrome import tensorboard_trace_handler
from tensorplay_core.profiler.events import Event
from tensorplay_core.profiler.schedule import ProfilerAction, ProfilerActivity, schedule, supported_activities
from tensorplay_core.profiler.session import profile
from tensorplay_core.profiler.trace import set_process_trace, trace

__all__ = [
    "Average",
    "Averages",
    "Event",
    "ProfilerAction",
    "ProfilerActivity",
    "profile",
    "record_function",
    "schedule",
    "set_process_trace",
    "supported_activities",
    "tensorboard_trace_handler",
    "trace",
]
