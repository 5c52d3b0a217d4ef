"""Devices with names that resemble or repeat others: each is what it says, and nobody takes another's name."""

from __future__ import annotations

import json
from typing import Any

LIKE = """
import pickle
t = tp.ones(2, device="cudalike:0")
u = pickle.loads(pickle.dumps(t))
x = tp.ones(1, device="cpux")
both = [tp.backends.info("cudalike").state, tp.backends.info("cpux").state]
cuda = raised(lambda: tp.ones(2, device="cuda"))
mixed = raised(lambda: t + tp.ones(2, device="cpux"))
from tensorplay_core.dispatch.keys import pages
with open("tensors.pickle", "wb") as file:
    pickle.dump([t * 3, x], file)
give([t.device.type, str(u.device), x.device.type, (u + 1).tolist(), (x + 1).device.type, both, cuda, mixed, pages()])
"""
READ = """
import pickle
from tensorplay_core.dispatch.keys import pages
with open("tensors.pickle", "rb") as file:
    t, x = pickle.load(file)
give([str(t.device), str(x.device), (t + 1).tolist(), x.tolist(), pages()])
"""
NO_CUDA = "Device 'cuda' cannot be used: its backend (tensorplay-cuda "


def test_names_that_begin_like_cpu_and_cuda_are_devices_of_their_own(environment: Any) -> None:
    """Case B02."""
    environment.install("cpux")
    environment.install("cudalike")
    types = environment.gives(LIKE, CUDA_VISIBLE_DEVICES="")
    t, u, x, sums, added, states, cuda, mixed, pages = types
    assert (t, u, x) == ("cudalike", "cudalike:0", "cpux")
    assert (sums, added, states) == ([2.0, 2.0], "cpux", ["active", "active"])
    assert cuda[0] == "DeviceUnavailable" and cuda[1].startswith(NO_CUDA) and "is unavailable: " in cuda[1]
    assert mixed[0] == "DeviceMismatch" and "cudalike:0" in mixed[1] and "cpux:0" in mixed[1]

    environment.install("aaa")  # its page comes before theirs
    environment.install("cuda_like")
    device, other, sums, ones, after = environment.gives(READ)
    assert (device, other, sums, ones) == ("cudalike:0", "cpux:0", [4.0, 4.0], [1.0])
    assert after["cpux"] != pages["cpux"] and after["cudalike"] != pages["cudalike"]

    environment.pip("uninstall", "tensorplay-cudalike")
    seen = environment.sees("pickle.load(open('tensors.pickle', 'rb'))", before="import pickle\n")
    assert "No installed backend provides the device 'cudalike'. Did you mean 'cuda_like'" in seen.message
    assert "pip install" not in seen.fix


def test_names_of_dispatch_keys_are_refused_with_what_to_do(environment: Any) -> None:
    environment.install("sparse", distribution="acme-thing")
    entries = environment.site / "acme_thing-1.0.dist-info" / "entry_points.txt"
    names = {"sparse": "Sparse", "autograd": "Autograd", "python": "Python", "vmap": "Vmap", "autocast": "Autocast"}
    entries.write_text(
        "[tensorplay.backends]\n" + "".join(f"{name} = acme_thing.plugin\n" for name in names), encoding="utf-8"
    )
    for name, key in names.items():
        seen = environment.sees(f"tp.ones(2, device={name!r})", name)
        assert seen.message == (
            f"Device {name!r} cannot be used: its backend (acme-thing 1.0) is broken: no device can be called {name!r}:"
            f" {key} is a dispatch key of another meaning\nfix: rename the device in the metadata of acme-thing"
        )
        assert (seen.record["state"], seen.record["stage"]) == ("error", "describe")


def test_nobody_takes_the_name_of_a_device_of_cores_own(environment: Any) -> None:
    environment.install("meta", distribution="acme-thing")
    seen = environment.sees("tp.backends.load('meta')", "meta")
    told = "no device of a backend can be called 'meta': core brings it itself"
    assert told in seen.message and seen.fix == "rename the device in the metadata of acme-thing"
    assert environment.gives("give((tp.ones(2, device='meta') + 1).shape)") == [2]


def test_nobody_takes_the_name_of_a_backend_of_ours(environment: Any) -> None:
    environment.install("cpu", "1 / 0", device=False, distribution="acme-thing")
    ours = {"cpu": "tensorplay-cpu", "composite": "tensorplay-composite", "cuda": "tensorplay-cuda"}
    entries = environment.site / "acme_thing-1.0.dist-info" / "entry_points.txt"
    entries.write_text(
        "[tensorplay.backends]\n" + "".join(f"{name} = acme_thing.plugin\n" for name in ours), encoding="utf-8"
    )
    listed = environment.tensorplay("backends", "list", "--json")
    rows = {row["name"]: row for row in json.loads(listed.out)}
    assert environment.gives("give((tp.ones(2) + 1).tolist())") == [2.0, 2.0]
    for name, distribution in ours.items():
        told = f"acme-thing 1.0 provides {name!r} too and is not used: the name is that of {distribution}"
        assert (rows[name]["distribution"], rows[name]["notes"]) == (distribution, [told])
    assert (rows["cpu"]["state"], rows["composite"]["state"]) == ("active", "active")
    assert told.split(" too")[0] in " ".join(environment.tensorplay("backends", "info", "cuda").out.split())


def test_a_distribution_of_another_that_is_called_like_ours_is_told_with_its_version(environment: Any) -> None:
    environment.install("cpu", "import no_such_lib", device=False, version="0.0.1")
    told, again, states = environment.gives(
        """
        told, again = raised(lambda: tp.ones(2))[1], raised(lambda: tp.ones(2) + 1)[1]
        give([told, again, {record.name: record.state for record in tp.backends.list()}])
        """,
        before="import json, tensorplay as tp\nfrom tools import raised, give\n",
        path=(tools(environment),),
    )
    assert told == again
    assert told.startswith(
        "Device 'cpu' cannot be used: its backend (tensorplay-cpu 0.0.1) is broken: its module raised "
    )
    assert "\nfix: pip install tensorplay-cpu==" in told  # ours, of the release that this core is of
    assert (states["cpu"], states["loopback"]) == ("error", "active")
    note = environment.tensorplay("backends", "info", "cpu")
    assert "is also on the path, after 0.0.1: the first counts" in " ".join(note.out.split())


def tools(environment: Any) -> Any:
    """Returns a folder with what programs usually begin with, for one where the CPU does not work."""
    folder = environment.folder / "tools"
    folder.mkdir()
    source = """
import json

def raised(call):
    try:
        call()
    except Exception as error:
        return [type(error).__name__, str(error)]

def give(value):
    print("RESULT " + json.dumps(value, default=str))
"""
    (folder / "tools.py").write_text(source, encoding="utf-8")
    return folder
