"""What a kernel's first call for a type is watched for besides its result: that it leaves its inputs alone.

A kernel that writes to an input gives no error and a wrong number later, far from here. To look for it costs a copy of
each input, so it is done once per operator and type, where the result is checked too; from then on the kernel is
trusted. What such a kernel has changed is put back, so the program that found it has lost nothing.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, NamedTuple

from tensorplay_core.dispatch.device_api import DeviceAPI
from tensorplay_core.dispatch.keys import PAGE
from tensorplay_core.dispatch.operator import Operator, Registration
from tensorplay_core.dispatch.registry import REGISTRY
from tensorplay_core.dispatch.tensor_type import TensorType
from tensorplay_core.errors import KernelError, fix
from tensorplay_core.ops.arguments import plan_of, written_tensors
from tensorplay_core.ops.results import broken, correct
from tensorplay_core.tensor.meta_array import MetaArray
from tensorplay_core.tensor.tensor import TensorBase
from tensorplay_core.tensor.version import Version, version_of

LIMIT = 2**20
"""Inputs of more elements are not watched: a copy of each could be more than the device's memory has room for."""


class Kept(NamedTuple):
    """An input of a kernel, as it was.

    Attributes:
        name: the argument's name; ``xs[1]`` for an item of a list.
        array: what the kernel is given.
        copy: its elements before.
        cell: the version cell of the tensor, which counts the writes that the framework knows of.
        version: its number before.
    """

    name: str
    array: Any
    copy: Any
    cell: Version
    version: int


class Watched:
    """The inputs of one call of a kernel that was not seen to leave them alone yet.

    Args:
        op: the operator.
        compute: the type that the kernel computes in.
        args: the call's positional arguments.
        arrays: as the kernel takes them.
        kwargs: its keyword-only ones.
        native: as the kernel takes them.
    """

    __slots__ = ("_api", "_compute", "_kept", "_op")

    def __init__(
        self,
        op: Operator,
        compute: TensorType,
        args: tuple[Any, ...],
        arrays: list[Any],
        kwargs: dict[str, Any],
        native: dict[str, Any],
    ) -> None:
        """Copies the inputs; one that cannot be copied is not watched."""
        self._op, self._compute, self._api = op, compute, compute.api
        self._kept: list[Kept] = []
        if compute.array_class is MetaArray or not compute.api.mutable:
            return
        written = [t._array for t in written_tensors(op, args, kwargs)] if plan_of(op).written else []
        for name, tensor, array in _inputs(op, args, arrays, kwargs, native):
            if not isinstance(array, compute.array_class) or _count(array) > LIMIT:
                continue
            if any(array is other or self._api.may_alias(array, other) for other in written):
                continue
            try:
                copy = self._api.copy(array)
            except Exception:  # no memory, or not implemented: what is not known is not claimed
                continue
            cell = version_of(tensor)
            self._kept.append(Kept(name, array, copy, cell, cell[0]))

    def check(self, registration: Registration) -> None:
        """Refuses a kernel that has changed an input, after putting it back as it was.

        Raises:
            KernelError: it has; the message names the argument.
        """
        changed = self._changed()
        if not changed:
            return
        lost = self._restore(changed)
        names = " and ".join(kept.name for kept in changed)
        several = len(changed) > 1
        what = f"it changed its argument{'s' * several} {names}, which the signature does not declare; "
        if lost:
            what += f"{' and '.join(lost)} could not be put back as {'they were' if len(lost) > 1 else 'it was'}"
        else:
            what += f"{'they have' if several else 'it has'} been put back as {'they were' if several else 'it was'}"
        raise broken(self._op, registration, what + fix("compute into an array of the kernel's own, or into a copy."))

    def put_back(self) -> None:
        """Gives inputs that a failed kernel has changed their elements back."""
        self._restore(self._changed())

    def _changed(self) -> list[Kept]:
        """Returns the inputs that differ, bit for bit, and that no write that the framework knows of explains."""
        found = []
        for kept in self._kept:
            try:
                if _bits(self._api, kept.array) != _bits(self._api, kept.copy):
                    found.append(kept)
            except Exception:  # the device cannot be read
                continue
        if found:
            time.sleep(0.001)  # another thread counts a write of its own right after it
        return [kept for kept in found if kept.cell[0] == kept.version]

    def _restore(self, changed: list[Kept]) -> list[str]:
        """Writes the elements back where they were; returns the names of the inputs for which that did not help."""
        copy_ = REGISTRY.operators["tp::copy_"].kernel_at(PAGE * self._compute.page + self._compute.key)
        lost = []
        for kept in changed:
            try:
                with self._compute.as_current():
                    if copy_ is not None and copy_.level == "array":
                        copy_.function(kept.array, kept.copy, False)
                    else:
                        kept.array[...] = kept.copy
                restored = _bits(self._api, kept.array) == _bits(self._api, kept.copy)
            except Exception:  # read-only, or of a library that writes by other means
                restored = False
            if not restored:
                lost.append(kept.name)
        return lost


def _inputs(
    op: Operator, args: tuple[Any, ...], arrays: list[Any], kwargs: dict[str, Any], native: dict[str, Any]
) -> Iterator[tuple[str, TensorBase, Any]]:
    """Yields the tensors of a call that it does not write to: name, tensor, and the array that the kernel is given."""
    plan = plan_of(op)
    found = [(spec.name, value, array) for spec, value, array in zip(plan.positional, args, arrays, strict=True)]
    found += [(name, value, native.get(name)) for name, value in kwargs.items()]
    for name, value, array in found:
        if name in plan.written:
            continue
        if isinstance(value, TensorBase):
            yield name, value, array
        elif value.__class__ is tuple and isinstance(array, (list, tuple)):
            for i, (item, part) in enumerate(zip(value, array, strict=True)):
                if isinstance(item, TensorBase):
                    yield f"{name}[{i}]", item, part


def _count(array: Any) -> int:
    count = 1
    for size in array.shape:
        count *= size
    return count


def _bits(api: DeviceAPI, array: Any) -> bytes:
    """Returns the elements as bytes: NaN is equal to itself, and 0.0 is not -0.0."""
    return api.to_host(array).tobytes()  # type: ignore[no-any-return]


# ------------------------------------------------------------------------------------------------------ what it raises


class IndexKernelError(KernelError, IndexError):
    """A kernel found an index out of range."""


def failed(op: Operator, registration: Registration, given: str, error: BaseException) -> KernelError:
    """Returns the error for a kernel that raised.

    Args:
        op: the operator.
        registration: the kernel.
        given: its tensors, for a reader.
        error: what it raised.
    """
    if isinstance(error, IndexError):
        return IndexKernelError(
            f"{op.display_name}: {error} (in the kernel of {registration.distribution}, {registration.where})"
        )
    return KernelError(
        f"{op.display_name}: the kernel of {registration.distribution} ({registration.where}) failed on "
        f"{given}: {type(error).__name__}: {error}".removesuffix(": ")
        + fix(f"if the arguments are what you meant, {correct(registration)}")
    )


def is_a_kernels_own(error: BaseException) -> bool:
    """Whether an exception is a kernel's failure rather than something that happens to the program while it runs.

    Every Exception is, but for a lack of memory. A kernel that calls ``sys.exit``, or leaks a GeneratorExit, would end
    the program or a generator of the caller's in silence, so these are too; except where a signal's handler raised
    them, which Python runs wherever the program happens to be.
    """
    if isinstance(error, MemoryError):
        return False
    if not isinstance(error, (SystemExit, GeneratorExit)):
        return isinstance(error, Exception)
    import signal  # here, because only this odd case needs it

    handlers = [signal.getsignal(number) for number in signal.valid_signals()]
    codes = {getattr(handler, "__code__", None) for handler in handlers}
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code in codes:
            return False
        trace = trace.tb_next
    return True
