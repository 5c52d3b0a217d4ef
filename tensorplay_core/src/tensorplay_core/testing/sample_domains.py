"""Where operators are defined and have a gradient, and which dtypes they take, for the samples of them.

Most need no entry: an operator takes every dtype that its tags allow, and any value but 0.
"""

from __future__ import annotations

from tensorplay_core.testing.sample_specs import (
    BASE,
    COUNTED,
    EVEN,
    EXPONENT,
    NEAR_ONE,
    ODD,
    POSITIVE,
    Domain,
)

_INSIDE, _PART, _ABOVE = Domain((-7, 7), (0, 1)), Domain((1, 7), (0, 1)), Domain((9, 40), (2, 10))

DOMAINS: dict[str, dict[str, Domain]] = {
    # Functions that are real on a part of the line.
    **{name: {"self": POSITIVE} for name in ("log", "log1p", "log2", "log10", "sqrt", "rsqrt")},
    **{name: {"self": _INSIDE} for name in ("asin", "acos", "atanh")},
    "acosh": {"self": _ABOVE},
    "logit": {"self": _PART},
    "pow": {"self": BASE, "exponent": EXPONENT},
    "xlogy": {"other": POSITIVE},
    "_binary_cross_entropy": {"self": Domain((1, 7))},
    "bincount": {"self": COUNTED},
    # A product of many factors stays in range.
    **{name: {"self": NEAR_ONE} for name in ("prod", "cumprod")},
    # Jumps and kinks: odd eighths are neither whole nor half of something whole, and never equal to even ones.
    **{name: {"self": ODD} for name in ("floor", "ceil", "trunc", "round", "round.decimals", "frac")},
    **{name: {"self": ODD} for name in ("hardtanh", "relu6", "hardsigmoid", "hardswish")},
    **{name: {"self": ODD} for name in ("hardshrink", "softshrink", "threshold")},
    **{name: {"self": ODD, "other": EVEN} for name in ("floor_divide", "remainder", "fmod", "logaddexp")},
    "div.Tensor_mode": {"self": ODD, "other": EVEN},
    **{name: {"self": EVEN, "other": ODD} for name in ("maximum", "minimum", "max", "min")},
    "clamp": {"self": ODD, "min": EVEN, "max": EVEN},
    "clamp_min": {"self": ODD, "min": EVEN},
    "clamp_max": {"self": ODD, "max": EVEN},
    **{name: {"self": EVEN, "target": ODD} for name in ("huber_loss", "l1_loss", "mse_loss", "smooth_l1_loss")},
    "margin_ranking_loss": {"input1": EVEN, "input2": ODD},
    **{name: {"x1": EVEN, "x2": ODD} for name in ("cdist", "pairwise_distance")},
    "_cdist_backward": {"x1": EVEN, "x2": ODD, "cdist": POSITIVE},
}  # fmt: skip
"""By operator or overload, and argument; everywhere else any value but 0 is fine."""

_TAKEN: dict[str, tuple[str, ...]] = {
    "f": (
        *("rand", "randn", "bernoulli", "exponential_", "multinomial", "normal", "uniform_", "alpha_dropout"),
        *("softmax", "softmin", "log_softmax", "quantile", "round.decimals"),
        *("cdist", "_cdist_backward", "cosine_similarity", "pairwise_distance"),
        *("scaled_dot_product_attention", "_attention", "_attention_backward"),
        *("batch_norm", "group_norm", "instance_norm", "layer_norm", "rms_norm"),
        *("_standardize", "_standardize_backward"),
        *("cross_entropy", "_cross_entropy", "_cross_entropy_backward", "nll_loss", "gaussian_nll_loss"),
        *("poisson_nll_loss", "binary_cross_entropy", "binary_cross_entropy_with_logits", "kl_div"),
        *("l1_loss", "mse_loss", "huber_loss", "smooth_l1_loss", "soft_margin_loss", "margin_ranking_loss"),
        *("hinge_embedding_loss", "cosine_embedding_loss", "triplet_margin_loss"),
    ),
    "fc": (
        *("mean", "nanmean", "std", "std_mean", "var", "var_mean", "normalize", "normal_", "embedding_dense_backward"),
        *("norm", "linalg_norm", "linalg_matrix_norm", "linalg_vector_norm"),
        *("dropout", "dropout1d", "dropout2d", "dropout3d", "native_dropout", "native_dropout_backward"),
        *(f"{name}_pool{n}d" for n in (1, 2, 3) for name in ("avg", "adaptive_avg")),
        *(f"{name}_pool{n}d_backward" for n in (1, 2, 3) for name in ("avg", "adaptive_avg")),
    ),
    "if": ("hardtanh",),
    "ui": ("bincount", "bitwise_left_shift", "bitwise_right_shift", "one_hot"),
    "bui": ("bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not"),
    "uif": (
        *("linspace", "logspace", "tril_indices", "triu_indices", "geometric_", "div.Tensor_mode"),
        *("max_pool1d", "max_pool1d_with_indices"),
    ),
    "buif": ("bernoulli_", "randint", "random_", "prelu"),
    "uifc": (
        *("lerp", "scatter_reduce", "scatter_reduce_", "col2im"),
        *(f"{name}{n}d" for n in (1, 2, 3) for name in ("conv", "conv_transpose")),
    ),
}  # fmt: skip

KINDS: dict[str, str] = {name: kinds for kinds, names in _TAKEN.items() for name in names}
"""The kinds of dtype that an operator takes: b bool, u unsigned, i signed, f floating, c complex; else all."""
