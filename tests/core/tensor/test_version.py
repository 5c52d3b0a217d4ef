"""Version cells: made lazily, shared by views, bumped by writes."""

from __future__ import annotations

from copy import copy as copied

import numpy as np
import pytest

import tensorplay as tp
from tensorplay_composite.arrays import ArrayDevice, kernels
from tensorplay_core.dispatch import devices
from tensorplay_core.dispatch.keys import backend_key
from tensorplay_core.dispatch.registry import REGISTRY
from tensorplay_core.tensor.version import LIVE, version_of
from tensorplay_core.tensor.views import bump, root_of, share


def test_a_cell_is_made_at_the_first_call_and_kept():
    x = tp.zeros(2)
    assert x._version is None
    cell = version_of(x)
    assert cell == [0, False]
    assert version_of(x) is cell


def test_bump_counts_only_where_somebody_looks():
    x = tp.zeros(2)
    bump(x)
    assert x._version is None
    version_of(x)
    bump(x)
    assert version_of(x)[0] == 1


def test_views_share_the_cell_and_mark_it():
    x = tp.zeros(2, 3)
    for view in (x[0], x.T, x.reshape(6), x.unsqueeze(0), x.expand(2, 2, 3), x[:, 1:], x.squeeze(), x.view(3, 2)):
        assert view._version is x._version
        assert x._version[1]
    y = x[0][1:]
    assert y._version is x._version
    y.add_(1)
    assert version_of(x)[0] == 1


def test_detach_shares_the_cell():
    x = tp.zeros(2)
    assert version_of(x.detach()) is version_of(x)


def test_copies_have_cells_of_their_own():
    x = tp.zeros(2, 3)
    version_of(x)
    for copy in (x.clone(), x + 0, x.to(tp.float64), tp.tensor(x), x[tp.tensor([0])]):
        assert copy._version is not x._version


def test_share():
    x, y = tp.zeros(2), tp.zeros(2)
    share(x, y, REGISTRY.operators["tp::slice"], 0, None, None, 1)
    assert y._version is x._version
    assert root_of(y) is x and [reference() for reference in x._version[LIVE]] == [y]


def test_a_reshape_that_copies_has_a_version_of_its_own():
    base = tp.ones(2, 3)
    weight = tp.ones(6, requires_grad=True)
    copied = base.transpose(0, 1).reshape(6)
    copied.add_(weight)  # recorded: no view shares the memory
    copied.sum().backward()
    assert weight.grad.tolist() == [1.0] * 6 and base.sum().item() == 6.0
    base.reshape(6).add_(weight)
    assert base.requires_grad and not copied._is_view()


# -------------------------------------------------------------------------------- a device whose slices are copies


@pytest.fixture
def unviewed():
    """A device that says ``views=False``, as libraries with lazy or immutable arrays do."""
    key = backend_key("unviewed")
    devices.install("unviewed", ArrayDevice(np, views=False), 1, "tests-unviewed")
    staging = REGISTRY.stage("unviewed", "tests-unviewed")
    for name, kernel in kernels(np).items():
        if (op := REGISTRY.operators.get(f"tp::{name}")) is not None:
            view = "(a)" in op.schema_text.partition("->")[0]
            staging.impl(name, key, (lambda *args, kernel=kernel: kernel(*args).copy()) if view else kernel)
    committed = staging.commit()
    yield
    committed.undo()
    devices.uninstall("unviewed")


WRITES = {
    "add_": lambda part: part.add_(1), "relu_": lambda part: part.relu_(), "copy_": lambda part: part.copy_(part + 1),
    "fill_": lambda part: part.fill_(3), "detach": lambda part: part.detach().mul_(2),
    "out": lambda part: tp.add(part, part, out=part),
}  # fmt: skip


@pytest.mark.parametrize("write", WRITES)
def test_a_write_to_a_part_reaches_its_base_as_on_the_cpu(unviewed, write):
    """Or would be lost in silence: the part is a copy."""
    results = []
    for device in ("cpu", "unviewed"):
        x = tp.tensor([-1.0, 2.0, -3.0, 4.0], device=device)
        for _ in range(3):  # by the fast path too
            part = x[1:3]
        WRITES[write](part)
        seen = [x.tolist(), part.tolist()]
        x[1:3] = 5
        x.add_(1)
        results.append([*seen, x.tolist(), part.tolist()])
    assert results[0] == results[1]


def test_a_parameter_that_was_transposed_can_be_updated_on_a_device_without_views(unviewed):
    weight = tp.ones(2, 3, device="unviewed", requires_grad=True)
    for _ in range(2):
        (tp.ones(4, 3, device="unviewed") @ weight.t()).sum().backward()
        with tp.no_grad():
            weight.sub_(weight.grad * 0.5)
        weight.grad = None
    assert weight.tolist() == [[-3.0] * 3] * 2


def test_tensors_over_the_memory_of_a_viewed_one_are_forgotten_when_they_are_gone():
    x = tp.ones(4, requires_grad=True)
    view = x[0]
    for _ in range(1000):
        x.detach()
        copied(x)
    assert len(version_of(x)[LIVE]) < 50
    kept = [x.detach() for _ in range(100)]
    view.detach().zero_()
    assert all(one.tolist() == [0.0, 1.0, 1.0, 1.0] for one in kept)
