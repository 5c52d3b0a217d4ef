"""What can be checked of the CuPy backend without a GPU, and the arithmetic of one when it is there."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

from tensorplay_cuda.probe import probe

pytest.importorskip("cupy", exc_type=ImportError)

from tensorplay_cuda.device import CudaDevice, cuda_kernels, on_its_device

gpu = pytest.mark.skipif(not probe().ok, reason=probe().reason or "-")


def test_every_kernel_is_made_without_a_gpu():
    from tensorplay_composite.arrays import kernels

    assert set(cuda_kernels(CudaDevice(), 1)) == set(kernels(np))
    assert CudaDevice().dtypes["float32"] == np.dtype("float32")


def test_kernels_for_several_devices_keep_their_signatures():
    one, two = cuda_kernels(CudaDevice(), 1), cuda_kernels(CudaDevice(), 2)
    for name, kernel in one.items():
        if hasattr(kernel, "nin"):
            assert len(inspect.signature(two[name]).parameters) == kernel.nin
        else:
            assert inspect.signature(two[name]) == inspect.signature(kernel)


def test_several_devices_run_the_kernel():
    calls = []

    def kernel(size, *, device=None):
        calls.append((size, device))

    try:
        on_its_device(kernel)((2,), device=0)
    except Exception as error:  # no GPU: the device cannot become the current one
        assert "CUDA" in str(error).upper()
    else:
        assert calls == [((2,), 0)]


@gpu
@pytest.mark.parametrize("count", [1, 2])
def test_values_on_the_gpu(count):
    device = CudaDevice()
    on_gpu, on_cpu = cuda_kernels(device, count), __import__("tensorplay_cpu.kernels").kernels.cpu_kernels()
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
