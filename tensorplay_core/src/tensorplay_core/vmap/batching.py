"""A call with batched tensors, as batching rules see it.

Under ``vmap`` an operator meets tensors with a batch dim in front that the program does not know of. A rule makes of
that call one call, or a few, on the tensors with the dim, whose results have it in front again. Everything here is in
terms of *logical* dims, which the program sees, and the batch before them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tensorplay_core.dispatch.operator import Operator
from tensorplay_core.dispatch.registry import REGISTRY
from tensorplay_core.dispatch.wrapped import Level
from tensorplay_core.errors import TransformError, fix
from tensorplay_core.ops.arguments import plan_of
from tensorplay_core.ops.call import call
from tensorplay_core.tensor.tensor import Tensor, TensorBase
from tensorplay_core.tensor.wrappers import is_of
from tensorplay_core.tensor.wrappers import moved as moved

Rule = Callable[["Batch"], Any]


class Batch:
    """The arguments of a call, by name, with wrappers of one level taken off.

    Attributes:
        op: the operator.
        level: the level of ``vmap``.
        size: of the batch.
        values: every positional argument, and the keyword-only ones that were given.
        batched: for each of them whether it has the batch in front; a tuple for a list of tensors.
    """

    __slots__ = ("batched", "level", "op", "size", "values")

    def __init__(self, op: Operator, level: Level, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        assert level.size is not None
        self.op, self.level, self.size = op, level, level.size
        self.values: dict[str, Any] = {}
        self.batched: dict[str, Any] = {}
        named = zip((spec.name for spec in plan_of(op).positional), args, strict=True)
        for name, value in [*named, *kwargs.items()]:
            self.values[name], self.batched[name] = self._taken_off(value)

    def _taken_off(self, value: Any) -> tuple[Any, Any]:
        if value.__class__ is tuple and any(isinstance(item, TensorBase) for item in value):
            pairs = [self._taken_off(item) for item in value]
            return tuple([pair[0] for pair in pairs]), tuple([pair[1] for pair in pairs])
        if is_of(self.level, value):
            return value._array.tensor, value._array.batched
        return value, False

    @property
    def any(self) -> bool:
        """Whether there is a batched tensor at all."""
        return any(any(b) if b.__class__ is tuple else b for b in self.batched.values())

    def tensors(self) -> list[str]:
        """Returns the names of the arguments that are tensors, not lists of them."""
        return [name for name, value in self.values.items() if isinstance(value, TensorBase)]

    def ndim(self, name: str) -> int:
        """Returns the number of logical dims of a tensor."""
        return int(self.values[name].ndim) - int(self.batched[name])

    def shape(self, name: str) -> tuple[int, ...]:
        """Returns the logical shape of a tensor."""
        shape: tuple[int, ...] = self.values[name].shape
        return shape[1:] if self.batched[name] else shape

    def dim(self, name: str, dim: int, extra: int = 0) -> int:
        """Returns where a logical dim of a tensor is behind the batch; as given where it is out of range.

        Args:
            name: the tensor.
            dim: the dim, which may be negative.
            extra: how many dims more it may be in range of, as for ``unsqueeze``.
        """
        return behind(dim, self.ndim(name) + extra)

    def front(self, name: str) -> Tensor:
        """Returns a tensor with the batch in front, expanded where it has none."""
        found: Tensor = self.with_front(self.values[name], self.batched[name])
        return found

    def with_front(self, tensor: Any, batched: bool) -> Any:
        """Returns a tensor with the batch in front; None stays None."""
        return tensor if batched or tensor is None else tensor.unsqueeze(0).expand(self.size, *tensor.shape)

    def padded(self, name: str, ndim: int) -> Tensor:
        """Returns a tensor that broadcasts against batched ones of some dims: with dims of 1 after the batch."""
        found: Tensor = pad(self.values[name], self.batched[name], ndim)
        return found

    def again(self, op: Operator | str | None = None, /, **changes: Any) -> Any:
        """Calls the operator, or another one of the same arguments, with some arguments changed."""
        target = self.op if op is None else REGISTRY.operators[f"tp::{op}"] if isinstance(op, str) else op
        values = {**self.values, **changes}
        plan = plan_of(target)
        args = tuple([values[spec.name] for spec in plan.positional])
        return call(target, args, {spec.name: values[spec.name] for spec in plan.keyword if spec.name in values})

    def refuse(self, why: str, remedy: str) -> TransformError:
        """Returns the error for a call that cannot be batched."""
        return TransformError(f"vmap: {self.op.display_name}: {why}" + fix(remedy))


def behind(dim: int, ndim: int) -> int:
    """Returns where one of some logical dims is behind the batch; as given where it is out of range."""
    return dim + 1 if dim >= 0 else dim if dim < -ndim else dim + ndim + 1


def pad(tensor: Any, batched: bool, ndim: int) -> Any:
    """Returns a tensor with dims of size 1 after its batch, so that it has some logical dims."""
    missing = ndim - (tensor.ndim - 1)
    if not batched or missing <= 0:
        return tensor
    return tensor.reshape(tensor.shape[0], *[1] * missing, *tensor.shape[1:])


def results(values: Any, change: Callable[[Any], Any]) -> Any:
    """Returns one result, or several, each changed."""
    if isinstance(values, (tuple, list)):
        return type(values)(map(change, values)) if type(values) in (tuple, list) else tuple(map(change, values))
    return change(values)
