from __future__ import annotations

import warnings

import pytest

from tensorplay_core.errors import EnvironmentVariableError
from tensorplay_core.plugins.environment import Settings, check_names, read, warn_of_unknown


def test_nothing_set_means_everything_is_allowed() -> None:
    assert read({}) == Settings()
    assert read({"TENSORPLAY_BACKENDS": " ", "TENSORPLAY_BACKEND_AUTOLOAD": ""}) == Settings()


def test_allow_block_priority_and_autoload() -> None:
    settings = read(
        {
            "TENSORPLAY_BACKENDS": "cpu, cuda",
            "TENSORPLAY_BACKENDS_BLOCK": "cuda",
            "TENSORPLAY_BACKENDS_PRIORITY": "foo=10, bar=-5",
            "TENSORPLAY_BACKEND_AUTOLOAD": "0",
        }
    )
    assert settings.blocked("cpu") == ""
    assert settings.blocked("composite") == ""
    assert settings.blocked("cuda") == "TENSORPLAY_BACKENDS_BLOCK names it"
    assert settings.blocked("cpux") == "TENSORPLAY_BACKENDS=cpu,cuda does not name it"
    assert settings.priority == {"foo": 10, "bar": -5}
    assert settings.autoload is False


@pytest.mark.parametrize(
    ("variable", "value", "valid"),
    [
        ("TENSORPLAY_BACKENDS", "cpu;cuda", "such as cpu,cuda"),
        ("TENSORPLAY_BACKENDS", "cpu,,cuda", "such as cpu,cuda"),
        ("TENSORPLAY_BACKENDS_BLOCK", "CUDA", "such as cpu,cuda"),
        ("TENSORPLAY_BACKENDS_PRIORITY", "foo", "such as foo=10"),
        ("TENSORPLAY_BACKENDS_PRIORITY", "foo=high", "such as foo=10"),
        ("TENSORPLAY_BACKEND_AUTOLOAD", "yes", "0 (load only"),
        ("TENSORPLAY_FALLBACK", "wran", "Did you mean 'warn'? Valid values are raise (the default), warn and allow"),
        ("TENSORPLAY_FALLBACK", "1", "Valid values are raise (the default), warn and allow"),
        ("TENSORPLAY_TRACE", "yes", "0 (the default) and 1 (print"),
        ("TENSORPLAY_BACKEND_TIMEOUT", "soon", "numbers above 0 up to 1,000,000, such as 60 (the default), and 0 for"),
        ("TENSORPLAY_BACKEND_TIMEOUT", "-1", "and 0 for no limit"),
        ("TENSORPLAY_BACKEND_TIMEOUT", "inf", "and 0 for no limit"),
        ("TENSORPLAY_BACKEND_TIMEOUT", "1e12", "and 0 for no limit"),
    ],
)
def test_a_value_that_means_nothing_lists_the_valid_ones(variable: str, value: str, valid: str) -> None:
    with pytest.raises(EnvironmentVariableError) as caught:
        read({variable: value})
    assert f"{variable}={value!r} means nothing" in str(caught.value)
    assert valid in str(caught.value)
    assert f"\nfix: correct or unset {variable}" in str(caught.value)


def test_an_allowed_name_must_exist() -> None:
    check_names(read({"TENSORPLAY_BACKENDS": "foo,cuda"}), ["foo"])
    with pytest.raises(
        EnvironmentVariableError, match=r"names 'fooo', and no such backend is installed\. Did you mean 'foo'"
    ):
        check_names(read({"TENSORPLAY_BACKENDS": "fooo"}), ["foo"])


def test_a_blocked_name_need_not_be_installed_but_a_slip_is_told() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_names(read({"TENSORPLAY_BACKENDS_BLOCK": "elsewhere,cuda"}), ["foo"])
    with pytest.warns(RuntimeWarning, match="Did you mean 'mydevice'"):
        check_names(read({"TENSORPLAY_BACKENDS_BLOCK": "mydevcie"}), ["mydevice"])


def test_the_variable_that_the_dispatcher_reads_is_checked_with_the_others(monkeypatch):
    monkeypatch.setenv("TP_TRACE_KERNEL_MISS", "yes")
    with pytest.raises(
        EnvironmentVariableError, match=r"(?s)MISS='yes' means nothing.* are 0 \(no trace.*\nfix: correct or unset"
    ):
        read()
    monkeypatch.setenv("TP_TRACE_KERNEL_MISS", "1")
    assert read() is not None


def test_the_other_variables() -> None:
    settings = read(
        {
            "TENSORPLAY_FALLBACK": "warn",
            "TENSORPLAY_TRACE": "1",
            "TP_TRACE_KERNEL_MISS": "0",
            "TENSORPLAY_BACKEND_TIMEOUT": " 2.5 ",
        }
    )
    assert (settings.fallback, settings.trace, settings.trace_kernel_miss, settings.timeout) == (
        "warn",
        True,
        False,
        2.5,
    )
    assert read({"TENSORPLAY_BACKEND_TIMEOUT": "0"}).timeout is None
    assert read({}).timeout == 60.0
    assert settings.sources == dict.fromkeys(("fallback", "trace", "trace_kernel_miss", "timeout"), "environment")
    assert repr(read({"TENSORPLAY_TRACE": "1"})) == "Settings(trace=True from TENSORPLAY_TRACE)"
    assert repr(read({})) == "Settings()"
    plain = read({"TENSORPLAY_BACKENDS": "b,a"}).as_dict()
    assert (plain["allow"], plain["block"], plain["timeout"], plain["sources"]) == (
        ["a", "b"],
        [],
        60.0,
        {"allow": "environment"},
    )


def test_a_variable_that_is_none_of_ours_is_warned_of_with_the_nearest() -> None:
    with pytest.warns(RuntimeWarning) as seen:
        warn_of_unknown(
            {"TENSORPLAY_BACKENDS_BLOK": "x", "TENSORPLAY_BACKENDS": "y", "TENSORPLAY_BACKEND_ZZZZZZZZZZZZ": ""}
        )
    second, first = sorted(str(warning.message) for warning in seen)
    assert "TENSORPLAY_BACKENDS_BLOK is no variable of TensorPlay" in second
    assert second.endswith("Did you mean 'TENSORPLAY_BACKENDS_BLOCK'?")
    assert "ZZZ is no variable" in first
