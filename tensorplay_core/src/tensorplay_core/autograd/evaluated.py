"""A function at its inputs: what the derivatives of :mod:`~tensorplay_core.autograd.functional` start from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tensorplay_core.autograd.api import grad
from tensorplay_core.dispatch import active
from tensorplay_core.errors import ArgumentError, AutogradError, fix
from tensorplay_core.tensor import dual
from tensorplay_core.tensor.tensor import Tensor, TensorBase

Tensors = Tensor | tuple[Tensor, ...]
Function = Callable[..., Any]


class Product:
    """What the products of derivatives and vectors have in common.

    Args:
        name: who asks, for messages.
        create_graph: whether results can be differentiated.
    """

    def __init__(self, name: str, create_graph: bool) -> None:
        """See the class."""
        self.name, self.create_graph = name, create_graph

    def vectors(self, v: Any, like: tuple[Tensor, ...], many: bool, what: str) -> tuple[Tensor | None, ...]:
        """Returns the vectors of a product, one per tensor of ``like``.

        Raises:
            AutogradError: they are fewer or more, or of other shapes; or left out where they are not implied.
        """
        if v is None:
            if len(like) != 1 or like[0].numel() != 1:
                raise AutogradError(
                    f"{self.name}: v can be left out only where {what} is a single tensor of one element"
                    + fix(f"pass v of the shape of {what}.")
                )
            return (None,)
        vs = tuple([copy(x, self.create_graph, False) for x in as_tuple(v, "v", self.name)[0]])
        if len(vs) != len(like):
            raise AutogradError(
                f"{self.name}: v has {len(vs)} tensors, and {what} {len(like)}"
                + fix(f"pass one for each: {len(like)}.")
            )
        for i, (x, y) in enumerate(zip(vs, like, strict=True)):
            if x.shape != y.shape:
                where = f"entry {i} of v" if many else "v"
                raise AutogradError(
                    f"{self.name}: {where} has shape {x.shape}, and {what} {y.shape}" + fix("let it have that shape.")
                )
        return vs

    def kept(self, values: tuple[Tensor, ...], many: bool) -> Tensors:
        """Returns tensors without their graph, unless it was asked for."""
        if not self.create_graph:
            values = tuple([y.detach() for y in values])
        return values if many else values[0]


class Evaluated(Product):
    """A function at its inputs: what all products start from.

    Args:
        name: who asks, for messages.
        func: the function.
        inputs: its arguments.
        create_graph, strict: as the caller was given them.
        scalar: whether the output must be one element.
    """

    def __init__(
        self, name: str, func: Function, inputs: Any, create_graph: bool, strict: bool, scalar: bool = False
    ) -> None:
        """See the class."""
        super().__init__(name, create_graph)
        self.strict = strict
        given, self.inputs_are_tuple = as_tuple(inputs, "inputs", name)
        for i, x in enumerate(given):
            if not x.dtype.is_inexact:
                raise AutogradError(
                    f"{name}: input {i} is {x.dtype.name}, and only floating and complex tensors have derivatives"
                    + fix("convert it with .to(tp.float32); give what is no variable to the function otherwise.")
                )
        self.inputs = tuple([copy(x, create_graph, True) for x in given])
        self.outputs, self.outputs_are_tuple = as_tuple(
            func(*self.inputs), "outputs of the user-provided function", name
        )
        if scalar and (self.outputs_are_tuple or self.outputs[0].numel() != 1):
            shapes = ", ".join(str(y.shape) for y in self.outputs)
            raise AutogradError(
                f"{name}: the function must return a single tensor of one element, and returned {shapes}"
                + fix("reduce its result, e.g. with .sum().")
            )
        if strict:
            for i, y in enumerate(self.outputs):
                if y._node is None:
                    raise AutogradError(
                        f"{name}: output {i} of the function does not depend on its inputs, which strict forbids"
                        + fix("compute it from the inputs, or pass strict=False for zeros.")
                    )

    def gradients(self, seeds: Sequence[Tensor | None], graph: bool) -> tuple[Tensor, ...]:
        """Returns the gradients of the outputs with respect to the inputs."""
        found = gradients_of(self.outputs, self.inputs, seeds, graph)
        return self.filled(found, self.inputs, "the function's result does not depend on input", False)

    def filled(
        self, found: Sequence[Tensor | None], like: Sequence[Tensor], problem: str, recorded: bool
    ) -> tuple[Tensor, ...]:
        """Returns gradients with zeros for None.

        Raises:
            AutogradError: ``strict``, and there is a None, or one that cannot be differentiated where it must be.
        """
        for i, g in enumerate(found):
            if self.strict and (g is None or (recorded and g._node is None)):
                raise AutogradError(
                    f"{self.name}: {problem} {i}, which strict forbids" + fix("pass strict=False for zeros.")
                )
        return tuple([x.new_zeros(x.shape) if g is None else g for g, x in zip(found, like, strict=True)])

    def result(self, product: tuple[Tensor, ...], many: bool) -> tuple[Tensors, Tensors]:
        """Returns the outputs and a product as the caller gets them."""
        return self.kept(self.outputs, self.outputs_are_tuple), self.kept(product, many)


def as_tuple(value: Any, what: str, name: str) -> tuple[tuple[Tensor, ...], bool]:
    """Returns a tensor or a tuple of them as a tuple, and whether it was one.

    Raises:
        ArgumentError: it is something else.
    """
    many = isinstance(value, tuple)
    values = value if many else (value,)
    for i, x in enumerate(values):
        if not isinstance(x, TensorBase):
            where = f" at index {i}" if many else ""
            raise ArgumentError(
                f"{name}: the {what} must be a Tensor or a tuple of Tensors, not {type(x).__name__}{where}"
                + fix("make tensors of numbers with tp.tensor(...), and a tuple of a list.")
            )
    return values, many


def copy(x: Tensor, create_graph: bool, requires_grad: bool) -> Tensor:
    """Returns another tensor, so that what the function closes over is not taken for its argument."""
    if create_graph and x._node is not None:
        return x.reshape(x.shape)
    y = x.detach()
    if active.levels:
        dual.carry(x, y)
    return y.requires_grad_() if requires_grad and y.dtype.is_inexact else y


def gradients_of(
    outputs: Sequence[Tensor], inputs: Sequence[Tensor], seeds: Sequence[Tensor | None], graph: bool
) -> tuple[Tensor | None, ...]:
    """Returns gradients; None where nothing depends on an input, also where an input cannot have a gradient."""
    roots = [(y, v) for y, v in zip(outputs, seeds, strict=True) if y._node is not None]
    wanted = [x for x in inputs if x._node is not None]
    if not roots or not wanted:
        return (None,) * len(inputs)
    found = iter(
        grad([y for y, _ in roots], wanted, [v for _, v in roots], True, create_graph=graph, allow_unused=True)
    )
    return tuple([next(found) if x._node is not None else None for x in inputs])
