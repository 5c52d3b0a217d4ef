"""Plugins whose hooks are not what they should be: told at the first use, with the place and the right spelling."""

from __future__ import annotations

from typing import Any

BAD = "tp.ones(2, device='bad')"
HEAD = "Device 'bad' cannot be used: its backend (tensorplay-bad 1.0) is broken: tensorplay_bad.plugin: "
FIX = "correct the hooks in tensorplay_bad.plugin, or report it to the authors of tensorplay-bad"


def test_a_misspelt_hook_is_told_with_the_right_name_marked_or_not(environment: Any) -> None:
    environment.install("bad", "@hookimpl\ndef tensorplay_prob(): ...\n", device=False)
    file = environment.site / "tensorplay_bad" / "plugin.py"
    names = "tensorplay_probe, tensorplay_register, tensorplay_device, tensorplay_unload"
    seen = environment.sees(BAD, "bad")
    assert seen.message == (
        f"{HEAD}there is no hook 'tensorplay_prob' ({file}:5). Did you mean 'tensorplay_probe'? The hooks are {names}."
        f"\nfix: {FIX}"
    )
    assert (seen.record["state"], seen.record["stage"]) == ("error", "hooks")

    environment.rewrite("bad", "def tensorplay_unlod(): ...\n@hookimpl\ndef tensorplay_device(): ...\n")
    assert environment.sees(BAD, "bad").message == (
        f"{HEAD}the function 'tensorplay_unlod' ({file}:5) is no hook and not marked with @hookimpl."
        f" Did you mean 'tensorplay_unload'?\nfix: {FIX}"
    )


def test_a_hook_without_its_mark_is_told_also_when_it_comes_from_another_module(environment: Any) -> None:
    environment.install("bad", "from tensorplay_bad.hooks import tensorplay_unload\n", files={"hooks.py": ""})
    environment.rewrite("bad", "def tensorplay_unload(): ...\n", file="hooks.py")
    seen = environment.sees(BAD, "bad")
    file = environment.site / "tensorplay_bad" / "hooks.py"
    told = f"the function 'tensorplay_unload' ({file}:1) is not marked with @hookimpl, so it would never be called"
    assert seen.message == f"{HEAD}{told}\nfix: {FIX}"


def test_a_hook_with_another_argument_is_told_with_the_right_one(environment: Any) -> None:
    environment.install("bad", "@hookimpl\ndef tensorplay_register(registri): ...\n")
    told = "takes (registry), and is written with (registri)"
    seen = environment.sees(BAD, "bad")
    assert seen.message.startswith(f"{HEAD}the hook 'tensorplay_register' (") and told in seen.message
    assert (seen.record["state"], seen.record["stage"]) == ("error", "hooks")


def test_a_plugin_without_a_device_and_one_with_another_answer_are_told(environment: Any) -> None:
    environment.install("bad", "x = 1\n", device=False)
    seen = environment.sees(BAD, "bad")
    assert "the owner of device 'bad' must implement tensorplay_device; a backend without a device of its own says" in (
        seen.message
    )
    environment.rewrite("bad", "@hookimpl\ndef tensorplay_device(): return numpy\n")
    assert "tensorplay_device must return a DeviceAPI, got <module 'numpy'" in environment.sees(BAD).message
    environment.rewrite("bad", "@hookimpl\ndef tensorplay_probe(): return True\n")
    assert "tensorplay_probe must return an Availability, got True" in environment.sees(BAD).message


def test_helpers_that_resemble_no_hook_are_left_alone(environment: Any) -> None:
    environment.install("bad", "def tensorplay_version(): ...\ntensorplay_registry = {}\n")
    assert environment.gives("give(tp.ones(2, device='bad').tolist())") == [1.0, 1.0]
