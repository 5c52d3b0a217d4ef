"""GradScaler: the arithmetic of the factor, which calls are allowed when, and what may be stepped."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import tensorplay as tp

GradScaler = tp.amp.GradScaler


class SGD:
    """The smallest optimizer with torch's attributes."""

    def __init__(self, *groups: list[tp.Tensor]) -> None:
        self.param_groups = [{"params": group, "lr": 0.5} for group in groups]
        self.steps = 0

    def step(self, factor: float = 1.0) -> str:
        self.steps += 1
        with tp.no_grad():
            for group in self.param_groups:
                for p in group["params"]:
                    if p.grad is not None:
                        p.sub_(p.grad, alpha=group["lr"] * factor)
        return "stepped"


def leaf(*values: float) -> tp.Tensor:
    return tp.tensor(values, requires_grad=True)


def pass_through(scaler: GradScaler, p: tp.Tensor, grads: list[float]) -> None:
    """A backward pass whose gradients, before scaling, are those given."""
    p.grad = None
    scaler.scale((p * tp.tensor(grads)).sum()).backward()


# ----------------------------------------------------------------------------------------------------------- arithmetic


def test_gradients_are_unscaled_and_the_step_is_the_same_as_without() -> None:
    p, scaler = leaf(1.0, 2.0), GradScaler()
    optimizer = SGD([p])
    pass_through(scaler, p, [0.25, -3.0])
    assert p.grad.tolist() == [0.25 * 65536, -3.0 * 65536]
    assert scaler.step(optimizer, factor=2.0) == "stepped"
    scaler.update()
    assert p.tolist() == [0.75, 5.0] and p.grad.tolist() == [0.25, -3.0]
    assert scaler.get_scale() == 65536.0


@pytest.mark.parametrize("bad", [float("inf"), float("-inf"), float("nan")])
def test_an_overflow_leaves_the_step_out_and_halves_the_factor(bad: float) -> None:
    p, q, scaler = leaf(1.0, 2.0), leaf(3.0), GradScaler(init_scale=8.0, backoff_factor=0.25)
    optimizer = SGD([p], [q])
    pass_through(scaler, p, [1.0, 1.0])
    q.grad = tp.tensor([bad])
    assert scaler.step(optimizer) is None and optimizer.steps == 0
    scaler.update()
    assert (p.tolist(), q.tolist(), scaler.get_scale()) == ([1.0, 2.0], [3.0], 2.0)


def test_the_factor_grows_after_so_many_good_steps_in_a_row() -> None:
    p, scaler = leaf(0.0), GradScaler(init_scale=4.0, growth_factor=3.0, growth_interval=2)
    optimizer, scales, trackers = SGD([p]), [], []
    for bad in (False, False, False, True, False, False):
        pass_through(scaler, p, [float("inf") if bad else 1.0])
        scaler.step(optimizer)
        scaler.update()
        scales.append(scaler.get_scale())
        trackers.append(scaler.state_dict()["_growth_tracker"])
    assert scales == [4.0, 12.0, 12.0, 6.0, 6.0, 18.0]
    assert trackers == [1, 0, 1, 0, 1, 0] and optimizer.steps == 5


def test_the_factor_is_a_float32_that_stays_finite() -> None:
    p, scaler = leaf(0.0), GradScaler(init_scale=2.0**127, growth_interval=1)
    pass_through(scaler, p, [0.0])
    scaler.step(SGD([p]))
    scaler.update()
    assert scaler.get_scale() == 2.0**127, "twice as much would be infinite in float32"
    assert GradScaler(init_scale=0.1).get_scale() == float(np.float32(0.1))


def test_what_scaling_is_for() -> None:
    """A gradient of 1e-8 is 0 in float16, and survives with the factor."""
    x, w = tp.tensor([[1e-8]]), leaf(1.0)
    grads = []
    for scaler in (GradScaler(enabled=False), GradScaler(init_scale=2.0**14)):
        w.grad = None
        with tp.autocast("cpu", dtype=tp.float16):
            y = (tp.ones(1, 1) @ w.reshape(1, 1)).float() * x
        scaler.scale(y.sum()).backward()
        scaler.step(SGD([leaf(1.0)]) if scaler.is_enabled() is False else SGD([w]))
        grads.append(w.grad.item())
    assert grads[0] == 0.0
    assert grads[1] == pytest.approx(1e-8, rel=1e-3)


def test_scale_takes_iterables() -> None:
    scaler = GradScaler(init_scale=4.0)
    a, b = tp.tensor(1.0), tp.tensor([2.0], dtype=tp.bfloat16)
    assert scaler.scale(a).item() == 4.0 and scaler.scale(b).dtype is tp.bfloat16
    assert [type(scaler.scale(kind((a, b)))) for kind in (tuple, list)] == [tuple, list]
    (x,), y = scaler.scale(((one for one in (a,)), b))
    assert (x.item(), y.item()) == (4.0, 8.0)
    with pytest.raises(tp.ArgumentError, match=r"scale: takes a tensor .*, not 3.0(.|\n)*fix: "):
        scaler.scale(3.0)


# ----------------------------------------------------------------------------------------------------- what can step


def test_functions_with_parameters_and_objects_of_ones_own() -> None:
    p, q, scaler = leaf(1.0), leaf(1.0), GradScaler(init_scale=2.0)

    def descend(rate: float) -> float:
        with tp.no_grad():
            p.sub_(p.grad, alpha=rate)
        return rate

    class Own:
        def __init__(self, parameters: object) -> None:
            self.parameters = parameters

        def step(self) -> None:
            with tp.no_grad():
                q.sub_(q.grad)

    scaler.scale((3 * p + 5 * q).sum()).backward()
    assert scaler.step(descend, 0.5, parameters=[p]) == 0.5
    scaler.step(Own({"q": q}))
    scaler.update()
    assert (p.item(), q.item()) == (-0.5, -4.0)

    q.grad = None
    scaler.scale(q.sum()).backward()
    scaler.step(Own(lambda: iter([q])))
    assert q.item() == -5.0


def test_parameters_are_the_same_ones_however_they_are_passed() -> None:
    p, scaler = leaf(1.0), GradScaler(init_scale=4.0)
    pass_through(scaler, p, [3.0])
    scaler.unscale_({"p": p}.values())
    assert p.grad.tolist() == [3.0]
    p.grad.clamp_(max=1.0)
    scaler.step(lambda: p.data.sub_(p.grad), parameters=[p])
    assert p.tolist() == [0.0], "unscaled once"
    scaler.update()


def test_several_optimizers_share_one_factor() -> None:
    p, q, scaler = leaf(1.0), leaf(1.0), GradScaler(init_scale=4.0)
    one, two = SGD([p]), SGD([q])
    scaler.scale((p + q).sum()).backward()
    q.grad.fill_(float("inf"))
    assert scaler.step(one) == "stepped" and scaler.step(two) is None
    scaler.update()
    assert (p.item(), q.item(), scaler.get_scale()) == (0.5, 1.0, 2.0)


def test_a_gradient_that_two_parameters_share_is_unscaled_once() -> None:
    p, q, scaler = leaf(1.0), leaf(1.0), GradScaler(init_scale=4.0)
    pass_through(scaler, p, [3.0])
    q.grad = p.grad
    scaler.unscale_([p, q, p])
    assert p.grad.tolist() == [3.0]


def test_another_device() -> None:
    p, scaler = tp.ones(2, device="loopback", requires_grad=True), GradScaler("loopback", init_scale=4.0)
    q = leaf(1.0)
    scaler.scale(p.sum() * 3).backward()
    scaler.scale(q.sum()).backward()
    scaler.step(SGD([p, q]))
    scaler.update()
    assert p.grad.tolist() == [3.0, 3.0] and p.grad.device == p.device and q.tolist() == [0.5]


# ---------------------------------------------------------------------------------------------------- what is refused


def test_the_order_of_calls() -> None:
    p, scaler = leaf(1.0), GradScaler()
    optimizer = SGD([p])
    p.grad = tp.ones(1)
    for call in (lambda: scaler.unscale_(optimizer), lambda: scaler.step(optimizer), scaler.update):
        with pytest.raises(tp.AutocastError, match=r"nothing was scaled yet(.|\n)*fix: "):
            call()
    pass_through(scaler, p, [1.0])
    with pytest.raises(tp.AutocastError, match=r"update: no gradients were looked at"):
        scaler.update()
    scaler.unscale_(optimizer)
    with pytest.raises(tp.AutocastError, match="was called for them already since the last update"):
        scaler.unscale_(optimizer)
    scaler.step(optimizer)
    with pytest.raises(tp.AutocastError, match=r"comes after their step\(\)"):
        scaler.unscale_(optimizer)
    with pytest.raises(tp.AutocastError, match="step: it was called for them already"):
        scaler.step(optimizer)
    with pytest.raises(tp.AutocastError, match="between a step and update"):
        pickle.dumps(scaler)
    assert p.grad.tolist() == [1.0], "what is refused changes nothing"
    scaler.update()
    p.grad = None
    with pytest.raises(tp.AutocastError, match="no parameter has a gradient"):
        scaler.step(optimizer)
    with pytest.raises(tp.AutocastError, match="closure"):
        scaler.step(optimizer, closure=lambda: 0)


def test_bad_arguments() -> None:
    scaler, p = GradScaler(), tp.ones(1, dtype=tp.float16, requires_grad=True)
    scaler.scale(p.float().sum()).backward()
    with pytest.raises(tp.ValueRangeError, match=r"a gradient is float16(.|\n)*fix: keep parameters in float32"):
        scaler.step(SGD([p]))
    with pytest.raises(tp.ArgumentError, match=r"whose gradients(.|\n)*fix: name them: step\(named, parameters="):

        def named() -> None: ...

        scaler.step(named)
    with pytest.raises(tp.ArgumentError, match=r"takes an object with step\(\) and param_groups .*, not int"):
        scaler.step(3)
    with pytest.raises(tp.ArgumentError, match="parameters are tensors, and 3 is none"):
        scaler.unscale_([3])
    for name, value in (
        ("growth_factor", 1.0),
        ("backoff_factor", 1.0),
        ("growth_interval", 0),
        ("init_scale", 0.0),
        ("init_scale", float("inf")),
        ("init_scale", 1e39),
    ):
        with pytest.raises(tp.ValueRangeError, match="GradScaler: "):
            GradScaler(**{name: value})
    with pytest.raises(tp.AutocastError, match="no device type 'gpu'"):
        GradScaler("gpu")


# ------------------------------------------------------------------------------------------------------------ the state


def test_the_state_is_torchs_and_goes_on_where_it_was() -> None:
    scaler = GradScaler(init_scale=8.0, growth_interval=3)
    p = leaf(1.0)
    pass_through(scaler, p, [1.0])
    scaler.step(SGD([p]))
    scaler.update()
    state = scaler.state_dict()
    assert state == {
        "scale": 8.0,
        "growth_factor": 2.0,
        "backoff_factor": 0.5,
        "growth_interval": 3,
        "_growth_tracker": 1,
    }
    other = GradScaler()
    other.load_state_dict(state)
    assert (
        other.state_dict() == pickle.loads(pickle.dumps(scaler)).state_dict() == copy.copy(scaler).state_dict() == state
    )
    with pytest.raises(tp.AutocastError, match="the state is empty"):
        other.load_state_dict({})
    with pytest.raises(tp.ArgumentError, match="the state has no growth_factor, backoff_factor, growth_interval"):
        other.load_state_dict({"scale": 2.0, "_growth_tracker": 0})
    assert other.state_dict() == state


def test_setting_the_factor() -> None:
    scaler, p = GradScaler(init_scale=8.0), leaf(1.0)
    scaler.scale(p.sum())
    scaler.update(2.0)
    assert scaler.get_scale() == 2.0
    scaler.update(tp.tensor([16.0]))
    assert scaler.get_scale() == 16.0
    with pytest.raises(tp.ValueRangeError, match=r"positive, finite number, not 0\.0"):
        scaler.update(0.0)
    scaler.set_growth_factor(4)
    scaler.set_backoff_factor(0.125)
    scaler.set_growth_interval(7)
    assert (scaler.get_growth_factor(), scaler.get_backoff_factor(), scaler.get_growth_interval()) == (4.0, 0.125, 7)


def test_a_scaler_that_is_off_only_steps() -> None:
    p, scaler = leaf(1.0), GradScaler(enabled=False)
    optimizer, loss = SGD([p]), (p * 3).sum()
    assert scaler.scale(loss) is loss and not scaler.is_enabled()
    loss.backward()
    scaler.unscale_(optimizer)
    assert scaler.step(optimizer) == "stepped" and p.tolist() == [-0.5]
    scaler.update()
    scaler.load_state_dict({})
    assert scaler.get_scale() == 1.0 and scaler.state_dict() == {}


# ---------------------------------------------------------------------------------------- whose gradients were unscaled


@pytest.mark.parametrize("turned", [False, True])
def test_the_same_parameters_are_the_same_ones_however_they_are_named(turned: bool) -> None:
    w, b, scaler = leaf(1.0), leaf(2.0), GradScaler(init_scale=1024.0)
    module = type("Module", (), {"parameters": lambda self: iter([w, b])})()
    scaler.scale((w * 3 + b * 5).sum()).backward()
    scaler.unscale_(module)
    scaler.step(lambda: None, parameters=[b, w] if turned else module.parameters)
    assert (w.grad.tolist(), b.grad.tolist()) == ([3.0], [5.0])


def test_gradients_of_which_some_were_unscaled_are_refused() -> None:
    w, b, scaler = leaf(1.0), leaf(2.0), GradScaler(init_scale=1024.0)
    scaler.scale((w * 3 + b * 5).sum()).backward()
    scaler.unscale_([w])
    with pytest.raises(tp.AutocastError, match=r"step: some of these(.|\n)*fix: name the same parameters in unscale_"):
        scaler.step(lambda: None, parameters=[w, b])
    scaler.step(lambda: None, parameters=[w])
    scaler.step(lambda: None, parameters=[b])
    scaler.update()
    assert (w.grad.tolist(), b.grad.tolist()) == ([3.0], [5.0])


def test_the_factor_stays_large_enough_that_its_inverse_is_finite() -> None:
    p, scaler = leaf(1.0), GradScaler(init_scale=4.0)
    for _ in range(200):
        p.grad = tp.tensor([float("nan")])
        scaler.scale(p)
        scaler.step(lambda: None, parameters=[p])
        scaler.update()
    assert scaler.get_scale() == 2.0**-126
    p.grad = tp.tensor([2.0**-126])
    scaler.step(lambda: None, parameters=[p])
    assert p.grad.tolist() == [1.0]
    with pytest.raises(tp.ValueRangeError, match=r"not 1e-40(.|\n)*2\.0 \*\* -126 the least"):
        GradScaler(init_scale=1e-40)


def test_a_step_that_raises_can_be_tried_again() -> None:
    p, scaler, tries = leaf(1.0), GradScaler(init_scale=8.0), []

    def step() -> str:
        tries.append(p.grad.tolist())
        if len(tries) == 1:
            raise ZeroDivisionError
        return "stepped"

    pass_through(scaler, p, [3.0])
    with pytest.raises(ZeroDivisionError):
        scaler.step(step, parameters=[p])
    assert scaler.step(step, parameters=[p]) == "stepped"
    assert tries == [[3.0], [3.0]]
    with pytest.raises(tp.AutocastError, match="called for them already"):
        scaler.step(step, parameters=[p])
