"""Three modes over the digits CNN of ``programs``: a log of its operators, a count of its arithmetic, no data at all.

python examples/modes.py
"""

import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "programs"))

import run

tp = run.swap("tensorplay")  # the program says ``import torch``

import digits_cnn  # noqa: E402

BATCH, PIXELS, CHANNELS, CLASSES = 50, 8, (1, 16, 32), 10


def step(kind):
    """One training step up to the gradients, on random images; returns the parameters and the loss."""
    parameters, running = digits_cnn.start(kind)
    images = tp.randn(BATCH, CHANNELS[0], PIXELS, PIXELS, **kind)
    labels = tp.zeros(BATCH, dtype=tp.int64, device=kind["device"])
    loss = tp.nn.functional.cross_entropy(digits_cnn.network(parameters, running, images, True), labels)
    loss.backward()
    return parameters, loss


def analytic():
    """What the products of a step take, on paper: (forward, backward).

    Two for each product that is summed. Backward every product has two gradients, of its input and of its weight, but
    for the first convolution, whose input is data.
    """
    first = 2 * BATCH * PIXELS**2 * CHANNELS[1] * CHANNELS[0] * 9
    second = 2 * BATCH * (PIXELS // 2) ** 2 * CHANNELS[2] * CHANNELS[1] * 9
    last = 2 * BATCH * CHANNELS[2] * (PIXELS // 4) ** 2 * CLASSES
    return first + second + last, first + 2 * second + 2 * last


def main():
    """Shows the three."""
    kind = {"dtype": tp.float32, "device": "cpu"}
    with tp.modes.Logging() as log:
        step(kind)
    print(
        f"{len(log.calls)} operators, {sum(call.backward for call in log.calls)} of them backward; the most frequent:"
    )
    for name, count in Counter(call.name for call in log.calls).most_common(4):
        print(f"  {count:3} {name}")
    print("the first convolution:", next(call for call in log.calls if call.name == "convolution.default"), sep="\n  ")

    with tp.modes.FlopCounter() as flops:
        step(kind)
    print("", flops.table(), sep="\n")
    forward, backward = analytic()
    print(f"on paper  {forward:>11}  {backward:>8}  {forward + backward:>8}")

    with tp.modes.FakeMode(), tp.modes.FlopCounter() as again:
        parameters, loss = step({"dtype": tp.float32, "device": "cuda"})
    print("", f"without data, on a device that need not be here: {loss}", sep="\n")
    print(f"the gradient of the first convolution: {parameters['conv1'].grad}")
    print(f"operations counted there: {again.total()}")
    return flops, again, parameters


if __name__ == "__main__":
    main()
