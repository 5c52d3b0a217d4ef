"""The road of somebody with operators of their own: a package, a contract in it, one command, and it is used.

A process of its own from start to end, so that what is found is what a user finds; then the package as a distribution
that pip installs, in which the generator writes nothing.
"""

from __future__ import annotations

import re
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

TENSORPLAY = Path(sysconfig.get_path("scripts")) / "tensorplay"
FILES = {
    "src/gelpack/__init__.py": '''\
"""Two operators of our own."""

from gelpack import _generated_install, kernels
from gelpack._generated_public import gel, spans
''',
    "src/gelpack/native_functions.yaml": """\
- func: gelpack::gel(Tensor self, Tensor other, Scalar stiffness=1) -> Tensor
  variants: function, method
  inplace: true
  out: true
  shape: broadcast
  promote: float
  doc: "``other`` drawn towards ``self``."
- func: gelpack::spans(Tensor self, int from, int to) -> Tensor
  promote: keep
- func: gelpack::spans.list(Tensor self, int[] ends) -> Tensor
  promote: keep
""",
    "src/gelpack/derivatives.yaml": """\
- name: gelpack::gel
  self: pulled(grad, stiffness)
  other: grad - pulled(grad, stiffness)
- name: gelpack::spans
  self: grad * to
""",
    "src/gelpack/helpers.py": "def pulled(grad, stiffness):\n    return grad * stiffness / (1 + stiffness)\n",
    "src/gelpack/kernels.py": """\
from tensorplay_core.dispatch.library import library_impl


@library_impl("CPU", "GelCPU")
def _(m):
    m.impl("gelpack::gel", lambda self, other, stiffness: (self * stiffness + other) / (1 + stiffness))
    m.impl("gelpack::spans", lambda self, start, end: self * end)
    m.impl("gelpack::spans.list", lambda self, ends: self * len(ends))
""",
}
USE = """
import gelpack, tensorplay as tp
for slow in (False, True, False, False):
    with tp.testing.force_slow_path() if slow else tp.enable_grad():
        x = tp.tensor([1.0, 3.0], requires_grad=True)
        y = tp.tensor([5.0, 5.0], requires_grad=True)
        z = gelpack.gel(x, y, 3)
        assert z.tolist() == [2.0, 3.5] == x.gel(y, stiffness=3).tolist(), z
        z.sum().backward()
        assert x.grad.tolist() == [0.75, 0.75] and y.grad.tolist() == [0.25, 0.25]
        target, out = tp.tensor([1.0, 3.0]), tp.zeros(2)
        assert target.gel_(y.detach(), 3) is target and target.tolist() == [2.0, 3.5]
        assert gelpack.gel(target, target, out=out) is out and out.tolist() == [2.0, 3.5]
assert gelpack.gel(tp.ones(2), 3.0).tolist() == [2.0, 2.0], "a number where PyTorch takes one"
assert gelpack.spans(tp.ones(1), 2, to=5).item() == 5.0 == gelpack.spans(tp.ones(1), from_=2, to=5).item()
assert gelpack.spans(tp.ones(1), (1, 2)).item() == 2.0 and tp.ops.gelpack.spans.list(tp.ones(1), [1]).item() == 1.0
doubles = [t.detach().double().requires_grad_() for t in (x, y)]
assert tp.autograd.gradcheck(lambda a, b: gelpack.gel(a, b, 0.5), doubles)
print("used")
"""


class Project:
    """The sources of the distribution, and commands run in their folder."""

    def __init__(self, root: Path) -> None:
        self.root, self.package = root, root / "src/gelpack"
        self.env = {"PATH": "/usr/bin:/bin", "XDG_CACHE_HOME": str(root / "cache")}
        for name, text in FILES.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")

    def run(self, *command: str, code: int = 0, path: str = "src") -> str:
        done = subprocess.run(
            command, cwd=self.root, env=self.env | {"PYTHONPATH": str(self.root / path)},
            capture_output=True, text=True, timeout=240,
        )  # fmt: skip
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    def codegen(self, *more: str, code: int = 0, out: str = "src/gelpack") -> str:
        contract = "src/gelpack/native_functions.yaml"
        return self.run(str(TENSORPLAY), "codegen", "--contract", contract, "--out", out, *more, code=code)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """The package after the command."""
    made = Project(tmp_path_factory.mktemp("gel"))
    said = made.codegen()
    assert said.startswith("codegen: wrote ") and said.endswith(" files, 0 unchanged\n"), said
    return made


def test_it_is_used(project: Project) -> None:
    assert project.run(sys.executable, "-c", USE) == "used\n"


def test_what_the_commands_say(project: Project) -> None:
    assert "nothing to do" in project.codegen("--check")
    shown = " ".join(project.codegen("--report").split())
    assert "Gradients of 3 operators written 2 symbolic 0 without 1" in shown
    assert "works forward, raises on backward: it has no derivative record, and nothing says why: spans.list" in shown
    shown = project.run(
        sys.executable, "-c", "import gelpack, sys; from tensorplay_core.cli import main; main(sys.argv[1:])",
        "explain", "gelpack::gel(float32[2], float32[2])",
    )  # fmt: skip
    assert "GelBackward" in shown and "kernels.py" in shown


def test_a_deleted_line_is_shown_and_a_second_run_rewrites_nothing(project: Project) -> None:
    path = project.package / "_generated_nodes_gelpack.py"
    text = path.read_text("utf-8")
    line = next(line for line in text.splitlines() if "OWN_HELPERS.pulled" in line)
    path.write_text(text.replace(line + "\n", "", 1), encoding="utf-8")
    shown = project.codegen("--check", code=1)
    assert f"\n+{line}\n" in shown and "1 file to write" in shown
    project.codegen()
    before = {p: p.stat().st_mtime_ns for p in project.package.iterdir()}
    assert "nothing to do" in project.codegen()
    assert {p: p.stat().st_mtime_ns for p in project.package.iterdir()} == before
    assert path.read_text("utf-8") == text


def test_errors_of_a_contract_and_of_the_command(project: Project, tmp_path: Path) -> None:
    wrong = tmp_path / "native_functions.yaml"
    wrong.write_text("- func: gel(Tensor self) -> Tensor\n", encoding="utf-8")
    shown = project.run(str(TENSORPLAY), "codegen", "--contract", str(wrong), "--out", "src/gelpack", code=1)
    assert "'gel' is in the namespace 'tp'" in shown and "fix: name the plugin's" in shown
    assert "holds no __init__.py" in project.codegen(out=str(tmp_path), code=1)
    shown = project.codegen("--package", "some.where", "--check", code=1)
    assert "+from some.where._generated_schemas_gelpack import (" in shown


def test_the_page(tmp_path: Path) -> None:
    """The files of docs/contract.md, in a folder: its commands say and its session does what the page shows."""
    text = (Path(__file__).parents[2] / "docs/contract.md").read_text(encoding="utf-8")
    blocks = re.findall(r"<!-- (new file: (\S+)|in the new folder) -->\n```(\w+)\n(.*?)```\n", text, re.S)
    for _, name, _, content in blocks:
        if name:
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_text(content, encoding="utf-8")
    env = {"PATH": f"{TENSORPLAY.parent}:/usr/bin:/bin", "PYTHONPATH": str(tmp_path), "COLUMNS": "120"}
    env["XDG_CACHE_HOME"] = str(tmp_path / "cache")
    ran = 0
    for _, name, language, content in blocks:
        if language == "console" and not name:
            for command, output in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", content, re.M):
                done = subprocess.run(
                    ["bash", "-c", command], cwd=tmp_path, env=env, text=True, capture_output=True, timeout=120
                )
                assert done.stdout + done.stderr == output, command
                ran += 1
        elif not name:
            (tmp_path / "session.txt").write_text(content, encoding="utf-8")
            code = "import doctest, sys; sys.exit(doctest.testfile('session.txt', False).failed)"
            done = subprocess.run(
                [sys.executable, "-c", code], cwd=tmp_path, env=env, text=True, capture_output=True, timeout=120
            )
            assert done.returncode == 0, done.stdout
            ran += 1
    assert ran == 6


def wheel(project: Project, folder: Path) -> Path:
    """The package as a wheel, which is a zip file with a list of what it holds."""
    path = folder / "gelpack-1.0-py3-none-any.whl"
    info = {
        "METADATA": "Metadata-Version: 2.1\nName: gelpack\nVersion: 1.0\n",
        "WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    with zipfile.ZipFile(path, "w") as archive:
        sources = [source for source in sorted(project.package.iterdir()) if source.is_file()]
        for source in sources:
            archive.write(source, f"gelpack/{source.name}")
        for name, text in info.items():
            archive.writestr(f"gelpack-1.0.dist-info/{name}", text)
        listed = [*archive.namelist(), "gelpack-1.0.dist-info/RECORD"]
        archive.writestr("gelpack-1.0.dist-info/RECORD", "".join(f"{name},,\n" for name in listed))
    return path


@pytest.mark.packaging
def test_in_an_installed_distribution_nothing_is_written(project: Project, tmp_path: Path) -> None:
    target, built = tmp_path / "lib", wheel(project, tmp_path)
    project.run(
        sys.executable, "-m", "pip", "install", "-q", "--no-index", "--no-deps", "--target", str(target), str(built)
    )
    before = {p: p.read_bytes() for p in (target / "gelpack").iterdir() if p.is_file()}
    shown = project.codegen(out=str(target / "gelpack"), code=1)
    assert "is an installed package; the generator writes to source folders only" in shown
    assert "gelpack-1.0.dist-info lists its files" in shown
    assert {p: p.read_bytes() for p in (target / "gelpack").iterdir() if p.is_file()} == before
    assert project.run(sys.executable, "-c", USE, path=str(target)) == "used\n"
