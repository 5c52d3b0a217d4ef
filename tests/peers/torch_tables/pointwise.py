"""Pointwise operators and activations: where PyTorch differs, and what computes the same."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

NAN_STAYS = "the sign of NaN is NaN here, as in the array API and NumPy; PyTorch makes it 0"
LIMIT = "the value at an infinity is the limit, x or 0, and so is the slope; PyTorch's may be NaN"
POLE = "the second gradient at a pole is NaN; PyTorch's is infinite"
DIFFERENT: dict[tuple[str, str], str] = {
    ("abs", "special values"): NAN_STAYS,
    ("sgn", "special values"): NAN_STAYS,
    ("sgn_", "special values"): NAN_STAYS,
    ("sgn", "zeros"): "PyTorch's second gradient at a complex 0 is NaN; here it is 0",
    ("sgn_", "zeros"): "PyTorch's second gradient at a complex 0 is NaN; here it is 0",
    ("elu", "special values"): "the gradient at NaN is NaN; PyTorch's is a number",
    ("selu", "special values"): "the gradient at NaN is NaN; PyTorch's is a number",
    ("hardsigmoid", "special values"): "the gradient at NaN is that of the piece that NaN falls into; PyTorch's is 0",
    ("hardswish", "special values"): "hardswish(-inf) is 0, its limit; PyTorch's is NaN",
    ("softsign", "special values"): "the gradient at infinity is 0, its limit; PyTorch's is NaN",
    **dict.fromkeys(
        [(name, "zeros") for name in ("reciprocal", "reciprocal_", "rsqrt", "rsqrt_")],
        "the gradient at a complex 0 is infinite; PyTorch's is NaN",
    ),
    ("sign", "special values"): NAN_STAYS,
    ("celu", "special values"): "the gradient at NaN is NaN; PyTorch's is a number",
    ("copysign", "special values"): "the slope at an infinity is 1 or -1; PyTorch's is NaN",
    ("acosh", "special values"): "the gradient below 1 is NaN as the value is; PyTorch's is a number",
    ("prelu", "zeros"): "the second gradient at the kink is that of the branch taken; PyTorch's is 0",
    **{(name, "zeros"): POLE for name in ("asin", "acos", "acosh", "atanh")},
    ("celu", "zeros"): "the second gradient at the kink is that of the branch taken; PyTorch's is 0",
    ("logit", "special values"): "the slope is NaN outside 0 to 1, infinities too, and does not change; PyTorch's does",
    ("logit", "beyond eps"): "the slope beyond eps is 0 and stays so; PyTorch's second gradient is NaN",
    ("sinc", "special values"): "the second gradient at 0 is that of the series; PyTorch's is NaN",
    ("gelu_backward", "tails, tanh"): "the second slope of the tail keeps its digits; PyTorch's cancels",
    ("sinc", "zeros"): "the second gradient at 0 is that of the series; PyTorch's is NaN",
    ("addcdiv", "mixed dtypes"): "PyTorch's backward fails for an integer divisor",
    ("clamp", "grows"): "PyTorch's backward fails where the bounds give the tensor a larger shape",
    ("heaviside", "special values"): "a step of NaN is NaN, as in NumPy; PyTorch makes it 0",
    **{(name, f"special values, {word}"): LIMIT for name in ("gelu", "gelu_backward") for word in ("none", "tanh")},
}
DIFFERENT |= dict.fromkeys(
    [("elu", "zeros"), ("selu", "zeros")], "the second gradient at the kink is that of the branch taken; PyTorch's is 0"
)
WITHOUT_GRADIENT: dict[str, str] = {
    **dict.fromkeys(
        ("floor_divide", "floor_divide_", "heaviside", "heaviside_"),
        "declared to have no gradient; PyTorch's result claims one, and its backward raises",
    ),
    **dict.fromkeys(
        ("logical_and_", "logical_or_", "logical_xor_", "logical_not_"),
        "a gradient through the write is refused; PyTorch passes it on as if nothing had been written",
    ),
    **dict.fromkeys(("asinh_", "acosh_", "atanh_"), "PyTorch has no derivative of the in-place form"),
}
DIFFERENT_DTYPES: dict[tuple[str, str], str] = {
    ("sinc", "float16"): "the slope is computed in float32 and rounded once; PyTorch rounds every step",
    ("sinc_", "float16"): "the slope is computed in float32 and rounded once; PyTorch rounds every step",
    ("gelu_backward", "float16"): "the second slope is computed in float32; PyTorch rounds every step",
    ("gelu_backward", "bfloat16"): "the second slope is computed in float32; PyTorch rounds every step",
    ("square", "bool"): "the product of bools is bool; PyTorch computes a power, which is an int64",
    ("hardsigmoid", "float64"): "PyTorch multiplies its gradient by 1 / 6 in single precision",
    ("hardsigmoid_", "float64"): "PyTorch multiplies its gradient by 1 / 6 in single precision",
}

REFERENCES: dict[str, Any] = {
    "div.Tensor_mode": lambda x, y, rounding_mode=None: torch.div(x, y, rounding_mode=rounding_mode),
    "round.decimals": lambda x, decimals: torch.round(x, decimals=decimals),
    "gelu_backward": lambda g, x, approximate="none": torch.ops.aten.gelu_backward(g, x, approximate=approximate),
    "log_sigmoid": torch.nn.functional.logsigmoid,
    "softmax": lambda x, dim, dtype=None: torch.softmax(x, dim, dtype=dtype),
    "log_softmax": lambda x, dim, dtype=None: torch.log_softmax(x, dim, dtype=dtype),
    "linear": torch.nn.functional.linear,
}
