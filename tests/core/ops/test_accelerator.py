"""``tp.accelerator`` over a device with three chips, whose driver refuses an array of another chip than the current."""

from __future__ import annotations

import asyncio
import inspect
import threading
from contextlib import contextmanager
from types import SimpleNamespace

import numpy as np
import pytest

import tensorplay as tp
from tensorplay_composite.arrays import ArrayDevice, kernels
from tensorplay_core.dispatch import devices
from tensorplay_core.ops import accelerator


class Driver(threading.local):
    """Like CUDA's: a current chip per thread, and every call is for that one."""

    current = 0
    refused = 0


DRIVER = Driver()


class Chip(np.ndarray):
    """An array that knows the chip that was current when it, or the array that it is a view of, was made."""

    chip = -1

    def __array_finalize__(self, source):
        self.chip = DRIVER.current


def raw(value):
    if isinstance(value, list):
        return [raw(v) for v in value]
    if isinstance(value, Chip):
        if value.chip != DRIVER.current:
            DRIVER.refused += 1  # counted too, because a fast call that fails is run again on the slow path
            raise RuntimeError(f"illegal access: an array of chip {value.chip} on chip {DRIVER.current}")
        return value.view(np.ndarray)
    return value


class Kernel:
    """A NumPy kernel on the current chip; a ufunc stays one, with ``out=``."""

    def __init__(self, kernel):
        self.kernel = kernel
        if isinstance(getattr(kernel, "nin", None), int):
            self.nin = kernel.nin
        else:
            self.__signature__ = inspect.signature(kernel)

    def __call__(self, *args, **kwargs):
        result = self.kernel(*map(raw, args), **{name: raw(v) for name, v in kwargs.items()})
        return result.view(Chip) if isinstance(result, np.ndarray) else result


class Chips(ArrayDevice):
    def __init__(self):
        super().__init__(np, name="three chips")
        self.array_class = Chip
        self.calls = []

    @contextmanager
    def device(self, index):
        before, DRIVER.current = DRIVER.current, index
        try:
            yield
        finally:
            DRIVER.current = before

    def set_device(self, index):
        DRIVER.current = index

    def as_array(self, value):
        return value if type(value) is Chip else super().as_array(value).view(Chip)

    def from_list(self, data, dtype):
        return super().from_list(data, dtype).view(Chip)

    def from_host(self, host, index):
        return super().from_host(host, index).view(Chip)

    def to_host(self, array):
        return np.array(raw(array))

    def cast(self, array, dtype):
        return super().cast(raw(array), dtype).view(Chip)

    def copy(self, array):
        return super().copy(raw(array)).view(Chip)

    def synchronize(self, index):
        self.calls.append(("synchronize", index))

    def memory_stats(self, index):
        return {"allocated_bytes.all.current": 10 + index, "reserved_bytes.all.current": 20 + index}

    def memory_info(self, index):
        return 3, 4 + index

    def empty_cache(self):
        self.calls.append("empty_cache")

    def current_stream(self, index):
        return f"stream {index}"

    def set_stream(self, stream):
        self.calls.append(stream)


@pytest.fixture(scope="module")
def api():
    api = Chips()
    devices.install("chips", api, 3, "three-chips")
    library = tp.library.Library("tp", "IMPL", "chips")
    for name, kernel in kernels(np, random=api.random).items():
        library.impl(name, Kernel(kernel))
    yield api
    library.close()
    devices.uninstall("chips")


@pytest.fixture
def chips(api):
    api.calls.clear()
    with tp.device("chips"):
        yield api
    devices.restore_index("chips", 0)


# ------------------------------------------------------------------------------- every call is for the array's own chip


@pytest.mark.parametrize("current", [0, 1])
@pytest.mark.parametrize("index", [0, 1, 2])
def test_creation_is_on_the_chip_that_was_named(chips, current, index):
    here = tp.device("chips", index)
    with tp.accelerator.device_index(current):
        made = [
            tp.ones(2, device=here), tp.tensor([1, 2], device=here), tp.tensor(2.0, device=here),
            tp.rand(2, device=here), tp.arange(3, device=here), tp.full((2,), 1.5, device=here),
            tp.from_numpy(np.ones(2), device=here), tp.tensor(np.ones(2), device=here),
            tp.zeros_like(tp.ones(2, device=here)), tp.ones(2, device="cpu").to(here), tp.ones(2).to(here),
        ]  # fmt: skip
        for x in made:
            assert x.device == here and x._array.chip == index
        assert DRIVER.current == current


@pytest.mark.parametrize("current", [0, 1])
@pytest.mark.parametrize("index", [0, 1, 2])
@pytest.mark.parametrize("slow", [False, True])
def test_kernels_run_on_the_chip_of_their_arrays(chips, current, index, slow):
    here, results, refused = tp.device("chips", index), {}, DRIVER.refused
    with tp.accelerator.device_index(current):
        for device in (here, tp.device("cpu")):
            if slow:
                with tp.testing.force_slow_path():
                    results[device] = program(device)
            else:
                program(device)  # fills the slots
                results[device] = program(device)
        assert (DRIVER.current, DRIVER.refused) == (current, refused)
    for ours, theirs in zip(results[here], results[tp.device("cpu")], strict=True):
        assert ours.device == here and ours._array.chip == index
        assert ours.cpu().tolist() == pytest.approx(theirs.tolist())


def program(device):
    x = tp.tensor([1.0, -2.0, 3.0], device=device, requires_grad=True)
    y = (x * 2 + 1).relu().sum() + (x.exp() / 3.5).mean()
    y.backward()
    w = tp.ones(3, device=device, requires_grad=True)
    w.backward(x.detach())  # stores a copy
    z = tp.ones(3, device=device)
    z.add_(x.detach()).mul_(3)
    z[1:] = 7
    i = tp.arange(3, device=device)
    joined = tp.cat([z, z + tp.tensor(1.0, device="cpu")])  # a 0-d cpu tensor joins
    mixed = [i.sqrt(), i + 0.5, i == 1, z.to(tp.int32), z.clone(), joined[tp.tensor([0, 3], device=device)], 1 - z]
    silu = tp.nn.functional.silu(z)
    return [y.detach(), x.grad, w.grad, z, silu, *mixed]


def test_moving_to_a_device_without_an_index_goes_to_the_current_one(chips):
    x = tp.tensor([1.0, 2.0], device="chips:1")
    assert x.to("chips").device == tp.device("chips:0") and x.to(x.device) is x
    with tp.accelerator.device_index(1):
        assert x.to("chips") is x
    moved = x.to("chips:2")
    assert moved._array.chip == 2 and moved.tolist() == [1, 2] and x._array.chip == 1
    moved.copy_(x + 1)
    assert moved.tolist() == [2, 3] and moved._array.chip == 2
    with pytest.raises(tp.DeviceMismatch, match=r"self is on chips:1, other is on chips:2"):
        x + moved


# --------------------------------------------------------------------------------------------------- the current device


def test_the_current_device_decides_where_no_index_is_given(chips):
    assert tp.accelerator.current_device_index() == 0
    tp.accelerator.set_device_index(2)
    assert (tp.accelerator.current_device_index(), DRIVER.current, tp.ones(1).device.index) == (2, 2, 2)
    tp.accelerator.set_device_index(-1)
    assert tp.accelerator.current_device_index() == 2
    for device in ("chips:1", tp.device("chips", 1), np.int64(1), 1):
        with tp.accelerator.device_index(device):
            assert (tp.ones(1).device, DRIVER.current) == (tp.device("chips:1"), 1)
            for nothing in (None, -1):
                with tp.accelerator.device_index(nothing):
                    assert tp.accelerator.current_device_index() == 1
            with pytest.raises(ZeroDivisionError), tp.accelerator.device_index(0):
                assert tp.ones(1, device="chips").device.index == 0
                1 / 0  # noqa: B018
            assert DRIVER.current == 1
        assert (tp.accelerator.current_device_index(), DRIVER.current) == (2, 2)


@pytest.mark.parametrize(
    ("device", "error", "text"),
    [
        (3, tp.ValueRangeError, "chips:3 does not exist: 3 chips devices here, chips:0 to chips:2\nfix: "),
        ("chips:9", tp.ValueRangeError, "chips:9 does not exist"),
        ("cpu", tp.ValueRangeError, "cpu is not the current accelerator, which is chips\nfix: name a chips device."),
        ("loopback:0", tp.ValueRangeError, "chips\nfix: name a chips device, or make loopback the default device"),
        (True, tp.ArgumentError, "device must be an index, a device or None, not True"),
        (1.0, tp.ArgumentError, "not 1.0"),
    ],
)
def test_another_device_is_never_put_in_the_place_of_the_one_that_was_named(chips, device, error, text):
    for use in (tp.accelerator.set_device_index, tp.accelerator.synchronize, tp.accelerator.memory_allocated):
        with pytest.raises(error) as caught:
            use(device)
        assert text in str(caught.value)
    with pytest.raises(error), tp.accelerator.device_index(device):
        raise AssertionError("entered")
    assert (tp.accelerator.current_device_index(), DRIVER.current, chips.calls) == (0, 0, [])


def test_what_needs_an_index_says_so(chips):
    for device in ("chips", None):
        with pytest.raises(tp.ValueRangeError, match=r"has no index\nfix: write one, as in 'chips:0'"):
            tp.accelerator.set_device_index(device)
    with pytest.raises(tp.ValueRangeError, match="0 or more, not -1"):
        tp.accelerator.synchronize(-1)


def test_threads_start_at_zero_and_tasks_where_their_creator_is(chips):
    seen = []

    async def task(index):
        before = tp.accelerator.current_device_index()
        tp.accelerator.set_device_index(index)
        await asyncio.sleep(0)
        made = tp.ones(1, device="chips")
        return before, made.device.index, made._array.chip

    async def both():
        return await asyncio.gather(task(1), task(2))

    with tp.accelerator.device_index(2):
        thread = threading.Thread(target=lambda: seen.append(tp.ones(1, device="chips").device.index))
        thread.start()
        thread.join()
        assert seen == [0]
        assert asyncio.run(both()) == [(2, 1, 1), (2, 2, 2)]
        assert tp.accelerator.current_device_index() == 2


# ------------------------------------------------------------------------------------------- what the backend is asked


def test_every_question_reaches_the_device_that_is_meant(chips):
    acc = tp.accelerator
    assert (acc.memory_allocated(), acc.memory_reserved(2), acc.get_memory_info("chips:1")) == (10, 22, (3, 5))
    with acc.device_index(1):
        assert (acc.memory_allocated(), acc.current_stream(), acc.current_stream(0)) == (11, "stream 1", "stream 0")
        assert acc.memory_stats() == {"allocated_bytes.all.current": 11, "reserved_bytes.all.current": 21}
        acc.synchronize()
        acc.synchronize("chips")
    acc.synchronize(2)
    acc.empty_cache()
    acc.set_stream("stream 2")
    assert chips.calls == [*[("synchronize", i) for i in (1, 1, 2)], "empty_cache", "stream 2"]


def test_what_the_backend_cannot_tell_is_named(chips):
    for ask in (tp.accelerator.max_memory_allocated, tp.accelerator.max_memory_reserved):
        with pytest.raises(
            tp.BackendError, match=r"Chips\.memory_stats does not tell '(all|res)\w+_bytes\.all\.peak'; it"
        ):
            ask()
    with pytest.raises(tp.BackendError, match="Chips does not implement reset_peak_memory_stats"):
        tp.accelerator.reset_peak_memory_stats()
    with tp.device("loopback"), pytest.raises(tp.BackendError, match="ArrayDevice does not implement memory_stats"):
        tp.accelerator.memory_allocated()


def test_random_numbers_and_their_state_are_each_devices_own(chips):
    tp.manual_seed(3)
    state, first = tp.get_rng_state("chips:1"), tp.rand(3, device="chips:1").tolist()
    other = tp.get_rng_state("chips:2")
    tp.set_rng_state(state, "chips:1")
    assert tp.rand(3, device="chips:1").tolist() == first and tp.get_rng_state("chips:2") == other == state
    with tp.accelerator.device_index(1):
        assert tp.get_rng_state("chips") != other


# ------------------------------------------------------------------------------------------------ which one, and none


def records(*names):
    return lambda: tuple(SimpleNamespace(name=name, owns_device=name != "pack") for name in names)


def test_it_is_the_default_device_or_cuda_or_the_first_that_can_be_used(api, monkeypatch):
    monkeypatch.setattr(accelerator.MANAGER, "records", records("cpu", "pack", "broken", "chips", "loopback", "cuda"))
    monkeypatch.setattr(devices, "built_in", {**devices.built_in, "cuda": no_device, "broken": no_device})
    found = tp.accelerator.current_accelerator
    assert found() == found(check_available=True) == tp.device("chips") and tp.accelerator.device_count() == 3
    with tp.device("meta"):
        assert found() == tp.device("chips")
    with tp.device("loopback:0"):
        assert (found(), tp.accelerator.device_count()) == (tp.device("loopback"), 1)
    devices.install("cuda", api, 2, "a-fake")
    try:
        assert (found(), tp.accelerator.device_count()) == (tp.device("cuda"), 2)
    finally:
        devices.uninstall("cuda")


def no_device():
    raise tp.DeviceUnavailable("no driver was found")


def test_without_one_questions_are_answered_and_requests_refused(monkeypatch):
    monkeypatch.setattr(accelerator.MANAGER, "records", records("cpu"))
    acc = tp.accelerator
    assert (acc.is_available(), acc.device_count(), acc.current_accelerator()) == (False, 0, None)
    requests = {
        *(acc.synchronize, acc.current_device_index, acc.empty_cache, acc.memory_allocated, acc.memory_reserved),
        *(acc.max_memory_allocated, acc.max_memory_reserved, acc.memory_stats, acc.reset_peak_memory_stats),
        *(acc.get_memory_info, acc.current_stream, lambda: acc.set_stream(None), lambda: acc.set_device_index(0)),
        lambda: acc.device_index(0).__enter__(),
    }
    for request in requests:
        with pytest.raises(RuntimeError, match=r"there is no accelerator here: .*\nfix: run tensorplay backends list"):
            request()
    with acc.device_index(None):
        pass


def test_a_default_device_that_has_gone_is_not_replaced(api):
    with tp.device("chips"):
        devices.uninstall("chips")
        try:
            assert tp.accelerator.current_accelerator() is None
            with pytest.raises(tp.DeviceUnavailable, match="chips"):
                tp.accelerator.synchronize()
        finally:
            devices.install("chips", api, 3, "three-chips")
