"""Backends whose loads need each other: a chain works, a circle is named whole, and neither half stays half loaded."""

from __future__ import annotations

from typing import Any

import pytest

NEEDS = {
    "import": "import tensorplay as tp\ntp.ones(2, device={other!r})\n",
    "probe": "@hookimpl\ndef tensorplay_probe():\n    import tensorplay as tp\n    tp.ones(2, device={other!r})\n"
    "    return Availability(ok=True)\n",
    "register": "@hookimpl\ndef tensorplay_register(registry):\n    import tensorplay as tp\n"
    "    tp.ones(2, device={other!r})\n",
    "device": "def needs():\n    import tensorplay as tp\n    tp.ones(2, device={other!r})\n",
}


def install(environment: Any, name: str, other: str, stage: str) -> None:
    """Installs a backend that uses the device ``other`` at one stage of its load."""
    code = NEEDS[stage].format(other=other)
    ends = {"probe": ("def tensorplay_probe", "def other_probe"), "device": ("return DEVICE", "needs(); return DEVICE")}
    environment.install(name, code)
    if stage in ends:  # the fixture's own hook yields its place
        file = environment.site / f"tensorplay_{name}" / "plugin.py"
        before, after = ends[stage]
        head, found, tail = file.read_text(encoding="utf-8").rpartition(before)
        assert found
        unmarked = (head + after + tail).replace(f"@hookimpl\n{after}", after)
        file.write_text(unmarked, encoding="utf-8")


@pytest.mark.parametrize("stage", NEEDS)
def test_two_backends_that_need_each_other_are_told_with_the_whole_circle(environment: Any, stage: str) -> None:
    install(environment, "one", "two", stage)
    install(environment, "two", "one", stage)
    first, second = ("one", "two") if stage != "probe" else ("two", "one")
    seen = environment.sees(f"tp.ones(2, device={first!r})", first)
    assert seen.kind == "BackendError"
    assert f"{first} → {second} → {first}" in seen.message, seen.message
    assert f"tensorplay-{first} 1.0" in seen.message, seen.message
    assert seen.message.count("fix:") == 1 and len(seen.message) < 1200, seen.message
    assert (seen.record["state"], seen.record["stage"], seen.record["registrations"]) == ("error", stage, 0)
    script = f"""
    raised(lambda: tp.ones(2, device={first!r}))
    told = [raised(lambda: tp.ones(2, device={second!r}))[1] for attempt in range(2)]
    cpu_works()
    from tensorplay_core.dispatch import devices
    from tensorplay_core.dispatch.registry import REGISTRY
    stacks = [stack for op in REGISTRY.operators.values() for stack in op.table.values()]
    left = [r for stack in stacks for r in stack if r.owner in ("one", "two")]
    give([told, sorted(devices.active_devices()), len(left)])
    """
    (once, again), active, left = environment.gives(script)
    assert once == again
    assert f"{first} → {second} → {first}" in once and f"tensorplay-{second} 1.0" in once, once
    assert not {"one", "two"} & set(active) and not left


def test_a_backend_that_needs_itself_is_told_and_a_chain_of_three_loads_in_one_call(environment: Any) -> None:
    for stage in NEEDS:
        install(environment, f"self_{stage}", f"self_{stage}", stage)
    calls = "[raised(lambda: tp.ones(2, device=f'self_{stage}'))[1] for stage in STAGES]"
    once, again = environment.gives(f"STAGES = {[*NEEDS]!r}\ngive([{calls}, {calls}])")
    assert once == again
    for stage, message in zip(NEEDS, once, strict=True):
        assert f"self_{stage} → self_{stage}" in message, message
        assert message.count("fix:") == 1, message
    install(environment, "first", "second", "import")
    install(environment, "second", "third", "probe")
    install(environment, "third", "cpu", "register")
    script = """
    x = tp.ones(2, device="first")
    states = {name: str(tp.backends.info(name).state) for name in ("first", "second", "third")}
    give([(x + x).tolist(), states, x.to("second").to("third").cpu().tolist()])
    """
    assert environment.gives(script) == [
        [2.0, 2.0], dict.fromkeys(("first", "second", "third"), "active"), [1.0, 1.0],
    ]  # fmt: skip


def test_a_backend_that_needs_a_broken_or_missing_one_names_both_and_may_do_without(environment: Any) -> None:
    environment.install("broken", "import no_such_lib\n", device=False)
    install(environment, "needy", "broken", "import")
    seen = environment.sees("tp.ones(2, device='needy')", "needy")
    assert "tensorplay-needy 1.0" in seen.message and "tensorplay-broken 1.0" in seen.message, seen.message
    assert "no_such_lib" in seen.message and seen.message.count("fix:") == 1, seen.message
    install(environment, "lonely", "nowhere", "register")
    seen = environment.sees("tp.ones(2, device='lonely')", "lonely")
    assert "'nowhere'" in seen.message and "tensorplay-lonely 1.0" in seen.message, seen.message
    assert "pip install" not in seen.message
    environment.install(
        "careful",
        """
        import tensorplay as tp
        try:
            tp.ones(2, device="broken")
        except tp.errors.BackendError:
            pass
        """,
    )
    assert environment.gives("give((tp.ones(2, device='careful') + 1).tolist())") == [2.0, 2.0]


def test_an_extender_that_fails_or_extends_a_device_that_nobody_provides_leaves_the_others_alone(
    environment: Any,
) -> None:
    environment.install("toy")
    environment.install("fails", "raise OSError('no compiler')\n", device=False, yaml="extends: [toy, cpu]\n")
    environment.install(
        "orphan",
        '@library_impl("nobody", "Orphan")\ndef _(m):\n    m.impl("add", numpy.add)\n',
        device=False,
        yaml="extends: [nobody]\n",
    )
    assert environment.gives("give((tp.ones(2, device='toy') + tp.ones(2, device='toy')).tolist())") == [2.0, 2.0]
    seen = environment.sees("tp.backends.load('fails')", "fails", before="tp.ones(2, device='toy')")
    assert "tensorplay-fails 1.0" in seen.message and "no compiler" in seen.message
    assert "tensorplay_fails/plugin.py:5" in seen.message
    states = environment.gives("give({r.name: [str(r.state), r.reason] for r in tp.backends.list()})")
    assert states["toy"][0] == states["cpu"][0] == "active"
    assert states["fails"][0] == "error"
    nobody = environment.sees("tp.ones(2, device='nobody')")
    assert nobody.kind == "DeviceUnavailable"
    assert "'nobody'" in nobody.message and "Installed devices: cpu, " in nobody.message and "toy" in nobody.message
    not_one = environment.sees("tp.ones(2, device='orphan')")
    assert "'orphan' is not a device" in not_one.message
