"""The smallest call that still shows a difference: inputs are halved along their dims for as long as it does."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

from tensorplay_core.dispatch.tensor_type import intern
from tensorplay_core.tensor.tensor import TensorBase, wrap
from tensorplay_core.testing.bisect.moving import host_of, mapped
from tensorplay_core.types.device import Device
from tensorplay_core.types.dtype import DType

TRIES, SECONDS = 120, 6.0
"""How many smaller calls are tried, and for how long."""


class Laid(NamedTuple):
    """A tensor's elements, and how they lie in memory.

    Attributes:
        host: a NumPy array in C order.
        dtype, device: the tensor's.
        order: its dims from the largest stride to the smallest.
        gaps: whether there is something between the elements.
        expanded: the dims along which it is the same memory.
    """

    host: Any
    dtype: DType
    device: Device
    order: tuple[int, ...] = ()
    gaps: bool = False
    expanded: tuple[int, ...] = ()

    @classmethod
    def of(cls, tensor: Any, host: Any) -> Laid:
        """Describes a tensor, given its elements."""
        shape, strides = tensor.shape, tensor.stride()
        expanded = tuple(d for d, (n, s) in enumerate(zip(shape, strides, strict=True)) if n > 1 and s == 0)
        order = tuple(sorted(range(len(shape)), key=lambda d: -strides[d] if d not in expanded else 1))
        if tensor.is_contiguous():
            return cls(host, tensor.dtype, tensor.device, tuple(range(len(shape))))
        step, gaps = 1, False
        for d in reversed(order):
            if shape[d] > 1 and d not in expanded:
                gaps = gaps or strides[d] != step
                step = strides[d] * shape[d]
        return cls(host, tensor.dtype, tensor.device, order, gaps, expanded)

    @property
    def plain(self) -> bool:
        """Whether it lies in C order without gaps."""
        return not self.gaps and not self.expanded and self.order == tuple(range(self.host.ndim))

    def contiguous(self) -> Laid:
        """Returns the same elements in C order."""
        return self._replace(order=tuple(range(self.host.ndim)), gaps=False, expanded=())

    def narrowed(self, dim: int, start: int, stop: int) -> Laid:
        """Returns a part along one dim."""
        index = tuple(slice(start, stop) if d == dim else slice(None) for d in range(self.host.ndim))
        return self._replace(host=self.host[index].copy(order="C"))

    def memory(self) -> Any:
        """Returns the array that the tensor is to be taken from, as :meth:`taken` says."""
        index = tuple(slice(0, 1) if d in self.expanded else slice(None) for d in range(self.host.ndim))
        host = self.host[index].transpose(self.order).copy(order="C")
        if not self.gaps:
            return host
        xp = host.__array_namespace__()
        spaced = xp.zeros((*host.shape[:-1], 2 * host.shape[-1]), dtype=host.dtype)
        spaced[..., ::2] = host
        return spaced

    def steps(self) -> str:
        """Returns the methods by which a program takes the tensor from its memory."""
        text = "[..., ::2]" * self.gaps
        back = tuple(sorted(range(len(self.order)), key=self.order.__getitem__))
        if back != tuple(range(len(back))):
            text += f".permute{back}"
        return text + (f".expand({self.host.shape})" if self.expanded else "")

    def build(self) -> Any:
        """Makes the tensor on its device."""
        type = intern(self.device, self.dtype)
        tensor: Any = wrap(type.api.from_host(self.memory(), type.device.index or 0), type)
        if self.gaps:
            tensor = tensor[..., ::2]
        back = tuple(sorted(range(len(self.order)), key=self.order.__getitem__))
        if back != tuple(range(len(back))):
            tensor = tensor.permute(back)
        return tensor.expand(self.host.shape) if self.expanded else tensor


def laid(args: Any, hosts: Any) -> Any:
    """Returns arguments with descriptions in the place of tensors, given copies of these as they were."""
    if isinstance(args, TensorBase):
        return Laid.of(args, host_of(hosts))
    if isinstance(args, (tuple, list)):
        items = [laid(a, h) for a, h in zip(args, hosts, strict=True)]
        return items if isinstance(args, list) else tuple(items)
    if isinstance(args, dict):
        return {name: laid(value, hosts[name]) for name, value in args.items()}
    return args


def each(value: Any, into: Callable[[Laid], Any]) -> Any:
    """Returns arguments with what a function makes of each description in its place."""
    if isinstance(value, Laid):
        return into(value)
    if isinstance(value, (tuple, list)):
        items = [each(item, into) for item in value]
        return items if isinstance(value, list) else tuple(items)
    if isinstance(value, dict):
        return {name: each(item, into) for name, item in value.items()}
    return value


def built(value: Any) -> Any:
    """Returns arguments with tensors in the place of descriptions."""
    return each(value, Laid.build)


def descriptions(value: Any) -> list[Laid]:
    """Returns the descriptions among arguments."""
    found: list[Laid] = []
    each(value, found.append)
    return found


def smallest(call: Any, shows: Callable[[Any], bool]) -> Any:
    """Returns the smallest call that is found to show a difference.

    Args:
        call: arguments with descriptions in the place of tensors.
        shows: whether such a call shows it; one that raises does not.
    """
    deadline, tries = time.monotonic() + SECONDS, 0
    progress = True
    while progress:
        progress = False
        for smaller in _smaller(call):
            tries += 1
            if tries > TRIES or time.monotonic() > deadline:
                return call
            try:
                shown = shows(smaller)
            except Exception:  # halves that do not fit together any more
                shown = False
            if shown:
                call, progress = smaller, True
                break
    return call


def _smaller(call: Any) -> Iterator[Any]:
    """Yields calls that are a little smaller or plainer, those that are likeliest to show it first."""
    known = descriptions(call)
    if any(not one.plain for one in known):
        yield each(call, Laid.contiguous)
    for size in sorted({n for one in known for n in one.host.shape if n > 1}, reverse=True):
        for start, stop in ((0, size // 2), (size // 2, size)):
            yield each(call, partial(_halved, size=size, start=start, stop=stop))
        for place, one in enumerate(known):  # dims of one size need not belong together
            for dim, n in enumerate(one.host.shape):
                if n == size:
                    for start, stop in ((0, size // 2), (size // 2, size)):
                        yield _with(call, place, dim, start, stop)


def _halved(one: Laid, size: int, start: int, stop: int) -> Laid:
    for dim, n in enumerate(one.host.shape):
        if n == size:
            one = one.narrowed(dim, start, stop)
    return one


def _with(call: Any, place: int, dim: int, start: int, stop: int) -> Any:
    seen = -1

    def change(one: Laid) -> Laid:
        nonlocal seen
        seen += 1
        return one.narrowed(dim, start, stop) if seen == place else one

    return each(call, change)


__all__ = ["Laid", "built", "descriptions", "each", "laid", "mapped", "smallest"]
