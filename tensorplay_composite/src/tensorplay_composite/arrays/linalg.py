"""Matrix products, what is added to them, and triangles.

Half precisions multiply in float32 and round once: more accurate, and far faster than a half-precision loop where the
library behind the module has no such product. What is not of the dims that an operator takes raises here, and its shape
rule says the rest.
"""

from __future__ import annotations

from typing import Any

from tensorplay_composite.arrays._support import Kernels, Support, quietly


@quietly
def kernels(xp: Any, support: Support) -> Kernels:
    """Returns the kernels of linear algebra over ``xp``."""
    kind, cast, single, int64, boolean = support.kind, support.cast, support.single, support.int64, support.boolean
    product, conj = xp.matmul, xp.conj

    def matmul(self: Any, other: Any) -> Any:
        what, dtype = kind[self.dtype], self.dtype
        if what == "half":
            return cast(product(cast(self, single), cast(other, single)), dtype)
        if what == "bool":
            return cast(product(cast(self, int64), cast(other, int64)), boolean)
        return product(self, other)

    def mm(self: Any, mat2: Any) -> Any:
        if self.ndim != 2 or mat2.ndim != 2:
            raise ValueError("other numbers of dims")
        return matmul(self, mat2)

    def bmm(self: Any, mat2: Any) -> Any:
        if self.ndim != 3 or mat2.ndim != 3 or self.shape[0] != mat2.shape[0]:
            raise ValueError("other numbers of dims, or of matrices")
        return matmul(self, mat2)

    def mv(self: Any, vec: Any) -> Any:
        if self.ndim != 2 or vec.ndim != 1:
            raise ValueError("other numbers of dims")
        return matmul(self, vec)

    def dot(self: Any, tensor: Any) -> Any:
        if self.ndim != 1 or tensor.ndim != 1:
            raise ValueError("other numbers of dims")
        return matmul(self, tensor)

    def vdot(self: Any, other: Any) -> Any:
        return dot(conj(self) if kind[self.dtype] == "complex" else self, other)

    def outer(self: Any, vec2: Any) -> Any:
        if self.ndim != 1 or vec2.ndim != 1:
            raise ValueError("other numbers of dims")
        if kind[self.dtype] == "bool":
            return self[:, None] & vec2[None, :]
        return self[:, None] * vec2[None, :]

    def added(self: Any, a: Any, b: Any, multiply: Any, beta: Any, alpha: Any) -> Any:
        """``beta * self + alpha * multiply(a, b)``; half precisions round once, at the end."""
        dtype = self.dtype
        half = kind[dtype] == "half"
        if half:
            self, a, b = cast(self, single), cast(a, single), cast(b, single)
        result = multiply(a, b)
        xp.broadcast_to(self, result.shape)  # what is larger is refused, also where nothing of it is added
        if alpha != 1:
            result *= alpha  # a new array where none can be written to
        if beta != 0:
            result += self if beta == 1 else self * beta
        return cast(result, dtype) if half else result

    def addmm(self: Any, mat1: Any, mat2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
        return added(self, mat1, mat2, mm, beta, alpha)

    def baddbmm(self: Any, batch1: Any, batch2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
        return added(self, batch1, batch2, bmm, beta, alpha)

    def addmv(self: Any, mat: Any, vec: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
        return added(self, mat, vec, mv, beta, alpha)

    def tril(self: Any, diagonal: int = 0) -> Any:
        if self.ndim < 2:
            raise ValueError("no matrices")
        return xp.tril(self, k=diagonal)

    def triu(self: Any, diagonal: int = 0) -> Any:
        if self.ndim < 2:
            raise ValueError("no matrices")
        return xp.triu(self, k=diagonal)

    return {
        "matmul": matmul,
        "mm": mm,
        "bmm": bmm,
        "mv": mv,
        "dot": dot,
        "vdot": vdot,
        "outer": outer,
        "addmm": addmm,
        "baddbmm": baddbmm,
        "addmv": addmv,
        "tril": tril,
        "triu": triu,
    }
