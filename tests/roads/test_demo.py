"""``tensorplay demo``: its data is what it says, the network learns it on every device, and the output says so too."""

from __future__ import annotations

import hashlib
import io
import json
import subprocess
import sys
from importlib.resources import files

import pytest
from rich.console import Console

import tensorplay as tp
from tensorplay.demo import data, run

ACCURACY = 0.96


def quiet() -> Console:
    return Console(quiet=True)


def test_the_data_is_the_uci_set_unchanged() -> None:
    digits = data.load()
    lines = [",".join(map(str, [*image, label])) for image, label in zip(digits.images, digits.labels, strict=True)]
    text = "\n".join(lines) + "\n"
    assert (
        hashlib.sha256(text.encode()).hexdigest() == "6ebb3d2fee246a4e99363262ddf8a00a3c41bee6014c373ed9d9216ba7f651b8"
    )
    assert [digits.labels.count(d) for d in range(10)] == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]
    assert {len(image) for image in digits.images} == {64}
    assert {pixel for image in digits.images for pixel in image} == set(range(17))


def test_the_data_has_its_attribution_beside_it() -> None:
    text = files("tensorplay.demo").joinpath("DIGITS.md").read_text(encoding="utf-8")
    for needed in ("Alpaydin", "Kaynak", "UCI Machine Learning Repository", "10.24432/C50P49", "CC BY 4.0"):
        assert needed in text


def test_the_split_is_stratified_and_seeded() -> None:
    labels = data.load().labels
    train, test = data.split(labels, seed=3)
    assert sorted(train + test) == list(range(1797))
    assert abs(len(test) / 1797 - 0.2) < 0.005
    for digit in range(10):
        held_out = sum(labels[i] == digit for i in test)
        assert abs(held_out / labels.count(digit) - 0.2) < 0.005
    assert data.split(labels, seed=3) == (train, test)
    assert data.split(labels, seed=4) != (train, test)


@pytest.mark.parametrize(("device", "seed"), [("cpu", 0), ("cpu", 1), ("loopback", 2)])
def test_learns_to_read_digits(device: str, seed: int) -> None:
    result = run(device, seed=seed, console=quiet())
    assert result["accuracy"] >= ACCURACY
    assert result["losses"][-1] < result["losses"][0]
    assert sum(map(sum, result["confusion"])) == result["tested"] == 359


def test_the_same_seed_gives_the_same_result() -> None:
    results = [run("cpu", epochs=2, seed=5, console=quiet()) for _ in range(2)]
    for key in ("losses", "accuracy", "confusion"):
        assert results[0][key] == results[1][key]
    assert run("cpu", epochs=2, seed=6, console=quiet())["losses"] != results[0]["losses"]


def test_the_road_is_what_happened() -> None:
    steps = run("loopback", epochs=1, console=quiet())["road"]
    assert [(s["depth"], s["op"], s["key"], s["distribution"]) for s in steps] == [
        (0, "add", "AutogradLoopback", "tensorplay-core"),
        (1, "add", "Loopback", "tensorplay-loopback"),
    ]
    assert all(":" in s["where"] for s in steps)


def test_counts_the_operators_of_one_epoch() -> None:
    operators = {row["name"]: row for row in run("cpu", epochs=1, console=quiet())["operators"]}
    batches = -(-1438 // 32)
    assert operators["linear"]["calls"] == 2 * batches
    assert operators["relu"]["calls"] == operators["cross_entropy"]["calls"] == batches
    assert operators["matmul"]["total_seconds"] > 0


def test_a_pipe_gets_plain_lines() -> None:
    out = io.StringIO()
    run("cpu", epochs=4, console=Console(file=out, width=80))
    text = out.getvalue()
    assert "\x1b" not in text and "\r" not in text
    for part in ("The backends", "AutogradCPU: AddBackward of tensorplay-core", "epoch 3 of 4: loss", "test accuracy"):
        assert part in text
    assert max(map(len, text.splitlines())) <= 100


def test_a_terminal_gets_a_bar_with_the_loss() -> None:
    out = io.StringIO()
    run("cpu", epochs=1, console=Console(file=out, width=80, force_terminal=True))
    assert "learning" in out.getvalue() and "0/45" in out.getvalue() and "epoch 1 of 1" not in out.getvalue()


def test_a_device_that_cannot_be_used_says_why() -> None:
    with pytest.raises(tp.DeviceUnavailable, match="Did you mean 'loopback'"):
        run("loopbak", epochs=1, console=quiet())


def test_the_command_prints_json_alone() -> None:
    command = [sys.executable, "-m", "tensorplay", "demo", "--epochs", "1", "--seed", "2", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    result = json.loads(done.stdout)
    assert result["device"] == "cpu" and result["seed"] == 2 and result["accuracy"] > 0.5


def test_the_demo_and_its_data_are_not_loaded_before_they_are_asked_for() -> None:
    code = "import sys, tensorplay; assert not [m for m in sys.modules if m.startswith('tensorplay.demo')]"
    subprocess.run([sys.executable, "-c", code], check=True)
