"""What ``tensorplay demo`` prints, in the order of a first acquaintance.

Who is there, what happens in a call, what all of it is good for, and where the time went. Everything printed is also
in the dictionary that :func:`run` returns, which ``--json`` prints.
"""

from __future__ import annotations

from contextlib import nullcontext
from time import perf_counter
from typing import TYPE_CHECKING, Any

import tensorplay as tp
from tensorplay.demo import data
from tensorplay.demo.network import EPOCHS, Training, confusion, predict
from tensorplay_core.ops.explain_road import short_location

if TYPE_CHECKING:
    from rich.console import Console

OPERATORS_SHOWN = 12


def run(
    device: str = "cpu", epochs: int | None = None, seed: int = 0, console: Console | None = None
) -> dict[str, Any]:
    """Runs the demo.

    Args:
        device: where to compute.
        epochs: how often the network sees every training image; 12 when None.
        seed: of the split, the weights and the order of the images. The same seed gives the same result.
        console: where to print; standard output when None.

    Returns:
        What was printed: backends, road, losses, accuracy, confusion, operators, seconds.

    Raises:
        DeviceUnavailable: the device cannot be used here; the message says why and what helps.
    """
    if console is None:
        from rich.console import Console

        console = Console(highlight=False)
    start = perf_counter()
    result: dict[str, Any] = {"device": device, "seed": seed, "epochs": EPOCHS if epochs is None else epochs}
    result["backends"] = show_backends(console)
    result["road"] = show_road(console, device)
    result |= show_learning(console, device, result["epochs"], seed)
    result["seconds"] = perf_counter() - start
    say(console, f"\nAll of it took {result['seconds']:.1f} s.")
    say(console, "Next: tensorplay explain 'add(float32[2,3], float32[3])'")
    return result


def say(console: Console, text: str, style: str | None = None) -> None:
    """Prints a line as it is: no markup, folded by the terminal alone."""
    console.print(text, style=style, markup=False, highlight=False, soft_wrap=True)


def show_backends(console: Console) -> list[dict[str, str]]:
    """Prints the installed backends, with the reason where one cannot be used."""
    from rich.table import Table
    from rich.text import Text

    say(console, "The backends", "bold")
    table = Table(box=None, show_header=False, padding=(0, 1))
    rows = []
    for record in tp.backends.list():
        label = f"{record.info.distribution} {record.info.version}"
        rows.append({"name": record.name, "state": record.state.value, "distribution": label, "reason": record.reason})
        state = Text(record.state.value, "green" if record.active else "yellow")
        table.add_row(f" {record.name}", state, Text(label if record.active else f"{label}: {record.reason}"))
    console.print(table)
    return rows


def show_road(console: Console, device: str) -> list[dict[str, Any]]:
    """Prints the steps that one call takes, as a profiler has seen them."""
    a = tp.tensor([1.0, 2.0], device=device)
    b = tp.tensor([3.0, 4.0], device=device, requires_grad=True)
    with tp.profiler.profile() as profiler:
        c = tp.add(a, b)
    say(console, "\nThe road of tp.add(a, b), where b requires a gradient", "bold")
    for event in profiler.events:
        indent = "  " * (event.depth + 1)
        kernel = event.kernel.removeprefix("tensorplay_core.ops.autograd_kernels.")
        say(console, f"{indent}{event.key}: {kernel} of {event.distribution}")
        say(console, f"{indent}  {short_location(event.where)}", "dim")
    c.sum().backward()
    say(console, f"  c = {c}")
    say(console, f"  c.sum().backward() leaves b.grad = {b.grad}")
    return [event.as_dict() for event in profiler.events]


def show_learning(console: Console, device: str, epochs: int, seed: int) -> dict[str, Any]:
    """Prints how the network learns, how well it reads what it has not seen, and which operators ran."""
    digits = data.load()
    train, test = data.split(digits.labels, seed)
    say(console, f"\n{len(digits.labels)} handwritten digits: {len(train)} to learn from, {len(test)} held out", "bold")
    tp.manual_seed(seed)
    images = tp.tensor(digits.images, dtype=tp.float32, device=device) / 16
    labels = tp.tensor(digits.labels, device=device)
    start = perf_counter()
    training = Training(images[train], labels[train], epochs)
    losses, profiler = learn(console, training, epochs)
    seconds = perf_counter() - start
    counts = confusion(labels[test], predict(training.network, images[test]))
    correct = sum(counts[digit][digit] for digit in range(data.CLASSES))
    accuracy = correct / len(test)
    say(console, f"  {epochs} epochs of 64 - 128 - 10 in {seconds:.1f} s on {device}, loss {losses[-1]:.3f}")
    say(console, f"  test accuracy {accuracy:.2%} ({correct} of {len(test)})", "bold green")
    show_confusion(console, counts)
    show_operators(console, profiler)
    return {
        "losses": losses,
        "accuracy": accuracy,
        "correct": correct,
        "tested": len(test),
        "confusion": counts,
        "train_seconds": seconds,
        "operators": [row.as_dict() for row in profiler.key_averages()],
    }


def learn(console: Console, training: Training, epochs: int) -> tuple[list[float], tp.profiler.profile]:
    """Trains with a progress bar and a live loss; in a pipe, with a line for every third epoch.

    Returns:
        The mean loss of each epoch, and the profile of the last one. Only that one is profiled, because a profiler
        keeps calls off the fast path.
    """
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (TextColumn("  learning"), BarColumn(), MofNCompleteColumn(), TextColumn("loss {task.fields[loss]:.3f}"))
    losses: list[float] = []
    profiler = tp.profiler.profile()
    with Progress(*columns, console=console, disable=not console.is_terminal, transient=True) as progress:
        task = progress.add_task("", total=training.steps, loss=0.0)

        def report(loss: float) -> None:
            progress.update(task, advance=1, loss=loss)

        for epoch in range(1, epochs + 1):
            with profiler if epoch == epochs else nullcontext():
                losses.append(training.epoch(report))
            if not console.is_terminal and (epoch % 3 == 0 or epoch == epochs):
                say(console, f"  epoch {epoch} of {epochs}: loss {losses[-1]:.3f}")
    return losses, profiler


def show_confusion(console: Console, counts: list[list[int]]) -> None:
    """Prints how often each digit (row) was read as which (column)."""
    from rich.table import Table
    from rich.text import Text

    say(console, "\nWhat each held-out digit (row) was read as (column)", "bold")
    table = Table(box=None, padding=(0, 1), header_style="dim")
    for title in ("", *map(str, range(data.CLASSES))):
        table.add_column(title, justify="right", style=None if title else "dim")
    for digit, row in enumerate(counts):
        cells = [
            Text(str(n) if n else ".", "bold green" if digit == j else "red" if n else "dim") for j, n in enumerate(row)
        ]
        table.add_row(f" {digit}", *cells)
    console.print(table)


def show_operators(console: Console, profiler: tp.profiler.profile) -> None:
    """Prints calls and time of each operator, those with the most time of their own first."""
    say(console, "\nThe operators of the last epoch (profiled, so on the slow path)", "bold")
    for line in profiler.key_averages().table(OPERATORS_SHOWN).splitlines():
        say(console, f"  {line}")
