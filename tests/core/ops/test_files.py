"""safetensors files: the same tensors back, what others read and write, damage, and failures that lose nothing."""

from __future__ import annotations

import json
import os
import struct

import pytest
import safetensors.numpy

import tensorplay as tp
from tensorplay_core.ops.files import NAMES


def sample():
    tensors = {name: tp.ones(2, 3).to(getattr(tp, name)) for name in NAMES}
    tensors |= {
        "scalar": tp.tensor(3.5),
        "empty": tp.zeros(0, 3),
        "ü/é": tp.arange(3),
        "odd": tp.tensor([1, 2], dtype=tp.uint8),
    }
    return tensors


def test_what_is_saved_is_loaded(tmp_path):
    path, tensors = tmp_path / "a.safetensors", sample()
    tp.save_file(tensors, path, {"author": "me", "ü": "é"})
    found = tp.load_file(path)
    assert found.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert (found[name].dtype, found[name].shape) == (tensor.dtype, tensor.shape)
        assert found[name].tolist() == tensor.tolist()
    assert tp.load_metadata(path) == {"author": "me", "ü": "é"}
    found["scalar"].add_(1)  # it is no one else's memory


def test_the_file_is_what_the_format_says(tmp_path):
    path = tmp_path / "a.safetensors"
    tp.save_file({"b": tp.tensor([1, 2], dtype=tp.int16), "a": tp.tensor([1.0])}, path)
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    assert (8 + length) % 8 == 0
    assert json.loads(data[8 : 8 + length]) == {
        "a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]},
        "b": {"dtype": "I16", "shape": [2], "data_offsets": [4, 8]},
    }
    assert data[8 + length :] == b"\x00\x00\x80?\x01\x00\x02\x00"


def test_layouts_are_written_in_c_order_and_devices_copied(tmp_path):
    path = tmp_path / "a.safetensors"
    x = tp.arange(6.0).reshape(2, 3)
    tp.save_file(
        {"t": x.t(), "e": tp.ones(1).expand(3), "l": x.to("loopback"), "g": tp.ones(2, requires_grad=True)}, path
    )
    found = tp.load_file(path)
    assert found["t"].tolist() == [[0, 3], [1, 4], [2, 5]]
    assert found["e"].tolist() == [1, 1, 1]
    assert found["l"].tolist() == x.tolist()
    assert not found["g"].requires_grad
    assert tp.load_file(path, device="loopback")["t"].device == tp.device("loopback:0")


def test_the_safetensors_package_agrees(tmp_path):
    path, tensors = tmp_path / "a.safetensors", sample()
    tp.save_file({name: x for name, x in tensors.items() if name != "bfloat16"}, path)  # which its reader has not
    for name, array in safetensors.numpy.load_file(path).items():
        assert array.tolist() == tensors[name].tolist()
        assert array.dtype.name == tensors[name].dtype.name
    safetensors.numpy.save_file({"x": tensors["float64"].numpy(), "y": tensors["uint8"].numpy()}, path)
    assert {name: x.tolist() for name, x in tp.load_file(path).items()} == {"x": [[1.0] * 3] * 2, "y": [[1] * 3] * 2}


@pytest.mark.parametrize(
    ("tensors", "error", "says"),
    [
        (lambda x: {"a": x, "b": x}, tp.ArgumentError, "'a' and 'b' share memory"),
        (lambda x: {"a": x, "b": x[1:]}, tp.ArgumentError, "share memory"),
        (lambda x: {"a": x.to(tp.complex128)}, tp.DTypeError, "complex128, which the format does not have"),
        (lambda x: {"__metadata__": x}, tp.ArgumentError, "other than '__metadata__'"),
        (lambda x: {1: x}, tp.ArgumentError, "a tensor's name is a text"),
        (lambda x: {"a": [1]}, tp.ArgumentError, "must be a Tensor, not list"),
        (lambda x: [x], tp.ArgumentError, "takes a mapping"),
    ],
)
def test_what_cannot_be_saved_is_refused_and_the_old_file_stays(tmp_path, tensors, error, says):
    path = tmp_path / "a.safetensors"
    tp.save_file({"old": tp.ones(1)}, path)
    with pytest.raises(error, match=says):
        tp.save_file(tensors(tp.arange(3.0)), path)
    assert [*tp.load_file(path)] == ["old"]
    assert os.listdir(tmp_path) == ["a.safetensors"]


def test_a_failure_while_writing_leaves_the_old_file_and_no_other(tmp_path, monkeypatch):
    path = tmp_path / "a.safetensors"
    tp.save_file({"old": tp.ones(1)}, path)

    def full(descriptor):
        raise OSError("no space left")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="no space"):
        tp.save_file({"new": tp.ones(1)}, path)
    assert [*tp.load_file(path)] == ["old"]
    assert os.listdir(tmp_path) == ["a.safetensors"]


def test_a_folder_that_is_not_there_is_the_systems_error(tmp_path):
    with pytest.raises(OSError, match="none"):
        tp.save_file({"x": tp.ones(1)}, tmp_path / "none" / "a.safetensors")


def test_metadata_is_texts():
    with pytest.raises(tp.ArgumentError, match="metadata is texts by name"):
        tp.save_file({}, "unused", {"epoch": 3})


def file_of(header, data=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def entry(dtype="F32", shape=(1,), ends=(0, 4)):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(ends)}


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff" * 20,
        file_of(b"{not json}"),
        file_of(b"[" * 10_000),
        file_of([1]),
        file_of({"__metadata__": {"a": 1}}),
        file_of({"x": {"dtype": "F32"}}),
        file_of({"x": entry(shape=(-1,))}, b"1234"),
        file_of({"x": entry(shape=(True,))}, b"1234"),
        file_of({"x": entry(shape=(2,))}, b"1234"),
        file_of({"x": entry(ends=(4, 8))}, b"12345678"),
        file_of({"x": entry(), "y": entry()}, b"1234"),
        file_of({"x": entry()}, b"12"),
        file_of({"x": entry()}, b"123456"),
    ],
)
def test_a_damaged_file_is_refused_by_its_name(tmp_path, data):
    path = tmp_path / "a.safetensors"
    path.write_bytes(data)
    for read in (tp.load_file, tp.load_metadata):
        with pytest.raises(tp.ValueRangeError, match=r"a\.safetensors is no safetensors file, or damaged"):
            read(path)


def test_a_dtype_that_nobody_has_is_named(tmp_path):
    path = tmp_path / "a.safetensors"
    path.write_bytes(file_of({"x": entry("F8_E4M3", (4,))}, b"1234"))
    with pytest.raises(tp.DTypeError, match="F8_E4M3"):
        tp.load_file(path)


def test_a_missing_file_is_the_systems_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        tp.load_file(tmp_path / "none")
    with pytest.raises(OSError):
        tp.load_file(tmp_path)
