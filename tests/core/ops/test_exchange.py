"""DLPack both ways with NumPy, buffers of Python, and asarray."""

from __future__ import annotations

import array

import numpy as np
import pytest

import tensorplay as tp


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int64", "float16", "float32", "float64", "complex64"])
def test_memory_is_shared_both_ways(dtype):
    x = tp.zeros(2, 3, dtype=getattr(tp, dtype))
    a = np.from_dlpack(x)
    a[0, 0] = 1
    assert x.tolist()[0][0] == 1
    b = np.zeros((2, 3), dtype)
    y = tp.from_dlpack(b)
    b[1, 1] = 1
    assert y.tolist()[1][1] == 1
    y.zero_()
    assert b[1, 1] == 0
    assert y.dtype is x.dtype


def test_views_keep_their_strides_and_copies_are_copies():
    x = tp.arange(6.0).reshape(2, 3)
    assert np.from_dlpack(x.t()).strides == (4, 12)
    assert tp.from_dlpack(x[:, ::2]).tolist() == [[0, 2], [3, 5]]
    copy = tp.from_dlpack(x, copy=True)
    copy.zero_()
    assert x[1, 2].item() == 5
    assert not np.shares_memory(np.from_dlpack(x, copy=True), x.numpy())
    assert x.__dlpack_device__() == (1, 0)


def test_what_is_read_only_is_copied_or_refused():
    a = np.arange(3)
    a.flags.writeable = False
    try:
        x = tp.from_dlpack(a)
    except BufferError:  # NumPy before 2.1 lends nothing that may not be written to
        return
    x.zero_()
    assert a.tolist() == [0, 1, 2]
    with pytest.raises(BufferError):
        tp.from_dlpack(a, copy=False)


def test_another_device_is_a_copy():
    a = np.ones(2)
    x = tp.from_dlpack(a, device="loopback")
    assert x.device.type == "loopback"
    with pytest.raises(BufferError, match="copy=False forbids it"):
        tp.from_dlpack(a, device="loopback", copy=False)


@pytest.mark.parametrize(
    ("lend", "says"),
    [
        (lambda: np.from_dlpack(tp.zeros(2, requires_grad=True)), "requires a gradient"),
        (lambda: np.from_dlpack(tp.zeros(2, dtype=tp.bfloat16)), "does not lend bfloat16"),
        (lambda: tp.zeros(2, device="meta").__dlpack__(), "do not speak DLPack"),
        (lambda: tp.zeros(2, device="meta").__dlpack_device__(), "do not speak DLPack"),
        (lambda: tp.from_dlpack([1, 2]), "list does not speak DLPack"),
        (lambda: tp.zeros(2).__dlpack__(dl_device=(2, 0)), "cannot be lent so"),
    ],
)
def test_what_cannot_be_lent_is_a_buffer_error_that_says_why(lend, says):
    with pytest.raises(BufferError, match=says):
        lend()


def test_a_tensor_with_a_gradient_can_be_lent_where_none_is_recorded():
    x = tp.ones(2, requires_grad=True)
    with tp.no_grad():
        assert np.from_dlpack(x).tolist() == [1, 1]
    assert np.from_dlpack(x.detach()).tolist() == [1, 1]


def test_torch_and_tensors_share_memory():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    x = tp.zeros(3)
    t = torch.from_dlpack(x)
    t[0] = 4
    assert x.tolist() == [4, 0, 0]
    y = tp.from_dlpack(torch.ones(2))
    assert y.tolist() == [1, 1]


def test_asarray_shares_where_it_can():
    x, a = tp.zeros(2), np.zeros(2)
    assert tp.asarray(x) is x
    assert np.shares_memory(tp.asarray(a).numpy(), a)
    assert not np.shares_memory(tp.asarray(a, copy=True).numpy(), a)
    assert tp.asarray(a, copy=False).tolist() == [0, 0]
    assert tp.asarray([1, 2], dtype=tp.float32, requires_grad=True).requires_grad
    for bad in (lambda: tp.asarray([1, 2], copy=False), lambda: tp.asarray(x, dtype=tp.int8, copy=False)):
        with pytest.raises(tp.ArgumentError, match="copy=False forbids"):
            bad()


def test_frombuffer_shares_what_may_be_written_to():
    buffer = bytearray(8)
    x = tp.frombuffer(buffer, dtype=tp.int16)
    buffer[0] = 5
    assert x.tolist() == [5, 0, 0, 0]
    x[1] = 1
    assert buffer[2] == 1
    assert tp.frombuffer(b"\x01\x02\x03", dtype=tp.uint8, count=2, offset=1).tolist() == [2, 3]
    assert tp.frombuffer(array.array("d", [1.5]), dtype=tp.float64).tolist() == [1.5]
    assert tp.frombuffer(b"", dtype=tp.float32).shape == (0,)
    for bad, says in (
        (lambda: tp.frombuffer(b"123", dtype=tp.int16), "no whole number"),
        (lambda: tp.frombuffer(b"12", dtype=tp.int16, count=2), "there are 2"),
        (lambda: tp.frombuffer(b"12", dtype=tp.int16, offset=3), "outside of a buffer"),
        (lambda: tp.frombuffer(3, dtype=tp.int16), "has no buffer"),
    ):
        with pytest.raises(tp.TensorPlayError, match=says):
            bad()


def test_from_numpy_takes_any_strides_and_byte_order():
    a = np.arange(4)[::-1]
    x = tp.from_numpy(a)
    a[0] = 9
    assert x.tolist() == [9, 2, 1, 0]
    assert (x + 1).tolist() == [10, 3, 2, 1]
    assert tp.from_numpy(np.array([1, 2], ">i4")).tolist() == [1, 2]
    assert np.asarray(tp.ones(2)).dtype == np.float32
    assert np.array(tp.ones(2), dtype="float64").tolist() == [1.0, 1.0]
    with pytest.raises(ValueError, match="copy=False forbids"):
        np.asarray(tp.ones(2), dtype="int8", copy=False)
