"""``tensorplay demo``: the backends, the road of a call, and a network trained on real data.

The demo belongs to the umbrella distribution, which core does not know; it is imported when it is asked for.
"""

from __future__ import annotations

import click

from tensorplay_core.cli.common import Command, console, json_option, print_json
from tensorplay_core.cli.namespace import device_over, namespace_option


@click.command(cls=Command)
@click.option("--device", show_default="cpu", help="Where to train.")
@namespace_option
@click.option("--epochs", type=click.IntRange(min=1), help="How often the training data is seen.")
@click.option("--seed", type=int, default=0, show_default=True, help="Of the split, the weights and the order.")
@json_option
def demo(device: str | None, namespace: str | None, epochs: int | None, seed: int, as_json: bool) -> None:
    """Train a network on handwritten digits.

    Lists the backends, prints the road of one call, trains, and says which operators ran and for how long.
    """
    from importlib import import_module

    from tensorplay_core.errors import BackendError, fix

    try:
        run = import_module("tensorplay.demo").run
    except ModuleNotFoundError as error:
        if error.name not in ("tensorplay", "tensorplay.demo"):
            raise
        raise BackendError("The demo is in the distribution tensorplay." + fix("pip install tensorplay")) from None
    if namespace is not None:
        device = device_over(namespace, device)
    out = console()
    out.quiet = as_json
    result = run(device=device or "cpu", epochs=epochs, seed=seed, console=out)
    if as_json:
        print_json(result)
