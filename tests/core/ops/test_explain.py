"""``tp.explain`` says what happens: it is compared with what the profiler sees and with the frames that really run."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import numpy as np
import pytest

import tensorplay as tp
from tensorplay_core.dispatch import active
from tensorplay_core.dispatch.context import STATE
from tensorplay_core.dispatch.operator import Operator
from tensorplay_core.dispatch.registry import REGISTRY
from tensorplay_core.errors import ArgumentError, DeviceMismatch, TensorPlayError
from tensorplay_core.ops.explain import Explanation
from tensorplay_core.ops.explain_text import CallTextError, explain_text
from tensorplay_core.ops.overload_set import OverloadSet
from tensorplay_core.ops.scaled import scaled
from tensorplay_core.profiler import profile
from tensorplay_core.testing.samples import samples

OPERATORS = {name: op for name, op in REGISTRY.operators.items() if op.namespace == "tp"}


def calls(op: Operator) -> Iterator[tuple[tuple[Any, ...], dict[str, Any]]]:
    """An operator's sample calls, each also with its first floating tensor requiring grad."""
    for dtype in ("float32", "int64"):
        for sample in samples(op.functional or op, dtype=dtype):
            yield sample.build(tp)
            args, kwargs = sample.build(tp)
            for value in args:
                if isinstance(value, tp.Tensor) and value.is_floating_point() and not op.is_inplace:
                    value.requires_grad_()
                    yield args, kwargs
                    break


def steps_that_ran(p: profile) -> list[tuple[str, str, str, str]]:
    """The first call of a profile as (key, slot, kernel, where), along its redispatches."""
    event, road = p.events[0], [p.events[0]]
    while (below := next((e for e in p.events if e.parent is event and e.continues), None)) is not None:
        road.append(event := below)
    return [(e.key, e.slot, e.kernel, e.where) for e in road]


def steps_explained(road: Explanation) -> list[tuple[str, str, str, str]]:
    return [(s.key, s.slot, s.kernel, s.where) for s in road.steps if s.state == "runs"]


def took_slow_path(function: Callable[..., Any], *args: Any, **kwargs: Any) -> bool:
    seen = []

    def is_own(frame: FrameType | None) -> bool:  # the function, or that of one of its overloads, called from it
        callers = []
        while frame is not None:
            if frame.f_code is not scaled.__code__:  # it makes the same call, without alpha
                callers.append(frame.f_code)
            frame = frame.f_back
        own = [i for i, code in enumerate(callers) if code is function.__code__]
        if not own or own != [*range(own[0], own[0] + len(own))]:  # none, or a kernel's call of the same function
            return False
        between = [code for code in callers[: own[0]] if code is not OverloadSet.call.__code__]
        return not between or (len(between) == 1 and between[0].co_name.startswith(f"_{function.__name__}__"))

    def watch(frame: FrameType, event: str, argument: object) -> None:
        name = frame.f_code.co_filename.replace("\\", "/")
        outer = is_own(frame.f_back)  # a kernel may make calls too
        if event == "call" and frame.f_code.co_name == "call" and name.endswith("ops/call.py") and outer:
            seen.append(frame.f_code.co_name)

    sys.setprofile(watch)
    try:
        function(*args, **kwargs)
    finally:
        sys.setprofile(None)
    return bool(seen)


@pytest.mark.parametrize("name", OPERATORS)
def test_explains_what_runs(name: str) -> None:
    """Keys, slots, kernels, places, shapes and dtypes, for every sample of every operator."""
    op, packet = OPERATORS[name], tp.ops.tp
    call = getattr(getattr(packet, OPERATORS[name].name), OPERATORS[name].overload or "default")
    count = 0
    for args, kwargs in calls(op):
        road = tp.explain(call, *args, **kwargs)
        assert road.op == op.display_name
        if road.result.error:  # an in-place form of a sample that it cannot take
            with pytest.raises(TensorPlayError) as caught:
                call(*args, **kwargs)
            assert road.result.error == f"{type(caught.value).__name__}: {caught.value}"
            continue
        with profile() as p:
            try:
                result = call(*args, **kwargs)
            except tp.ShapeError:  # an in-place form whose shape no rule knows before it is computed
                assert op.functional is not None and op.functional.shape is None
                continue
        assert steps_explained(road) == steps_that_ran(p)
        assert road.ok
        results = result if isinstance(result, tuple) else (result,)
        if op.schema.returns_list and op.shape is None:
            results = results[:1]
            assert road.result.shapes == (None,)
        for value, shape, dtype in zip(results, road.result.shapes, road.result.dtypes, strict=True):
            assert shape is None or value.shape == shape
            assert dtype is None or value.dtype.name == dtype
        count += 1
    assert count


@pytest.mark.parametrize("name", [name for name, op in OPERATORS.items() if op.fast])
def test_says_truly_whether_the_fast_path_serves(name: str) -> None:
    """A call that has been made once takes the fast path exactly where the explanation says so."""
    op = OPERATORS[name]
    assert op.function is not None
    for args, kwargs in calls(op):
        if tp.explain(op.function, *args, **kwargs).result.error:
            continue
        op.function(*args, **kwargs)
        road = tp.explain(op.function, *args, **kwargs)
        assert road.fast is not took_slow_path(op.function, *args, **kwargs), (str(road), args)


@pytest.mark.parametrize("number", [2, 2.5, True, 0.0, float("nan"), 1j])
def test_fast_path_with_numbers(number: Any) -> None:
    x = tp.ones(3)
    tp.mul(x, number)
    assert tp.explain(tp.mul, x, number).fast is not took_slow_path(tp.mul, x, number)
    assert not tp.explain(tp.mul, number, x).fast and took_slow_path(tp.mul, number, x)


def test_fast_path_under_modes() -> None:
    x, leaf = tp.ones(3), tp.ones(3, requires_grad=True)
    tp.add(x, x)
    for mode in (tp.no_grad, tp.inference_mode, tp.enable_grad):
        with mode():
            for value in (x, leaf):
                assert tp.explain(tp.add, value, value).fast is not took_slow_path(tp.add, value, value)
    with profile():
        assert "profiler" in tp.explain(tp.add, x, x).fast_reason
    assert not tp.explain(tp.add, x, x, out=tp.ones(3)).fast


def test_with_requires_grad_two_keys_and_in_inference_mode_one() -> None:
    a, b = tp.ones(2, 3, requires_grad=True), tp.ones(3)
    road = tp.explain(tp.add, a, b)
    assert [(s.key, s.label, s.distribution) for s in road.steps] == [
        ("AutogradCPU", "AddBackward", "tensorplay-core"),
        ("CPU", "numpy.add", "tensorplay-cpu"),
    ]
    assert all(s.where.rpartition(":")[2].isdigit() for s in road.steps)
    assert road.steps[0].short_where.startswith("tensorplay_core/ops/")
    assert "because self requires grad" in road.steps[0].reason
    assert "not needed: a specialised kernel exists" in road.composite
    assert str(road).split("\n")[-1] == "result     float32[2, 3] on cpu, grad_fn AddBackward"
    with tp.inference_mode():
        road = tp.explain(tp.add, a, b)
    assert [s.key for s in road.steps] == ["CPU"]
    assert road.note == "without AutogradCPU: inference mode"


def test_says_why_nothing_is_recorded() -> None:
    leaf = tp.ones(2, requires_grad=True)
    assert "no input requires grad" in tp.explain(tp.exp, tp.ones(2)).steps[0].reason
    with tp.no_grad():
        assert "gradients are off" in tp.explain(tp.exp, leaf).steps[0].reason
    assert "no tensor inputs" in tp.explain(tp.zeros, 2).steps[0].reason


def test_an_implicit_operator_decomposes_when_a_gradient_is_needed() -> None:
    x, w = tp.ones(2, 3), tp.ones(4, 3, requires_grad=True)
    first, second = tp.explain(tp.linear, x, w).steps
    assert first.reason.startswith("decomposes, because weight requires grad")
    assert second.state == "not reached"
    assert [s.state for s in tp.explain(tp.linear, x, tp.ones(4, 3)).steps] == ["runs", "runs"]


def test_a_third_partys_keys_are_on_a_page() -> None:
    x = tp.ones(3, device="loopback")
    road = tp.explain(tp.mul, x, 2)
    assert road.key_set.page >= 1
    assert [(s.key, s.number % 32) for s in road.steps] == [("AutogradLoopback", 7), ("Loopback", 0)]
    assert f"AutogradLoopback, Loopback, on page {road.key_set.page}" in str(road)


@pytest.mark.parametrize(
    "what",
    ["add", "tp.add", "tp::add", tp.add, tp.Tensor.add, tp.ops.tp.add, tp.ops.tp.add.default, REGISTRY.find("add")],
)
def test_accepts_functions_methods_operators_and_names(what: Any) -> None:
    x = tp.ones(2)
    assert tp.explain(what, x, x).op == "add"
    assert tp.explain(x.add, x).op == "add"
    assert tp.explain(tp.divide, x, x).op == "div"
    assert tp.explain("zeros_like", x).op == "full"
    assert tp.explain(tp.max, x, 0).op == "max.dim"
    assert tp.explain("max.dim", x, 0).op == "max.dim"
    assert tp.explain(tp.sum, x, axis=0).arguments[1] == "dim: 0"


def test_custom_operators_are_explained() -> None:
    lib = tp.library.Library("explained", "FRAGMENT")
    try:
        lib.define("twice(Tensor x) -> Tensor")
        lib.impl("twice", lambda x: x + x, "Composite")
        road = tp.explain(tp.ops.explained.twice, tp.ones(2, requires_grad=True))
        assert road.op == "explained::twice"
        assert [s.slot for s in road.steps] == ["Autograd", "Composite"]
        assert "no formula" in road.steps[0].reason
        lib.define("nothing(Tensor x) -> Tensor")
        road = tp.explain("explained::nothing", tp.ones(2))
        assert not road.ok and road.steps[-1].state == "missing"
    finally:
        lib.close()


def test_unknown_names_offer_the_nearest() -> None:
    with pytest.raises(ArgumentError, match="Did you mean 'sigmoid'"):
        tp.explain("sigmod", tp.ones(2))
    with pytest.raises(ArgumentError, match="'len' is no operator"):
        tp.explain(len, [1])
    with pytest.raises(ArgumentError, match="missing"):
        tp.explain(tp.add, tp.ones(2))
    with pytest.raises(ArgumentError, match="calls no operator"):
        tp.explain(tp.tensor, [1.0])
    with pytest.raises(ArgumentError, match="manual_seed"):
        tp.explain(tp.manual_seed, 3)


def test_nothing_runs_and_nothing_changes() -> None:
    tp.manual_seed(7)
    expected = tp.rand(3).tolist()
    tp.manual_seed(7)
    x = tp.ones(3)
    before, counts = STATE.get(), (active.special, active.grad_off, active.inference)
    tp.explain(tp.rand, 3)
    tp.explain(x.add_, 1)
    tp.explain(tp.Tensor.zero_, x)
    with pytest.raises(DeviceMismatch):
        tp.explain(tp.add, x, tp.ones(3, device="loopback"))
    assert tp.rand(3).tolist() == expected
    assert x.tolist() == [1.0, 1.0, 1.0]
    assert STATE.get() is before and (active.special, active.grad_off, active.inference) == counts


def test_a_call_that_would_fail_is_said_to() -> None:
    road = tp.explain(tp.add, tp.ones(2), tp.ones(3))
    assert not road.ok and "do not broadcast" in " ".join(str(road).split())
    leaf = tp.ones(2, requires_grad=True)
    assert "the tensor is a leaf" in tp.explain(leaf.add_, 1).result.error


def test_text_folds_at_80_columns() -> None:
    for road in (
        tp.explain(tp.cross_entropy, tp.ones(2, 3, requires_grad=True), tp.zeros(2, dtype=tp.int64)),
        tp.explain(tp.add, tp.ones(2), tp.ones(3)),
        tp.explain("add(float32[2,3] cuda, float32[3] cuda)"),
        tp.explain(tp.cat, [tp.ones(2, 3)] * 6),
    ):
        assert max(map(len, str(road).split("\n"))) <= 80


def test_as_dict_is_plain() -> None:
    import json

    found = json.loads(json.dumps(tp.explain(tp.add, tp.ones(2), 1.5).as_dict()))
    assert found["key_set"] == ["AutogradCPU", "CPU"] and found["ok"]
    assert found["result"] == {"shapes": [[2]], "dtypes": ["float32"], "device": "cpu", "error": ""}
    assert found["steps"][1]["where"].endswith(found["steps"][1]["where"].rpartition("/")[2])


# ------------------------------------------------------------------------------------------------------------- as text


@pytest.mark.parametrize(
    ("text", "op", "shape", "dtype"),
    [
        ("add(float32[2,3], float32[3])", "add", (2, 3), "float32"),
        ("add(float32[2, 3] grad, 2)", "add", (2, 3), "float32"),
        ("tp::add(int32[2], 2.5)", "add", (2,), "float32"),
        ("matmul(float32[1000000,3], float32[3,1000000])", "matmul", (1000000, 1000000), "float32"),
        ("sum(float32[2,3], dim=1, keepdim=True)", "sum", (2, 1), "float32"),
        ("sum(bool[2,3])", "sum", (), "int64"),
        ("cat([float32[2,3], float32[1,3]], dim=0)", "cat", (3, 3), "float32"),
        ("zeros(2, 3, dtype=int8)", "zeros", (2, 3), "int8"),
        ("eq(float32[], float32[4])", "eq", (4,), "bool"),
        ("add_(float64[2,3], int64[3])", "add_", (2, 3), "float64"),
        ("add(float32[2] loopback, float32[2] loopback)", "add", (2,), "float32"),
        ("max(float32[3,4])", "max", (), "float32"),
    ],
)
def test_text(text: str, op: str, shape: tuple[int, ...], dtype: str) -> None:
    road = tp.explain(text)
    assert (road.op, road.result.shapes, road.result.dtypes) == (op, (shape,), (dtype,))
    assert road.ok


@pytest.mark.parametrize("text", ["add(float32[2,3] grad, float32[3])", "linear(float32[2,3], float32[4,3] grad)"])
def test_text_agrees_with_tensors(text: str) -> None:
    name, shapes = text.partition("(")[0], ((2, 3), (3,) if text.startswith("add") else (4, 3))
    tensors = [tp.ones(*shape) for shape in shapes]
    tensors[0 if text.startswith("add") else 1].requires_grad_()
    assert str(tp.explain(text)) == str(tp.explain(name, *tensors))


@pytest.mark.parametrize(
    ("text", "says", "under"),
    [
        ("add(flot32[2], 1)", "Did you mean 'float32'", "flot32"),
        ("sigmod(float32[2])", "Did you mean 'sigmoid'", "sigmod"),
        ("add(float32[2] cudda, 1)", "Did you mean 'cuda'", "cudda"),
        ("add(float32[2] @, 1)", "cannot read '@'", "@"),
        ("add(float32[2,x], 1)", "a size is an int", "x"),
        ("add(float32[2], b)", "cannot read 'b'", "b"),
        ("add(alpha=2, float32[2])", "cannot follow", "float32"),
        ("add(int64[2] grad, 1)", "only floating", "int64[2] grad"),
        ("add(float32[2], 1) + 2", "cannot read '+'", "+"),
        ("add float32", "expected '('", "float32"),
        ("(float32[2])", "begins with an operator's name", "("),
    ],
)
def test_text_errors_have_a_caret(text: str, says: str, under: str) -> None:
    with pytest.raises(CallTextError) as caught:
        explain_text(text)
    message, shown, caret = str(caught.value).split("\n")
    assert says in message and shown == f"  {text}"
    start = caret.index("^")
    assert shown[start : start + caret.count("^")] == under


def test_text_that_ends_early() -> None:
    with pytest.raises(ArgumentError, match="the text ends here"):
        tp.explain("add(float32[2], float32[2]")
    for text in ("add(", "add(float32[", "add(float32[2", "add(float32[2],", "add([", "add(float32[2] cuda", "add(x="):
        with pytest.raises(TensorPlayError):
            tp.explain(text)


def test_a_device_that_is_not_here() -> None:
    try:
        tp.zeros(1, device="cuda")
    except TensorPlayError as error:
        why = str(error)
    else:
        pytest.skip("there is a GPU here")
    road = tp.explain("add(float32[2,3] cuda grad, 2)")
    assert [(s.key, s.number, s.state) for s in road.steps] == [("AutogradCUDA", 8, "runs"), ("CUDA", 1, "promised")]
    assert road.here == why and "fix:" in str(road) and not road.ok
    assert road.result.shapes == ((2, 3),) and road.result.dtypes == ("float32",)
    assert not tp.explain("add(float32[2] cuda, float32[3] cuda)").ok


def test_a_device_that_has_keys_and_no_backend() -> None:
    """In a process where the backend of the device is not found, installed or not."""
    code = """if True:
        from tensorplay_core.plugins import discovery
        found = discovery.discover
        discovery.discover = lambda: tuple(one for one in found() if one.name != "vulkan")
        import tensorplay as tp
        road = tp.explain("linear(float32[2,3] vulkan, float32[4,3] vulkan)")
        assert [s.key for s in road.steps] == ["AutogradVulkan", "Vulkan"]
        assert "may bring one" in road.steps[1].reason, road
        assert "No installed backend" in road.here or "pip install" in road.here, road
    """
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_value_of_another_class_is_said_to_take_the_slow_path() -> None:
    x = tp.ones(2, 3)
    for _ in range(2):
        x.unsqueeze(0), x.sort(0, True)
    assert tp.explain(tp.unsqueeze, x, 0).fast and tp.explain(tp.sort, x, 0, True).fast
    for call in ((tp.unsqueeze, x, np.int64(0)), (tp.sort, x, 0, 1)):
        assert took_slow_path(*call)
        road = tp.explain(*call)
        assert not road.fast and "which the slow path reads first" in str(road)
