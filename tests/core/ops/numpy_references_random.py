"""The shapes of what is drawn; the numbers are chance, and tests/core/ops/test_random.py looks at them."""

from __future__ import annotations

from typing import Any

import numpy as np


def sized(*args: Any, **settings: Any) -> Any:
    return np.zeros(args[-1])


def broadcast(mean: Any, std: Any = 1.0) -> Any:
    return np.zeros(np.broadcast_shapes(np.shape(mean), np.shape(std)))


REFERENCES: dict[str, Any] = {
    "randint": sized,
    "normal.float_float": sized,
    **dict.fromkeys(("normal.Tensor_float", "normal.float_Tensor", "normal.Tensor_Tensor"), broadcast),
    **dict.fromkeys(("bernoulli", "bernoulli.p"), lambda x, p=None: np.zeros(x.shape)),
    "multinomial": lambda x, count, replacement=False: np.zeros((*x.shape[:-1], count)),
    **dict.fromkeys(
        ("uniform_", "normal_", "bernoulli_.Tensor", "bernoulli_.float", "exponential_", "geometric_"),
        lambda x, *rest: np.zeros(x.shape),
    ),
    **dict.fromkeys(("random_.from", "random_.to", "random_"), lambda x, *rest: np.zeros(x.shape)),
}
