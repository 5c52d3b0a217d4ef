"""Plugins whose module cannot be imported, or does odd things then: the user reads whose fault it is and where."""

from __future__ import annotations

import json
from typing import Any

BAD = "tp.ones(2, device='bad')"
HEAD = "Device 'bad' cannot be used: its backend (tensorplay-bad 1.0) is broken: "


def test_a_missing_module_is_named_with_its_distribution_and_chained(environment: Any) -> None:
    """Case B01."""
    environment.install("bad", "import no_such_lib", device=False)
    seen = environment.sees(BAD, "bad")
    assert seen.kind == "BackendError"
    assert "Device 'bad' cannot be used: its backend (tensorplay-bad 1.0) is broken" in seen.message
    assert "No module named 'no_such_lib'" in seen.message
    assert seen.cause == "ModuleNotFoundError: No module named 'no_such_lib'"
    assert "pip install" not in seen.fix
    listed = environment.tensorplay("backends", "list", "--json")
    assert (listed.code, listed.err) == (0, "")
    assert {row["name"]: row["state"] for row in json.loads(listed.out)}["bad"] == "error"
    assert environment.tensorplay("backends", "doctor").code == 1


RAISES = [
    ("raise ValueError('no vendor file')", "its module raised ValueError: no vendor file (tensorplay_bad/plugin.py:5)"),
    ("import sys; sys.exit('go')", "its module raised SystemExit: go (tensorplay_bad/plugin.py:5)"),
    ("raise GeneratorExit", "its module raised GeneratorExit (tensorplay_bad/plugin.py:5)"),
    ("def broken(:\n    pass", "its module raised SyntaxError: invalid syntax (tensorplay_bad/plugin.py:5)"),
    ("\n\nraise OSError('one\\ntwo')", "its module raised OSError: one (tensorplay_bad/plugin.py:7)\n  two"),
    ("x = 1\0", "null bytes (at the import of tensorplay_bad.plugin)"),
]


def test_whatever_the_module_raises_is_told_with_its_place(environment: Any) -> None:
    environment.install("bad", device=False)
    for source, told in RAISES:
        environment.rewrite("bad", source)
        seen = environment.sees(BAD, "bad")
        assert seen.kind == "BackendError"
        assert seen.message.startswith(HEAD) and told in seen.message, seen.message
        assert seen.fix == (
            "report it to the authors of tensorplay-bad, with the text of tensorplay.backends.info('bad').traceback;"
            " when it is mended, call tensorplay.backends.refresh()"
        )
        assert (seen.record["state"], seen.record["stage"]) == ("error", "import")
        assert seen.cause.partition(":")[0] in seen.record["traceback"]


def test_exceptions_without_a_text_or_with_too_much_of_it_are_readable(environment: Any) -> None:
    environment.install("bad", "class Odd(Exception):\n    __str__ = None\nraise Odd", device=False)
    seen = environment.sees(BAD, "bad")
    assert "its module raised Odd: (no text: its __str__ raised TypeError) (tensorplay_bad/plugin.py:7)" in seen.message

    environment.rewrite("bad", "raise ExceptionGroup('two libraries', [OSError('liba'), ValueError('libb')])")
    assert "(tensorplay_bad/plugin.py:5)\n  - OSError: liba\n  - ValueError: libb\n" in environment.sees(BAD).message

    environment.rewrite("bad", "raise ValueError('word ' * 100_000 + 'last')")
    seen = environment.sees(BAD, "bad")
    assert len(seen.message) < 2000
    assert "word … (500,004 characters, whole in its traceback) (tensorplay_bad/plugin.py:5)" in seen.message
    assert "word last" in seen.record["traceback"]

    environment.rewrite("bad", "raise RuntimeError('the dongle is not plugged in\\nfix: plug it in')")
    assert environment.sees(BAD).fix == "plug it in"  # its author knows better


MISSING = [
    (
        "import tensorplay_bad.kernels",
        "ModuleNotFoundError: No module named 'tensorplay_bad.kernels' (tensorplay_bad/plugin.py:5)",
        "its files are incomplete: reinstall tensorplay-bad, or report it to the authors of tensorplay-bad",
    ),
    (
        "import numpy.no_such",
        "ModuleNotFoundError: No module named 'numpy.no_such'",
        "use a release of 'numpy' that has the module 'numpy.no_such', as tensorplay-bad documents",
    ),
    (
        "from numpy import no_such",
        "ImportError: cannot import name 'no_such' from 'numpy'",
        "use a release of 'numpy' that works, as tensorplay-bad documents",
    ),
    (
        "import ctypes; ctypes.CDLL('libtoy.so.3')",
        "OSError: libtoy.so.3: cannot open shared object file",
        "install the system library 'libtoy.so.3', as tensorplay-bad documents",
    ),
    (
        "raise ImportError('DLL load failed while importing _toy: The specified module could not be found.')",
        "ImportError: DLL load failed while importing _toy",
        "install the system library '_toy', as tensorplay-bad documents",
    ),
]


def test_what_is_missing_is_named_in_the_remedy(environment: Any) -> None:
    environment.install("bad", device=False)
    for source, told, remedy in MISSING:
        environment.rewrite("bad", source)
        seen = environment.sees(BAD, "bad")
        assert seen.message.startswith(f"{HEAD}its module raised {told}"), seen.message
        assert seen.fix.startswith(remedy), seen.fix
        assert "pip install" not in seen.fix


def test_an_interrupt_is_the_users_in_the_main_thread_and_the_plugins_in_any_other(environment: Any) -> None:
    environment.install("bad", "raise KeyboardInterrupt", device=False)
    kind, state, told = environment.gives(
        """
        import threading
        kind = raised(lambda: tp.ones(2, device="bad"))[0]
        state = str(tp.backends.info("bad").state)
        cpu_works()
        told = []
        worker = threading.Thread(target=lambda: told.append(raised(lambda: tp.ones(2, device="bad"))))
        worker.start(); worker.join()
        told.append(raised(lambda: tp.ones(2, device="bad")))
        cpu_works()
        give([kind, state, told])
        """
    )
    assert (kind, state) == ("KeyboardInterrupt", "discovered")  # a new try is possible
    assert told[0] == told[1]
    assert told[0][1].startswith(f"{HEAD}its module raised KeyboardInterrupt (tensorplay_bad/plugin.py:5)\nfix: ")


def test_what_a_module_prints_and_warns_reaches_the_user_and_never_the_json(environment: Any) -> None:
    environment.install(
        "bad", "import sys, warnings\nprint('hello')\nprint('to stderr', file=sys.stderr)\nwarnings.warn('careful')"
    )
    done = environment.run("give(tp.ones(2, device='bad').tolist())")
    assert (done.code, done.result) == (0, [1.0, 1.0])
    assert done.out.startswith("hello\n") and "to stderr" in done.err and "UserWarning: careful" in done.err
    for command in ("list", "info"):
        listed = environment.tensorplay("backends", command, *["bad"] * (command == "info"), "--json")
        assert listed.code == 0
        rows = json.loads(listed.out)  # and nothing before or after it
        assert (rows if command == "info" else {row["name"]: row for row in rows}["bad"])["state"] == "active"
        assert "hello" in listed.err


def test_a_module_that_ends_the_process_does_so_only_when_its_device_is_used(environment: Any) -> None:
    """Out of reach, but what runs no code of it works, and blocking it helps."""
    environment.install("bad", "import os\nos._exit(7)", device=False)
    assert environment.run("tp.ones(2, device='bad')").code == 7
    assert environment.gives("give(tp.backends.list(load=False)[0].name)") == "bad"
    seen = environment.sees(BAD, "bad", TENSORPLAY_BACKENDS_BLOCK="bad")
    assert "Device 'bad' cannot be used: its backend (tensorplay-bad 1.0) is blocked" in seen.message
    assert environment.tensorplay("backends", "list", TENSORPLAY_BACKENDS_BLOCK="bad").code == 0


def test_a_module_may_import_tensorplay_and_use_the_cpu(environment: Any) -> None:
    environment.install(
        "bad", "import tensorplay as tp\nTABLE = tp.arange(3) * 2\nassert TABLE.tolist() == [0, 2, 4]\n"
    )
    assert environment.gives("give([tp.ones(2, device='bad').tolist(), tp.backends.info('bad').state])") == [
        [1.0, 1.0], "active",
    ]  # fmt: skip
    first = "import tensorplay_bad.plugin\nimport json\nimport tensorplay as tp\n"
    assert "tensor([1., 1.], device='bad:0')" in environment.run("print(tp.ones(2, device='bad'))", before=first).out


def test_a_module_that_uses_its_own_device_is_told_where(environment: Any) -> None:
    environment.install("bad", "import tensorplay as tp\nTABLE = tp.ones(3, device='bad')\n")
    seen = environment.sees(BAD, "bad")
    assert seen.message.startswith(HEAD)
    assert "Backend 'bad' is used while it is still being loaded (bad → bad)." in seen.message
    assert "(tensorplay_bad/plugin.py:7)" in seen.message
    assert seen.fix == "let 'bad' create tensors after it was loaded, not at import or in a hook"


def test_six_bad_plugins_at_once_leave_the_import_silent_and_quick_and_the_list_whole(environment: Any) -> None:
    environment.install("one", "1 / 0", device=False)
    environment.install("two", "import no_such_lib", device=False)
    environment.install("three", "def tensorplay_unload(): pass")
    environment.install("four", "raise SystemExit", device=False, yaml="api: '>=9'")
    environment.install("five", yaml="priorty: 3")
    environment.install("six", "@library_impl('six')\ndef _(m): m.impl('ad', numpy.add)")
    (environment.site / "tensorplay_one-1.0.dist-info" / "METADATA").unlink()
    done = environment.run(
        """
        import sys
        import tensorplay as tp
        slow = {"attrs", "attr", "pluggy", "yaml", "numpy", "importlib.metadata", "inspect", "rich", "click"}
        ours = [name for name in sys.modules if name.startswith("tensorplay_") and name.endswith("plugin")]
        print(sorted(slow & {*sys.modules}), ours)
        """,
        before="",
    )
    assert (done.code, done.out, done.err) == (0, "[] []\n", "")
    listed = environment.tensorplay("backends", "list", "--json")
    assert (listed.code, listed.err) == (0, "")
    states = {row["name"]: row["state"] for row in json.loads(listed.out)}
    assert {name: states.pop(name) for name in ("one", "two", "three", "four", "five", "six")} == {
        "one": "error", "two": "error", "three": "error", "four": "incompatible", "five": "error", "six": "error",
    }  # fmt: skip
    assert states["cpu"] == states["composite"] == "active"
    shown = environment.tensorplay("backends", "list")
    assert (shown.code, shown.err) == (0, "")
    for name in ("one", "two", "three", "four", "five", "six"):
        assert f"\n{name} " in f"\n{shown.out}"
    assert max(map(len, shown.out.splitlines())) <= 80
    assert environment.gives("give(raised(lambda: tp.ones(2, device='six'))[1])").count("\nfix: ") == 1
