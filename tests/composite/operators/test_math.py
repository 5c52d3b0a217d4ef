"""The interpreter: formulas run as the operators that they are made of, on any device, below autograd."""

from __future__ import annotations

from contextlib import contextmanager

import numpy as np
import pytest

import tensorplay as tp
from tensorplay_composite.operators.math import emit
from tensorplay_core.dispatch.keys import DispatchKey
from tensorplay_core.dispatch.registry import REGISTRY
from tensorplay_core.ops.define import operator
from tensorplay_core.types.program import Program

COMPOSITE = int(DispatchKey.Composite)
SILU = Program(("x",), (), (), (), (("t0", "sigmoid", "x"), ("t1", "mul", "x", "t0")), ("t1",))
SCALED = Program(
    ("x", "y", "n"), (("alpha", 1.0),), ("n", "alpha"), (("s0", "mul", "n", "alpha"),),
    (("t0", "mul", "y", "s0"), ("t1", "add", "x", "t0")), ("t1",),
)  # fmt: skip
X = np.array([-90.0, -3.0, -0.5, 0.0, 0.25, 4.0, np.inf, -np.inf, np.nan])


@contextmanager
def nothing_else(name):
    """Leaves an operator nothing but its kernel at Composite and what lies above."""
    op = REGISTRY.find(name)
    taken = [r for stack in op.table.values() for r in stack if r.emitted and r.key != COMPOSITE]
    REGISTRY.publish(removed=taken)
    try:
        yield op
    finally:
        REGISTRY.publish(added=taken)


@pytest.mark.parametrize("device", ["cpu", "loopback"])
def test_it_serves_a_device_without_an_emitter(device):
    with nothing_else("silu") as op, np.errstate(all="ignore"):
        assert op.kernel_at(0) is None and op.kernel_at(COMPOSITE).emitted
        for _ in range(2):
            found = tp.silu(tp.tensor(X, dtype=tp.float64, device=device))
            np.testing.assert_allclose(found.cpu().numpy(), X / (1 + np.exp(-X)), rtol=1e-14, atol=1e-300)
        assert "emitted by tensorplay_composite.operators.math.emit" in str(tp.explain("silu(float32[2] cpu)"))


def test_it_runs_below_autograd_and_the_node_is_the_operators_own():
    with nothing_else("silu"):
        x = tp.tensor([0.5, -1.0], dtype=tp.float64, requires_grad=True)
        y = tp.silu(x)
        assert y.grad_fn.name == "SiluBackward" and tp.autograd.gradcheck(tp.silu, (x,))


@pytest.mark.parametrize("half", [tp.float16, tp.bfloat16])
def test_half_precisions_are_rounded_once(half):
    x = tp.tensor(np.linspace(-20, 20, 4001), dtype=half)
    with nothing_else("silu"):
        found = tp.silu(x)
        assert found.dtype is half and found.tolist() == tp.silu(x.to(tp.float32)).to(half).tolist()
    # rounded after every step instead, some values are others
    assert found.tolist() != (x * tp.sigmoid(x)).tolist()


def test_integers_promote_before_anything_is_computed():
    square = Program(("x",), (), (), (), (("t0", "mul", "x", "x"), ("t1", "sqrt", "t0")), ("t1",))
    op = operator("size_of(Tensor x) -> Tensor", shape="same", promote="float", composite="explicit", math=square)
    try:
        with nothing_else("size_of"):  # 100 * 100 is no int8
            assert tp.ops.tp.size_of(tp.tensor([100, -100], dtype=tp.int8)).tolist() == [100.0, 100.0]
    finally:
        REGISTRY.remove(op)


def test_tensors_broadcast_and_promote_and_numbers_are_honoured():
    schema = "scaled_sum(Tensor x, Tensor y, Scalar n, *, Scalar alpha=1.0) -> Tensor"
    op = operator(schema, shape="broadcast", promote="default", composite="explicit", math=SCALED)
    try:
        with nothing_else("scaled_sum"):
            x, y = tp.tensor([[1.0], [2.0]], dtype=tp.float64), tp.tensor([1, 2, 3])
            found = tp.ops.tp.scaled_sum(x, y, 2, alpha=0.25)
            assert found.dtype is tp.float64 and found.tolist() == [[1.5, 2.0, 2.5], [2.5, 3.0, 3.5]]
    finally:
        REGISTRY.remove(op)


def test_results_have_the_shape_of_all_inputs_and_memory_of_their_own():
    made = Program(("x", "y"), (), (), (), (("t0", "neg", "x"),), ("t0", "t0", "x", "y", 7.0))
    x, y = tp.tensor([[1.0], [2.0]]), tp.tensor([3.0, 4.0])
    results = emit(made)(x, y)
    assert [r.tolist() for r in results] == [
        [[-1.0, -1.0], [-2.0, -2.0]],
        [[-1.0, -1.0], [-2.0, -2.0]],
        [[1.0, 1.0], [2.0, 2.0]],
        [[3.0, 4.0], [3.0, 4.0]],
        [[7.0, 7.0], [7.0, 7.0]],
    ]
    for result in results:
        result.fill_(0.0)
    assert x.tolist() == [[1.0], [2.0]] and y.tolist() == [3.0, 4.0]
    same = emit(made)(x, x)
    same[0].fill_(9.0)
    assert same[1].tolist() == [[-1.0], [-2.0]]


def test_a_condition_chooses():
    made = Program(("condition", "x"), (), (), (), (("t0", "where", "condition", "x", 0),), ("t0",))
    found = emit(made)(tp.tensor([True, False]), tp.tensor([1.5, 2.5], dtype=tp.float16))
    assert found.dtype is tp.float16 and found.tolist() == [1.5, 0.0]


def test_complex_numbers_compute_where_the_operators_do():
    made = Program(("x",), (), (), (), (("t0", "exp", "x"), ("t1", "mul", "t0", 0.5)), ("t1",))
    x = np.array([1 + 2j, -1j])
    found = emit(made)(tp.tensor(x, dtype=tp.complex128))
    np.testing.assert_allclose(found.numpy(), np.exp(x) * 0.5, rtol=1e-15)
