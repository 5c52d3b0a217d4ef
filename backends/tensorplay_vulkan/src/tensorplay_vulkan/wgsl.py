"""What each pointwise operator is in WGSL: an expression of its operands, for each dtype.

WGSL leaves to the driver how exact ``exp``, ``log`` and ``tanh`` are (Mesa's are off by hundreds of units in the last
place near 0), and lets a compiler assume that there are neither NaN nor infinities. So the functions are written out in
``functions.wgsl``, and NaN is told by its bits there: ``x != x`` is compiled to false.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.resources import files

Expression = Callable[..., str]

LIBRARY = files(__package__).joinpath("functions.wgsl").read_text(encoding="utf-8")
"""The functions that the expressions call; they come before the code of a shader."""


def call(name: str) -> Expression:
    """Returns the expression that calls a function.

    Example:
        >>> call("max_")("a", "b")
        'max_(a, b)'
    """
    return lambda *operands: f"{name}({', '.join(operands)})"


def infix(sign: str) -> Expression:
    """Returns the expression with an operator between two operands."""
    return lambda a, b: f"({a} {sign} {b})"


def _same(a: str) -> str:
    return a


FLOAT: Mapping[str, Expression] = {
    "add": infix("+"),
    "sub": infix("-"),
    "mul": infix("*"),
    "div": infix("/"),
    "pow": call("pow_"),
    "neg": lambda a: f"(-{a})",
    "abs": lambda a: f"bitcast<f32>(bitcast<u32>({a}) & 0x7fffffffu)",
    "sgn": call("sgn_"),
    "conj": _same,
    "real": _same,
    "clone": _same,
    "eq": call("eq_"),
    "ne": lambda a, b: f"(!eq_({a}, {b}))",
    "lt": call("lt_"),
    "le": call("le_"),
    "gt": lambda a, b: f"lt_({b}, {a})",
    "ge": lambda a, b: f"le_({b}, {a})",
    "maximum": call("max_"),
    "minimum": call("min_"),
    "where": lambda condition, a, b: f"select({b}, {a}, {condition})",
    "exp": call("exp_"),
    "expm1": call("expm1_"),
    "log": call("log_"),
    "log1p": call("log1p_"),
    "sin": call("sin_"),
    "cos": call("cos_"),
    "sqrt": call("sqrt_"),
    "tanh": call("tanh_"),
    "sigmoid": call("sigmoid_"),
    "relu": lambda a: f"select({a}, 0.0, lt_({a}, 0.0))",
    **{
        name: call(f"{name}_")
        for name in (
            *("floor", "ceil", "trunc", "round", "fmod", "remainder", "floor_divide", "tan", "sinh", "cosh", "asin"),
            *("acos", "atan", "asinh", "acosh", "atanh", "atan2", "hypot", "exp2", "log2", "log10", "logaddexp"),
        )
    },
    "clamp_min": call("max_"),
    "clamp_max": call("min_"),
    "copysign": call("signed"),
    "signbit": call("negative"),
    "isnan": call("is_nan"),
    "isinf": call("is_inf"),
    "isfinite": call("is_finite"),
}
INT: Mapping[str, Expression] = {
    "add": infix("+"),
    "sub": infix("-"),
    "mul": infix("*"),
    "pow": call("pow_int"),
    "neg": lambda a: f"(0 - {a})",
    "abs": call("abs"),
    "sgn": call("sign"),
    "conj": _same,
    "real": _same,
    "clone": _same,
    "eq": infix("=="),
    "ne": infix("!="),
    "lt": infix("<"),
    "le": infix("<="),
    "gt": infix(">"),
    "ge": infix(">="),
    "maximum": call("max"),
    "minimum": call("min"),
    "where": FLOAT["where"],
    "relu": lambda a: f"max({a}, 0)",
    **dict.fromkeys(("floor", "ceil", "trunc", "round"), _same),
    "fmod": call("fmod_int"),
    "remainder": call("remainder_int"),
    "floor_divide": call("floor_divide_int"),
    "clamp_min": call("max"),
    "clamp_max": call("min"),
    "signbit": lambda a: f"({a} < 0)",
    **dict.fromkeys(("isnan", "isinf"), lambda a: "false"),
    "isfinite": lambda a: "true",
    "bitwise_not": lambda a: f"(~{a})",
    "bitwise_and": infix("&"),
    "bitwise_or": infix("|"),
    "bitwise_xor": infix("^"),
    "bitwise_left_shift": call("shift_left"),
    "bitwise_right_shift": call("shift_right"),
}
BOOL: Mapping[str, Expression] = {
    "add": infix("||"),
    "mul": infix("&&"),
    "pow": lambda a, b: f"({a} || !{b})",
    "abs": _same,
    "sgn": _same,
    "conj": _same,
    "real": _same,
    "clone": _same,
    "eq": infix("=="),
    "ne": infix("!="),
    "lt": lambda a, b: f"(!{a} && {b})",
    "le": lambda a, b: f"(!{a} || {b})",
    "gt": lambda a, b: f"({a} && !{b})",
    "ge": lambda a, b: f"({a} || !{b})",
    "maximum": infix("||"),
    "minimum": infix("&&"),
    "where": FLOAT["where"],
    "relu": _same,
    "signbit": lambda a: "false",
    **dict.fromkeys(("isnan", "isinf"), lambda a: "false"),
    "isfinite": lambda a: "true",
    "bitwise_not": lambda a: f"(!{a})",
    "bitwise_and": infix("&&"),
    "bitwise_or": infix("||"),
    "bitwise_xor": infix("!="),
}
EXPRESSIONS: Mapping[str, Mapping[str, Expression]] = {"float32": FLOAT, "int32": INT, "bool": BOOL}
"""Dtype to operator to what it is, of operands of that dtype; a comparison's value is a WGSL ``bool``."""


def load(dtype: str, word: str) -> str:
    """Returns the value of a dtype that a word of a buffer holds.

    Example:
        >>> load("int32", "a0[i]"), load("bool", "a0[i]")
        ('bitcast<i32>(a0[i])', '(a0[i] != 0u)')
    """
    return {"float32": f"bitcast<f32>({word})", "int32": f"bitcast<i32>({word})", "bool": f"({word} != 0u)"}[dtype]


def store(dtype: str, value: str) -> str:
    """Returns the word that holds a value of a dtype."""
    return f"select(0u, 1u, {value})" if dtype == "bool" else f"bitcast<u32>({value})"


def cast(value: str, source: str, target: str) -> str:
    """Returns a value in another dtype; NaN and what int32 cannot hold become its least number, as on x86.

    Example:
        >>> cast("x", "float32", "bool"), cast("x", "bool", "int32"), cast("x", "int32", "int32")
        ('is_true(x)', 'i32(x)', 'x')
    """
    if source == target:
        return value
    if target == "bool":
        return f"is_true({value})" if source == "float32" else f"({value} != 0)"
    if (source, target) == ("float32", "int32"):
        return f"to_int({value})"
    return f"{'f32' if target == 'float32' else 'i32'}({value})"
