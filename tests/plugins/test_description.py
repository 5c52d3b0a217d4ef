"""Plugins whose ``backend.yaml`` is wrong, or says that they are for another TensorPlay: told without running them."""

from __future__ import annotations

import zipfile
from typing import Any

BAD = "tp.ones(2, device='bad')"
HEAD = "Device 'bad' cannot be used: its backend (tensorplay-bad 1.0) is broken: its description cannot be used: "
FILE = "tensorplay_bad/backend.yaml"
BOMB = ", ".join(f"&{b} [{', '.join([f'*{a}'] * 9)}]" for a, b in ("xa", "ab", "bc", "cd", "de", "ef", "fg", "gh"))

WRONG = {
    "summary: [1, 2\npriority: 3": ":2: not valid YAML: while parsing a flow sequence, did not find expected ','",
    "- api\n- summary": ":1: must be a mapping of fields, got list",
    "just text": ":1: must be a mapping of fields, got str",
    "priorty: 3": ":1: unknown field 'priorty'. Did you mean 'priority'?",
    "zzz: 3": ":1: unknown field 'zzz'. The fields are summary, api, priority, extends,",
    "priority: 1\nviews: true\npriority: 2": ":3: the field 'priority' is given twice, first in line 1",
    "summary: x\n---\nsummary: y": ":2: not valid YAML: expected a single document in the stream, but found another",
    "summary: !!python/object/apply:os.system ['exit']": ":1: not valid YAML: could not determine a constructor",
    "\0\1\2": ":1: not valid YAML: control characters are not allowed",
    f"summary: [{BOMB.replace('*x', 'x')}]": ":1: summary must be one line of text, got [[",
    "summary: " + "x" * 100_000: " is too large: a description has at most 65,536 bytes",
}


def test_a_file_that_means_nothing_is_told_with_its_line_and_no_code_runs(environment: Any) -> None:
    environment.install("bad", "raise SystemExit('it ran')", device=False, yaml="summary: x")
    for text, told in WRONG.items():
        environment.rewrite("bad", text, file="backend.yaml")
        seen = environment.sees(BAD, "bad")
        assert seen.message.startswith(f"{HEAD}{FILE}{told}"), seen.message
        assert len(seen.message) < 2000
        assert seen.fix == "correct that file if you wrote it; otherwise report it to the authors of tensorplay-bad"
        assert (seen.record["state"], seen.record["stage"]) == ("error", "describe")
        assert seen.cause.startswith("BackendError: tensorplay_bad/backend.yaml")


def test_all_wrong_fields_are_told_at_once(environment: Any) -> None:
    environment.install(
        "bad",
        yaml="summary: 3\napi: 1\npriority: high\nextends: cpu\nmutable: 'no'\nrequirements: some\nurl: example.com",
    )
    seen = environment.sees(BAD, "bad")
    many = "a list of device types or layouts, each a lowercase identifier (or '*' for every device)"
    head, *told = seen.message.partition("\nfix: ")[0].split("\n  - ")
    assert head == f"{HEAD}it has several problems:"
    assert [one.partition(", got ")[0] for one in told] == [
        f"{FILE}:1: summary must be one line of text",
        f'{FILE}:2: api must be a range in quotes such as ">=1,<2" (operators: >= <= > < == != ~=)',
        f"{FILE}:3: priority must be an integer",
        f"{FILE}:4: extends must be {many}",
        f"{FILE}:5: mutable must be true or false",
        f"{FILE}:6: requirements must be a list of texts",
        f"{FILE}:7: url must be an address that starts with https:// or http://",
    ]


def test_an_empty_file_is_fine(environment: Any) -> None:
    environment.install("bad", yaml="# nothing yet")
    for text in ("# nothing yet", ""):
        environment.rewrite("bad", text, file="backend.yaml")
        ones, api = environment.gives("give([tp.ones(2, device='bad').tolist(), tp.backends.info('bad').info.api])")
        assert (ones, api) == ([1.0, 1.0], ">=1,<2")


def test_a_file_that_the_wheel_lacks_is_told_with_what_to_do(environment: Any) -> None:
    wheel = environment.build("bad", yaml="summary: x")
    whole = wheel.rename(wheel.with_suffix(".whole"))
    with zipfile.ZipFile(whole) as before, zipfile.ZipFile(wheel, "w") as after:  # as a build that forgets data does
        for name in before.namelist():
            if not name.endswith((".yaml", "RECORD")):
                after.writestr(name, before.read(name))
        record = next(name for name in before.namelist() if name.endswith("RECORD"))
        lines = before.read(record).decode().splitlines(keepends=True)
        after.writestr(record, "".join(line for line in lines if ".yaml" not in line))
    environment.pip("install", "--no-deps", wheel)
    seen = environment.sees(BAD, "bad")
    assert seen.message.startswith(f"{HEAD}{FILE} does not exist: it was left out of the distribution\nfix: ")
    assert seen.fix == (
        "put that file into the wheel as data of the package if you wrote it; otherwise report it to the authors of"
        " tensorplay-bad"
    )
    assert seen.record["state"] == "error"


def test_a_plugin_for_another_api_is_told_and_its_module_is_not_imported(environment: Any) -> None:
    environment.install(
        "bad", "raise SystemExit('it ran')", device=False, yaml="api: '>=2'\nurl: https://example.com/bad\n"
    )
    seen = environment.sees(BAD, "bad")
    assert seen.message == (
        "Device 'bad' cannot be used: its backend (tensorplay-bad 1.0) is incompatible: it needs plugin API >=2, and"
        " this TensorPlay has 1.0\nfix: use a release of tensorplay-bad for plugin API 1.0, or another release of"
        " TensorPlay"
    )
    assert (seen.kind, seen.cause, seen.record["state"]) == ("BackendError", "", "incompatible")
    use = "import sys; raised(lambda: tp.ones(2, device='bad')); tp.backends.list()"
    assert environment.gives(f"{use}; give([name for name in sys.modules if 'tensorplay_bad' in name])") == []
