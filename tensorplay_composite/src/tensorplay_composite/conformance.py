"""What is known of array modules, for the conformance suite: where one cannot do what the contract says, and why.

``tensorplay backends check --namespace MODULE`` reads it; a test file of the suite writes ``PROFILE =
NAMESPACES["jax.numpy"]``. What stands here is a fact about the module, measured: a kernel of ours that is wrong over it
is mended, not declared. Of a module that is not named nothing is declared.
"""

from __future__ import annotations

from typing import Final

from tensorplay_core.testing.suite import Profile

NAMESPACES: Final = {
    # Where a divisor is broadcast, XLA multiplies by its reciprocal, which rounds twice: 1.5 units in the last place,
    # where IEEE 754 allows 0.5. Its cosh and sinh round the argument of an exponential, x - log 2: 24.5 units up to 88.
    # And it makes 0 of numbers below the smallest normal one.
    "jax.numpy": Profile(accuracy={"div": 3, "div.Tensor_mode": 3, "cosh": 4, "sinh": 4}, flushes=True),
}
"""Profiles by the module's name; ``array_api_strict`` and ``numpy`` need none."""
