"""The backward pass: order, accumulation, what is freed, errors that change nothing, depth, memory, threads."""

from __future__ import annotations

import gc
import sys
import threading
import weakref
from contextlib import contextmanager

import pytest

import tensorplay as tp
from tensorplay_core.autograd.engine import sum_to_shape
from tensorplay_core.dispatch.registry import REGISTRY
from tensorplay_core.testing.samples import samples


def leaf(data, dtype=tp.float64):
    return tp.tensor(data, dtype=dtype, requires_grad=True)


@contextmanager
def collector_off():
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


# ---------------------------------------------------------------------------------------------- what is computed


def test_a_diamond_of_diamonds_is_walked_once_per_node():
    x = leaf(1.0)
    y = x
    for _ in range(60):  # 2**60 paths
        y = y + y
    (g,) = tp.autograd.grad(y, x)
    assert g.item() == 2.0**60


def test_gradients_arrive_before_they_are_handed_on():
    """A node that is reached by a short and by a long road waits for both."""
    x = leaf(3.0)
    a = x * 2
    long = a
    for _ in range(5):
        long = long * 1.0
    (a * long).backward()
    assert x.grad.item() == 24.0


def test_gradients_of_two_backward_passes_add_up():
    x = leaf([1.0, 2.0])
    (x * x).sum().backward()
    (x * 3).sum().backward()
    assert x.grad.tolist() == [5.0, 7.0]
    x.grad = None
    (x * 3).sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]


def test_the_same_tensor_twice_in_one_call():
    x = leaf(3.0)
    (x * x).backward()
    assert x.grad.item() == 6.0
    (g,) = tp.autograd.grad(tp.cat([x.reshape(1), x.reshape(1)]).sum(), x)
    assert g.item() == 2.0


def test_several_roots():
    x = leaf(2.0)
    tp.autograd.backward([x * x, x * 3])
    assert x.grad.item() == 7.0
    assert tp.autograd.grad([x * x, x * 3], x)[0].item() == 7.0
    y = x * x
    assert tp.autograd.grad([y, y], x)[0].item() == 8.0


def test_a_root_that_is_a_leaf():
    x = leaf(2.0)
    x.backward()
    assert x.grad.item() == 1.0
    assert tp.autograd.grad(x, x)[0].item() == 1.0


def test_both_results_of_an_operator_with_several():
    x = leaf([[1.0, 5.0], [7.0, 2.0]])
    values, indices = x.max(1)
    assert not indices.requires_grad
    (values * tp.tensor([1.0, 10.0], dtype=tp.float64)).sum().backward()
    assert x.grad.tolist() == [[0.0, 1.0], [10.0, 0.0]]


def test_gradients_of_broadcast_inputs_are_summed_back():
    x = leaf([[1.0], [2.0]])
    y = leaf([3.0, 4.0, 5.0])
    z = leaf(2.0)
    (x * y * z).sum().backward()
    assert x.grad.tolist() == [[24.0], [24.0]]
    assert y.grad.tolist() == [6.0, 6.0, 6.0]
    assert z.grad.item() == 36.0
    assert sum_to_shape(tp.ones(2, 3), (1, 3)).tolist() == [[2.0, 2.0, 2.0]]
    with pytest.raises(tp.AutogradError, match="reached a tensor of shape"):
        sum_to_shape(tp.ones(2, 3), (2, 2))


def test_gradients_have_the_dtype_of_their_tensor():
    x = leaf([1.0, 2.0], tp.float32)
    y = leaf([1.0, 2.0], tp.float64)
    z = leaf([1.0, 2.0], tp.float16)
    (x * y * z).sum().backward()
    assert (x.grad.dtype, y.grad.dtype, z.grad.dtype) == (tp.float32, tp.float64, tp.float16)
    c = leaf([1j, 2.0], tp.complex128)
    (x * c).real().sum().backward()
    assert x.grad.dtype is tp.float32


def test_create_graph_up_to_the_fourth_order():
    x = leaf(0.7)
    y = x.exp() * x * x * x
    found = []
    for _ in range(4):
        (y,) = tp.autograd.grad(y, x, create_graph=True)
        found.append(y.item())
    v, e = 0.7, 2.718281828459045**0.7
    expected = [
        e * (v**3 + 3 * v**2),
        e * (v**3 + 6 * v**2 + 6 * v),
        e * (v**3 + 9 * v**2 + 18 * v + 6),
        e * (v**3 + 12 * v**2 + 36 * v + 24),
    ]
    tp.testing.assert_close(found, expected, rtol=1e-12, atol=0.0)


def test_create_graph_makes_grad_differentiable():
    x = leaf(3.0)
    (x * x * x).backward(create_graph=True)
    assert x.grad.requires_grad
    g = x.grad
    x.grad = None
    g.backward()
    assert x.grad.item() == 18.0


def test_grad_of_a_computed_tensor_leaves_every_grad_alone():
    x = leaf(3.0)
    h = x * 2
    y = h * h
    assert tp.autograd.grad(y, h, retain_graph=True)[0].item() == 12.0
    gx, gh = tp.autograd.grad(y, [x, h])
    assert (gx.item(), gh.item()) == (24.0, 12.0)
    assert x.grad is None
    assert h.grad is None


def test_grad_stops_at_what_was_asked_for():
    """What lies below a wanted tensor is not walked, so an operator without a formula there is no obstacle."""
    library = tp.library.Library("engine_test", "DEF")
    library.define("opaque(Tensor x) -> Tensor")
    library.impl("opaque", lambda x: 2 * x, "CPU")
    x = leaf(3.0)
    h = tp.ops.engine_test.opaque(x)
    try:
        assert tp.autograd.grad(h * h, h)[0].item() == 12.0
    finally:
        library.close()


# ---------------------------------------------------------------------------------- what is freed, kept and refused


def test_a_second_backward_raises_and_changes_nothing():
    x = leaf(3.0)
    y = x * x
    y.backward()
    with pytest.raises(tp.AutogradError, match=r"(?s)MulBackward has been walked.*retain_graph=True"):
        y.backward()
    assert x.grad.item() == 6.0


def test_retain_graph_allows_a_second_backward():
    x = leaf(3.0)
    y = x * x
    y.backward(retain_graph=True)
    y.backward()
    assert x.grad.item() == 12.0
    with pytest.raises(tp.AutogradError, match="has been walked"):
        y.backward()


def test_a_pass_that_frees_a_shared_part_makes_the_other_root_raise():
    x = leaf(3.0)
    h = x.exp()
    a, b = h * 2, h * h
    a.backward()
    with pytest.raises(tp.AutogradError, match="has been walked"):
        b.backward()


@pytest.mark.parametrize("failing", ["first", "last"])
def test_an_exception_inside_backward_leaves_every_grad_as_it_was(failing):
    x, y, z = leaf([1.0, 2.0]), leaf([3.0, 4.0]), leaf([5.0, 6.0])
    x.grad = tp.tensor([7.0, 7.0], dtype=tp.float64)
    saved = (y * 1).detach()
    bad = x * saved if failing == "last" else z * saved
    good = y * z
    loss = (bad * bad).sum() + (good * good).sum() if failing == "first" else (good * bad).sum()
    saved.add_(1)  # makes the multiplication that saved it raise
    with pytest.raises(tp.AutogradError, match="modified in place"):
        loss.backward()
    assert x.grad.tolist() == [7.0, 7.0]
    assert y.grad is None
    assert z.grad is None


def test_a_kernel_that_fails_during_backward_leaves_every_grad_as_it_was():
    def broken(self):
        raise OSError("no such kernel")

    x = leaf([1.0, 2.0])
    y = leaf([1.0, 2.0])
    loss = (x.exp() * y).sum()
    library = tp.library.Library("tp", "IMPL")
    library.impl("conj", broken, "CPU", override=True)
    library.impl("mul", broken_mul, "CPU", override=True)
    try:
        with pytest.raises(tp.TensorPlayError):
            loss.backward()
    finally:
        library.close()
    assert x.grad is None
    assert y.grad is None


def broken_mul(self, other):
    raise OSError("no multiplication today")


def test_allow_unused_and_materialize_grads():
    x, unused = leaf(3.0), leaf([1.0, 2.0])
    y = x * x
    with pytest.raises(tp.AutogradError, match=r"(?s)input 1 .*was not used.*allow_unused=True"):
        tp.autograd.grad(y, [x, unused], retain_graph=True)
    g, none = tp.autograd.grad(y, [x, unused], retain_graph=True, allow_unused=True)
    assert (g.item(), none) == (6.0, None)
    g, zeros = tp.autograd.grad(y, [x, unused], retain_graph=True, materialize_grads=True)
    assert (g.item(), zeros.tolist(), zeros.dtype) == (6.0, [0.0, 0.0], tp.float64)
    with pytest.raises(tp.ArgumentError, match="contradicts"):
        tp.autograd.grad(y, [x, unused], allow_unused=False, materialize_grads=True)


def test_backward_into_chosen_inputs_only():
    x, y = leaf(2.0), leaf(3.0)
    (x * y).backward(inputs=[x])
    assert x.grad.item() == 3.0
    assert y.grad is None
    (x * y).backward(inputs=y)
    assert (x.grad.item(), y.grad.item()) == (3.0, 2.0)
    with pytest.raises(tp.ArgumentError, match="inputs is empty"):
        (x * y).backward(inputs=[])


def test_gradients_that_do_not_fit_are_refused():
    x = leaf([1.0, 2.0])
    y = x * 2
    with pytest.raises(tp.AutogradError, match=r"shape \(2,\)"):
        y.backward()
    with pytest.raises(tp.AutogradError, match=r"shape \(3,\)"):
        y.backward(tp.ones(3, dtype=tp.float64))
    with pytest.raises(tp.AutogradError, match=r"shape \(\)"):
        y.backward(tp.ones((), dtype=tp.float64))
    with pytest.raises(tp.AutogradError, match="complex"):
        y.backward(tp.ones(2, dtype=tp.complex128))
    with pytest.raises(tp.AutogradError, match="loopback"):
        y.backward(tp.ones(2, dtype=tp.float64, device="loopback"))
    with pytest.raises(tp.TensorPlayError, match="not float"):
        y.backward(2.0)
    with pytest.raises(tp.ArgumentError, match="one for each"):
        tp.autograd.backward([y], [None, None])
    assert x.grad is None
    y.backward(tp.ones(2, dtype=tp.float32))  # cast, as in PyTorch
    assert x.grad.dtype is tp.float64


def test_what_has_no_graph_is_refused():
    with pytest.raises(tp.AutogradError, match="does not require grad"):
        tp.ones(()).backward()
    x = leaf(1.0)
    with tp.no_grad():
        y = x * 2
    with pytest.raises(tp.AutogradError, match="does not require grad"):
        y.backward()
    with pytest.raises(tp.AutogradError, match="input 0"):
        tp.autograd.grad(x * 2, tp.ones(()))


def test_a_leaf_that_is_gone_is_passed_over():
    x, y = leaf(2.0), leaf(3.0)
    z = x * y
    del x
    z.backward()
    assert y.grad.item() == 2.0


# ------------------------------------------------------------------------------------------------------ stored grads


def test_a_stored_grad_is_never_an_alias():
    x, y = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    g = tp.tensor([1.0, 1.0], dtype=tp.float64)
    z = x + y
    z.backward(g, retain_graph=True)
    g.mul_(100)
    x.grad.mul_(10)
    assert (x.grad.tolist(), y.grad.tolist()) == ([10.0, 10.0], [1.0, 1.0])
    w = leaf([[1.0, 2.0], [3.0, 4.0]])
    w.sum().backward()
    w.grad.add_(1)  # not the expanded scalar
    assert w.grad.tolist() == [[2.0, 2.0], [2.0, 2.0]]
    v = leaf([1.0, 2.0, 3.0, 4.0])
    g = tp.ones(2, 2, dtype=tp.float64)
    v.reshape(2, 2).backward(g)
    g.zero_()
    assert v.grad.tolist() == [1.0, 1.0, 1.0, 1.0]


def test_a_stored_grad_is_no_alias_with_create_graph_either():
    x, y = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    g = tp.ones(2, dtype=tp.float64)
    (x + y).backward(g, create_graph=True)
    with tp.no_grad():
        x.grad.mul_(10)
    assert y.grad.tolist() == [1.0, 1.0]
    assert g.tolist() == [1.0, 1.0]


def test_accumulation_keeps_the_grad_object_so_that_optimisers_can_hold_it():
    x = leaf([1.0, 2.0])
    x.sum().backward()
    held = x.grad
    x.sum().backward()
    assert x.grad is held
    assert held.tolist() == [2.0, 2.0]


def test_accumulation_into_a_grad_that_overlaps_itself():
    x = leaf([1.0, 2.0])
    y = leaf(1.0)
    x.grad = tp.ones((), dtype=tp.float64).expand(2)
    try:
        (x.sum() * y).backward()
    except tp.TensorPlayError:
        assert y.grad is None
        assert x.grad.tolist() == [1.0, 1.0]
    else:
        assert x.grad.tolist() == [2.0, 2.0]


def test_integer_tensors_cannot_require_grad():
    for dtype in (tp.int64, tp.bool, tp.uint8):
        with pytest.raises(tp.AutogradError, match="only floating and complex"):
            tp.ones(2, dtype=dtype).requires_grad_()
    with pytest.raises(tp.AutogradError, match="only floating and complex"):
        tp.tensor([1, 2], requires_grad=True)
    assert not tp.ones(2, requires_grad=True).to(tp.int64).requires_grad


# ------------------------------------------------------------------------------------------------- depth and memory


def test_two_hundred_thousand_nodes_back_up_and_are_dropped():
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(1000)
    try:
        with collector_off():
            x = leaf([1.0])
            y = x
            for _ in range(200_000):
                y = y + 1.0
            y.sum().backward()
            assert x.grad.tolist() == [1.0]
            last = weakref.ref(y._node)
            del y
            assert last() is None
            y = x
            for _ in range(200_000):  # this one saves tensors, and is dropped without a backward pass
                y = y * 1.0
            last = weakref.ref(y._node)
            del y
            assert last() is None
    finally:
        sys.setrecursionlimit(limit)


def test_grad_through_a_deep_graph_needs_no_recursion():
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(500)
    try:
        x, y = leaf(1.0), leaf(1.0)
        z = x
        for _ in range(5_000):
            z = z * y
        assert tp.autograd.grad(z, y)[0].item() == 5_000
    finally:
        sys.setrecursionlimit(limit)


def tensors_of(values):
    for value in values:
        if isinstance(value, (list, tuple)):
            yield from tensors_of(value)
        elif isinstance(value, tp.Tensor):
            yield value


@pytest.mark.parametrize("name", [n for n, op in REGISTRY.operators.items() if op.namespace == "tp"])
def test_no_operator_makes_a_cycle(name):
    """Everything that a recorded call makes dies with its result, while the collector is off."""
    op = REGISTRY.operators[name]
    with collector_off():
        for sample in samples(op.functional or op, dtype="float32"):
            watched = [ref for ref in recorded(op, sample) if ref() is not None]
            assert not watched, f"{name}, sample {sample.name!r}: {watched[0]()!r} is kept alive by a cycle"


def recorded(op, sample):
    """Calls an operator, differentiates it, and returns weak references to all that this made."""
    args, kwargs = sample.build(tp)
    leaves = [t for t in tensors_of((*args, *kwargs.values())) if t.dtype.is_inexact]
    for t in leaves:
        t.requires_grad_()
    if op.is_inplace:
        args = (args[0] * 1, *args[1:])
    try:
        result = op.function(*args, **kwargs)
    except tp.TensorPlayError:
        assert op.is_inplace
        return []
    results = list(tensors_of((result,)))
    watched = [weakref.ref(t) for t in results if not any(t is a for a in tensors_of(args))]
    watched += [weakref.ref(t._node) for t in results if t._node is not None and not t.is_leaf]
    roots = [y for y in results if y.requires_grad]
    if roots and leaves:
        ones = [y.detach().new_ones(y.shape) for y in roots]
        found = tp.autograd.grad(roots, leaves, ones, create_graph=True, allow_unused=True)
        watched += [weakref.ref(g) for g in found if g is not None]
    return watched


def test_a_training_loop_does_not_grow():
    tp.manual_seed(0)
    x = tp.randn(16, 8)
    target = tp.tensor([i % 3 for i in range(16)])
    weights = [tp.randn(12, 8), tp.zeros(12), tp.randn(3, 12), tp.zeros(3)]
    for w in weights:
        w.requires_grad_()

    def step():
        h = tp.nn.functional.linear(x, weights[0], weights[1]).relu()
        loss = tp.nn.functional.cross_entropy(tp.nn.functional.linear(h, weights[2], weights[3]), target)
        loss.backward()
        with tp.no_grad():
            for w in weights:
                w.sub_(w.grad * 0.1)
                w.grad = None
        return loss.item()

    first = step()
    with collector_off():
        for _ in range(20):
            step()
        before = (len(gc.get_objects()), sys.getallocatedblocks())
        for _ in range(300):
            last = step()
        after = (len(gc.get_objects()), sys.getallocatedblocks())
    assert last < first
    assert after[0] - before[0] < 50, after[0] - before[0]
    assert after[1] - before[1] < 500, after[1] - before[1]


# ---------------------------------------------------------------------------------------------------------- threads


def in_threads(function, count=8):
    errors = []
    barrier = threading.Barrier(count)

    def run(i):
        try:
            barrier.wait()
            function(i)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


@pytest.fixture
def quick_switches():
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


def test_threads_back_up_their_own_graphs(quick_switches):
    results = [None] * 8

    def run(i):
        x = leaf([1.0 + i, 2.0])
        for _ in range(50):
            x.grad = None
            (x * x * (i + 1)).sum().backward()
        results[i] = x.grad.tolist()

    in_threads(run)
    assert results == [[2 * (1.0 + i) * (i + 1), 4.0 * (i + 1)] for i in range(8)]


def test_threads_that_share_a_leaf_lose_no_gradient(quick_switches):
    for _ in range(10):
        x = leaf([1.0, 2.0])
        in_threads(lambda i: [(x * 3).sum().backward() for _ in range(25)])  # noqa: B023
        assert x.grad.tolist() == [600.0, 600.0]


def test_threads_that_share_a_retained_graph(quick_switches):
    x = leaf([1.0, 2.0])
    h = x.exp() * x
    y = (h * h).sum()
    (expected,) = tp.autograd.grad(y, x, retain_graph=True)

    def run(i):
        for _ in range(25):
            (g,) = tp.autograd.grad(y, x, retain_graph=True)
            assert g.tolist() == expected.tolist()

    in_threads(run)


def test_a_thread_starts_with_gradients_on():
    seen = []
    with tp.no_grad():
        thread = threading.Thread(target=lambda: seen.append((tp.is_grad_enabled(), (leaf(1.0) * 2).requires_grad)))
        thread.start()
        thread.join()
        assert not (leaf(1.0) * 2).requires_grad
    assert seen == [(True, True)]


def test_a_gradient_that_nobody_saved_is_added_to_in_place_and_one_that_was_saved_is_counted():
    x = tp.ones(2, requires_grad=True)
    (x * 2).sum().backward()
    first = x.grad
    (x * 2).sum().backward()
    assert x.grad is first and first.tolist() == [4.0, 4.0]
    weight = tp.ones(2, requires_grad=True)
    saved = weight * first  # saves the gradient
    (x * 2).sum().backward()
    assert x.grad is first and first.tolist() == [6.0, 6.0]
    with pytest.raises(tp.AutogradError, match="modified in place"):
        saved.sum().backward()
