"""A program that computes a little of everything, right on a right device."""

import faults  # noqa: F401  plants one

import tensorplay as tp
import tensorplay.nn.functional as F

tp.manual_seed(0)
x = tp.linspace(-6, 6, 300).reshape(3, 100)
w = tp.linspace(0.5, 1.5, 400).reshape(4, 100).requires_grad_()
h = F.gelu(x)
flipped = x.transpose(0, 1)
waves = (x.sin(), (x / 8).exp().sum(), flipped[:50].exp().sum())
whole = tp.tensor(0.5).cos() + tp.zeros(0).sum()
half = x.to(tp.float64).tanh()
most = tp.maximum(tp.tensor([1.0, tp.nan, 3.0]), tp.tensor([2.0, 2.0, 2.0]))
scaled = x * tp.linspace(1, 2, 100)
last = x[:, tp.tensor([-1, 0])]
total = tp.ones(3)
total.add_(tp.tensor([1.0, 2.0, 3.0]))
loss = F.gelu(w).sum() + (x @ w.transpose(0, 1)).square().mean() + h.mean() + half.mean() + scaled.mean() + last.mean()
loss.backward()
print("the program has ended", w.grad.shape, [t.shape for t in waves], whole.shape, most.shape, total.shape)
