"""Some steps of the digits CNN of ``examples/programs``, on the default device: what bisect must find nothing in."""

import importlib.util
import sys
from pathlib import Path

import numpy as np

import tensorplay as tp
import tensorplay.nn.functional as F
from tensorplay.demo.data import load

sys.modules |= {"torch": tp, "torch.nn": tp.nn, "torch.nn.functional": F}
PROGRAMS = Path(__file__).parents[5] / "examples" / "programs"
sys.path.insert(0, str(PROGRAMS))
spec = importlib.util.spec_from_file_location("digits_cnn", PROGRAMS / "digits_cnn.py")
cnn = importlib.util.module_from_spec(spec)
spec.loader.exec_module(cnn)

STEPS, BATCH = int(sys.argv[1]), 50
device = tp.get_default_device()
known = load()
images = (tp.tensor(known.images, dtype=tp.float32, device=device) / 16).reshape(-1, 1, 8, 8)
labels = tp.tensor(known.labels, device=device)
kind = {"dtype": tp.float32, "device": device}
p, running = cnn.start(kind)
velocities = {name: tp.zeros_like(value) for name, value in p.items()}
order = np.random.default_rng(1).permutation(1500)
for step in range(STEPS):
    batch = tp.tensor(order[step * BATCH % 1500 : step * BATCH % 1500 + BATCH].tolist(), device=device)
    loss = F.cross_entropy(cnn.network(p, running, images[batch], True, 0.3), labels[batch])
    loss.backward()
    with tp.no_grad():
        for name, value in p.items():
            velocities[name].mul_(0.9).add_(value.grad)
            value.sub_(value.grad + 0.9 * velocities[name], alpha=0.03 * (1 - step / STEPS))
            value.grad = None
print(f"{STEPS} steps, loss {loss.item():.4f}")
