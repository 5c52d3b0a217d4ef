"""``tp.vmap``: a function of single elements, applied to a batch of them at once."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from tensorplay_core.dispatch.context import include
from tensorplay_core.dispatch.devices import CPU, default_device
from tensorplay_core.dispatch.wrapped import BATCHED, MODE, Level, Within, levels_in
from tensorplay_core.errors import (
    ArgumentError,
    DimError,
    ShapeError,
    TransformError,
    ValueRangeError,
    did_you_mean,
    fix,
)
from tensorplay_core.ops import _generated_functional as F
from tensorplay_core.ops import _generated_functional_view as view
from tensorplay_core.ops.settings import get_rng_state, set_rng_state
from tensorplay_core.tensor.pytree import TreeSpec, broadcast_prefix, tree_flatten, tree_unflatten
from tensorplay_core.tensor.tensor import Tensor, TensorBase
from tensorplay_core.tensor.wrappers import is_of, wrap_at
from tensorplay_core.types.device import Device
from tensorplay_core.vmap.batching import moved

RANDOMNESS = ("error", "different", "same")


def vmap(
    func: Callable[..., Any],
    in_dims: Any = 0,
    out_dims: Any = 0,
    randomness: str = "error",
    *,
    chunk_size: int | None = None,
) -> Callable[..., Any]:
    """Returns a function that applies ``func`` to every element of a batch, as PyTorch's and JAX's do.

    ``func`` is written for one element and called once, with tensors that hide the batch dim; each operator in it runs
    once for the whole batch. Calls nest to any depth, and with the transforms of ``tp.func``.

    Args:
        func: takes and returns nested tuples, lists and dicts of tensors; other values pass through. Its keyword
            arguments are not batched.
        in_dims: along which dim of each argument the batch lies, None for one that all elements share: an int for all
            arguments, or a tuple with an entry for each, which may be nested as the argument is.
        out_dims: where the batch lies in each result: an int, or nested as the result is. None returns a result that
            is the same for all elements as it is.
        randomness: what random operators in ``func`` do: ``"error"`` raises, ``"different"`` draws for each element
            of the batch, ``"same"`` draws once for all.
        chunk_size: how many elements are computed at once; None for all. Less needs less memory.

    Raises:
        TransformError: ``func`` asks for the value of a batched tensor (``if``, ``.item()``), writes one to a tensor
            that is not batched, or calls what has another shape for each element.
        ArgumentError, DimError, ShapeError, ValueRangeError: the dims do not fit the arguments.

    Example:
        >>> import tensorplay as tp
        >>> x, w = tp.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]), tp.tensor([10.0, 1.0])
        >>> tp.vmap(tp.dot, in_dims=(0, None))(x, w)
        tensor([12., 34., 56.])
        >>> tp.vmap(tp.func.grad(lambda x: (x * x).sum()))(x)[0]
        tensor([2., 4.])
    """
    if not callable(func):
        raise ArgumentError(f"vmap takes a function, not {func!r}")
    if randomness not in RANDOMNESS:
        raise ValueRangeError(
            f"vmap: randomness is 'error', 'different' or 'same', not {randomness!r}"
            f".{did_you_mean(str(randomness), RANDOMNESS)}"
        )
    if chunk_size is not None and (not isinstance(chunk_size, int) or isinstance(chunk_size, bool) or chunk_size < 1):
        raise ValueRangeError(f"vmap: chunk_size is None or a positive int, not {chunk_size!r}")

    @functools.wraps(func, updated=())
    def batched(*args: Any, **kwargs: Any) -> Any:
        leaves, spec = tree_flatten(args)
        dims = _dims_of(func, in_dims, leaves, spec)
        call = _Call(func, spec, dims, out_dims, randomness, kwargs)
        size = _size_of(func, leaves, dims)
        if chunk_size is None or chunk_size >= size:
            return call.at_once(leaves, size)
        return call.in_chunks(leaves, size, chunk_size)

    return batched


def _name(func: Any) -> str:
    return getattr(func, "__name__", type(func).__name__)


def _dims_of(func: Any, in_dims: Any, leaves: Sequence[Any], spec: TreeSpec) -> list[int | None]:
    """Returns the batch dim of each leaf of the arguments, not negative."""
    name = _name(func)
    if not isinstance(in_dims, (int, tuple, list)) or isinstance(in_dims, bool):
        raise ArgumentError(
            f"vmap({name}): in_dims is an int or a tuple with an entry for each argument, not {in_dims!r}"
        )
    if not leaves:
        raise ArgumentError(f"vmap({name}): there is no argument that could be batched" + fix("pass a tensor."))
    prefix = tuple(in_dims) if isinstance(in_dims, list) else in_dims
    dims = broadcast_prefix(prefix, spec)
    if dims is None:
        raise ArgumentError(
            f"vmap({name}): in_dims={in_dims!r} does not go with the arguments, which are {spec}"
            + fix("give an int or None for each argument, nested as the argument is or for all of it.")
        )
    found: list[int | None] = []
    for leaf, dim in zip(leaves, dims, strict=True):
        tensor = isinstance(leaf, TensorBase)
        if dim is None or (not tensor and isinstance(in_dims, int)):
            found.append(None)
            continue
        if not isinstance(dim, int) or isinstance(dim, bool):
            raise ArgumentError(f"vmap({name}): an in_dim is an int or None, not {dim!r}")
        if not tensor:
            raise ArgumentError(
                f"vmap({name}): in_dim={dim} for an argument that is no tensor but {type(leaf).__name__}"
                + fix("its in_dim must be None.")
            )
        if not -leaf.ndim <= dim < leaf.ndim:
            raise DimError(
                f"vmap({name}): in_dim={dim} is out of range for a tensor of shape {leaf.shape}"
                + fix("choose one of its dims, or None for a tensor that all elements share.")
            )
        found.append(dim % leaf.ndim)
    return found


def _size_of(func: Any, leaves: Sequence[Any], dims: Sequence[int | None]) -> int:
    sizes = [leaf.shape[dim] for leaf, dim in zip(leaves, dims, strict=True) if dim is not None]
    if not sizes:
        raise ArgumentError(
            f"vmap({_name(func)}): no tensor among the arguments is batched" + fix("give an in_dim that is not None.")
        )
    if len(set(sizes)) > 1:
        raise ShapeError(
            f"vmap({_name(func)}): the batch dims are of different sizes: {', '.join(map(str, sizes))}"
            + fix("they must be equal; None is for a tensor that all elements share.")
        )
    return int(sizes[0])


class _Call(NamedTuple):
    """One call of a batched function: all but the tensors, which are those of a chunk or of the whole batch.

    Attributes:
        func: the function of single elements.
        spec: how its arguments are nested.
        dims: the batch dim of each leaf of them.
        out_dims: as ``vmap`` was given it.
        randomness: as ``vmap`` was given it.
        kwargs: the keyword arguments, which are not batched.
    """

    func: Callable[..., Any]
    spec: TreeSpec
    dims: Sequence[int | None]
    out_dims: Any
    randomness: str
    kwargs: dict[str, Any]

    def at_once(self, leaves: Sequence[Any], size: int) -> Any:
        """Returns the results of a batch of some size."""
        level = Level(BATCHED, "vmap", size=size, randomness=self.randomness)
        try:
            with include(MODE), Within(level):
                inside = [
                    leaf if dim is None else wrap_at(level, moved(leaf, dim, 0), batched=True)
                    for leaf, dim in zip(leaves, self.dims, strict=True)
                ]
                result = self.func(*tree_unflatten(inside, self.spec), **self.kwargs)
            return _results(self.func, level, result, self.out_dims)
        finally:
            level.open = False

    def in_chunks(self, leaves: Sequence[Any], size: int, chunk: int) -> Any:
        """Returns the same, computed for some elements of the batch at a time."""
        states = _random_states(leaves) if self.randomness == "same" else {}
        parts: list[list[Any]] = []
        for start in range(0, size, chunk):
            for device, state in states.items():
                set_rng_state(state, device)
            stop = min(start + chunk, size)
            some = [
                leaf if dim is None else view.slice(leaf, dim, start, stop)
                for leaf, dim in zip(leaves, self.dims, strict=True)
            ]
            found, out = tree_flatten(self.at_once(some, stop - start))
            parts.append(found)
        where = _out_dims_of(self.func, self.out_dims, parts[0], out)
        joined = [
            column[0] if dim is None else F.cat(list(column), dim)
            for column, dim in zip(zip(*parts, strict=True), where, strict=True)
        ]
        return tree_unflatten(joined, out)


def _random_states(leaves: Sequence[Any]) -> dict[Device, Any]:
    """Returns the states of the random numbers of the devices on which a function of some tensors may draw."""
    devices = {CPU, default_device(), *(leaf.device for leaf in leaves if isinstance(leaf, TensorBase))}
    return {device: get_rng_state(device) for device in devices if device.type != "meta"}


def _out_dims_of(func: Any, out_dims: Any, found: Sequence[Any], spec: TreeSpec) -> list[Any]:
    dims = broadcast_prefix(out_dims, spec)
    if dims is None and isinstance(out_dims, tuple) and len(out_dims) == 1:
        dims = broadcast_prefix(out_dims[0], spec)
    if dims is None:
        raise ArgumentError(
            f"vmap({_name(func)}): out_dims={out_dims!r} does not go with the result, which is {spec}"
            + fix("give an int for each tensor of the result, nested as it is, or one for all of them.")
        )
    for value, dim in zip(found, dims, strict=True):
        if not isinstance(value, TensorBase):
            raise ArgumentError(
                f"vmap({_name(func)}): the function must return tensors, and returned {type(value).__name__}"
                + fix("return a tensor, or nested tuples, lists and dicts of them.")
            )
        if dim is not None and (not isinstance(dim, int) or isinstance(dim, bool)):
            raise ArgumentError(f"vmap({_name(func)}): an out_dim is an int or None, not {dim!r}")
    return dims


def _results(func: Any, level: Level, result: Any, out_dims: Any) -> Any:
    found, spec = tree_flatten(result)
    dims = _out_dims_of(func, out_dims, found, spec)
    return tree_unflatten([_out(func, level, v, d) for v, d in zip(found, dims, strict=True)], spec)


def _out(func: Any, level: Level, value: Tensor, dim: int | None) -> Tensor:
    """Returns one result with the batch where it is wanted."""
    inside = value
    batched = False
    if is_of(level, value):
        batched, inside = value._array.batched, value._array.tensor
    levels_in([inside])  # of another vmap that has returned it means nothing
    if dim is None:
        if batched:
            raise TransformError(
                f"vmap({_name(func)}): out_dim=None for a result that is batched"
                + fix("give the dim where the batch shall be.")
            )
        return inside
    if not batched:
        inside = inside.unsqueeze(0).expand(level.size or 0, *inside.shape)
    if not -inside.ndim <= dim < inside.ndim:
        raise DimError(
            f"vmap({_name(func)}): out_dim={dim} is out of range for a result of shape {inside.shape}, batch included"
        )
    return moved(inside, 0, dim % inside.ndim)
