"""Shape rules of linear algebra: which matrices multiply, and what an argument that is added must broadcast to."""

from __future__ import annotations

from typing import Any

from tensorplay_core.errors import DTypeError, ShapeError, fix
from tensorplay_core.ops.shape_checks import Shape, Shaped, base_name, check_broadcasts_to, check_shape, shape_of

_KINDS = {0: "a number", 1: "a vector", 2: "a matrix", 3: "a batch of matrices"}


def _needs(op: str, name: str, shape: Shape, ndim: int) -> None:
    """Refuses a tensor of another number of dims than an operator takes."""
    if len(shape) != ndim:
        hint = fix("matmul takes vectors, matrices and batches") if op in ("mm", "bmm", "mv", "dot") else ""
        raise ShapeError(f"{op}: {name} must be {_KINDS[ndim]} ({ndim}-d), and has shape {shape}{hint}")


def _multiply(op: str, a: Shape, b: Shape, names: tuple[str, str]) -> None:
    """Refuses two matrices, or a matrix and a vector, whose inner sizes differ."""
    inner = b[-2] if len(b) > 1 else b[0]
    if a[-1] != inner:
        fits = len(b) > 1 and a[-1] == b[-1]
        remedy = f"{names[1]}.transpose(-1, -2) would fit" if fits else f"make both {a[-1]} or both {inner}"
        raise ShapeError(
            f"{op}: {names[0]} and {names[1]} shapes cannot be multiplied ({'x'.join(map(str, a))} and "
            f"{'x'.join(map(str, b))}): {a[-1]} columns and {inner} rows" + fix(remedy)
        )


def mm(op: str, self: Shaped, mat2: Shaped, **keywords: Any) -> Shape:
    """(n, m) by (m, p) gives (n, p)."""
    return _product(op, shape_of(self), shape_of(mat2), ("self", "mat2"))


def _product(op: str, a: Shape, b: Shape, names: tuple[str, str]) -> Shape:
    _needs(op, names[0], a, 2)
    _needs(op, names[1], b, 2)
    _multiply(op, a, b, names)
    return check_shape(op, (a[0], b[1]))


def bmm(op: str, self: Shaped, mat2: Shaped, **keywords: Any) -> Shape:
    """(b, n, m) by (b, m, p) gives (b, n, p)."""
    return _products(op, shape_of(self), shape_of(mat2), ("self", "mat2"))


def _products(op: str, a: Shape, b: Shape, names: tuple[str, str]) -> Shape:
    _needs(op, names[0], a, 3)
    _needs(op, names[1], b, 3)
    if a[0] != b[0]:
        raise ShapeError(
            f"{op}: {names[0]} (shape {a}) and {names[1]} (shape {b}) are batches of {a[0]} and {b[0]} matrices"
            + fix("matmul broadcasts batches; expand one of them")
        )
    _multiply(op, a, b, names)
    return check_shape(op, (*a[:2], b[2]))


def mv(op: str, self: Shaped, vec: Shaped, **keywords: Any) -> Shape:
    """(n, m) by (m,) gives (n,)."""
    return _applied(op, shape_of(self), shape_of(vec), ("self", "vec"))


def _applied(op: str, a: Shape, b: Shape, names: tuple[str, str]) -> Shape:
    _needs(op, names[0], a, 2)
    _needs(op, names[1], b, 1)
    _multiply(op, a, b, names)
    return a[:1]


def dot(op: str, self: Shaped, other: Shaped, **keywords: Any) -> Shape:
    """Two vectors of one size give a number."""
    a, b = shape_of(self), shape_of(other)
    for name, shape in (("self", a), ("tensor" if op == "dot" else "other", b)):
        _needs(op, name, shape, 1)
    if a != b:
        raise ShapeError(f"{op}: the vectors have {a[0]} and {b[0]} elements" + fix("make them of one size"))
    return ()


def outer(op: str, self: Shaped, vec2: Shaped, **keywords: Any) -> Shape:
    """(n,) and (m,) give (n, m)."""
    a, b = shape_of(self), shape_of(vec2)
    _needs(op, "self", a, 1)
    _needs(op, "vec2", b, 1)
    return check_shape(op, a + b)


def _added(op: str, self: Shaped, product: Shape, numbers: dict[str, Any]) -> Shape:
    """What ``beta * self + alpha * product`` needs: ``self`` broadcasts, and the numbers are of its kind."""
    if base_name(op).endswith("_"):
        if shape_of(self) != product:
            raise ShapeError(f"{op}: self has shape {shape_of(self)}, and the product {product}")
    else:
        check_broadcasts_to(op, "self", shape_of(self), product, "the product")
    for name, number in numbers.items():
        if self.dtype is not None and self.dtype.is_integral and isinstance(number, (float, complex)):
            raise DTypeError(
                f"{op}: for tensors of {self.dtype.name}, {name} must be an integer, not {number!r}"
                + fix("convert the tensors with .to(tp.float32)")
            )
        if self.dtype is not None and isinstance(number, complex) and not self.dtype.is_complex:
            raise DTypeError(
                f"{op}: for tensors of {self.dtype.name}, {name} must be a real number, not {number!r}"
                + fix("convert the tensors with .to(tp.complex64)")
            )
    return product


def addmm(op: str, self: Shaped, mat1: Shaped, mat2: Shaped, **keywords: Any) -> Shape:
    """The shape of ``mat1 @ mat2``, to which ``self`` broadcasts."""
    return _added(op, self, _product(op, shape_of(mat1), shape_of(mat2), ("mat1", "mat2")), keywords)


def baddbmm(op: str, self: Shaped, batch1: Shaped, batch2: Shaped, **keywords: Any) -> Shape:
    """The shape of ``batch1 @ batch2``, to which ``self`` broadcasts."""
    return _added(op, self, _products(op, shape_of(batch1), shape_of(batch2), ("batch1", "batch2")), keywords)


def addmv(op: str, self: Shaped, mat: Shaped, vec: Shaped, **keywords: Any) -> Shape:
    """The shape of ``mat @ vec``, to which ``self`` broadcasts."""
    return _added(op, self, _applied(op, shape_of(mat), shape_of(vec), ("mat", "vec")), keywords)


def matrices(op: str, self: Shaped, *rest: Any, **keywords: Any) -> Shape:
    """The shape of ``self``, whose last two dims are matrices."""
    if len(self.shape) < 2:
        raise ShapeError(
            f"{op}: takes matrices, in the last two of at least 2 dims, and the tensor has shape {self.shape}"
            + (fix("x.unsqueeze(0) is one row, x.diag() a diagonal matrix") if len(self.shape) == 1 else "")
        )
    return self.shape
