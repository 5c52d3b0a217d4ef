"""GradScaler against torch's over random programs, and mixed-precision gradients against torch's autocast."""

from __future__ import annotations

import math
import random
from collections import Counter

import pytest

import tensorplay as tp

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.peers
GRADIENTS = (1.0, 0.25, -3.0, 1e-3, math.inf, -math.inf, math.nan)
COUNTS: Counter[str] = Counter()


@pytest.mark.parametrize("seed", range(200))
def test_a_scaler_does_what_torchs_does(seed: int) -> None:
    rng = random.Random(seed)
    settings = {
        "init_scale": 2.0 ** rng.randint(-3, 40),
        "growth_factor": rng.choice([1.1, 2.0, 3.7]),
        "backoff_factor": rng.choice([0.3, 0.5, 0.9]),
        "growth_interval": rng.randint(1, 4),
    }
    theirs, ours = torch.amp.GradScaler("cpu", **settings), tp.amp.GradScaler("cpu", **settings)
    p, q = torch.nn.Parameter(torch.ones(2)), tp.ones(2, requires_grad=True)
    optimizer = torch.optim.SGD([p], lr=0.5)

    def descend() -> None:
        with tp.no_grad():
            q.sub_(q.grad, alpha=0.5)

    for _ in range(15):
        gradient = [rng.choice(GRADIENTS) if rng.random() < 0.4 else 1.0 for _ in range(2)]
        for scaler, parameter, library in ((theirs, p, torch), (ours, q, tp)):
            parameter.grad = None
            scaler.scale((parameter * library.tensor(gradient)).sum()).backward()
        if rng.random() < 0.3:
            theirs.unscale_(optimizer)
            ours.unscale_([q])
        theirs.step(optimizer)
        ours.step(descend, parameters=[q])
        theirs.update()
        ours.update()
        assert ours.state_dict() == theirs.state_dict()
        assert q.tolist() == p.tolist()
        COUNTS["steps"] += 1


@pytest.mark.parametrize("half", ["bfloat16", "float16"])
def test_gradients_of_a_network_are_torchs(half: str) -> None:
    """Two linear layers and a loss: what both libraries cast alike, so the gradients differ by the half's rounding."""
    found = []
    for library in (torch, tp):
        f = library.nn.functional
        rng = random.Random(3)
        make = lambda *shape: library.tensor([[rng.gauss(0, 1) for _ in range(shape[1])] for _ in range(shape[0])])  # noqa: B023, E731
        x, w1, w2 = make(8, 5), make(6, 5).requires_grad_(), make(3, 6).requires_grad_()
        with library.autocast("cpu", dtype=getattr(library, half)):
            hidden = library.relu(f.linear(x, w1))
            assert str(hidden.dtype).endswith(half)
            loss = f.cross_entropy(f.linear(hidden, w2), library.tensor([0, 1, 2, 0, 1, 2, 0, 1]))
        loss.backward()
        found.append([g for w in (w1, w2) for row in w.grad.tolist() for g in row])
    eps = 2.0**-8 if half == "bfloat16" else 2.0**-11
    assert max(abs(a - b) for a, b in zip(*found, strict=True)) < 4 * eps * max(map(abs, found[0]))


def test_the_numbers() -> None:
    """Prints how many steps of scalers were compared in this process."""
    print(f"\nsteps of scalers that equal torch's: {COUNTS['steps']}")
