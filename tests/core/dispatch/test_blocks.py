"""``library_impl`` blocks: at once outside a plugin, collected in one, and an ``m`` that does what a library does."""

from __future__ import annotations

from contextlib import closing

import pytest

import tensorplay as tp
from tensorplay_core.dispatch.library import Library, collect, library_impl
from tensorplay_core.dispatch.registry import REGISTRY
from tensorplay_core.errors import KernelMissing, RegistrationError


def test_a_block_outside_a_plugin_is_applied_at_once():
    with closing(Library("blocks", "DEF")) as lib:
        lib.define("op(Tensor x) -> Tensor")

        @library_impl("Composite", "MyBlock")
        def _(m):
            m.impl("blocks::op", lambda x: x * 3)

        assert tp.ops.blocks.op(tp.ones(1)).item() == 3.0


def test_collected_blocks_wait_for_their_batch():
    with collect() as blocks:

        @library_impl("CPU", "Later")
        def _(m):
            m.impl("later::op", lambda x: x)

    assert [(block.key, block.name) for block in blocks] == [("CPU", "Later")]
    assert blocks[0].where.startswith(f"{__file__}:")
    staging = REGISTRY.stage("later", "later-distribution")
    blocks[0].apply(staging)
    (problem,) = staging.problems()
    assert "no operator 'later::op'" in problem and f"{__file__}:" in problem


def test_a_block_calls_what_lies_beneath_and_opts_out_of_composite():
    with collect() as blocks:

        @library_impl("CPU", "Mine")
        def _(m):
            beneath = m.below("exp")
            m.impl("exp", lambda x: beneath(x) + 1, override=True)
            m.without_composite("linear")

    x = tp.zeros(1, 2)
    staging = REGISTRY.stage("mine", "mine-distribution")
    blocks[0].apply(staging)
    committed = staging.commit()
    try:
        assert x.exp().tolist() == [[2.0, 2.0]]
        with pytest.raises(KernelMissing, match="mine-distribution opted out"):
            tp.linear(x, x)
    finally:
        committed.undo()
    assert x.exp().tolist() == [[1.0, 1.0]] and tp.linear(x, x).tolist() == [[0.0]]


def test_what_is_wrong_is_told_with_the_kernels_line_and_the_blocks():
    def kernel(x):
        return x

    with collect() as blocks:

        @library_impl("CPU", "Mine")
        def _(m):
            m.impl("addd", kernel)
            m.impl("mul", kernel)
            m.below("addd")
            m.without_composite("addd")

        @library_impl("CPUU", "Typo")
        def _(m):
            for op in ("add", "mul", "exp", "sin", "cos"):
                m.impl(op, kernel)

    staging = REGISTRY.stage("mine", "mine-distribution")
    for block in blocks:
        block.apply(staging)
    with pytest.raises(RegistrationError) as info:
        staging.commit()
    message = str(info.value)
    line = (
        f"{__file__}:{kernel.__code__.co_firstlineno}, in the block 'Mine' of line {blocks[0].where.rpartition(':')[2]}"
    )
    assert "5 problems" in message and f"addd at CPU ({line}): there is no operator 'addd'" in message
    assert f"mul at CPU ({line}): the kernel's signature is (x), the operator is mul(Tensor self" in message
    assert message.count("Did you mean 'add'") >= 3 and message.count("no dispatch key 'CPUU'") == 1
    assert "in the block 'Typo'" in message and "and 2 more" in message
