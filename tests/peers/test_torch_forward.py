"""Forward mode against PyTorch's: the tangents of every shared operator, and what writes, views and modes do to them.

Skipped, visibly, where torch is not installed. Where torch differs on purpose is in ``DIFFERENT`` with its reason.
"""

from __future__ import annotations

import importlib.util
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorplay as tp
from tensorplay_core.dispatch.registry import REGISTRY
from tensorplay_core.testing.sample_features import in_domain
from tensorplay_core.testing.samples import Sample, samples

torch = pytest.importorskip("torch", reason="torch is not installed: pip install torch, and these comparisons run")
theirs = pytest.importorskip("torch.autograd.forward_ad")
ours = tp.autograd.forward_ad

pytestmark = [pytest.mark.peers, pytest.mark.filterwarnings("ignore")]

aten = torch.ops.aten


def _of_reverse_mode() -> Any:
    """Returns the module that compares values and gradients: what differs there, and what computes the same."""
    spec = importlib.util.spec_from_file_location("torch_reverse", Path(__file__).with_name("test_torch.py"))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


REVERSE = _of_reverse_mode()
REFERENCES: dict[str, Callable[..., Any]] = REVERSE.REFERENCES | {
    "_to_copy": lambda x, dtype=None, device=None: x.to(dtype or x.dtype, copy=True),
    "cross_entropy": torch.nn.functional.cross_entropy,
    "expand": lambda x, size: x.expand(size),
    "index": lambda x, indices: x[tuple(slice(None) if i is None else i for i in indices)],
    "linear": torch.nn.functional.linear,
    "max.dim": lambda x, dim, keepdim=False: torch.max(x, dim, keepdim),
    "slice": lambda x, dim=0, start=None, end=None, step=1: aten.slice(x, dim, start, end, step),
    **{n: lambda x, dim, dtype=None, n=n: getattr(torch, n)(x, dim, dtype=dtype) for n in ("softmax", "log_softmax")},
    **{
        n: lambda x, dim=None, keepdim=False, dtype=None, n=n: getattr(torch, n)(x, dim, keepdim, dtype=dtype)
        for n in ("sum", "mean")
    },
}
DIFFERENT = {
    "cross_entropy": "torch takes the weights to be constants; here they have gradients, and tangents",
    "sgn": "torch takes the tangent of sgn at a complex 0 to be NaN; here it is 0",
    "max": "torch gives the tangent of one of several equal elements; here they share it, as the gradient does",
    "as_strided": "torch reads the tangent of a tensor with gaps in memory where there are no elements",
}
"""Operators to what torch does otherwise, on samples with zeros, with equal elements or with weights."""
IN_SAMPLES = {
    ("cholesky_inverse", ""): "torch's tangent is not what a small step of the factor gives",
    ("gaussian_nll_loss", "zeros"): "torch's tangent of a variance that is too small is 0, and its gradient is not",
    ("nll_loss", "weight"): "torch takes the weights to be constants",
    ("norm.dtype", ""): "torch's tangent has the tensor's dtype, its value the one that is asked for",
    ("scatter_reduce.two", "prod"): "torch has no tangent of a product",
}
"""(operator, part of a sample's name) to what torch does otherwise there."""
LOOSE = {"hardsigmoid": 1e-7}
"""torch multiplies by 1 / 6 in single precision there."""
COUNTS: Counter[str] = Counter()


def reference(name: str) -> Callable[..., Any] | None:
    plain = name.partition(".")[0]
    return REFERENCES.get(name) or getattr(torch, plain, None) or getattr(torch.nn.functional, plain, None)


OPERATORS = {
    op.display_name: op
    for op in REGISTRY.operators.values()
    if op.namespace == "tp"
    and not op.is_inplace
    and not op.name.startswith("_foreach")
    and (op.node is not None or op.composite == "implicit")
    and reference(op.display_name) is not None
}


def to_torch(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return type(value)([to_torch(v) for v in value])
    if isinstance(value, tp.dtype):
        return getattr(torch, value.name)
    return torch.from_numpy(np.array(value.detach().numpy())) if isinstance(value, tp.Tensor) else value


def made_dual(value: Any, make: Callable[[Any, Any], Any], counter: Iterator[int]) -> Any:
    """Returns an argument with tangents for its floating tensors, the same for both libraries."""
    if isinstance(value, (list, tuple)):
        return type(value)([made_dual(v, make, counter) for v in value])
    if not isinstance(value, (tp.Tensor, torch.Tensor)) or not (value.is_floating_point() or value.is_complex()):
        return value
    number = next(counter)
    direction = np.cos(np.arange(value.numel()) * (0.7 + number) + 1).reshape(tuple(value.shape))
    direction = direction * (1 - 0.5j) if value.is_complex() else direction
    if isinstance(value, tp.Tensor):
        return make(value, tp.from_numpy(np.ascontiguousarray(direction).reshape(value.shape)).to(value.dtype))
    return make(value, torch.from_numpy(direction).to(value.dtype))


def numbers() -> Iterator[int]:
    yield from range(100)


def tangents(found: Any, unpack: Callable[[Any], Any], kind: type) -> list[Any]:
    several = found if isinstance(found, (list, tuple)) else (found,)
    unpacked = [unpack(y).tangent for y in several if isinstance(y, kind)]
    return [None if t is None else np.asarray(t.resolve_conj() if hasattr(t, "resolve_conj") else t) for t in unpacked]


def compared(name: str, sample: Sample, values: tuple[Any, ...]) -> bool:
    """Whether torch should give the same: of finite numbers, where nothing says that it differs."""
    if (name, sample.name) in REVERSE.DIFFERENT or any(name == n and part in sample.name for n, part in IN_SAMPLES):
        return False
    if name in DIFFERENT and (not sample.smooth or name == "as_strided" or "weight" in sample.name):
        return False
    return all(np.isfinite(v.numpy()).all() for v in values if isinstance(v, tp.Tensor))


@pytest.mark.parametrize("name", OPERATORS)
def test_tangents(name: str) -> None:
    op, function = OPERATORS[name], reference(name)
    assert function is not None
    seen = 0
    for dtype in ("float32", "float64", "complex128"):
        for sample in samples(op, dtype=dtype):
            args, kwargs = sample.build(tp)
            if not compared(name, sample, (*args, *kwargs.values())):
                COUNTS["left out"] += 1
                continue
            with theirs.dual_level():
                try:
                    count = numbers()
                    targs = made_dual(to_torch(args), theirs.make_dual, count)
                    tkwargs = {k: made_dual(to_torch(v), theirs.make_dual, count) for k, v in kwargs.items()}
                    found = function(*in_domain(op, [*targs]), **tkwargs)
                    expected = tangents(found, theirs.unpack_dual, torch.Tensor)
                except (RuntimeError, IndexError, NotImplementedError, TypeError):
                    COUNTS["torch refuses"] += 1
                    continue
            with ours.dual_level():
                count = numbers()
                oargs = made_dual(args, ours.make_dual, count)
                okwargs = {k: made_dual(v, ours.make_dual, count) for k, v in kwargs.items()}
                assert op.function is not None
                found = op.function(*in_domain(op, [*oargs]), **okwargs)
                actual = tangents(found[:1] if name == "linalg_lstsq" else found, ours.unpack_dual, tp.Tensor)
            place = f"{name}, {dtype}, sample {sample.name!r}"
            compare(actual, expected, place, 1e-5 if dtype == "float32" else LOOSE.get(name, 1e-9))
            seen += 1
    assert seen or COUNTS["left out"], f"{name}: nothing was compared"


def compare(actual: list[Any], expected: list[Any], place: str, tolerance: float) -> None:
    assert len(actual) == len(expected), place
    for mine, other in zip(actual, expected, strict=True):
        if other is None or mine is None:
            assert mine is None or not mine.any(), f"{place}: a tangent here, none in torch: {mine}"
            assert other is None or not other.any(), f"{place}: a tangent in torch, none here: {other}"
            continue
        assert (mine.shape, mine.dtype) == (other.shape, other.dtype), place
        finite = np.isfinite(other) & np.isfinite(mine)  # at the edges 0 * inf depends on which comes first
        np.testing.assert_allclose(mine[finite], other[finite], rtol=tolerance, atol=tolerance, err_msg=place)
        COUNTS["compared"] += 1


# programs


def programs() -> dict[str, Callable[[Any, Any, Any, Any], Any]]:
    """Programs of one library ``lib`` with its module ``fw``, on a dual ``d`` and a plain tensor ``x``."""

    def view_written(lib: Any, fw: Any, d: Any, x: Any) -> Any:
        d[0].mul_(3)
        return d

    def base_of_a_view(lib: Any, fw: Any, d: Any, x: Any) -> Any:
        x[1:].add_(d[:1])
        return x

    def setitem(lib: Any, fw: Any, d: Any, x: Any) -> Any:
        x[0] = d[1] * 2
        return x

    def copied(lib: Any, fw: Any, d: Any, x: Any) -> Any:
        y = x.reshape(2, 1)
        x.copy_(d)
        return y

    def overwritten(lib: Any, fw: Any, d: Any, x: Any) -> Any:
        return (d * 1).fill_(2.0)

    def without_grad(lib: Any, fw: Any, d: Any, x: Any) -> Any:
        with lib.no_grad():
            return d * x

    def inferred(lib: Any, fw: Any, d: Any, x: Any) -> Any:
        with lib.inference_mode():
            return d * x

    def detached(lib: Any, fw: Any, d: Any, x: Any) -> Any:
        return d.detach() * x

    def cloned(lib: Any, fw: Any, d: Any, x: Any) -> Any:
        return d.clone()

    def switched_off(lib: Any, fw: Any, d: Any, x: Any) -> Any:
        with fw._set_fwd_grad_enabled(False):
            return d * x

    def converted(lib: Any, fw: Any, d: Any, x: Any) -> Any:
        return (d.to(lib.float32) * 2 + x)[None]

    def network(lib: Any, fw: Any, d: Any, x: Any) -> Any:
        h = lib.tanh(d.reshape(2, 1) @ x.reshape(1, 2))
        return lib.softmax(h, 1).log().sum(0)

    def written_by_a_mask(lib: Any, fw: Any, d: Any, x: Any) -> Any:
        x[lib.tensor([True, False])] = d[1:]
        return x

    def independent(lib: Any, fw: Any, d: Any, x: Any) -> Any:
        (d + lib.zeros(2)).zero_()
        return d

    found = dict(locals())
    return found


PROGRAMS = programs()


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name: str) -> None:
    found = []
    for lib, fw in ((tp, ours), (torch, theirs)):
        with fw.dual_level():
            given = [lib.tensor(v, dtype=lib.float64) for v in ([1.0, 2.0], [3.0, 4.0], [5.0, 6.0])]
            d = fw.make_dual(*given[:2])
            result = fw.unpack_dual(PROGRAMS[name](lib, fw, d, given[2]))
            tangent = None if result.tangent is None else np.asarray(result.tangent)
            found.append((np.asarray(result.primal), tangent))
    (primal, tangent), (expected, other) = found
    np.testing.assert_allclose(primal, expected, rtol=1e-6)
    assert (tangent is None) == (other is None)
    if tangent is not None:
        np.testing.assert_allclose(tangent, other, rtol=1e-5)
