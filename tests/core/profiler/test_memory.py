"""Memory of results: what counts as new, who is told when it is gone, and that nothing is kept alive."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

import tensorplay as tp
from tensorplay_core.profiler import profile
from tensorplay_core.profiler.memory import owner_of


def taken(p: profile) -> dict[str, int]:
    return {event.op: event.allocated for event in p.events if event.allocated}


def test_each_result_counts_once_at_the_step_that_made_it() -> None:
    x = tp.ones(1000, requires_grad=True)
    with profile(profile_memory=True) as p:
        y = x * 2  # two steps, one array
        z = tp.nn.functional.linear(tp.ones(10, 4), tp.ones(6, 4))  # composed: what it calls makes the arrays
    assert sum(event.allocated for event in p.events) == 4000 + (40 + 24) * 4 + 60 * 4
    autograd, backend = (event for event in p.events if event.op == "mul")
    assert (autograd.allocated, backend.allocated) == (0, 4000)
    assert p.memory.peak == sum(event.allocated for event in p.events) - (40 + 24) * 4 or p.memory.peak >= 4000
    del y, z


@pytest.mark.parametrize("device", ["cpu", "loopback"])
def test_views_and_writes_are_no_new_memory(device: str) -> None:
    x, out = tp.ones(10, 10, device=device), tp.ones(10, 10, device=device)
    with profile(profile_memory=True) as p:
        views = [x.t(), x[2:5], x.reshape(100), x[0].expand(5, 10), x.detach()]
        x.add_(1.0)
        x[0] = 3.0
        tp.exp(x, out=out)
        x.contiguous()
        x.to(tp.float32)
    assert taken(p).keys() <= {"exp"}, "a device that cannot write computes and copies"
    with profile(profile_memory=True) as p:
        copies = [x.clone(), x.t().contiguous(), x.to(tp.int32), x[[0, 1]]]
    assert sum(event.allocated for event in p.events) >= (100 + 100 + 100 + 20) * 4
    del views, copies


def test_live_bytes_follow_the_arrays_and_not_the_tensors() -> None:
    """exp saves its result for the backward pass: the array lives on without its tensor."""
    x = tp.ones(1000, requires_grad=True)
    with profile(profile_memory=True) as p:
        y = x.exp().sum()
        held = [total for _, total in p.memory.live()][-1]
        y.backward()
        del y
        x.grad = None
        gc.collect()
    assert held == 4004
    assert [total for _, total in p.memory.live()][-1] < held
    assert p.memory.peak >= held


def test_a_view_keeps_the_memory_of_its_base() -> None:
    with profile(profile_memory=True) as p:
        x = tp.ones(1000)
        part = x[:10]
        del x
        assert [total for _, total in p.memory.live()] == [4000]
        del part
        assert [total for _, total in p.memory.live()] == [4000, 0]


def test_nothing_is_kept_alive_and_nothing_is_watched_afterwards() -> None:
    gc.disable()
    try:
        with profile(profile_memory=True, record_shapes=True, with_stack=True) as p:
            x = tp.ones(100)
            y = x + x
            array = weakref.ref(x._array)
            del x
            assert array() is None
        changes = len(p.memory.changes)
        del y
        assert len(p.memory.changes) == changes
    finally:
        gc.enable()


def test_owners() -> None:
    x = np.zeros((4, 4))
    assert owner_of(x.T[1:][0]) is x and owner_of(x.copy()) is not x
    assert owner_of(np.frombuffer(b"12345678")) is not None

    class Buffered:
        def __init__(self, buffer: object) -> None:
            self.buffer = buffer

    buffer = object()
    assert owner_of(Buffered(buffer)) is buffer


def test_the_table_has_a_column() -> None:
    with profile(profile_memory=True) as p:
        x = tp.ones(300_000)
        x + 1
        tp.ones(2)
    averages = p.key_averages()
    assert averages["ones"].allocated == 1_200_008 and averages["add"].allocated == 1_200_000
    head, _, *rows = averages.table(sort_by="self_cpu_memory_usage").split("\n")
    assert head.split()[-1] == "memory" and rows[0].startswith("ones") and rows[0].endswith("1.1 MiB")
    assert rows[-1].endswith("2.3 MiB")
