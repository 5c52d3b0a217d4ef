"""Tensors in files: the safetensors format, which holds names, shapes, dtypes and bytes, and can run no code.

The package safetensors reads and writes it; here is what a tensor needs beyond that: another device, memory that two
tensors share, and a file that is there whole or not at all.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from tensorplay_core.errors import ArgumentError, DTypeError, ValueRangeError, did_you_mean, fix
from tensorplay_core.ops.creation import from_numpy
from tensorplay_core.tensor.tensor import Tensor
from tensorplay_core.types.device import Device

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
    from safetensors import SafetensorError  # here and below: it takes NumPy along, which a program may never need
    from safetensors.numpy import save_file as write

    _check_metadata(metadata)
    _check(tensors)
    _refuse_shared(tensors)
    hosts = {name: tensor.detach().contiguous().numpy(force=True) for name, tensor in tensors.items()}
    path = os.fspath(filename)
    beside = f"{path}.{secrets.token_hex(4)}"
    try:
        write(hosts, beside, dict(metadata) if metadata else None)
        _wait_for_the_disk(beside)
        os.replace(beside, path)
    except SafetensorError as error:
        raise OSError(f"save_file: {path} cannot be written: {error}") from None
    finally:
        with suppress(OSError):
            os.unlink(beside)


def _check_metadata(metadata: Mapping[str, str] | None) -> None:
    for name, value in (metadata or {}).items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise ArgumentError(
                f"save_file: metadata is texts by name, and {name!r} is {type(value).__name__}"
                + fix("convert it: str(value), or json.dumps(value)")
            )


def _check(tensors: Mapping[str, Tensor]) -> None:
    """Refuses what the format cannot hold.

    Raises:
        ArgumentError, DTypeError: naming it.
    """
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
            if _share(tensor, earlier):
                raise ArgumentError(
                    f"save_file: {other!r} and {name!r} share memory, and read again they would not"
                    + fix(f"save one of them, or a copy: {name!r}: x.clone()")
                )
        seen.append((name, tensor))


def _share(a: Tensor, b: Tensor) -> bool:
    if a is b or (a._version is not None and a._version is b._version):  # the second: views of one tensor
        return True
    return a._type.array_class is b._type.array_class and a._type.api.may_alias(a._array, b._array)


def _wait_for_the_disk(path: str) -> None:
    with open(path, "rb+") as file:
        os.fsync(file.fileno())


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
    with _opened(filename) as file:
        names = file.keys()
        for name in names:
            _check_spelled(filename, name, file.get_slice(name).get_dtype())
        return {name: from_numpy(file.get_tensor(name)).to(device=place) for name in names}


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
    with _opened(filename) as file:
        return dict(file.metadata() or {})


def _opened(filename: str | os.PathLike[str]) -> Any:
    """Returns the file, whose header has been checked whole."""
    from safetensors import SafetensorError, safe_open

    try:
        return safe_open(filename, "numpy")
    except SafetensorError as error:
        raise ValueRangeError(
            f"load_file: {os.fspath(filename)} is no safetensors file, or damaged: {error}" + fix("fetch it again")
        ) from None


def _check_spelled(filename: str | os.PathLike[str], name: str, dtype: str) -> None:
    known = NAMES.values()
    if dtype not in known:
        raise DTypeError(
            f"load_file: {name!r} of {os.fspath(filename)} has the dtype {dtype!r}, which TensorPlay does not have."
            f"{did_you_mean(dtype, known)}"
        )
