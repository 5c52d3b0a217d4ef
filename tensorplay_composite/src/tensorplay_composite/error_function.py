"""``erf`` and ``erfc`` in arithmetic, ``where`` and ``exp`` alone: for arrays of any module, and for tensors.

The rational approximations are those of fdlibm's ``s_erf.c`` (Sun Microsystems 1993, freely distributable), good for a
unit in the last place of float64. What float32 needs less of them for is left to a backend that knows better.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

NEAR, MIDDLE, FAR = 0.84375, 1.25, 1 / 0.35
"""Where one approximation ends and the next begins, by the size of the argument."""
LARGEST = 28.0
"""Beyond it ``erfc`` is 0 in float64."""
AT_ONE = 8.45062911510467529297e-01  # erf(1) in 24 bits
NEAR_ZERO = (
    (
        1.28379167095512558561e-01,
        -3.25042107247001499370e-01,
        -2.84817495755985104766e-02,
        -5.77027029648944159157e-03,
        -2.37630166566501626084e-05,
    ),
    (
        1.0,
        3.97917223959155352819e-01,
        6.50222499887672944485e-02,
        5.08130628187576562776e-03,
        1.32494738004321644526e-04,
        -3.96022827877536812320e-06,
    ),
)
NEAR_ONE = (
    (
        -2.36211856075265944077e-03,
        4.14856118683748331666e-01,
        -3.72207876035701323847e-01,
        3.18346619901161753674e-01,
        -1.10894694282396677476e-01,
        3.54783043256182359371e-02,
        -2.16637559486879084300e-03,
    ),
    (
        1.0,
        1.06420880400844228286e-01,
        5.40397917702171048937e-01,
        7.18286544141962662868e-02,
        1.26171219808761642112e-01,
        1.36370839120290507362e-02,
        1.19844998467991074170e-02,
    ),
)
NEARER = (
    (
        -9.86494403484714822705e-03,
        -6.93858572707181764372e-01,
        -1.05586262253232909814e01,
        -6.23753324503260060396e01,
        -1.62396669462573470355e02,
        -1.84605092906711035994e02,
        -8.12874355063065934246e01,
        -9.81432934416914548592e00,
    ),
    (
        1.0,
        1.96512716674392571292e01,
        1.37657754143519042600e02,
        4.34565877475229228821e02,
        6.45387271733267880336e02,
        4.29008140027567833386e02,
        1.08635005541779435134e02,
        6.57024977031928170135e00,
        -6.04244152148580987438e-02,
    ),
)
FARTHER = (
    (
        -9.86494292470009928597e-03,
        -7.99283237680523006574e-01,
        -1.77579549177547519889e01,
        -1.60636384855821916062e02,
        -6.37566443368389627722e02,
        -1.02509513161107724954e03,
        -4.83519191608651397019e02,
    ),
    (
        1.0,
        3.03380607434824582924e01,
        3.25792512996573918826e02,
        1.53672958608443695994e03,
        3.19985821950859553908e03,
        2.55305040643316442583e03,
        4.74528541206955367215e02,
        -2.24409524465858183362e01,
    ),
)


class Functions(NamedTuple):
    """What the arrays, or tensors, are computed with.

    Attributes:
        where: chooses, element by element.
        exp: the exponential function.
        abs: the absolute value.
        splitter: ``2 ** n + 1``, with n half the digits of the dtype.
    """

    where: Callable[..., Any]
    exp: Callable[..., Any]
    abs: Callable[..., Any]
    splitter: float


def _polynomial(coefficients: Sequence[float], x: Any) -> Any:
    total = x * coefficients[-1] + coefficients[-2]
    for coefficient in coefficients[-3::-1]:
        total = total * x + coefficient
    return total


def ratio(of: tuple[Sequence[float], Sequence[float]], x: Any) -> Any:
    """One polynomial over another, the lowest power first."""
    return _polynomial(of[0], x) / _polynomial(of[1], x)


def middle_part(size: Any) -> Any:
    """``erf(size) - erf(1)`` near 1."""
    return ratio(NEAR_ONE, size - 1)


def _tail(size: Any, use: Functions) -> Any:
    """``erfc`` from :data:`MIDDLE` on."""
    square = 1 / (size * size)
    return tail(size, use.where(size < FAR, ratio(NEARER, square), ratio(FARTHER, square)), use)


def tail(size: Any, part: Any, use: Functions) -> Any:
    """``erfc`` by the ratio for that size.

    The square in the exponent is that of a number with half the digits, and a rest.
    """
    product = size * use.splitter
    high = product - (product - size)
    return use.exp(-high * high) * use.exp((high - size) * (high + size) + (part - 0.5625)) / size


class _Pieces(NamedTuple):
    """An argument cut up: each approximation is given numbers that it can take, whatever stands elsewhere.

    Attributes:
        near, middle: where the size is below :data:`NEAR`, and below :data:`MIDDLE`.
        inner: the argument where it is near 0, else 0.
        one: its size below :data:`MIDDLE`, else 1.
        far: its size from there on, else :data:`MIDDLE`; NaN is here.
    """

    near: Any
    middle: Any
    inner: Any
    one: Any
    far: Any


def _cut(x: Any, use: Functions) -> _Pieces:
    size = use.abs(x)
    near, middle = size < NEAR, size < MIDDLE
    inner, one = use.where(near, x, 0.0), use.where(middle, size, 1.0)
    far = use.where(middle, MIDDLE, use.where(size > LARGEST, LARGEST, size))
    return _Pieces(near, middle, inner, one, far)


def erf(x: Any, use: Functions) -> Any:
    """Returns the error function of real numbers."""
    cut = _cut(x, use)
    near = cut.inner + cut.inner * ratio(NEAR_ZERO, cut.inner * cut.inner)
    size = use.where(cut.middle, AT_ONE + middle_part(cut.one), 1 - _tail(cut.far, use))
    return use.where(cut.near, near, use.where(x < 0, -size, size))


def erfc(x: Any, use: Functions) -> Any:
    """Returns ``1 - erf(x)`` of real numbers, with its digits where that is tiny."""
    cut = _cut(x, use)
    y = cut.inner * ratio(NEAR_ZERO, cut.inner * cut.inner)
    near = use.where(cut.inner < 0.25, 1 - (cut.inner + y), 0.5 - (y + (cut.inner - 0.5)))
    size = use.where(cut.middle, (1 - AT_ONE) - middle_part(cut.one), _tail(cut.far, use))
    return use.where(cut.near, near, use.where(x < 0, 2 - size, size))
