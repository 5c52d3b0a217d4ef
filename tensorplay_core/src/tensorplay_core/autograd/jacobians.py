"""Jacobians in three ways, as Python numbers: by central differences, by backward passes, by dual numbers.

What :mod:`~tensorplay_core.autograd.gradcheck` compares. Elements are Python numbers, because core knows no array
library and the tensors that are checked are small.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import zip_longest
from typing import Any, NamedTuple

from tensorplay_core.autograd.api import grad
from tensorplay_core.dispatch.tensor_type import intern
from tensorplay_core.errors import ArgumentError, fix
from tensorplay_core.tensor.tensor import Tensor, TensorBase, wrap

Rows = list[list[Any]]
"""A Jacobian, one row per element of what comes first in the name of its function."""


class Point(NamedTuple):
    """A function and where it is checked.

    Attributes:
        function: of ``arguments``.
        arguments: all of them.
        checked: the places of those that require grad.
    """

    function: Callable[..., Any]
    arguments: list[Any]
    checked: list[int]

    @property
    def inputs(self) -> list[Tensor]:
        """The arguments that require grad."""
        return [self.arguments[i] for i in self.checked]

    def outputs(self, changed: dict[int, Tensor] | None = None) -> list[Tensor]:
        """Returns the floating outputs, where no gradient is recorded; some arguments may be others."""
        values = [v.detach() if isinstance(v, Tensor) else v for v in self.arguments]
        for i, value in (changed or {}).items():
            values[i] = value
        return inexact(self.function(*values))


def inexact(result: Any) -> list[Tensor]:
    """Returns the floating and complex tensors of a result.

    Raises:
        ArgumentError: there is no tensor in it at all.
    """
    many = result if isinstance(result, (tuple, list)) else (result,)
    if not any(isinstance(y, TensorBase) for y in many):
        kinds = ", ".join(type(y).__name__ for y in many) or "nothing"
        raise ArgumentError(
            f"gradcheck: the function returned {kinds}, which has no gradient"
            + fix("return a tensor or several; .item() and .numpy() lose the graph.")
        )
    return [y for y in many if isinstance(y, TensorBase) and y.dtype.is_inexact]  # type: ignore[misc]


def flat(t: Tensor) -> list[Any]:
    """Returns the elements in C order."""
    values = t.detach().reshape(-1).tolist()
    return values if isinstance(values, list) else [values]


def tensor_of(values: list[Any], like: Tensor) -> Tensor:
    """Returns a tensor of given elements, of another's shape, dtype and device."""
    type = intern(like.device, like.dtype)
    return wrap(type.api.from_list(values, type.native), type).reshape(like.shape)


def steps_of(x: Tensor) -> tuple[complex, ...]:
    """Returns the directions in which an element can change: a complex one has two."""
    return (1.0, 1j) if x.is_complex() else (1.0,)


def numeric(point: Point, i: int, eps: float, step: complex) -> list[Rows]:
    """Returns for every output its central differences along ``step``: a row of its elements per input element."""
    x = point.arguments[i].detach()
    values = flat(x)
    rows: list[list[list[Any]]] = []
    for k, value in enumerate(values):
        ends = []
        for sign in (1, -1):
            values[k] = value + sign * eps * step
            ends.append([flat(y) for y in point.outputs({i: tensor_of(values, x)})])
        values[k] = value
        pairs = [zip_longest(*pair, fillvalue=math.nan) for pair in zip(*ends, strict=True)]
        rows.append([[(a - b) / (2 * eps) for a, b in pair] for pair in pairs])
    return [list(row) for row in zip(*rows, strict=True)]


def by_output(rows: list[Rows], o: int, count: int) -> list[tuple[Any, ...]]:
    """Returns the derivatives of each of the ``count`` elements of output ``o`` by all elements of the input.

    NaN stands for those of an element that is not there when the input is a little different, as after ``unique``.
    """
    if not rows:
        return [()] * count
    columns = list(zip_longest(*rows[o], fillvalue=math.nan))[:count]
    return [*columns, *[(math.nan,) * len(rows[o])] * (count - len(columns))]


def analytic(y: Tensor, xs: Sequence[Tensor], seed: complex) -> Iterator[tuple[Any, ...]]:
    """Yields for each element of an output the gradients of it times ``seed``, one per input, None for none."""
    count = y.numel()
    for j in range(count):
        if y._node is None:
            yield (None,) * len(xs)
        else:
            cotangent = tensor_of([seed if k == j else 0 for k in range(count)], y)
            yield grad(y, xs, cotangent, retain_graph=True, allow_unused=True)


def forward(point: Point, i: int, step: complex) -> list[Rows]:
    """Returns for every output its tangents along ``step``, by dual numbers: a row per input element."""
    from tensorplay_core.autograd import forward_ad

    x = point.arguments[i].detach().requires_grad_()  # so that gradients can be taken inside the function
    count = x.numel()
    rows: list[list[list[Any]]] = []
    for k in range(count):
        with forward_ad.dual_level():
            tangent = tensor_of([step if j == k else 0 for j in range(count)], x)
            rows.append([_tangent(y) for y in point.outputs({i: forward_ad.make_dual(x, tangent)})])
    return [list(row) for row in zip(*rows, strict=True)]


def _tangent(y: Tensor) -> list[Any]:
    from tensorplay_core.autograd import forward_ad

    tangent = forward_ad.unpack_dual(y).tangent
    return [0.0] * y.numel() if tangent is None else flat(tangent)
