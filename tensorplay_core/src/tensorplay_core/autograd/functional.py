"""Derivatives of functions, rather than of tensors: Jacobians, Hessians, and their products with vectors.

The arguments are PyTorch's. Inputs and outputs are a tensor or a tuple of tensors, and so are the results. With
``create_graph`` results can be differentiated again, also with respect to what the function closes over; with
``strict`` an output that does not depend on an input is an error rather than zeros.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tensorplay_core.autograd.evaluated import Evaluated, Function, Product, Tensors, as_tuple, copy, gradients_of
from tensorplay_core.autograd.jacobians import tensor_of
from tensorplay_core.autograd.modes import enable_grad
from tensorplay_core.dispatch.registry import REGISTRY
from tensorplay_core.errors import AutogradError, ValueRangeError, fix
from tensorplay_core.tensor.tensor import Tensor

__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]

STRATEGIES = ("reverse-mode", "forward-mode")


def vjp(
    func: Function, inputs: Tensors, v: Tensors | None = None, create_graph: bool = False, strict: bool = False
) -> tuple[Tensors, Tensors]:
    """Returns ``func(*inputs)`` and the product of ``v`` with its Jacobian.

    Args:
        func: a function of tensors that returns a tensor or a tuple of them.
        inputs: its arguments.
        v: of the shapes of the outputs; may be left out for a single output of one element.
        create_graph: let the results be differentiated.
        strict: refuse outputs that do not depend on the inputs.

    Returns:
        The outputs, and a gradient of the shape of each input.

    Raises:
        AutogradError: ``v`` does not fit, or ``strict`` finds no dependence.

    Example:
        >>> import tensorplay as tp
        >>> vjp(lambda x: x * x, tp.tensor([1.0, 2.0]), tp.tensor([1.0, 10.0]))
        (tensor([1., 4.]), tensor([ 2., 40.]))
    """
    with enable_grad():
        at = Evaluated("vjp", func, inputs, create_graph, strict)
        seeds = at.vectors(v, at.outputs, at.outputs_are_tuple, "the function's result")
        return at.result(at.gradients(seeds, create_graph), at.inputs_are_tuple)


def jvp(
    func: Function,
    inputs: Tensors,
    v: Tensors | None = None,
    create_graph: bool = False,
    strict: bool = False,
    strategy: str = "reverse-mode",
) -> tuple[Tensors, Tensors]:
    """Returns ``func(*inputs)`` and the product of its Jacobian with ``v``.

    Args:
        func: a function of tensors that returns a tensor or a tuple of them.
        inputs: its arguments.
        v: of the shapes of the inputs; may be left out for a single input of one element.
        create_graph: let the results be differentiated.
        strict: refuse outputs that do not depend on the inputs.
        strategy: ``"reverse-mode"``, which differentiates a gradient with respect to its cotangent; or
            ``"forward-mode"``, by dual numbers.

    Returns:
        The outputs, and a tangent of the shape of each output.

    Raises:
        AutogradError: ``v`` does not fit, or ``strict`` finds no dependence.

    Example:
        >>> import tensorplay as tp
        >>> jvp(lambda x: x * x, tp.tensor([1.0, 2.0]), tp.tensor([1.0, 10.0]))
        (tensor([1., 4.]), tensor([ 2., 40.]))
    """
    if _strategy("jvp", strategy) == "forward-mode":
        return _forward_jvp(func, inputs, v, create_graph, strict)
    with enable_grad():
        at = Evaluated("jvp", func, inputs, create_graph, strict)
        tangents = at.vectors(v, at.inputs, at.inputs_are_tuple, "the function's input")
        # The gradient is linear in its cotangent: its derivative along the tangents is the Jacobian times them.
        seeds = [y.new_zeros(y.shape).requires_grad_() for y in at.outputs]
        grads = at.gradients(seeds, True)
        product = at.filled(
            gradients_of(grads, seeds, tangents, create_graph),
            at.outputs,
            "the inputs have no influence on output",
            create_graph,
        )
        return at.result(product, at.outputs_are_tuple)


def _strategy(name: str, strategy: str) -> str:
    if strategy not in STRATEGIES:
        raise ValueRangeError(
            f"{name}: the strategy is 'reverse-mode' or 'forward-mode', not {strategy!r}"
            + fix("leave it out, or take 'forward-mode' where there are more outputs than inputs.")
        )
    return strategy


def _forward_jvp(
    func: Function, inputs: Any, v: Any, create_graph: bool, strict: bool, name: str = "jvp"
) -> tuple[Tensors, Tensors]:
    from tensorplay_core.autograd import forward_ad

    if strict:
        raise AutogradError(f"{name}: forward mode cannot tell a zero from no dependence" + fix("pass strict=False."))
    given, many = as_tuple(inputs, "inputs", name)
    at = Product(name, create_graph)
    tangents = at.vectors(v, given, many, "the function's input")
    with forward_ad.dual_level():
        duals = [
            forward_ad.make_dual(copy(x, create_graph, False), x.new_ones(x.shape) if t is None else t)
            for x, t in zip(given, tangents, strict=True)
        ]
        results, several = as_tuple(func(*duals), "outputs of the user-provided function", name)
        pairs = [forward_ad.unpack_dual(y) for y in results]
        product = tuple([y.new_zeros(y.shape) if t is None else t for y, t in pairs])
        return at.kept(tuple([pair.primal for pair in pairs]), several), at.kept(product, several)


def jacobian(
    func: Function,
    inputs: Tensors,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> Any:
    """Returns the derivatives of every element of the outputs by every element of the inputs.

    Args:
        func: a function of tensors that returns a tensor or a tuple of them.
        inputs: its arguments.
        create_graph: let the result be differentiated.
        strict: refuse outputs that do not depend on the inputs.
        vectorize: without effect on the result.
        strategy: ``"reverse-mode"``, one backward pass per element of the outputs; or ``"forward-mode"``, one call per
            element of the inputs.

    Returns:
        For one input and one output a tensor, whose shape is the output's followed by the input's; for several inputs a
        tuple of such, for several outputs a tuple with an entry for each.

    Raises:
        AutogradError: ``strict`` and an output does not depend on an input.

    Example:
        >>> import tensorplay as tp
        >>> jacobian(lambda x: x * x, tp.tensor([1.0, 2.0]))
        tensor([[2., 0.],
                [0., 4.]])
    """
    if _strategy("jacobian", strategy) == "forward-mode":
        return _forward_jacobian(func, inputs, create_graph, strict)
    with enable_grad():
        at = Evaluated("jacobian", func, inputs, create_graph, strict)
        parts = []
        for o, y in enumerate(at.outputs):
            rows = [
                at.filled(
                    gradients_of((y,), at.inputs, (_unit(y, j),), create_graph),
                    at.inputs,
                    f"output {o} of the function does not depend on input",
                    create_graph,
                )
                for j in range(y.numel())
            ]
            columns: Any = zip(*rows, strict=True) if rows else [[] for _ in at.inputs]
            parts.append(tuple([_stacked(column, y, x) for column, x in zip(columns, at.inputs, strict=True)]))
    return _nested(at, parts)


def _unit(y: Tensor, j: int) -> Tensor:
    return tensor_of([1 if k == j else 0 for k in range(y.numel())], y)


def _stacked(rows: Sequence[Tensor], y: Tensor, x: Tensor) -> Tensor:
    """Returns one gradient of ``x`` per element of ``y`` as a tensor of both their dims."""
    shape = (*y.shape, *x.shape)
    if not rows or not x.numel():
        return x.new_zeros(shape)
    return _cat([row.reshape((1, *x.shape)) for row in rows]).reshape(shape)


def _cat(tensors: list[Tensor]) -> Tensor:
    function = REGISTRY.operators["tp::cat"].function
    assert function is not None
    return function(tensors)  # type: ignore[no-any-return]


def _nested(at: Evaluated, parts: list[tuple[Tensor, ...]]) -> Any:
    kept = tuple([at.kept(part, at.inputs_are_tuple) for part in parts])
    return kept if at.outputs_are_tuple else kept[0]


def _forward_jacobian(func: Function, inputs: Any, create_graph: bool, strict: bool) -> Any:
    """Makes a Jacobian column by column: the tangents of the outputs along each element of the inputs."""
    given, many = as_tuple(inputs, "inputs", "jacobian")
    outputs: Any = None
    columns: list[list[tuple[Tensor, ...]]] = []
    for i, x in enumerate(given):
        columns.append([])
        for k in range(x.numel()):
            v = tuple([_unit(t, k) if n == i else t.new_zeros(t.shape) for n, t in enumerate(given)])
            outputs, tangents = _forward_jvp(func, given, v, create_graph, strict, "jacobian")
            columns[i].append(tangents if isinstance(tangents, tuple) else (tangents,))
    if outputs is None:
        outputs = func(*given)
    results, several = as_tuple(outputs, "outputs of the user-provided function", "jacobian")
    parts = []
    for o, y in enumerate(results):
        row = []
        for i, x in enumerate(given):
            stacked = _stacked([column[o] for column in columns[i]], x, y)
            dims = (*range(x.ndim, x.ndim + y.ndim), *range(x.ndim))
            row.append(stacked.permute(dims))
        parts.append(tuple(row))
    found = tuple([part if many else part[0] for part in parts])
    return found if several else found[0]


def hessian(
    func: Function,
    inputs: Tensors,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Any:
    """Returns the second derivatives of a function of one element by every pair of elements of the inputs.

    Args:
        func: a function of tensors that returns a tensor of one element.
        inputs: its arguments.
        create_graph: let the result be differentiated.
        strict: refuse an output or a gradient that does not depend on the inputs.
        vectorize: without effect on the result.
        outer_jacobian_strategy: how the gradient is differentiated, as ``strategy`` of :func:`jacobian`.

    Returns:
        For one input a tensor of its shape twice; for several a tuple of tuples of such.

    Raises:
        AutogradError: the result is more than one element; or ``strict`` and there is no dependence.

    Example:
        >>> import tensorplay as tp
        >>> hessian(lambda x: (x * x * x).sum(), tp.tensor([1.0, 2.0]))
        tensor([[ 6.,  0.],
                [ 0., 12.]])
    """
    _strategy("hessian", outer_jacobian_strategy)
    _, many = as_tuple(inputs, "inputs", "hessian")

    def gradient(*xs: Tensor) -> Tensors:
        with enable_grad():
            xs = tuple([x if x._node is not None else x.requires_grad_() for x in xs])
            at = Evaluated("hessian", func, xs, True, strict, scalar=True)
            grads = at.gradients((None,), True)
            at.filled(grads, at.inputs, "the gradient does not depend on the inputs: that of input", True)
        return grads if many else grads[0]

    return jacobian(gradient, inputs, create_graph, strict, vectorize, outer_jacobian_strategy)


def vhp(
    func: Function, inputs: Tensors, v: Tensors | None = None, create_graph: bool = False, strict: bool = False
) -> tuple[Tensors, Tensors]:
    """Returns ``func(*inputs)`` and the product of ``v`` with its Hessian.

    Args:
        func: a function of tensors that returns a tensor of one element.
        inputs: its arguments.
        v: of the shapes of the inputs; may be left out for a single input of one element.
        create_graph: let the results be differentiated.
        strict: refuse an output or a gradient that does not depend on the inputs.

    Returns:
        The output, and a tensor of the shape of each input.

    Raises:
        AutogradError: the result is more than one element, ``v`` does not fit, or ``strict`` finds no dependence.

    Example:
        >>> import tensorplay as tp
        >>> vhp(lambda x: (x * x * x).sum(), tp.tensor([1.0, 2.0]), tp.tensor([1.0, 1.0]))
        (tensor(9.), tensor([ 6., 12.]))
    """
    return _hessian_product("vhp", func, inputs, v, create_graph, strict)


def hvp(
    func: Function, inputs: Tensors, v: Tensors | None = None, create_graph: bool = False, strict: bool = False
) -> tuple[Tensors, Tensors]:
    """Returns ``func(*inputs)`` and the product of its Hessian with ``v``; see :func:`vhp`, which it equals.

    A Hessian is symmetric, so that one pass through the gradient serves both; PyTorch takes two for this one.

    Args:
        func: a function of tensors that returns a tensor of one element.
        inputs: its arguments.
        v: of the shapes of the inputs; may be left out for a single input of one element.
        create_graph: let the results be differentiated.
        strict: refuse an output or a gradient that does not depend on the inputs.

    Returns:
        The output, and a tensor of the shape of each input.

    Raises:
        AutogradError: the result is more than one element, ``v`` does not fit, or ``strict`` finds no dependence.

    Example:
        >>> import tensorplay as tp
        >>> hvp(lambda x: (x * x * x).sum(), tp.tensor([1.0, 2.0]), tp.tensor([1.0, 1.0]))
        (tensor(9.), tensor([ 6., 12.]))
    """
    return _hessian_product("hvp", func, inputs, v, create_graph, strict)


def _hessian_product(
    name: str, func: Function, inputs: Any, v: Any, create_graph: bool, strict: bool
) -> tuple[Tensors, Tensors]:
    with enable_grad():
        at = Evaluated(name, func, inputs, create_graph, strict, scalar=True)
        vectors = at.vectors(v, at.inputs, at.inputs_are_tuple, "the function's input")
        grads = at.gradients((None,), True)
        at.filled(grads, at.inputs, "the gradient does not depend on the inputs: that of input", True)
        product = at.filled(
            gradients_of(grads, at.inputs, vectors, create_graph),
            at.inputs,
            "the gradient does not depend on input",
            create_graph,
        )
        return at.result(product, at.inputs_are_tuple)
