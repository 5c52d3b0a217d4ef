"""The pen that the tables of samples are written with: it knows one operator, one dtype and one seed.

A table says which shapes and dims are worth trying. What the operator's signature asks for beyond that, which values it
is defined on and which dtypes it takes are answered here, from the schema and three small tables by operator name.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Any, Protocol

from tensorplay_core.errors import ArgumentError
from tensorplay_core.testing.sample_domains import DOMAINS, KINDS
from tensorplay_core.testing.sample_specs import (
    ANY,
    PYTHON,
    Named,
    Sample,
    TensorSpec,
    nest,
    values,
)
from tensorplay_core.types.dtype import DType, by_name
from tensorplay_core.types.schema import Argument, BaseType, OpSchema


class Described(Protocol):
    """What samples are derived from: an operator of the registry, or a record of the contract."""

    @property
    def schema(self) -> OpSchema:
        """Its signature."""

    @property
    def shape(self) -> str | None:
        """The name of its shape rule."""

    @property
    def tags(self) -> tuple[str, ...]:
        """Its labels."""


# The tags of operators that refuse complex numbers.
REAL = frozenset({"ordered", "real"})

# Arguments that are not of the sample's dtype.
_DTYPES = {("where", "condition"): "bool"}


class Maker:
    """Makes the samples of one operator.

    Args:
        op: the operator.
        dtype: the dtype of its tensors.
        seed: what the values are drawn from.
    """

    def __init__(self, op: Described, dtype: str, seed: int) -> None:
        self.schema = op.schema
        self.name = self.schema.name
        self.rule = op.shape
        self.real, self.numeric = REAL & {*op.tags} != set(), "numeric" in op.tags
        self.factorization = "factorization" in op.tags
        self.dtype: DType = by_name(dtype)
        self.random = random.Random(f"{seed} {self.schema.base_name} {dtype}")
        self.domains = DOMAINS.get(self.schema.base_name) or DOMAINS.get(self.name, {})
        self.tensors = [a for a in self.schema.positional if a.type.is_tensor]

    @property
    def supported(self) -> bool:
        """Whether the operator takes this dtype."""
        if (self.real and self.dtype.is_complex) or (self.numeric and self.dtype.is_bool):
            return False
        if self.factorization and (not self.dtype.is_inexact or self.dtype.name in ("float16", "bfloat16")):
            return False
        return self.dtype.kind in KINDS.get(self.schema.base_name, KINDS.get(self.name, "buifc"))

    @property
    def inexact(self) -> bool:
        """Whether the dtype has fractions."""
        return self.dtype.is_inexact

    def tensor(
        self,
        shape: Sequence[int],
        layout: str = "c",
        *,
        argument: str = "self",
        dtype: str | None = None,
        fill: Sequence[Any] | None = None,
    ) -> TensorSpec:
        """Describes a tensor.

        Args:
            shape: its shape.
            layout: as in :class:`TensorSpec`.
            argument: whose value it is; decides dtype and domain.
            dtype: another dtype.
            fill: values that are drawn from, repeats allowed, instead of the domain.
        """
        name = dtype or _DTYPES.get((self.name, argument)) or self.dtype.name
        count = math.prod(shape)
        if fill is not None:
            drawn = [*fill, *self.random.choices(fill, k=max(0, count - len(fill)))][:count]
        else:
            drawn = values(self.random, count, by_name(name), self.domains.get(argument, ANY))
        kind = by_name(name).kind
        python = PYTHON.get(kind, int)
        drawn = [python(value) for value in drawn]
        data = nest(drawn, shape) if count or not shape else []
        if layout == "expanded" and isinstance(data, list) and data:
            data = [data[0]] * shape[0]
        return TensorSpec(tuple(shape), data, name, layout if shape else "c")

    def integers(self, data: Any, dtype: str = "int64") -> TensorSpec:
        """Describes a tensor of given nested values."""
        return TensorSpec(_shape(data), data, dtype)

    def number(self, value: float) -> Any:
        """A Python number of the dtype's kind."""
        if self.dtype.is_bool:
            return bool(value)
        return float(value) if self.inexact else max(1, int(value))

    def sample(self, name: str, *args: Any, smooth: bool = True, **kwargs: Any) -> Sample:
        """Makes a sample; positional arguments that the schema demands beyond ``args`` get plain values."""
        missing = [a for a in self.schema.positional[len(args) :] if a.default is None and a.name not in kwargs]
        return Sample((*args, *(self._plain(argument) for argument in missing)), kwargs, name, smooth)

    def _plain(self, argument: Argument) -> Any:
        """A value for an argument that no table speaks of."""
        if argument.type.is_optional:
            return None
        item: Any = {
            BaseType.BOOL: False,
            BaseType.DEVICE: Named("device", ""),
            BaseType.FLOAT: 0.5,
            BaseType.INT: 1,
            BaseType.SCALAR: 2,
            BaseType.SCALAR_TYPE: Named("dtype", self.dtype.name),
            BaseType.SYMINT: 1,
        }.get(argument.type.base)
        if argument.type.base is BaseType.TENSOR:
            item = self.tensor((2, 3), argument=argument.name)
        if item is None:
            raise ArgumentError(
                f"there is no sample value for {argument} of {self.schema}; "
                f"add the operator to BY_NAME in tensorplay_core.testing.samples"
            )
        return [item] * (argument.type.list_size or 1) if argument.type.is_list else item

    def has(self, name: str) -> bool:
        """Whether the operator has an argument of that name."""
        return self.schema.argument(name) is not None


def _shape(data: Any) -> tuple[int, ...]:
    return (len(data), *(_shape(data[0]) if data else ())) if isinstance(data, list) else ()
