"""Probes that refuse, change their mind, or lie: a device is never silently replaced, and each lie has a name."""

from __future__ import annotations

import json
from typing import Any

EVERYWHERE = (
    "tp.ones(2, device='{0}')", "tp.empty(2, device='{0}')", "tp.tensor([1.0], device='{0}')",
    "tp.ones(2).to('{0}')", "tp.ones(2).to(device='{0}')", "tp.zeros_like(tp.ones(2), device='{0}')",
    "tp.rand(2, device='{0}')", "tp.arange(3, device='{0}')", "tp.as_tensor([1.0], device='{0}')",
    "tp.ones(2, device='{0}:7')", "tp.set_default_device('{0}')", "tp.device('{0}').__enter__()",
    "tp.backends.load('{0}')",
)  # fmt: skip
ALL = """
CALLS = {calls!r}
seen = [[raised(lambda: eval(call)) for call in CALLS] for attempt in range(2)]
cpu_works()
give([seen, str(tp.get_default_device()), str(tp.ones(2).device), tp.backends.is_available({name!r})])
"""


def test_a_device_whose_probe_refuses_is_told_wherever_it_is_named_and_never_becomes_the_cpu(environment: Any) -> None:
    """Case B03."""
    probe = """
    @hookimpl
    def tensorplay_probe():
        return Availability(ok=False, reason="libtoy.so.3 not found", device_count=0{fix})
    """
    environment.install("toy", probe.format(fix=""), device=False)
    calls = [call.format("toy") for call in EVERYWHERE]
    (first, second), default, where, available = environment.gives(ALL.format(calls=calls, name="toy"))
    assert first == second
    for call, (kind, message, cause, _kinds) in zip(calls, first, strict=True):
        assert kind == "DeviceUnavailable", (call, kind, message)
        assert message == (
            "Device 'toy' cannot be used: its backend (tensorplay-toy 1.0) is unavailable: libtoy.so.3 not found\n"
            "fix: see what tensorplay-toy requires"
        ), call
        assert cause == "", call  # the refusal is an answer, not an accident: there is nothing behind it to read
    assert (default, where, available) == ("cpu", "cpu", False)

    told = environment.tensorplay("backends", "info", "toy")
    assert "unavailable" in told.out and "libtoy.so.3 not found" in told.out and "fix: see what" in told.out
    record = json.loads(environment.tensorplay("backends", "info", "toy", "--json").out)
    assert (record["state"], record["reason"], record["stage"]) == ("unavailable", "libtoy.so.3 not found", "probe")
    assert record["registrations"] == record["device_count"] == 0

    environment.install("advised", probe.format(fix=", fix='install libtoy 3 from your system'"), device=False)
    seen = environment.sees("tp.ones(2, device='advised')", "advised")
    assert seen.fix == "install libtoy 3 from your system"


def test_a_probe_that_changes_its_mind_is_asked_again_by_refresh_and_not_before(environment: Any) -> None:
    environment.install(
        "moody",
        """
        import os
        @hookimpl
        def tensorplay_probe():
            here = "MOODY" in os.environ
            return Availability(ok=here, reason="" if here else "the card is asleep", device_count=2 * here)
        @hookimpl
        def tensorplay_device():
            return ArrayDevice(numpy)
        """,
        device=False,
    )
    script = """
    import os
    no = raised(lambda: tp.zeros(2, device="moody"))
    os.environ["MOODY"] = "1"
    still = raised(lambda: tp.zeros(2, device="moody"))
    tp.backends.refresh()
    moved = tp.ones(2).to("moody:1")
    del os.environ["MOODY"]  # an active backend stays so: its tensors are alive
    tp.backends.refresh()
    give([no[1], still[1], str(moved.device), moved.tolist(), tp.backends.info("moody").as_dict()])
    """
    no, still, device, values, record = environment.gives(script)
    assert no == still
    assert "the card is asleep" in no
    assert (device, values) == ("moody:1", [1.0, 1.0])
    assert (record["state"], record["reason"], record["fix"], record["device_count"]) == ("active", "", "", 2)


def test_a_probe_that_answers_with_something_else_or_raises_is_named_with_its_line(environment: Any) -> None:
    answers = {
        "yes": ("True", "tensorplay_probe must return an Availability, got True"),
        "nothing": ("None", "tensorplay_probe must return an Availability, got None"),
        "mute": ("Availability(ok=False)", "ok=False needs a reason"),
        "minus": ("Availability(ok=True, device_count=-1)", "device_count must not be negative, got -1"),
        "words": ("Availability(ok='yes')", "ok must be bool, got 'yes'"),
        "crash": ("1 / 0", "ZeroDivisionError: division by zero"),
    }
    for name, (answer, _) in answers.items():
        environment.install(name, f"@hookimpl\ndef tensorplay_probe():\n    return {answer}\n", device=False)
    told = environment.sees_each({f"tp.ones(2, device={name!r})": name for name in answers})
    for (name, (answer, expected)), seen in zip(answers.items(), told, strict=True):
        assert seen.kind == "BackendError", seen
        broken = f"its backend (tensorplay-{name} 1.0) is broken: it failed at its probe step"
        assert broken in seen.message, seen.message
        assert expected in seen.message, seen.message
        assert seen.record["state"] == "error" and seen.record["stage"] == "probe"
        if "Availability(" in answer or "/" in answer:  # raised in the plugin, so there is a line of its own to show
            assert f"tensorplay_{name}/plugin.py:7" in seen.message, seen.message
        assert f"authors of tensorplay-{name}" in seen.fix


def test_a_probe_that_lies_is_found_out_at_the_first_array_and_the_liar_is_named(environment: Any) -> None:
    environment.install(
        "liar",
        """
        class Device(ArrayDevice):
            def from_list(self, data, dtype):
                raise OSError("libtoy.so.3: cannot open shared object file")

            def from_host(self, host, index):
                return self.from_list(host, None)

            def to_host(self, array):
                raise OSError("libtoy.so.3: went away")

        def full(size, fill_value, *, dtype, device):
            raise OSError("libtoy.so.3: cannot open shared object file")

        @library_impl("liar", "Liar")
        def _(m):
            m.impl("full", full)
            m.impl("mul", numpy.multiply)
            m.impl("arange", lambda start, end, step, *, dtype, device: numpy.arange(start, end, step, dtype))

        @hookimpl
        def tensorplay_probe():
            return Availability(ok=True, device_count=1)

        @hookimpl
        def tensorplay_device():
            return Device(numpy)
        """,
        device=False,
    )
    calls = (
        ("tp.tensor([1.0], device='liar')", "BackendError", 8),
        ("tp.ones(2).to('liar')", "BackendError", 8),
        ("tp.arange(3, device='liar') * 2", "BackendError", 8),
        ("tp.as_tensor([1.0], device='liar')", "BackendError", 8),
        ("tp.from_numpy(__import__('numpy').ones(2), device='liar')", "BackendError", 8),
        ("tp.arange(3, device='liar').cpu()", "BackendError", 14),
        ("tp.arange(3, device='liar').tolist()", "BackendError", 14),
        ("tp.full((2,), 1.0, device='liar')", "KernelError", 16),
    )
    told = environment.sees_each({call: "liar" for call, _, _ in calls})
    for (call, kind, line), seen in zip(calls, told, strict=True):
        assert seen.kind == kind, (call, seen)
        assert "tensorplay-liar" in seen.message and "libtoy.so.3: " in seen.message, (call, seen)
        assert f"tensorplay_liar/plugin.py:{line}" in seen.message, (call, seen)
        assert seen.cause.startswith("OSError: libtoy.so.3"), (call, seen)
        assert "authors of tensorplay-liar" in seen.fix, (call, seen)
        assert seen.record["state"] == "active"
    text = environment.gives("give(repr(tp.arange(3, device='liar')))")  # a traceback must not fail over a tensor
    assert text.startswith("tensor(..., device='liar:0', size=(3,)") and "# Device 'liar' failed: to_list" in text


def test_a_probe_that_counts_devices_that_are_not_there_fails_at_the_one_that_is_missing(environment: Any) -> None:
    environment.install(
        "many",
        """
        class Device(ArrayDevice):
            def device(self, index):
                if index > 1:
                    raise IndexError(f"no card {index}")
                return super().device(index)

            def from_host(self, host, index):
                self.device(index)
                return super().from_host(host, index)

        DEVICE = Device(numpy)
        made = kernels(numpy, random=DEVICE.random)

        @library_impl("many", "Many")
        def _(m):
            for op, kernel in made.items():
                m.impl(op, kernel)

        @hookimpl
        def tensorplay_probe():
            return Availability(ok=True, device_count=4)

        @hookimpl
        def tensorplay_device():
            return DEVICE
        """,
        device=False,
    )
    works = environment.gives("give((tp.ones(2).to('many:1') + tp.ones(2, device='many:1')).tolist())")
    assert works == [2.0, 2.0]
    calls = ("tp.ones(2).to('many:3')", "tp.ones(2, device='many:3')", "tp.ones(2, device='many:4')")
    *told, beyond = environment.sees_each(dict.fromkeys(calls, "many"))
    for seen in told:
        assert "tensorplay-many" in seen.message and "no card 3" in seen.message, seen
        assert "many:3" in seen.message, seen
        assert "authors of tensorplay-many" in seen.fix, seen
    assert beyond.kind == "ValueRangeError"
    assert "many:4" in beyond.message and "4" in beyond.message and "many:3" in beyond.fix
