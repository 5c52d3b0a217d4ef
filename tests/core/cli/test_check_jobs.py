"""The suite in several processes finds what it finds in one, in the same order, and says how far it is."""

from __future__ import annotations

import json

from click.testing import CliRunner

from tensorplay_core.cli import check_jobs, main
from tensorplay_core.testing.suite import checks
from tensorplay_core.testing.suite.subject import Subject, chosen

NAMES = ("neg", "exp", "max.dim")


def test_two_processes_find_what_one_finds_in_the_order_of_the_operators():
    operators = chosen(NAMES)
    told: list[tuple[str, str]] = []
    subject = Subject("loopback", seed=3, quick=True, profile=checks.profile_of("loopback"))
    steps = checks.steps(operators, device=False, quick=True)
    run = check_jobs.Run("loopback", None, 3, True)
    found = list(check_jobs.outcomes(run, [*operators], steps, 2, lambda name, area: told.append((name, area))))
    assert found == list(checks.run(subject, operators, device=False))
    assert sorted(told) == sorted(steps)
    names = [name for name, _ in told]
    assert all(names.index(name) + names.count(name) - 1 == len(names) - 1 - names[::-1].index(name) for name in names)


def test_a_device_made_of_a_module_is_made_in_each_process():
    words = ["backends", "check", "--namespace", "array_api_strict", "--op", "neg", "--quick", "--jobs", "2", "--json"]
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert found["ok"] and found["namespace"] == "array_api_strict" and set(found["table"]) == {"neg"}


def test_as_many_processes_as_processors_and_no_more_than_a_few():
    assert 1 <= check_jobs.default_jobs() <= check_jobs.MOST
