"""One independent definition in NumPy per operator of rounding, elementary functions, bits and further activations.

As in ``numpy_references.py``: a reference is given float64 or complex128 where the dtype is inexact.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

erf_of, erfc_of = np.vectorize(math.erf, otypes=[float]), np.vectorize(math.erfc, otypes=[float])


def kept(function: Any) -> Any:
    """Returns a function that leaves integers as they are."""
    return lambda x, *rest: x.copy() if x.dtype.kind in "iu" else function(x, *rest)


def clamp(x: Any, low: Any = None, high: Any = None) -> Any:
    x = x if low is None else np.maximum(x, low)
    return x if high is None else np.minimum(x, high)


def nan_to_num(x: Any, nan: Any = None, posinf: Any = None, neginf: Any = None) -> Any:
    """None is the largest number of the dtype, which float64 does not know here: it stays infinite."""
    x = np.where(np.isnan(x), 0 if nan is None else nan, x)
    x = np.where(x == np.inf, np.inf if posinf is None else posinf, x)
    return np.where(x == -np.inf, -np.inf if neginf is None else neginf, x)


def div_mode(a: Any, b: Any, rounding_mode: Any = None) -> Any:
    if rounding_mode is None:
        return a / b
    if rounding_mode == "floor":
        return np.floor_divide(a, b)
    if np.asarray(a).dtype.kind in "iu" and np.asarray(b).dtype.kind in "iu":
        quotient = np.floor_divide(a, b)
        return quotient + ((np.remainder(a, b) != 0) & ((a < 0) != (b < 0)))
    return np.trunc(a / b)


def round_decimals(x: Any, decimals: int = 0) -> Any:
    power = 10.0 ** abs(decimals)
    return np.rint(x * power) / power if decimals >= 0 else np.rint(x / power) * power


def logit(x: Any, eps: Any = None) -> Any:
    x = x if eps is None else np.clip(x, eps, 1 - eps)
    return np.log(x / (1 - x))


def isclose(a: Any, b: Any, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Any:
    a, b = (np.asarray(v).astype("complex128" if np.iscomplexobj(v) else "float64") for v in (a, b))
    return np.isclose(a, b, rtol=rtol, atol=atol, equal_nan=equal_nan)


def bits_of(x: Any) -> int:
    return 8 * x.dtype.itemsize


def lerp(a: Any, b: Any, w: Any) -> Any:
    return np.where(np.abs(w) < 0.5, a + w * (b - a), b - (b - a) * (1 - w))


def cumulative(x: Any) -> Any:
    return erfc_of(-x / np.sqrt(2)) / 2


def gelu(x: Any, approximate: str = "none") -> Any:
    x = np.maximum(x, -40)
    if approximate == "none":
        return x * cumulative(x)
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def gelu_backward(g: Any, x: Any, approximate: str = "none") -> Any:
    x = np.clip(x, -40, 40)
    if approximate == "none":
        return g * (cumulative(x) + x * np.exp(-x * x / 2) / np.sqrt(2 * np.pi))
    u = np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)
    slope = np.sqrt(2 / np.pi) * (1 + 3 * 0.044715 * x**2)
    return g * (0.5 * (1 + np.tanh(u)) + 0.5 * x * (1 - np.tanh(u) ** 2) * slope)


def prelu(x: Any, w: Any) -> Any:
    if x.ndim > 1 and w.ndim == 1:
        w = w.reshape(-1, *[1] * (x.ndim - 2))
    return np.where(x > 0, x, x * w).reshape(x.shape)


def glu(x: Any, dim: int = -1) -> Any:
    a, b = np.split(x, 2, dim)
    return a / (1 + np.exp(-b))


def softshrink(x: Any, lambd: float = 0.5) -> Any:
    return np.where(x > lambd, x - lambd, np.where(x < -lambd, x + lambd, 0 * x))


REFERENCES: dict[str, Any] = {
    "floor": kept(np.floor),
    "ceil": kept(np.ceil),
    "trunc": kept(np.trunc),
    "round": kept(np.rint),
    "round.decimals": round_decimals,
    "frac": lambda x: x * 0 if x.dtype.kind in "iu" else x - np.trunc(x),
    "sign": lambda x: x if x.dtype.kind == "b" else np.sign(x),
    "floor_divide": np.floor_divide,
    "remainder": np.remainder,
    "fmod": np.fmod,
    "clamp": clamp,
    "clamp_min": np.maximum,
    "clamp_max": np.minimum,
    "nan_to_num": nan_to_num,
    "copysign": np.copysign,
    "heaviside": np.heaviside,
    "div.Tensor_mode": div_mode,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "atan2": np.arctan2,
    "hypot": np.hypot,
    "deg2rad": np.deg2rad,
    "rad2deg": np.rad2deg,
    "exp2": lambda x: np.exp(x * np.log(2)) if x.dtype.kind == "c" else np.exp2(x),
    "log2": np.log2,
    "log10": np.log10,
    "logaddexp": np.logaddexp,
    "xlogy": lambda a, b: np.where(np.isnan(b), b, np.where(a == 0, 0, a * np.log(b))),
    "erf": erf_of,
    "erfc": erfc_of,
    "logit": logit,
    "sinc": lambda x: np.where(np.isinf(x), np.nan, np.sinc(np.where(np.isinf(x), 0, x))),
    "isnan": np.isnan,
    "isfinite": np.isfinite,
    "isinf": np.isinf,
    "isposinf": lambda x: x == np.inf,
    "isneginf": lambda x: x == -np.inf,
    "signbit": np.signbit,
    "isclose": isclose,
    "logical_not": np.logical_not,
    "logical_and": np.logical_and,
    "logical_or": np.logical_or,
    "logical_xor": np.logical_xor,
    "bitwise_not": np.invert,
    "bitwise_and": np.bitwise_and,
    "bitwise_or": np.bitwise_or,
    "bitwise_xor": np.bitwise_xor,
    "bitwise_left_shift": lambda a, b: np.where(
        (b >= 0) & (b < bits_of(a)), a * 2 ** (np.where((b >= 0) & (b < bits_of(a)), b, 0).astype(a.dtype)), 0
    ),
    "bitwise_right_shift": lambda a, b: np.where(
        (b >= 0) & (b < bits_of(a)),
        np.right_shift(a, np.where((b >= 0) & (b < bits_of(a)), b, 0).astype(a.dtype)),
        np.where(a < 0, -1, 0).astype(a.dtype),
    ),
    "lerp": lerp,
    "addcmul": lambda a, b, c, value=1: a + np.asarray(value, a.dtype) * b * c,
    "addcdiv": lambda a, b, c, value=1: a + value * (b / c),
    "rsub": lambda a, b, alpha=1: b - np.asarray(alpha, a.dtype) * a,
    "hardtanh": lambda x, low=-1, high=1: np.where(x < low, low, np.where(x > high, high, x)),
    "relu6": lambda x: np.clip(x, 0, 6),
    "threshold": lambda x, threshold, value: np.where(x <= threshold, value, x),
    "celu": lambda x, alpha=1.0: np.where(x > 0, x, alpha * np.expm1(x / alpha)),
    "hardshrink": lambda x, lambd=0.5: np.where((x >= -lambd) & (x <= lambd), 0, x),
    "softshrink": softshrink,
    "tanhshrink": lambda x: x - np.tanh(x),
    "log_sigmoid": lambda x: np.minimum(x, 0) - np.log1p(np.exp(-np.abs(x))),
    "gelu": gelu,
    "gelu_backward": gelu_backward,
    "prelu": prelu,
    "glu": glu,
}
