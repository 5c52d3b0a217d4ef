"""``import tensorplay.nn.functional`` and its like: import statements reach the modules that ``tp`` has."""

from __future__ import annotations

import importlib
import subprocess
import sys
from operator import attrgetter
from pathlib import Path

import pytest

import tensorplay as tp

FOLDER = Path(tp.__file__).parent
OWN = {"tensorplay", "tensorplay.__main__", "tensorplay.demo"}
"""The files of the facade that put nothing of core's in their place."""
BELOW_AUTOGRAD = ("forward_ad", "function", "functional", "graph")
MODULES = sorted(
    name
    for path in FOLDER.rglob("*.py")
    for name in [".".join(("tensorplay", *path.relative_to(FOLDER).with_suffix("").parts)).removesuffix(".__init__")]
    if name not in OWN and not name.startswith("tensorplay.demo.")
)


def run(program: str) -> str:
    """What a program prints in a fresh interpreter, where no test has imported anything yet."""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_every_public_module_can_be_imported() -> None:
    public = {f"tensorplay.{name}" for name in dir(tp) if isinstance(getattr(tp, name), type(sys))}
    below = {
        "tensorplay.nn.functional",
        "tensorplay.utils.checkpoint",
        *(f"tensorplay.autograd.{name}" for name in BELOW_AUTOGRAD),
    }
    assert {*public, *below} == set(MODULES)


@pytest.mark.parametrize("name", MODULES)
def test_the_statement_gives_the_object_that_the_attribute_is(name: str) -> None:
    short = name.removeprefix("tensorplay.")
    assert importlib.import_module(name) is attrgetter(short)(tp)
    assert run(f"import {name} as m; import tensorplay as tp; print(m is tp.{short}, m.__name__)").startswith(
        "True tensorplay_core."
    )
    late = f"import tensorplay as tp; old = tp.{short}; import {name}; print(old is tp.{short} is {name})"
    assert run(late) == "True"


def test_the_names_that_people_import() -> None:
    from tensorplay import backends
    from tensorplay.accelerator import current_accelerator
    from tensorplay.autograd import grad, gradcheck
    from tensorplay.backends import is_available
    from tensorplay.errors import ShapeError
    from tensorplay.library import Library, custom_op, library_impl, opcheck, register_autograd, register_fake
    from tensorplay.nn import functional
    from tensorplay.nn.functional import softmax
    from tensorplay.profiler import profile
    from tensorplay.testing import assert_close, force_slow_path
    from tensorplay.utils.checkpoint import checkpoint

    assert checkpoint is tp.utils.checkpoint.checkpoint
    assert current_accelerator is tp.accelerator.current_accelerator
    assert grad is tp.autograd.grad and gradcheck is tp.autograd.gradcheck
    assert backends.is_available is is_available and ShapeError is tp.ShapeError
    assert Library is tp.library.Library and library_impl is tp.library.library_impl
    assert (custom_op, opcheck) == (tp.library.custom_op, tp.library.opcheck)
    assert (register_autograd, register_fake) == (tp.library.register_autograd, tp.library.register_fake)
    assert functional.softmax is softmax is tp.softmax and profile is tp.profiler.profile
    assert assert_close is tp.testing.assert_close and force_slow_path is tp.testing.force_slow_path


def test_they_cost_nothing_before_they_are_asked_for() -> None:
    program = "import sys, tensorplay; print(sorted(m for m in sys.modules if m.startswith('tensorplay.')))"
    assert run(program) == "[]"


def test_a_name_that_a_module_has_not_is_an_import_error() -> None:
    with pytest.raises(ImportError, match="softmx"):
        from tensorplay.nn.functional import softmx  # type: ignore[attr-defined]  # noqa: F401
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("tensorplay.optim")
