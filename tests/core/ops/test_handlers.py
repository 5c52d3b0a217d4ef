"""Every operator under a subclass with a handler, a mode of functions and a mode of operators, against a plain call."""

from __future__ import annotations

from itertools import islice
from typing import Any, ClassVar

import pytest

import tensorplay as tp
from tensorplay_core.dispatch.registry import REGISTRY
from tensorplay_core.testing.samples import samples

MOST = 2
"""How many samples of each operator and dtype are tried: the suite has to be done some time."""
OPERATORS = {op.display_name: op for op in REGISTRY.operators.values() if op.namespace == "tp"}
DTYPES = ("float32", "int64")


class Heard(tp.Tensor):
    """Remembers what it was asked, and lets the operation run."""

    asked: ClassVar[list[Any]] = []

    @classmethod
    def __tensorplay_function__(cls, func, types, args=(), kwargs=None):
        cls.asked.append(func)
        return super().__tensorplay_function__(func, types, args, kwargs)


class Again(tp.overrides.TensorPlayMode):
    """Calls what it was asked for, and remembers it."""

    def __init__(self):
        self.asked = []

    def __tensorplay_function__(self, func, types, args=(), kwargs=None):
        self.asked.append(func)
        return func(*args, **(kwargs or {}))


class Through(tp.DispatchMode):
    """Lets every operator run, and remembers which."""

    def __init__(self):
        self.asked = []

    def __tensorplay_dispatch__(self, func, types, args=(), kwargs=None):
        self.asked.append(func)
        return func(*args, **(kwargs or {}))


def flat(values):
    for value in values:
        if isinstance(value, (list, tuple)):
            yield from flat(value)
        else:
            yield value


def tensors(values):
    return [value for value in flat(values) if isinstance(value, tp.Tensor)]


def changed(values, into):
    """Returns arguments with the tensors in them, and in lists, as what a function makes of them."""
    return [
        changed(value, into) if isinstance(value, list) else into(value) if isinstance(value, tp.Tensor) else value
        for value in values
    ]


def bits(tensor):
    host = tensor.numpy(force=True)
    return host.tobytes(), tensor.shape, tensor.dtype, str(tensor.device), tensor.stride()


def call(op, sample, device="cpu", into=lambda tensor: tensor, grad=True):
    """Returns the results of a sample's call, and the gradients of its leaves."""
    tp.manual_seed(0)
    args, kwargs = sample.build(tp, device)
    leaves = [t for t in tensors((*args, *kwargs.values())) if t.dtype.is_inexact]
    if grad:
        for leaf in leaves:
            leaf.requires_grad_()
    args = changed(args, into)
    kwargs = dict(zip(kwargs, changed(kwargs.values(), into), strict=True))
    if op.is_inplace:
        args[0] = into(args[0] + tp.zeros((), dtype=args[0].dtype, device=device))
    result = op.function(*args, **kwargs)
    results = tensors((result,))
    found = [] if op.name == "empty" else [*map(bits, results)]
    roots = [y for y in results if y.requires_grad]
    if grad and roots and leaves:
        with tp.overrides.DisableTensorPlayFunction():
            cotangents = [tp.ones_like(y) for y in roots]
            gradients = tp.autograd.grad(roots, leaves, cotangents, allow_unused=True)
        found += [None if g is None else bits(g + 0)[:4] for g in gradients]  # a written part has +0 where -0 comes
    return result, found


def plain(op, sample, **settings):
    """Returns the same of a plain call, or None where an in-place form refuses the sample, or has no gradient."""
    try:
        return call(op, sample, **settings)
    except (tp.ShapeError, tp.DTypeError, tp.AutogradError):
        if not op.is_inplace:
            raise
        return None


def each_sample(op, dtypes=DTYPES):
    for dtype in dtypes:
        for sample in islice(samples(op.functional or op, dtype=dtype), MOST):
            if (expected := plain(op, sample)) is not None:
                yield sample, expected


@pytest.mark.parametrize("name", OPERATORS)
def test_a_subclass_is_asked_once_for_the_public_function_and_the_result_is_of_it(name):
    op = OPERATORS[name]
    for sample, (_, expected) in each_sample(op):
        given = tensors((*sample.build(tp)[0], *sample.build(tp)[1].values()))
        Heard.asked = []
        result, found = call(op, sample, into=lambda tensor: tensor.as_subclass(Heard))
        assert found == expected, sample.name
        if given:
            asked = [func for func in Heard.asked if func is op.function]
            assert len(asked) == 1, (sample.name, Heard.asked)
            assert all(type(y) is Heard for y in tensors((result,))), sample.name


@pytest.mark.parametrize("name", OPERATORS)
def test_a_mode_of_functions_sees_the_call_and_can_make_it(name):
    op = OPERATORS[name]
    for sample, (_, expected) in each_sample(op):
        with Again() as mode:
            _, found = call(op, sample)
        assert found == expected, sample.name
        assert mode.asked.count(op.function) >= 1, (sample.name, mode.asked)


@pytest.mark.parametrize("device", ["cpu", "loopback"])
@pytest.mark.parametrize("name", OPERATORS)
def test_a_mode_of_operators_sees_forward_and_backward_and_changes_nothing(name, device):
    op = OPERATORS[name]
    for dtype in DTYPES:
        for sample in islice(samples(op.functional or op, dtype=dtype), MOST):
            for grad in (True, False):
                if (outcome := plain(op, sample, device=device, grad=grad)) is None:
                    continue
                with Through() as mode:
                    _, found = call(op, sample, device=device, grad=grad)
                assert found == outcome[1], sample.name
                silent = op.name == "conj"  # of a real tensor it is the tensor itself
                assert mode.asked or silent or not tensors((outcome[0],)), sample.name
