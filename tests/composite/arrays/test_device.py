from __future__ import annotations

import numpy as np
import pytest

from tensorplay_composite.arrays import ArrayDevice
from tensorplay_core.dispatch.device_api import DeviceAPI
from tensorplay_core.errors import BackendError, ShapeError, ValueRangeError
from tensorplay_cpu.kernels import DEVICE

NAMES = [
    "bool",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "int8",
    "int16",
    "int32",
    "int64",
    "float16",
    "float32",
    "float64",
    "complex64",
    "complex128",
]


@pytest.fixture(params=["array", "cpu"])
def device(request):
    return ArrayDevice(np) if request.param == "array" else DEVICE


def test_is_a_device_api_with_every_dtype(device):
    assert isinstance(device, DeviceAPI)
    assert set(NAMES) <= set(device.dtypes)
    for name, native in device.dtypes.items():
        array = device.from_list([0, 1], native)
        assert type(array) is device.array_class and device.dtype_name(array) == name
        assert device.to_list(array) == [0, 1]


def test_cpu_has_bfloat16_and_shares_memory():
    assert "bfloat16" in DEVICE.dtypes and DEVICE.shares_memory_with_host
    array = np.ones(2)
    assert DEVICE.to_host(array) is array


def test_device_apart_copies_to_the_host():
    array = np.ones(2)
    assert not np.shares_memory(ArrayDevice(np).to_host(array), array)


def test_lists_become_python_numbers(device):
    native = device.dtypes
    assert device.to_list(device.from_list(True, native["bool"])) is True
    assert type(device.to_list(device.from_list(1, native["int8"]))) is int
    assert type(device.to_list(device.from_list(1, native["float16"]))) is float
    assert type(device.to_list(device.from_list(1, native["complex64"]))) is complex
    assert device.to_list(device.from_list([[1, 2], [3, 4]], native["float32"])) == [[1.0, 2.0], [3.0, 4.0]]
    assert device.from_list([], native["float32"]).shape == (0,)
    if "bfloat16" in native:
        assert type(device.to_list(device.from_list(1, native["bfloat16"]))) is float


def test_ragged_lists(device):
    for data in ([[1, 2], [3]], [[1], 2], [1, [2]]):
        with pytest.raises(ShapeError, match="same length"):
            device.from_list(data, device.dtypes["float32"])


def test_scalars_become_arrays(device):
    result = device.as_array(np.float32(2))
    assert type(result) is np.ndarray and result.shape == () and result.dtype == "float32"
    array = np.ones(1)
    assert device.as_array(array) is array


def test_from_host_copies(device):
    host = np.arange(6.0).reshape(2, 3).T
    result = device.from_host(host, 0)
    assert not np.shares_memory(result, host)
    np.testing.assert_array_equal(result, host)


@pytest.mark.parametrize("name", NAMES)
def test_a_buffer_is_read_by_a_module_whose_dtypes_are_no_numpy_dtypes(name):
    strict = pytest.importorskip("array_api_strict")
    device = ArrayDevice(strict)
    if name not in device.dtypes:
        pytest.skip(f"array-api-strict has no {name}")
    host = np.array([[1, 0], [0, 1]], name)
    made = device.from_buffer(bytearray(host.tobytes()), device.dtypes[name], (2, 2))
    assert device.dtype_name(made) == name
    np.testing.assert_array_equal(device.to_host(made), host)


def test_cast(device):
    z = np.array([1 + 2j])
    assert device.cast(z, np.dtype("float32")).tolist() == [1]
    assert device.cast(np.array([1j]), np.dtype("bool")).tolist() == [True]
    x = np.ones(2, "float32")
    same = device.cast(x, x.dtype)
    assert same is not x and not np.shares_memory(same, x)


def test_memory(device):
    x = np.arange(12.0).reshape(3, 4)
    assert device.strides(x) == (4, 1) and device.strides(x.T) == (1, 4) and device.strides(x[:, ::-2]) == (4, -2)
    assert device.is_contiguous(x) and not device.is_contiguous(x.T)
    assert device.may_alias(x, x[1:]) and not device.may_alias(x, x.copy())
    assert device.overlaps_itself(np.broadcast_to(np.ones(1), (3,)))
    assert not device.overlaps_itself(np.broadcast_to(np.ones(1), (1,)))
    assert not device.overlaps_itself(x)
    assert not np.shares_memory(device.copy(x), x)
    assert device.strides(np.array(1.0)) == ()


def test_seeding(device):
    device.manual_seed(3)
    first = device.random.uniform((2,), "float32", 0).tolist()
    device.manual_seed(3)
    assert device.random.uniform((2,), "float32", 0).tolist() == first


def test_the_state_of_the_random_numbers(device):
    state = device.get_rng_state(0)
    first = device.random.normal((3,), "float32", 0).tolist()
    device.set_rng_state(state, 1)  # the numbers are drawn on the host: one state serves every device
    assert (
        device.random.normal((3,), "float32", 1).tolist() == first != device.random.normal((3,), "float32", 1).tolist()
    )
    assert isinstance(state, bytes) and device.get_rng_state(0) != state
    with pytest.raises(ValueRangeError, match="no state"):
        device.set_rng_state(state[1:], 0)


def test_what_modules_do_not_agree_on_is_left_to_the_backend(device):
    for ask in (device.memory_stats, device.memory_info, device.reset_peak_memory_stats, device.current_stream):
        with pytest.raises(BackendError, match=rf"ArrayDevice does not implement {ask.__name__}\nfix: "):
            ask(0)
    device.empty_cache()


def test_names_and_contexts(device):
    assert np.__version__ in device.device_name(0)
    device.synchronize(0)
    with device.device(0):
        pass
