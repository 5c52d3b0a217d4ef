"""The meta device: it starts by itself, needs no array library, and says clearly where data would be needed."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
import threading
from typing import Any

import numpy
import pytest

import tensorplay as tp
from tensorplay_core.dispatch import devices
from tensorplay_core.dispatch.keys import DispatchKey
from tensorplay_core.dispatch.registry import REGISTRY
from tensorplay_core.errors import NoDataError
from tensorplay_core.ops.meta import start
from tensorplay_core.types import dtype as dt

F = tp.nn.functional
NO_DATA = "a meta tensor has no data, only a shape, strides and a dtype\nfix: "


def meta(*shape: int, dtype: Any = tp.float32, requires_grad: bool = False) -> tp.Tensor:
    return tp.zeros(*shape, dtype=dtype, device="meta", requires_grad=requires_grad)


def run(code: str, **env: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={"PATH": "", **env})
    assert done.returncode == 0, done.stderr
    return done.stdout


# ---------------------------------------------------------------------------------------------------------- the device


def test_a_training_step_imports_no_array_library():
    code = """
import sys
import tensorplay as tp
F = tp.nn.functional
assert not [m for m in sys.modules if m.endswith((".meta", "_generated_meta"))], "it starts when it is named"
x, target = tp.rand(8, 5, device="meta"), tp.zeros(8, dtype=tp.int64, device="meta")
w = tp.randn(3, 5, device="meta", requires_grad=True)
b = tp.zeros(3, device="meta", requires_grad=True)
for _ in range(3):
    loss = F.cross_entropy(tp.relu(F.linear(x, w, b)) * 2.0, target)
    loss.backward()
    with tp.no_grad():
        w -= 0.1 * w.grad
    w.grad = None
print(loss, w.shape, b.grad.shape, loss.device, [m for m in ("numpy", "cupy", "tensorplay_cpu") if m in sys.modules])
"""
    assert run(code) == "tensor(..., device='meta', size=(), grad_fn=<DivBackward>) (3, 5) (3,) meta []\n"


def test_it_is_no_backend_and_is_always_there():
    assert "meta" not in {record.name for record in tp.backends.list(load=False)}
    assert tp.backends.is_available("meta")
    assert meta(1)._type.key_set.highest == DispatchKey.AutogradMeta
    assert devices.entry("meta").distribution == "tensorplay-core"


@pytest.mark.parametrize(
    "env",
    [{"TENSORPLAY_BACKEND_AUTOLOAD": "0"}, {"TENSORPLAY_BACKENDS": "loopback"}, {"TENSORPLAY_BACKENDS_BLOCK": "cpu"}],
)
def test_no_setting_of_backends_keeps_it_away(env):
    code = """
import tensorplay as tp
x = tp.ones(2, device="meta", requires_grad=True)
(x + x).sum().backward()
print(x.grad)
"""
    assert run(code, **env) == "tensor(..., device='meta', size=(2,))\n"


def test_without_composite_no_gradient_is_lost_in_silence():
    code = """
import tensorplay as tp
w = tp.ones(3, 2, device="meta", requires_grad=True)
print(tp.nn.functional.linear(tp.ones(4, 2, device="meta"), w.detach()).shape)
try:
    tp.nn.functional.linear(tp.ones(4, 2, device="meta"), w)
except tp.errors.KernelMissing as error:
    print(error)
"""
    found = run(code, TENSORPLAY_BACKENDS_BLOCK="composite")
    assert found.startswith("(4, 3)\nlinear: its gradient is that of its Composite kernel, and Composite has none")


def test_a_device_has_no_index_as_in_pytorch():
    for name in ("meta", "meta:0"):
        assert repr(tp.zeros(1, device=name).device) == "device(type='meta')"
    with pytest.raises(tp.ValueRangeError, match="meta:1 does not exist"):
        tp.zeros(1, device="meta:1")


def test_it_may_be_the_default_device():
    tp.set_default_device(tp.device("meta"))
    try:
        assert tp.zeros(2).is_meta and tp.tensor([1, 2]).is_meta
    finally:
        tp.set_default_device(None)
    assert not tp.zeros(2).is_meta


def test_threads_start_it_once():
    code = """
import sys, threading
sys.setswitchinterval(1e-6)
import tensorplay as tp
barrier, found = threading.Barrier(8), []
def use():
    barrier.wait()
    found.append(tp.zeros(2, device="meta") + 1)
threads = [threading.Thread(target=use) for _ in range(8)]
[t.start() for t in threads]; [t.join() for t in threads]
from tensorplay_core.dispatch.registry import REGISTRY
print(len(found), len(REGISTRY.find("add").table[4]), len({id(t._type) for t in found}))
"""
    assert run(code) == "8 1 1\n"


def test_starting_again_changes_nothing():
    meta(1)
    before = devices.entry("meta"), {op: op.table for op in REGISTRY.operators.values()}
    thread = threading.Thread(target=start)
    thread.start()
    thread.join()
    assert (devices.entry("meta"), {op: op.table for op in REGISTRY.operators.values()}) == before


def test_a_plugin_cannot_take_its_name():
    from types import SimpleNamespace

    from tensorplay_core.plugins.catalogue import _assign_page
    from tensorplay_core.plugins.records import State

    info = SimpleNamespace(distribution="mine", devices=("meta",))
    record: Any = SimpleNamespace(name="meta", owns_device=True, state=State.DISCOVERED, stage="", info=info)
    _assign_page(record)
    assert record.state is State.ERROR
    assert "no device of a backend can be called 'meta': core brings it itself" in record.reason


# ------------------------------------------------------------------------------------------------------------- tensors


@pytest.mark.parametrize("dtype", dt.ALL, ids=lambda d: d.name)
def test_every_dtype_exists(dtype):
    x = tp.empty(2, 3, dtype=dtype, device="meta")
    assert x.dtype is dtype and x.nbytes == 6 * dtype.itemsize and x.to(tp.float64).dtype is tp.float64


@pytest.mark.parametrize(
    ("make", "shape", "dtype"),
    [
        (lambda: tp.zeros(2, 3, device="meta"), (2, 3), tp.float32),
        (lambda: tp.full((2,), 7, device="meta"), (2,), tp.int64),
        (lambda: tp.arange(0, 10, 3, device="meta"), (4,), tp.int64),
        (lambda: tp.eye(2, 5, device="meta"), (2, 5), tp.float32),
        (lambda: tp.rand(4, dtype=tp.float64, device="meta"), (4,), tp.float64),
        (lambda: tp.randperm(5, device="meta"), (5,), tp.int64),
        (lambda: tp.tensor([[1, 2, 3], [4, 5, 6]], device="meta"), (2, 3), tp.int64),
        (lambda: tp.tensor(2.5, device="meta"), (), tp.float32),
        (lambda: tp.tensor([], device="meta"), (0,), tp.float32),
        (lambda: tp.tensor(numpy.zeros((2, 1), "int8"), device="meta"), (2, 1), tp.int8),
        (lambda: tp.zeros_like(meta(3), dtype=tp.bool), (3,), tp.bool),
        (lambda: tp.ones(2, 3).to("meta"), (2, 3), tp.float32),
        (lambda: tp.ones(2, dtype=tp.bfloat16).to("meta", tp.int8), (2,), tp.int8),
        (lambda: tp.as_tensor(tp.ones(2), device="meta"), (2,), tp.float32),
    ],
)
def test_creation(make, shape, dtype):
    x = make()
    assert x.is_meta and (x.shape, x.dtype) == (shape, dtype) and x.is_contiguous()


@pytest.mark.parametrize(
    ("data", "dtype"),
    [
        ([1, 300], "uint8"), ([-1], "uint64"), (2**63, "int64"), (1.7, "int64"), (float("inf"), "int32"),
        (float("nan"), "int8"), (1e30, "int64"), (10**400, "float32"), (1e300, "float32"), ([True, False], "int8"),
        ([2, 0], "bool"), ([[1], [2, 3]], "int64"), (1j, "float32"), (1, "complex64"),
    ],
)  # fmt: skip
def test_data_that_the_cpu_refuses_is_refused(data, dtype):
    def outcome(device: str) -> Any:
        try:
            x = tp.tensor(data, dtype=getattr(tp, dtype), device=device)
        except tp.TensorPlayError as error:
            return type(error)
        return x.shape, x.dtype

    assert outcome("meta") == outcome("cpu")


def test_going_to_meta_keeps_the_order_of_the_dims_and_fetches_nothing(monkeypatch):
    x = tp.ones(4, 3)[::2].transpose(0, 1)
    monkeypatch.setattr(x._type.api, "to_host", lambda *_: pytest.fail("data was fetched"))
    y = x.to("meta")
    assert (y.shape, y.stride()) == ((3, 2), (1, 3))
    w = tp.ones(2, requires_grad=True)
    assert w.to("meta").requires_grad


def test_coming_to_meta_and_back_in_a_graph_has_a_gradient_without_data():
    w = meta(2, requires_grad=True)
    with pytest.raises(NoDataError):
        w.to("cpu")


@pytest.mark.parametrize(
    ("tensor", "text"),
    [
        (lambda: meta(2, 3), "tensor(..., device='meta', size=(2, 3))"),
        (lambda: meta(), "tensor(..., device='meta', size=())"),
        (lambda: meta(0), "tensor(..., device='meta', size=(0,))"),
        (lambda: meta(2, 0, dtype=tp.int64), "tensor(..., device='meta', size=(2, 0), dtype=tensorplay.int64)"),
        (lambda: meta(1, dtype=tp.bool), "tensor(..., device='meta', size=(1,), dtype=tensorplay.bool)"),
        (lambda: meta(2, 3, requires_grad=True), "tensor(..., device='meta', size=(2, 3), requires_grad=True)"),
        (
            lambda: meta(2, 3, dtype=tp.float64, requires_grad=True),
            "tensor(..., device='meta', size=(2, 3), dtype=tensorplay.float64,\n       requires_grad=True)",
        ),
        (lambda: meta(3, requires_grad=True) * 2, "tensor(..., device='meta', size=(3,), grad_fn=<MulBackward>)"),
    ],
)
def test_it_prints_as_pytorch_does(tensor, text):
    """PyTorch 2.13, but for the prefix of the dtype and the names of nodes."""
    assert repr(tensor()) == text


@pytest.mark.parametrize(
    "ask",
    [
        lambda x: x.item(), lambda x: x.tolist(), bool, float, int, complex, lambda x: x.to("cpu"), lambda x: x.cpu(),
        lambda x: f"{x:.2f}", lambda x: tp.arange(x), lambda x: tp.full((2,), x), lambda x: tp.tensor([x, x]),
        lambda x: x.numpy(), lambda x: x.numpy(force=True), numpy.asarray,
    ],
)  # fmt: skip
def test_who_asks_for_data_is_told_that_there_is_none(ask):
    with pytest.raises(NoDataError, match=NO_DATA) as caught:
        ask(meta())
    assert isinstance(caught.value, (tp.TensorPlayError, NotImplementedError))


def test_numpy_raises_a_type_error_as_in_pytorch():
    for ask in (lambda: meta(2).numpy(), lambda: numpy.asarray(meta(2))):
        with pytest.raises(TypeError, match="numpy: a meta tensor has no data"):
            ask()


def test_item_asks_for_one_element_first():
    with pytest.raises(tp.ShapeError, match="has 2 elements, not one"):
        meta(2).item()
    with pytest.raises(tp.ShapeError, match="ambiguous"):
        bool(meta(2))


@pytest.mark.parametrize("copied", [lambda x: pickle.loads(pickle.dumps(x)), copy.copy, copy.deepcopy])
def test_pickling_and_copying(copied):
    x = meta(2, 3, dtype=tp.bfloat16).transpose(0, 1)
    y = copied(x)
    assert y._type is x._type and y.shape == (3, 2)
    assert y.stride() == ((2, 1) if copied is copy.deepcopy else (1, 3))  # as on the cpu
    assert copied(meta(2, requires_grad=True)).requires_grad


def test_a_pickle_is_read_where_nothing_was_imported():
    text = pickle.dumps(meta(2, 3))
    assert run(f"import pickle; x = pickle.loads({text!r}); print(x, x + 1 is None)").endswith("size=(2, 3)) False\n")
