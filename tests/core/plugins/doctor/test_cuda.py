"""Several distributions of CuPy, on any machine."""

from __future__ import annotations

from importlib import metadata
from typing import Any

import pytest

from tensorplay_core.plugins.doctor.cuda import cupy
from tensorplay_core.plugins.info import BackendInfo
from tensorplay_core.plugins.records import BackendRecord

CUDA = (BackendRecord(BackendInfo("cuda", "tensorplay-cuda")),)


def test_two_distributions_of_cupy_are_found_where_a_backend_uses_them(patient: Any) -> None:
    patient.plant("cupy-cuda12x", "14.0")
    patient.plant("cupy-plugin-of-somebody", "1.0")
    assert [*cupy(patient.case(records=CUDA))] == []
    patient.plant("CuPy_cuda11x", "13.0")
    assert [*cupy(patient.case())] == [], "nobody here needs it"
    (found,) = cupy(patient.case(records=CUDA))
    assert (found.severity, found.subject) == ("error", "cuda")
    assert "2 CuPy distributions are installed and overwrite each other: cupy-cuda11x, cupy-cuda12x" in found.what
    assert "pip uninstall -y cupy-cuda11x cupy-cuda12x, then pip install 'tensorplay[cuda]==" in found.fix


@pytest.mark.skipif(not metadata.entry_points(group="tensorplay.backends", name="cuda"), reason="it is not installed")
def test_the_real_probe_and_the_doctor_say_it_once(patient: Any) -> None:
    patient.plant("cupy-cuda11x", "13.0")
    found = patient.examine(TENSORPLAY_BACKENDS_BLOCK="vulkan")
    assert [f.severity for f in found if "overwrite each other" in f.what] == ["error"]
