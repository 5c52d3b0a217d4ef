"""What autocast does to a call, policy by policy; a region is opened by its state, as the mode will open it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing

import numpy as np
import pytest

import tensorplay as tp
from tensorplay_core.autocast import RULES, policies
from tensorplay_core.dispatch import active
from tensorplay_core.dispatch.context import STATE, Scope, exclude, include
from tensorplay_core.dispatch.key_set import KeySet
from tensorplay_core.dispatch.keys import FAMILIES, DispatchKey
from tensorplay_core.dispatch.operator import Operator
from tensorplay_core.dispatch.registry import REGISTRY
from tensorplay_core.errors import AutocastError, BackendConflict

HALF = tp.bfloat16
ON = {"cpu": HALF}
X = [[1.0, 2.5, -3.25], [0.1, 0.7, 1000.0]]


@pytest.fixture
def region() -> Iterator[None]:
    with Scope(autocast=ON):
        yield


def half(value: object, **kwargs: object) -> tp.Tensor:
    return tp.tensor(value, dtype=HALF, **kwargs)


# -------------------------------------------------------------------------------------------------- what is registered


def test_every_operator_with_a_policy_has_a_kernel_of_core_at_the_shared_slot() -> None:
    listed = {name: policy for policy, names in RULES.items() for name in names}
    for op in REGISTRY.operators.values():
        if op.namespace != "tp":
            continue
        found = op.kernel_at("Autocast")
        assert (found is not None) is (op.autocast != "none") is (op.display_name in listed)
        if found is not None:
            assert op.autocast == listed[op.display_name]
            assert found.owner == "tensorplay-core" and found.kernel_name.endswith(f"autocast_{op.autocast}")
            assert "autocast/policies.py:" in found.where.replace("\\", "/")
    assert tp.ops.tp.matmul.default.has_kernel("Autocast")
    assert not tp.ops.tp.add_.default.has_kernel("Autocast"), "what is written to keeps its dtype"


def test_they_are_there_before_anything_is_computed() -> None:
    code = "import tensorplay as tp; print(tp.ops.tp.matmul.default.has_kernel('Autocast'))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "True\n"


def test_a_foreign_kernel_needs_override_and_an_exact_key_does_not(region: None) -> None:
    with closing(tp.library.Library("tp", "IMPL")) as lib:
        with pytest.raises(BackendConflict, match="add at Autocast is taken by tensorplay-core"):
            lib.impl("add", lambda a, b, *, alpha=1: a, "Autocast")
        lib.impl("add", lambda a, b, *, alpha=1: "mine", "AutocastCPU")
        assert tp.add(tp.ones(2), tp.ones(2)) == "mine"
    assert tp.add(tp.ones(2), tp.ones(2)).tolist() == [2.0, 2.0]


def test_an_operator_that_is_defined_later_gets_its_policy_too(region: None) -> None:
    op = Operator("demo::late(Tensor self) -> Tensor", autocast="lower_precision_fp", composite="explicit")
    REGISTRY.define(op)
    try:
        with closing(tp.library.Library("demo", "IMPL")) as lib:
            lib.impl("late", lambda x: x + 0, "Composite")
            assert tp.ops.demo.late(tp.ones(2)).dtype is HALF
    finally:
        REGISTRY.remove(op)


# ------------------------------------------------------------------------------------------------------ lower precision


def test_lower_precision_computes_in_the_dtype_of_the_region(region: None) -> None:
    x = tp.tensor(X)
    result = x @ tp.ones(3, 2)
    assert result.dtype is HALF
    rounded = np.array([[1.0, 2.5, -3.25], [0.10009765625, 0.69921875, 1000.0]])  # bfloat16 has 8 bits
    np.testing.assert_allclose(result.float().numpy(), rounded @ np.ones((3, 2)), rtol=2**-8)
    assert (x.to(tp.float16) @ tp.ones(3, 2)).dtype is HALF
    assert tp.nn.functional.linear(x, tp.ones(2, 3), tp.ones(2)).dtype is HALF


@pytest.mark.parametrize("dtype", [tp.float64, tp.int64, tp.complex64], ids=lambda d: d.name)
def test_lower_precision_leaves_other_dtypes_alone(dtype: tp.dtype, region: None) -> None:
    assert (tp.ones(2, 2, dtype=dtype) @ tp.ones(2, 2, dtype=dtype)).dtype is dtype


def test_the_gradient_comes_back_in_the_dtype_of_the_input(region: None) -> None:
    x = tp.tensor(X, requires_grad=True)
    y = x @ tp.ones(3, 2)
    y.backward(tp.ones(2, 2, dtype=HALF))
    assert x.grad.dtype is tp.float32 and x.grad.tolist() == [[2.0] * 3] * 2
    assert [type(node).__name__ for node, _ in y.grad_fn.next_functions if node is not None] == ["_ToCopyBackward"]


# -------------------------------------------------------------------------------------------------------------- float32


def test_fp32_widens_halves_and_leaves_the_rest(region: None) -> None:
    for function in (tp.exp, tp.log, tp.expm1, tp.log1p):
        assert function(half([1.0, 2.0])).dtype is tp.float32
        assert function(tp.ones(2, dtype=tp.float16)).dtype is tp.float32
        assert function(tp.ones(2, dtype=tp.float64)).dtype is tp.float64
    np.testing.assert_array_equal(tp.exp(half([1.0])).numpy(), np.exp(np.float32([1.0])))


def test_a_number_keeps_its_digits_beside_a_half_that_is_widened(region: None) -> None:
    expected = np.float32([1.5, 3.0]) ** np.float32(2.3)  # 2.3 would be 2.296875 in bfloat16
    for result in (tp.pow(half([1.5, 3.0]), 2.3), half([1.5, 3.0]) ** 2.3):
        assert result.dtype is tp.float32
        np.testing.assert_allclose(result.numpy(), expected, rtol=1e-6)
    with exclude(FAMILIES["Autocast"]):
        assert tp.pow(half([1.5]), 2.3).dtype is HALF


@pytest.mark.parametrize("call", [tp.sum, lambda x, **k: tp.softmax(x, 0, **k), lambda x, **k: x.log_softmax(0, **k)])
def test_an_operator_with_dtype_is_told_float32_unless_it_was_told_another(call, region: None) -> None:
    x = half([0.5, 0.25, 2.0])
    assert call(x).dtype is tp.float32
    assert call(x, dtype=HALF).dtype is HALF
    assert call(x, dtype=tp.float64).dtype is tp.float64
    assert call(x.double()).dtype is tp.float64
    np.testing.assert_allclose(call(x).numpy(), call(tp.tensor([0.5, 0.25, 2.0])).numpy(), rtol=1e-6)


def test_sum_of_integers_is_still_an_integer(region: None) -> None:
    assert tp.tensor([1, 2]).sum().dtype is tp.int64


def test_fp32_gradients(region: None) -> None:
    x = half([1.0, 2.0], requires_grad=True)
    tp.log(x).sum().backward()
    assert x.grad.dtype is HALF and x.grad.tolist() == [1.0, 0.5]
    x.grad = None
    x.sum().backward()
    assert x.grad.dtype is HALF and x.grad.tolist() == [1.0, 1.0]


# -------------------------------------------------------------------------------------------------------------- promote


def test_promote_takes_the_widest_dtype_among_lists_and_tensors(region: None) -> None:
    joined = tp.cat([half([1.0]), tp.tensor([2.0]), half([3.0])])
    assert joined.dtype is tp.float32 and joined.tolist() == [1.0, 2.0, 3.0]
    assert tp.cat([half([1.0]), half([2.0])]).dtype is HALF
    assert tp.add(half([1.0]), tp.tensor([2.0], dtype=tp.float16)).dtype is tp.float32
    assert tp.where(tp.tensor([True, False]), half([1.0, 2.0]), tp.zeros(2)).dtype is tp.float32
    assert tp.add(half([1.0]), tp.tensor([2])).dtype is HALF, "integers take no part"


class Dtypes:
    """A kernel at CPU that notes the dtypes that reach it; ``promote: none`` operators are cast by nobody else."""

    def __init__(self, policy: str) -> None:
        self.op = Operator("demo::mix(Tensor[] many, Tensor one, *, Tensor? more=None) -> Tensor", autocast=policy)
        self.seen: list[str] = []

    def kernel(self, many, one, *, more=None):
        self.seen = [a.dtype.name for a in (*many, one, *([] if more is None else [more]))]
        return one.copy()

    def __enter__(self) -> Dtypes:
        REGISTRY.define(self.op)
        self.lib = tp.library.Library("demo", "IMPL")
        self.lib.impl("mix", self.kernel, "CPU", level="array")
        return self

    def __exit__(self, *_: object) -> None:
        self.lib.close()
        REGISTRY.remove(self.op)

    def of(self, *dtypes: tp.dtype) -> list[str]:
        a, b, c, d = (tp.ones(2, dtype=dtype) for dtype in dtypes)
        tp.ops.demo.mix([a, b], c, more=d)
        return self.seen


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("none", ["float32", "int64", "float16", "float64"]),
        ("lower_precision_fp", ["bfloat16", "int64", "bfloat16", "float64"]),
        ("fp32", ["float32", "int64", "float32", "float64"]),
        ("promote", ["float64", "int64", "float64", "float64"]),
    ],
)
def test_tensors_in_lists_and_keywords_are_cast_like_others(policy: str, expected: list[str], region: None) -> None:
    with Dtypes(policy) as mix:
        assert mix.of(tp.float32, tp.int64, tp.float16, tp.float64) == expected


# --------------------------------------------------------------------------------------------------------------- banned


def test_banned_names_the_remedy(region: None) -> None:
    for name, remedy in (("binary_cross_entropy", "binary_cross_entropy_with_logits"), ("other", "in float32")):
        op = Operator(f"demo::{name}(Tensor self) -> Tensor", autocast="banned", composite="explicit")
        REGISTRY.define(op)
        try:
            with closing(tp.library.Library("demo", "IMPL")) as lib:
                lib.impl(name, lambda self: self + 0, "Composite")
                call = getattr(tp.ops.demo, name)
                with pytest.raises(
                    AutocastError, match=f"{name}: is unsafe to autocast.*bfloat16(.|\n)*fix: .*{remedy}"
                ):
                    call(half([1.0, 1.0]))
                with pytest.raises(AutocastError, match="float16 has rounded"):
                    call(tp.ones(2, dtype=tp.float16))
                assert call(tp.ones(2)).tolist() == call(tp.ones(2).double()).tolist() == [1.0, 1.0]
                with Scope(autocast=None):
                    assert call(half([1.0, 1.0])).tolist() == [1.0, 1.0]
        finally:
            REGISTRY.remove(op)


def test_the_loss_whose_probabilities_a_half_rounds_to_one(region: None) -> None:
    logits, target = tp.tensor([7.0]), tp.zeros(1)
    probability = tp.sigmoid(logits)
    f = tp.nn.functional
    assert f.binary_cross_entropy(probability.to(HALF).float(), target).item() == 100, "log(1 - 1) was cut off"
    with pytest.raises(AutocastError, match="call binary_cross_entropy_with_logits"):
        f.binary_cross_entropy(probability.to(HALF), target.to(HALF))
    assert f.binary_cross_entropy_with_logits(logits.to(HALF), target).item() == pytest.approx(7.0009, abs=1e-4)
    assert f.binary_cross_entropy(probability, target).item() == pytest.approx(7.0009, abs=1e-3)


# ---------------------------------------------------------------------------------------------- where it does not reach


def test_without_a_policy_explicit_operators_fall_through_and_implicit_ones_decompose(region: None) -> None:
    assert tp.tanh(tp.ones(2)).dtype is tp.float32
    assert REGISTRY.find("_to_copy").kernel_at("Autocast") is None
    with closing(tp.library.Library("demo", "DEF")) as lib:
        for kind in ("explicit", "implicit"):
            lib.define(f"{kind}(Tensor a, Tensor b) -> Tensor", composite=kind)
            lib.impl(kind, lambda a, b: a @ b, "Composite")
            lib.impl(kind, lambda a, b: a.to(tp.int32), "CPU", level="tensor")
        a = tp.ones(2, 2)
        assert tp.ops.demo.explicit(a, a).dtype is tp.int32, "the kernel of the backend serves"
        assert tp.ops.demo.implicit(a, a).dtype is HALF, "its Composite kernel runs with autocast on"


def test_what_a_policy_calls_is_not_cast_again(region: None) -> None:
    with closing(tp.library.Library("demo", "IMPL")) as lib:
        op = Operator("demo::outer(Tensor a, Tensor b) -> Tensor", autocast="fp32", composite="explicit")
        REGISTRY.define(op)
        try:
            lib.impl("outer", lambda a, b: a @ b, "Composite")
            for a in (tp.ones(2, 2), half(np.ones((2, 2)).tolist())):
                assert tp.ops.demo.outer(a, a).dtype is tp.float32
            with tp.inference_mode():  # inference tensors have no Autograd key between Autocast and the backend
                a = tp.ones(2, 2)
                assert tp.ops.demo.outer(a, a).dtype is tp.float32
        finally:
            REGISTRY.remove(op)


def test_other_devices_are_not_touched() -> None:
    with Scope(autocast={"cuda": HALF}):
        assert (tp.ones(2, 2) @ tp.ones(2, 2)).dtype is tp.float32


def test_in_place_and_out_keep_the_dtype_of_what_is_written_to(region: None) -> None:
    x, out = tp.tensor(X), tp.empty(2, 2)
    tp.matmul(x, tp.ones(3, 2), out=out)
    np.testing.assert_array_equal(out.numpy(), np.float32(X) @ np.ones((3, 2), np.float32))
    x.mul_(3.0)
    np.testing.assert_array_equal(x.numpy(), np.float32(X) * np.float32(3.0))


# ------------------------------------------------------------------------------------------------------------ the state


def test_a_kernel_that_is_reached_while_autocast_is_off_is_an_error() -> None:
    a = tp.ones(2, 2)
    steps = 1 << DispatchKey.AutocastCPU
    keys = KeySet(steps | 1 << DispatchKey.AutogradCPU | 1 << DispatchKey.CPU, 0)
    for name in ("matmul", "add", "linear"):  # two policies, and one that would decompose
        with pytest.raises(AutocastError, match=f"{name}: .* autocast is off for cpu(.|\n)*fix: "):
            getattr(tp.ops.tp, name).default.redispatch(keys, a, a)
    with include(steps), pytest.raises(AutocastError, match="autocast is off"):
        tp.matmul(a, a)
    with Scope(autocast={"cuda": HALF}), include(steps), pytest.raises(AutocastError, match="off for cpu"):
        tp.matmul(a, a)
    with Scope(autocast=ON):
        assert tp.ops.tp.matmul.default.redispatch(keys, a, a).dtype is HALF


def test_an_open_region_takes_calls_off_the_fast_path_and_leaves_nothing_behind() -> None:
    a = tp.ones(2, 2)
    assert (a @ a).dtype is tp.float32  # its slot is filled now
    before = active.special
    with Scope(autocast=ON):
        assert active.special == before + 1
        assert (a @ a).dtype is HALF and tp.matmul(a, a).dtype is HALF
        with Scope(autocast=None):
            assert (a @ a).dtype is tp.float32
    assert active.special == before and STATE.get().autocast is None
    assert (a @ a).dtype is tp.float32


def test_explain_shows_the_policy(region: None) -> None:
    text = str(tp.explain(tp.matmul, tp.ones(2, 2), tp.ones(2, 2)))
    assert "AutocastCPU, AutogradCPU, CPU" in text
    assert "its policy is lower_precision_fp" in " ".join(text.split())


def test_every_policy_of_the_contract_has_a_kernel() -> None:
    from tensorplay_core.codegen.contract import AUTOCAST_POLICIES

    assert {*policies.POLICIES, "none"} == set(AUTOCAST_POLICIES) and list(RULES) == list(policies.POLICIES)


# ------------------------------------------------------------------------------------------------------ PyTorch's list


def f16(*values: float) -> tp.Tensor:
    return tp.tensor(values, dtype=tp.float16)


@pytest.mark.parametrize(
    ("call", "right"),
    [
        (lambda: f16(300.0).square(), [90000.0]),
        (lambda: f16(12.0).cosh(), np.cosh([12.0])),
        (lambda: f16(12.0).sinh(), np.sinh([12.0])),
        (lambda: f16(1.5).tan(), np.tan([1.5])),
        (lambda: f16(0.5).acos(), np.arccos([0.5])),
        (lambda: f16(0.5).asin(), np.arcsin([0.5])),
        (lambda: 1 / f16(1e-5), 1 / np.array([1e-5], np.float16).astype(float)),
        (lambda: 2.3 / f16(0.25), [9.2]),
        (lambda: tp.nn.functional.interpolate(f16(1, 2).reshape(1, 1, 2), scale_factor=2, mode="linear"), None),
        (lambda: f16(1, 2).scatter_add(0, tp.tensor([0, 0]), tp.tensor([0.1, 1e5])), [1e5 + 1.1, 2.0]),
        (lambda: f16(1, 2).index_put([tp.tensor([1])], tp.tensor([1e5])), [1.0, 1e5]),
    ],
)
def test_what_overflows_in_a_half_is_float32_as_in_pytorch(call, right) -> None:
    with tp.autocast("cpu", dtype=tp.float16):
        found = call()
    assert found.dtype is tp.float32
    expected = [[[1.0, 1.25, 1.75, 2.0]]] if right is None else right
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-6)


def test_a_number_divided_by_a_half_keeps_its_digits_when_it_is_known_already() -> None:
    x = f16(0.25)
    for _ in range(3):
        assert (0.7 / x).dtype is tp.float16  # which fills the cache of numbers
    with tp.autocast("cpu", dtype=tp.float16):
        found = 0.7 / x
        assert (tp.tensor(0.7, dtype=tp.float16) / x).dtype is tp.float16
    assert found.dtype is tp.float32
    np.testing.assert_allclose(found.numpy(), [2.8], rtol=1e-6)


def test_the_gradient_of_a_number_divided_by_a_half() -> None:
    x = tp.tensor([0.25], dtype=tp.float16, requires_grad=True)
    with tp.autocast("cpu", dtype=tp.float16):
        (3 / x).sum().backward()
    assert x.grad is not None and x.grad.dtype is tp.float16 and x.grad.tolist() == [-48.0]


DOCUMENTED = {
    "lower_precision_fp": "addmm addmv baddbmm bmm convolution linalg_multi_dot linear matmul mm mv prelu",
    "fp32": "acos asin binary_cross_entropy_with_logits cdist cosh cosine_similarity cross_entropy cumprod cumsum exp "
    "expm1 group_norm kl_div l1_loss layer_norm log log10 log1p log2 log_softmax margin_ranking_loss mse_loss nll_loss "
    "norm normalize pow prod reciprocal rsqrt sinh smooth_l1_loss softmax softmin softplus sum tan triplet_margin_loss",
    "promote": "addcdiv addcmul atan2 cross dot index_put scatter_add tensordot vdot",
}
"""The lists of PyTorch's page on ``torch.amp`` for devices with halves of their own, and ``vdot`` of its source."""


@pytest.mark.parametrize(
    ("name", "policy"), [(name, policy) for policy, names in DOCUMENTED.items() for name in names.split()]
)
def test_an_operator_of_pytorchs_lists_has_the_policy_that_they_give_it(name: str, policy: str) -> None:
    found = {known for known, names in RULES.items() for one in names if one.partition(".")[0] == name}
    assert found == {policy}


def test_products_of_vectors_have_the_wider_dtype_and_prelu_the_regions(region: None) -> None:
    x, w = tp.ones(3), half([1.0, 2.0, 3.0])
    for call in (tp.dot, tp.vdot, tp.cross, tp.linalg.cross, lambda a, b: tp.tensordot(a, b, dims=1)):
        assert call(x, w).dtype == tp.float32 and call(w, w).dtype == HALF and call(x, x).dtype == tp.float32
    assert tp.nn.functional.prelu(x, tp.ones(1)).dtype == HALF
