"""Whether two devices' results of one call differ by more than rounding explains.

Three questions, from the cheapest: is every element within its operator's budget of the other device's; else, is what
stands out right by the operator's reference in Python's own arithmetic; else, for calls too large for that, is it as
near to the result in double precision as rounded inputs let any kernel be. Arrays here are the host's, NumPy's, and
reached through their own methods, for core imports no array library.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from tensorplay_core.dispatch.operator import Operator
from tensorplay_core.errors import TensorPlayError
from tensorplay_core.ops.packets import overload_of
from tensorplay_core.tensor.tensor import TensorBase
from tensorplay_core.testing.bisect.moving import host_of, mapped
from tensorplay_core.testing.references import reference
from tensorplay_core.testing.references.array import Array
from tensorplay_core.testing.references.rounding import Format, format_of
from tensorplay_core.types.dtype import DType, by_name

DEFAULT_ULPS = 16.0
"""The budget of an operator that has no reference: one of a program's own."""
EXACT = 32
"""How many elements of an elementwise result are judged by the reference, each for itself."""
SMALL = 20_000
"""The elements of a call, inputs and results, up to which the reference computes the whole of it."""
SPREAD = 16.0
"""How many times what rounded inputs change a result may differ, where nothing better is known."""
WIDE = {"float16": "float64", "bfloat16": "float64", "float32": "float64", "complex64": "complex128"}


class Difference(NamedTuple):
    """How a result is wrong.

    Attributes:
        what: in words.
        place: the index of the worst element, None where it is not a matter of elements.
        got, expected: its values.
        error, allowed: how far it is off, and how far it may be.
        item: which of several results it is.
        kind: what is wrong: ``"values"``, ``"form"`` (number of results, shape, dtype), ``"raised"``, ``"view"`` or
            ``"input"``.
    """

    what: str
    place: tuple[int, ...] | None = None
    got: Any = None
    expected: Any = None
    error: float = math.inf
    allowed: float = 0.0
    item: int = 0
    kind: str = "values"


class Compared(NamedTuple):
    """One call on the device that is trusted, to which another device's result is compared.

    Attributes:
        op: the operator.
        args, kwargs: its arguments there.
        factor: what budgets are multiplied by.
    """

    op: Operator
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    factor: float = 1.0


def difference(call: Compared, got: Any, expected: Any) -> Difference | None:
    """Returns how a result is wrong; None where it is right, as far as rounding goes."""
    several = isinstance(expected, (tuple, list))
    if several and (not isinstance(got, (tuple, list)) or len(got) != len(expected)):
        return Difference(f"it gives {type(got).__name__}, and {len(expected)} results are right", kind="form")
    pairs = zip(got, expected, strict=True) if several else ((got, expected),)
    for item, (one, right) in enumerate(pairs):
        found = _of_tensors(call, one, right, item) if isinstance(right, TensorBase) else _of_numbers(one, right)
        if found is not None:
            return found._replace(item=item)
    return None


def _of_numbers(got: Any, expected: Any) -> Difference | None:
    if got == expected or (got != got and expected != expected):
        return None
    return Difference(f"it gives {got!r}, and {expected!r} is right", (), got, expected)


def _of_tensors(call: Compared, got: Any, expected: Any, item: int) -> Difference | None:
    for name in ("shape", "dtype"):
        one, right = getattr(got, name), getattr(expected, name)
        if one != right and not (name == "dtype" and one.is_integral and right.is_integral):  # its widest integer
            return Difference(f"its result has {name} {_said(one)}, and {_said(right)} is right", kind="form")
    g, r = host_of(got), host_of(expected)
    xp = g.__array_namespace__()
    same = (g == r) | ((g != g) & (r != r))
    if same.all():
        return None
    form = format_of(expected.dtype.name)
    if form is None:
        return _worst(xp, g, r, ~same, xp.ones(g.shape), xp.zeros(g.shape))
    g, r = _wide(g, expected.dtype), _wide(r, expected.dtype)
    with xp.errstate(all="ignore"):
        allowed = 2 * call.factor * _ulps(call.op, expected.dtype) * _ulp(xp, form, r) + form.tiny
        error = abs(g - r)
        bad = ~same & ~(error <= allowed)
    if not bad.any():
        return None
    bad = _judged(call, got, g, r, bad, item, xp)
    return None if bad is None else bad


def _said(value: Any) -> str:
    return value.name if isinstance(value, DType) else str(value)


def _wide(host: Any, dtype: DType) -> Any:
    return host.astype("complex128" if dtype.is_complex else "float64")


def _ulps(op: Operator, dtype: DType) -> float:
    known = reference(op.display_name)
    return DEFAULT_ULPS if known is None else max(known.ulps.get(dtype.name, 0.0), 0.5)


def _ulp(xp: Any, form: Format, values: Any) -> Any:
    """Returns the unit in the last place at each of some numbers; 0 where it is not finite."""
    size = abs(values)
    _, exponents = xp.frexp(size)
    steps = xp.ldexp(1.0, xp.maximum(exponents - 1, form.least) + 1 - form.digits)
    return xp.where(xp.isfinite(size), steps, 0.0)


def _worst(xp: Any, g: Any, r: Any, bad: Any, error: Any, allowed: Any) -> Difference:
    """Returns the difference at the element that is off by most, a NaN before any number."""
    rank = xp.where(bad, xp.where(error == error, error, math.inf), -1.0)
    place = tuple(int(i) for i in xp.unravel_index(int(rank.argmax()), rank.shape)) if rank.shape else ()
    off, may = float(rank[place]), float(allowed[place])
    got, expected = g[place].item(), r[place].item()
    count = int(bad.sum())
    many = f"; {count} of {bad.size} elements are wrong" if bad.size > 1 else ""
    what = f"it gives {got!r} where {expected!r} is right: off by {off:.3g}, allowed {may:.3g}{many}"
    return Difference(what, place, got, expected, off, may)


def _judged(call: Compared, got: Any, g: Any, r: Any, bad: Any, item: int, xp: Any) -> Difference | None:
    """Returns the difference after a second look at the elements that stand out."""
    known = reference(call.op.display_name)
    if known is not None:
        try:
            if _is_elementwise(call, bad.shape):
                return _each_by_reference(call, g, r, bad, xp)
            if _size(call) + bad.size <= SMALL:
                found = _whole_by_reference(call, got, g, r, item, xp)
                # What sums may lose is estimated in two ways, and neither is certain: a finding is one by both.
                sure = found is None or known.bits or _by_precision(call, g, r, bad, item, xp) is not None
                return found if sure else None
        except (TypeError, ValueError, ArithmeticError, LookupError, TensorPlayError):
            pass  # what the reference does not take
    return _by_precision(call, g, r, bad, item, xp)


def _tensors(call: Compared) -> list[Any]:
    found: list[Any] = []
    mapped((call.args, tuple(call.kwargs.values())), found.append)
    return found


def _size(call: Compared) -> int:
    return sum(t.numel() for t in _tensors(call))


def _is_elementwise(call: Compared, shape: tuple[int, ...]) -> bool:
    lists = any(isinstance(value, (tuple, list)) for value in call.args)
    fits = all(_broadcasts(t.shape, shape) for t in _tensors(call))
    return "pointwise" in call.op.tags and not lists and fits


def _broadcasts(small: tuple[int, ...], large: tuple[int, ...]) -> bool:
    return len(small) <= len(large) and all(a in (1, b) for a, b in zip(reversed(small), reversed(large), strict=False))


def for_reference(value: Any) -> Any:
    """Returns an argument as a reference takes it."""
    if isinstance(value, TensorBase):
        return Array.read(value)
    if isinstance(value, (tuple, list)):
        return [for_reference(one) for one in value]
    return value.name if isinstance(value, DType) else value


def _each_by_reference(call: Compared, g: Any, r: Any, bad: Any, xp: Any) -> Difference | None:
    """Judges an elementwise result at the places that stand out, of which the worst come first."""
    known = reference(call.op.display_name)
    assert known is not None
    with xp.errstate(all="ignore"):
        off = xp.where(bad, abs(g - r), -1.0).ravel()
    off = xp.where(off == off, off, math.inf)
    places = off.argsort()[::-1][: min(EXACT, int(bad.sum()))]

    def gathered(value: Any) -> Any:
        if not isinstance(value, TensorBase):
            return for_reference(value)
        host = xp.broadcast_to(host_of(value), bad.shape).ravel()[places]
        return Array((len(places),), host.tolist(), value.dtype.name)

    kwargs = {name: gathered(value) for name, value in call.kwargs.items() if name != "device"}
    (right,) = known(*map(gathered, call.args), **kwargs)
    actual = Array(right.shape, g.ravel()[places].tolist(), right.dtype)
    found = list(known.mismatches(actual, right, factor=call.factor, flush=True))
    if not found:
        return None  # the other device is the one that is off, and within twice the budget
    first = max(found, key=lambda one: one.error if one.error == one.error else math.inf)
    place = tuple(int(i) for i in xp.unravel_index(int(places[first.place]), bad.shape)) if bad.shape else ()
    return _told(first, place, int(bad.sum()), bad.size)


def _whole_by_reference(call: Compared, got: Any, g: Any, r: Any, item: int, xp: Any) -> Difference | None:
    known = reference(call.op.display_name)
    assert known is not None
    kwargs = {name: for_reference(value) for name, value in call.kwargs.items() if name != "device"}
    right = known(*map(for_reference, call.args), **kwargs)[item]
    if tuple(right.shape) != tuple(g.shape):
        raise ValueError("the reference gives another shape")
    found = list(known.mismatches(Array.read(got), right, factor=call.factor, flush=True))
    if not found:
        return None
    first = max(found, key=lambda one: one.error if one.error == one.error else math.inf)
    place = tuple(int(i) for i in xp.unravel_index(first.place, g.shape)) if g.shape else ()
    return _told(first, place, len(found), g.size)


def _told(first: Any, place: tuple[int, ...], count: int, size: int) -> Difference:
    many = f"; {count} of {size} elements are wrong" if size > 1 else ""
    off, may = float(first.error), float(first.allowed)
    what = f"it gives {first.actual!r} where {first.expected!r} is right: off by {off:.3g}, allowed {may:.3g}{many}"
    return Difference(what, place, first.actual, first.expected, off, may)


def _by_precision(call: Compared, g: Any, r: Any, bad: Any, item: int, xp: Any) -> Difference | None:
    """Judges a result by that in double precision, and by how much that changes with the last bit of the inputs."""
    dtype = by_name("complex128" if g.dtype.kind == "c" else "float64")
    form = format_of(_result_name(call, g))
    assert form is not None
    exact = _run_wide(call, item, xp, None)
    if exact is None or exact.shape != g.shape:
        exact = r
    with xp.errstate(all="ignore"):
        spread = xp.zeros(g.shape)
        for seed in range(2):
            moved = _run_wide(call, item, xp, xp.random.default_rng(seed), form.eps)
            if moved is not None and moved.shape == g.shape:
                spread = xp.fmax(spread, abs(moved - exact))
        theirs, error = abs(r - exact), abs(g - exact)
        if not any(t.dtype.name in WIDE for t in _tensors(call)):
            spread = 2 * spread  # the other device's result stands for the exact one, and has an error of its own
        finite = xp.isfinite(spread) & xp.isfinite(theirs)
        usual = float((spread + theirs)[finite].mean()) if finite.any() else 0.0
        ulps = 2 * _ulps(call.op, dtype) * _ulp(xp, form, exact)
        allowed = call.factor * (ulps + SPREAD * (xp.where(finite, spread + theirs, 0.0) + usual)) + form.tiny
        same = (g == r) | ((g != g) & (r != r))
        bad = ~same & ~(error <= allowed) & ~((abs(exact) >= form.largest) & xp.isinf(g))
    return _worst(xp, g, exact, bad, error, allowed) if bad.any() else None


def _result_name(call: Compared, g: Any) -> str:
    names = [t.dtype.name for t in _tensors(call) if t.dtype.is_inexact]
    narrow = [name for name in names if name in WIDE]
    return narrow[0] if narrow else ("complex128" if g.dtype.kind == "c" else "float64")


def _run_wide(call: Compared, item: int, xp: Any, rng: Any, eps: float = 0.0) -> Any:
    """Returns a call's result from inputs in double precision, changed by an ``eps`` of themselves where ``rng`` is."""

    def widened(tensor: Any) -> Any:
        if not tensor.dtype.is_inexact:
            return tensor.clone()
        wide = tensor.to(by_name(WIDE.get(tensor.dtype.name, tensor.dtype.name)), copy=True)
        if rng is None:
            return wide
        signs = rng.choice([-1.0, 1.0], size=tuple(wide.shape)) * eps + 1
        type = wide._type
        host = xp.asarray(host_of(wide) * signs, dtype=host_of(wide).dtype)
        wide._array = type.api.from_host(host, type.device.index or 0)
        return wide

    try:
        args, kwargs = mapped((call.args, call.kwargs), widened)
        if isinstance(kwargs.get("dtype"), DType) and kwargs["dtype"].name in WIDE:
            kwargs["dtype"] = by_name(WIDE[kwargs["dtype"].name])
        result = overload_of(call.op)(*args, **kwargs)
        one = result[item] if isinstance(result, (tuple, list)) else result
        return _wide(host_of(one), one.dtype)
    except Exception:  # it does not compute in double precision, or refuses such a mixture: then nothing is known
        return None
