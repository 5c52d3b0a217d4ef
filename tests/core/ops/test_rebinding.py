"""In-place writes where arrays cannot be written to, or slices are copies: everybody sees what they see on the CPU."""

from __future__ import annotations

import gc
import random
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import tensorplay as tp
from tensorplay_composite.arrays import ArrayDevice, kernels
from tensorplay_core.dispatch import devices
from tensorplay_core.dispatch.keys import backend_key
from tensorplay_core.dispatch.registry import REGISTRY
from tensorplay_core.tensor.version import family_of

FLAGS = {"frozen_arrays": {"mutable": False}, "copied_slices": {"views": False}}
DEVICES = [*FLAGS]
COPIES = {"reshape", "permute", "transpose", "expand", "squeeze", "unsqueeze", "select", "slice"}


def locked(kernel: Any) -> Any:
    """Makes whatever a kernel returns read-only, so that a write to it is an error."""

    def run(*args: Any, **kwargs: Any) -> Any:
        result = kernel(*args, **kwargs)
        for one in result if isinstance(result, tuple) else (result,):
            if isinstance(one, np.ndarray):
                one.flags.writeable = False
        return result

    return run


def copied(kernel: Any) -> Any:
    """Makes what a view kernel returns a copy."""
    return lambda *args: kernel(*args).copy()


@pytest.fixture(scope="module", autouse=True)
def two_devices():
    """One with read-only arrays, and one whose slices are copies, so that nothing is right by chance."""
    committed = []
    for name, flags in FLAGS.items():
        key = backend_key(name)
        devices.install(name, ArrayDevice(np, **flags), 1, f"tests-{name}")
        staging = REGISTRY.stage(name, f"tests-{name}")
        for op, kernel in kernels(np, **{k: v for k, v in flags.items() if k == "mutable"}).items():
            if f"tp::{op}" not in REGISTRY.operators:
                continue
            if name == "frozen_arrays":
                kernel = locked(kernel)
            elif op in COPIES:
                kernel = copied(kernel)
            staging.impl(op, key, kernel)
        committed.append(staging.commit())
    yield
    for one, name in zip(committed, FLAGS, strict=True):
        one.undo()
        devices.uninstall(name)


# ------------------------------------------------------------------------------------------ any program, step by step


def a_view(rng: random.Random, model: tp.Tensor) -> Callable[[tp.Tensor], tp.Tensor]:
    """Returns a random view operator that a tensor like ``model`` allows."""
    nd, sizes = model.ndim, model.shape
    kind = rng.choice([*sorted(COPIES), "detach"])
    dim = rng.randrange(-nd, nd) if nd else 0
    if kind == "select" and nd and sizes[dim]:
        index = rng.randrange(-sizes[dim], sizes[dim])
        return lambda x: x.select(dim, index)
    if kind == "slice" and nd:
        bounds = rng.choice([None, -2, -1, 0, 1, 5]), rng.choice([None, -1, 0, 1, 2, 9]), rng.choice([1, 1, 2, 3])
        return lambda x: tp.ops.tp.slice(x, dim, *bounds)
    if kind == "permute" and nd:
        order = [d - nd if rng.random() < 0.3 else d for d in rng.sample(range(nd), nd)]
        return lambda x: x.permute(order)
    if kind == "transpose" and nd:
        other = rng.randrange(-nd, nd)
        return lambda x: x.transpose(dim, other)
    if kind == "unsqueeze":
        return lambda x: x.unsqueeze(dim)
    if kind == "reshape" and model.is_contiguous():  # of others PyTorch and NumPy make a copy
        return lambda x: x.reshape(-1)
    if kind == "expand":
        return lambda x: x.expand(1, *x.shape)
    return (lambda x: x.squeeze()) if kind == "squeeze" else lambda x: x.detach()


WRITES: dict[str, Callable[[tp.Tensor, int], Any]] = {
    "add_": lambda x, n: x.add_(n),
    "+=": lambda x, n: x.__iadd__(n),
    "mul_": lambda x, n: x.mul_(n),
    "relu_": lambda x, n: x.relu_(),
    "softsign_": lambda x, n: tp.ops.tp.softsign_(x),
    "fill_": lambda x, n: x.fill_(n),
    "zero_": lambda x, n: x.zero_(),
    "copy_": lambda x, n: x.copy_(tp.full((), n, dtype=tp.int32)),
    "out=": lambda x, n: tp.mul(x, n, out=x),
    "x[...] =": lambda x, n: x.__setitem__(..., n),
    "x[0] =": lambda x, n: x.__setitem__(0, n) if x.ndim and x.shape[0] else None,
    "x[::2] =": lambda x, n: x.__setitem__(slice(None, None, 2), n) if x.ndim else None,
}


def a_program(rng: random.Random) -> tuple[tuple[int, ...], list[tuple[str, int, Any]]]:
    shape = tuple(rng.choice([1, 2, 3, 4]) for _ in range(rng.randint(1, 3)))
    models, steps = [tp.zeros(shape)], []
    for _ in range(rng.randint(4, 14)):
        target = rng.randrange(len(models))
        kind = rng.choice(["view", "view", "write", "write", "drop"])
        if kind == "view":
            step = a_view(rng, models[target])
            models.append(step(models[target]))
        else:
            name, number = rng.choice([*WRITES]), rng.randint(1, 9)
            step = None if kind == "drop" else lambda x, name=name, number=number: WRITES[name](x, number)
        steps.append((kind, target, step))
    return shape, steps


def run(device: str, shape: tuple[int, ...], steps: list[tuple[str, int, Any]]) -> list[Any]:
    """Returns what every living tensor holds after every step, and how many writes it knows of."""
    count = int(np.prod(shape))
    known: list[Any] = [(tp.arange(count, dtype=tp.float32, device=device) - 3).reshape(shape).clone()]
    seen = [known[0]._version_number]  # writes are counted from when somebody asks
    for kind, target, step in steps:
        x = known[target]
        if kind == "drop":
            if sum(t is not None for t in known) > 1:
                known[target] = None
        elif kind == "view":
            known.append(None if x is None else step(x))
        elif x is not None:
            step(x)
        seen.append([None if t is None else (t.tolist(), t.shape, t.numel() and t._version_number) for t in known])
    return seen


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("device", DEVICES)
def test_views_and_writes_in_any_order_give_what_they_give_on_the_cpu(device, seed):
    for n in range(40):
        shape, steps = a_program(random.Random(1000 * seed + n))
        wanted, found = run("cpu", shape, steps), run(device, shape, steps)
        assert repr(found) == repr(wanted), f"program {n}: {[(kind, target) for kind, target, _ in steps]}"


# --------------------------------------------------------------------------------------------------------- gradients


def leaf(device: str) -> tp.Tensor:
    return tp.tensor([[1.0, 2.0], [3.0, 4.0]], device=device, requires_grad=True)


def write_leaf(x):
    x.add_(1)


def write_view_of_leaf(x):
    x[0].add_(1)


def write_in_no_grad(x):
    y = (x * x).sum()
    with tp.no_grad():
        x[0].zero_()
    y.backward()


def write_saved_through_view(x):
    y = x.exp()
    with tp.no_grad():
        y.t()[1].add_(1)
    y.sum().backward()


def record_write_to_shared(x):
    y = tp.zeros(2, 2, device=x.device)
    _kept = y[0]
    y.add_(x)


def record_write(x):
    y = x * 2
    y.mul_(x)
    y.sum().backward()


def record_setitem(x):
    y = tp.zeros(2, 2, device=x.device)
    y[...] = x * 3
    (y * x).sum().backward()


def optimiser_step(x):
    for _ in range(2):
        (tp.ones(3, 2, device=x.device) @ x.t()).sum().backward()
        with tp.no_grad():
            x.sub_(x.grad * 0.5)
        x.grad = None
    x.t().sum().backward()


def views_of_views(x):
    y = x.reshape(4)[1:].unsqueeze(0).expand(2, 3)
    (y * y).sum().backward()


def second_gradient(x):
    (g,) = tp.autograd.grad((x.t()[0] ** 3).sum(), [x], create_graph=True)
    g.sum().backward()


@pytest.mark.parametrize(
    "scenario",
    [write_leaf, write_view_of_leaf, write_in_no_grad, write_saved_through_view, record_write_to_shared, record_write,
     record_setitem, optimiser_step, views_of_views, second_gradient],
    ids=lambda f: f.__name__,
)  # fmt: skip
@pytest.mark.parametrize("device", DEVICES)
def test_gradients_and_their_refusals_are_those_of_the_cpu(device, scenario):
    seen = []
    for name in ("cpu", device):
        x = leaf(name)
        try:
            scenario(x)
            error = None
        except tp.AutogradError as raised:
            error = str(raised)
        seen.append([error, x.tolist(), None if x.grad is None else x.grad.tolist(), x._version_number])
    assert seen[0] == seen[1]


def test_a_gradient_is_no_alias_of_what_it_was_given(two_devices):
    for device in DEVICES:
        x = leaf(device)
        given = tp.ones(2, 2, device=device)
        (x * 1).backward(given)
        given.zero_()
        x.grad.add_(1)
        assert x.grad.tolist() == [[2.0, 2.0]] * 2 and given.tolist() == [[0.0, 0.0]] * 2


# ------------------------------------------------------------------------------------------- what cannot be, and memory


@pytest.mark.parametrize("device", DEVICES)
def test_a_write_to_repeated_elements_is_refused_before_anything_changes(device):
    x = tp.ones(1, 3, device=device)
    y = x.expand(4, 3)
    with pytest.raises(tp.ShapeError, match=r"overlaps itself.*\nfix: clone"):
        y.add_(1)
    for part in (y[0], y[:2], y.t()[1], y[1:3, 0]):
        with pytest.raises(tp.TensorPlayError, match=r"part of an expanded one.*\nfix: |overlaps itself.*\nfix: "):
            part.add_(1)
    assert x.tolist() == [[1.0] * 3] and y.tolist() == [[1.0] * 3] * 4 and x._version_number == 0
    x.add_(1)
    assert y.tolist() == [[2.0] * 3] * 4  # it is a view still


def test_a_plugins_views_follow_their_base_and_cannot_be_written_to():
    lib = tp.library.Library("rebinding", "DEF")  # its operators leave with it
    lib.define("tail(Tensor(a) x) -> Tensor(a)")
    lib.define("halves(Tensor(a) x) -> Tensor(a)[]")
    for name in FLAGS:
        lib.impl("tail", lambda x: x[1:].copy(), name, level="array")
        lib.impl("halves", lambda x: [x[:2].copy(), x[2:].copy()], name, level="array")
        x = tp.tensor([1.0, 2.0, 3.0, 4.0], device=name)
        tail, (left, right) = tp.ops.rebinding.tail(x), tp.ops.rebinding.halves(x)
        x[1:3] = 9
        assert [tail.tolist(), left.tolist(), right.tolist()] == [[9.0, 9.0, 4.0], [1.0, 9.0], [9.0, 4.0]]
        for view, made in ((tail, "tail"), (right[:1], "halves")):
            with pytest.raises(tp.BackendError, match=rf"a view that rebinding::{made} made.*\nfix: "):
                view.add_(1)
    assert x.tolist() == [1.0, 9.0, 9.0, 4.0]


def test_a_kernel_that_does_not_return_what_it_wrote_is_named():
    key = backend_key("frozen_arrays")
    wrong = {
        "nothing": (lambda self: None, "it returned None, not an array"),
        "shape": (lambda self: np.zeros(7, "float32"), r"should have shape \(2,\), it returned \(7,\)"),
        "dtype": (lambda self: np.zeros(2, "float64"), "should be float32, it returned float64"),
    }
    for kernel, message in wrong.values():
        staging = REGISTRY.stage("tests-wrong", "tests-wrong")
        staging.impl("zero_", key, kernel, override=True)
        committed = staging.commit()
        try:
            x = tp.ones(2, device="frozen_arrays")
            with pytest.raises(tp.KernelError, match=message):
                x.zero_()
            assert x.tolist() == [1.0, 1.0] and x._version_number == 0
        finally:
            committed.undo()
    assert tp.ones(2, device="frozen_arrays").zero_().tolist() == [0.0, 0.0]


def test_a_backend_brings_an_in_place_kernel_that_returns_what_it_would_have_written():
    staging = REGISTRY.stage("tests-own", "tests-own")
    staging.impl("add_", backend_key("frozen_arrays"), lambda self, other: self + other + 100)
    committed = staging.commit()
    try:
        x = tp.zeros(2, 2, device="frozen_arrays")
        row = x[0]
        for n in (1, 2):
            row.add_(1)
            assert x.tolist() == [[101.0 * n] * 2, [0.0, 0.0]]
    finally:
        committed.undo()


@pytest.mark.parametrize("device", DEVICES)
def test_threads_that_write_to_different_parts_lose_nothing(device):
    x = tp.zeros(4, 3, device=device)
    rows = [x[i] for i in range(4)]

    def add(row: Any) -> None:
        for _ in range(50):
            row.add_(1)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(add, rows))
    assert x.tolist() == [[50.0] * 3] * 4
    assert [row.tolist() for row in rows] == x.tolist()


def test_members_that_are_gone_cost_nothing_and_the_base_goes_with_its_last_view():
    x = tp.zeros(4, device="frozen_arrays")
    for _ in range(50):
        x[1:].add_(1)
    family = family_of(x)
    gc.collect()
    assert len(family.members) == 1 and family_of(tp.zeros(2, device="frozen_arrays")) is None
    left, right = x[:3], x[1:]
    gone = weakref.ref(x)
    del x  # its views keep it
    left.fill_(7)
    assert right.tolist() == [7.0, 7.0, 50.0]
    del left, right
    assert gone() is None
