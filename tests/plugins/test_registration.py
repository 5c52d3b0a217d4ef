"""Plugins whose registrations are wrong: one error tells every problem with its line, and nothing is registered."""

from __future__ import annotations

import json
from typing import Any

BAD = "tp.ones(2, device='bad')"
ONE = "Device 'bad' cannot be used: its backend (tensorplay-bad 1.0) is broken: its registrations have "


def problems(seen: Any) -> list[str]:
    """Returns the problems that a message lists; they must be its whole middle."""
    head, *listed = seen.message.partition("\nfix: ")[0].split("\n  - ")
    number = f"{len(listed)} problem{'s' * (len(listed) > 1)}"
    assert head == f"{ONE}{number} and none was made:", seen.message
    assert seen.fix == "correct them in tensorplay-bad, or report it to the authors of tensorplay-bad"
    assert (seen.kind, seen.record["state"], seen.record["stage"]) == ("BackendError", "error", "register")
    assert seen.record["registrations"] == 0
    return listed


def owners(environment: Any, op: str) -> dict[str, list[str]]:
    """Returns who is registered for an operator, by key, as the command line shows it."""
    shown = environment.tensorplay("ops", "show", op, "--json")
    assert shown.code == 0, shown.err
    found: dict[str, list[str]] = {}
    for row in json.loads(shown.out)["slots"]:
        found.setdefault(row["slot"], []).append(row["distribution"])
    return found


def test_an_unknown_operator_is_told_with_the_nearest_names(environment: Any) -> None:
    environment.install(
        "bad", "@library_impl('bad')\ndef _(m):\n    m.impl('ad', numpy.add)\n    m.impl('max.dimm', numpy.max)\n"
    )
    file = environment.site / "tensorplay_bad" / "plugin.py"
    first, second = problems(environment.sees(BAD, "bad"))
    assert first.startswith(f"ad at Bad ({file}:8")
    assert first.endswith("): there is no operator 'ad'. Did you mean 'pad' or 'add' or 'rand'?")
    assert second.startswith(f"max.dimm at Bad ({file}:9")
    assert second.endswith("): there is no operator 'max.dimm'. Did you mean 'max.dim' or 'maximum' or 'var.dim'?")


def test_a_wrong_signature_is_told_with_both_signatures(environment: Any) -> None:
    environment.install(
        "bad",
        """
        def three(a, b, c): ...
        def wrong(a, dim): ...
        @library_impl("bad")
        def _(m):
            m.impl("add", three)
            m.impl("mul", numpy.negative)
            m.impl("sum", wrong)
            m.impl("neg", "numpy.negative")
        SPECIAL = dict.fromkeys(("add", "mul", "sum", "neg"))
        """,
    )
    file = environment.site / "tensorplay_bad" / "plugin.py"
    told = problems(environment.sees(BAD, "bad"))
    add = "add(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"
    assert told[0].startswith(f"add at Bad ({file}:6")
    assert f"): the kernel's signature is (a, b, c), the operator is {add}: " in told[0]
    assert told[0].endswith("missing a required argument: 'c'")
    ufunc = "the kernel, the ufunc negative, takes 1 array, the operator is mul(Tensor self, Tensor other) -> Tensor"
    assert told[1].startswith(f"mul at Bad ({file}:11") and told[1].endswith(f"): {ufunc}")
    assert told[2].startswith(f"sum at Bad ({file}:7")
    assert "): the kernel's signature is (a, dim), the operator is sum(Tensor self, " in told[2]
    assert told[3].startswith(f"neg at Bad ({file}:13")
    assert told[3].endswith("): a kernel is a callable, not 'numpy.negative'")


def test_the_same_slot_twice_is_told_with_both_lines(environment: Any) -> None:
    environment.install("bad", "def mine(a, b): ...\n@library_impl('bad')\ndef _(m): m.impl('add', mine)\n")
    file = environment.site / "tensorplay_bad" / "plugin.py"
    (told,) = problems(environment.sees(BAD, "bad"))
    assert told.startswith("add at Bad (") and f"it is registered twice in one batch: {file}:6 and {file}:" in told


def test_anothers_slot_is_told_with_both_distributions_and_lines(environment: Any) -> None:
    environment.install("bad", "def mine(a, b): ...\n@library_impl('CPU')\ndef _(m): m.impl('add', mine)\n")
    file = environment.site / "tensorplay_bad" / "plugin.py"
    (told,) = problems(environment.sees(BAD, "bad"))
    assert told.startswith("add at CPU is taken by tensorplay-cpu (")
    assert "/tensorplay_cpu/plugin.py:" in told
    assert f"tensorplay-bad claims it too ({file}:6). Remedy: pass override=True if the new kernel should win" in told
    assert owners(environment, "add")["CPU"] == ["tensorplay-cpu"]

    before = "import json\nimport tensorplay as tp\ntp.backends.list()\n"  # which loads it before the CPU's owner
    done = environment.run("print(tp.ones(2) + 1, tp.backends.info('bad').reason)", before=before)
    assert done.code == 0 and done.out.startswith("tensor([2., 2.]) its registrations have 1 problem"), done
    assert f"'bad' does not serve the device 'cpu', and registers for it: add ({file}:6" in done.out


def test_all_kinds_of_problems_are_told_at_once(environment: Any) -> None:
    environment.install(
        "bad",
        """
        def three(a, b, c): ...
        def mine(a, b): ...
        @library_impl("bad")
        def _(m):
            m.impl("matmull", mine)
            m.impl("mul", three)
            m.impl("sub", mine)
        @library_impl("CPU")
        def _(m):
            m.impl("add", mine)
            raise LookupError("half-way")
        @library_impl("badd")
        def _(m):
            m.impl("add", mine)
        @hookimpl
        def tensorplay_register(registry):
            registry.impl("exp", "bad", numpy.exp, level="arrays")
            {}["table"]
        SPECIAL = {"mul": None}
        """,
    )
    seen = environment.sees(BAD, "bad")
    told = problems(seen)
    for part in (
        "there is no operator 'matmull'. Did you mean 'matmul'", "the kernel's signature is (a, b, c)",
        "sub at Bad (", "twice in one batch", "add at CPU is taken by tensorplay-cpu",
        "there is no dispatch key 'badd'. Did you mean 'bad'?", "LookupError: half-way (tensorplay_bad/plugin.py:16)",
        "KeyError: 'table' (tensorplay_bad/plugin.py:23)", "level is 'array' or 'tensor', not 'arrays'",
    ):  # fmt: skip
        assert any(part in one for one in told), (part, told)
    assert seen.cause.startswith("RegistrationError: tensorplay-bad: 8 problems in its registrations\n  - ")
    assert "LookupError: half-way" in seen.record["traceback"]


def test_what_raises_half_way_through_registering_leaves_nothing_in_force(environment: Any) -> None:
    half = (
        "m.impl('add', lambda a, b: a)\n    m.impl('exp', lambda a: a, override=True)\n    raise ValueError('no more')"
    )
    environment.install(
        "bad",
        f"@library_impl('CPU')\ndef _(m):\n    {half.replace('lambda a, b: a)', 'lambda a, b: a, override=True)')}",
    )
    seen = environment.sees(BAD, "bad")
    assert "it failed at its register step: ValueError: no more (tensorplay_bad/plugin.py:10)" in seen.message
    assert seen.cause == "ValueError: no more"
    assert (seen.record["state"], seen.record["registrations"]) == ("error", 0)
    exp, add = environment.gives(
        "raised(lambda: tp.ones(2, device='bad')); give([tp.exp(tp.zeros(2)).tolist(), (tp.ones(2) + 1).tolist()])"
    )
    assert (exp, add) == ([1.0, 1.0], [2.0, 2.0])
    assert "tensorplay-bad" not in {one for stack in owners(environment, "exp").values() for one in stack}

    environment.rewrite(
        "bad",
        """
        @hookimpl
        def tensorplay_register(registry):
            registry.impl("exp", "CPU", lambda a: a, override=True)
            raise ValueError("no more")
        """,
    )
    environment.rewrite("bad", "1 / 0", file="unused.py")
    seen = environment.sees(BAD, "bad")
    assert seen.record["state"] == "error"
    assert environment.gives("raised(lambda: tp.ones(2, device='bad')); give(tp.exp(tp.zeros(2)).tolist())") == [1, 1]
