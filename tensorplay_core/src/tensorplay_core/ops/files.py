"""Tensors in files: the safetensors format, which holds names, shapes, dtypes and bytes, and can run no code.

The format is a length, a header in JSON and the bytes (https://github.com/huggingface/safetensors, "Format"), so it is
read and written here with the standard library alone; the tests compare with the safetensors package both ways. A
header is anybody's data: it is checked whole before a byte of a tensor is taken.
"""

from __future__ import annotations

import json
import math
import os
import struct
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from io import BufferedReader
from typing import Any, NamedTuple

from tensorplay_core.dispatch.tensor_type import intern
from tensorplay_core.errors import ArgumentError, DTypeError, ValueRangeError, did_you_mean, fix
from tensorplay_core.tensor.tensor import Tensor, wrap
from tensorplay_core.types.device import Device
from tensorplay_core.types.dtype import by_name

NAMES = {
    "bool": "BOOL",
    "float16": "F16",
    "bfloat16": "BF16",
    "float32": "F32",
    "float64": "F64",
    "complex64": "C64",
    **{f"{'u' * (kind == 'U')}int{bits}": f"{kind}{bits}" for kind in "IU" for bits in (8, 16, 32, 64)},
}
"""Names of dtypes, and how the format spells them."""
_OURS = {spelled: name for name, spelled in NAMES.items()}
_LONGEST = 100_000_000
"""Bytes of a header, at most, as the format says."""
_LENGTH = struct.Struct("<Q")


class Entry(NamedTuple):
    """What a header says of one tensor: its dtype by our name, its shape, and where its bytes begin and end."""

    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int


# -------------------------------------------------------------------------------------------------------------- writing


def save_file(
    tensors: Mapping[str, Tensor], filename: str | os.PathLike[str], metadata: Mapping[str, str] | None = None
) -> None:
    """Writes tensors to a file in the safetensors format, which :func:`load_file` and many other libraries read.

    The file is written beside its place and then put there, so a failure leaves what was there before. A tensor on
    another device is copied to the host; one whose elements are not in C order is written as if they were.

    Args:
        tensors: name to tensor; ``"__metadata__"`` is no name.
        filename: the file, which is replaced if there is one.
        metadata: texts by name, for whoever reads the file.

    Raises:
        ArgumentError: a name is no text, or a value no tensor; or two tensors share memory, which the file cannot say.
        DTypeError: the format has no such dtype: complex128.
        OSError: the file cannot be written.

    Example:
        >>> import tempfile, tensorplay as tp
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     tp.save_file({"weight": tp.ones(2, 2)}, f"{folder}/model.safetensors", {"epoch": "3"})
        ...     tp.load_file(f"{folder}/model.safetensors")
        {'weight': tensor([[1., 1.],
                [1., 1.]])}
    """
    _check_metadata(metadata)
    hosts = _hosts(tensors)
    # The widest dtypes come first, so that every tensor begins at a multiple of its element.
    order = sorted(hosts, key=lambda name: (-tensors[name].itemsize, name))
    header: dict[str, Any] = {} if not metadata else {"__metadata__": dict(metadata)}
    place = 0
    for name in order:
        tensor = tensors[name]
        ends = [place, place + tensor.nbytes]
        header[name] = {"dtype": NAMES[tensor.dtype.name], "shape": list(tensor.shape), "data_offsets": ends}
        place = ends[1]
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    if len(text) > _LONGEST:
        raise ValueRangeError(f"save_file: the header has {len(text)} bytes, and the format takes {_LONGEST}")
    _put(filename, text, [hosts[name] for name in order])


def _check_metadata(metadata: Mapping[str, str] | None) -> None:
    for name, value in (metadata or {}).items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise ArgumentError(
                f"save_file: metadata is texts by name, and {name!r} is {type(value).__name__}"
                + fix("convert it: str(value), or json.dumps(value)")
            )


def _hosts(tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    """Returns what is to be written of each tensor, once it is known that all can be."""
    if not isinstance(tensors, Mapping):
        raise ArgumentError(f"save_file: takes a mapping of names to tensors, not {type(tensors).__name__}")
    for name, tensor in tensors.items():
        if not isinstance(name, str) or name == "__metadata__":
            raise ArgumentError(f"save_file: a tensor's name is a text other than '__metadata__', not {name!r}")
        if not isinstance(tensor, Tensor):
            raise ArgumentError(f"save_file: {name!r} must be a Tensor, not {type(tensor).__name__}")
        if tensor.dtype.name not in NAMES:
            raise DTypeError(
                f"save_file: {name!r} is {tensor.dtype.name}, which the format does not have"
                + fix("save it in complex64, or its real and imaginary parts apart")
            )
    _refuse_shared(tensors)
    return {name: tensor.detach().numpy(force=True) for name, tensor in tensors.items()}


def _refuse_shared(tensors: Mapping[str, Tensor]) -> None:
    """Refuses tensors that share memory: read again they would not, and a program that ties weights would be wrong.

    Raises:
        ArgumentError: naming the first two.
    """
    seen: list[tuple[str, Tensor]] = []
    for name, tensor in tensors.items():
        if not tensor.numel():
            continue
        for other, earlier in seen:
            api = tensor._type.api
            same_family = tensor._version is not None and tensor._version is earlier._version
            if (
                tensor is earlier
                or same_family
                or (
                    tensor._type.array_class is earlier._type.array_class
                    and api.may_alias(tensor._array, earlier._array)
                )
            ):
                raise ArgumentError(
                    f"save_file: {other!r} and {name!r} share memory, and read again they would not"
                    + fix(f"save one of them, or a copy: {name!r}: x.clone()")
                )
        seen.append((name, tensor))


def _put(filename: str | os.PathLike[str], text: bytes, hosts: list[Any]) -> None:
    """Writes a file beside its place, waits until the disk has it, and puts it there."""
    path = os.fspath(filename)
    folder = os.path.dirname(path) or "."
    handle, beside = tempfile.mkstemp(prefix=f".{os.path.basename(path)}.", dir=folder)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(_LENGTH.pack(len(text)))
            file.write(text)
            for host in hosts:
                little = host if sys.byteorder == "little" else host.astype(host.dtype.newbyteorder("<"))
                file.write(little.tobytes())
            file.flush()
            os.fsync(file.fileno())
        os.chmod(beside, 0o666 & ~_umask())
        os.replace(beside, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(beside)
        raise


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


# -------------------------------------------------------------------------------------------------------------- reading


def load_file(filename: str | os.PathLike[str], device: Device | str = "cpu") -> dict[str, Tensor]:
    """Reads all tensors of a file in the safetensors format; each has memory of its own.

    Args:
        filename: the file.
        device: where to put them.

    Raises:
        ValueRangeError: it is no such file, or a damaged one; nothing of it is used.
        DTypeError: it has a tensor of a dtype that TensorPlay, or the device, does not have.
        OSError: it cannot be read.
    """
    place = device if isinstance(device, Device) else Device(device)
    with open(filename, "rb") as file:
        _, entries, start = _header(file, os.fspath(filename))
        found = {}
        for name, entry in entries.items():
            found[name] = _read(file, start, name, entry).to(device=place)
    return found


def load_metadata(filename: str | os.PathLike[str]) -> dict[str, str]:
    """Returns the texts that a file in the safetensors format has beside its tensors, which are not read.

    Raises:
        ValueRangeError: it is no such file, or a damaged one.
        OSError: it cannot be read.

    Example:
        >>> import tempfile, tensorplay as tp
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     tp.save_file({"x": tp.zeros(1)}, f"{folder}/x.safetensors", {"license": "MIT"})
        ...     tp.load_metadata(f"{folder}/x.safetensors")
        {'license': 'MIT'}
    """
    with open(filename, "rb") as file:
        return _header(file, os.fspath(filename))[0]


def _read(file: BufferedReader, start: int, name: str, entry: Entry) -> Tensor:
    type = intern(Device("cpu"), by_name(entry.dtype))
    buffer = bytearray(entry.end - entry.begin)
    file.seek(start + entry.begin)
    if file.readinto(buffer) != len(buffer):
        raise ValueRangeError(f"load_file: the file ended while {name!r} was read" + fix("write it again"))
    if sys.byteorder != "little":
        half = by_name(entry.dtype).itemsize // (2 if entry.dtype.startswith("complex") else 1)
        buffer = bytearray(b"".join(bytes(buffer[i : i + half])[::-1] for i in range(0, len(buffer), half)))
    return wrap(type.api.from_buffer(buffer, type.native, entry.shape), type)


def _header(file: BufferedReader, path: str) -> tuple[dict[str, str], dict[str, Entry], int]:
    """Returns the metadata, what there is to read, and where the bytes begin.

    Raises:
        ValueRangeError, DTypeError: something in it is wrong.
    """
    size = os.fstat(file.fileno()).st_size
    head = file.read(_LENGTH.size)
    length = _LENGTH.unpack(head)[0] if len(head) == _LENGTH.size else -1
    if not 2 <= length <= min(_LONGEST, size - _LENGTH.size):
        raise _damaged(path, "it does not begin with the length of a header")
    try:
        header = json.loads(file.read(length).decode(), object_pairs_hook=_once)
    except (ValueError, RecursionError) as error:
        raise _damaged(path, f"its header is no JSON: {error}") from None
    if not isinstance(header, dict):
        raise _damaged(path, "its header is no mapping")
    metadata = header.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise _damaged(path, "its metadata is not texts by name")
    start = _LENGTH.size + length
    entries = {name: _entry(path, name, value) for name, value in header.items()}
    place = 0
    for name, entry in sorted(entries.items(), key=lambda item: (item[1].begin, item[1].end)):
        if entry.begin != place:
            raise _damaged(path, f"the bytes of {name!r} begin at {entry.begin}, and those before them end at {place}")
        place = entry.end
    if start + place != size:
        raise _damaged(path, f"it has {size - start} bytes of tensors, and its header says {place}")
    return metadata, entries, start


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name comes twice")
    return found


def _entry(path: str, name: str, value: Any) -> Entry:
    if not isinstance(value, dict) or value.keys() != {"dtype", "shape", "data_offsets"}:
        raise _damaged(path, f"of {name!r} it does not say dtype, shape and data_offsets")
    dtype, shape, ends = value["dtype"], value["shape"], value["data_offsets"]
    numbers = [*shape, *ends] if isinstance(shape, list) and isinstance(ends, list) and len(ends) == 2 else [None]
    if not all(number.__class__ is int and 0 <= number < 2**63 for number in numbers):
        raise _damaged(path, f"the shape and the offsets of {name!r} are no lists of numbers")
    if not isinstance(dtype, str) or dtype not in _OURS:
        near = did_you_mean(str(dtype), _OURS)
        raise DTypeError(
            f"load_file: {name!r} of {path} has the dtype {dtype!r}, which TensorPlay does not have.{near}"
        )
    wanted = math.prod(shape) * by_name(_OURS[dtype]).itemsize
    if ends[1] - ends[0] != wanted:
        raise _damaged(path, f"{name!r}, {dtype}{shape}, takes {wanted} bytes, and its offsets are {ends}")
    return Entry(_OURS[dtype], tuple(shape), *ends)


def _damaged(path: str, what: str) -> ValueRangeError:
    return ValueRangeError(f"load_file: {path} is no safetensors file, or damaged: {what}" + fix("fetch it again"))
