"""The log of operators: what it notes, forward and backward, and where it goes."""

from __future__ import annotations

import io

import pytest

import tensorplay as tp


def test_every_call_is_noted_with_dtypes_and_shapes():
    x = tp.ones(2, 3, requires_grad=True)
    with tp.modes.Logging() as log:
        y = (x * 2).sum(1)
        tp.cat([y, y.to(tp.float64)])
        y.sum().backward()
    lines = str(log).splitlines()
    assert lines[:2] == [
        "mul.default(float32[2,3] cpu, float32[] cpu) -> float32[2,3] cpu",
        "sum.default(float32[2,3] cpu, 1, False) -> float32[2] cpu",
    ]
    assert any(line.startswith("cat.default([float32[2] cpu, float64[2] cpu], 0)") for line in lines)
    assert not any(call.backward for call in log.calls[:5])
    assert log.calls[-1].backward
    assert lines[-1].startswith("backward ")
    assert log.calls[0] == ("mul.default", ("float32[2,3] cpu", "float32[] cpu"), (), "float32[2,3] cpu", False)


def test_calls_can_be_printed_as_they_are_made():
    file = io.StringIO()
    with tp.modes.Logging(file) as log:
        tp.ones(2).exp()
    assert file.getvalue() == f"{log}\n"
    with pytest.raises(TypeError, match="file must have a method write, and int has none"):
        tp.modes.Logging(3)


def test_a_failed_call_is_not_noted():
    with tp.modes.Logging() as log, pytest.raises(tp.ShapeError):
        tp.ones(2) + tp.ones(3)
    assert [call.name for call in log.calls] == ["ones.default"] * 2
