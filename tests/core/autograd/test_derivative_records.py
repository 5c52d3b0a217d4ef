"""No derivative record escapes the checks: each is reached, with every input, by samples that try what goes wrong."""

from __future__ import annotations

import pytest

import tensorplay as tp
from tensorplay_core.dispatch.registry import REGISTRY
from tensorplay_core.testing.differentiation import (
    called,
    calls,
    inexact,
    is_declared_constant,
    is_differentiable,
    node_of,
    source,
    takes_tensors,
)
from tensorplay_core.testing.sample_features import OF_MEMORY, features, names_dims
from tensorplay_core.testing.samples import samples

OPERATORS = dict(REGISTRY.operators)
RECORDS = {name: op for name, op in OPERATORS.items() if op.node is not None}
FORMS = {
    name: op
    for name, op in OPERATORS.items()
    if op.namespace == "tp" and op.functional is None and is_differentiable(op)
}

_WRITES = "its form is constant; over a tensor that has a gradient, a backward pass refuses"
WITHOUT_RECORD: dict[str, str] = dict.fromkeys(
    (
        f"tp::{name}_"
        for name in ("floor_divide", "heaviside", "logical_not", "logical_and", "logical_or", "logical_xor")
    ),
    _WRITES,
)
"""Operators from floating tensors to floating tensors that have no gradient on purpose, each with its reason."""

CONSTANT: dict[str, str] = dict.fromkeys(("tp::floor_divide", "tp::heaviside"), "it is constant between its jumps")
"""Those whose records say that they are not differentiable, each with its reason."""

_A_DIM = "it needs a dim to work along"
LACKING = {
    "0-d": {
        **dict.fromkeys(
            ("cat", "chunk", "diagonal", "diagonal_scatter", "narrow", "select", "slice", "slice_backward",
             "slice_scatter", "split", "split.sizes", "split_with_sizes", "unbind", "unflatten", "rot90", "fliplr",
             "flipud", "tensor_split.sections", "tensor_split.indices", "hsplit.int", "hsplit.array", "vsplit.int",
             "vsplit.array", "dsplit.int", "dsplit.array"), _A_DIM),
        **dict.fromkeys(("index", "index_backward"), "an index needs a dim"),
        **dict.fromkeys(("convolution", "convolution_backward"), "it needs a batch, channels and a spatial dim"),
        **dict.fromkeys((f"conv{n}d{over}" for n in (1, 2, 3) for over in ("", ".padding")), "it needs channels"),
        **dict.fromkeys((f"conv_transpose{n}d{over}" for n, over in ((1, ""), (2, ".input"), (3, ".input"))),
                        "it needs channels"),
        **dict.fromkeys(("im2col", "col2im", "pixel_shuffle", "pixel_unshuffle", "interpolate"), "it needs channels"),
        **dict.fromkeys((f"{kind}_pool{n}d{rest}" for n in (1, 2, 3) for kind in ("max", "avg", "adaptive_avg")
                         for rest in ("", "_with_indices", "_backward")), "it needs channels"),
        **dict.fromkeys(("matmul", "linear", "cross_entropy"), "it needs a vector or a matrix"),
        **dict.fromkeys(
            ("mm", "bmm", "mv", "dot", "vdot", "outer", "tril", "triu", "trace", "diag", "diag_embed", "linalg_cross",
             "cross", "pairwise_distance", "cdist", "_cdist_backward"), "it needs a vector or a matrix"),
        **dict.fromkeys(
            ("linalg_cholesky", "linalg_cholesky_ex", "linalg_solve", "linalg_solve_triangular", "linalg_inv",
             "inverse",
             "linalg_det", "det", "linalg_slogdet", "slogdet", "logdet", "linalg_eigh", "linalg_eigvalsh", "linalg_svd",
             "linalg_svdvals", "linalg_qr", "cholesky_solve", "cholesky_inverse", "linalg_pinv.atol_rtol_float",
             "linalg_pinv", "linalg_matrix_power", "linalg_multi_dot", "linalg_matrix_norm",
             "linalg_matrix_norm.str_ord", "linalg_norm.ord_str", "linalg_cond", "linalg_cond.p_str", "linalg_lstsq"),
            "it needs a matrix"),
        **dict.fromkeys(("glu", "diff", "unique_dim", "unique_dim_consecutive"), _A_DIM),
        **dict.fromkeys(("embedding", "_embedding", "embedding_dense_backward"), "it needs a table of rows"),
        **dict.fromkeys(("scaled_dot_product_attention", "_attention", "_attention_backward"), "it needs matrices"),
        **dict.fromkeys(("nll_loss", "_cross_entropy", "_cross_entropy_backward"), "it needs a dim of classes"),
        "triplet_margin_loss": "it needs vectors",
        **dict.fromkeys(("layer_norm", "rms_norm", "_standardize", "_standardize_backward"), "it needs a dim to norm"),
        **dict.fromkeys(("group_norm", "instance_norm", "batch_norm"), "it needs a batch and channels"),
    },
    "empty": {
        "max": "nothing has no largest element", "min": "nothing has no smallest element",
        **dict.fromkeys(("median", "quantile", "quantile.scalar"), "nothing has no middle"),
    },
    "negative dim": {"tile": "its dims are counts, and none may be negative"},
    "strided": dict.fromkeys(OF_MEMORY, "it looks at memory, where gaps are elements"),
}  # fmt: skip
"""By feature: the operators of which no sample can have it, each with the reason."""


@pytest.mark.parametrize("name", RECORDS)
def test_every_differentiable_input_of_a_record_is_reached(name, tally):
    op = RECORDS[name]
    reached: set[int] = set()
    count = 0
    for dtype in ("float64", "complex128"):  # the function of a record may return a real tensor as it is
        for call in calls(op, dtype):
            node = node_of(call.function(*call.tensors))
            if isinstance(node, op.node):
                count = max(count, len(node.edges))
                reached |= {i for i, edge in enumerate(node.edges) if edge is not None}
    assert count, f"{name}: no sample records its node"
    missing = set(range(count)) - reached
    assert not missing, f"{name}: input {missing} is differentiated in no sample"
    tally["counts"]["records, each reached with every input"] += 1


def wanted_features(op) -> set[str]:
    """Returns what the samples of an operator must try, by its signature."""
    found = {"0-d", "empty", "strided", "ties", "zeros"}
    if op.shape == "broadcast" and sum(a.type.is_tensor for a in op.schema.positional) > 1:
        found.add("broadcast")
    if any(names_dims(a) for a in op.schema.arguments):
        found.add("negative dim")
    return found


@pytest.mark.parametrize("name", FORMS)
def test_samples_try_what_goes_wrong(name):
    op = FORMS[name]
    have = {feature for sample in samples(op, dtype="float64") for feature in features(op, sample)}
    short = op.schema.base_name
    excused = {feature for feature, names in LACKING.items() if short in names}
    missing = wanted_features(op) - have
    assert missing <= excused, f"{name}: no sample has {', '.join(sorted(missing - excused))}"
    assert not excused & have, f"{name}: it has samples that LACKING says it cannot have: {excused & have}"


@pytest.mark.parametrize("name", [name for name, op in OPERATORS.items() if takes_tensors(op)])
def test_no_floating_operator_is_without_a_record(name, tally):
    op = OPERATORS[name]
    if "random" in op.tags:  # tests/core/ops/test_random.py sees that their gradients are 0
        return
    if is_differentiable(op):
        assert name not in WITHOUT_RECORD and name not in CONSTANT, f"{name} needs no exception any more"
        return
    sample = next(samples(source(op), dtype="float64"), None)
    if sample is None:  # of integers
        return
    call = called(op, sample)
    result = call.function(*call.tensors)
    floating = list(inexact(result if isinstance(result, (tuple, list)) else (result,)))
    if not (call.tensors and floating):
        return
    reason = (CONSTANT if is_declared_constant(op) else WITHOUT_RECORD).get(name)
    assert reason is not None, (
        f"{name} takes and gives floating tensors and has no derivative; "
        "write a record, or name it in CONSTANT or WITHOUT_RECORD with the reason"
    )
    tally["exceptions"][name] = reason


def test_what_is_declared_not_differentiable_records_nothing():
    seen = 0
    for name, op in OPERATORS.items():
        sample = next(samples(op, dtype="float64"), None) if is_declared_constant(op) else None
        if sample is None:  # it has a gradient, or takes integers
            continue
        call = called(op, sample)
        result = call.function(*call.tensors)
        results = result if isinstance(result, (tuple, list)) else (result,)
        assert not any(y.requires_grad for y in results if isinstance(y, tp.Tensor)), name
        seen += 1
    assert seen >= 7
