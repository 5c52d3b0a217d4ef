"""Running on the host: right for every operator, on a device whose arrays nobody but its own API understands.

The device ``bare`` has two devices, no kernel but those for views and plain writes, and lacks float64; its arrays know
which device they are on, and otherwise have a shape and nothing else.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import numpy as np
import pytest

import tensorplay as tp
from tensorplay_composite.arrays import kernels as arrays_over
from tensorplay_core.dispatch import devices, fallbacks
from tensorplay_core.dispatch.context import STATE
from tensorplay_core.dispatch.device_api import DeviceAPI
from tensorplay_core.dispatch.keys import DispatchKey, backend_key
from tensorplay_core.dispatch.operator import Operator
from tensorplay_core.dispatch.registry import REGISTRY
from tensorplay_core.errors import AutogradError, DTypeError, KernelMissing, ShapeError, TensorPlayError
from tensorplay_core.ops import host_fallback
from tensorplay_core.tensor.version import version_of
from tensorplay_core.testing.samples import samples

Library = tp.library.Library
COMPOSITE = int(DispatchKey.Composite)
devices.entry("cpu")  # and with it Composite
OPERATORS = {name: op for name, op in REGISTRY.operators.items() if op.namespace == "tp"}
FUNCTIONAL = [n for n, op in OPERATORS.items() if "(a" not in op.schema_text and "device" not in op.tags]
RANDOM = [n for n, op in OPERATORS.items() if ("random" in op.tags and "nn" not in op.tags) or op.name == "empty"]
IN_PLACE = [n for n, op in OPERATORS.items() if op.functional is not None]


class Box:
    """An array of the device."""

    def __init__(self, data: Any) -> None:
        self.data = np.asarray(data)
        self.place = BareDevice.current

    @property
    def shape(self) -> tuple[int, ...]:
        return self.data.shape

    def __getitem__(self, index: Any) -> Box:
        return Box(self.data[index])


class BareDevice(DeviceAPI):
    """Its API: nothing that core could mistake for NumPy."""

    current = 0
    array_class = Box
    names = ("bool", "uint8", "int8", "int32", "int64", "float16", "float32", "complex64")
    dtypes = {name: np.dtype(name) for name in names}  # noqa: RUF012

    def as_array(self, value: Any) -> Box:
        if not isinstance(value, Box):
            raise TypeError("not a Box")
        return value

    def dtype_name(self, array: Box) -> str:
        return array.data.dtype.name

    def from_list(self, data: Any, dtype: Any) -> Box:
        return Box(np.array(data, dtype))

    def from_host(self, host: Any, index: int) -> Box:
        assert type(host) is np.ndarray and index == BareDevice.current
        return Box(host.copy())

    def to_host(self, array: Box) -> Any:
        return array.data.copy()

    def cast(self, array: Box, dtype: Any) -> Box:
        return Box(array.data.astype(dtype))

    def copy(self, array: Box) -> Box:
        return Box(array.data.copy())

    def may_alias(self, a: Box, b: Box) -> bool:
        return np.may_share_memory(a.data, b.data)

    @contextmanager
    def device(self, index: int) -> Iterator[None]:
        before, BareDevice.current = BareDevice.current, index
        try:
            yield
        finally:
            BareDevice.current = before


def unboxed(value: Any) -> Any:
    one = value.data if isinstance(value, Box) else value
    return [unboxed(v) for v in value] if isinstance(value, list) else one


def boxed(kernel: Any) -> Any:
    @functools.wraps(kernel)
    def on_boxes(*args: Any, **kwargs: Any) -> Any:
        return Box(kernel(*map(unboxed, args), **kwargs))

    return on_boxes


@pytest.fixture(scope="module", autouse=True)
def bare() -> Iterator[None]:
    key = backend_key("bare")
    devices.install("bare", BareDevice(), 2, "tests-bare")
    staging = REGISTRY.stage("bare", "tests-bare")
    for name, kernel in arrays_over(np).items():
        op = REGISTRY.operators.get(f"tp::{name}")
        if op is not None and f"tp::{name}" not in FUNCTIONAL and op.functional is None:
            staging.impl(f"tp::{name}", key, boxed(kernel), level="array")
    committed = staging.commit()
    yield
    committed.undo()
    devices.uninstall("bare")


@pytest.fixture(autouse=True)
def allowed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(fallbacks, "mode", "allow")
    monkeypatch.setattr(host_fallback, "_warned", set())
    before = STATE.get()
    fallbacks.fallback_report(reset=True)
    yield
    assert STATE.get() is before and BareDevice.current == 0


@contextmanager
def without_composite(op: Operator) -> Iterator[None]:
    """Takes what is at Composite out; of an implicit operator that is its gradient, so it stays."""
    found = op.table.get(COMPOSITE, ()) if op.composite != "implicit" and op.functional is None else ()
    REGISTRY.publish(removed=found)
    try:
        yield
    finally:
        REGISTRY.publish(added=found)


def x(*values: Any, dtype: Any = None, device: str = "bare", requires_grad: bool = False) -> tp.Tensor:
    return tp.tensor(list(values), dtype=dtype or tp.float32, device=device, requires_grad=requires_grad)


def packet(op: Operator) -> Any:
    return getattr(getattr(tp.ops.tp, op.name), op.overload or "default")


def tensors(values: Any) -> list[tp.Tensor]:
    if isinstance(values, tp.Tensor):
        return [values]
    return [t for v in values for t in tensors(v)] if isinstance(values, (tuple, list)) else []


def rows() -> list[tuple[Any, ...]]:
    return [tuple(row) for row in fallbacks.fallback_report(reset=True)]


def calls(op: Operator, dtype: str, count: int = 12) -> Iterator[tuple[Any, Any]]:
    """Sample calls, each on the cpu and on the device, with the floating tensors requiring gradients."""
    for sample in itertools.islice(samples(op, dtype=dtype), count):
        if any(dtype in str(sample) for dtype in ("float64", "uint64")):  # which it lacks
            continue
        here, there = sample.build(tp), sample.build(tp, "bare:1")
        if not tensors(here[0]):
            there[1]["device"] = "bare:1"
        for args, _ in (here, there):
            for t in tensors(args):
                t.requires_grad_(t.is_floating_point())
        yield here, there


def agree(here: Any, there: Any, values: bool = True, atol: float = 1e-6) -> None:
    assert type(here) is type(there)
    for a, b in zip(tensors(here), tensors(there), strict=True):
        assert (b.dtype, b.shape, str(b.device), b._array.place) == (a.dtype, a.shape, "bare:1", 1)
        assert (a._node is None) is (b._node is None)
        if values:
            np.testing.assert_allclose(a.detach().numpy(), b.detach().cpu().numpy(), rtol=1e-6, atol=atol)


def gradients_agree(name: str, args: Any, there: Any) -> None:
    grads = [[t.grad for t in tensors(values)] for values in (args, there)]
    agree(*grads, atol=2e-6 if "attention" in name else 1e-6)  # whose steps round otherwise than the cpu's kernel


def backward(results: Any) -> None:
    for result in tensors(results):
        if result._node is not None:
            result.sum().backward()
            return


# ------------------------------------------------------------------------------------------------------ every operator


@pytest.mark.parametrize("name", FUNCTIONAL)
def test_an_operator_gives_on_the_device_what_it_gives_on_the_cpu(name: str) -> None:
    """Values, dtypes, shapes, devices and gradients, of every sample."""
    op, views = OPERATORS[name], []
    for dtype in ("float32", "int64"):
        for (args, kwargs), (there, keywords) in calls(op, dtype):
            want = packet(op)(*args, **kwargs)
            if any(t.dtype is tp.float64 for t in tensors(want)):  # which the device does not have
                continue
            with without_composite(op):
                if fallbacks.refusal(op, backend_key("bare"), kwargs):  # Composite alone serves it, or its keywords
                    with pytest.raises(
                        KernelMissing, match=r"the cpu has no kernel for it(| that takes [\w, ]+) either"
                    ):
                        packet(op)(*there, **keywords)
                    continue
                rows()
                got = packet(op)(*there, **keywords)
            views.append(not any(row[1:3] == ("bare", "host") for row in rows()))
            assert op.composite == "implicit" or not views[-1]
            agree(want, got, values=name not in RANDOM)
            backward(want)
            backward(got)
            gradients_agree(name, args, there)
    assert not views or not all(views)


@pytest.mark.parametrize("name", [n for n in FUNCTIONAL if OPERATORS[n].kernel_at(COMPOSITE) is not None])
def test_composite_serves_before_the_host_and_its_steps_fall_back(name: str) -> None:
    op = OPERATORS[name]
    for (args, kwargs), (there, keywords) in calls(op, "float32", 6):
        want, got = packet(op)(*args, **kwargs), packet(op)(*there, **keywords)
        assert ("bare", "host") in [row[1:3] for row in rows()]
        agree(want, got)
        backward(want)
        backward(got)
        gradients_agree(name, args, there)


@pytest.mark.parametrize("name", IN_PLACE)
def test_an_in_place_form_writes_what_its_operator_gives(name: str) -> None:
    """Through core's own kernel, which computes on the host and copies; with gradients, or none, counted as a write."""
    op = OPERATORS[name]
    for dtype in ("float32", "int64"):
        for (args, kwargs), (there, keywords) in calls(op, dtype):
            results, refused = [], set()
            for values, named in ((args, kwargs), (there, keywords)):
                target = values[0] * 1
                version = version_of(target)[0]
                try:
                    assert packet(op)(target, *values[1:], **named) is target
                except TensorPlayError as error:
                    results.append(type(error))
                    assert version_of(target)[0] == version
                    continue
                assert version_of(target)[0] == version + 1
                try:
                    backward(target)
                except AutogradError as error:
                    refused.add(str(error))
                results.append([target, [t.grad for t in tensors(values)]])
            if isinstance(results[0], type):
                assert results[1] is results[0]
            else:
                agree(*results)
                assert len(refused) < 2 and (not refused or op.functional.node is None)


def test_python_numbers_0d_tensors_of_the_cpu_and_lists_stay_what_they_are() -> None:
    half = x(1, 2, dtype=tp.float16)
    assert (half * 2.0).dtype is tp.float16 and (2 - half).tolist() == [1.0, 0.0]
    assert (half + tp.tensor(1.0, dtype=tp.float32)).dtype is tp.float32  # promotion does not depend on ndim
    assert (x(1, dtype=tp.int8) + 300).tolist() == [45]  # wraps around in the dtype of the tensor
    joined = tp.cat([x(1.0), x(2, dtype=tp.int32), x(3.0)])
    assert joined.tolist() == [1.0, 2.0, 3.0] and str(joined.device) == "bare:0"
    assert tp.where(x(1, 0) > 0.5, x(1, 2), 7.0).tolist() == [1.0, 7.0]
    with pytest.raises(tp.DeviceMismatch):
        x(1, 2) + tp.ones(2)


def test_a_creation_operator_makes_its_tensor_on_the_device_that_it_names() -> None:
    assert tp.zeros(2, device="bare:1")._array.place == 1
    with tp.device("bare"):
        y = tp.full((2,), 7, dtype=tp.int32)
    assert str(y.device) == "bare:0" and y.dtype is tp.int32 and y.tolist() == [7, 7]
    assert rows() == [("full", "bare", "host", 1), ("zeros", "bare", "host", 1)]
    tp.manual_seed(3)
    first = tp.rand(4, device="bare").tolist()
    tp.manual_seed(3)
    assert tp.rand(4, device="bare").tolist() == first and len(set(first)) == 4


def test_several_results_lists_and_numbers_come_back_as_they_are() -> None:
    with closing(Library("hosted", "DEF")) as lib:
        lib.define("parts(Tensor x, Device? device=None) -> (Tensor[], int, Tensor)")
        lib.define("pair(Tensor x, Tensor? y=None) -> (Tensor low, Tensor high)")
        lib.define("make(int n) -> Tensor")
        lib.impl("parts", lambda x, device: ([x[:1], x[1:]], len(x), x * 2), "CPU", level="tensor")
        lib.impl("pair", lambda x, y: (x - 1, x + 1 if y is None else x + y), "CPU")
        lib.impl("make", lambda n: np.zeros(n), "CPU")
        parts, count, twice = tp.ops.hosted.parts(x(1, 2, 3, device="bare:1"))
        assert [p.tolist() for p in parts] == [[1.0], [2.0, 3.0]] and count == 3 and twice.tolist() == [2.0, 4.0, 6.0]
        assert {str(t.device) for t in (*parts, twice)} == {"bare:1"}
        assert str(tp.ops.hosted.parts(x(1, 2), "cpu")[2].device) == "cpu"  # where a device is named, results go there
        pair = tp.ops.hosted.pair(x(1, 2))
        assert pair.low.tolist() == [0.0, 1.0] and pair.high.tolist() == [2.0, 3.0]
        assert tp.ops.hosted.pair(x(1, 2), x(4, 4)).high.tolist() == [5.0, 6.0]
        with tp.device("bare"), pytest.raises(KernelMissing, match="it takes neither a tensor nor a device"):
            tp.ops.hosted.make(3)


def test_a_tensor_that_is_given_twice_is_copied_once(monkeypatch: pytest.MonkeyPatch) -> None:
    copies = []
    real = host_fallback._copied
    monkeypatch.setattr(host_fallback, "_copied", lambda op, t, d: copies.append(str(d)) or real(op, t, d))
    a = x(1, 2)
    assert (a * a).tolist() == [1.0, 4.0] and copies == ["cpu", "bare:0"]


def test_a_dtype_that_the_device_lacks_is_named_with_operator_and_device() -> None:
    with closing(Library("hosted", "DEF")) as lib:
        lib.define("wide(Tensor x) -> Tensor")
        lib.impl("wide", lambda a: a.astype("float64"), "CPU", level="array")
        for _ in range(2):
            with pytest.raises(
                DTypeError,
                match=r"(?s)hosted::wide: has run on the host, and gives float64, which device "
                r"'bare' does not have; it has bool, .*complex64\nfix: convert",
            ):
                tp.ops.hosted.wide(x(1, 2))


def test_errors_of_the_call_are_those_of_the_operator_and_leave_the_context_as_it_was() -> None:
    with tp.no_grad(), tp.profiler.profile():
        before = STATE.get()
        with pytest.raises(ShapeError, match=r"mul: .*\(2,\).*\(3,\)"):
            x(1, 2) * x(1, 2, 3)
        assert STATE.get() is before


# ------------------------------------------------------------------------------------------------ what is not served


def test_what_writes_or_gives_a_view_is_missing_and_the_error_says_why() -> None:
    with closing(Library("hosted", "DEF")) as lib:
        lib.define("view(Tensor(a) x) -> Tensor(a)")
        lib.define("write(Tensor(a!) x) -> ()")
        lib.impl("view", lambda a: a[:1], "CPU")
        lib.impl("write", lambda a: a.fill(1), "CPU")
        lib.define("nowhere(Tensor x) -> Tensor")
        for name, why in (
            ("view", "its result is a view of x, and what comes from the host shares no memory with it"),
            ("write", "it writes to its argument x, and the host would write to a copy"),
            ("nowhere", "the cpu has no kernel for it either"),
        ):
            with pytest.raises(KernelMissing, match=f"{name}: no kernel at Bare.*TENSORPLAY_FALLBACK=allow .*: {why}"):
                getattr(tp.ops.hosted, name)(x(1, 2))
            step = tp.explain(getattr(tp.ops.hosted, name), x(1, 2)).steps[-1]
            assert step.state == "missing" and step.reason.endswith(f"TENSORPLAY_FALLBACK=allow does not help: {why}")
    assert rows() == []


def test_a_mode_of_raise_raises_and_says_what_would_help(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fallbacks, "mode", "raise")
    a = x(1, 2)
    for call in (a.exp, lambda: a + a, lambda: a.exp_(), lambda: tp.zeros(2, device="bare")):
        with pytest.raises(KernelMissing, match=r"or set TENSORPLAY_FALLBACK=warn, and it runs on the host"):
            call()
    written = REGISTRY.find("fill_").table[backend_key("bare")]
    REGISTRY.publish(removed=written)
    with pytest.raises(KernelMissing) as info:  # which the host would not serve
        a.fill_(3)
    REGISTRY.publish(added=written)
    assert "TENSORPLAY_FALLBACK" not in str(info.value)
    assert a.tolist() == [1.0, 2.0] and [row for row in rows() if row[2] == "host"] == []
    assert tp.explain(tp.exp, a).steps[-1].reason.endswith("; with TENSORPLAY_FALLBACK=warn it would run on the host")


def test_a_kernel_that_lacks_a_keyword_is_helped_out_where_composite_has_none() -> None:
    with closing(Library("hosted", "DEF")) as lib:
        lib.define("scale(Tensor x, *, Scalar by=2) -> Tensor")
        lib.impl("scale", boxed(lambda a: a * 2), "bare", level="array")
        lib.impl("scale", lambda a, *, by=2: a * by, "CPU")
        a = x(1, 2)
        with tp.profiler.profile() as p:
            assert tp.ops.hosted.scale(a).tolist() == [2.0, 4.0] and tp.ops.hosted.scale(a, by=3).tolist() == [3.0, 6.0]
        ran = [(e.key, e.slot) for e in p.events if e.op == "hosted::scale"]
        bare = [("AutogradBare", "Autograd"), ("Bare", "Bare")]
        assert ran == [*bare, bare[0], ("Bare", "Host"), ("CPU", "CPU")]
        assert [(s.key, s.slot) for s in tp.explain(tp.ops.hosted.scale, a, by=3).steps] == ran[2:]
    assert rows() == [("hosted::scale", "bare", "host", 1)]


def test_an_operator_without_a_formula_still_has_a_node_that_raises_on_backward() -> None:
    with closing(Library("hosted", "DEF")) as lib:
        lib.define("odd(Tensor x) -> Tensor")
        lib.impl("odd", lambda a: a + 1, "CPU")
        y = tp.ops.hosted.odd(x(1, 2, requires_grad=True))
        assert y.tolist() == [2.0, 3.0]
        with pytest.raises(AutogradError, match="hosted::odd"):
            y.sum().backward()


def test_an_input_that_a_kernel_writes_to_is_put_back_by_the_devices_own_means() -> None:
    """Watching a first call needs nothing of an array that the device's API does not offer."""
    with closing(Library("hosted", "DEF")) as lib:
        lib.define("bad(Tensor x) -> Tensor")
        lib.impl("bad", boxed(lambda a: np.add(a, 1, out=a) * 1), "bare", level="array")
        a = x(1, 2)
        for _ in range(2):
            with pytest.raises(tp.KernelError, match=r"hosted::bad: .* changed its argument x.* been put back"):
                tp.ops.hosted.bad(a)
            assert a.tolist() == [1.0, 2.0]
