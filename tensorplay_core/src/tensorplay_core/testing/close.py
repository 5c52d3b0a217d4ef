"""``assert_close``: whether two results agree within what their dtype can promise.

The tolerances and the wording are PyTorch's (torch.testing.assert_close), so that a test can be carried over. It works
through ``.shape``, ``.dtype``, ``.device`` and ``.tolist()`` alone, so it compares results of any two devices, and a
tensor with a NumPy array, without an array library.
"""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from tensorplay_core.errors import ArgumentError

# (rtol, atol), from https://pytorch.org/docs/stable/testing.html; every other dtype is compared exactly.
TOLERANCES: dict[str, tuple[float, float]] = {
    "float16": (1e-3, 1e-5),
    "bfloat16": (1.6e-2, 1e-5),
    "float32": (1.3e-6, 1e-5),
    "float64": (1e-7, 1e-7),
    "complex64": (1.3e-6, 1e-5),
    "complex128": (1e-7, 1e-7),
}
_PYTHON = {float: "float64", complex: "complex128"}

Message = str | Callable[[str], str] | None


class _Rules(NamedTuple):
    rtol: float | None
    atol: float | None
    equal_nan: bool
    check_dtype: bool
    check_device: bool


class _Worst:
    """The mismatches of one comparison: how many, and where the greatest are."""

    def __init__(self) -> None:
        self.mismatches = self.total = 0
        self.absolute: tuple[float, tuple[int, ...]] = (-1.0, ())
        self.relative: tuple[float, tuple[int, ...]] = (-1.0, ())

    def add(self, actual: Any, expected: Any, where: tuple[int, ...]) -> None:
        """Counts one mismatch."""
        self.mismatches += 1
        absolute = _difference(actual, expected)
        size = abs(expected)
        relative = absolute / size if size else math.inf
        # A difference with NaN or infinity is greater than any other; the first of equals is kept.
        if _rank(absolute) > _rank(self.absolute[0]):
            self.absolute = (absolute, where)
        if _rank(relative) > _rank(self.relative[0]):
            self.relative = (relative, where)


def assert_close(
    actual: Any,
    expected: Any,
    *,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = True,
    check_dtype: bool = True,
    check_device: bool = True,
    msg: Message = None,
) -> None:
    """Raises unless ``abs(actual - expected) <= atol + rtol * abs(expected)`` for every element.

    Args:
        actual: a tensor, a number, or a sequence or mapping of these.
        expected: the same structure. A tensor may also be compared with nested lists of numbers, which have no dtype.
        rtol: relative tolerance; by dtype when None. Where dtypes differ, the greater tolerances of both count.
        atol: absolute tolerance; give both or neither.
        equal_nan: whether NaN equals NaN.
        check_dtype: whether dtypes must be the same.
        check_device: whether devices must be the same.
        msg: a message instead of the usual one, or a function from that to another.

    Raises:
        AssertionError: with the number of mismatches and the greatest differences and their indices.
        ArgumentError: only one tolerance was given, or one is negative.

    Example:
        >>> assert_close([1.0, 2.0], [1.0, 2.0 + 1e-9])
        >>> assert_close(1, 2)
        Traceback (most recent call last):
        AssertionError: Scalars are not equal!
        <BLANKLINE>
        Expected 2 but got 1.
        Absolute difference: 1
        Relative difference: 0.5
    """
    if (rtol is None) != (atol is None):
        raise ArgumentError("assert_close: give both rtol and atol, or neither")
    if rtol is not None and atol is not None and not (rtol >= 0 and atol >= 0):
        raise ArgumentError(f"assert_close: tolerances must not be negative, but are rtol={rtol}, atol={atol}")
    text = _compare(actual, expected, _Rules(rtol, atol, equal_nan, check_dtype, check_device), "")
    if text is not None:
        raise AssertionError(text if msg is None else msg if isinstance(msg, str) else msg(text))


def _is_tensor(value: Any) -> bool:
    return hasattr(value, "tolist") and hasattr(value, "shape") and hasattr(value, "dtype")


def _is_number(value: Any) -> bool:
    return isinstance(value, (bool, int, float, complex))


def _dtype_name(value: Any) -> str:
    """The name of the dtype, also of an array library's."""
    return str(getattr(value.dtype, "name", None) or str(value.dtype).rpartition(".")[2])


def _compare(actual: Any, expected: Any, rules: _Rules, path: str) -> str | None:
    """Returns what is wrong, or None."""
    where = f"\n\nThe failure occurred for item {path}" if path else ""
    if _is_tensor(actual) or _is_tensor(expected):
        text = _compare_tensors(actual, expected, rules)
        return None if text is None else text + where
    if _is_number(actual) and _is_number(expected):
        text = _compare_numbers(actual, expected, rules)
        return None if text is None else text + where
    if isinstance(actual, Mapping) and isinstance(expected, Mapping):
        if set(actual) != set(expected):
            only = sorted(map(repr, set(actual) ^ set(expected)))
            return f"The keys of the mappings do not match: {', '.join(only)} in one of them only{where}"
        return _first(_compare(actual[key], expected[key], rules, f"{path}[{key!r}]") for key in expected)
    if _is_sequence(actual) and _is_sequence(expected):
        if len(actual) != len(expected):
            return f"The length of the sequences do not match: {len(actual)} != {len(expected)}{where}"
        pairs = enumerate(zip(actual, expected, strict=True))
        return _first(_compare(a, e, rules, f"{path}[{i}]") for i, (a, e) in pairs)
    if actual is None and expected is None:
        return None
    kinds = f"{type(actual).__name__} and {type(expected).__name__}"
    return f"{kinds} cannot be compared: give tensors, numbers, or sequences of these{where}"


def _is_sequence(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes))


def _first(texts: Iterator[str | None]) -> str | None:
    return next((text for text in texts if text is not None), None)


def _tolerances(rules: _Rules, names: Sequence[str]) -> tuple[float, float]:
    if rules.rtol is not None and rules.atol is not None:
        return rules.rtol, rules.atol
    known = [TOLERANCES.get(name, (0.0, 0.0)) for name in names]
    return max(rtol for rtol, _ in known), max(atol for _, atol in known)


def _same(actual: Any, expected: Any, rtol: float, atol: float, equal_nan: bool) -> bool:
    if actual == expected:
        return True
    if cmath.isnan(actual) or cmath.isnan(expected):
        return equal_nan and cmath.isnan(actual) and cmath.isnan(expected)
    if cmath.isinf(actual) or cmath.isinf(expected):
        return False
    return bool(_difference(actual, expected) <= atol + rtol * abs(expected))


def _difference(actual: Any, expected: Any) -> Any:
    return abs(actual - expected)  # ints of 64 bits exactly: nothing is rounded to a float before it is subtracted


def _rank(difference: float) -> float:
    return math.inf if math.isnan(difference) else difference


def _compare_numbers(actual: Any, expected: Any, rules: _Rules) -> str | None:
    if rules.check_dtype and type(actual) is not type(expected):
        return f"The types of the numbers do not match: {type(actual).__name__} != {type(expected).__name__}"
    rtol, atol = _tolerances(rules, [_PYTHON.get(type(value), "int64") for value in (actual, expected)])
    if _same(actual, expected, rtol, atol, rules.equal_nan):
        return None
    worst = _Worst()
    worst.add(actual, expected, ())
    exact = not (rtol or atol)
    return (
        f"Scalars are not {'equal' if exact else 'close'}!\n\nExpected {expected} but got {actual}.\n"
        f"Absolute difference: {worst.absolute[0]}{'' if exact else f' (up to {atol} allowed)'}\n"
        f"Relative difference: {worst.relative[0]}{'' if exact else f' (up to {rtol} allowed)'}"
    )


def _shape(value: Any) -> tuple[int, ...] | None:
    """The shape of a tensor or of nested lists; None where lists are ragged or hold something else."""
    if _is_tensor(value):
        return tuple(value.shape)
    if _is_number(value):
        return ()
    if not _is_sequence(value):
        return None
    shapes = [_shape(item) for item in value]
    if any(shape is None or shape != shapes[0] for shape in shapes):
        return None
    return (len(value), *((shapes[0] or ()) if shapes else ()))


def _compare_tensors(actual: Any, expected: Any, rules: _Rules) -> str | None:
    both = _is_tensor(actual) and _is_tensor(expected)
    a, e = _shape(actual), _shape(expected)
    if a is None or e is None:
        return f"{type(actual).__name__} and {type(expected).__name__} cannot be compared element by element"
    if a != e:
        return f"The values for attribute 'shape' do not match: {a} != {e}."
    names = [_dtype_name(value) for value in (actual, expected) if _is_tensor(value)]
    if both:
        if rules.check_device and str(actual.device) != str(expected.device):
            return f"The values for attribute 'device' do not match: {actual.device} != {expected.device}."
        if rules.check_dtype and names[0] != names[1]:
            return f"The values for attribute 'dtype' do not match: {names[0]} != {names[1]}."
    rtol, atol = _tolerances(rules, names)
    worst = _Worst()
    _walk(_list(actual), _list(expected), (), worst, lambda x, y: _same(x, y, rtol, atol, rules.equal_nan))
    return _report(worst, rtol, atol, bool(a)) if worst.mismatches else None


def _list(value: Any) -> Any:
    return value.tolist() if _is_tensor(value) else value


def _walk(actual: Any, expected: Any, where: tuple[int, ...], worst: _Worst, same: Callable[[Any, Any], bool]) -> None:
    if _is_sequence(expected):
        for i, (a, e) in enumerate(zip(actual, expected, strict=True)):
            _walk(a, e, (*where, i), worst, same)
        return
    worst.total += 1
    if not same(actual, expected):
        worst.add(actual, expected, where)


def _report(worst: _Worst, rtol: float, atol: float, indexed: bool) -> str:
    exact = not (rtol or atol)
    percent = 100 * worst.mismatches / worst.total
    lines = [
        f"Tensor-likes are not {'equal' if exact else 'close'}!",
        "",
        f"Mismatched elements: {worst.mismatches} / {worst.total} ({percent:.1f}%)",
    ]
    for name, (value, where), allowed in (
        ("absolute", worst.absolute, atol),
        ("relative", worst.relative, rtol),
    ):
        at = f" at index {where}" if indexed else ""
        lines.append(f"Greatest {name} difference: {value}{at}{'' if exact else f' (up to {allowed} allowed)'}")
    return "\n".join(lines)
