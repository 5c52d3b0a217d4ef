"""Inputs for every operator, derived from its schema and its shape rule.

The conformance suite, the comparison of the fast with the slow path and the gradient checks run over these, so an
operator that a plugin defines is tested the moment it names a shape rule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tensorplay_core.errors import ArgumentError
from tensorplay_core.testing import sample_rules as first
from tensorplay_core.testing import sample_rules_arrange as arrange
from tensorplay_core.testing import sample_rules_attention as attention
from tensorplay_core.testing import sample_rules_convolution as convolution
from tensorplay_core.testing import sample_rules_creation as creation
from tensorplay_core.testing import sample_rules_factorization as factorization
from tensorplay_core.testing import sample_rules_indexing as indexing
from tensorplay_core.testing import sample_rules_linalg as linalg
from tensorplay_core.testing import sample_rules_loss as loss
from tensorplay_core.testing import sample_rules_more as more
from tensorplay_core.testing import sample_rules_normalization as normalization
from tensorplay_core.testing import sample_rules_padding as padding
from tensorplay_core.testing import sample_rules_pointwise as pointwise
from tensorplay_core.testing import sample_rules_pooling as pooling
from tensorplay_core.testing import sample_rules_random as random
from tensorplay_core.testing import sample_rules_reduction as reduction
from tensorplay_core.testing import sample_rules_sorting as sorting
from tensorplay_core.testing.sample_domains import DOMAINS, KINDS
from tensorplay_core.testing.sample_features import completed
from tensorplay_core.testing.sample_maker import Described, Maker
from tensorplay_core.testing.sample_specs import Domain, Named, Sample, TensorSpec

__all__ = ["BY_NAME", "BY_RULE", "DOMAINS", "KINDS", "Described", "Domain", "Named", "Sample", "TensorSpec", "samples"]

Table = Callable[[Maker], Iterator[Sample]]

BY_RULE: dict[str, Table] = {
    "arange": more.arange,
    "broadcast": first.broadcast,
    "cat": first.cat,
    "dimwise": first.dimwise,
    "eye": more.eye,
    "index": more.index,
    "input_sizes": more.input_sizes,
    "linear": more.linear,
    "matmul": more.matmul,
    "max_dim": first.max_dim,
    "randperm": more.randperm,
    "reduction": first.reduction,
    "same": first.same,
    "sized": more.sized,
    "write": first.write,
    **dict.fromkeys(
        ("expand", "permute", "reshape", "select", "slice", "squeeze", "transpose", "unsqueeze"), first.view
    ),
    **indexing.BY_RULE,
    **pointwise.BY_RULE,
    **reduction.BY_RULE,
    **sorting.BY_RULE,
    **linalg.BY_RULE,
    **factorization.BY_RULE,
    **convolution.BY_RULE,
    **padding.BY_RULE,
    **pooling.BY_RULE,
    **arrange.BY_RULE,
    **attention.BY_RULE,
    **loss.BY_RULE,
    **normalization.BY_RULE,
    **creation.BY_RULE,
    **random.BY_RULE,
}

# Operators whose arguments mean more than a shape rule knows.
BY_NAME: dict[str, Table] = {
    "cross_entropy": more.cross_entropy,
    **indexing.BY_NAME,
    **pointwise.BY_NAME,
    **reduction.BY_NAME,
    **sorting.BY_NAME,
    **linalg.BY_NAME,
    **factorization.BY_NAME,
    **convolution.BY_NAME,
    **padding.BY_NAME,
    **pooling.BY_NAME,
    **attention.BY_NAME,
    **loss.BY_NAME,
    **normalization.BY_NAME,
    "softmin": first.dimwise,
    **arrange.BY_NAME,
}


def samples(op: Described, *, dtype: str = "float64", seed: int = 0) -> Iterator[Sample]:
    """Yields calls of an operator that must succeed.

    Args:
        op: an operator: whatever has a ``schema`` (an OpSchema) and a ``shape`` (the name of its shape rule).
        dtype: the dtype of its tensors. Nothing is yielded where the operator does not take it.
        seed: what the values are drawn from; the same seed gives the same samples.

    Raises:
        ArgumentError: the operator has no shape rule, or one without a table, and no table of its own.

    Example:
        >>> from types import SimpleNamespace
        >>> from tensorplay_core.types.schema import parse_schema
        >>> neg = SimpleNamespace(schema=parse_schema("neg(Tensor self) -> Tensor"), shape="same", tags=())
        >>> next(samples(neg)).name
        'shape ()'
    """
    make = Maker(op, dtype, seed)
    name, plain = op.schema.base_name, make.name.removesuffix("_")  # an in-place form takes the calls of its operator
    names = (name, name.replace(make.name, plain, 1), make.name, plain)
    table = next((BY_NAME[one] for one in names if one in BY_NAME), BY_RULE.get(op.shape or ""))
    if table is None:
        raise ArgumentError(
            f"there are no samples for {op.schema}: its shape rule {op.shape!r} has no table; "
            f"add one to BY_NAME or BY_RULE in tensorplay_core.testing.samples"
        )
    if make.supported:
        yield from completed(op, table(make)) if make.inexact else table(make)
