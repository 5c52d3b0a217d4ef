"""Bisect finds each of twelve planted faults, names its line, writes a program that shows it, and finds no other."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

HERE = Path(__file__).parent / "programs"
TENSORPLAY = str(Path(sysconfig.get_path("scripts")) / "tensorplay")
sys.path.insert(0, str(HERE))
import faults  # noqa: E402

EXPECTED = {name: (operator, kernel.__code__.co_firstlineno) for name, (operator, kernel) in faults.PLANTED.items()}


def run(*command, cwd, fault=""):
    environment = {**os.environ, "PLANTED_FAULT": fault}
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False, timeout=300)


def bisect(*options, cwd, fault="", script="program.py"):
    return run(TENSORPLAY, "bisect", str(HERE / script), "--device", "loopback", *options, cwd=cwd, fault=fault)


def line_of(text):
    return next(i for i, line in enumerate((HERE / "program.py").read_text().splitlines(), 1) if text in line)


USED = {
    "a gelu tail": "h = F.gelu",
    "a stale view": "flipped = ",
    "backward only": "loss.backward()",
    "not contiguous": "waves = ",
    "one dtype": "half = ",
    "the last block": "waves = ",
    "NaN": "most = ",
    "in place": "total.add_",
    "0-d": "whole = ",
    "empty": "whole = ",
    "broadcast": "scaled = ",
    "index": "last = ",
}


@pytest.mark.parametrize("fault", EXPECTED)
def test_each_fault_is_named_with_its_line_and_shown(fault, tmp_path):
    done = bisect("--json", "--output", str(tmp_path / "shows.py"), cwd=tmp_path, fault=fault)
    assert done.returncode == 1, done.stderr
    (found,) = json.loads(done.stdout)["findings"]
    operator, line = EXPECTED[fault]
    assert found["operator"] == f"tp::{operator.partition('.')[0]}"
    assert found["where"] == f"{HERE / 'faults.py'}:{line}"
    assert found["distribution"] == "faults"
    assert found["program"] == f"{HERE / 'program.py'}:{line_of(USED[fault])}"
    assert bool(found["node"]) is (fault == "backward only")
    text = (tmp_path / "shows.py").read_text()
    assert len([one for one in text.splitlines() if one.strip()]) <= 16
    shown = run(sys.executable, "shows.py", cwd=tmp_path, fault=fault)
    assert shown.returncode == 1, (text, shown.stderr)
    assert "AssertionError" in shown.stderr, (text, shown.stderr)
    right = run(sys.executable, "shows.py", cwd=tmp_path)  # and it is the fault that it shows
    assert right.returncode == 0, (text, right.stderr)


def test_a_right_device_is_left_alone(tmp_path):
    done = bisect(cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "the program has ended" in done.stdout
    assert done.stdout.endswith(": 0 findings\n")
    assert not list(tmp_path.iterdir())


def test_the_report_goes_on_and_lists_each_kernel_once(tmp_path):
    script = tmp_path / "two.py"
    script.write_text(
        f"import sys; sys.path.insert(0, {str(HERE)!r})\n"
        "import faults, tensorplay as tp\n"
        "faults.plant('0-d'); faults.plant('NaN')\n"
        "for _ in range(3):\n"
        "    y = tp.tensor(0.5).cos()\n"
        "    z = tp.maximum(tp.tensor([tp.nan]), tp.tensor([1.0]))\n"
        "assert abs(y.item() - 0.8775826) < 1e-6, y\n"  # what was wrong goes on right
        "assert z.isnan().all()\n"
    )
    done = run(TENSORPLAY, "bisect", "two.py", "--device", "loopback", "--report", cwd=tmp_path)
    assert done.returncode == 1, done.stdout + done.stderr
    assert done.stdout.count("tp::cos.default") == 1
    assert done.stdout.count("tp::maximum.default") == 1
    assert "two.py:5" in done.stdout
    assert "two.py:6" in done.stdout
    assert {path.name for path in tmp_path.iterdir() if path.suffix == ".py"} == {
        "two.py",
        "bisect_cos_loopback.py",
        "bisect_maximum_loopback.py",
    }


def test_a_larger_budget_lets_a_small_error_pass(tmp_path):
    done = bisect("--budget", "1e9", cwd=tmp_path, fault="one dtype")
    assert done.returncode == 0, done.stdout
    for wrong in ("0", "-1"):
        assert bisect("--budget", wrong, cwd=tmp_path).returncode == 2


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--against", "loopback"), "both loopback"),
        (("--against",), "requires an argument"),
    ],
)
def test_wrong_usage_is_2(options, said, tmp_path):
    done = bisect(*options, cwd=tmp_path)
    assert done.returncode == 2
    assert said in done.stderr


def test_no_script_and_no_device(tmp_path):
    assert bisect(script="nothing.py", cwd=tmp_path).returncode == 2
    done = run(TENSORPLAY, "bisect", str(HERE / "program.py"), "--device", "nowhere", cwd=tmp_path)
    assert done.returncode == 2, "as for everything that was mistyped; 1 would say that a kernel is wrong"
    assert "nowhere" in done.stderr


def test_a_script_that_fails_by_itself_is_2(tmp_path):
    (tmp_path / "fails.py").write_text("import tensorplay as tp\ntp.ones(2) + tp.ones(3)\n")
    done = run(TENSORPLAY, "bisect", "fails.py", "--device", "loopback", cwd=tmp_path)
    assert done.returncode == 2
    assert "raised ShapeError after" in done.stderr


def test_a_report_says_too_that_the_script_has_failed(tmp_path):
    (tmp_path / "fails.py").write_text(
        f"import sys; sys.path.insert(0, {str(HERE)!r})\n"
        "import faults, tensorplay as tp\n"
        "faults.plant('0-d')\n"
        "tp.tensor(0.5).cos()\n"
        "tp.ones(2) + tp.ones(3)\n"
    )
    done = run(TENSORPLAY, "bisect", "fails.py", "--device", "loopback", "--report", cwd=tmp_path)
    assert done.returncode == 1
    assert "tp::cos.default" in done.stdout
    assert "Traceback" in done.stderr and "fails.py raised ShapeError after" in done.stderr
    assert "and 1 finding" in done.stderr


def test_what_a_script_does_after_the_first_finding_is_not_compared(tmp_path):
    (tmp_path / "cleans.py").write_text(
        f"import sys; sys.path.insert(0, {str(HERE)!r})\n"
        "import faults, tensorplay as tp\n"
        "faults.plant('0-d'); faults.plant('NaN')\n"
        "try:\n"
        "    tp.tensor(0.5).cos()\n"
        "finally:\n"
        "    tp.maximum(tp.tensor([tp.nan]), tp.tensor([1.0]))\n"
    )
    done = run(TENSORPLAY, "bisect", "cleans.py", "--device", "loopback", "--json", cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    assert [one["operator"] for one in json.loads(done.stdout)["findings"]] == ["tp::cos"]


def test_random_calls_are_not_compared_and_said(tmp_path):
    (tmp_path / "draws.py").write_text(
        "import os, sys, tensorplay as tp\n"
        "assert os.environ['TENSORPLAY_BISECT_DEVICE'] == 'loopback'\n"
        "assert sys.argv[1:] == ['a', '--b']\n"
        "x = tp.rand(3)\n"
        "assert x.device.type == 'loopback'\n"
        "y = x * 2\n"
    )
    done = run(TENSORPLAY, "bisect", "draws.py", "--device", "loopback", "--json", "--", "a", "--b", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["skipped"] == {"rand": 1}
    assert found["compared"] >= 1


@pytest.mark.parametrize(("device", "steps"), [("loopback", 10), ("vulkan", 1)])
def test_no_false_alarm_in_the_training_of_a_network(device, steps, tmp_path):
    import tensorplay as tp

    if not tp.backends.is_available(device):
        pytest.skip(f"{device} cannot start here")
    done = run(
        TENSORPLAY, "bisect", str(HERE / "digits_cnn_steps.py"), "--device", device, "--", str(steps), cwd=tmp_path
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{steps} steps, loss" in done.stdout
