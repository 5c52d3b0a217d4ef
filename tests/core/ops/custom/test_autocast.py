"""Registered casts: which arguments are cast, to what, and that nothing below is cast again."""

from __future__ import annotations

import pytest

import tensorplay as tp
from tensorplay_core.dispatch.context import STATE, Scope
from tensorplay_core.dispatch.keys import FAMILIES, DispatchKey
from tensorplay_core.dispatch.registry import REGISTRY


@pytest.fixture
def dtypes():
    @tp.library.custom_op("t::dtypes", mutates_args=())
    def op(x: tp.Tensor, xs: list[tp.Tensor], n: int = 0, *, last: tp.Tensor | None = None) -> tp.Tensor:
        op.seen = [x.dtype, *(t.dtype for t in xs), None if last is None else last.dtype]
        op.excluded = STATE.get().exclude & FAMILIES["Autocast"]
        return x * 2

    return op


def on():
    return Scope(autocast={"cpu": tp.float16})


def test_floating_inputs_are_cast_where_autocast_is_on(dtypes):
    dtypes.register_autocast("cpu", tp.bfloat16)
    x, wide, index = tp.ones(2), tp.ones(2, dtype=tp.float64), tp.ones(2, dtype=tp.int64)
    assert dtypes(x, [x]).dtype is tp.float32
    with on():
        y = dtypes(x, [x, wide, index, x.to(tp.float16)], last=x)
    assert dtypes.seen == [tp.bfloat16, tp.bfloat16, tp.float64, tp.int64, tp.bfloat16, tp.bfloat16]
    assert y.dtype is tp.bfloat16 and dtypes.excluded
    dtypes(x, [])
    assert dtypes.seen == [tp.float32, None]


def test_the_gradient_comes_back_in_the_dtype_that_was_cast():
    op = tp.library.custom_op("t::double", lambda x: x * 2, mutates_args=(), schema="(Tensor x) -> Tensor")
    tp.library.register_autocast("t::double", "cpu", tp.bfloat16)
    op.register_autograd(lambda ctx, grad: grad * 2)
    x = tp.ones(2, requires_grad=True)
    with on():
        y = op(x)
    assert y.dtype is tp.bfloat16
    y.sum().backward()
    assert x.grad.tolist() == [2.0, 2.0] and x.grad.dtype is tp.float32


def test_it_belongs_to_who_registered_it_and_leaves_with_its_library(dtypes):
    op = REGISTRY.find("t::dtypes")
    lib = tp.library.Library("t", "FRAGMENT")
    tp.library.register_autocast("t::dtypes", "cpu", tp.float16, lib=lib)
    (kernel,) = op.table[int(DispatchKey.AutocastCPU)]
    assert kernel.where.startswith(__file__) and kernel.owner == __name__ and "cast_to_float16" in kernel.kernel_name
    lib.close()
    assert int(DispatchKey.AutocastCPU) not in op.table


def test_what_is_no_cast(dtypes):
    for wrong in (tp.int64, "float16", tp.complex64, None):
        with pytest.raises(tp.ArgumentError, match="cast_inputs is a floating dtype"):
            dtypes.register_autocast("cpu", wrong)
    with pytest.raises(tp.RegistrationError, match=r"no device type 'cpuu'. Did you mean 'cpu'"):
        dtypes.register_autocast("cpuu", tp.float16)
