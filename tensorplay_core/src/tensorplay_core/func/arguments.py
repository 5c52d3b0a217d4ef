"""What transforms check of functions, arguments and results, in one place and in one voice."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tensorplay_core.errors import ArgumentError, AutogradError, ShapeError, ValueRangeError, fix
from tensorplay_core.tensor.pytree import TreeSpec, leaves_as, tree_flatten
from tensorplay_core.tensor.tensor import Tensor, TensorBase

Argnums = int | tuple[int, ...]
Function = Callable[..., Any]


def check_function(transform: str, func: Any) -> None:
    """Refuses what cannot be called."""
    if not callable(func):
        raise ArgumentError(f"{transform} takes a function, not {func!r}")


def chosen(transform: str, argnums: Any, args: Sequence[Any]) -> tuple[int, ...]:
    """Returns the places of the arguments to differentiate by, not negative.

    Raises:
        ArgumentError, ValueRangeError: they are no such places.
    """
    numbers = argnums if isinstance(argnums, tuple) else (argnums,)
    if not numbers or not all(isinstance(n, int) and not isinstance(n, bool) for n in numbers):
        raise ArgumentError(f"{transform}: argnums is an int or a tuple of ints, not {argnums!r}")
    for n in numbers:
        if not -len(args) <= n < len(args):
            raise ValueRangeError(
                f"{transform}: argnums={argnums} is out of range for {len(args)} positional arguments"
                + fix("keyword arguments are not differentiated: pass those that shall be by position.")
            )
    found = tuple(n % len(args) for n in numbers)
    if len(set(found)) < len(found):
        raise ValueRangeError(f"{transform}: argnums={argnums} names an argument twice")
    return found


def replaced(args: Sequence[Any], places: Sequence[int], values: Sequence[Any]) -> tuple[Any, ...]:
    """Returns arguments with some others in their places."""
    changed = list(args)
    for place, value in zip(places, values, strict=True):
        changed[place] = value
    return tuple(changed)


def tensors(transform: str, what: str, tree: Any) -> tuple[list[Tensor], TreeSpec]:
    """Returns the leaves of a tree, all of them floating or complex tensors, and its shape.

    Raises:
        ArgumentError, AutogradError: one is not, or there is none.
    """
    leaves, spec = tree_flatten(tree)
    if not leaves:
        raise ArgumentError(f"{transform}: {what} has no tensor" + fix("pass at least one."))
    for leaf in leaves:
        if not isinstance(leaf, TensorBase):
            raise ArgumentError(
                f"{transform}: {what} must be tensors, and one value is {type(leaf).__name__}"
                + fix("convert it with tp.tensor(...), or choose argnums without it.")
            )
        if not leaf.dtype.is_inexact:
            raise AutogradError(
                f"{transform}: {what} must be floating or complex, and one tensor is {leaf.dtype.name}"
                + fix("convert it with .to(tp.float32).")
            )
    return leaves, spec


def split_aux(transform: str, has_aux: bool, result: Any) -> tuple[Any, Any]:
    """Returns a function's result and what it returns beside it, None without such a thing.

    Raises:
        ArgumentError: ``has_aux`` is set, and the function did not return a pair.
    """
    if not has_aux:
        return result, None
    if not isinstance(result, tuple) or len(result) != 2:
        raise ArgumentError(
            f"{transform}: with has_aux=True the function returns a pair (output, aux), not {type(result).__name__}"
        )
    return result


def check_scalar(transform: str, value: Any) -> None:
    """Refuses a result that has no gradient without a cotangent."""
    if not isinstance(value, TensorBase):
        raise ArgumentError(
            f"{transform}: the function must return a tensor, and returned {type(value).__name__}"
            + fix("return a 0-d tensor, such as a sum; with has_aux=True what else there is beside it.")
        )
    if value.ndim:
        raise ShapeError(
            f"{transform}: the function must return a tensor without dims, and returned one of shape {value.shape}"
            + fix("reduce it, e.g. with .sum(); or take vjp or jacrev.")
        )
    if not value.dtype.is_floating_point:
        raise AutogradError(
            f"{transform}: the function must return a real floating tensor, and returned {value.dtype.name}"
        )


def check_real(transform: str, leaves: Sequence[Tensor]) -> None:
    """Refuses complex tensors, of which a Jacobian would have to say how real and imaginary parts are seen."""
    for leaf in leaves:
        if leaf.dtype.is_complex:
            raise AutogradError(
                f"{transform}: arguments and results must be real, and one tensor is {leaf.dtype.name}"
                + fix("differentiate by the real and the imaginary part; or take vjp or jvp.")
            )


def check_alike(transform: str, what: str, found: Any, wanted: Sequence[Tensor], spec: TreeSpec) -> list[Tensor]:
    """Returns the leaves of cotangents or tangents, which are of the shapes that they must have.

    Raises:
        ArgumentError, ShapeError: they are not.
    """
    leaves = leaves_as(found, spec)
    if leaves is None:
        raise ArgumentError(f"{transform}: {what} must be nested as {spec}, and are {tree_flatten(found)[1]}")
    for leaf, tensor in zip(leaves, wanted, strict=True):
        if not isinstance(leaf, TensorBase):
            raise ArgumentError(f"{transform}: {what} must be tensors, and one value is {type(leaf).__name__}")
        if leaf.shape != tensor.shape:
            raise ShapeError(
                f"{transform}: one of {what} has shape {leaf.shape}, and what it belongs to {tensor.shape}"
                + fix(f"bring it to that shape, e.g. with .expand({tensor.shape}).")
            )
    return leaves
