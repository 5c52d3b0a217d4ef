"""The dtypes: fifteen interned objects, told apart by ``is``, that survive pickling and copying."""

from __future__ import annotations

import copy
import pickle

import ml_dtypes
import numpy as np
import pytest

import tensorplay as tp
from tensorplay_core.errors import ArgumentError
from tensorplay_core.types import dtype as dt

NAMES = (
    *("bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64"),
    *("float16", "bfloat16", "float32", "float64", "complex64", "complex128"),
)


def native(name: str) -> np.dtype:
    return np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name)


def test_there_are_these_fifteen():
    assert tuple(d.name for d in dt.ALL) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_properties_are_numpys(name):
    ours, theirs = dt.by_name(name), native(name)
    kind = "f" if name == "bfloat16" else theirs.kind
    assert ours.itemsize == theirs.itemsize
    assert ours.is_bool == (kind == "b")
    assert ours.is_integral == (kind in "iu")
    assert ours.is_floating_point == (kind == "f")
    assert ours.is_complex == (kind == "c")
    assert ours.is_inexact == (kind in "fc")
    assert ours.is_signed == (kind in "ifc")
    assert ours.real_dtype.name == (np.empty(0, theirs).real.dtype.name if kind == "c" else name)
    assert repr(ours) == f"tensorplay.{name}"


@pytest.mark.parametrize("name", NAMES)
def test_identity_survives_pickle_copy_and_making_it_again(name):
    d = dt.by_name(name)
    assert pickle.loads(pickle.dumps(d)) is d
    assert copy.deepcopy(d) is d and copy.copy(d) is d
    assert dt.DType(name, d.itemsize, d.kind) is d
    assert getattr(tp, name) is d


def test_python_classes_mean_the_defaults():
    assert dt.as_dtype(bool) is tp.bool
    assert dt.as_dtype(int) is tp.int64
    assert dt.as_dtype(float) is tp.float32
    assert dt.as_dtype(complex) is tp.complex64


def test_wrong_names_are_answered_with_the_nearest():
    with pytest.raises(ArgumentError, match="'float32'"):
        dt.by_name("flaot32")
    with pytest.raises(ArgumentError, match=r"Write tp\.float32"):
        dt.as_dtype(np.float32)
    with pytest.raises(ArgumentError, match="must be a tensorplay dtype"):
        dt.as_dtype(3)


def test_the_default_is_float32():
    assert tp.get_default_dtype() is tp.float32
    assert tp.tensor(1.5).dtype is tp.float32
    assert tp.tensor(1).dtype is tp.int64
