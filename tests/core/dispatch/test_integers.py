"""On a device without int64, its widest integer stands in wherever nobody asked for int64 by name."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import tensorplay as tp
from tensorplay_composite.arrays import ArrayDevice, kernels
from tensorplay_core.dispatch import devices, fallbacks
from tensorplay_core.dispatch.integers import default_integer, has_dtype, integer_among
from tensorplay_core.errors import DimError, DTypeError, ValueRangeError

INTEGRAL = ("sum", "max.dim", "argmax", "randperm")
NARROW = ("bool", "int16", "int32", "float32")


@pytest.fixture
def narrow(request: pytest.FixtureRequest) -> Iterator[str]:
    """A device over NumPy that has no 64-bit dtypes, and whose kernels know that; the parameter says what it lacks."""
    api = ArrayDevice(np, dtypes={name: np.dtype(name) for name in NARROW})

    def in_int32(kernel):
        def run(*args, **kwargs):
            result = kernel(*args, **kwargs)
            parts = result if isinstance(result, tuple) else (result,)
            parts = [p.astype("int32") if p.dtype == np.int64 else p for p in parts]
            return tuple(parts) if isinstance(result, tuple) else parts[0]

        return run

    devices.install("narrowtoy", api, 1, "a test")
    lib = tp.library.Library("tp", "IMPL", "narrowtoy")
    for name, kernel in kernels(np, random=api.random).items():
        if name not in getattr(request, "param", ()):
            lib.impl(name, in_int32(kernel) if name in INTEGRAL else kernel)
    yield "narrowtoy"
    lib.close()
    devices.uninstall("narrowtoy")


def test_the_widest_signed_integer_is_the_default():
    assert integer_among(["int8", "int16", "uint64"]) is tp.int16 and integer_among({"int64", "int32"}) is tp.int64
    assert integer_among(["float32"]) is tp.int64, "which the device refuses by name"
    assert default_integer(tp.device("cpu")) is tp.int64 and has_dtype(tp.device("cpu"), tp.int64)


def test_every_place_where_nobody_gave_a_dtype(narrow):
    x = tp.tensor([[3, 1], [2, 4]], device=narrow)
    flags = x > 1
    made = [x, tp.arange(3, device=narrow), tp.full((2,), 1, device=narrow), tp.randperm(3, device=narrow)]
    made += [x.sum(), flags.sum(), x.argmax(), x.max(0)[1], flags + 1, tp.where(flags, 1, 0), x * 2]
    assert [tensor.dtype for tensor in made] == [tp.int32] * len(made)
    for call, dtype in (("sum(bool[3] narrowtoy)", "int32"), ("argmax(float32[3] narrowtoy)", "int32")):
        assert tp.explain(call).result.dtypes == (dtype,)
    loss = tp.cross_entropy(tp.tensor([[2.0, 0.0]], device=narrow), tp.tensor([0], device=narrow), ignore_index=1)
    assert loss.item() == pytest.approx(0.12692801)


def test_int64_that_was_asked_for_is_refused(narrow):
    for call in (
        lambda: tp.tensor([1], dtype=tp.int64, device=narrow),
        lambda: tp.tensor([1]).to(narrow),
        lambda: tp.tensor(np.int64(1), device=narrow),
        lambda: tp.arange(2, dtype=tp.int64, device=narrow),
        lambda: tp.ones(2, device=narrow).long(),
    ):
        with pytest.raises(DTypeError, match="no dtype int64; it has bool, int16, int32, float32"):
            call()
    with pytest.raises(ValueRangeError, match="does not fit int32"):
        tp.full((1,), 2**31, device=narrow)


def test_indices_of_the_cpu_keep_their_meaning(narrow):
    x = tp.tensor([1.0, 2.0, 3.0], device=narrow)
    assert x[[2, -1, 0]].tolist() == [3, 3, 1] and x[tp.tensor([1])].tolist() == [2]
    assert x[tp.tensor([2], dtype=tp.uint8)].tolist() == [3] and x[[]].tolist() == [] and x[True].shape == (1, 3)
    for far in (2**32, -(2**33) + 1, 2**63 - 1):  # the first two would be 0 and 1
        with pytest.raises((DimError, IndexError)):
            x[[far]]


@pytest.mark.parametrize("narrow", [INTEGRAL], indirect=True)
def test_what_runs_on_the_host_comes_back_in_it(narrow, monkeypatch):
    monkeypatch.setattr(fallbacks, "mode", "allow")
    x = tp.tensor([[3, 1], [2, 4]], device=narrow)
    made = [x.argmax(), x.max(0)[1], x.sum(), tp.randperm(3, device=narrow)]
    assert [str(tensor.device) for tensor in made] == ["narrowtoy:0"] * 4
    assert [tensor.dtype for tensor in made] == [tp.int32] * 4 and made[0].item() == 3
    with pytest.raises(DTypeError, match="int64"):
        tp.randperm(3, dtype=tp.int64, device=narrow)
