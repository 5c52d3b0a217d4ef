"""Pickles: names alone are in them, so another process may lack the backend; it then reads which, and what to do."""

from __future__ import annotations

from typing import Any

DUMP = """
import pickle
x = tp.tensor([1.0, 2.0], device="toy", requires_grad=True)
data = {"cpu": tp.ones(2), "toy": x, "same": x, "bytes": x.dtype, "where": x.device}
open("kept.pickle", "wb").write(pickle.dumps(data))
open("safe.pickle", "wb").write(pickle.dumps({**data, "toy": x.cpu().detach(), "same": None}))
text = open("kept.pickle", "rb").read()
give([b"tensorplay_toy" in text, b"tensorplay-toy" in text, b"toy:0" in text])
"""
LOAD = "__import__('pickle').loads(open('kept.pickle', 'rb').read())"


def test_a_pickle_of_a_device_that_is_missing_blocked_or_broken_names_it_and_loads_nothing_by_half(
    environment: Any,
) -> None:
    info = environment.install("toy")
    module, distribution, name = environment.gives(DUMP)
    assert name and not module and not distribution  # no code and no promise of the plugin's is in the data
    loaded = environment.gives(
        f"y = {LOAD}\ngive([y['toy'].tolist(), str(y['toy'].device), y['toy'].requires_grad, y['toy'] is y['same']])"
    )
    assert loaded == [[1.0, 2.0], "toy:0", True, True]

    blocked = environment.sees(LOAD, "toy", TENSORPLAY_BACKENDS_BLOCK="toy")
    assert blocked.kind == "DeviceUnavailable"
    assert "TENSORPLAY_BACKENDS_BLOCK" in blocked.message and "'toy'" in blocked.message
    unloaded = environment.sees(LOAD, "toy", before=f"{LOAD}; tp.backends.unload('toy')")
    assert "tensorplay.backends.load('toy')" in unloaded.fix

    plugin = info.parent / "tensorplay_toy" / "plugin.py"
    good = plugin.read_text(encoding="utf-8")
    plugin.write_text(good.replace("Availability(ok=True, device_count=1)", "Availability(ok=False, reason='no card')"))
    refused = environment.sees(LOAD, "toy")
    assert "(tensorplay-toy 1.0) is unavailable: no card" in refused.message
    plugin.write_text("raise OSError('no driver')\n", encoding="utf-8")
    broken = environment.sees(LOAD, "toy")
    assert broken.kind == "BackendError" and broken.cause == "OSError: no driver"

    environment.pip("uninstall", "tensorplay-toy")
    missing = environment.sees(LOAD)
    assert missing.kind == "DeviceUnavailable"
    assert "No installed backend provides the device 'toy'" in missing.message
    assert "pip install" not in missing.message  # the name in a pickle is anybody's
    for seen in (blocked, unloaded, refused, broken, missing):
        assert "pickled" in seen.message and ".cpu()" in seen.fix, seen.message
    safe = environment.gives(f"y = {LOAD.replace('kept', 'safe')}\ngive([y['toy'].tolist(), str(y['where'])])")
    assert safe == [[1.0, 2.0], "toy:0"]  # a device is only a name


def test_a_pickle_of_a_device_with_more_cards_or_dtypes_than_here_names_what_is_missing(environment: Any) -> None:
    environment.install("toy", count=4)
    environment.gives(
        "import pickle\nx = tp.ones(2, device='toy:3')\nwith open('kept.pickle', 'wb') as file:\n"
        "    pickle.dump(x, file)\ngive(str(x.device))"
    )
    assert environment.gives(f"give(str({LOAD}.device))") == "toy:3"
    environment.pip("uninstall", "tensorplay-toy")
    environment.install("toy", "DTYPES = ['float64']\n", count=2, version="1.1")
    seen = environment.sees(LOAD, "toy")
    assert seen.kind == "ValueRangeError"
    assert "toy:3" in seen.message and "2 toy device" in seen.message
    assert ".cpu()" in seen.fix
