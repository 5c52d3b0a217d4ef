"""Matrix products.

Half precisions multiply in float32 and round once: more accurate, and far faster than a half-precision loop where the
library behind the module has no such product.
"""

from __future__ import annotations

from typing import Any

from tensorplay_composite.arrays._support import Kernels, Support, quietly


@quietly
def kernels(xp: Any, support: Support) -> Kernels:
    """Returns the kernels of linear algebra over ``xp``."""
    kind, cast, single, int64, boolean = support.kind, support.cast, support.single, support.int64, support.boolean
    product = xp.matmul

    def matmul(self: Any, other: Any) -> Any:
        what, dtype = kind[self.dtype], self.dtype
        if what == "half":
            return cast(product(cast(self, single), cast(other, single)), dtype)
        if what == "bool":
            return cast(product(cast(self, int64), cast(other, int64)), boolean)
        return product(self, other)

    return {"matmul": matmul}
