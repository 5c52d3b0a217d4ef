"""A backend's author tries a faster gelu on ``loopback``: the tanh formula, which is another function."""

import numpy as np

import tensorplay as tp

LIB = tp.library.Library("tp", "IMPL", "loopback")


def gelu(x, *, approximate="none"):
    inner = np.sqrt(2 / np.pi).astype(x.dtype) * (x + 0.044715 * x**3)
    return (0.5 * x * (1 + np.tanh(inner))).astype(x.dtype)


LIB.impl("gelu", gelu, override=True)
