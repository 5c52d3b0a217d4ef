"""Releases that do not go together, and a core that is not the one that is installed."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from tensorplay_core import __version__
from tensorplay_core.plugins.doctor import versions

OURS = f"tensorplay-core=={__version__}"


def test_a_distribution_of_ours_of_another_release_is_an_error(patient: Any) -> None:
    patient.plant("tensorplay-core", __version__)
    patient.plant("tensorplay_cpu", "2025.1.0")
    patient.plant("tensorplay-composite", __version__)
    patient.plant("tensorplay", "2025.1.0", requires_dist="tensorplay-core==2025.1.0")
    patient.plant("tensorplay-foo", "0.1")  # a third party has numbers of its own
    found = {f.subject: f for f in patient.check(versions.releases)}
    assert set(found) == {"tensorplay_cpu", "tensorplay"}
    assert f"it is 2025.1.0, and tensorplay-core is {__version__}" in found["tensorplay"].what
    assert found["tensorplay_cpu"].fix == f"pip install tensorplay-cpu=={__version__}"
    assert found["tensorplay"].fix == f"pip install tensorplay=={__version__}"
    assert patient.check(versions.foreign) == []


def test_another_projects_tensorplay_is_told_from_ours(patient: Any) -> None:
    patient.plant("tensorplay", "0.3.1", requires_dist=["numpy", "pygame; extra == 'tensorplay-core'"])
    (found,) = patient.check(versions.foreign)
    assert found.what.startswith("tensorplay 0.3.1 is another project's package") and found.severity == "error"
    assert found.fix == f"pip uninstall tensorplay, then pip install tensorplay=={__version__}"
    assert patient.check(versions.releases) == [], "its number says nothing"


def test_a_folder_that_python_takes_for_tensorplay(patient: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert patient.check(versions.namespace) == []
    for name in [name for name in sys.modules if name == "tensorplay" or name.startswith("tensorplay.")]:
        monkeypatch.delitem(sys.modules, name)
    (patient.folder / "tensorplay").mkdir()
    monkeypatch.setattr(sys, "path", [str(patient.folder)])
    (found,) = patient.check(versions.namespace)
    assert str(patient.folder / "tensorplay") in found.what and "no __init__.py" in found.what


def test_core_is_the_one_that_is_installed(patient: Any, tmp_path: Path) -> None:
    (found,) = patient.check(versions.core)
    assert "is not installed" in found.what and found.severity == "warning"
    project = str(versions.CORE_FOLDER.parents[1])
    url = json.dumps({"url": Path(project).as_uri(), "dir_info": {"editable": True}})
    folder = patient.plant("tensorplay-core", __version__, direct_url=url)
    assert patient.check(versions.core) == []
    (tmp_path / "elsewhere").mkdir()
    other = {"url": (tmp_path / "elsewhere").as_uri(), "dir_info": {"editable": True}}
    (folder / "direct_url.json").write_text(json.dumps(other))
    (found,) = patient.check(versions.core)
    assert f"describes the copy in {tmp_path / 'elsewhere'}" in found.what and str(versions.CORE_FOLDER) in found.what
    (folder / "direct_url.json").unlink()
    (patient.folder / "tensorplay_core").mkdir()  # an installation from a wheel
    (found,) = patient.check(versions.core)
    assert f"describes the copy in {patient.folder / 'tensorplay_core'}" in found.what


def test_core_of_another_version_than_its_metadata(patient: Any) -> None:
    folder = patient.plant("tensorplay-core", "2025.1.0")
    (found,) = patient.check(versions.core)
    assert found.severity == "error" and "says 2025.1.0" in found.what and str(folder) in found.what
    assert f"pip install --force-reinstall tensorplay-core=={__version__}" in found.fix


def test_a_file_that_was_left_out_of_core_is_named(patient: Any, tmp_path: Path) -> None:
    assert patient.check(versions.core_files) == []
    copy = tmp_path / "tensorplay_core"
    for name in ("config", "ops", "autocast"):
        shutil.copytree(versions.CORE_FOLDER / name, copy / name)
    (copy / "py.typed").touch()
    assert versions.missing_from(copy) == []
    assert not (copy / "ops/_generated_nodes_logical.py").exists(), "no operator of that family has a gradient"
    gone = ["config/native_functions_view.yaml", "ops/_generated_functional_view.py", "config/derivatives_nn.yaml"]
    gone += ["ops/_generated_nodes_random.py"]
    gone += ["ops/_generated_methods.py", "autocast/_generated_rules.py"]
    for file in gone:
        (copy / file).unlink()
    assert versions.missing_from(copy) == gone
    for file in (copy / "config").iterdir():
        file.unlink()
    assert "config/native_functions_pointwise.yaml" in versions.missing_from(copy)


def test_a_distribution_for_another_python_is_found(patient: Any) -> None:
    patient.plant("tensorplay-foo", requires_python=">=3.11")
    patient.plant("tensorplay-new", requires_python=">=9.9")
    patient.plant("tensorplay-odd", requires_python="three")
    patient.plant("numpy", requires_python=">=9.9")
    found = {f.subject: f for f in patient.check(versions.python)}
    assert set(found) == {"tensorplay-new", "tensorplay-odd"}
    assert "tensorplay-new 1.0 requires Python >=9.9, and this is 3." in found["tensorplay-new"].what
    assert found["tensorplay-new"].severity == "error" and found["tensorplay-odd"].severity == "warning"
