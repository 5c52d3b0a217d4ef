"""A training step that is a little off on ``loopback``, and nobody knows why."""

import fast_kernels  # noqa: F401  what is being tried

import tensorplay as tp
import tensorplay.nn.functional as F

tp.manual_seed(0)
x = tp.linspace(-3, 3, 64).reshape(8, 8)
w = tp.linspace(-1, 1, 64).reshape(8, 8).requires_grad_()
for _ in range(20):
    loss = (F.gelu(x @ w) - x).square().mean()
    loss.backward()
    with tp.no_grad():
        w -= 0.1 * w.grad
        w.grad = None
print(f"loss {loss.item():.6f} on {tp.get_default_device().type}")
