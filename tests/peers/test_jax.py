"""``from_namespace(jax.numpy)``: arrays that cannot be written to, of a library that compiles; against the CPU.

Skipped, visibly, where jax is not installed. Every operator is compiled for every shape, so all samples run in float32
alone, and the first few in the rest.
"""

from __future__ import annotations

from itertools import islice
from typing import Any

import numpy as np
import pytest

import tensorplay as tp
from tensorplay_core.dispatch.registry import REGISTRY
from tensorplay_core.plugins.lifecycle import MANAGER
from tensorplay_core.testing.samples import Named, Sample, TensorSpec, samples
from tensorplay_core.testing.suite.checks import profile_of

jax = pytest.importorskip("jax", reason="jax is not installed: pip install 'jax[cpu]', and these comparisons run")
import jax.numpy as jnp  # noqa: E402

pytestmark = pytest.mark.peers

OPERATORS = {op.display_name: op for op in REGISTRY.operators.values() if op.namespace == "tp"}
FEW = 3
COMPLEX = {
    ("pow", "special values"): "XLA's power of complex infinities is not NumPy's",
    ("expm1", "special values"): "XLA gives an imaginary part of 0 at inf and NaN",
    ("sqrt", "special values"): "XLA's gradient at complex infinities is 0; NumPy's is NaN",
    ("tanh", "special values"): "XLA's complex tanh is NaN at infinity",
}
"""(operator, sample) to the reason why a value of complex64 is not NumPy's."""


@pytest.fixture(scope="module", params=[True, False], ids=["64 bits", "32 bits"])
def device(request):
    """A device over JAX, with 64-bit dtypes and without, as JAX starts."""
    before = jax.config.read("jax_enable_x64")
    jax.config.update("jax_enable_x64", request.param)
    name = "jax_wide" if request.param else "jax_narrow"
    try:
        yield tp.backends.from_namespace(jnp, name)
        tp.backends.unload(name)
        MANAGER._records.pop(name)
    finally:
        jax.config.update("jax_enable_x64", before)


def tensors_of(values: Any) -> list[tp.Tensor]:
    return [t for v in values for t in (tensors_of(v) if isinstance(v, (list, tuple)) else [v])
            if isinstance(t, tp.Tensor)]  # fmt: skip


def outcome(op: Any, sample: Any, device: str) -> list[tuple[Any, str]]:
    tp.manual_seed(0)
    args, kwargs = sample.build(tp, device)
    leaves = [t for t in tensors_of((*args, *kwargs.values())) if t.dtype.is_inexact]
    if op.is_inplace:
        args = (args[0].clone(), *args[1:])
    else:
        for leaf in leaves:
            leaf.requires_grad_()
    results = tensors_of((op.function(*args, **kwargs),))
    roots = [y for y in results if y.requires_grad]
    if roots and leaves:
        ones = [y.detach().new_ones(y.shape) for y in roots]
        results += [g for g in tp.autograd.grad(roots, leaves, ones, allow_unused=True) if g is not None]
    return [] if op.name == "empty" else [(t.detach().cpu().numpy(), t.dtype.name) for t in results]


def narrowed(value: Any) -> Any:
    """Returns a sample with int32 where it has int64, which indices and labels have."""
    if isinstance(value, (TensorSpec, Named)):
        return value._replace(**{f: "int32" for f in value._fields if getattr(value, f) == "int64"})
    if isinstance(value, Sample):
        return value._replace(args=narrowed(value.args), kwargs={k: narrowed(v) for k, v in value.kwargs.items()})
    return type(value)(map(narrowed, value)) if isinstance(value, (list, tuple)) else value


def compare(op: Any, dtype: str, device: Any, most: int | None = None) -> int:
    seen = 0
    narrow = {} if "int64" in device.code.plugin.device.dtypes else {"int64": "int32"}
    for sample in islice(samples(op.functional or op, dtype=dtype), most):
        given = narrowed(sample) if narrow else sample
        if narrow and "float64" in str(given):  # asked for by name, which is an error there
            continue
        if dtype == "complex64" and (op.display_name.rstrip("_"), sample.name) in COMPLEX:
            continue
        try:
            wanted = outcome(op, sample, "cpu")
        except tp.TensorPlayError as error:  # such as an in-place result of another shape
            with pytest.raises(type(error)):
                outcome(op, given, device.name)
            continue
        found = outcome(op, given, device.name)
        for (a, name), (b, promised) in zip(found, wanted, strict=True):
            assert name == narrow.get(promised, promised) and a.shape == b.shape, sample.name
            np.testing.assert_allclose(a, b, rtol=3e-6, atol=3e-6, err_msg=sample.name)
        seen += 1
    return seen


@pytest.mark.parametrize("name", OPERATORS)
def test_every_operator_gives_what_it_gives_on_the_cpu(name, device):
    most = None if device.name == "jax_wide" else FEW
    seen = compare(OPERATORS[name], "float32", device, most)
    assert seen + compare(OPERATORS[name], "int32", device, FEW) + compare(OPERATORS[name], "bool", device, FEW) > 1


@pytest.mark.parametrize("name", ["add", "mul", "exp", "sqrt", "tanh", "abs", "sgn", "matmul", "sum", "index"])
def test_complex_numbers(name, device):
    assert compare(OPERATORS[name], "complex64", device, 2 * FEW) > 1


def test_64_bits_are_offered_only_where_jax_has_them(device):
    wide = device.name == "jax_wide"
    has = device.code.plugin.device.dtypes
    assert ("float64" in has, "int64" in has, "complex128" in has) == (wide,) * 3 and "bfloat16" in has
    if not wide:
        with pytest.raises(tp.DTypeError, match="has no dtype int64"):
            tp.tensor([1, 2], dtype=tp.int64, device=device.name)
        assert tp.ones(3, device=device.name).argmax().dtype is tp.int32
    assert not device.info.mutable and not device.survives_fork


def test_what_is_declared_of_its_accuracy_is_so(device):
    profile = profile_of(device.name)
    assert profile.flushes and profile.accuracy == {"div": 3}
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((64, 64)).astype("float32"), rng.standard_normal(64).astype("float32")
    found = (tp.tensor(x, device=device.name) / tp.tensor(y, device=device.name)).cpu().numpy()
    exact = x.astype("float64") / y
    units = np.abs(found - exact) / np.spacing(np.abs(exact).astype("float32"))
    assert 0.51 < units.max() <= 0.5 * profile.accuracy["div"]
    assert (tp.tensor([1e-40], device=device.name) * 1).tolist() == [0.0]


def test_arrays_are_never_written_to(device):
    x = tp.zeros(3, 4, device=device.name)
    before = x._array
    row, column = x[1], x.t()[2]
    row[1:3] = 5
    column.add_(1)
    x += 1
    assert before.tolist() == [[0.0] * 4] * 3
    assert x.tolist() == [[1.0, 1.0, 2.0, 1.0], [1.0, 6.0, 7.0, 1.0], [1.0, 1.0, 2.0, 1.0]]
    assert row.tolist() == x.tolist()[1] and column.tolist() == [2.0, 7.0, 2.0]


def test_an_index_out_of_range_is_an_error_as_everywhere(device):
    x = tp.ones(3, device=device.name)  # JAX itself clips it, or gives NaN
    with pytest.raises(IndexError, match="out of bounds"):
        x[tp.tensor([0, 3], dtype=tp.int32, device=device.name)]
    for index in (0, 2, 3):  # by the fast path too
        if index < 3:
            assert x.select(0, index).item() == 1.0
        else:
            with pytest.raises(IndexError):
                x.select(0, index)


def test_a_network_learns_a_line(device):
    tp.manual_seed(0)
    x = tp.randn(64, 3, device=device.name)
    y = (x * tp.tensor([1.0, -2.0, 0.5], device=device.name)).sum(1) + 1
    w, b = tp.zeros(3, 1, device=device.name, requires_grad=True), tp.zeros(1, device=device.name, requires_grad=True)
    for _ in range(60):
        loss = ((x @ w + b).squeeze(1) - y).square().mean()
        loss.backward()
        with tp.no_grad():
            for p in (w, b):
                p.sub_(p.grad * 0.2)
                p.grad = None
    assert loss.item() < 1e-3
