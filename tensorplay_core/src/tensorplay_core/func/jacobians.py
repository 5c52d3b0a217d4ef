"""``jacrev``, ``jacfwd`` and ``hessian``: every direction at once, by ``vmap`` over the unit vectors."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from tensorplay_core.func.arguments import Argnums, Function, check_function, check_real, chosen, replaced, tensors
from tensorplay_core.func.transforms import pullback, push
from tensorplay_core.ops import _generated_functional as F
from tensorplay_core.ops._generated_functional import eye
from tensorplay_core.tensor.pytree import TreeSpec, tree_flatten, tree_unflatten
from tensorplay_core.tensor.tensor import Tensor, TensorBase
from tensorplay_core.vmap.api import vmap


def _unit_vectors(like: Sequence[Tensor]) -> list[Tensor]:
    """Returns for each tensor its part of the unit vectors of all of them: one for each element along the first dim."""
    counts = [x.numel() for x in like]
    total, rows, before = sum(counts), [], 0
    for x, count in zip(like, counts, strict=True):
        identity = eye(count, dtype=x.dtype, device=x.device)
        above = identity.new_zeros((before, count))
        below = identity.new_zeros((total - before - count, count))
        rows.append(F.cat([above, identity, below], 0).reshape(total, *x.shape))
        before += count
    return rows


def _parts(rows: Tensor, like: Sequence[Tensor]) -> list[Tensor]:
    """Returns what belongs to each tensor's unit vectors, whose number becomes the tensor's dims."""
    found, before = [], 0
    for x in like:
        count = x.numel()
        found.append(rows.narrow(0, before, count).reshape(*x.shape, *rows.shape[1:]))
        before += count
    return found


def jacrev(
    func: Function, argnums: Argnums = 0, *, has_aux: bool = False, chunk_size: int | None = None
) -> Callable[..., Any]:
    """Returns a function that computes the Jacobian of ``func`` by backward passes: cheap where outputs are few.

    Args:
        func: takes and returns nested tuples, lists and dicts of tensors.
        argnums: the place of the argument to differentiate by, or several.
        has_aux: ``func`` returns a pair, of which the second part is handed on as it is.
        chunk_size: how many rows are computed at once; None for all. Less needs less memory.

    Returns:
        A function that returns the Jacobian, of shape (output dims, input dims): nested as the output, and within that
        as the argument (a tuple of them for several ``argnums``).

    Example:
        >>> import tensorplay as tp
        >>> tp.func.jacrev(lambda x: x * x)(tp.tensor([1.0, 2.0]))
        tensor([[2., 0.],
                [0., 4.]])
    """
    return _jacrev("jacrev", func, argnums, has_aux, chunk_size)


def _jacrev(name: str, func: Function, argnums: Argnums, has_aux: bool, chunk_size: int | None) -> Callable[..., Any]:
    check_function(name, func)

    @functools.wraps(func, updated=())
    def jacobian(*args: Any, **kwargs: Any) -> Any:
        places = chosen(name, argnums, args)
        primals = tuple(args[i] for i in places)
        leaves, spec = tensors(name, "the arguments to differentiate by", primals)
        check_real(name, leaves)

        def of_chosen(*some: Any) -> Any:
            return func(*replaced(args, places, some), **kwargs)

        output, pull, *aux = pullback(name, of_chosen, primals, has_aux=has_aux)
        outputs, shape = tree_flatten(output)
        check_real(name, outputs)
        units = _unit_vectors(outputs)
        rows = vmap(lambda *v: pull(tree_unflatten(v, shape)), chunk_size=chunk_size)(*units)
        columns, _ = tree_flatten(rows)
        found = _nested(shape, spec, [_parts(column, outputs) for column in columns], isinstance(argnums, tuple))
        return (found, aux[0]) if has_aux else found

    return jacobian


def _nested(outer: TreeSpec, inner: TreeSpec, columns: Sequence[Sequence[Any]], several: bool) -> Any:
    """Returns blocks, one list for each leaf of the inner tree, nested as the outer and then as the inner tree is."""
    rows = [tree_unflatten(row, inner) for row in zip(*columns, strict=True)]
    return tree_unflatten([row if several else row[0] for row in rows], outer)


def jacfwd(
    func: Function,
    argnums: Argnums = 0,
    has_aux: bool = False,
    *,
    randomness: str = "error",
    chunk_size: int | None = None,
) -> Callable[..., Any]:
    """Returns a function that computes the Jacobian of ``func`` by tangents: cheap where inputs are few.

    Args:
        func: takes and returns nested tuples, lists and dicts of tensors.
        argnums: the place of the argument to differentiate by, or several.
        has_aux: ``func`` returns a pair, of which the second part is handed on as it is.
        randomness: what random operators in ``func`` do, as for ``vmap``.
        chunk_size: how many columns are computed at once; None for all.

    Returns:
        A function that returns the Jacobian, nested and shaped as :func:`jacrev`'s.

    Example:
        >>> import tensorplay as tp
        >>> tp.func.jacfwd(tp.sin)(tp.tensor(0.0))
        tensor(1.)
    """
    return _jacfwd("jacfwd", func, argnums, has_aux, randomness, chunk_size)


def _jacfwd(
    name: str, func: Function, argnums: Argnums, has_aux: bool, randomness: str, chunk_size: int | None
) -> Callable[..., Any]:
    check_function(name, func)

    @functools.wraps(func, updated=())
    def jacobian(*args: Any, **kwargs: Any) -> Any:
        places = chosen(name, argnums, args)
        primals = tuple(args[i] for i in places)
        leaves, spec = tensors(name, "the arguments to differentiate by", primals)
        check_real(name, leaves)

        def of_chosen(*some: Any) -> Any:
            return func(*replaced(args, places, some), **kwargs)

        kept: list[tuple[list[Any], TreeSpec]] = []

        def along(*direction: Any) -> Any:
            tangents = tree_unflatten(direction, spec)
            _, tangent, *aux = push(name, of_chosen, primals, tangents, has_aux=has_aux, copy=False)
            kept[:] = [tree_flatten(aux)]
            return tangent, [leaf for leaf in kept[0][0] if isinstance(leaf, TensorBase)]

        several = randomness == "different"  # there is an aux for each direction then: the first one is handed on
        batched = vmap(along, 0, (0, 0 if several else None), randomness, chunk_size=chunk_size)
        tangents, of_aux = batched(*_unit_vectors(leaves))
        of_aux = [value.select(0, 0) if several else value for value in of_aux]
        aux = tree_unflatten(_merged(kept[0][0], of_aux), kept[0][1])
        rows, shape = tree_flatten(tangents)
        check_real(name, rows)
        blocks = [[_to_end(part, x.ndim) for part, x in zip(_parts(row, leaves), leaves, strict=True)] for row in rows]
        columns = [[row[i] for row in blocks] for i in range(len(leaves))]
        found = _nested(shape, spec, columns, isinstance(argnums, tuple))
        return (found, aux[0]) if has_aux else found

    return jacobian


def _merged(leaves: Sequence[Any], tensors: Sequence[Tensor]) -> list[Any]:
    """Returns leaves with their tensors, in order, replaced."""
    rest = iter(tensors)
    return [next(rest) if isinstance(leaf, TensorBase) else leaf for leaf in leaves]


def _to_end(block: Tensor, ndim: int) -> Tensor:
    """Returns a block with its first dims, which are the input's, after the output's."""
    return block.permute([*range(ndim, block.ndim), *range(ndim)])


def hessian(func: Function, argnums: Argnums = 0) -> Callable[..., Any]:
    """Returns a function that computes the second derivatives of ``func``: tangents of the gradient.

    Args:
        func: returns a tensor, usually without dims.
        argnums: the place of the argument to differentiate by, or several.

    Returns:
        A function that returns the Hessian, of shape (output dims, input dims, input dims), nested as the output, the
        argument, and the argument again.

    Example:
        >>> import tensorplay as tp
        >>> tp.func.hessian(lambda x: (x ** 3).sum())(tp.tensor([1.0, 2.0]))
        tensor([[ 6.,  0.],
                [ 0., 12.]])
    """
    reverse = _jacrev("hessian", func, argnums, False, None)
    return _jacfwd("hessian", reverse, argnums, False, "error", None)
