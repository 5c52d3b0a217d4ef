"""What ``import tensorplay as tp`` offers: the names that are promised, and none that leaked."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import tensorplay as tp
import tensorplay_core
from tensorplay_core import errors, public

ROOT = Path(__file__).parents[3]
DOCUMENTS = ("README.md", "CONTRIBUTING.md")
MODULES = {
    *("accelerator", "amp", "autograd", "backends", "errors", "func", "library", "linalg", "modes", "nn", "overrides"),
    *("profiler", "special", "testing", "utils"),
}
"""The modules among the public names; ``ops`` is an object."""
LAZY = {
    *("accelerator", "backends", "explain", "get_rng_state", "initial_seed", "is_anomaly_check_nan_enabled"),
    *("is_anomaly_enabled", "profiler", "seed", "set_default_device", "set_rng_state", "show_config", "testing"),
    *("DispatchMode", "amp", "func", "modes", "overrides", "vmap"),
    *("utils", "Generator", "asarray", "from_dlpack", "frombuffer", "load_file", "load_metadata", "save_file"),
}
PROMISED = re.findall(
    r"\S+",
    """
    tensor as_tensor from_numpy zeros ones full empty arange eye rand randn randperm manual_seed zeros_like
    ones_like full_like add sub mul div pow neg abs exp log sqrt tanh sigmoid relu sum mean max argmax matmul
    eq ne lt le gt ge reshape permute transpose expand squeeze unsqueeze cat concat concatenate where
    log_softmax softmax cross_entropy linear clone Tensor dtype device bool int float double long float16
    bfloat16 float32 float64 complex64 complex128 uint8 uint16 uint32 uint64 int8 int16 int32 int64 inf nan pi
    no_grad enable_grad inference_mode set_grad_enabled is_grad_enabled autograd ops library backends profiler
    testing nn explain show_config set_default_device get_default_device get_default_dtype set_printoptions
    accelerator get_rng_state set_rng_state initial_seed seed
    __version__ TensorPlayError KernelMissing RegistrationError BackendConflict DeviceUnavailable
    """,
)


def test_dir_and_all_are_the_public_names() -> None:
    names: Any = tp.__all__  # type: ignore[attr-defined]
    assert len(names) == len(set(names)) and dir(tp) == sorted(names)
    assert set(names) == {"__version__", *public.NAMES, *public.LAZY} and set(public.LAZY) == LAZY
    assert [name for name in names if name.startswith("_")] == ["__version__"]


@pytest.mark.parametrize("name", PROMISED)
def test_what_is_promised_is_there(name: str) -> None:
    assert name in dir(tp) and getattr(tp, name) is not None


def test_every_public_name_resolves_and_is_ours() -> None:
    for name in dir(tp):
        value = getattr(tp, name)
        if isinstance(value, ModuleType):
            assert name in MODULES and value.__name__.startswith("tensorplay_core."), f"{name} leaked"
        elif callable(value):
            assert (inspect.getmodule(value) or tp).__name__.startswith("tensorplay"), f"{name} leaked"
    assert {name for name in dir(tp) if isinstance(getattr(tp, name), ModuleType)} == MODULES


@pytest.mark.parametrize("name", ["import_module", "Any", "Iterable", "did_you_mean", "annotations", "_to_copy"])
def test_what_the_modules_import_for_themselves_does_not_show(name: str) -> None:
    assert name not in dir(tp)


def test_what_only_gradients_call_is_no_public_function() -> None:
    for name in ("index_backward", "select_backward", "slice_backward", "_to_copy"):
        assert not hasattr(tp, name) and hasattr(tp.ops.tp, name)


def test_errors_are_public_by_their_own_list() -> None:
    classes = {
        name for name, value in vars(errors).items() if inspect.isclass(value) and value.__module__ == errors.__name__
    }
    assert set(errors.__all__) == classes
    assert all(getattr(tp, name) is getattr(errors, name) for name in classes)


def test_an_import_of_everything() -> None:
    namespace: dict[str, Any] = {}
    exec("from tensorplay import *", namespace)
    assert set(namespace) - {"__builtins__"} == set(dir(tp))


def test_functions_of_a_name_are_one() -> None:
    assert tp.nn.functional.gelu is tp.gelu and tp.subtract is tp.sub and tp.concat is tp.cat
    assert tensorplay_core.add is tp.add and tensorplay_core.Tensor is tp.Tensor and tp.bool is not bool


def test_a_name_that_is_not_there_suggests_the_nearest() -> None:
    with pytest.raises(
        AttributeError, match=r"module 'tensorplay' has no attribute 'sotfmax'\. Did you mean 'softmax'"
    ):
        tp.sotfmax  # type: ignore[attr-defined]  # noqa: B018
    with pytest.raises(AttributeError, match=r"module 'tensorplay' has no attribute 'xyzzy'$"):
        tp.xyzzy  # type: ignore[attr-defined]  # noqa: B018
    assert getattr(tp, "xyzzy", None) is None


def test_lazy_names_are_imported_when_they_are_used() -> None:
    program = (
        "import sys, tensorplay as tp\n"
        "late = ('tensorplay_core.plugins.public', 'tensorplay_core.profiler.session', 'tensorplay_core.ops.explain',"
        " 'tensorplay_core.testing.close', 'tensorplay_core.codegen', 'difflib', 'numpy')\n"
        "print([m for m in late if m in sys.modules])\n"
        "tp.explain, tp.profiler.profile\n"
        "print([m for m in late[1:3] if m in sys.modules] == list(late[1:3]))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\nTrue\n"


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_name_of_a_document_exists(document: str) -> None:
    """Each ``tp.name`` and ``tp.module.name`` that it mentions, but those that its reader is to add."""
    text = (ROOT / document).read_text(encoding="utf-8")
    for path in sorted(set(re.findall(r"\btp((?:\.[A-Za-z_]\w*)+)", text))):
        value: Any = tp
        for name in path.split(".")[1:]:
            if value is tp and name in ("quick_gelu", "logcosh"):
                break
            assert hasattr(value, name), f"{document} mentions tp{path}"
            value = getattr(value, name)
            if not isinstance(value, ModuleType):
                break


def test_the_version() -> None:
    assert tp.__version__ == tensorplay_core.__version__
    assert re.fullmatch(r"20\d\d\.\d{1,2}\.\d+", tp.__version__)


def test_show_config() -> None:
    lines = tp.show_config().splitlines()
    assert lines[0] == f"tensorplay {tp.__version__}"
    assert re.fullmatch(r"python 3\.\d+\.\d+\S* \(\w+, \w+\)", lines[1])
    assert any(re.fullmatch(rf"backend cpu: tensorplay-cpu {re.escape(tp.__version__)}, \w+", line) for line in lines)
    assert len({line.partition(":")[0] for line in lines}) == len(lines)
