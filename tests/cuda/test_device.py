"""What can be checked of the CuPy backend without a GPU, and the arithmetic of one when it is there."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

import tensorplay as tp
from tensorplay_cuda.probe import probe

pytest.importorskip("cupy", exc_type=ImportError)

from tensorplay_cuda import device as cuda_device
from tensorplay_cuda.device import CudaDevice, cuda_kernels

gpu = pytest.mark.skipif(not probe().ok, reason=probe().reason or "-")


def test_every_kernel_is_made_without_a_gpu():
    from tensorplay_composite.arrays import kernels

    assert set(cuda_kernels(CudaDevice())) == set(kernels(np))
    assert CudaDevice().dtypes["float32"] == np.dtype("float32")
    assert not CudaDevice.survives_fork


# ---------------------------------------------------------------------------------------- over a CUDA that is simulated


class Cuda:
    """As much of CuPy as the device calls, with two GPUs and a memory pool for each."""

    def __init__(self):
        self.current, self.log, self.used, self.held = 0, [], [0, 0], [0, 0]
        self.allocator = self.allocate
        fake = self

        class Device:
            def __init__(self, index=None):
                self.index = fake.current if index is None else index

            def use(self):
                fake.current = self.index

            def __enter__(self):
                self.before, fake.current = fake.current, self.index

            def __exit__(self, *error):
                fake.current = self.before

            def synchronize(self):
                fake.log.append(("synchronize", self.index))

        pool = SimpleNamespace(
            used_bytes=lambda: self.used[self.current],
            total_bytes=lambda: self.held[self.current],
            free_all_blocks=lambda: self.held.__setitem__(slice(None), self.used),
        )
        self.cuda = SimpleNamespace(
            Device=Device,
            get_current_stream=lambda: f"stream of {self.current}",
            get_allocator=lambda: self.allocator,
            set_allocator=lambda allocator: setattr(self, "allocator", allocator),
            runtime=SimpleNamespace(
                getDevice=lambda: self.current, memGetInfo=lambda: (7 + self.current, 9 + self.current)
            ),
        )
        self.get_default_memory_pool = lambda: pool
        self.get_default_pinned_memory_pool = lambda: SimpleNamespace(free_all_blocks=lambda: self.log.append("pinned"))

    def allocate(self, size):
        self.used[self.current] += size
        self.held[self.current] = max(self.held[self.current], self.used[self.current])
        return f"memory of {self.current}"

    def free(self, size):
        self.used[self.current] -= size


@pytest.fixture
def cuda(monkeypatch):
    device, fake = CudaDevice(), Cuda()
    monkeypatch.setattr(cuda_device, "cupy", fake)
    return device, fake


def test_the_device_that_is_meant_is_current_for_each_question(cuda):
    device, fake = cuda
    with device.device(1):
        assert fake.current == 1
    device.set_device(1)
    assert fake.current == 1 and device.memory_info(0) == (7, 9) and device.memory_info(1) == (8, 10)
    assert device.current_stream(0) == "stream of 0" and fake.current == 1
    device.synchronize(0)
    on = []
    for made_on in (0, -1):  # the default stream belongs to no device
        device.set_stream(SimpleNamespace(device_id=made_on, use=lambda: on.append(fake.current)))
    assert fake.log == [("synchronize", 0)] and on == [0, 1] and fake.current == 1


def test_memory_is_that_of_the_pool_and_peaks_are_kept_from_the_first_reset_on(cuda):
    device, fake = cuda
    untouched = fake.allocator
    untouched(100)
    assert device.memory_stats(0) == {"allocated_bytes.all.current": 100, "reserved_bytes.all.current": 100}
    assert device.memory_stats(1) == {"allocated_bytes.all.current": 0, "reserved_bytes.all.current": 0}
    assert fake.allocator == untouched  # who does not ask for peaks pays nothing
    device.reset_peak_memory_stats(0)
    assert fake.allocator(50) == "memory of 0"
    fake.free(120)
    peaks = device.memory_stats(0)
    assert peaks["allocated_bytes.all.peak"] == peaks["reserved_bytes.all.peak"] == 150
    assert peaks["allocated_bytes.all.current"] == 30
    device.empty_cache()
    assert device.memory_stats(0)["reserved_bytes.all.current"] == 30 and fake.log == ["pinned"]
    watched = fake.allocator
    device.reset_peak_memory_stats(0)
    device.reset_peak_memory_stats(1)
    assert fake.allocator is watched and device.memory_stats(0)["allocated_bytes.all.peak"] == 30
    with device.device(1):
        fake.allocator(5)
        fake.free(5)
    assert device.memory_stats(1)["allocated_bytes.all.peak"] == 5
    assert device.memory_stats(0)["allocated_bytes.all.peak"] == 30


# ------------------------------------------------------------------------------------------------------------ on a GPU


@gpu
def test_values_on_the_gpu():
    device = CudaDevice()
    on_gpu, on_cpu = cuda_kernels(device), __import__("tensorplay_cpu.kernels").kernels.cpu_kernels()
    x = np.array([[1, -2, np.nan], [5, 5, -np.inf]], "float32")
    i = np.array([1, 0, 1])
    cases = {
        "add": (x, x), "sigmoid": (x,), "relu": (x,), "sum": (x, 0), "mean": (x, (0, 1)), "max": (x,),
        "argmax": (x, 1), "softmax": (x, 0), "log_softmax": (x, 1), "sgn": (x,), "transpose": (x, 0, 1),
        "expand": (x, (2, 2, 3)), "select": (x, 0, 1), "slice": (x, 1, 0, 2), "matmul": (x[:, :2], x[:, :2]),
        "index": (x, [i]), "index_backward": (x[i], (2, 3), [i]), "cat": ([x, x], 1), "pow": (i - 2, i - 1),
    }  # fmt: skip
    for name, args in cases.items():

        def move(value):
            if isinstance(value, list):
                return [move(v) for v in value]
            return device.from_host(value, 0) if isinstance(value, np.ndarray) else value

        result = device.to_host(on_gpu[name](*map(move, args)))
        np.testing.assert_allclose(result, on_cpu[name](*args), rtol=1e-5, err_msg=name)


@gpu
def test_memory_and_streams_on_the_gpu():
    acc = tp.accelerator
    assert acc.current_accelerator() == tp.device("cuda") and acc.device_count() == probe().device_count
    acc.reset_peak_memory_stats()
    before = acc.memory_allocated()
    x = tp.ones(1 << 20, device="cuda")
    assert acc.memory_allocated() >= before + x.nbytes and acc.memory_reserved() >= acc.memory_allocated()
    del x
    acc.empty_cache()
    assert acc.memory_allocated() <= before < acc.max_memory_allocated() <= acc.max_memory_reserved()
    free, total = acc.get_memory_info()
    assert 0 < free <= total
    acc.set_stream(acc.current_stream())
    acc.synchronize()
    with acc.device_index(0):
        assert tp.ones(2, device="cuda").device == tp.device("cuda:0")
    tp.manual_seed(0)
    state, first = tp.get_rng_state("cuda"), tp.rand(3, device="cuda").tolist()
    tp.set_rng_state(state, "cuda")
    assert tp.rand(3, device="cuda").tolist() == first
