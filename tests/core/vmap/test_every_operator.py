"""Every operator of the contract under vmap is what a Python loop gives, and so are its gradients, nested and not."""

from __future__ import annotations

import importlib.util
import os
import warnings
from pathlib import Path

import pytest

import tensorplay as tp
from tensorplay_core.tensor.pytree import tree_flatten, tree_map
from tensorplay_core.vmap.loop import VmapLoopWarning

_spec = importlib.util.spec_from_file_location("looped", Path(__file__).with_name("looped.py"))
looped = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(looped)

OPERATORS = {op.display_name: op for op in looped.operators() if not looped.is_gap(op)}
CREATION = {name for name, op in OPERATORS.items() if not any(a.type.is_tensor for a in op.schema.arguments)}
BATCHABLE = sorted(OPERATORS.keys() - CREATION)
LAYOUT = ("as_strided", "as_strided_scatter")
"""Operators that see how memory is laid out, which another in_dim changes."""
FEW, SEVERAL, MOST = (1, 2, 5) if os.environ.get("TENSORPLAY_TEST_SAMPLES") != "all" else (None, None, None)
"""How many samples are tried where each costs several calls; every one with TENSORPLAY_TEST_SAMPLES=all (6 minutes)."""


@pytest.fixture(autouse=True)
def no_loop():
    """Every operator of the contract has a rule on the cpu, or decomposes into operators that have."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", VmapLoopWarning)
        yield


def copied(leaf):
    return leaf.clone() if isinstance(leaf, tp.Tensor) and 0 not in leaf.stride() else leaf


def in_loop(case, alone):
    return [case.call(list(map(copied, leaves))) for leaves in alone]


def works(case):
    """Whether the call succeeds without vmap: an in-place form refuses some calls of its operator."""
    try:
        in_loop(case, case.elements)
    except tp.errors.TensorPlayError:
        return False
    return True


def cases(name, device="cpu"):
    op = OPERATORS[name]
    for dtype in ("float64", "int64", "bool"):
        if found := [case for case in looped.cases(op, dtype, device=device) if works(case)]:
            return found
    raise AssertionError(f"{name} has no samples")


@pytest.mark.parametrize("name", BATCHABLE)
def test_results_are_those_of_a_loop(name, tally):
    for case in cases(name)[:MOST]:
        for how in looped.IN_DIMS[:1] if name in LAYOUT else looped.IN_DIMS:
            leaves, dims, alone = case.batched(how)
            batched = tp.vmap(lambda *a, case=case: case.call(list(a)), in_dims=tuple(dims))
            if case.is_refused(dims):
                with pytest.raises(tp.errors.TransformError):
                    batched(*map(copied, leaves))
                continue
            wanted = in_loop(case, alone)
            assert looped.alike(batched(*map(copied, leaves)), wanted), (case.name, how)
            tally["counts"]["vmap, calls"] += 1


@pytest.mark.parametrize("name", [name for name in BATCHABLE if name not in LAYOUT])
def test_results_on_a_third_partys_device(name):
    for case in cases(name, "loopback")[:FEW]:
        leaves, dims, alone = case.batched("-1")
        if case.is_refused(dims):
            continue
        wanted = in_loop(case, alone)
        found = tp.vmap(lambda *a, case=case: case.call(list(a)), in_dims=tuple(dims))(*map(copied, leaves))
        assert all(y.device.type == "loopback" for y in tree_flatten(found)[0] if isinstance(y, tp.Tensor)), case.name
        assert looped.alike(found, wanted), case.name


@pytest.mark.parametrize("name", BATCHABLE)
def test_vmap_of_vmap(name, tally):
    for case in cases(name)[:SEVERAL]:
        leaves, dims, alone = case.batched("0")
        if case.is_refused(dims):
            continue
        wanted, dims = in_loop(case, alone), tuple(dims)
        twice = [
            leaf if dim is None else tp.stack([leaf, leaf.flip(0)]) for leaf, dim in zip(leaves, dims, strict=True)
        ]
        inner = tp.vmap(lambda *a, case=case: case.call(list(a)), in_dims=dims)
        found = tp.vmap(inner, in_dims=dims)(*twice)
        assert looped.alike(tree_map(lambda t: t[0], found), wanted), case.name
        assert looped.alike(tree_map(lambda t: t[1], found), wanted[::-1]), case.name
        tally["counts"]["vmap of vmap, calls"] += 1


def weighted(case, *leaves, bent=False):
    """Returns a number that depends on every element of every floating result, each in a way of its own.

    Args:
        case: the call.
        leaves: its arguments.
        bent: whether the number is not linear in them, so that a linear operator has a second derivative too.
    """
    total = tp.zeros((), dtype=tp.float64)
    for y in tree_flatten(case.call(list(leaves)))[0]:
        if isinstance(y, tp.Tensor) and y.dtype.is_inexact:
            weights = tp.cos(tp.arange(y.numel(), dtype=tp.float64) + 1).reshape(y.shape)
            total = total + ((y + y * y / 4 if bent else y) * weights).sum()
    return total


def differentiable(name):
    op = OPERATORS[name]
    return "!)" not in op.schema_text and (op.differentiable is None or any(op.differentiable))


@pytest.mark.parametrize("name", [name for name in BATCHABLE if differentiable(name)])
def test_gradients_are_those_of_a_loop_whichever_comes_first(name, tally):
    for case in cases(name)[:SEVERAL]:
        leaves, dims, alone = case.batched("0")
        places = tuple(i for i in case.tensors if leaves[i].dtype.is_inexact)
        results = [y for y in tree_flatten(in_loop(case, alone))[0] if isinstance(y, tp.Tensor)]
        if case.is_refused(dims) or not places or not any(y.dtype.is_inexact for y in results):
            continue
        dims = tuple(dims)

        def of(*a, case=case):
            return weighted(case, *a)

        wanted = [tp.func.grad(of, places)(*map(copied, one)) for one in alone]
        samples = tp.vmap(tp.func.grad(of, places), in_dims=dims)(*map(copied, leaves))
        assert looped.alike(samples, wanted, 1e-7), case.name
        whole = tp.func.grad(lambda *a, dims=dims, of=of: tp.vmap(of, in_dims=dims)(*a).sum(), places)
        assert looped.alike(whole(*map(copied, leaves)), wanted, 1e-7), case.name
        tally["counts"]["vmap of grad and grad of vmap, calls of each"] += 1


@pytest.mark.parametrize("name", [name for name in BATCHABLE if differentiable(name) and name not in LAYOUT])
def test_no_derivative_is_lost_between_levels(name):
    """The gradient, and the tangent, of a gradient of each sample: by every input, what all samples share too."""
    for case in [case for case in cases(name) if case.smooth][:FEW]:
        leaves, dims, _ = case.batched("first")
        places = tuple(i for i in case.tensors if leaves[i].dtype.is_inexact)
        result = [
            y for y in tree_flatten(case.call(list(map(copied, case.elements[0]))))[0] if isinstance(y, tp.Tensor)
        ]
        if case.is_refused(dims) or not places or not any(y.dtype.is_inexact for y in result):
            continue
        dims = tuple(dims)

        def of(*a, case=case):
            return weighted(case, *a, bent=True)

        def squares(gradients):
            return sum(((g * g).sum() for g in gradients), start=tp.zeros((), dtype=tp.float64))

        def batched(*a, of=of, places=places, dims=dims):
            return squares(tp.vmap(tp.func.grad(of, places), in_dims=dims)(*a))

        def looped_(*a, of=of, places=places, dims=dims):
            total = tp.zeros((), dtype=tp.float64)
            for i in range(looped.SIZE):
                one = [x if dim is None else x.select(dim, i) for x, dim in zip(a, dims, strict=True)]
                total = total + squares(tp.func.grad(of, places)(*one))
            return total

        given = list(map(copied, leaves))
        wanted = tp.func.grad(looped_, places)(*given)
        assert looped.close(tp.func.grad(batched, places)(*given), wanted), (case.name, "gradient")
        primals = tuple(given[i] for i in places)
        directions = tuple(tp.cos(tp.arange(x.numel(), dtype=tp.float64)).reshape(x.shape).to(x.dtype) for x in primals)

        def along(function, places=places, given=given, primals=primals, directions=directions):
            def of_some(*some):
                changed = list(given)
                for place, value in zip(places, some, strict=True):
                    changed[place] = value
                return function(*changed)

            return tp.func.jvp(of_some, primals, directions)[1]

        assert looped.close(along(batched), along(looped_)), (case.name, "tangent")


def test_what_the_data_decides_about_is_refused_with_a_remedy():
    x = tp.tensor([[1.0, 0.0], [2.0, 3.0]])
    for function in (tp.nonzero, tp.unique, lambda x: tp.masked_select(x, x > 0), lambda x: x[x > 0]):
        with pytest.raises(tp.errors.TransformError, match=r"another (number|for each)|fix: "):
            tp.vmap(function)(x)
    with pytest.raises(tp.errors.TransformError, match="bincount"):
        tp.vmap(tp.bincount)(tp.tensor([[1, 0], [2, 3]]))
