"""Adam and AdamW in a dozen tensor operations, as four of the programs train with it.

Source: D. Kingma and J. Ba, Adam: a method for stochastic optimization, 2015, algorithm 1, in the order of operations
at the end of its section 2; I. Loshchilov and F. Hutter, Decoupled weight decay regularization, 2019, algorithm 2.
"""

import math

import torch


class Adam:
    """Steps of a size that does not depend on the scale of the gradients.

    ``decay`` is AdamW's: that share of every matrix is taken away with each step, times the rate; vectors are spared.
    """

    def __init__(self, parameters, rate, betas=(0.9, 0.999), eps=1e-8, decay=0.0):
        self.parameters = list(parameters)
        self.rate, self.betas, self.eps, self.decay = rate, betas, eps, decay
        self.means = [torch.zeros_like(p) for p in self.parameters]
        self.squares = [torch.zeros_like(p) for p in self.parameters]
        self.steps = 0

    @torch.no_grad()
    def step(self, factor=1.0):
        """Follows the gradients, at ``factor`` times the rate, and forgets them."""
        self.steps += 1
        b1, b2 = self.betas
        bias1, bias2 = 1 - b1**self.steps, 1 - b2**self.steps
        rate = self.rate * factor
        for p, mean, square in zip(self.parameters, self.means, self.squares, strict=True):
            if self.decay and p.ndim > 1:
                p.mul_(1 - rate * self.decay)
            mean.lerp_(p.grad, 1 - b1)
            square.mul_(b2).addcmul_(p.grad, p.grad, value=1 - b2)
            p.addcdiv_(mean, (square / bias2).sqrt_().add_(self.eps), value=-rate / bias1)
            p.grad = None


def warmup_cosine(step, steps, warmup=0.1):
    """The share of the rate at a step: from 0 up in a line, then down along half a cosine to 0."""
    done = (step + 1) / steps
    return done / warmup if done < warmup else 0.5 + 0.5 * math.cos(math.pi * (done - warmup) / (1 - warmup))


@torch.no_grad()
def clip(parameters, limit):
    """Scales all gradients by one factor, so that their norm is at most ``limit``; returns the norm before."""
    gradients = [p.grad for p in parameters]
    norm = torch.stack([g.norm() for g in gradients]).norm()
    factor = (limit / (norm + 1e-6)).clamp(max=1.0)
    for gradient in gradients:
        gradient.mul_(factor)
    return norm
