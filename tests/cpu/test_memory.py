from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tensorplay_core.errors import EnvironmentVariableError
from tensorplay_cpu.memory import THEIRS, VARIABLE, keep_memory

GLIBC = sys.platform == "linux" and "CS_GNU_LIBC_VERSION" in os.confstr_names
PROGRAM = """
import resource
import tensorplay as tp

x = tp.ones(1 << 19, dtype=tp.float32)  # 2 MB


def round_of_results():
    return sum(float(y[0]) for y in [x + x for _ in range(8)])


for _ in range(3):
    round_of_results()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(10):
    round_of_results()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(**settings: str) -> int:
    environment = {name: value for name, value in os.environ.items() if name not in (*THEIRS, VARIABLE)}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment | settings, capture_output=True, text=True, check=True
    )
    return int(done.stdout)


@pytest.mark.skipif(not GLIBC, reason="what a libc does with freed memory is its own affair; mallopt is glibc's")
def test_results_of_a_loop_use_the_memory_of_those_before() -> None:
    assert faults() < 200


@pytest.mark.skipif(not GLIBC, reason="what a libc does with freed memory is its own affair; mallopt is glibc's")
def test_the_environment_leaves_it_to_glibc() -> None:
    pages = 10 * 8 * (2 << 20) // os.sysconf("SC_PAGE_SIZE")
    assert faults(**{VARIABLE: "0"}) > pages // 100


@pytest.mark.parametrize("name", THEIRS)
def test_settings_of_glibc_itself_are_left_alone(name: str) -> None:
    assert not keep_memory({name: "1"})


def test_zero_turns_it_off_and_nonsense_is_refused() -> None:
    assert not keep_memory({VARIABLE: "0"})
    with pytest.raises(
        EnvironmentVariableError, match=rf"{VARIABLE} is 1 .* or 0 .*, not 'yes'\nfix: correct or unset"
    ):
        keep_memory({VARIABLE: "yes"})
