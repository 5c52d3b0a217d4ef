"""Dual tensors: levels, tangents of closed forms, writes and views, and what is refused."""

from __future__ import annotations

import asyncio
import gc
import math
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable
from typing import Any

import pytest

import tensorplay as tp
from tensorplay_core.dispatch import active

fwAD = tp.autograd.forward_ad


def tangent(tensor: tp.Tensor) -> Any:
    found = fwAD.unpack_dual(tensor).tangent
    return None if found is None else found.tolist()


@pytest.fixture(autouse=True)
def nothing_stays_open():
    before = active.special, active.levels
    yield
    assert (active.special, active.levels) == before


@pytest.fixture
def level():
    with fwAD.dual_level():
        yield


def dual(values: Any, direction: Any, dtype: Any = tp.float64) -> tp.Tensor:
    return fwAD.make_dual(tp.tensor(values, dtype=dtype), tp.tensor(direction, dtype=dtype))


# closed forms

CLOSED_FORMS: dict[str, tuple[Callable[[tp.Tensor], tp.Tensor], Callable[[float], float]]] = {
    "sin of a square": (lambda x: tp.sin(x * x), lambda x: 2 * x * math.cos(x * x)),
    "exp over 1 + x": (lambda x: x.exp() / (1 + x), lambda x: math.exp(x) * x / (1 + x) ** 2),
    "a power": (lambda x: x**3.5, lambda x: 3.5 * x**2.5),
    "a base": (lambda x: 2.0**x, lambda x: math.log(2) * 2.0**x),
    "tanh": (lambda x: tp.tanh(x), lambda x: 1 / math.cosh(x) ** 2),
    "log of sqrt": (lambda x: x.sqrt().log(), lambda x: 0.5 / x),
    "x to the x": (lambda x: x**x, lambda x: x**x * (math.log(x) + 1)),
}


@pytest.mark.parametrize("name", CLOSED_FORMS)
def test_tangents_of_closed_forms(level: None, name: str) -> None:
    function, slope = CLOSED_FORMS[name]
    points = [0.3, 1.0, 1.7]
    y = function(dual(points, [1.0, -2.0, 0.5]))
    assert tangent(y) == pytest.approx([v * slope(x) for x, v in zip(points, [1.0, -2.0, 0.5], strict=True)], rel=1e-12)
    assert fwAD.unpack_dual(y).primal.tolist() == function(tp.tensor(points, dtype=tp.float64)).tolist()


def test_a_holomorphic_function_has_the_complex_derivative(level: None) -> None:
    z, v = 0.3 + 0.4j, 2.0 - 1.0j
    x = dual([z], [v], tp.complex128)
    assert tangent(x * x * x) == pytest.approx([3 * z * z * v])
    assert tangent(1 / x) == pytest.approx([-v / z**2])
    assert tangent(x.conj()) == [v.conjugate()]
    assert tangent(x.real()) == [v.real]
    assert tangent(x.abs()) == pytest.approx([(z.conjugate() * v).real / abs(z)])


def test_several_inputs_add_up_and_an_input_without_tangent_adds_nothing(level: None) -> None:
    x, y, c = dual([2.0], [1.0]), dual([5.0], [10.0]), tp.tensor([7.0], dtype=tp.float64)
    assert tangent(x * y + c * x) == [1.0 * 5 + 2 * 10 + 7]
    assert tangent(c * c) is None
    assert tangent(x - y) == [-9.0] and tangent(c - y) == [-10.0]


def test_broadcasting_0d_and_empty_tensors(level: None) -> None:
    column, number = dual([[1.0], [2.0]], [[1.0], [10.0]]), dual(3.0, 100.0)
    assert tangent(column + tp.ones(3, dtype=tp.float64)) == [[1.0] * 3, [10.0] * 3]
    assert tangent(column * number) == [[103.0], [230.0]]
    assert tangent(number * 2) == 200.0
    assert tangent(dual([], []).exp()) == [] and tangent(dual([], []).sum()) == 0.0


def test_the_tangent_takes_the_dtype_of_the_result(level: None) -> None:
    x = dual([1.5], [2.0], tp.float32)
    wide = x * tp.tensor([2.0], dtype=tp.float64)
    assert wide.dtype is tp.float64 and fwAD.unpack_dual(wide).tangent.dtype is tp.float64 and tangent(wide) == [4.0]
    assert tangent(x.to(tp.complex64)) == [2 + 0j] and tangent(x.to(tp.int64)) is None
    assert fwAD.unpack_dual(x * tp.tensor([3], dtype=tp.int64)).tangent.dtype is tp.float32


def test_integer_results_have_no_tangent_and_several_results_each_have_their_own(level: None) -> None:
    x = dual([[1.0, 5.0], [4.0, 2.0]], [[1.0, 2.0], [3.0, 4.0]])
    values, indices = x.max(1)
    assert tangent(values) == [2.0, 3.0] and tangent(indices) is None
    assert tangent(x > 2) is None and tangent(x.argmax()) is None
    assert [tangent(part) for part in x.unbind(1)] == [[1.0, 3.0], [2.0, 4.0]]


def test_an_operator_that_decomposes_hands_tangents_on(level: None) -> None:
    x, weight = dual([[1.0, 2.0]], [[1.0, 0.0]]), tp.tensor([[3.0, 4.0]], dtype=tp.float64)
    assert tangent(tp.nn.functional.linear(x, weight)) == [[3.0]]
    assert tangent(tp.stack([x, x])) == [[[1.0, 0.0]]] * 2


# levels


def test_a_tangent_ends_with_its_level() -> None:
    with fwAD.dual_level() as number:
        x = dual([1.0], [2.0])
        assert number == 0 and tangent(x) == [2.0]
    assert tangent(x) is None and fwAD.unpack_dual(x).primal is x
    with fwAD.dual_level():
        assert tangent(x * 3) is None


def test_enter_and_exit_by_hand() -> None:
    assert fwAD.enter_dual_level() == 0
    try:
        with pytest.raises(tp.AutogradError, match="is number 0, not 3"):
            fwAD.exit_dual_level(level=3)
        assert tangent(dual([1.0], [2.0]) * 2) == [4.0]
    finally:
        fwAD.exit_dual_level(level=0)
    with pytest.raises(tp.AutogradError, match="no dual level is open"):
        fwAD.exit_dual_level()


def test_levels_do_not_nest(level: None) -> None:
    with pytest.raises(RuntimeError, match=r"do not nest\nfix: for derivatives of derivatives"), fwAD.dual_level():
        pass
    with pytest.raises(tp.AutogradError, match="do not nest"):
        fwAD.enter_dual_level()
    assert tangent(dual([1.0], [2.0]) * 2) == [4.0]


def test_a_level_is_left_by_an_exception() -> None:
    with pytest.raises(ZeroDivisionError), fwAD.dual_level():
        1 / 0  # noqa: B018
    with fwAD.dual_level():
        pass


def test_a_level_decorates_functions_and_generators() -> None:
    @fwAD.dual_level()
    def slope(at: float) -> Any:
        return tangent(dual([at], [1.0]) ** 2)

    @fwAD.dual_level()
    def slopes() -> Any:
        yield tangent(dual([1.0], [1.0]) ** 2)
        yield tangent(dual([2.0], [1.0]) ** 2)

    assert slope(3.0) == [6.0] and slope(4.0) == [8.0]
    assert [*slopes()] == [[2.0], [4.0]]


def test_each_thread_has_a_level_of_its_own(level: None) -> None:
    x, found = dual([1.0], [2.0]), {}

    def work() -> None:
        found["outside"] = tangent(x * 3)
        with fwAD.dual_level():
            found["inside"] = tangent(dual([1.0], [5.0]) * 3), tangent(x * 3)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == {"outside": None, "inside": ([15.0], None)}
    assert tangent(x * 3) == [6.0]


def test_a_task_sees_the_level_that_it_was_started_in_until_it_closes() -> None:
    async def late(x: tp.Tensor, closed: asyncio.Event) -> tuple[Any, Any]:
        before = tangent(x * 2)
        await closed.wait()
        return before, tangent(x * 2)

    async def main() -> Any:
        closed = asyncio.Event()
        with fwAD.dual_level():
            task = asyncio.create_task(late(dual([1.0], [2.0]), closed))
            await asyncio.sleep(0)
        closed.set()
        return await task

    assert asyncio.run(main()) == ([4.0], None)


def test_a_level_left_open_by_a_thread_that_ended_is_not_counted() -> None:
    thread = threading.Thread(target=fwAD.enter_dual_level)
    thread.start()
    thread.join()
    del thread
    gc.collect()
    assert active.levels == 0


def test_nothing_keeps_a_dual_or_its_tangent_alive() -> None:
    gc.disable()
    try:
        with fwAD.dual_level():
            x = dual([1.0], [2.0])
            y = x[0:1] * 3
            alive = [weakref.ref(y), weakref.ref(fwAD.unpack_dual(y).tangent)]
            del y
            assert [reference() for reference in alive] == [None, None]
            kept = weakref.ref(fwAD.unpack_dual(x).tangent)
        assert kept() is None
    finally:
        gc.enable()


def test_importing_tensorplay_loads_no_rule() -> None:
    code = "import sys, tensorplay; print([m for m in sys.modules if 'forward' in m or m.endswith('tensor.dual')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "[]"


# modes


def test_no_grad_lets_tangents_pass_and_detach_does_not(level: None) -> None:
    x = dual([1.0], [2.0])
    with tp.no_grad():
        assert tangent(x * 2) == [4.0]
    assert tangent(x.detach()) is None and tangent(x.clone()) == [2.0]


def test_inference_mode_has_no_tangents_and_says_so(level: None) -> None:
    x = dual([1.0], [2.0])
    with tp.inference_mode():
        assert tangent(x * 2) is None
        with pytest.raises(tp.AutogradError, match=r"inference mode\nfix: use tp.no_grad"):
            dual([1.0], [2.0])


def test_tangents_can_be_switched_off(level: None) -> None:
    x = dual([1.0], [2.0])
    with fwAD.set_fwd_grad_enabled(False):
        assert tangent(x) is None and not fwAD._is_fwd_grad_enabled()
        y = x * 2
        with fwAD._set_fwd_grad_enabled(True):
            assert tangent(x * 2) == [4.0]
    assert tangent(y) is None and tangent(x * 2) == [4.0]
    with pytest.raises(tp.ArgumentError, match="True or False, not 1"):
        fwAD.set_fwd_grad_enabled(1)


# make_dual and unpack_dual


def test_make_dual_leaves_the_tensor_and_shares_its_memory(level: None) -> None:
    x, v = tp.tensor([1.0, 2.0]), tp.tensor([3.0, 4.0])
    d = fwAD.make_dual(x, v)
    assert d is not x and tangent(x) is None
    x[0] = 9.0
    primal, found = fwAD.unpack_dual(d)
    assert primal.tolist() == [9.0, 2.0] and found is v and tangent(primal) is None


def test_a_tangent_of_another_layout_is_copied(level: None) -> None:
    x, v = tp.zeros(2, 3), tp.ones(3, 2).t()
    found = fwAD.unpack_dual(fwAD.make_dual(x, v)).tangent
    assert found is not v and found.stride() == x.stride() and found.tolist() == v.tolist()


def test_a_dual_prints_its_tangent(level: None) -> None:
    d = fwAD.make_dual(tp.tensor([1.0, 2.0]), tp.tensor([3.0, 4.0]))
    assert repr(d) == "tensor([1., 2.], tangent=tensor([3., 4.]))"
    assert repr(fwAD.unpack_dual(d).primal) == "tensor([1., 2.])"


def test_make_dual_refuses_what_does_not_fit(level: None) -> None:
    x = tp.ones(2)
    cases: list[tuple[type[Exception], str, Callable[[], Any]]] = [
        (tp.ShapeError, r"shape \(3,\), its tensor \(2,\).*\nfix: ", lambda: fwAD.make_dual(x, tp.ones(3))),
        (tp.DTypeError, r"float64, its tensor float32.*\nfix: ", lambda: fwAD.make_dual(x, tp.ones(2).double())),
        (tp.DeviceMismatch, r"on meta, its tensor on cpu\nfix: ", lambda: fwAD.make_dual(x, x.to(device="meta"))),
        (ValueError, r"the primal must be floating or complex, not int64\nfix: ", lambda: dual([1], [1], tp.int64)),
        (ValueError, r"the tangent must be floating", lambda: fwAD.make_dual(x, tp.ones(2, dtype=tp.int64))),
        (TypeError, r"the tangent is a Tensor, not float", lambda: fwAD.make_dual(x, 1.0)),
        (TypeError, r"the primal is a Tensor, not list", lambda: fwAD.make_dual([1.0], x)),
        (TypeError, r"takes a tensor, not float", lambda: fwAD.unpack_dual(1.0)),
        (RuntimeError, r"is number 0, not 5", lambda: fwAD.make_dual(x, x, level=5)),
        (RuntimeError, r"has a tangent already", lambda: fwAD.make_dual(fwAD.make_dual(x, x), x)),
        (RuntimeError, r"has a tangent itself", lambda: fwAD.make_dual(x, fwAD.make_dual(x, x))),
    ]
    for kind, message, call in cases:
        with pytest.raises(kind, match=message) as caught:
            call()
        assert isinstance(caught.value, tp.TensorPlayError)


def test_make_dual_needs_a_level() -> None:
    with pytest.raises(RuntimeError, match=r"no dual level is open.*\nfix: compute inside 'with forward_ad.dual_level"):
        fwAD.make_dual(tp.ones(1), tp.ones(1))
    assert fwAD.unpack_dual(tp.ones(1)).tangent is None
