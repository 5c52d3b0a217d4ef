"""A pytest plugin: HIPS autograd's own tests, with TensorPlay behind ``autograd.numpy``, ``make_vjp`` and ``make_jvp``.

The tests, their helpers and their vector spaces are HIPS's, as fetched. What a test differentiates is called with
boxes, which hold tensors; a NumPy function of plain values is NumPy's, so the finite differences that the tests compare
with come from NumPy alone.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hips_functions import Box, call, has_box, missing, tensor

import tensorplay as tp

# ------------------------------------------------------------------------------------------------- differentiation

depth = 0
"""How many functions are being traced: while any is, results stay boxes."""


@contextmanager
def traced() -> Iterator[None]:
    global depth
    depth += 1
    try:
        yield
    finally:
        depth -= 1


def leaves(value: Any) -> tuple[list[Any], Callable[[list[Any]], Any]]:
    """Returns the numbers and arrays of a nested value, and what makes the like of it from others."""
    if isinstance(value, dict):
        parts = {key: leaves(v) for key, v in value.items()}
    elif isinstance(value, (list, tuple)):
        parts = dict(enumerate(map(leaves, value)))
    else:
        return [value], lambda flat: flat[0]

    def rebuild(flat: list[Any]) -> Any:
        rest = iter(flat)
        made = {key: again([next(rest) for _ in found]) for key, (found, again) in parts.items()}
        return made if isinstance(value, dict) else type(value)(made.values())

    return [leaf for found, _ in parts.values() for leaf in found], rebuild


def start(value: Any) -> tp.Tensor:
    """Returns a tensor to differentiate by: linked to the outer trace, if the value is of one."""
    copy = tensor(value).clone()
    return copy if copy.requires_grad else copy.requires_grad_()


def finish(t: tp.Tensor) -> Any:
    """Returns a result: traced while another trace is open, a NumPy value after it."""
    if depth:
        return Box(t)
    return t.detach().numpy()[()]


def run(fun: Callable[..., Any], x: Any) -> tuple[Any, list[tp.Tensor], list[tp.Tensor], Any]:
    """Calls a function on boxes: rebuild of x, its tensors, the result's tensors, rebuild of the result."""
    flat, rebuild = leaves(x)
    starts = [start(leaf) for leaf in flat]
    with traced():
        results, again = leaves(fun(rebuild([Box(s) for s in starts])))
    return rebuild, starts, [tensor(r) for r in results], again


def grad(outputs: list[tp.Tensor], inputs: list[tp.Tensor], seeds: list[tp.Tensor]) -> list[tp.Tensor]:
    """Returns gradients, zeros where nothing depends."""
    pairs = [(y, g.to(y.dtype)) for y, g in zip(outputs, seeds, strict=True) if y.requires_grad]
    if not pairs:
        return [tp.zeros(x.shape, dtype=x.dtype) for x in inputs]
    ys, gs = zip(*pairs, strict=True)
    found = tp.autograd.grad(ys, inputs, gs, create_graph=True, allow_unused=True, materialize_grads=True)
    return list(found)


def make_vjp(fun: Callable[..., Any], x: Any) -> tuple[Callable[[Any], Any], Any]:
    """HIPS's: gradients there are the conjugates of ours."""
    rebuild, starts, results, again = run(fun, x)

    def vjp(g: Any) -> Any:
        seeds = [tensor(v).conj() for v in leaves(g)[0]]
        return rebuild([finish(found.conj()) for found in grad(results, starts, seeds)])

    return vjp, again([finish(r) for r in results])


def make_jvp(fun: Callable[..., Any], x: Any) -> Callable[[Any], tuple[Any, Any]]:
    """HIPS's: by dual tensors, and inside another trace by transposing the reverse mode twice."""
    return lambda v: (_by_transposing if depth else _by_duals)(fun, x, v)


def _by_duals(fun: Callable[..., Any], x: Any, v: Any) -> tuple[Any, Any]:
    forward_ad = tp.autograd.forward_ad
    flat, rebuild = leaves(x)
    with forward_ad.dual_level(), traced():
        primals = [tensor(p) for p in flat]
        tangents = [tensor(t).to(p.dtype) for p, t in zip(primals, leaves(v)[0], strict=True)]
        duals = map(forward_ad.make_dual, primals, tangents)
        results, again = leaves(fun(rebuild([Box(d) for d in duals])))
        pairs = [forward_ad.unpack_dual(tensor(r)) for r in results]
    tangents = [tp.zeros(p.shape, dtype=p.dtype) if t is None else t for p, t in pairs]
    return again([finish(p) for p, _ in pairs]), again([finish(t) for t in tangents])


def _by_transposing(fun: Callable[..., Any], x: Any, v: Any) -> tuple[Any, Any]:
    _, starts, results, again = run(fun, x)
    seeds = [tp.zeros(y.shape, dtype=y.dtype, requires_grad=True) for y in results]
    tangents = grad(grad(results, starts, seeds), seeds, [tensor(t) for t in leaves(v)[0]])
    return again([finish(r) for r in results]), again([finish(t) for t in tangents])


# ------------------------------------------------------------------------------------------------------- the patches


def _dispatching(name: str, plain: Callable[..., Any]) -> Callable[..., Any]:
    def dispatching(*args: Any, **kwargs: Any) -> Any:
        if name in ("stack", "concatenate"):
            args = (list(args[0]), *args[1:])  # an iterator will do
        boxes = has_box(args) or has_box(kwargs)
        return call(name, *args, **kwargs) if boxes else plain(*args, **kwargs)

    dispatching.__name__ = name.rpartition(".")[2]
    return dispatching


def _internal(name: str) -> Callable[..., Any]:
    def internal(*args: Any, **kwargs: Any) -> Any:
        pytest.skip(f"of HIPS's own tracer: {name}")

    return internal


class _Concatenator:
    def __getitem__(self, index: Any) -> Any:
        return missing("r_")


def _is_instance(value: Any, kind: Any) -> bool:
    return builtins.isinstance(value.t.detach().numpy()[()] if builtins.isinstance(value, Box) else value, kind)


def pytest_configure(config: pytest.Config) -> None:
    """Puts TensorPlay behind the fetched package, before its tests are imported."""
    import autograd
    from autograd import core, differential_operators, extend, test_util, tracer, wrap_util
    from autograd import numpy as wrapped
    from autograd.misc import tracers
    from autograd.numpy.numpy_vspaces import ArrayVSpace, ComplexArrayVSpace

    for prefix, module in [("", wrapped), ("linalg.", wrapped.linalg), ("fft.", wrapped.fft)]:
        for name, value in list(vars(module).items()):
            if callable(value) and not isinstance(value, type) and not name.startswith("_"):
                setattr(module, name, _dispatching(prefix + name, value))
    extend.VSpace.register(
        Box, lambda b: (ComplexArrayVSpace if b.t.is_complex() else ArrayVSpace)(b.t.detach().numpy())
    )
    core.make_vjp, core.make_jvp = make_vjp, make_jvp
    test_util.make_vjp, test_util.make_jvp = make_vjp, make_jvp
    differential_operators._make_vjp, differential_operators._make_jvp = make_vjp, make_jvp
    for module in (differential_operators, autograd):
        module.make_vjp = wrap_util.unary_to_nary(make_vjp)
        module.make_jvp = wrap_util.unary_to_nary(make_jvp)
    for module in (autograd, autograd.builtins):
        module.tuple, module.list, module.dict, module.isinstance = tuple, list, dict, _is_instance
    differential_operators.atuple = tuple
    real_isbox = tracer.isbox
    tracer.isbox = lambda value: isinstance(value, Box) or real_isbox(value)
    for module in (extend, tracer):
        module.primitive = _internal("primitive")
    extend.defvjp = _internal("defvjp")
    autograd.primitive = _internal("primitive")
    wrapped.r_ = wrapped.c_ = _Concatenator()
    tracers.const_graph = autograd.misc.const_graph = _internal("const_graph")
