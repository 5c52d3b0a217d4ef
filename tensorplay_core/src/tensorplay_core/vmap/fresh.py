"""New tensors inside ``vmap``: one for all elements of the batch, until something batched is written to it.

``y = tp.zeros(3)`` in a function under ``vmap`` means a tensor for each element of the batch. While all of them are
equal one is kept, so that constants cost nothing and Python may ask for their values. A write of a batched value gives
each element its own, and every view that was taken of it meanwhile is taken anew.
"""

from __future__ import annotations

import weakref
from typing import Any

from tensorplay_core.autograd.modes import enable_grad
from tensorplay_core.dispatch import wrapped
from tensorplay_core.dispatch.operator import Operator
from tensorplay_core.dispatch.wrapped import Level, Wrapped
from tensorplay_core.errors import TransformError, fix
from tensorplay_core.ops.call import call
from tensorplay_core.ops.levels import below
from tensorplay_core.tensor.tensor import Tensor, TensorBase, another
from tensorplay_core.tensor.version import LIVE, extend, version_of
from tensorplay_core.tensor.views import path_of, relate, root_of
from tensorplay_core.tensor.wrappers import is_of


def relate_view(op: Operator, base: Tensor, view: Tensor, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Notes that a wrapper is a view of another, both without a batch yet."""
    view._version = version_of(base)
    relate(base, view, op, args, kwargs)


def detached(tensor: Tensor) -> Tensor:
    """Returns a tensor that has no batch yet without its gradient; of the same memory, also when that gets a batch."""
    root: Any = root_of(tensor)
    extend(version_of(root)).append(weakref.ref(root))  # which is in no list of views, and must be found from the other
    other = another(root)
    other._array = root._array.like(root._array.tensor.detach())
    for step in path_of(tensor):
        other = call(step.op, (other, *step.args), dict(step.kwargs))
    return other


wrapped.detach = detached


def make_batched(level: Level, tensor: Tensor) -> None:
    """Gives each element of the batch a tensor of its own, in the place of one for all."""
    assert level.size is not None
    root = root_of(tensor)
    if not is_of(level, root) or root._array.batched:
        return
    live = [one for ref in (version_of(root)[LIVE] or ()) if (one := ref()) is not None]
    roots = {id(one): one for one in (*live, root) if root_of(one) is one}  # it, and those that were detached from it
    with below(level), enable_grad():  # the write that follows may be without gradients, the tensor is as before
        one = next((r for r in roots.values() if r._array.tensor._node is not None), root)._array.tensor
        own = one.unsqueeze(0).expand(level.size, *one.shape).clone()
        for other in roots.values():
            other._array = Wrapped(level, own if other._array.tensor is one else own.detach(), True)
    for view in live:
        again: Any = root_of(view)
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
        own: Tensor = tensor._array.tensor
        return own
    assert isinstance(tensor, TensorBase)
    raise TransformError(
        f"vmap: {op.display_name}: a batched value would be written to a tensor of shape {tensor.shape} that is not "
        f"batched: it has room for one value, and the batch has {level.size}"
        + fix("use the out-of-place operator; or pass the tensor to vmap with an in_dim; or make it inside.")
    )
