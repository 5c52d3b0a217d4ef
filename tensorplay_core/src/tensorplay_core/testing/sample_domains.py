"""Where pointwise operators are defined and have a gradient, and which dtypes they take, for the samples of them."""

from __future__ import annotations

from tensorplay_core.testing.sample_specs import EVEN, ODD, POSITIVE, Domain

_INSIDE, _PART, _ABOVE = Domain((-7, 7), (0, 1)), Domain((1, 7), (0, 1)), Domain((9, 40), (2, 10))
DOMAINS: dict[str, dict[str, Domain]] = {
    **{name: {"self": _INSIDE} for name in ("asin", "acos", "atanh")},
    **{name: {"self": POSITIVE} for name in ("log2", "log10")},
    # Odd eighths are neither whole nor half of something whole, and never equal to even ones.
    **{name: {"self": ODD} for name in ("floor", "ceil", "trunc", "round", "frac", "hardtanh", "relu6", "threshold")},
    **{name: {"self": ODD} for name in ("hardshrink", "softshrink", "round.decimals")},
    **{name: {"self": ODD, "other": EVEN} for name in ("floor_divide", "remainder", "fmod", "logaddexp")},
    "div.Tensor_mode": {"self": ODD, "other": EVEN},
    "clamp": {"self": ODD, "min": EVEN, "max": EVEN},
    "clamp_min": {"self": ODD, "min": EVEN},
    "clamp_max": {"self": ODD, "max": EVEN},
    "acosh": {"self": _ABOVE},
    "logit": {"self": _PART},
    "xlogy": {"other": POSITIVE},
}
KINDS: dict[str, str] = {
    **dict.fromkeys(("bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not"), "bui"),
    **dict.fromkeys(("bitwise_left_shift", "bitwise_right_shift"), "ui"),
    "lerp": "uifc",
    "hardtanh": "if",
    "prelu": "buif",
    "round.decimals": "f",
    "div.Tensor_mode": "uif",
}
