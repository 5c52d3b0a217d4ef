"""Adding an operator takes three edits and one command: what they give, at run time and to a type checker.

In a copy of the sources, whose packages come before the installed ones; the entry points are those of the installation.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = (
    "tensorplay_core/src",
    "tensorplay_composite/src",
    "tensorplay_cpu/src",
    "tensorplay_cuda/src",
    "backends/tensorplay_loopback/src",
    "src",
)
CONFIG = "tensorplay_core/src/tensorplay_core/config"
RECORD = """
- func: logcosh(Tensor self) -> Tensor
  variants: function, method
  inplace: true
  out: true
  shape: same
  promote: float
  dispatch:
    CPU, CUDA: logcosh
  tags: [pointwise, nn, real]
  doc: "``log(cosh(x))``."
"""
DERIVATIVE = """
- name: logcosh(Tensor self) -> Tensor
  self: grad * tanh(self)
"""
KERNELS = "tensorplay_composite/src/tensorplay_composite/arrays/elementary.py"
BESIDE = '        "logaddexp": xp.logaddexp,\n'
KERNEL = '        "logcosh": lambda self: xp.logaddexp(self, -self) - 0.6931471805599453,\n'

GOOD = """
import tensorplay as tp

x = tp.tensor([[1.0, -2.0]], requires_grad=True)
y = tp.logcosh(tp.ones(2))
reveal_type(y)
reveal_type(x.logcosh())
tp.tensor([1.0]).logcosh_().sum().backward()
reveal_type(tp.tensor([1.0]).logcosh_())
reveal_type(tp.nn.functional.logcosh(x))
reveal_type(tp.add(x, 2, alpha=3))
reveal_type(x.max(0))
reveal_type(x.max())
reveal_type(tp.zeros(2, 3, dtype=tp.float64))
reveal_type(2 - x @ x.T)
reveal_type(x[0, :1])
reveal_type(x == 1)
with tp.no_grad():
    reveal_type(x * 2)
reveal_type(tp.autograd.grad((x * x).sum(), x))
reveal_type(tp.autograd.grad((x * x).sum(), [x], allow_unused=True))
reveal_type(x.grad)
reveal_type(x.shape)
reveal_type(x.to(tp.int64))
reveal_type(tp.cat([x, x], axis=1))
reveal_type(tp.float)
reveal_type(tp.__version__)
reveal_type(tp.show_config())
reveal_type(tp.pi)


@tp.no_grad()
def double(t: tp.Tensor, dtype: tp.dtype, device: tp.device | None = None) -> tp.Tensor:
    try:
        return tp.nn.functional.linear(t, t).to(dtype)
    except tp.errors.ShapeError as error:
        raise tp.TensorPlayError from error


reveal_type(double(x, tp.float32))
for row in x:
    reveal_type(row)
x += 1
x[0] = 1.0
tp.testing.assert_close(x, x)
print(tp.explain(tp.add, x, x), tp.backends.list())
with tp.profiler.profile() as p:
    reveal_type(p.key_averages().table())
"""
TENSOR = "tensorplay_core.tensor.tensor.Tensor"
REVEALED = [
    *[TENSOR] * 5,
    f"tuple[{TENSOR}, {TENSOR}]",
    *[TENSOR] * 6,
    f"tuple[{TENSOR}, ...]",
    f"tuple[{TENSOR} | None, ...]",
    f"{TENSOR} | None",
    "tuple[int, ...]",
    TENSOR,
    TENSOR,
    "tensorplay_core.types.dtype.DType",
    "str",
    "str",
    "float",
    TENSOR,
    TENSOR,
    "str",
]
WRONG = {
    "tp.add(1)": "call-arg",
    'tp.zeros("a")': "arg-type",
    "tp.no_such_name": "attr-defined",
    "tp.import_module": "attr-defined",
    "tp.index_backward": "attr-defined",
    "tp.nn.functional.no_such": "attr-defined",
    "tp.ones(2).no_such_method()": "attr-defined",
    "tp.logcosh(tp.ones(2), 3)": "call-arg",
    'tp.logcosh("a")': "arg-type",
    'tp.add(tp.ones(2), "a")': "arg-type",
    "tp.add(tp.ones(2), 1, alhpa=2)": "call-arg",
    "tp.ones(2).sum(dims=0)": "call-arg",
    'tp.sum(tp.ones(2), dim="a")': "arg-type",
    'tp.zeros(2, dtype="float32")': "arg-type",
    "tp.ones(2).max(0.5)": "call-overload",
    "tp.ones(2).logcosh_(1)": "call-arg",
    "tp.autograd.grad(tp.ones(2), 1)": "call-overload",
}


class Copy:
    """A copy of the sources, and the environment in which its packages are imported."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for source in SOURCES:
            shutil.copytree(ROOT / source, root / source, ignore=shutil.ignore_patterns("__pycache__", "demo"))
        paths = os.pathsep.join(str(root / source) for source in SOURCES)
        self.env = {**os.environ, "PYTHONPATH": paths, "MYPYPATH": paths}

    def run(self, *arguments: str, code: int = 0) -> str:
        done = subprocess.run(
            [sys.executable, *arguments], cwd=self.root, env=self.env, capture_output=True, text=True, timeout=120
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Copy:
    """The copy after the three edits and the command."""
    made = Copy(tmp_path_factory.mktemp("sources"))
    for name, text in (("native_functions_pointwise.yaml", RECORD), ("derivatives_pointwise.yaml", DERIVATIVE)):
        with (made.root / CONFIG / name).open("a", encoding="utf-8") as file:
            file.write(text)
    kernels = made.root / KERNELS
    text = kernels.read_text(encoding="utf-8")
    assert text.count(BESIDE) == 1
    kernels.write_text(text.replace(BESIDE, BESIDE + KERNEL), encoding="utf-8")
    said = made.run("-m", "tensorplay", "codegen")
    assert re.fullmatch(r"codegen: wrote \d+ files, \d+ unchanged\n", said), said
    made.run("-m", "tensorplay", "codegen", "--check")
    return made


def test_the_copy_is_what_runs(copy: Copy) -> None:
    program = "import tensorplay, tensorplay_core, tensorplay_cpu; print(tensorplay.__file__, tensorplay_core.__file__)"
    assert all(Path(path).is_relative_to(copy.root) for path in copy.run("-c", program).split())


def test_function_method_inplace_and_gradient(copy: Copy) -> None:
    program = """
import numpy, tensorplay as tp
data = [-3.0, -0.5, 0.0, 0.25, 1.0, 1e30]
wanted = [float(numpy.logaddexp(v, -v) - numpy.log(2)) for v in data]
for device in ("cpu", "loopback"):
    for slow in (False, True):
        with tp.testing.force_slow_path() if slow else tp.enable_grad():
            x = tp.tensor(data, dtype=tp.float64, device=device, requires_grad=True)
            f = tp.nn.functional.logcosh
            for y in (tp.logcosh(x), x.logcosh(), x.detach().clone().logcosh_(), f(x)):
                assert y.device == x.device and y.tolist() == wanted, y
            out = tp.zeros(6, dtype=tp.float64, device=device)
            assert tp.logcosh(x.detach(), out=out) is out and out.tolist() == wanted
            x.logcosh().sum().backward()
            slopes = tp.tensor([float(numpy.tanh(v)) for v in data], dtype=tp.float64)
            tp.testing.assert_close(x.grad.cpu(), slopes)
            z = (x * 1).logcosh_()
            assert z._node is not None and z.tolist() == wanted
assert tp.tensor([0]).logcosh().tolist() == [0.0] and tp.tensor([1]).logcosh().dtype is tp.float32
away = tp.tensor([[-2.0, -0.3, 0.4], [3.0, 1.0, 0.01]], dtype=tp.float64, requires_grad=True)
assert tp.autograd.gradcheck(tp.logcosh, [away]) and tp.autograd.gradgradcheck(tp.logcosh, [away])
y = away.logcosh()
assert y._node.name == "LogcoshBackward" and "LogcoshBackward" in repr(y)
assert [step.key for step in tp.explain(tp.logcosh, away).steps], "explained"
print("done")
"""
    assert copy.run("-c", program) == "done\n"


def test_help_and_ops_show(copy: Copy) -> None:
    shown = copy.run("-c", "import tensorplay as tp; help(tp.logcosh)")
    for part in (
        "logcosh(input: 'Tensor', *, out: 'Tensor | None' = None) -> 'Tensor'",
        "tp.logcosh(input, *, out=None) -> Tensor",
        "``log(cosh(x))``.",
        "Integers and bool compute in the default float dtype.",
        "self: grad * tanh(self)",
    ):
        assert part in shown, shown
    shown = copy.run("-m", "tensorplay", "ops", "show", "logcosh")
    for part in (
        "logcosh(Tensor self) -> Tensor\n",
        "self: grad * tanh(self)",
        "LogcoshBackward",
        "tensorplay-cpu",
        "arrays/elementary.py",
    ):
        assert part in shown, shown


def test_it_is_checked_as_every_operator_is(copy: Copy) -> None:
    """The samples, the fast path and the slow one, the shape rule: all come from the record."""
    program = """
import tensorplay as tp
from tensorplay_core.dispatch.registry import REGISTRY
from tensorplay_core.testing.samples import samples
op = REGISTRY.find("logcosh")
assert op.fast and op.node.__name__ == "LogcoshBackward" and REGISTRY.find("logcosh_").functional is op
count = 0
for sample in samples(op, dtype="float64"):
    args, kwargs = sample.build(tp, "cpu")
    fast = tp.logcosh(*args, **kwargs)
    with tp.testing.force_slow_path():
        tp.testing.assert_close(tp.logcosh(*args, **kwargs), fast)
    count += 1
print(count > 3)
"""
    assert copy.run("-c", program) == "True\n"


def test_a_users_file_passes_mypy_strict_and_mistakes_do_not(copy: Copy) -> None:
    (copy.root / "good.py").write_text(GOOD, encoding="utf-8")
    wrong = ["import tensorplay as tp", *WRONG]
    (copy.root / "wrong.py").write_text("\n".join(wrong) + "\n", encoding="utf-8")
    done = copy.run(
        "-m", "mypy", "--strict", "--config-file=", "--follow-imports=silent", "--python-version=3.11",
        "--no-error-summary", "--cache-dir", str(copy.root / "cache"), "good.py", "wrong.py", code=1,
    )  # fmt: skip
    assert [line for line in done.splitlines() if line.startswith("good.py") and "error:" in line] == []
    revealed = re.findall(r'^good\.py:\d+: note: Revealed type is "(.*)"$', done, re.M)
    assert revealed == REVEALED, "\n".join(map(str, zip(revealed, REVEALED, strict=False)))
    found: dict[str, set[str]] = {}
    for number, code in re.findall(r"^wrong\.py:(\d+): error: .*\[([\w-]+)\]$", done, re.M):
        found.setdefault(wrong[int(number) - 1], set()).add(code)
    assert set(found) == set(WRONG) and all(WRONG[line] in codes for line, codes in found.items()), done


def test_undoing_the_edits_undoes_the_operator(copy: Copy, tmp_path: Path) -> None:
    again = Copy(tmp_path / "again")
    for name in ("native_functions_pointwise.yaml", "derivatives_pointwise.yaml"):
        shutil.copy(copy.root / CONFIG / name, again.root / CONFIG / name)
    again.run("-m", "tensorplay_core.codegen.generate")
    for name in ("native_functions_pointwise.yaml", "derivatives_pointwise.yaml"):
        shutil.copy(ROOT / CONFIG / name, again.root / CONFIG / name)
    again.run("-m", "tensorplay_core.codegen.generate")
    folder = "tensorplay_core/src/tensorplay_core/ops"
    for path in (ROOT / folder).glob("_generated_*.py"):
        assert (again.root / folder / path.name).read_bytes() == path.read_bytes()
