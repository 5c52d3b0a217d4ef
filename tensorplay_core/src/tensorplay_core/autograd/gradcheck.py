"""Comparing gradients with finite differences, for users and for the test of every derivative record."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

from tensorplay_core.autograd import gradcheck_report as report
from tensorplay_core.autograd.api import grad
from tensorplay_core.autograd.gradcheck_report import GradcheckError, Settings, Worst
from tensorplay_core.autograd.jacobians import (
    Point,
    analytic,
    by_output,
    flat,
    forward,
    inexact,
    numeric,
    steps_of,
    tensor_of,
)
from tensorplay_core.autograd.modes import enable_grad
from tensorplay_core.errors import ArgumentError, fix
from tensorplay_core.tensor.tensor import Tensor, TensorBase

__all__ = ["GradcheckError", "gradcheck", "gradgradcheck"]


def gradcheck(
    func: Callable[..., Any],
    inputs: Tensor | Sequence[Any],
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_batched_forward_grad: bool = False,
    check_forward_ad: bool = False,
    check_backward_ad: bool = True,
    fast_mode: bool = False,
    masked: bool | None = None,
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
        nondet_tol: what two backward passes over one graph may differ by.
        check_undefined_grad: also back up from all outputs at once, where several reach one node.
        check_grad_dtypes: each gradient must have its input's dtype.
        check_batched_grad: must be False.
        check_batched_forward_grad: must be False.
        check_forward_ad: compare the tangents of forward mode too.
        check_backward_ad: compare gradients; False with ``check_forward_ad`` for forward mode alone.
        fast_mode: compare one random projection of each Jacobian, which takes two calls and one backward pass.
        masked: for sparse gradients, of which there are none: without effect.

    Raises:
        GradcheckError: they differ: where most, both values, what is allowed, and the likely cause.
        ArgumentError: no input requires grad, or the arguments contradict each other.

    Example:
        >>> import tensorplay as tp
        >>> x = tp.tensor([0.5, 2.0], dtype=tp.float64, requires_grad=True)
        >>> gradcheck(lambda x: x * x * x, x)
        True
    """
    if check_batched_grad or check_batched_forward_grad:
        raise ArgumentError(
            "gradcheck: gradients of a whole batch are not compared here"
            + fix("leave it at False, and compare tp.func.jacrev(func), which is vmap of the backward pass.")
        )
    if not (check_backward_ad or check_forward_ad):
        raise ArgumentError(
            "gradcheck: neither check_backward_ad nor check_forward_ad: there is nothing to check"
            + fix("leave one of them at True.")
        )
    settings = Settings("gradcheck", eps, atol, rtol, nondet_tol, check_grad_dtypes)
    point = _point(func, inputs)
    problem = None
    if check_backward_ad:
        problem = _backward_problem(point, settings, fast_mode, check_undefined_grad)
    if problem is None and check_forward_ad:
        problem = _forward_problem(point, settings)
    if problem is not None and raise_exception:
        raise GradcheckError(problem)
    return problem is None


def _point(func: Callable[..., Any], inputs: Any) -> Point:
    """Returns the function and its arguments, after a look at whether they can be checked."""
    arguments: list[Any] = list(inputs) if isinstance(inputs, (tuple, list)) else [inputs]
    checked = [i for i, v in enumerate(arguments) if isinstance(v, TensorBase) and v._node is not None]
    if not checked:
        raise GradcheckError(
            "gradcheck: no input requires grad, so there is nothing to check"
            + fix("make one with requires_grad=True and dtype=tp.float64.")
        )
    for i in checked:
        if _is_narrow(arguments[i]):
            warnings.warn(
                f"gradcheck: input {i} is {arguments[i].dtype.name}; differences of it are exact to few digits: "
                "use float64 or complex128, or a larger eps with larger tolerances",
                stacklevel=4,
            )
    return Point(func, arguments, checked)


def _is_narrow(x: Tensor) -> bool:
    return x.dtype.itemsize < (16 if x.is_complex() else 8)


def _backward_problem(point: Point, settings: Settings, fast: bool, undefined: bool) -> str | None:
    with enable_grad():
        outputs = inexact(point.function(*point.arguments))
    if fast and _projections_agree(point, outputs, settings):
        return None
    worst, last = _worst_gradient(point, outputs, settings)
    if worst is not None:
        return report.describe(worst, point, outputs, settings)
    if fast:
        return (
            f"{settings.name}: a random projection of the gradients is wrong, though each element is within its "
            "tolerance" + fix("use smaller tolerances without fast_mode to see which element it is.")
        )
    if last is not None and (text := report.nondeterministic(last, point, settings)) is not None:
        return text
    if undefined and len([y for y in outputs if y._node is not None]) > 1:
        return _joint_problem(point, outputs, settings)
    return None


def _worst_gradient(
    point: Point, outputs: list[Tensor], settings: Settings
) -> tuple[Worst | None, tuple[Tensor, Tensor, tuple[Any, ...]] | None]:
    """Returns the worst of the gradients that are wrong, and one backward pass: its output, seed and gradients."""
    along = {i: [numeric(point, i, settings.eps, step) for step in steps_of(point.arguments[i])] for i in point.checked}
    xs = point.inputs
    worst, last = Worst("gradient"), None
    for o, y in enumerate(outputs):
        by_element = {i: [by_output(rows, o, y.numel()) for rows in along[i]] for i in point.checked}
        for seed in steps_of(y):
            for j, found in enumerate(analytic(y, xs, seed)):
                for i, x, g in zip(point.checked, xs, found, strict=True):
                    if settings.dtypes and g is not None and g.dtype is not x.dtype:
                        raise GradcheckError(
                            f"{settings.name}: the gradient of input {i} is {g.dtype.name}, the input {x.dtype.name}"
                        )
                    values = [0.0] * x.numel() if g is None else flat(g)
                    # L = Re(conj(seed) * y), which for 1 and 1j is a part of y: along 1 it changes by Re(g), along 1j
                    # by Im(g).
                    parts = [[v.real if seed == 1 else v.imag for v in columns[j]] for columns in by_element[i]]
                    wanted = parts[0] if len(parts) == 1 else list(map(complex, *parts))
                    worst.see(values, wanted, (o, j, i), settings)
                if y._node is not None and last is None:
                    last = (y, tensor_of([seed if k == j else 0 for k in range(y.numel())], y), found)
    return (worst if worst.wrong else None), last


def _joint_problem(point: Point, outputs: list[Tensor], settings: Settings) -> str | None:
    """Compares one pass from all outputs with the sum of one from each: a node sees None for what is left out."""
    roots = [y for y in outputs if y._node is not None]
    seeds = [tensor_of([0.5 + 0.25 * (k % 5) for k in range(y.numel())], y) for y in roots]
    xs = point.inputs
    together = grad(roots, xs, seeds, retain_graph=True, allow_unused=True)
    sums = [[0.0] * x.numel() for x in xs]
    for y, seed in zip(roots, seeds, strict=True):
        for n, g in enumerate(grad(y, xs, seed, retain_graph=True, allow_unused=True)):
            if g is not None:
                sums[n] = [a + b for a, b in zip(sums[n], flat(g), strict=True)]
    for i, g, total in zip(point.checked, together, sums, strict=True):
        for k, (a, b) in enumerate(zip(flat(g) if g is not None else [0.0] * len(total), total, strict=True)):
            if not report.close(a, b, settings):
                return (
                    f"{settings.name}: backing up from all outputs gives {a!r} for element {k} of input {i}, and "
                    f"the sum of the passes from each alone {b!r}" + fix("see how backward treats a gradient of None.")
                )
    return None


def _projections_agree(point: Point, outputs: list[Tensor], settings: Settings) -> bool:
    """Compares v·J·u for random u and v: the difference of two calls, and one backward pass per output."""
    import random

    draw = random.Random(0)

    def vector(t: Tensor) -> list[Any]:
        return [
            complex(draw.uniform(0.5, 1), draw.uniform(0.5, 1)) if t.is_complex() else draw.uniform(0.5, 1)
            for _ in range(t.numel())
        ]

    eps, xs = settings.eps, point.inputs
    seeds = [vector(y) for y in outputs]
    for i, x in zip(point.checked, xs, strict=True):
        direction, at = vector(x), flat(x)
        ends = [
            point.outputs({i: tensor_of([a + sign * eps * u for a, u in zip(at, direction, strict=True)], x)})
            for sign in (1, -1)
        ]
        for y, seed, plus, minus in zip(outputs, seeds, *ends, strict=True):
            pairs = zip(seed, flat(plus), flat(minus), strict=True)
            wanted = sum((complex(v).conjugate() * (a - b)).real / (2 * eps) for v, a, b in pairs)
            found = 0.0
            if y._node is not None:
                (g,) = grad(y, x, tensor_of(seed, y), retain_graph=True, allow_unused=True)
                if g is not None:
                    found = sum((complex(a).conjugate() * u).real for a, u in zip(flat(g), direction, strict=True))
            room = max(1.0, sum(map(abs, direction)) * sum(map(abs, seed)))
            if not report.size(found - wanted) <= settings.atol * room + settings.rtol * report.size(wanted):
                return False
    return True


def _forward_problem(point: Point, settings: Settings) -> str | None:
    """Compares the tangents of forward mode with differences."""
    worst, outputs = Worst("tangent"), point.outputs()
    for i in point.checked:
        for step in steps_of(point.arguments[i]):
            wanted, found = numeric(point, i, settings.eps, step), forward(point, i, step)
            for o, y in enumerate(outputs):
                pairs = zip(by_output(found, o, y.numel()), by_output(wanted, o, y.numel()), strict=True)
                for j, (tangents, differences) in enumerate(pairs):
                    worst.see(tangents, differences, (o, j, i), settings)
    return report.describe(worst, point, outputs, settings) if worst.wrong else None


def gradgradcheck(
    func: Callable[..., Any],
    inputs: Tensor | Sequence[Any],
    grad_outputs: Tensor | Sequence[Tensor] | None = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    gen_non_contig_grad_outputs: bool = False,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_fwd_over_rev: bool = False,
    check_rev_over_rev: bool = True,
    fast_mode: bool = False,
    masked: bool | None = None,
) -> bool:
    """Checks the gradients of the gradients of ``func``, as :func:`gradcheck` does those of ``func``.

    The cotangents are inputs too, so that what a formula does with ``grad`` is checked as well.

    Args:
        func: a function of tensors that returns a tensor or several.
        inputs: its arguments, as for :func:`gradcheck`.
        grad_outputs: the cotangents, one per output that requires grad; made up when left out.
        gen_non_contig_grad_outputs: let those that are made up lie in memory with gaps.
        check_fwd_over_rev: compare the tangents of the gradients, by forward mode, too.
        check_rev_over_rev: compare the gradients of the gradients.
        eps: as for :func:`gradcheck`.
        atol: as there.
        rtol: as there.
        raise_exception: as there.
        nondet_tol: as there.
        check_undefined_grad: as there.
        check_grad_dtypes: as there.
        check_batched_grad: as there.
        fast_mode: as there.
        masked: as there.

    Raises:
        GradcheckError: as :func:`gradcheck`; input ``n`` and above, for ``n`` inputs, are the cotangents.

    Example:
        >>> import tensorplay as tp
        >>> x = tp.tensor([0.5, 2.0], dtype=tp.float64, requires_grad=True)
        >>> gradgradcheck(lambda x: x * x * x, x)
        True
    """
    arguments = list(inputs) if isinstance(inputs, (tuple, list)) else [inputs]
    with enable_grad():
        outputs = [y for y in inexact(func(*arguments)) if y._node is not None]
    if not outputs:
        raise GradcheckError(
            "gradgradcheck: no output depends on an input that requires grad" + fix("check it with gradcheck first.")
        )
    cotangents = _cotangents(outputs, grad_outputs, gen_non_contig_grad_outputs)
    count = len(arguments)

    def first(*values: Any) -> tuple[Any, ...]:
        args, seeds = list(values[:count]), values[count:]
        for i, original in enumerate(arguments):
            if isinstance(original, TensorBase) and original._node is not None and args[i]._node is None:
                args[i] = args[i].detach().requires_grad_()
        with enable_grad():
            made = [y for y in inexact(func(*args)) if y._node is not None]
        wanted = [args[i] for i, v in enumerate(arguments) if isinstance(v, TensorBase) and v._node is not None]
        found = grad(made, wanted, list(seeds), create_graph=True, allow_unused=True, materialize_grads=True)
        return tuple(found)

    try:
        return gradcheck(
            first,
            [*arguments, *cotangents],
            eps=eps,
            atol=atol,
            rtol=rtol,
            raise_exception=raise_exception,
            nondet_tol=nondet_tol,
            check_undefined_grad=check_undefined_grad,
            check_grad_dtypes=check_grad_dtypes,
            check_batched_grad=check_batched_grad,
            check_forward_ad=check_fwd_over_rev,
            check_backward_ad=check_rev_over_rev,
            fast_mode=fast_mode,
            masked=masked,
        )
    except GradcheckError as error:
        raise GradcheckError(str(error).replace("gradcheck: ", "gradgradcheck: ", 1)) from error.__cause__


def _cotangents(outputs: list[Tensor], given: Any, gaps: bool) -> list[Tensor]:
    """Returns the cotangents of a second-order check: those given, or numbers that differ from element to element."""
    if given is not None:
        found = list(given) if isinstance(given, (tuple, list)) else [given]
        if len(found) != len(outputs):
            raise ArgumentError(
                f"gradgradcheck: {len(found)} grad_outputs for {len(outputs)} outputs that require grad"
                + fix("give one for each such output, of its shape; or leave them out.")
            )
        return [g if g._node is not None else g.detach().requires_grad_() for g in found]
    made = []
    for y in outputs:
        values = [(0.5 + 0.37 * k) * (1 - 0.5j if y.is_complex() else 1) for k in range(y.numel())]
        seed = tensor_of(values, y)
        if gaps and seed.ndim:
            seed = seed.unsqueeze(-1).expand((*seed.shape, 2)).clone().select(-1, 0)
        made.append(seed.detach().requires_grad_())
    return made


gradcheck.GradcheckError = GradcheckError  # type: ignore[attr-defined]  # where PyTorch has it: in a module of this name
