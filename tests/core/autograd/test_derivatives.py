"""Every derivative of the contract against finite differences, and forward against reverse mode.

The operators come from the registry and their inputs from ``tensorplay_core.testing.samples``, so a new record is
checked the moment it exists. Where an operator has a kink, finite differences say nothing: such samples are named here
with the reason, and the names are checked too. Forward mode must agree with reverse mode there as well.
"""

from __future__ import annotations

import pytest

import tensorplay as tp
from tensorplay_core.autograd.node import NoFormula
from tensorplay_core.dispatch.operator import Operator
from tensorplay_core.dispatch.registry import REGISTRY
from tensorplay_core.testing.differentiation import calls, forward_agrees, is_differentiable, source
from tensorplay_core.testing.samples import samples

pytestmark = pytest.mark.filterwarnings("error")  # no warning of NumPy reaches the user

REAL_ONLY = {
    "tp::cross_entropy": "a loss is a real number, and its logits are compared",
    **dict.fromkeys(
        ("tp::_cdist_backward", "tp::cdist", "tp::cosine_similarity", "tp::pairwise_distance"),
        "PyTorch takes real tensors",
    ),
    "tp::log_softmax": "the largest element is subtracted, and complex numbers have no order",
    "tp::softmax": "the largest element is subtracted, and complex numbers have no order",
    **dict.fromkeys(("tp::quantile", "tp::quantile.scalar"), "complex numbers have no order"),
    "tp::max_pool1d": "complex numbers have no order",
    "tp::max_pool1d_with_indices": "complex numbers have no order",
}
"""Operators whose kernels take no complex tensor, each with its reason; those that are tagged so join below."""

_KINK = "a kink at 0: the slopes on its two sides differ"
_CURVED = "its second derivative jumps at 0"
_POLE = "no finite derivative at 0"
_FIRST = "of equal elements the first has the gradient; the differences see a kink"
_SHARED = "equal elements share the gradient; the differences see the kink where they meet"
_OUTSIDE = "a probability is from 0 to 1, and the differences leave that"
_CHOOSES = "the target says which of two losses is meant, and differences of it mean neither"
_LAST = "an index that is written twice keeps one of the values, and its gradient is said to go to both"
KINKS = {
    ("tp::abs", "zeros"): _KINK,
    ("tp::elu", "zeros"): _CURVED,
    ("tp::leaky_relu", "zeros"): _KINK,
    ("tp::log", "zeros"): _POLE,
    **{(f"tp::{name}", "zeros"): _POLE for name in ("log2", "log10", "logit")},
    **{(f"tp::{name}", "zeros"): "no finite derivative at 1" for name in ("asin", "acos", "acosh", "atanh")},
    **{(f"tp::{name}", "zeros"): "it jumps at integers" for name in ("floor", "ceil", "trunc", "frac", "sign")},
    **{(f"tp::{name}", "ties"): "it jumps where the quotient is whole" for name in ("remainder", "fmod")},
    **{("tp::div.Tensor_mode", f"ties, {mode}"): "it jumps where the quotient is whole" for mode in ("trunc", "floor")},
    **{(f"tp::{name}", "ties"): "a kink at its bounds" for name in ("clamp", "clamp_min", "clamp_max")},
    **{(f"tp::{name}", "zeros"): "a kink at a bound" for name in ("hardtanh", "relu6", "threshold")},
    ("tp::prelu", "zeros"): _KINK,
    ("tp::celu", "zeros"): _CURVED,
    ("tp::max", "ties"): _SHARED,
    ("tp::max.dim", "ties"): _FIRST,
    ("tp::maximum", "ties"): _SHARED,
    ("tp::minimum", "ties"): _SHARED,
    ("tp::reciprocal", "zeros"): _POLE,
    ("tp::relu", "zeros"): _KINK,
    ("tp::rsqrt", "zeros"): _POLE,
    ("tp::scatter_reduce.two", "amax ties"): _SHARED,
    ("tp::selu", "zeros"): _KINK,
    ("tp::sgn", "zeros"): "it jumps at 0",
    ("tp::sqrt", "zeros"): _POLE,
    ("tp::cosine_similarity", "a vector of zeros"): "its length counts as eps, and a step is longer",
    ("tp::normalize", "a vector of zeros"): "its length counts as eps, and a step is longer",
    ("tp::pairwise_distance", "equal vectors"): "a step is about as long as the distance",
    ("tp::cdist", "equal rows"): "a distance has a kink where it is 0",
    ("tp::_cdist_backward", "zeros"): "a distance has a kink where it is 0",
    ("tp::_cdist_backward", "a share of 0"): "its slope is infinite there for p < 1, and is said to be 0",
    **dict.fromkeys(
        [("tp::linalg_norm", "all zeros"), ("tp::linalg_matrix_norm.str_ord", "all zeros")], "a norm has a kink at 0"
    ),
    ("tp::_binary_cross_entropy", "ties"): _OUTSIDE,
    ("tp::binary_cross_entropy", "equal elements and zeros"): _OUTSIDE,
    ("tp::gaussian_nll_loss", "equal elements and zeros"): "a variance of 0 is replaced, and less than 0 is refused",
    ("tp::kl_div", "targets of 0"): _POLE,
    ("tp::l1_loss", "equal elements and zeros"): _KINK,
    ("tp::margin_ranking_loss", "equal elements and zeros"): _KINK,
    ("tp::triplet_margin_loss", "equal elements and zeros"): _KINK,
    **{(f"tp::max_pool{n}d{rest}", "ties"): _FIRST for n in (1, 2, 3) for rest in ("", "_with_indices")},
    **{
        (f"tp::max_pool{n}d_backward", f"{name}, ties"): _FIRST
        for n in (2, 3)
        for name in ("plain", "overlapping")
        if (n, name) != (3, "overlapping")
    },
    ("tp::linalg_pinv.atol_rtol_float", "rank 1"): "a step makes the rank 2, and the inverse jumps",
    ("tp::_to_copy", "dtype float32"): "differences of float32 are exact to few digits",
    ("tp::_to_copy", "dtype int64"): "an integer has no derivative",
}
"""(operator, sample) to the reason why differences of the first or second order mean nothing there."""
_STILL = "of equal elements the deviation is 0, and its gradient is said to be 0"
_ZERO = "at a norm of 0 the slopes on its two sides differ, and the gradient is said to be 0"
_FREE = "a divisor of 0: the variance is NaN"
_OVERLOADS = ("", ".dim", ".correction")
KINKS |= {
    **{(f"tp::{name}", "ties"): _SHARED for name in ("min", "amax", "amin", "aminmax", "median", "max.other")},
    **{(f"tp::{name}", "ties"): _SHARED for name in ("min.other", "norm", "norm.dtype", "linalg_vector_norm")},
    **{(f"tp::{name}", "ties along a dim"): _SHARED for name in ("amax", "amin")},
    **{(f"tp::{name}", "equal elements and zeros"): _SHARED for name in ("min", "amin")},
    **{
        (f"tp::{name}", sample): "of equal elements one has the gradient; the differences see a kink"
        for names, tried in (
            (
                ("min.dim", "cummax", "cummin", "msort", "kthvalue", "median.dim", "quantile"),
                ["ties"],
            ),
            (("sort", "sort.stable", "topk"), ["ties False", "ties True"]),
        )
        for name in names
        for sample in tried
    },
    **{(f"tp::{form}{overload}", "one value"): _STILL for form in ("std", "std_mean") for overload in _OVERLOADS},
    **{
        (f"tp::{form}{overload}", "0-d"): _FREE
        for form in ("std", "std_mean", "var", "var_mean")
        for overload in ("", ".dim", ".correction")
    },
    **{
        (f"tp::{name}", f"zeros, order {order}"): _ZERO
        for name in ("norm", "norm.dtype", "linalg_vector_norm")
        for order in ("2", "1", "3", "1.5", "0.5", "inf")
    },
    ("tp::norm.str", "zeros"): _ZERO,
    **{(f"tp::max_pool{n}d_backward", "channels, ties"): _FIRST for n in (2, 3)},
    ("tp::std_mean.dim", "ties, complex128"): _STILL,  # where the numbers that were drawn make a column of one value
}
REPEATS = dict.fromkeys(("tp::index_copy", "tp::index_put", "tp::scatter.src"), _LAST)
REPEATS |= dict.fromkeys(
    ("tp::_embedding", "tp::embedding"), "a row is left out, or divided by how often it is read, on purpose"
)
REPEATS |= dict.fromkeys(
    ("tp::_unique2", "tp::unique_dim", "tp::unique_dim_consecutive"),
    "equal elements are one, whose gradient goes to the first; a step makes them two",
)
REPEATS |= dict.fromkeys(("tp::cosine_embedding_loss", "tp::hinge_embedding_loss"), _CHOOSES)
"""Operators whose samples that are not smooth write to an element twice, or choose, with what that means."""

NOT_FORWARD = {("tp::logit", "zeros"): "its slope at 0 and 1 is infinite"} | {
    (f"tp::{name}", "empty dim"): "the mean of nothing is NaN, and so is its tangent"
    for name in (
        *("mean", "nanmean"),
        *(f"{form}{overload}" for form in ("var", "std", "var_mean", "std_mean") for overload in _OVERLOADS),
    )
}
"""(operator, sample) to the reason why forward and reverse mode cannot be compared there."""

LARGE = 1000
"""Of more elements than this, such as matrices larger than a kernel's block, a random projection is compared."""

OPERATORS = dict(REGISTRY.operators)
DIFFERENTIABLE = {name: op for name, op in OPERATORS.items() if op.namespace == "tp" and is_differentiable(op)}
REAL_ONLY = {
    name: "complex numbers have no order" if "ordered" in op.tags else "it is defined on real numbers"
    for name, op in DIFFERENTIABLE.items()
    if op.functional is None and {"ordered", "real"} & {*op.tags}
} | REAL_ONLY


def form_of(op: Operator) -> str:
    """The name of the operator that an in-place one is the form of, also where the contract does not link the two."""
    return source(op).qualified_name.replace("_.", ".").removesuffix("_")


def check(op: Operator, dtype: str, tally) -> None:
    form, reached, second = form_of(op), 0, 0
    for call in calls(op, dtype):
        place = f"{op.display_name}, {dtype}, sample {call.sample.name!r}"
        sample = call.sample.name
        kink = KINKS.get((form, sample)) or KINKS.get((form, f"{sample}, {dtype}"))
        if kink is None and not call.sample.smooth and form in REPEATS and not _is_smooth(call):
            tally["exceptions"][f"{form}, {call.sample.name}"] = REPEATS[form]
            continue
        try:
            if kink is not None:
                assert not _is_smooth(call), f"{place}: it is no kink any more, so take it out of KINKS"
                tally["exceptions"][f"{form}, {call.sample.name}"] = kink
                continue
            large = sum(x.numel() for x in call.tensors) > LARGE
            assert tp.autograd.gradcheck(call.function, call.tensors, fast_mode=large)
            if any(y.dtype.is_inexact for y in _tensors(call.function(*call.tensors))):
                assert tp.autograd.gradgradcheck(call.function, call.tensors, fast_mode=large)
                second += 1
        except tp.TensorPlayError as error:
            raise AssertionError(f"{place}: {error}") from error
        reached += 1
    assert reached, f"{op.display_name}: no sample reaches its derivative"
    tally["counts"][f"gradchecks, {dtype}"] += reached
    tally["counts"][f"gradgradchecks, {dtype}"] += second
    tally["counts"][f"operators, {dtype}"] += 1


def _tensors(result):
    return [y for y in (result if isinstance(result, (tuple, list)) else (result,)) if isinstance(y, tp.Tensor)]


def _is_smooth(call) -> bool:
    try:
        return tp.autograd.gradcheck(call.function, call.tensors, raise_exception=False) and tp.autograd.gradgradcheck(
            call.function, call.tensors, raise_exception=False
        )
    except tp.TensorPlayError:
        return False


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_real_gradients_of_both_orders(name, tally):
    check(DIFFERENTIABLE[name], "float64", tally)


@pytest.mark.parametrize(
    "name", [n for n, op in DIFFERENTIABLE.items() if op.functional is None and n not in REAL_ONLY]
)
def test_complex_gradients_of_both_orders(name, tally):
    check(DIFFERENTIABLE[name], "complex128", tally)


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_forward_mode_agrees_with_reverse_mode(name, tally):
    op = DIFFERENTIABLE[name]
    form = form_of(op)
    for dtype in ("float64", "complex128"):
        for call in calls(op, dtype):
            if (reason := NOT_FORWARD.get((form, call.sample.name))) is not None:
                tally["exceptions"][f"forward mode, {form}, {call.sample.name}"] = reason
                continue
            problem = forward_agrees(call.function, call.tensors)
            if problem is not None and not call.sample.smooth and form in REPEATS:
                tally["exceptions"][f"forward mode, {form}, {call.sample.name}"] = REPEATS[form]
                continue
            assert problem is None, f"{op.display_name}, {dtype}, sample {call.sample.name!r}: {problem}"
            tally["counts"][f"forward against reverse mode, {dtype}"] += 1


def test_every_exception_names_a_sample():
    known = {(name, s.name) for name, op in OPERATORS.items() if is_differentiable(op) for s in samples(source(op))}
    named = {(name, sample.removesuffix(", complex128")) for name, sample in (*KINKS, *NOT_FORWARD)}
    assert named <= known


@pytest.mark.parametrize("name", REAL_ONLY)
def test_what_is_real_only_refuses_complex_tensors(name, tally):
    op = DIFFERENTIABLE[name]
    tally["exceptions"][f"{name}, complex numbers"] = REAL_ONLY[name]
    assert not list(samples(source(op), dtype="complex128")), (
        f"{name} has complex samples: check its gradient with them"
    )
    sample = next(s for s in samples(source(op), dtype="float64") if s.args[0].shape != () and 0 not in s.args[0].shape)
    args, kwargs = sample.build(tp)
    with pytest.raises(tp.TensorPlayError):
        op.function(args[0].to(tp.complex128), *args[1:], **kwargs)


def test_an_operator_without_a_formula_runs_and_refuses_to_back_up():
    library = tp.library.Library("derivatives_test", "DEF")
    library.define("twice(Tensor x) -> Tensor")
    library.impl("twice", lambda x: 2 * x, "CPU")
    x = tp.tensor([1.0, 2.0], requires_grad=True)
    y = tp.ops.derivatives_test.twice(x)
    assert y.tolist() == [2.0, 4.0]
    assert isinstance(y._node, NoFormula)
    with pytest.raises(tp.AutogradError, match="derivatives_test::twice has no gradient formula"):
        y.sum().backward()
    assert x.grad is None
    library.close()
