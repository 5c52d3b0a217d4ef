from __future__ import annotations

import pytest

from tensorplay_core.errors import BackendError
from tensorplay_core.plugins.info import BackendInfo, api_problem, parse

INFO = BackendInfo("foo", "tensorplay-foo")

WHOLE = """
summary: Foo accelerators
api: ">=1,<2"
priority: 7
mutable: false
views: false
requirements: ["a Foo card", "driver 3 or newer"]
url: https://example.org/foo
"""


def test_every_field_is_read() -> None:
    info = parse(INFO, WHOLE, "foo/backend.yaml")
    assert (info.summary, info.api, info.priority) == ("Foo accelerators", ">=1,<2", 7)
    assert (info.mutable, info.views, info.url) == (False, False, "https://example.org/foo")
    assert info.requirements == ("a Foo card", "driver 3 or newer")
    assert info.devices == ("foo",)
    assert info.file == "foo/backend.yaml"


def test_an_extender_owns_no_device() -> None:
    info = parse(INFO, "extends: [cpu, cudalike]", "f")
    assert info.devices == ()
    assert info.extends_device("cpu")
    assert not info.extends_device("cuda")
    assert not info.extends_device("cpux")
    assert parse(INFO, "extends: ['*']", "f").extends_device("anything")
    assert BackendInfo("composite", "tensorplay-composite").devices == ()


def test_an_empty_file_gives_the_defaults() -> None:
    assert parse(INFO, "", "").priority == 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("summary: [a]", "f:1: summary must be one line of text, got ['a']"),
        ("\napi: 1", "f:2: api must be a range in quotes"),
        ('api: ">=one"', "f:1: api must be a range"),
        ('api: ""', "f:1: api must be a range"),
        ("priority: high", "f:1: priority must be an integer, got 'high'"),
        ("priority: true", "f:1: priority must be an integer, got True"),
        ("extends: cpu", "f:1: extends must be a list of device types or layouts"),
        ("extends: [CPU]", "f:1: extends must be a list of device types or layouts"),
        ("mutable: 1", "f:1: mutable must be true or false, got 1"),
        ('views: "no"', "f:1: views must be true or false, got 'no'"),
        ("requirements: [1]", "f:1: requirements must be a list of texts"),
        ("url: example.org", "f:1: url must be an address that starts with https://"),
        ("prioritiy: 3", "f:1: unknown field 'prioritiy'. Did you mean 'priority'?"),
        ("name: foo", "f:1: unknown field 'name'"),
        ("priority: 1\npriority: 2", "f:2: the field 'priority' is given twice, first in line 1"),
        ("- a\n- b", "f:1: must be a mapping of fields, got list"),
        ("a: [", "not valid YAML"),
        ("summary: !!python/object/apply:os.system [ls]", "f:1: not valid YAML"),
        ("summary: a\x00b", "not valid YAML"),
        ("? [a]\n: b", "f:1: not valid YAML"),
    ],
)
def test_each_field_is_checked(text: str, message: str) -> None:
    with pytest.raises(BackendError) as caught:
        parse(INFO, text, "f")
    assert message in str(caught.value)


def test_all_problems_are_told_at_once() -> None:
    with pytest.raises(BackendError) as caught:
        parse(INFO, "priority: x\nviews: 3\nmutabel: true", "f")
    head, *problems = str(caught.value).split("\n  - ")
    assert head == "it has several problems:" and [text.split(":")[1] for text in problems] == ["1", "2", "3"]


@pytest.mark.parametrize("api", [">=1,<2", "==1", "~=1.0", ">0.9", "<=1.0", "!=2", ">= 1.0 , < 1.1"])
def test_api_ranges_that_hold(api: str) -> None:
    assert api_problem(api, "1.0") == ""


@pytest.mark.parametrize("api", [">=2", "<1", "==1.1", "~=2.0", ">1", "!=1.0.0", ">=1.0.1"])
def test_api_ranges_that_do_not_hold(api: str) -> None:
    assert api_problem(api, "1.0") == f"it needs plugin API {api}, and this TensorPlay has 1.0"


def test_compatible_release_fixes_all_but_the_last_number() -> None:
    assert api_problem("~=1.2", "1.9") == ""
    assert api_problem("~=1.2", "2.0") != ""
    assert api_problem("~=1.2.3", "1.3.0") != ""
