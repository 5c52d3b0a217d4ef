"""Makes a pointwise formula short: like terms, common factors, one denominator where terms cancel there.

A derivative comes out of the chain rule long and repetitive. It is read as a sum of products here, and written again
the way people write one: the gradient first, numbers in one place, one division after the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction

from tensorplay_core.codegen.formula import ast
from tensorplay_core.codegen.formula.ast import Expr
from tensorplay_core.codegen.math.algebra import ONE, ZERO, as_call, call, number, rebuilt, value_of, where
from tensorplay_core.codegen.math.numeric import FUNCTIONS, as_float

_LONGEST_POWER = 3  # `x * x * x` is faster than `x ** 3`, and exact more often
_EXPONENTS = (2, 3, -1, -2, -3)
_MOST_TERMS = 64


Factors = dict[Expr, int]
Term = tuple[Fraction, Factors]


def simplified(expr: Expr, *, real: bool = False) -> Expr:
    """Returns a shorter formula of the same value.

    Args:
        expr: the formula.
        real: the operands are real numbers, so that a conjugate is the number itself.

    Example:
        >>> from tensorplay_core.codegen.formula.parser import parse_formula
        >>> def short(text):
        ...     return str(simplified(parse_formula(text), real=True))
        >>> short("g * x + g * x"), short("g * s + g * x * s * t")
        ('2 * g * x', 'g * s * (x * t + 1)')
        >>> short("g / (1 + abs(x)) - g * (x / (1 + abs(x)) / (1 + abs(x))) * sgn(x)")
        'g / (abs(x) + 1) / (abs(x) + 1)'
    """
    match expr:
        case ast.Call(function="conj", args=(inner,)) if real:
            return simplified(inner, real=True)
        case ast.Call(function="where", args=(condition, a, b)):
            return where(*(simplified(part, real=real) for part in (condition, a, b)))
        case ast.Binary(operator="+" | "-" | "*" | "/" | "**") | ast.Unary(operator="-") | ast.Call(function="conj"):
            return _written(_factored(_terms(expr, real)))
    found = as_call(expr)
    return expr if found is None else rebuilt(expr, (simplified(a, real=real) for a in found[1]))


def _terms(expr: Expr, real: bool) -> list[Term]:
    """A formula as a sum of products; a sum inside a product stays one factor."""
    match expr:
        case ast.Binary(operator="+" | "-" as operator, left=a, right=b):
            return _combined([*_terms(a, real), *_scaled(_terms(b, real), Fraction(1 if operator == "+" else -1))])
        case ast.Binary(operator="*", left=a, right=b):
            return [_product(_one(a, real), _one(b, real))]
        case ast.Binary(operator="/", left=a, right=b):
            return [_product(_one(a, real), _inverse(_one(b, real)))]
        case ast.Binary(operator="**", left=a, right=b) if value_of(b) in _EXPONENTS:
            base, exponent = _one(a, real), value_of(b)
            product = (Fraction(1), Factors())
            for _ in range(abs(int(exponent or 0))):
                product = _product(product, base if exponent and exponent > 0 else _inverse(base))
            return [product]
        case ast.Unary(operator="-", operand=a):
            return _scaled(_terms(a, real), Fraction(-1))
        case ast.Call(function="conj", args=(inner,)):
            return _terms(inner, real) if real else [(c, _conjugated(f)) for c, f in _terms(inner, real)]
    value = value_of(expr)
    if value is not None and value == value and abs(value) < 2**53 and value == int(value):
        return [(Fraction(int(value)), {})]
    if isinstance(expr, ast.Binary):
        operands = (simplified(part, real=real) for part in (expr.left, expr.right))
        return [(Fraction(1), {ast.Binary(expr.operator, *operands): 1})]
    return [(Fraction(1), {simplified(expr, real=real): 1})]


def _conjugated(factors: Factors) -> Factors:
    return {call("conj", (factor,)): exponent for factor, exponent in factors.items()}


def _one(expr: Expr, real: bool) -> Term:
    """A formula as one product; a sum becomes a factor of it, short already."""
    terms = _factored(_terms(expr, real))
    if len(terms) == 1:
        return terms[0]
    return (Fraction(0), {}) if not terms else (Fraction(1), {_written(terms): 1})


def _product(a: Term, b: Term) -> Term:
    factors = dict(a[1])
    for factor, exponent in b[1].items():
        factors[factor] = factors.get(factor, 0) + exponent
    return a[0] * b[0], _known_products({f: k for f, k in factors.items() if k})


def _known_products(factors: Factors) -> Factors:
    """Puts ``abs(u)`` for ``u * sgn(u)``, and ``u`` for ``abs(u) * sgn(u)``."""
    for sign in [f for f, k in factors.items() if isinstance(f, ast.Call) and f.function == "sgn" and k > 0]:
        u = sign.args[0] if isinstance(sign, ast.Call) else sign
        modulus = ast.Call("abs", (u,))
        for a, b in ((u, modulus), (modulus, u)):
            if factors.get(a, 0) > 0 and factors.get(sign, 0) > 0:
                changed = {**factors, a: factors[a] - 1, sign: factors[sign] - 1, b: factors.get(b, 0) + 1}
                return _known_products({f: k for f, k in changed.items() if k})
    return factors


def _inverse(term: Term) -> Term:
    coefficient, factors = term
    if not coefficient:  # a division by a literal zero stays one
        return Fraction(1), {ZERO: -1}
    return 1 / coefficient, {f: -k for f, k in factors.items()}


def _scaled(terms: Iterable[Term], by: Fraction) -> list[Term]:
    return [(coefficient * by, factors) for coefficient, factors in terms]


def _combined(terms: Iterable[Term]) -> list[Term]:
    """Adds up terms with the same factors."""
    found: dict[frozenset[tuple[Expr, int]], Term] = {}
    for coefficient, factors in terms:
        key = frozenset(factors.items())
        before = found.get(key, (Fraction(0), factors))
        found[key] = (before[0] + coefficient, before[1])
    return [term for term in found.values() if term[0]]


def _factored(terms: list[Term]) -> list[Term]:
    """Takes out what all terms of a sum have in common; over one denominator, where that makes them fewer."""
    if len(terms) < 2:
        return terms
    every = dict.fromkeys(f for _, factors in terms for f in factors)
    least = {f: min(factors.get(f, 0) for _, factors in terms) for f in every}
    over = {f: k for f, k in least.items() if k}
    divisor = (Fraction(1), {f: -k for f, k in over.items()})
    expanded = _combined(t for term in terms for t in _expanded(_product(term, divisor)))
    if len(expanded) < len(terms):
        rest = _one_of(_factored(expanded))
        return [_product(rest, (Fraction(1), over))] if rest[0] else []
    most = {f: max(factors.get(f, 0) for _, factors in terms) for f in every}
    common = {f: least[f] if least[f] > 0 else most[f] for f in every if least[f] > 0 or most[f] < 0}
    if not common:
        return _flat(terms)
    undo = {f: -k for f, k in common.items()}
    inner = _flat([_product(term, (Fraction(1), undo)) for term in terms])
    return [_product((Fraction(1), common), (Fraction(1), {_written(inner): 1}))]


def _flat(terms: list[Term]) -> list[Term]:
    """Opens the brackets of sums that only a number stands before, unless that makes more terms."""
    opened = [t for term in terms for t in (_expanded(term) if [*term[1].values()] == [1] else [term])]
    combined = _combined(opened)
    return combined if len(combined) <= len(terms) else terms


def _one_of(terms: list[Term]) -> Term:
    return terms[0] if len(terms) == 1 else (Fraction(1), {_written(terms): 1}) if terms else (Fraction(0), {})


def _expanded(term: Term, limit: int = _MOST_TERMS) -> list[Term]:
    """Multiplies out the first powers of sums among a term's factors, as far as that makes few terms."""
    coefficient, factors = term
    for factor, exponent in factors.items():
        if exponent > 0 and isinstance(factor, ast.Binary) and factor.operator in ("+", "-"):
            rest = {f: k for f, k in factors.items() if f != factor} | ({factor: exponent - 1} if exponent > 1 else {})
            parts = [_product((coefficient, rest), part) for part in _terms(factor, False)]
            if len(parts) > limit:
                return [term]
            return [t for part in parts for t in _expanded(part, limit // len(parts))]
    return [term]


# ------------------------------------------------------------------------------------------------------------- printing


def _written(terms: list[Term]) -> Expr:
    """Writes a sum: first what has a plus sign, and numbers last."""
    if not terms:
        return ZERO
    ordered = sorted(terms, key=lambda term: (term[0] < 0, not term[1]))
    total = _written_term(*ordered[0])
    for coefficient, factors in ordered[1:]:
        total = ast.Binary("+" if coefficient > 0 else "-", total, _written_term(abs(coefficient), factors))
    return total


def _written_term(coefficient: Fraction, factors: Mapping[Expr, int]) -> Expr:
    """Writes a product: its number, the gradient, the rest; then the divisors."""
    top, bottom = _literals(coefficient, factors)
    negative = not top and coefficient < 0
    for factor, exponent in sorted(factors.items(), key=lambda item: _name(item[0]) not in ("grad", "grads")):
        side = top if exponent > 0 else bottom
        if isinstance(value_of(factor), float) and factor != ast.Constant("nan"):
            continue
        short = abs(exponent) <= _LONGEST_POWER
        side += [factor] * abs(exponent) if short else [ast.Binary("**", factor, number(abs(exponent)))]
    top = _conjugates_together(top) or [ONE]
    expr = _multiplied([ast.Unary("-", top[0]), *top[1:]] if negative else top)
    for factor in bottom:  # one division after the other: the product of denominators could overflow
        expr = ast.Binary("/", expr, factor)
    return expr


def _literals(coefficient: Fraction, factors: Mapping[Expr, int]) -> tuple[list[Expr], list[Expr]]:
    """Returns what a term is multiplied by and divided by, all its numbers in one; nothing for 1 and -1."""
    floats = [(value, k) for f, k in factors.items() if isinstance(value := value_of(f), float) and value == value]
    if floats:
        product = as_float(coefficient)
        for value, exponent in floats:
            product *= FUNCTIONS["pow"](value, exponent)
        return [number(product)] if abs(product) != 1 else [], []
    top = [number(coefficient.numerator)] if abs(coefficient.numerator) != 1 else []
    return top, [number(coefficient.denominator)] if coefficient.denominator != 1 else []


def _multiplied(factors: list[Expr]) -> Expr:
    expr = factors[0] if factors else ONE
    for factor in factors[1:]:
        expr = ast.Binary("*", expr, factor)
    return expr


def _conjugates_together(factors: list[Expr]) -> list[Expr]:
    """Conjugates a product once rather than each of its factors."""
    inner = [found for factor in factors if (found := _without_conjugates(factor)) not in (None, factor)]
    if not any(isinstance(factor, ast.Binary) for factor in inner) and len(inner) < 2:
        return factors
    kept = [factor for factor in factors if _without_conjugates(factor) in (None, factor)]
    return [*kept, ast.Call("conj", (_multiplied([one for one in inner if one is not None]),))]


def _without_conjugates(expr: Expr) -> Expr | None:
    """Returns ``u`` where a formula is the conjugate of ``u``, term by term; None where it is not."""
    match expr:
        case ast.Call(function="conj", args=(inner,)):
            return inner
        case ast.Binary(operator=operator, left=a, right=b):
            x, y = _without_conjugates(a), _without_conjugates(b)
            return None if x is None or y is None else ast.Binary(operator, x, y)
        case ast.Unary(operator="-", operand=a):
            x = _without_conjugates(a)
            return None if x is None else ast.Unary("-", x)
    return expr if value_of(expr) is not None else None


def _name(expr: Expr) -> str | None:
    match expr:
        case ast.Name(name=name) | ast.Index(object=ast.Name(name=name)):
            return name
    return None
