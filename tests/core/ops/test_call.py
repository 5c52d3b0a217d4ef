"""The slow path: from a call's arguments to its keys, through the layers, to the kernel."""

from __future__ import annotations

from contextlib import closing

import numpy as np
import pytest

import tensorplay as tp
from tensorplay_core.dispatch.context import exclude, include
from tensorplay_core.dispatch.key_set import KeySet
from tensorplay_core.dispatch.keys import AUTOGRAD, DispatchKey, backend_key
from tensorplay_core.dispatch.registry import REGISTRY
from tensorplay_core.errors import DeviceMismatch, KernelError, KernelMissing
from tensorplay_core.ops.arguments import bind, normalise, tensors_in
from tensorplay_core.ops.call import key_set_of_call
from tensorplay_core.ops.kernels import promoted_tensors
from tensorplay_core.ops.typing_rules import scalars_to_tensors
from tensorplay_core.testing import assert_close, force_slow_path
from tensorplay_core.testing.samples import samples

Library = tp.library.Library
COMPOSITE, CPU = int(DispatchKey.Composite), int(DispatchKey.CPU)
ADD, CAT = REGISTRY.find("add"), REGISTRY.find("cat")


def keys_of(op, *args, **kwargs):
    return key_set_of_call(op, args, kwargs)


# ---------------------------------------------------------------------------------------------- the keys of a call


def test_the_union_of_the_tensors_keys():
    x = tp.ones(2)
    with tp.inference_mode():
        y = tp.ones(2)
    both = KeySet.of(DispatchKey.CPU, DispatchKey.AutogradCPU)
    assert keys_of(ADD, x, x) == keys_of(ADD, x, y) == keys_of(CAT, (y, x), 0) == both
    assert keys_of(ADD, y, y) == KeySet.of(DispatchKey.CPU)


def test_include_joins_and_exclude_wins():
    x = tp.ones(2)
    with include(1 << 12 | 1 << 5):
        assert [int(key) for key in keys_of(ADD, x, x)] == [12, 7, 5, 0]
        with exclude(1 << 12 | AUTOGRAD):
            assert [int(key) for key in keys_of(ADD, x, x)] == [5, 0]


def test_a_call_without_tensors_has_the_keys_of_its_device():
    base = backend_key("loopback")
    zeros = REGISTRY.find("zeros")
    assert keys_of(zeros, (2,)) == KeySet.of(DispatchKey.CPU, DispatchKey.AutogradCPU)
    assert keys_of(zeros, (2,), device=tp.device("loopback")) == KeySet.of(base, base + 7)
    with tp.inference_mode():
        assert keys_of(zeros, (2,)) == KeySet.of(DispatchKey.CPU)
        assert tp.zeros(2).is_inference()


# ------------------------------------------------------------------------------------------------------- devices


def test_0d_cpu_tensors_join_any_device():
    x, two = tp.tensor([1.0, 2.0], device="loopback"), tp.tensor(2.0)
    for y in (x * two, two * x, tp.where(x > 1, x, two)):
        assert y.device == x.device
    assert (x * two).tolist() == [2.0, 4.0]
    assert x.clone().mul_(two).tolist() == [2.0, 4.0]
    leaf = tp.tensor(2.0, requires_grad=True)
    (x * leaf).sum().backward()
    assert leaf.grad.item() == 3.0 and leaf.grad.device == tp.device("cpu")


def test_two_0d_tensors_of_different_devices_meet_on_the_other_device():
    y = tp.tensor(2.0) * tp.tensor(3.0, device="loopback")
    assert y.device == tp.device("loopback:0") and y.item() == 6.0


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda c, d: c + d, ["self is on cpu", "other is on loopback:0"]),
        (lambda c, d: tp.add(d, c, alpha=2), ["self is on loopback:0", "other is on cpu"]),
        (
            lambda c, d: tp.cat([c, c, d]),
            ["tensors[0] is on cpu", "tensors[1] is on cpu", "tensors[2] is on loopback:0"],
        ),
        (
            lambda c, d: tp.where(c > 0, d, d),
            ["condition is on cpu", "self is on loopback:0", "other is on loopback:0"],
        ),
        (lambda c, d: c.add_(d), ["self is on cpu", "other is on loopback:0"]),
        (lambda c, d: tp.tensor(1.0).add_(d[0]), ["self is on cpu", "other is on loopback:0"]),
    ],
)
def test_other_mixtures_are_an_error_that_names_each_argument(call, named):
    c, d = tp.ones(2), tp.ones(2, device="loopback")
    with pytest.raises(DeviceMismatch) as info:
        call(c, d)
    for part in named:
        assert part in str(info.value)
    assert ".to(device)" in str(info.value)
    assert c.tolist() == d.tolist() == [1.0, 1.0]


def test_only_to_and_copy_cross_devices():
    c, d = tp.tensor([1.0, 2.0]), tp.zeros(2, device="loopback")
    assert c.to("loopback").device == d.device and d.to("cpu").device == c.device
    assert d.copy_(c).tolist() == [1.0, 2.0]
    assert d.device == tp.device("loopback:0")


# ----------------------------------------------------------------------------------------------------- Composite


def test_a_composite_kernel_that_reenters_itself_is_kernel_missing_and_no_recursion():
    with closing(Library("again", "DEF")) as lib:
        lib.define("one(Tensor x) -> Tensor")
        lib.define("many(Tensor[] xs, int n, *, Scalar s=1) -> Tensor")
        lib.define("ping(Tensor x) -> Tensor")
        lib.define("pong(Tensor x) -> Tensor")
        lib.impl("one", lambda x: tp.ops.again.one(x), "Composite")
        lib.impl("many", lambda xs, n, *, s=1: tp.ops.again.many(list(xs), n, s=s), "Composite")
        lib.impl("ping", lambda x: tp.ops.again.pong(x), "Composite")
        lib.impl("pong", lambda x: tp.ops.again.ping(x), "Composite")
        x = tp.ones(2)
        for call in (
            lambda: tp.ops.again.one(x),
            lambda: tp.ops.again.many([x, x], 10**20, s=2.5),
            lambda: tp.ops.again.ping(x),
        ):
            with pytest.raises(KernelMissing, match="calls its own operator with the same arguments") as info:
                call()
            assert f"{__file__}:" in str(info.value)


@pytest.mark.parametrize("with_grad", [False, True])
def test_an_implicit_kernel_that_reenters_itself_is_kernel_missing_with_a_gradient_too(with_grad):
    with closing(Library("again2", "DEF")) as lib:
        lib.define("one(Tensor x) -> Tensor", composite="implicit")
        lib.impl("one", lambda x: tp.ops.again2.one(x), "Composite")
        with pytest.raises(KernelMissing, match="its own operator"):
            tp.ops.again2.one(tp.ones(2, requires_grad=with_grad))


def test_a_composite_kernel_that_reenters_itself_without_end_is_kernel_missing():
    with closing(Library("again3", "DEF")) as lib:
        lib.define("one(Tensor x) -> Tensor")
        lib.impl("one", lambda x: tp.ops.again3.one(x.clone()), "Composite")
        with pytest.raises(KernelMissing, match="without end"):
            tp.ops.again3.one(tp.ones(2))
    assert (tp.ones(1) + 1).item() == 2.0


def test_a_composite_kernel_may_call_itself_with_other_arguments():
    with closing(Library("halves", "DEF")) as lib:

        def total(x):
            n = x.shape[0]
            return x[0] if n == 1 else tp.ops.halves.total(x[: n // 2]) + tp.ops.halves.total(x[n // 2 :])

        lib.define("total(Tensor x) -> Tensor")
        lib.impl("total", total, "Composite")
        assert tp.ops.halves.total(tp.arange(9.0)).item() == 36.0


def test_a_kernel_that_omits_a_keyword_leaves_calls_that_change_it_to_composite():
    seen = []
    with closing(Library("kw", "DEF")) as lib:

        def composite(x, *, scale=1, shift=0):
            seen.append((scale, shift))
            return x * scale + shift

        lib.define("op(Tensor x, *, Scalar scale=1, Scalar shift=0) -> Tensor")
        lib.impl("op", lambda a, *, shift=0: a + shift, "CPU", level="array")
        x = tp.ones(1)
        op = tp.ops.kw.op
        assert op(x).item() == 1.0 and op(x, shift=2).item() == 3.0 and op(x, scale=1).item() == 1.0
        with pytest.raises(KernelMissing, match="does not take scale, and Composite has none"):
            op(x, scale=2)
        lib.impl("op", composite, "Composite")
        assert op(x).item() == 1.0 and op(x, shift=2).item() == 3.0 and seen == []
        assert op(x, scale=3).item() == 3.0 and op(x, scale=3, shift=1).item() == 4.0
        assert seen == [(3, 0), (3, 1)]
    x = tp.tensor([1.0, 2.0])
    assert tp.add(x, x, alpha=3).tolist() == [4.0, 8.0]  # np.add takes no alpha


def test_an_explicit_composite_runs_below_autograd():
    """Its derivative is the operator's own record, whatever its kernel is made of."""
    inside = []

    def composite(self):
        inside.append((tp.is_grad_enabled(), (self * 2).requires_grad))
        return self.abs() * 0 + 5

    with closing(Library("tp", "IMPL")) as lib:
        lib.impl("tanh", lambda self: composite(self), "CPU", level="tensor", override=True)
        x = tp.tensor([0.5], requires_grad=True)
        y = x.tanh()
        assert y.item() == 5.0 and y.grad_fn.name == "TanhBackward" and inside == [(False, False)]
        y.backward()
        assert x.grad.item() == pytest.approx(1.0 - np.tanh(0.5) ** 2)  # the record's own, of the true tanh


@pytest.mark.parametrize("specialised", [False, True])
@pytest.mark.parametrize("with_grad", [False, True])
def test_an_implicit_composite_serves_with_a_gradient_and_the_specialised_kernel_without(specialised, with_grad):
    calls = []
    with closing(Library("impl", "DEF")) as lib:

        def composite(x):
            calls.append("composite")
            return x * x

        def kernel(a):
            calls.append("specialised")
            return a * a

        lib.define("sq(Tensor x) -> Tensor", composite="implicit")
        lib.impl("sq", composite, "Composite")
        if specialised:
            lib.impl("sq", kernel, "CPU", level="array")
        x = tp.tensor([3.0], requires_grad=with_grad)
        y = tp.ops.impl.sq(x)
        assert y.item() == 9.0 and y.requires_grad is with_grad
        assert calls == ["specialised" if specialised and not with_grad else "composite"]
        if with_grad:
            y.backward()
            assert x.grad.tolist() == [6.0]
            with tp.no_grad():
                assert not tp.ops.impl.sq(x).requires_grad
            assert calls[-1] == ("specialised" if specialised else "composite")


def test_the_built_in_implicit_operators_do_the_same():
    """linear is implicit: a kernel that a backend registers serves only where no gradient is needed."""
    calls = []
    x, w = tp.tensor([[1.0, 2.0]]), tp.tensor([[3.0, 4.0]], requires_grad=True)
    with closing(Library("tp", "IMPL")) as lib:

        def kernel(x, w, b):
            calls.append(1)
            return x @ w.T

        lib.impl("linear", kernel, "CPU", override=True)
        linear = tp.ops.tp.linear
        assert linear(x, w.detach()).item() == 11.0 and calls == [1]
        y = linear(x, w)
        y.backward()
        assert y.item() == 11.0 and calls == [1] and w.grad.tolist() == [[1.0, 2.0]]
        with tp.no_grad():
            linear(x, w)
        assert calls == [1, 1]


# ------------------------------------------------------------------------- specialised kernels and Composite ones

BOTH = sorted(
    name
    for name, op in (tp.ones(1), REGISTRY.operators)[1].items()
    if op.functional is None and name.startswith("tp::") and op.kernel_at(COMPOSITE) and op.kernel_at(CPU)
)


OF_INTEGERS = {"tp::bincount"}  # all others take floating-point numbers, and some of them no integers


def test_there_are_operators_with_both():
    assert {"tp::add", "tp::sigmoid", "tp::softmax"} <= set(BOTH)


@pytest.mark.parametrize("dtype", ["float64", "float32", "int64"])
@pytest.mark.parametrize("name", BOTH)
def test_the_specialised_kernel_and_composite_agree(name, dtype):
    op = REGISTRY.find(name)
    count = 0
    for sample in samples(op, dtype=dtype):
        args, kwargs = sample.build(tp)
        composite = op.kernel_at(COMPOSITE)
        if len({t.dtype for t in tensors_in(args, {}) if t.dtype.is_floating_point}) > 1:
            continue  # a Composite kernel of its own promotes nothing
        positional, keywords = normalise(op, *bind(op, args, kwargs))
        positional = scalars_to_tensors(op, positional)
        if composite.emitted:  # core promotes for it
            positional = promoted_tensors(op, positional, keywords)
        specialised = getattr(getattr(tp.ops.tp, op.name), op.overload or "default")(*args, **kwargs)
        general = composite.function(*positional, **keywords)
        assert_close(
            general, specialised, rtol=1e-5 if dtype == "float32" else None, atol=1e-6 if dtype == "float32" else None
        )
        count += 1
    assert count or (dtype == "int64") is (name not in OF_INTEGERS)


def test_a_specialised_kernel_registered_at_run_time_replaces_composite_at_once_and_undo_brings_it_back():
    with closing(Library("late", "DEF")) as lib:
        lib.define("op(Tensor x) -> Tensor")
        lib.impl("op", lambda x: x + 1, "Composite")
        x = tp.zeros(1)
        for _ in range(3):
            assert tp.ops.late.op(x).item() == 1.0
            with closing(Library("late", "IMPL")) as special:
                special.impl("op", lambda a: a + 2, "CPU", level="array")
                assert tp.ops.late.op(x).item() == 2.0
            assert tp.ops.late.op(x).item() == 1.0


def test_a_built_in_operator_falls_back_to_composite_when_its_kernels_leave():
    """softmax through the fast path: the resolved slot follows the table."""
    op, x = REGISTRY.find("softmax"), tp.tensor([1.0, 2.0, 3.0], device="loopback")
    expected = np.exp([1.0, 2.0, 3.0]) / np.exp([1.0, 2.0, 3.0]).sum()
    page_key = backend_key("loopback")
    kernel = op.kernel_at(page_key)
    assert kernel is not None
    for _ in range(2):
        assert np.allclose(tp.softmax(x, 0).tolist(), expected) and np.allclose(tp.softmax(x, 0).tolist(), expected)
        REGISTRY.publish(removed=[kernel])
        try:
            with tp.profiler.profile() as p:
                assert np.allclose(tp.softmax(x, 0).tolist(), expected)
            assert any(event.key == "Composite" or "omposite" in event.distribution for event in p.events)
            assert np.allclose(tp.softmax(x, 0).tolist(), expected)
        finally:
            REGISTRY.publish(added=[kernel])


# --------------------------------------------------------------------------------------- what tensor kernels return


@pytest.mark.parametrize("key", ["Composite", "CPU"])
@pytest.mark.parametrize("result", [None, 3.0, np.ones(2, np.float32), [1.0]])
def test_a_kernel_on_tensors_that_returns_no_tensor_is_named(key, result):
    with closing(Library("wrong", "DEF")) as lib:
        lib.define("op(Tensor x) -> Tensor")
        lib.impl("op", lambda x: result, key)
        with pytest.raises(KernelError, match=r"wrong::op.*must return a Tensor") as info:
            tp.ops.wrong.op(tp.ones(2))
        assert f"{__file__}:" in str(info.value)


@pytest.mark.parametrize(
    ("kernel", "why"),
    [(lambda x: x.to(tp.float64), "should be float32"), (lambda x: x[:1], r"should have shape \(2,\)")],
)
def test_a_composite_kernel_that_breaks_its_operators_promise_is_named(kernel, why):
    with closing(Library("tp", "IMPL")) as lib:
        lib.impl("tanh", lambda self: kernel(self), "CPU", level="tensor", override=True)
        for _ in range(2):
            with pytest.raises(KernelError, match=f"tanh.*{why}"):
                tp.ones(2).tanh()
    assert tp.zeros(2).tanh().tolist() == [0.0, 0.0]


def test_the_slow_path_gives_what_the_fast_path_gives():
    x = tp.tensor([1.0, -2.0])
    fast = (x + x, x * 2.0, x.relu(), x - 1)
    fast = (x + x, x * 2.0, x.relu(), x - 1)
    with force_slow_path():
        slow = (x + x, x * 2.0, x.relu(), x - 1)
    for a, b in zip(fast, slow, strict=True):
        assert a.tolist() == b.tolist() and a._type is b._type


# ------------------------------------------------------------------------------------------ where an error comes from

F = tp.nn.functional


@pytest.mark.parametrize("again", range(2))
@pytest.mark.parametrize(
    ("wrong", "notes"),
    [
        (
            lambda: F.linear(tp.ones(2, 2), tp.ones(3, 2), tp.ones(4)),
            ["in linear(float32[2,2] cpu, float32[3,2] cpu, float32[4] cpu)"],
        ),
        (
            lambda: F.linear(tp.ones(2, 2, requires_grad=True), tp.ones(3, 2), tp.ones(4)),
            ["in linear(float32[2,2] cpu, float32[3,2] cpu, float32[4] cpu)"],
        ),
        (
            lambda: tp.masked_fill(tp.ones(2), tp.ones(3) > 0, 1.0),
            ["in masked_fill.Scalar(float32[2] cpu, bool[3] cpu, 1.0)"],
        ),
        (lambda: tp.ones(2).add_(tp.ones(3)), []),  # which add says as well
        (lambda: tp.ones(2).index_put_((tp.tensor([5]),), tp.tensor(1.0)), []),
        (lambda: tp.vstack([tp.ones(2), tp.ones(3)]), ["in vstack([float32[2] cpu, float32[3] cpu])"]),
        (lambda: tp.vstack((tp.ones(2), 1)), []),  # refused before anything ran
        (lambda: tp.ones(2) + tp.ones(3), []),
        (lambda: tp.softmax(tp.ones(2), 5), []),
        (lambda: tp.var(tp.ones(2), 5), []),  # var.correction speaks for var.dim
    ],
)
def test_an_error_from_inside_a_composite_kernel_names_the_call_that_was_made(wrong, notes, again):
    with pytest.raises(tp.TensorPlayError) as info:
        wrong()
    assert getattr(info.value, "__notes__", []) == notes


def test_each_operator_between_the_call_and_the_error_is_named_once():
    def half(x):
        return tp.vstack([x, x[:-1]])

    with closing(Library("outer", "DEF")) as lib:
        lib.define("op(Tensor x) -> Tensor")
        lib.impl("op", half, "Composite")
        with pytest.raises(tp.errors.ShapeError, match=r"^cat: ") as info:
            tp.ops.outer.op(tp.ones(3))
    assert info.value.__notes__ == [
        "in vstack([float32[3] cpu, float32[2] cpu])",
        "in outer::op(float32[3] cpu)",
    ]
