"""Rules that programs write: how a batch is handed to one, and how its result comes back."""

from __future__ import annotations

from typing import Any, NamedTuple

from tensorplay_core.dispatch.wrapped import Level
from tensorplay_core.errors import TransformError, fix
from tensorplay_core.tensor.pytree import broadcast_prefix, tree_flatten, tree_unflatten
from tensorplay_core.tensor.tensor import TensorBase
from tensorplay_core.tensor.wrappers import is_of, moved, wrap_at


class VmapInfo(NamedTuple):
    """What a rule is told of the ``vmap`` that it serves.

    Attributes:
        batch_size: of the batch.
        randomness: ``"error"``, ``"different"`` or ``"same"``.
    """

    batch_size: int
    randomness: str


def info_of(level: Level) -> VmapInfo:
    """Returns what a rule is told of a level."""
    assert level.size is not None
    return VmapInfo(level.size, level.randomness)


def in_dims_of(level: Level, args: Any) -> Any:
    """Returns where the batch is in each argument: 0, or None; nested as the arguments are."""
    leaves, spec = tree_flatten(args)
    return tree_unflatten([0 if is_of(level, leaf) and leaf._array.batched else None for leaf in leaves], spec)


def wrap_result(who: str, level: Level, returned: Any) -> Any:
    """Returns what a rule returned as tensors of a level.

    Raises:
        TransformError: it is no pair of a result and its out_dims.
    """
    if not isinstance(returned, tuple) or len(returned) != 2:
        raise TransformError(
            f"vmap: the rule of {who} must return a pair (output, out_dims), not {type(returned).__name__}"
            + fix("return the result and where its batch is: return y, 0.")
        )
    output, out_dims = returned
    leaves, spec = tree_flatten(output)
    dims = broadcast_prefix(out_dims, spec)
    if dims is None:
        raise TransformError(f"vmap: the rule of {who} returned {spec} and out_dims={out_dims!r}, which do not match")
    return tree_unflatten([_wrapped(who, level, leaf, dim) for leaf, dim in zip(leaves, dims, strict=True)], spec)


def _wrapped(who: str, level: Level, value: Any, dim: Any) -> Any:
    if not isinstance(value, TensorBase):
        return value
    if dim is None:
        return wrap_at(level, value)
    there = isinstance(dim, int) and not isinstance(dim, bool) and -value.ndim <= dim < value.ndim
    if not there or value.shape[dim] != level.size:
        raise TransformError(
            f"vmap: the rule of {who} returned a tensor of shape {value.shape} with out_dim={dim!r}, where no batch of "
            f"{level.size} lies" + fix("return for each result the dim that has the batch, or None.")
        )
    return wrap_at(level, moved(value, dim % value.ndim, 0), batched=True)
