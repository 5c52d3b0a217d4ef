"""New tensors inside ``vmap``: one for all elements of the batch, until something batched is written to it.

``y = tp.zeros(3)`` in a function under ``vmap`` means a tensor for each element of the batch. While all of them are
equal one is kept, so that constants cost nothing and Python may ask for their values. A write of a batched value gives
each element its own, and every view that was taken of it meanwhile is taken anew.
"""

from __future__ import annotations

from typing import Any

from tensorplay_core.dispatch.operator import Operator
from tensorplay_core.dispatch.wrapped import Level, Wrapped
from tensorplay_core.errors import TransformError, fix
from tensorplay_core.ops.call import call
from tensorplay_core.ops.levels import below
from tensorplay_core.tensor.tensor import Tensor, TensorBase
from tensorplay_core.tensor.version import LIVE, version_of
from tensorplay_core.tensor.views import path_of, relate, root_of
from tensorplay_core.tensor.wrappers import is_of


def relate_view(op: Operator, base: Tensor, view: Tensor, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Notes that a wrapper is a view of another, both without a batch yet."""
    view._version = version_of(base)
    relate(base, view, op, args, kwargs)


def make_batched(level: Level, tensor: Tensor) -> None:
    """Gives each element of the batch a tensor of its own, in the place of one for all."""
    assert level.size is not None
    root = root_of(tensor)
    if not is_of(level, root) or root._array.batched:
        return
    with below(level):
        one = root._array.tensor
        own = one.unsqueeze(0).expand(level.size, *one.shape).clone()
    cell = root._version
    live = [view for ref in (cell[LIVE] or ()) if (view := ref()) is not None] if cell is not None else []
    root._array = Wrapped(level, own, True)
    for view in live:
        again: Any = root
        for step in path_of(view):
            again = call(step.op, (again, *step.args), dict(step.kwargs))
        view._array = again._array


def target(op: Operator, level: Level, tensor: Any, *, batched: bool) -> Tensor:
    """Returns what an operator writes to in the place of a tensor.

    Args:
        op: the operator.
        level: the level of ``vmap``.
        tensor: the argument that it writes to.
        batched: whether what it writes has a value for each element of the batch.

    Raises:
        TransformError: the tensor has one for all of them, and is not the function's own.
    """
    if is_of(level, tensor):
        if batched and not tensor._array.batched:
            make_batched(level, tensor)
        return tensor._array.tensor  # type: ignore[no-any-return]
    assert isinstance(tensor, TensorBase)
    raise TransformError(
        f"vmap: {op.display_name}: a batched value would be written to a tensor of shape {tensor.shape} that is not "
        f"batched: it has room for one value, and the batch has {level.size}"
        + fix("use the out-of-place operator; or pass the tensor to vmap with an in_dim; or make it inside.")
    )
