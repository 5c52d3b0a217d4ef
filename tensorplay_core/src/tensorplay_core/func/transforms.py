"""``grad``, ``vjp``, ``jvp`` and ``linearize``: one derivative of a function, along one direction."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from tensorplay_core.autograd.api import grad as backward
from tensorplay_core.errors import ArgumentError, AutogradError, fix
from tensorplay_core.func.arguments import (
    Argnums,
    Function,
    check_alike,
    check_function,
    check_scalar,
    chosen,
    replaced,
    split_aux,
    tensors,
)
from tensorplay_core.func.levels import Opened, opened, opened_tangents
from tensorplay_core.tensor.pytree import TreeSpec, leaves_as, tree_flatten, tree_map, tree_unflatten
from tensorplay_core.tensor.tensor import Tensor, TensorBase


def _gradients(
    at: Opened,
    outputs: Sequence[Tensor],
    inputs: Sequence[Tensor],
    cotangents: Sequence[Tensor | None],
    *,
    keep: bool,
    create_graph: bool = True,
) -> list[Tensor]:
    """Returns the gradients of some results by the level's inputs, zeros where they do not depend on one."""
    pairs = [(y, v) for y, v in zip(outputs, cotangents, strict=True) if y._node is not None]
    if not pairs:
        return [_zeros(at, x) for x in inputs]
    graph = create_graph and at.needs_graph([t for pair in pairs for t in pair if t is not None])
    found = backward(
        [y for y, _ in pairs],
        list(inputs),
        [v for _, v in pairs],
        retain_graph=keep or graph,
        create_graph=graph,
        allow_unused=True,
    )
    return [_zeros(at, x) if g is None else at.outside(g) for x, g in zip(inputs, found, strict=True)]


def _zeros(at: Opened, x: Any) -> Tensor:
    plain: Tensor = at.outside(x)
    return plain.new_zeros(plain.shape)


def grad_and_value(func: Function, argnums: Argnums = 0, has_aux: bool = False) -> Callable[..., Any]:
    """Returns a function that computes the gradient of ``func`` and its value.

    Args:
        func: returns a real tensor without dims.
        argnums: the place of the argument to differentiate by, or several; an argument may be nested tuples, lists and
            dicts of tensors.
        has_aux: ``func`` returns a pair, of which the second part is handed on as it is.

    Returns:
        A function that returns ``(gradient, value)``, or ``(gradient, (value, aux))``.

    Example:
        >>> import tensorplay as tp
        >>> tp.func.grad_and_value(lambda x: x ** 3)(tp.tensor(2.0))
        (tensor(12.), tensor(8.))
    """

    def returned(gradient: Any, value: Any, aux: Any) -> Any:
        return gradient, (value, aux) if has_aux else value

    return _grad("grad_and_value", func, argnums, has_aux, returned)


def grad(func: Function, argnums: Argnums = 0, has_aux: bool = False) -> Callable[..., Any]:
    """Returns a function that computes the gradient of ``func``.

    Args:
        func: returns a real tensor without dims.
        argnums: the place of the argument to differentiate by, or several; an argument may be nested tuples, lists and
            dicts of tensors.
        has_aux: ``func`` returns a pair, of which the second part is handed on as it is.

    Returns:
        A function that returns the gradient, nested as the argument is; a tuple of them for several ``argnums``; with
        ``has_aux`` a pair of that and what ``func`` returned beside its value.

    Raises:
        ShapeError: ``func`` returns a tensor with dims.

    Example:
        >>> import tensorplay as tp
        >>> tp.func.grad(tp.func.grad(tp.sin))(tp.tensor(0.5))
        tensor(-0.4794)
        >>> def loss(w, x, y):
        ...     return ((x @ w - y) ** 2).mean()
        >>> x, y = tp.eye(2), tp.tensor([1.0, 3.0])
        >>> tp.func.grad(loss)(tp.zeros(2), x, y)
        tensor([-1., -3.])
    """
    return _grad("grad", func, argnums, has_aux, lambda g, value, aux: (g, aux) if has_aux else g)


def _grad(
    name: str, func: Function, argnums: Argnums, has_aux: bool, returned: Callable[[Any, Any, Any], Any]
) -> Callable[..., Any]:
    check_function(name, func)

    @functools.wraps(func, updated=())
    def gradient(*args: Any, **kwargs: Any) -> Any:
        places = chosen(name, argnums, args)
        leaves, spec = tensors(name, "the arguments to differentiate by", tuple(args[i] for i in places))
        with opened(name) as at:
            inputs = [at.inside(leaf) for leaf in leaves]
            value, aux = split_aux(name, has_aux, func(*replaced(args, places, tree_unflatten(inputs, spec)), **kwargs))
            check_scalar(name, value)
        found = _gradients(at, [value], inputs, [None], keep=False)
        result = tree_unflatten(found, spec)
        result = result if isinstance(argnums, tuple) else result[0]
        return returned(result, at.outside(value), tree_map(at.outside, aux))

    return gradient


def vjp(func: Function, *primals: Any, has_aux: bool = False) -> tuple[Any, ...]:
    """Returns ``func(*primals)`` and a function that multiplies a cotangent with its Jacobian, from the left.

    Args:
        func: takes and returns nested tuples, lists and dicts of tensors.
        primals: its arguments.
        has_aux: ``func`` returns a pair, of which the second part is handed on as it is.

    Returns:
        ``(output, vjp_fn)``, with ``has_aux`` also what was returned beside it. ``vjp_fn`` takes a cotangent that is
        nested and shaped as the output (as one argument, or an argument for each part of a tuple) and returns a tuple
        with the product for each primal. It may be called several times; not any more after ``retain_graph=False``.
        With ``create_graph=False`` the products cannot be differentiated.

    Example:
        >>> import tensorplay as tp
        >>> y, pull = tp.func.vjp(lambda x: x * x, tp.tensor([1.0, 2.0]))
        >>> y, pull(tp.tensor([1.0, 10.0]))
        (tensor([1., 4.]), (tensor([ 2., 40.]),))
    """
    return pullback("vjp", func, primals, has_aux=has_aux)


def pullback(transform: str, func: Function, primals: tuple[Any, ...], *, has_aux: bool = False) -> tuple[Any, ...]:
    """Does what :func:`vjp` does, for a transform of some name."""
    check_function(transform, func)
    if not primals:
        raise ArgumentError(f"{transform}: there are no primals" + fix("pass the arguments of the function after it."))
    leaves, spec = tensors(transform, "primals", primals)
    with opened(transform) as at:
        inputs = [at.inside(leaf) for leaf in leaves]
        output, aux = split_aux(transform, has_aux, func(*tree_unflatten(inputs, spec)))
        outputs, shape = _outputs(transform, output)

    def pull(*cotangents: Any, retain_graph: bool = True, create_graph: bool | None = None) -> tuple[Any, ...]:
        alone = len(cotangents) == 1 and (shape.kind is not tuple or leaves_as(cotangents[0], shape) is not None)
        given = check_alike(transform, "the cotangents", cotangents[0] if alone else cotangents, outputs, shape)
        found = _gradients(at, outputs, inputs, given, keep=retain_graph, create_graph=create_graph is not False)
        products: tuple[Any, ...] = tree_unflatten(found, spec)
        return products

    pull.__name__ = "vjp_fn"
    found = tree_unflatten(list(map(at.outside, outputs)), shape)
    return (found, pull, tree_map(at.outside, aux)) if has_aux else (found, pull)


def _outputs(transform: str, output: Any) -> tuple[list[Any], TreeSpec]:
    leaves, spec = tree_flatten(output)
    for leaf in leaves:
        if not isinstance(leaf, TensorBase):
            raise ArgumentError(
                f"{transform}: the function must return tensors, and returned {type(leaf).__name__}"
                + fix("return nested tuples, lists and dicts of tensors; with has_aux=True anything beside them.")
            )
    return leaves, spec


def jvp(
    func: Function, primals: tuple[Any, ...], tangents: tuple[Any, ...], *, strict: bool = False, has_aux: bool = False
) -> tuple[Any, ...]:
    """Returns ``func(*primals)`` and the product of its Jacobian and a tangent, computed together.

    Args:
        func: takes and returns nested tuples, lists and dicts of tensors.
        primals: a tuple of its arguments.
        tangents: a tuple of directions, nested and shaped as the primals.
        strict: refuse an output that does not depend on the primals, rather than give zeros.
        has_aux: ``func`` returns a pair, of which the second part is handed on as it is.

    Returns:
        ``(output, tangent)``, with ``has_aux`` also what was returned beside the output.

    Example:
        >>> import tensorplay as tp
        >>> tp.func.jvp(lambda x: x * x, (tp.tensor([1.0, 2.0]),), (tp.tensor([1.0, 10.0]),))
        (tensor([1., 4.]), tensor([ 2., 40.]))
    """
    return push("jvp", func, primals, tangents, strict=strict, has_aux=has_aux)


def push(
    transform: str,
    func: Function,
    primals: Any,
    tangents: Any,
    *,
    strict: bool = False,
    has_aux: bool = False,
    copy: bool = True,
) -> tuple[Any, ...]:
    """Does what :func:`jvp` does, for a transform of some name, which may have made the tangents for this alone."""
    check_function(transform, func)
    for what, value in (("primals", primals), ("tangents", tangents)):
        if not isinstance(value, tuple):
            raise ArgumentError(
                f"{transform}: {what} is a tuple, not {type(value).__name__}" + fix(f"write ({what},).")
            )
    leaves, spec = tensors(transform, "primals", primals)
    directions = check_alike(transform, "the tangents", tangents, leaves, spec)
    with opened_tangents(transform) as at:
        inputs = [at.inside(leaf, direction, copy=copy) for leaf, direction in zip(leaves, directions, strict=True)]
        output, aux = split_aux(transform, has_aux, func(*tree_unflatten(inputs, spec)))
        outputs, shape = _outputs(transform, output)
        pairs = [at.outside(leaf) for leaf in outputs]
        aux = tree_map(lambda leaf: at.outside(leaf)[0], aux)
    if strict and any(tangent is None for _, tangent in pairs):
        raise AutogradError(f"{transform}: an output does not depend on the primals, which strict=True refuses")
    values = tree_unflatten([value for value, _ in pairs], shape)
    found = tree_unflatten([value.new_zeros(value.shape) if t is None else t for value, t in pairs], shape)
    return (values, found, aux) if has_aux else (values, found)


def linearize(func: Function, *primals: Any) -> tuple[Any, Callable[..., Any]]:
    """Returns ``func(*primals)`` and its derivative there, a linear function of tangents.

    The function is evaluated once, however many tangents follow: the derivative is the transpose of the transposed
    Jacobian, both by backward passes.

    Args:
        func: takes and returns nested tuples, lists and dicts of tensors.
        primals: its arguments.

    Returns:
        ``(output, jvp_fn)``; ``jvp_fn(*tangents)`` returns the tangent of the output.

    Example:
        >>> import tensorplay as tp
        >>> y, push = tp.func.linearize(tp.exp, tp.tensor([0.0, 1.0]))
        >>> push(tp.tensor([1.0, 0.0])), push(tp.tensor([0.0, 1.0]))
        (tensor([1., 0.]), tensor([0.0000, 2.7183]))
    """
    check_function("linearize", func)
    leaves, spec = tensors("linearize", "primals", primals)
    output, pull = pullback("linearize", func, primals)
    outputs, shape = tree_flatten(output)
    zeros = tree_unflatten([y.new_zeros(y.shape) for y in outputs], shape)
    _, transposed = pullback("linearize", pull, (zeros,))

    def derivative(*tangents: Any) -> Any:
        given = check_alike("linearize", "the tangents", tangents, leaves, spec)
        return transposed(tree_unflatten(given, spec))[0]

    return output, derivative
