"""Comparing gradients with finite differences, for users and for the test of every derivative record."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from tensorplay_core.autograd.api import grad
from tensorplay_core.errors import AutogradError
from tensorplay_core.tensor.tensor import Tensor, TensorBase


def _differentiable(values: Sequence[Any]) -> list[Tensor]:
    return [v for v in values if isinstance(v, Tensor) and v.requires_grad]


def _outputs(result: Any) -> list[Tensor]:
    many = result if isinstance(result, (tuple, list)) else (result,)
    return [y for y in many if isinstance(y, TensorBase) and y.dtype.is_inexact]  # type: ignore[misc]


def _flat(t: Tensor) -> list[Any]:
    values = t.detach().reshape(-1).tolist()
    return values if isinstance(values, list) else [values]


def _perturbed(t: Tensor, i: int, delta: complex) -> Tensor:
    """Returns a copy of a tensor with element ``i`` changed."""
    values = _flat(t)
    values[i] += delta
    return _as_tensor(values, t).reshape(t.shape)


def _as_tensor(values: list[Any], like: Tensor) -> Tensor:
    from tensorplay_core.dispatch.tensor_type import intern
    from tensorplay_core.tensor.tensor import wrap

    type = intern(like.device, like.dtype)
    return wrap(type.api.from_list(values, type.native), type)


Rows = list[list[Any]]


def _numeric(func: Callable[..., Any], arguments: Sequence[Any], i: int, eps: float, step: complex) -> list[Rows]:
    """Returns d output / d argument ``i`` along ``step`` for every output: a row of its elements per input element."""
    plain = [v.detach() if isinstance(v, Tensor) else v for v in arguments]
    x = plain[i]
    rows: list[Rows] = []
    for k in range(x.numel()):
        ends = []
        for sign in (1, -1):
            plain[i] = _perturbed(x, k, sign * eps * step)
            ends.append([_flat(y) for y in _outputs(func(*plain))])
        rows.append([[(a - b) / (2 * eps) for a, b in zip(*pair, strict=True)] for pair in zip(*ends, strict=True)])
    return [list(row) for row in zip(*rows, strict=True)]


def _analytic(y: Tensor, xs: Sequence[Tensor], seed: complex) -> list[Rows]:
    """Returns the gradient of each element of ``y`` times ``seed`` for every input: one row per element of ``y``."""
    rows: list[Rows] = []
    for j in range(y.numel()):
        if y._node is None:
            rows.append([[0.0] * x.numel() for x in xs])
            continue
        values = [seed if k == j else 0 for k in range(y.numel())]
        cotangent = _as_tensor(values, y).reshape(y.shape)
        found = grad(y, xs, cotangent, retain_graph=True, allow_unused=True)
        rows.append([[0.0] * x.numel() if g is None else _flat(g) for g, x in zip(found, xs, strict=True)])
    return [list(row) for row in zip(*rows, strict=True)]


def gradcheck(
    func: Callable[..., Any],
    inputs: Tensor | Sequence[Any],
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
) -> bool:
    """Compares the gradients of ``func`` with central differences, element by element.

    For complex tensors the gradient is PyTorch's: the conjugate of the Wirtinger derivative, so that for a real ``L``
    it points to steepest ascent; each output is checked along 1 and 1j.

    Args:
        func: a function of tensors that returns a tensor or several.
        inputs: its arguments; those that require grad are checked and should be float64 or complex128.
        eps: half the step of the difference.
        atol: what is allowed between the two.
        rtol: what is allowed besides, as a part of the difference quotient.
        raise_exception: raise rather than return False.

    Raises:
        AutogradError: with input, output, both values and the worst element.

    Example:
        >>> import tensorplay as tp
        >>> x = tp.tensor([0.5, 2.0], dtype=tp.float64, requires_grad=True)
        >>> gradcheck(lambda x: x * x * x, x)
        True
    """
    arguments: list[Any] = list(inputs) if isinstance(inputs, (tuple, list)) else [inputs]
    checked = [i for i, v in enumerate(arguments) if isinstance(v, TensorBase) and v.requires_grad]  # type: ignore[attr-defined]
    if not checked:
        raise AutogradError("gradcheck: no input requires grad, so there is nothing to check")
    for i in checked:
        if arguments[i].dtype.itemsize < (16 if arguments[i].is_complex() else 8):
            raise AutogradError(
                f"gradcheck: input {i} is {arguments[i].dtype.name}; differences need float64 or complex128"
            )
    problem = _first_problem(func, arguments, checked, eps, atol, rtol)
    if problem is not None and raise_exception:
        raise AutogradError(problem)
    return problem is None


def _first_problem(
    func: Callable[..., Any], arguments: list[Any], checked: list[int], eps: float, atol: float, rtol: float
) -> str | None:
    outputs = _outputs(func(*arguments))
    along: dict[int, dict[complex, list[Rows]]] = {i: {1.0: _numeric(func, arguments, i, eps, 1.0)} for i in checked}
    for i in checked:
        if arguments[i].is_complex():
            along[i][1j] = _numeric(func, arguments, i, eps, 1j)
    xs = [arguments[i] for i in checked]
    for o, y in enumerate(outputs):
        for seed in (1.0, 1j) if y.is_complex() else (1.0,):
            for i, rows in zip(checked, _analytic(y, xs, seed), strict=False):
                quotients = {step: found[o] for step, found in along[i].items() if found}
                problem = _compare(rows, quotients, seed, atol, rtol)
                if problem is not None:
                    return f"gradcheck: the gradient of output {o} with respect to input {i} is wrong: {problem}"
    return None


def _compare(rows: Rows, along: dict[complex, Rows], seed: complex, atol: float, rtol: float) -> str | None:
    """Returns the worst of the elements that differ, or None."""
    worst, text = -1.0, None
    for j, row in enumerate(rows):
        for k, found in enumerate(row):
            # L = Re(conj(seed) * y): its derivative along 1 is Re(g), along 1j it is Im(g).
            wanted = (_conj(seed) * along[1.0][k][j]).real
            if 1j in along:
                wanted = complex(wanted, (_conj(seed) * along[1j][k][j]).real)
            difference = abs(found - wanted)
            if not _close(found, wanted, atol, rtol) and not difference <= worst:
                worst = difference if difference == difference else math.inf
                text = (
                    f"element {j} of the output by element {k} of the input is {found!r}, "
                    f"the difference quotient {wanted!r} (difference {difference:.3e})"
                )
    return text


def _conj(value: complex) -> complex:
    return complex(value).conjugate()


def _close(a: complex, b: complex, atol: float, rtol: float) -> bool:
    if a != a or b != b:
        return False
    return a == b or abs(a - b) <= atol + rtol * abs(b)


def gradgradcheck(
    func: Callable[..., Any],
    inputs: Tensor | Sequence[Any],
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
) -> bool:
    """Checks the gradients of the gradients of ``func``, as :func:`gradcheck` does those of ``func``.

    The cotangents are inputs too, so that what a formula does with ``grad`` is checked as well.

    Example:
        >>> import tensorplay as tp
        >>> x = tp.tensor([0.5, 2.0], dtype=tp.float64, requires_grad=True)
        >>> gradgradcheck(lambda x: x * x * x, x)
        True
    """
    arguments = list(inputs) if isinstance(inputs, (tuple, list)) else [inputs]
    outputs = [y for y in _outputs(func(*arguments)) if y._node is not None]
    if not outputs:
        raise AutogradError("gradgradcheck: no output depends on an input that requires grad")
    cotangents = []
    for y in outputs:
        values = [(0.5 + 0.37 * k) * (1 - 0.5j if y.is_complex() else 1) for k in range(y.numel())]
        cotangents.append(_as_tensor(values, y).reshape(y.shape).detach().requires_grad_())
    count = len(arguments)

    def first(*values: Any) -> tuple[Any, ...]:
        args, seeds = list(values[:count]), values[count:]
        for i, original in enumerate(arguments):
            if isinstance(original, Tensor) and original.requires_grad and not args[i].requires_grad:
                args[i] = args[i].detach().requires_grad_()
        wanted = _differentiable(args)
        made = [y for y in _outputs(func(*args)) if y._node is not None]
        found = grad(made, wanted, list(seeds), create_graph=True, allow_unused=True, materialize_grads=True)
        return tuple(found)

    return gradcheck(first, [*arguments, *cotangents], eps=eps, atol=atol, rtol=rtol, raise_exception=raise_exception)
