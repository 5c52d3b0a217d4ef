"""What is built is what a user installs.

Everything else is tested from the sources, where a missing YAML file or entry point goes unnoticed. Here the wheels of
all distributions are built once and installed with plain pip into clean environments, without an index: ours from the
folder where they were built, third-party wheels from a folder that is filled once. So another package of the name
``tensorplay`` can never be the one that is tested.
"""

from __future__ import annotations

import configparser
import json
import os
import subprocess
import sys
import tomllib
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.packaging

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = {
    "tensorplay": ROOT,
    "tensorplay-core": ROOT / "tensorplay_core",
    "tensorplay-composite": ROOT / "tensorplay_composite",
    "tensorplay-cpu": ROOT / "tensorplay_cpu",
    "tensorplay-cuda": ROOT / "tensorplay_cuda",
    "tensorplay-loopback": ROOT / "backends" / "tensorplay_loopback",
    "tensorplay-vulkan": ROOT / "backends" / "tensorplay_vulkan",
}
BACKENDS = {
    "tensorplay-composite": "composite",
    "tensorplay-cpu": "cpu",
    "tensorplay-cuda": "cuda",
    "tensorplay-loopback": "loopback",
    "tensorplay-vulkan": "vulkan",
}
# Filled by the first run, used by all later ones; `make clean` removes it.
WHEELHOUSE = ROOT / ".tools" / "wheels"


def project(distribution: str) -> dict[str, Any]:
    """The ``[project]`` table of a distribution."""
    return tomllib.loads((FOLDERS[distribution] / "pyproject.toml").read_text(encoding="utf-8"))["project"]


VERSION = project("tensorplay")["version"]


def run(*command: str | Path, cwd: Path | None = None, clean: bool = True) -> str:
    """Runs a command and returns what it printed; a failure shows all of it. ``clean`` hides the caller's settings."""
    environment = dict(os.environ)
    if clean:
        hidden = ("PIP_", "PYTHON", "TENSORPLAY_", "TP_", "UV_", "VIRTUAL_ENV")
        environment = {name: value for name, value in environment.items() if not name.startswith(hidden)}
        environment["PIP_CONFIG_FILE"] = os.devnull
    done = subprocess.run(
        [str(word) for word in command], cwd=cwd, env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, f"{command} exited {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@dataclass(frozen=True)
class Environment:
    """A virtual environment apart from the one that runs the tests."""

    folder: Path

    @classmethod
    def make(cls, folder: Path) -> Environment:
        """A new one, with nothing but pip."""
        run(sys.executable, "-m", "venv", folder)
        return cls(folder)

    def script(self, name: str) -> Path:
        """The path of a script in this environment."""
        return self.folder / ("Scripts" if os.name == "nt" else "bin") / name

    def pip_install(self, *arguments: str | Path, links: Path, cwd: Path | None = None) -> str:
        """Installs without an index: from ``links`` and the wheelhouse alone."""
        python = self.script("python")
        sources = ("--no-index", "--find-links", links, "--find-links", WHEELHOUSE)
        return run(python, "-m", "pip", "install", *sources, "-c", ROOT / "constraints.txt", *arguments, cwd=cwd)

    def python(self, code: str) -> str:
        """Runs a program in a folder where no source of ours can be found by accident."""
        return run(self.script("python"), "-c", code, cwd=self.folder)


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheels of all distributions."""
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "uv", "build", "--all-packages", "--wheel", "--out-dir", folder, cwd=ROOT, clean=False)
    return folder


@pytest.fixture(scope="module")
def wheelhouse() -> Path:
    """A folder with every third-party wheel that ours need, CuPy and the build backend among them."""
    wanted = {"pip>=24.1"}
    for name, folder in FOLDERS.items():
        wanted.update(line for line in project(name)["dependencies"] if not line.startswith("tensorplay"))
        wanted.update(
            tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["build-system"]["requires"]
        )
    WHEELHOUSE.mkdir(parents=True, exist_ok=True)
    pins = ["--constraint", str(ROOT / "constraints.txt"), "--find-links", str(WHEELHOUSE), *sorted(wanted)]
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    there = [*pip, "install", "--quiet", "--dry-run", "--ignore-installed", "--no-index", *pins]
    if subprocess.run(there, capture_output=True).returncode == 0:
        return WHEELHOUSE
    fetch = [*pip, "download", "--quiet", "--only-binary", ":all:", "--dest", str(WHEELHOUSE), *pins]
    done = subprocess.run(fetch, capture_output=True, text=True)
    if done.returncode:
        # CI has a network: there a failure is a failure, and never a silent gap.
        give_up = pytest.fail if os.environ.get("CI") else pytest.skip
        give_up(f"third-party wheels are neither in {WHEELHOUSE} nor to be fetched:\n{done.stderr[-600:]}")
    return WHEELHOUSE


@pytest.fixture(scope="module")
def installed(dist: Path, wheelhouse: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """An environment into which a user installed ``tensorplay`` from wheels."""
    environment = Environment.make(tmp_path_factory.mktemp("installed") / "env")
    environment.pip_install(f"tensorplay=={VERSION}", links=dist)
    return environment


def contents(dist: Path, distribution: str) -> zipfile.ZipFile:
    """The one wheel of a distribution, opened."""
    (path,) = dist.glob(f"{distribution.replace('-', '_')}-{VERSION}-*.whl")
    return zipfile.ZipFile(path)


@pytest.mark.parametrize("distribution", FOLDERS)
def test_distributions_agree_on_version_and_licence(distribution: str) -> None:
    """A mixture of releases must not install, so every number is the same and every pin exact."""
    table = project(distribution)
    assert table["version"] == VERSION
    optional = [line for lines in table.get("optional-dependencies", {}).values() for line in lines]
    ours = [line for line in table["dependencies"] + optional if line.startswith("tensorplay")]
    assert [line for line in ours if not line.endswith(f"=={VERSION}")] == []
    assert (FOLDERS[distribution] / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()


def test_every_folder_of_the_workspace_is_tested_here() -> None:
    """A new backend in ``backends/`` must be built and installed here too."""
    found = {
        path.parent for path in [*ROOT.glob("tensorplay_*/pyproject.toml"), *ROOT.glob("backends/*/pyproject.toml")]
    }
    assert found | {ROOT} == set(FOLDERS.values())


@pytest.mark.parametrize("distribution", FOLDERS)
def test_wheel_holds_every_file_of_the_package(dist: Path, distribution: str) -> None:
    """YAML, ``py.typed``, data and licence: what stands in the package's folder is there, and nothing else."""
    package = distribution.replace("-", "_")
    source = FOLDERS[distribution] / "src"
    expected = {
        path.relative_to(source).as_posix()
        for path in (source / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and path.suffix != ".pyc"
    }
    wheel = contents(dist, distribution)
    names = {name for name in wheel.namelist() if not name.endswith("/")}
    metadata = {name for name in names if ".dist-info/" in name}
    assert names - metadata == expected
    assert f"{package}/py.typed" in names
    assert [name for name in metadata if name.endswith("licenses/LICENSE")]


def test_contract_is_in_the_wheel_of_core(dist: Path) -> None:
    """``tensorplay codegen`` and plugins read the contract from the installed package."""
    names = contents(dist, "tensorplay-core").namelist()
    assert [
        name for name in names if name.startswith("tensorplay_core/config/native_functions") and name.endswith(".yaml")
    ]
    assert [name for name in names if name.startswith("tensorplay_core/config/derivatives") and name.endswith(".yaml")]


@pytest.mark.parametrize(("distribution", "name"), BACKENDS.items())
def test_entry_points_name_what_is_in_the_wheel(dist: Path, distribution: str, name: str) -> None:
    """Both entry points of a backend lead to a file of the same wheel."""
    wheel = contents(dist, distribution)
    names = wheel.namelist()
    (path,) = [entry for entry in names if entry.endswith(".dist-info/entry_points.txt")]
    points = configparser.ConfigParser()
    points.read_string(wheel.read(path).decode())
    module = points["tensorplay.backends"][name]
    assert module.replace(".", "/") + ".py" in names
    package, _, file = points["tensorplay.backend_info"][name].partition(":")
    assert f"{package}/{file}" in names


def test_command_line_runs(installed: Environment) -> None:
    """The script, ``python -m`` and the list of backends, with no source tree in sight."""
    assert VERSION in run(installed.script("tensorplay"), "--version", cwd=installed.folder)
    assert VERSION in run(installed.script("python"), "-m", "tensorplay", "--version", cwd=installed.folder)
    printed = run(installed.script("tensorplay"), "backends", "list", "--json", cwd=installed.folder)
    rows = json.loads(printed)
    rows = rows["backends"] if isinstance(rows, dict) else rows
    assert {row["name"]: row["state"] for row in rows} == {"composite": "active", "cpu": "active"}


def test_installed_package_computes(installed: Environment) -> None:
    """A gradient, from the wheels alone."""
    code = (
        "import tensorplay as tp; x = tp.ones(3, requires_grad=True); (x * x).sum().backward(); print(x.grad.tolist())"
    )
    assert installed.python(code).strip() == "[2.0, 2.0, 2.0]"


def test_a_third_partys_wheel_adds_a_device(installed: Environment, dist: Path, request: pytest.FixtureRequest) -> None:
    """Installing a backend's wheel is all that it takes to use its device."""
    installed.pip_install(f"tensorplay-loopback=={VERSION}", links=dist)
    request.addfinalizer(lambda: run(installed.script("python"), "-m", "pip", "uninstall", "-y", "tensorplay-loopback"))
    code = "import tensorplay as tp; x = tp.ones(2, device='loopback') * 2; print(x.device.type, x.tolist())"
    assert installed.python(code).strip() == "loopback [2.0, 2.0]"


@pytest.mark.skipif(sys.platform == "darwin", reason="CuPy has no wheel for macOS")
def test_extra_cuda_installs_without_an_index(wheelhouse: Path, dist: Path, tmp_path: Path) -> None:
    """``pip install 'tensorplay[cuda]==…'`` brings CuPy too, and the backend says what it finds on this machine."""
    environment = Environment.make(tmp_path / "env")
    environment.pip_install(f"tensorplay[cuda]=={VERSION}", links=dist)
    (row,) = [
        row
        for row in json.loads(run(environment.script("tensorplay"), "backends", "list", "--json"))
        if row["name"] == "cuda"
    ]
    assert row["version"] == VERSION
    assert row["state"] == "active" or (row["state"] == "unavailable" and row["reason"] and row["fix"])
    assert "CuPy" not in row["reason"], "it is installed, so it is not what is missing"


def test_plain_pip_of_the_folders_and_a_missing_backend(wheelhouse: Path, tmp_path: Path) -> None:
    """Pip alone installs the folders; without the CPU backend the import works, and its device says what to install."""
    environment = Environment.make(tmp_path / "env")
    # Pip builds each in an environment of its own, for which the wheelhouse holds the build backend.
    folders = [FOLDERS[name] for name in ("tensorplay-core", "tensorplay-composite", "tensorplay-cpu", "tensorplay")]
    environment.pip_install(*folders, links=wheelhouse)
    show = "import tensorplay as tp; print(tp.__version__, tp.zeros(2).tolist())"
    assert environment.python(show).strip() == f"{VERSION} [0.0, 0.0]"

    run(environment.script("python"), "-m", "pip", "uninstall", "-y", "tensorplay-cpu")
    miss = """
import tensorplay as tp
try:
    tp.zeros(2)
except tp.TensorPlayError as error:
    print(type(error).__name__, error)
"""
    printed = environment.python(miss)
    assert printed.startswith("DeviceUnavailable")
    assert "pip install tensorplay-cpu" in printed
