"""The device from a user's side: what it makes, takes, refuses, and what it says when something goes wrong."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
import threading

import numpy as np
import pytest

import tensorplay as tp
from tensorplay_core.errors import ArgumentError, BackendError, DeviceMismatch, DTypeError, ShapeError, ValueRangeError

pytestmark = pytest.mark.usefixtures("adapter")


def test_creation():
    with tp.device("vulkan"):
        made = [tp.zeros(2, 3), tp.ones(2), tp.full((2,), 7), tp.full((1,), True), tp.arange(4), tp.arange(1, 2, 0.25)]
        made += [tp.eye(2, 3), tp.tensor([[1.5]]), tp.tensor(3), tp.tensor([]), tp.zeros(0, 2), tp.full((2,), -tp.inf)]
        made += [tp.ones(2, dtype=tp.int32), tp.ones(2, dtype=tp.bool), tp.eye(2, dtype=tp.int32), tp.eye(3, 2)]
    expected = [np.zeros((2, 3)), np.ones(2), [7, 7], [True], np.arange(4), [1, 1.25, 1.5, 1.75]]
    expected += [np.eye(2, 3), [[1.5]], 3, [], np.zeros((0, 2)), [-np.inf] * 2]
    expected += [[1, 1], [True, True], np.eye(2, dtype=int), np.eye(3, 2)]
    for tensor, array in zip(made, expected, strict=True):
        assert str(tensor.device) == "vulkan:0" and tensor.shape == np.shape(array)
        assert np.array_equal(tensor.cpu().numpy(), array)
    assert repr(tp.tensor([[1.0, -2.5]], device="vulkan")) == "tensor([[ 1.0000, -2.5000]], device='vulkan:0')"
    with pytest.raises(ShapeError, match="ragged"):
        tp.tensor([[1], [2, 3]], device="vulkan")


def test_integers_without_a_dtype_are_int32():
    """int64 is the default that the device does not have, so its widest integer stands in, where nobody said int64."""
    x = tp.tensor([[3, 1], [2, 4]], device="vulkan")
    flags = x > 1
    made = [x, tp.arange(3, device="vulkan"), tp.full((2,), 1, device="vulkan"), tp.randperm(3, device="vulkan")]
    made += [x.sum(), flags.sum(), x.argmax(), x.max(0)[1], flags + 1, tp.where(flags, 1, 0), x * 2]
    assert [tensor.dtype for tensor in made] == [tp.int32] * len(made)
    assert tp.explain("sum(bool[3] vulkan)").result.dtypes == ("int32",)
    loss = tp.cross_entropy(tp.tensor([[2.0, 0.0]], device="vulkan"), tp.tensor([0], device="vulkan"))
    assert loss.item() == pytest.approx(0.12692801)


def test_what_was_asked_for_by_name_is_refused_and_never_narrowed():
    wide = [lambda: tp.zeros(2, dtype=tp.int64, device="vulkan"), lambda: tp.tensor([1]).to("vulkan")]
    wide += [lambda: tp.tensor([1], dtype=tp.int64, device="vulkan"), lambda: tp.tensor(np.arange(2), device="vulkan")]
    wide += [lambda: tp.ones(2, device="vulkan").to(tp.int64), lambda: tp.ones(2, device="vulkan").sum(dtype=tp.int64)]
    wide += [lambda: tp.arange(2, dtype=tp.int64, device="vulkan")]
    for call in wide:
        with pytest.raises(DTypeError, match=r"(?s)no dtype int64; it has bool, int32, float32.*int32.*fix: convert"):
            call()
    for call in (lambda: tp.tensor([1j], device="vulkan"), lambda: tp.ones(2, dtype=tp.float64).to("vulkan")):
        with pytest.raises(DTypeError, match="it has bool, int32, float32"):
            call()
    with pytest.raises(ValueRangeError, match="does not fit int32"):
        tp.tensor([2**31], device="vulkan")
    with pytest.raises(ValueRangeError, match="does not fit int32"):
        tp.full((1,), 2**31, device="vulkan")


def test_moving_and_converting():
    for data, dtype in (([[1.5, -0.0], [tp.inf, 3]], tp.float32), ([1, -7], tp.int32), ([True, False], tp.bool)):
        x = tp.tensor(data, dtype=dtype)
        there = x.to("vulkan")
        assert there.tolist() == x.tolist() and there.dtype is dtype and there.cpu().dtype is dtype
        for target in (tp.float32, tp.int32, tp.bool):
            finite = x if dtype is not tp.float32 or target is not tp.int32 else x.reshape(-1)[::3]
            assert finite.to("vulkan").to(target).tolist() == finite.to(target).tolist()
    assert tp.tensor([1, 2]).to("vulkan", tp.int32).tolist() == [1, 2]
    assert tp.ones(2, 3, device="vulkan").to("loopback").t().to("vulkan").shape == (3, 2)
    x = tp.tensor([[1.0, 2.0], [3.0, 4.0]], device="vulkan").t()
    for y in (copy.deepcopy(x), pickle.loads(pickle.dumps(x)), x.clone()):
        assert y.device == x.device and y.tolist() == [[1.0, 3.0], [2.0, 4.0]]
    with pytest.raises(ArgumentError, match=r"\.cpu\(\)\.numpy\(\)"):
        x.numpy()
    with pytest.raises(DeviceMismatch):
        x + tp.ones(2, 2)
    swapped = np.arange(3, dtype=">f4")
    assert tp.tensor(swapped, device="vulkan").tolist() == [0.0, 1.0, 2.0]


def test_bits_survive_a_copy():
    bits = np.array([0x7FC01234, 0xFF800001, 0x80000000, 1], "uint32")
    x = tp.from_numpy(bits.view("float32"), device="vulkan")
    kept = x.reshape(2, 2).t().contiguous().t().clone().cpu().numpy().ravel()
    assert kept.view("uint32").tolist() == bits.tolist()


def test_one_seed_is_one_sequence_on_every_device():
    drawn = {}
    for device in ("cpu", "vulkan"):
        tp.manual_seed(5)
        drawn[device] = [tp.rand(3, device=device).tolist(), tp.randn(2, 2, device=device).tolist()]
        drawn[device].append(tp.randperm(7, device=device).tolist())
    assert drawn["cpu"] == drawn["vulkan"]
    state = tp.get_rng_state("vulkan")
    first = tp.rand(3, device="vulkan").tolist()
    tp.set_rng_state(state, "vulkan")
    assert tp.rand(3, device="vulkan").tolist() == first


def test_threads_share_the_gpu():
    results = {}

    def work(n):
        x = tp.full((500,), float(n), device="vulkan")
        for _ in range(20):
            x = x * 2 - n
        results[n] = x.tolist()

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {n: [float(n)] * 500 for n in range(4)}


def test_the_accelerator():
    with tp.device("vulkan"):
        assert str(tp.accelerator.current_accelerator()) == "vulkan" and tp.accelerator.device_count() == 1
        tp.accelerator.synchronize()
        with pytest.raises(BackendError, match="VulkanDevice does not implement memory_stats"):
            tp.accelerator.memory_allocated()


def test_a_tensor_that_is_too_large_is_refused_when_it_is_made():
    x = tp.ones(1, device="vulkan")
    with pytest.raises(MemoryError, match=r"(?s)takes [\d,]+ bytes, and this device binds.*fix: ") as raised:
        tp.empty(2**20, 2**14, device="vulkan")
    assert isinstance(raised.value, BackendError)
    with pytest.raises(MemoryError):
        x.expand(2**34) + 1
    assert (x + 1).item() == 2


LOST = """
import tensorplay as tp
x = tp.ones(3, device="vulkan")
x._type.api.gpu.device.destroy()
tp.set_default_device("vulkan")
for call in (lambda: x + 1, lambda: x.tolist(), tp.accelerator.synchronize):
    try:
        call()
    except Exception as error:
        print(type(error).__name__, error)
print(tp.ones(2, device="cpu").tolist())
"""


def test_a_lost_gpu_is_said_by_every_later_call():
    done = subprocess.run([sys.executable, "-c", LOST], capture_output=True, text=True, timeout=120)
    assert done.stdout.count("the GPU was lost") == 3 and done.stdout.count("fix: start the program anew") == 3, done
    assert done.stdout.endswith("[1.0, 1.0]\n") and "Traceback" not in done.stderr


def test_a_process_says_nothing_on_stderr_and_the_plugin_imports_no_wgpu_before_its_probe():
    code = "import sys, tensorplay_vulkan.plugin; print('wgpu' in sys.modules); import tensorplay as tp; "
    code += "print(tp.ones(2, device='vulkan').tolist())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert (done.stdout, done.stderr) == ("False\n[1.0, 1.0]\n", "")
