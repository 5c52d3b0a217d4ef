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
from tensorplay_core.testing import sample_domains
from tensorplay_core.testing.sample_specs import (
    ANY,
    BASE,
    COUNTED,
    EVEN,
    EXPONENT,
    NEAR_ONE,
    ODD,
    POSITIVE,
    PYTHON,
    Domain,
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


# Where an operator is defined, by operator and argument; everywhere else any value but 0 is fine.
DOMAINS: dict[str, dict[str, Domain]] = {
    "log": {"self": POSITIVE},
    "log1p": {"self": POSITIVE},
    "maximum": {"self": EVEN, "other": ODD},
    "minimum": {"self": EVEN, "other": ODD},
    "sqrt": {"self": POSITIVE},
    "rsqrt": {"self": POSITIVE},
    "_binary_cross_entropy": {"self": Domain((1, 7))},
    "margin_ranking_loss": {"input1": EVEN, "input2": ODD},
    **{name: {"self": EVEN, "target": ODD} for name in ("huber_loss", "l1_loss", "mse_loss", "smooth_l1_loss")},
    "hardsigmoid": {"self": ODD},  # kinks at -3 and 3
    "hardswish": {"self": ODD},
    "_cdist_backward": {"x1": EVEN, "x2": ODD, "cdist": POSITIVE},
    "cdist": {"x1": EVEN, "x2": ODD},
    "pairwise_distance": {"x1": EVEN, "x2": ODD},
    "pow": {"self": BASE, "exponent": EXPONENT},
    **sample_domains.DOMAINS,
    "max": {"self": EVEN, "other": ODD},
    "min": {"self": EVEN, "other": ODD},
    "cumprod": {"self": NEAR_ONE},
    "prod": {"self": NEAR_ONE},
    "bincount": {"self": COUNTED},
}

# The kinds of dtype an operator takes: b bool, u unsigned, i signed, f floating, c complex; all where it is not listed.
KINDS: dict[str, str] = {
    **dict.fromkeys(("cross_entropy", "log_softmax", "rand", "randn", "softmax"), "f"),
    "mean": "fc",
    **sample_domains.KINDS,
    **dict.fromkeys(("linalg_vector_norm", "mean", "nanmean", "norm", "std", "std_mean", "var", "var_mean"), "fc"),
    "quantile": "f",
    "bincount": "ui",
    **dict.fromkeys(("linalg_matrix_norm", "linalg_norm"), "fc"),
    "normalize": "fc",
    **dict.fromkeys(("_cdist_backward", "cdist", "cosine_similarity", "pairwise_distance"), "f"),
    **{
        f"{name}avg_pool{n}d{rest}": "fc" for n in (1, 2, 3) for name in ("", "adaptive_") for rest in ("", "_backward")
    },
    "col2im": "uifc",
    **dict.fromkeys(("max_pool1d", "max_pool1d_with_indices"), "uif"),
    **{f"{name}{n}d": "uifc" for n in (1, 2, 3) for name in ("conv", "conv_transpose")},
    **dict.fromkeys(("dropout", "dropout1d", "dropout2d", "dropout3d", "embedding_dense_backward", "mean"), "fc"),
    **dict.fromkeys(("native_dropout", "native_dropout_backward"), "fc"),
    **dict.fromkeys(("_attention", "_attention_backward", "alpha_dropout", "scaled_dot_product_attention"), "f"),
    "one_hot": "ui",
    **dict.fromkeys(
        (
            *("_standardize", "_standardize_backward", "batch_norm", "group_norm", "instance_norm"),
            *(
                "_cross_entropy",
                "_cross_entropy_backward",
                "binary_cross_entropy",
                "binary_cross_entropy_with_logits",
            ),
            *("cosine_embedding_loss", "gaussian_nll_loss", "hinge_embedding_loss", "huber_loss", "kl_div"),
            *("l1_loss", "margin_ranking_loss", "mse_loss", "nll_loss", "poisson_nll_loss"),
            *("smooth_l1_loss", "soft_margin_loss", "softmin", "triplet_margin_loss"),
            *("layer_norm", "rms_norm"),
        ),
        "f",
    ),
    **dict.fromkeys(("bernoulli", "exponential_", "multinomial", "normal", "uniform_"), "f"),
    "normal_": "fc",
    **dict.fromkeys(("linspace", "logspace", "tril_indices", "triu_indices"), "uif"),
    "geometric_": "uif",
    **dict.fromkeys(("bernoulli_", "randint", "random_"), "buif"),
    "scatter_reduce": "uifc",
    "scatter_reduce_": "uifc",
}

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
