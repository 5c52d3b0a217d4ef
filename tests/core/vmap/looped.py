"""A call of an operator under vmap, and the same in a Python loop."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import tensorplay as tp
from tensorplay_core.dispatch.operator import Operator
from tensorplay_core.dispatch.registry import REGISTRY
from tensorplay_core.ops.arguments import bind
from tensorplay_core.ops.call import call
from tensorplay_core.tensor.pytree import tree_flatten, tree_unflatten
from tensorplay_core.testing.samples import samples
from tensorplay_core.vmap.install import SHAPE_BY_DATA

SIZE = 3
IN_DIMS = ("0", "1", "-1", "first", "last")
"""How the batch lies: in every tensor along one of these dims; or in the first, or the last tensor alone."""


def operators() -> list[Operator]:
    """Returns every operator of the contract that vmap can be asked for."""
    return [op for op in REGISTRY.operators.values() if op.namespace == "tp"]


def is_gap(op: Operator) -> bool:
    """Whether the data decides about the shape of its results, or random numbers about their values."""
    return op.display_name in SHAPE_BY_DATA or "random" in op.tags


class Case:
    """One sample of an operator, with other values for each element of the batch.

    Attributes:
        name: the sample's.
        op: the operator.
        elements: for each element of the batch the leaves of its arguments.
        spec: what the leaves are put together to.
        smooth: whether derivatives mean something at all its elements.
    """

    def __init__(self, op: Operator, name: str, elements: list[list[Any]], spec: Any, smooth: bool) -> None:
        self.op, self.name, self.elements, self.spec, self.smooth = op, name, elements, spec, smooth
        self.tensors = [i for i, leaf in enumerate(elements[0]) if isinstance(leaf, tp.Tensor)]

    def call(self, leaves: list[Any]) -> Any:
        """Calls the operator with these leaves."""
        args, kwargs = tree_unflatten(leaves, self.spec)
        args, kwargs = bind(self.op, args, kwargs)
        return call(self.op, args, kwargs)

    def batched(self, how: str) -> tuple[list[Any], list[Any], list[list[Any]]]:
        """Returns the leaves with the batch in them, their in_dims, and those of each element."""
        which = {"first": self.tensors[:1], "last": self.tensors[-1:]}.get(how, self.tensors)
        leaves, dims = list(self.elements[0]), [None] * len(self.elements[0])
        alone = [list(self.elements[0]) for _ in range(SIZE)]
        for i in which:
            stacked = tp.stack([element[i] for element in self.elements])
            wanted = int(how) if how.lstrip("-").isdigit() else 0
            dim = max(min(wanted, stacked.ndim - 1), -stacked.ndim)
            leaves[i], dims[i] = stacked.movedim(0, dim), dim
            for element, own in zip(alone, self.elements, strict=True):
                element[i] = own[i]
        return leaves, dims, alone

    def is_refused(self, dims: list[Any]) -> bool:
        """Whether vmap must refuse the call: see DECLARED."""
        batched = [self.elements[0][i] for i in self.tensors if dims[i] is not None]
        if "!)" in self.op.schema_text and dims[self.tensors[0]] is None:
            return True  # a batched value would be written to a tensor that is not batched
        if self.op.display_name == "repeat_interleave.self_Tensor":
            return dims[self.tensors[-1]] is not None
        if self.op.name == "one_hot":
            return self.elements[0][self.tensors[-1] + 1 :] in ([], [-1])
        masks = any(t.dtype is tp.bool for t in batched)
        return self.op.name in ("index", "index_put", "index_put_", "index_backward") and masks


def cases(op: Operator, dtype: str = "float64", seed: int = 1, device: str = "cpu") -> Iterator[Case]:
    """Yields the samples of an operator whose tensors have one shape for every element of the batch."""
    several = zip(*(list(samples(op.functional or op, dtype=dtype, seed=seed + i)) for i in range(SIZE)), strict=True)
    for alike in several:
        built = [tree_flatten(one.build(tp, device)) for one in alike]
        elements = [leaves for leaves, _ in built]
        case = Case(op, alike[0].name, elements, built[0][1], all(one.smooth for one in alike))
        if not case.tensors or any(spec != built[0][1] for _, spec in built):
            continue
        shapes = {tuple(tuple(leaf.shape) for leaf in leaves if isinstance(leaf, tp.Tensor)) for leaves in elements}
        others = [[leaf for leaf in leaves if not isinstance(leaf, tp.Tensor)] for leaves in elements]
        if len(shapes) == 1 and all(repr(one) == repr(others[0]) for one in others):
            yield case


def alike(found: Any, wanted: list[Any], tolerance: float = 1e-9) -> bool:
    """Whether a result under vmap is the stack of the results of a loop."""
    leaves, _ = tree_flatten(found)
    columns = list(zip(*(tree_flatten(one)[0] for one in wanted), strict=True))
    if len(leaves) != len(columns):
        return False
    return all(_same(leaf, column, tolerance) for leaf, column in zip(leaves, columns, strict=True))


def close(found: Any, wanted: Any) -> bool:
    """Whether two trees of tensors are equal but for rounding."""
    pairs = zip(tree_flatten(found)[0], tree_flatten(wanted)[0], strict=True)
    return all(a.shape == b.shape and _close(a.detach(), b.detach()) for a, b in pairs)


def _close(a: tp.Tensor, b: tp.Tensor) -> bool:
    size = float(b.abs().nan_to_num(0, 0, 0).max()) if b.numel() else 1.0
    return not b.numel() or bool(tp.isclose(a, b, rtol=1e-6, atol=1e-8 * (1 + size), equal_nan=True).all())


def _same(found: Any, wanted: tuple[Any, ...], tolerance: float) -> bool:
    if not isinstance(found, tp.Tensor):
        return all(found == one for one in wanted)
    stacked = tp.stack([one.detach() for one in wanted])
    if found.shape != stacked.shape or found.dtype is not stacked.dtype:
        return False
    if not math.prod(found.shape):
        return True
    return bool(tp.isclose(found.detach(), stacked, rtol=tolerance, atol=tolerance, equal_nan=True).all())
