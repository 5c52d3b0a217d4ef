"""A device in one line: ``from_namespace`` over NumPy, over NumPy as if it were immutable, and over array-api-strict.

array-api-strict takes nothing that the array API standard does not promise, so each habit of NumPy's that a kernel has
is an error there.
"""

from __future__ import annotations

import math
import pickle
import subprocess
import sys
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import array_api_strict
import numpy as np
import pytest

import tensorplay as tp
from tensorplay_composite.arrays import ArrayDevice, kernels
from tensorplay_composite.arrays._support import Support
from tensorplay_core.dispatch.registry import REGISTRY
from tensorplay_core.plugins.lifecycle import MANAGER
from tensorplay_core.testing.samples import samples

pytestmark = pytest.mark.filterwarnings("error")  # no warning of the module's reaches the user

OPERATORS = {op.display_name: op for op in REGISTRY.operators.values() if op.namespace == "tp"}
DEVICES = {
    "strict": (array_api_strict, {}),
    "frozen": (np, {"mutable": False}),
    "sliced": (np, {"views": False}),
    "narrow": (array_api_strict, {"dtypes": {n: getattr(array_api_strict, n) for n in ("bool", "int32", "float32")}}),
}
DTYPES = ("bool", "uint8", "int32", "int64", "float16", "float32", "float64", "complex64")
TOLERANCE = {"float16": 2e-3, "float32": 2e-6, "complex64": 2e-6}


@pytest.fixture(scope="module", autouse=True)
def devices():
    for name, (xp, options) in DEVICES.items():
        tp.backends.from_namespace(xp, name, **options)
    yield
    for name in DEVICES:
        forget(name)


def forget(name: str) -> None:
    """Unloads a backend and drops its record, which would stay to say why its tensors cannot be used."""
    tp.backends.unload(name)
    MANAGER._records.pop(name)


@pytest.fixture
def made():
    """``from_namespace``, whose devices are forgotten after the test."""
    names = set()

    def make(xp: Any, name: str = "npx", **options: Any) -> Any:
        record = tp.backends.from_namespace(xp, name, **options)
        names.add(name)
        return record

    yield make
    for name in names:
        forget(name)


MOST = 6
"""How many samples of each dtype are tried; `backends check --namespace` takes all."""


def tensors_of(values: Any) -> list[tp.Tensor]:
    return [t for v in values for t in (tensors_of(v) if isinstance(v, (list, tuple)) else [v])
            if isinstance(t, tp.Tensor)]  # fmt: skip


# ------------------------------------------------------------------------------------------------------------- kernels


def outcome(op: Any, sample: Any, device: str) -> Any:
    """Calls an operator: results and gradients as NumPy arrays, or the class of the error."""
    tp.manual_seed(0)
    args, kwargs = sample.build(tp, device)
    leaves = [t for t in tensors_of((*args, *kwargs.values())) if t.dtype.is_inexact]
    if op.is_inplace:
        args = (args[0].clone(), *args[1:])
    else:
        for leaf in leaves:
            leaf.requires_grad_()
    try:
        results = tensors_of((op.function(*args, **kwargs),))
    except (tp.DTypeError, tp.ShapeError) as error:
        return type(error)
    roots = [y for y in results if y.requires_grad]
    if roots and leaves:
        ones = [y.detach().new_ones(y.shape) for y in roots]
        results += [g for g in tp.autograd.grad(roots, leaves, ones, allow_unused=True) if g is not None]
    assert {t.device.type for t in results} == {device}
    return [] if op.name == "empty" else [(t.detach().cpu().numpy(), t.dtype.name) for t in results]


def same(found: Any, wanted: Any, integers: dict[str, str]) -> bool:
    if isinstance(wanted, type):
        return found is wanted
    return len(found) == len(wanted) and all(
        name == integers.get(promised, promised)
        and a.shape == b.shape
        and np.allclose(a, b, rtol=(t := TOLERANCE.get(promised, 1e-13)), atol=t, equal_nan=True)
        for (a, name), (b, promised) in zip(found, wanted, strict=True)
    )


@pytest.mark.parametrize("name", OPERATORS)
def test_every_operator_gives_what_it_gives_on_the_cpu(name):
    op, seen = OPERATORS[name], 0
    for dtype in DTYPES:
        for sample in islice(samples(op.functional or op, dtype=dtype), MOST):
            wanted = outcome(op, sample, "cpu")
            for device, (_, options) in DEVICES.items():
                integers = {"int64": "int32"} if "dtypes" in options else {}  # where there are no 64 bits
                if dtype not in tp.backends.info(device).code.plugin.device.dtypes:
                    continue
                if integers and any(wide in str(sample) for wide in ("int64", "float64")):
                    continue
                for _ in range(2):  # the second may be a fast one
                    found = outcome(op, sample, device)
                    assert same(found, wanted, integers), f"{name} {device} {dtype} {sample.name}: {found} {wanted}"
                seen += 1
    assert seen > 2


INDICES = {
    "apart": ([0, 1], slice(None), [2, 0]), "together": (slice(None), [1, 0], [2, 0]), "negative": ([-1, 0, -2],),
    "broadcast": ([[0], [1]], slice(None), [0, 1]), "none between": ([1, 0], None, [0, 1]), "of none": ([],),
}  # fmt: skip


@pytest.mark.parametrize("key", INDICES)
def test_index_arrays_mean_what_they_mean_to_numpy(key):
    host = np.arange(24.0, dtype="float32").reshape(2, 3, 4)
    x = tp.tensor(host.tolist(), device="strict", requires_grad=True)
    found = x[INDICES[key]]
    np.testing.assert_array_equal(found.detach().cpu().numpy(), host[INDICES[key]])
    found.sum().backward()
    wanted = np.zeros_like(host)
    np.add.at(wanted, INDICES[key], 1)
    np.testing.assert_array_equal(x.grad.cpu().numpy(), wanted)


def test_masks_and_indices_out_of_range():
    host = np.arange(6).reshape(2, 3)
    x = tp.tensor(host.tolist(), device="strict")
    for mask in (host > 2, host[:, 0] > 1, np.array(True), np.array(False)):
        assert x[tp.tensor(mask.tolist(), device="strict")].tolist() == host[mask].tolist()
    for wrong in ([2], [0, -3]):
        with pytest.raises(IndexError, match="out of bounds for dim 0 of size 2"):
            x[wrong]
    with pytest.raises(IndexError):
        x[tp.tensor([True, False, True], device="strict")]


def test_a_gradient_of_many_indices_needs_no_square_of_memory():
    values, size = 3000, 2000  # 2000 × 3000 pairs, in blocks of a million
    places = np.random.default_rng(0).integers(0, size, values)
    x = tp.zeros(size, device="strict", requires_grad=True)
    x[tp.tensor(places.tolist(), device="strict")].sum().backward()
    np.testing.assert_array_equal(x.grad.cpu().numpy(), np.bincount(places, minlength=size))


@pytest.mark.parametrize("device", ["strict", "frozen"])
def test_casts_that_the_standard_does_not_have(device):
    x = tp.tensor([0j, 1j, 2 + 0j, complex("nan")], device=device)
    assert x.to(tp.bool).tolist() == [False, True, True, True]
    assert x[1:3].to(tp.float32).tolist() == [0.0, 2.0]


def test_what_a_module_can_do_is_tried_and_what_it_has_is_asked():
    assert ArrayDevice(np).mutable and ArrayDevice(np).views
    with pytest.raises(tp.ArgumentError, match=r"(?s)array_api_strict .*no strides.*leave mutable out"):
        ArrayDevice(array_api_strict, mutable=True)
    plain = kernels(np)
    assert plain["add"] is np.add and plain["lt"] is np.less and plain["maximum"] is np.maximum
    device = ArrayDevice(array_api_strict)
    assert not device.mutable and not device.views and "float16" not in device.dtypes
    only = Support(array_api_strict, dtypes={"int32": array_api_strict.int32, "bool": array_api_strict.bool,
                                             "float32": array_api_strict.float32})  # fmt: skip
    assert only.int64 == array_api_strict.int32
    with pytest.raises(AttributeError, match="no dtype 'float64'"):
        only.native("float64")


# -------------------------------------------------------------------------------------------------- a backend's record


def test_the_record_is_that_of_any_backend_and_a_second_call_changes_nothing(made):
    record = made(array_api_strict)
    assert record.active and record.name == "npx" and record.as_dict()["registrations"] > 70
    assert record.info.distribution == "tensorplay-composite" and "array_api_strict" in record.info.summary
    assert (record.info.mutable, record.info.views) == (False, False)
    assert made(array_api_strict) is record and tp.backends.info("npx") is record
    assert record in tp.backends.refresh() and record.active
    assert "specialised kernel" in str(tp.explain("exp(float32[2] npx)"))
    exp = REGISTRY.operators["tp::exp"]
    numbers = {exp.kernel_at(slot) for slot in exp.table if isinstance(slot, int)}
    assert any(r is not None and r.owner == "npx" for r in numbers)  # a page of keys of its own


def test_unloading_and_coming_back(made):
    made(array_api_strict)
    x = tp.ones(2, device="npx")
    kept = pickle.dumps(x)
    assert b"array_api_strict" not in kept and pickle.loads(kept).device == x.device
    tp.backends.unload("npx")
    for use in (lambda: x + 1, lambda: x.tolist(), lambda: tp.ones(2, device="npx"), lambda: pickle.loads(kept)):
        with pytest.raises(tp.DeviceUnavailable, match=r"was unloaded.*\nfix: .*load\('npx'\)"):
            use()
    with pytest.raises(tp.BackendError, match="is that of the module 'array_api_strict'"):
        made(np)  # tensors with arrays of the other module live on
    made(array_api_strict, device_count=2)
    assert (x + 1).tolist() == [2.0, 2.0] and tp.ones(1, device="npx:1").device.index == 1
    tp.backends.unload("npx")
    assert tp.backends.load("npx").active


def test_a_block_list_holds_for_it_and_an_allow_list_does_not(made):
    made(np)
    try:
        tp.backends.configure(block="npx")
        assert tp.backends.info("npx").state == "blocked"
        with pytest.raises(tp.DeviceUnavailable, match="is blocked"):
            made(np)
        tp.backends.configure(block=None)
        assert made(np).active
        tp.backends.configure(allow="cpu")
        assert tp.ones(1, device="npx").tolist() == [1.0]
    finally:
        tp.backends.configure(block=None, allow=None)


def test_a_number_beside_a_tensor_whose_device_comes_back_is_of_that_device(made):
    made(array_api_strict)
    x = tp.ones(2, device="npx")
    try:
        tp.backends.configure(block="npx")
        tp.backends.configure(block=None)
        assert (x + 0.5).tolist() == [1.5, 1.5]  # the very first call, which brings the backend back
    finally:
        tp.backends.configure(block=None)


class Without:
    """NumPy without some of its names."""

    def __init__(self, *names: str) -> None:
        self.names = names

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name in self.names:
            raise AttributeError(f"there is no {name}")
        return getattr(np, name)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((math,), tp.ArgumentError, "'math' is no NumPy-like module: it lacks abs, add, any"),
        (("numpy",), tp.ArgumentError, "the module itself is wanted, not its name"),
        ((Without("concatenate", "concat"), "npx"), tp.ArgumentError, "is no NumPy-like module: .*concatenate"),
        ((Without("bool", "bool_"), "npx"), tp.ArgumentError, "is no NumPy-like module: .*has no dtype 'bool'"),
        ((np.ones(2),), tp.ArgumentError, r"an array \(ndarray\) was given"),
        ((np, "Nump-Y 2"), tp.ValueRangeError, "name it 'nump_y'"),
        ((np, "cuda"), tp.ValueRangeError, "of TensorPlay's own"),
        ((np, "meta"), tp.ValueRangeError, "of TensorPlay's own"),
        ((np, "strict"), tp.BackendError, "is that of the module 'array_api_strict'"),
        ((array_api_strict, "strict", {"views": True}), tp.BackendError, "with other arguments: dtypes=None"),
        ((np, 3), tp.ArgumentError, "name must be a str"),
        ((np, "npx", {"device_count": 0}), tp.ValueRangeError, "1 or more"),
        ((np, "npx", {"device_count": 1.0}), tp.ArgumentError, "must be an int"),
        ((np, "npx", {"mutable": 1}), tp.ArgumentError, "mutable must be True, False or None"),
        ((np, "npx", {"dtypes": ["bool"]}), tp.ArgumentError, "must be a mapping"),
        ((np, "npx", {"dtypes": {"float33": np.float32}}), tp.ValueRangeError, "Did you mean 'float32'"),
        ((np, "npx", {"dtypes": {"float32": np.float32}}), tp.ValueRangeError, "needs the dtypes bool, float32"),
    ],
)  # fmt: skip
def test_what_cannot_be_a_device_is_told_and_changes_nothing(arguments, error, message):
    before = [record.name for record in tp.backends.list(load=False)]
    positional = [value for value in arguments if not isinstance(value, dict)]
    options = arguments[2] if len(arguments) > 2 else {}
    with pytest.raises(error, match=message) as info:
        tp.backends.from_namespace(*positional, **options)
    assert "\nfix: " in str(info.value)
    assert [record.name for record in tp.backends.list(load=False)] == before


def test_any_object_with_the_functions_will_do(made):
    own = SimpleNamespace(**{name: getattr(np, name) for name in dir(np) if not name.startswith("_")})
    record = made(own, "own")
    assert "SimpleNamespace" in record.info.summary
    assert (tp.arange(3, device="own") * 2).tolist() == [0, 2, 4]


def test_random_numbers_are_the_cpus_and_have_a_state():
    drawn = {}
    for device in ("cpu", "strict", "frozen"):
        tp.manual_seed(5)
        drawn[device] = [tp.randn(3, device=device).tolist(), tp.randperm(5, device=device).tolist()]
    assert drawn["strict"] == drawn["cpu"] == drawn["frozen"]
    state = tp.get_rng_state("strict")
    first = tp.rand(2, device="strict").tolist()
    tp.set_rng_state(state, "strict")
    assert tp.rand(2, device="strict").tolist() == first


def test_an_import_of_tensorplay_knows_nothing_of_it():
    code = "import sys, tensorplay; print([m for m in sys.modules if 'namespace' in m and 'tensorplay' in m])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"


def test_a_network_learns_to_read_digits(capsys):
    source = Path(__file__).parents[2] / "examples" / "train_digits.py"
    program = source.read_text(encoding="utf-8").replace('DEVICE = "cpu"', 'DEVICE = "strict"')
    program = program.replace("range(12)", "range(4)").replace("epoch / 12", "epoch / 4")
    exec(compile(program, str(source), "exec"), {"__name__": "train_digits"})
    accuracy = float(capsys.readouterr().out.split()[-1].rstrip("%"))
    assert accuracy >= 96
