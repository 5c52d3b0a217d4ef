"""``functionalize``: a function that writes to nothing, made of one that does."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from tensorplay_core.errors import ValueRangeError, fix
from tensorplay_core.func.arguments import Function, check_function
from tensorplay_core.tensor.pytree import tree_flatten, tree_unflatten
from tensorplay_core.tensor.tensor import Tensor
from tensorplay_core.tensor.version import version_of

REMOVE = ("mutations", "mutations_and_views")


def functionalize(func: Function, *, remove: str = "mutations") -> Callable[..., Any]:
    """Returns a function that computes what ``func`` does on copies, and writes to its arguments only at the end.

    Inside, no memory of the caller is written to, so that transforms and kernels which keep their inputs see each of
    them as it was; an argument that ``func`` has written to gets its new value by one ``copy_``.

    Args:
        func: takes and returns nested tuples, lists and dicts of tensors.
        remove: ``"mutations"``; ``"mutations_and_views"`` also gives results that share no memory with the arguments.

    Raises:
        ValueRangeError: ``remove`` is something else.

    Example:
        >>> import tensorplay as tp
        >>> def f(x):
        ...     y = x[0]
        ...     y.add_(1)
        ...     return x * 2
        >>> x = tp.zeros(2)
        >>> tp.func.functionalize(f)(x), x
        (tensor([2., 0.]), tensor([1., 0.]))
    """
    check_function("functionalize", func)
    if remove not in REMOVE:
        raise ValueRangeError(
            f"functionalize: remove is one of {', '.join(map(repr, REMOVE))}, not {remove!r}"
            + fix("leave it away for 'mutations'.")
        )

    @functools.wraps(func, updated=())
    def functional(*args: Any, **kwargs: Any) -> Any:
        leaves, spec = tree_flatten((args, kwargs))
        copies: dict[int, Any] = {id(x): x.clone() for x in leaves if isinstance(x, Tensor)}
        before = {number: version_of(copy)[0] for number, copy in copies.items()}
        own_args, own_kwargs = tree_unflatten([copies.get(id(x), x) for x in leaves], spec)
        result = func(*own_args, **own_kwargs)
        back = {id(copy): number for number, copy in copies.items()}
        found, shape = tree_flatten(result)
        for x in leaves:
            copy = copies.get(id(x))
            if copy is not None and version_of(copy)[0] != before[id(x)]:
                x.copy_(copy)
        originals = {id(x): x for x in leaves}
        # What is returned as it came is the caller's own tensor, with its new value.
        found = [originals[back[id(y)]] if id(y) in back else y for y in found]
        if remove == "mutations_and_views":
            own = {id(version_of(copy)) for copy in copies.values()}
            found = [y.clone() if isinstance(y, Tensor) and id(version_of(y)) in own else y for y in found]
        return tree_unflatten(found, shape)

    return functional
