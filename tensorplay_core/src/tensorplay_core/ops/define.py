"""How generated schema modules define operators: every one gets its slot in the tensor types."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tensorplay_core.dispatch.operator import Operator
from tensorplay_core.dispatch.registry import REGISTRY
from tensorplay_core.dispatch.tensor_type import add_slot

if TYPE_CHECKING:
    from tensorplay_core.types.program import Program


def operator(
    schema: str,
    *,
    shape: str | None = None,
    promote: str = "none",
    composite: str = "none",
    autocast: str = "none",
    tags: tuple[str, ...] = (),
    promises: Mapping[str, str] | None = None,
    fast: bool = False,
    differentiable: bool = True,
    math: Program | None = None,
) -> Operator:
    """Defines an operator of the contract."""
    op = Operator(
        schema,
        shape=shape,
        promote=promote,
        composite=composite,
        autocast=autocast,
        tags=tags,
        promises={key: (kernel,) for key, kernel in (promises or {}).items()},
        math=math,
    )
    op.fast = fast
    if not differentiable:
        op.differentiable = (False,)
    if fast:
        add_slot(op.slot)
    return REGISTRY.define(op)


def inplace(functional: Operator) -> Operator:
    """Defines the in-place variant of an operator."""
    head, _, rest = functional.schema_text.partition("(")
    name, dot, overload = head.partition(".")
    arguments, _, _ = rest.rpartition(") -> ")
    arguments = arguments.replace("Tensor ", "Tensor(a!) ", 1)
    op = Operator(
        f"{name}_{dot}{overload}({arguments}) -> Tensor(a!)",
        shape=functional.shape,
        promote=functional.promote,
        composite="explicit",
        tags=functional.tags,
        functional=functional,
    )
    op.fast = functional.fast
    op.differentiable = functional.differentiable
    if op.fast:
        add_slot(op.slot)
    return REGISTRY.define(op)
