"""Inputs for every operator, derived from its schema and its shape rule.

The conformance suite, the comparison of the fast with the slow path and the gradient checks run over these, so an
operator that a plugin defines is tested the moment it names a shape rule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tensorplay_core.errors import ArgumentError
from tensorplay_core.testing import sample_rules as first
from tensorplay_core.testing import sample_rules_indexing as indexing
from tensorplay_core.testing import sample_rules_more as more
from tensorplay_core.testing.sample_features import completed
from tensorplay_core.testing.sample_maker import DOMAINS, KINDS, Described, Maker
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
}

# Operators whose arguments mean more than a shape rule knows.
BY_NAME: dict[str, Table] = {"cross_entropy": more.cross_entropy, **indexing.BY_NAME}


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
    base, *overload = make.name.split(".")
    functional = ".".join([base.removesuffix("_"), *overload])  # an in-place form takes the calls of its operator
    table = BY_NAME.get(make.name) or BY_NAME.get(functional) or BY_RULE.get(op.shape or "")
    if table is None:
        raise ArgumentError(
            f"there are no samples for {op.schema}: its shape rule {op.shape!r} has no table; "
            f"add one to BY_NAME or BY_RULE in tensorplay_core.testing.samples"
        )
    if make.supported:
        yield from completed(op, table(make)) if make.inexact else table(make)
