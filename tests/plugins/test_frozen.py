"""Plugins that were built once against a plugin API, as wheels, still do what they did then.

The wheels in ``frozen`` are installed as they are. Where a test here fails, the plugins of other people broke too: it
is TensorPlay that must change back, or its plugin API that needs another major number.
"""

from __future__ import annotations

import hashlib
import zipfile
from pathlib import Path
from typing import Any

import pytest

FROZEN = Path(__file__).parent / "frozen"
WHEEL = FROZEN / "tensorplay_frozen-1.0-py3-none-any.whl"
SHA256 = "2e8abb941c79769864f3ee9fab94d1b21cbd06ebd159ab29e79fe35c17feacb0"
USE = """
import pickle
from tensorplay_core.errors import KernelMissing
from tensorplay_core.testing import force_slow_path

plugin = lambda: sys.modules["tensorplay_frozen.plugin"].SEEN
record = tp.backends.info("frozen")
before = "tensorplay_frozen.plugin" in sys.modules

def session(device):
    x = tp.tensor([[-1.0, 2.0], [0.5, float("nan")]], device=device, requires_grad=True)
    y = tp.relu(x) * tp.exp(x) + tp.square(x) + tp.silu(x)
    z = tp.softmax(x[0], 0).sum() + (x @ x.transpose(0, 1))[0].sum() + x[tp.tensor([0], device=device)].mean()
    (y[0].sum() + z).backward()
    w = tp.zeros(2, 3, device=device)
    w[0] += 2
    w.mul_(3)
    tp.manual_seed(7)
    drawn = [tp.rand(2, device=device).tolist(), tp.randperm(4, device=device).tolist()]
    back = pickle.loads(pickle.dumps(w))
    values = [t.reshape((-1,)).tolist() for t in (x.grad, y, w, back, w.cpu())]
    return [sum(values, []), [str(t.device) for t in (y, x.grad, back)], drawn]

fast = session("frozen:1")
with force_slow_path():
    slow = session("frozen:1")
cpu = session("cpu")
"""


def test_the_wheel_is_the_one_that_was_built_and_its_sources_are_unchanged() -> None:
    assert hashlib.sha256(WHEEL.read_bytes()).hexdigest() == SHA256
    source = FROZEN / "source" / "src"
    with zipfile.ZipFile(WHEEL) as wheel:
        packed = {name: wheel.read(name) for name in wheel.namelist() if not name.endswith("/")}
    modules = {name: content for name, content in packed.items() if ".dist-info/" not in name}
    files = [path for path in source.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    assert modules == {path.relative_to(source).as_posix(): path.read_bytes() for path in files}
    readme = (FROZEN / "source" / "README.md").read_text(encoding="utf-8")
    (metadata,) = [content for name, content in packed.items() if name.endswith("/METADATA")]
    assert metadata.decode().endswith(readme) and "never edit" in readme


def test_a_plugin_built_against_api_1_works_as_it_did(environment: Any) -> None:
    environment.pip("install", "--no-deps", WHEEL)
    found = environment.gives(
        USE
        + """
give({
    "before": before, "described": [record.info.summary, record.info.api, record.info.priority, record.info.url],
    "requirements": record.info.requirements, "fast": fast, "slow": slow, "cpu": cpu,
    "state": str(tp.backends.info("frozen").state), "count": tp.backends.info("frozen").device_count,
    "seen": plugin(), "no softmax": raised(lambda: tp.log_softmax(tp.ones(2, device="frozen"), 0))[0],
    "from log_softmax": KernelMissing.__name__,
})
"""
    )
    assert found["before"] is False, "describing it runs nothing of it"
    assert found["described"] == ["a plugin built against plugin API 1.0", ">=1,<2", 3, "https://frozen.example/"]
    assert found["requirements"] == ["a machine with NumPy"]
    (values, _, drawn) = found["cpu"]
    for way in ("fast", "slow"):
        assert found[way] == [pytest.approx(values, rel=1e-5, nan_ok=True), ["frozen:1"] * 3, drawn], way
    assert (found["state"], found["count"]) == ("active", 2)
    assert found["no softmax"] == found["from log_softmax"]
    seen = found["seen"]
    assert seen["api"].startswith("1.") and 1 in seen["devices"]
    assert seen["relu"] >= 2 and seen["square"] >= 2 and seen["exp"] >= 2 and seen["unloaded"] == 0


def test_its_device_and_its_unloading(environment: Any) -> None:
    environment.pip("install", "--no-deps", WHEEL)
    memory, place, first, again, gone, unloaded = environment.gives(
        USE
        + """
tp.set_default_device("frozen:1")
memory = tp.accelerator.get_memory_info()
place = str(tp.ones(2).device)
state = tp.get_rng_state("frozen:1")
first = tp.rand(3).tolist()
tp.set_rng_state(state, "frozen:1")
again = tp.rand(3).tolist()
tp.set_default_device(None)
tp.backends.unload("frozen")
give([memory, place, first, again, str(tp.backends.info("frozen").state), plugin()["unloaded"]])
"""
    )
    assert memory == [1000, 4000] and place == "frozen:1" and first == again
    assert (gone, unloaded) == ("unloaded", 1)
