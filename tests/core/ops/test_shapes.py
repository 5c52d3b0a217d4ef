"""The shape rules against NumPy; their messages are tested in test_shapes_messages.py."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tensorplay_core import errors
from tensorplay_core.errors import ArgumentError, ValueRangeError
from tensorplay_core.ops import shapes
from tensorplay_core.ops.shapes import RULES, Shaped, as_sizes, broadcast_shapes, normalize_dim, normalize_dims
from tensorplay_core.types import dtype as dt

SHAPES = hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4)
INT, BOOL = dt.int64, dt.bool_


def s(*shape, dtype=dt.float32):
    return Shaped(shape, dtype)


def raw(shape):
    return np.empty(shape, np.int8)


def outcome(function):
    """A shape, or the word error."""
    try:
        return function()
    except (errors.TensorPlayError, ValueError, IndexError, TypeError):
        return "error"


def test_every_rule_that_the_contract_names_exists():
    config = Path(errors.__file__).parent / "config"
    named = {
        record["shape"]
        for path in config.glob("native_functions_*.yaml")
        for record in yaml.safe_load(path.read_text())
        if "shape" in record
    }
    assert named and named <= set(RULES)
    assert all(getattr(shapes, name) is RULES[name] for name in named)  # other tests add theirs


# -------------------------------------------------------------------------------------------------------- against NumPy


@given(st.lists(SHAPES, min_size=1, max_size=3))
def test_broadcast_is_numpys(all_shapes):
    expected = outcome(lambda: np.broadcast_shapes(*all_shapes))
    assert outcome(lambda: broadcast_shapes("add", *all_shapes)) == expected
    assert outcome(lambda: RULES["broadcast"]("where", *map(Shaped, all_shapes))) == expected


@given(SHAPES, SHAPES)
def test_write_is_numpys_broadcast_to(target, source):
    expected = outcome(lambda: np.broadcast_to(raw(source), target).shape)
    assert outcome(lambda: RULES["write"]("copy_", Shaped(target), Shaped(source), False)) == expected
    assert outcome(lambda: RULES["broadcast"]("add_", Shaped(target), Shaped(source))) == expected


@given(SHAPES, st.lists(st.integers(-1, 12), max_size=4))
def test_reshape_is_numpys(shape, sizes):
    expected = outcome(lambda: raw(shape).reshape(tuple(sizes)).shape)
    assert outcome(lambda: RULES["reshape"]("reshape", Shaped(shape), sizes)) == expected


@given(SHAPES, st.one_of(st.integers(-5, 5), st.lists(st.integers(-5, 5), min_size=1, max_size=3)), st.booleans())
def test_reduction_is_numpys(shape, dim, keepdim):
    if shape:
        axis = tuple(dim) if isinstance(dim, list) else dim
        expected = outcome(lambda: np.sum(raw(shape), axis=axis, keepdims=keepdim).shape)
    else:
        dims = dim if isinstance(dim, list) else [dim]
        expected = () if len(dims) == 1 and dims[0] in (-1, 0) else "error"
    assert outcome(lambda: RULES["reduction"]("sum", Shaped(shape), dim, keepdim)) == expected


@given(SHAPES, st.integers(-5, 5), st.booleans())
def test_argmax_is_numpys(shape, dim, keepdim):
    if not shape:
        return
    expected = outcome(lambda: np.argmax(raw(shape), axis=dim, keepdims=keepdim).shape)
    assert outcome(lambda: RULES["reduction"]("argmax", Shaped(shape), dim, keepdim)) == expected
    pair = outcome(lambda: RULES["max_dim"]("max.dim", Shaped(shape), dim, keepdim))
    assert pair == (expected if expected == "error" else (expected, expected))


@given(SHAPES, SHAPES)
def test_matmul_is_numpys(a, b):
    expected = outcome(lambda: np.matmul(raw(a), raw(b)).shape)
    assert outcome(lambda: RULES["matmul"]("matmul", Shaped(a), Shaped(b))) == expected


@given(SHAPES, st.data())
def test_permute_is_numpys(shape, data):
    dims = data.draw(st.permutations(range(len(shape))))
    dims = [d - len(shape) * data.draw(st.integers(0, 1)) for d in dims]
    assert RULES["permute"]("permute", Shaped(shape), dims) == raw(shape).transpose(dims).shape


@given(SHAPES, st.integers(-5, 4), st.integers(-5, 4))
def test_transpose_is_numpys(shape, a, b):
    if shape:
        expected = outcome(lambda: raw(shape).swapaxes(a, b).shape)
        assert outcome(lambda: RULES["transpose"]("transpose", Shaped(shape), a, b)) == expected


@given(SHAPES, st.lists(st.integers(0, 4), max_size=4))
def test_expand_is_numpys_broadcast_to(shape, size):
    expected = outcome(lambda: np.broadcast_to(raw(shape), size).shape)
    assert outcome(lambda: RULES["expand"]("expand", Shaped(shape), size)) == expected


@given(SHAPES, st.integers(-5, 5))
def test_unsqueeze_is_numpys(shape, dim):
    expected = outcome(lambda: np.expand_dims(raw(shape), dim).shape)
    assert outcome(lambda: RULES["unsqueeze"]("unsqueeze", Shaped(shape), dim)) == expected


def test_unsqueeze_counts_the_dims_of_the_result():
    with pytest.raises(errors.DimError, match=r"range of \[-3, 2\], but got 4\): the result has 3 dims"):
        RULES["unsqueeze"]("unsqueeze", Shaped((2, 3)), 4)


@given(SHAPES)
def test_squeeze_is_numpys(shape):
    assert RULES["squeeze"]("squeeze", Shaped(shape)) == raw(shape).squeeze().shape


OPTIONAL_INT = st.one_of(st.none(), st.integers(-6, 6))


@given(SHAPES.filter(bool), st.data(), OPTIONAL_INT, OPTIONAL_INT, st.integers(1, 4))
def test_slice_and_select_are_numpys(shape, data, start, end, step):
    dim = data.draw(st.integers(0, len(shape) - 1))
    at = (slice(None),) * dim
    expected = raw(shape)[(*at, slice(start, end, step))].shape
    assert RULES["slice"]("slice", Shaped(shape), dim, start, end, step) == expected
    i = data.draw(st.integers(-6, 6))
    expected = outcome(lambda: raw(shape)[(*at, i)].shape)
    assert outcome(lambda: RULES["select"]("select", Shaped(shape), dim, i)) == expected


INDEX = st.one_of(st.none(), hnp.array_shapes(min_dims=0, max_dims=2, max_side=3))


@given(hnp.array_shapes(min_dims=1, max_dims=4, max_side=3), st.lists(INDEX, max_size=5))
def test_index_is_numpys(shape, indices):
    key = tuple(slice(None) if i is None else np.zeros(i, np.int64) for i in indices)
    expected = outcome(lambda: raw(shape)[key].shape)
    given_ = [None if i is None else Shaped(i, INT) for i in indices]
    assert outcome(lambda: RULES["index"]("index", Shaped(shape), given_)) == expected


@given(st.lists(SHAPES, min_size=1, max_size=3), st.integers(-4, 4))
def test_cat_is_numpys(all_shapes, dim):
    counted = [x for x in all_shapes if x != (0,)] or all_shapes  # PyTorch leaves such a tensor out of any others
    expected = outcome(lambda: np.concatenate([raw(x) for x in counted], dim).shape)
    assert outcome(lambda: RULES["cat"]("cat", [Shaped(x) for x in all_shapes], dim)) == expected


NUMBER = st.one_of(st.integers(-50, 50), st.floats(-50, 50))


@given(NUMBER, NUMBER, NUMBER.filter(lambda x: abs(x) > 0.01))
@example(5e-324, 0, -2.0)
def test_arange_is_numpys(start, end, step):
    if (end - start) * step < 0:
        with pytest.raises(ValueRangeError):
            RULES["arange"]("arange", start, end, step)
    elif end != start and (end - start) / step == 0:  # underflows: NumPy has the start then, PyTorch nothing
        assert RULES["arange"]("arange", start, end, step) == (0,)
    else:
        assert RULES["arange"]("arange", start, end, step) == np.arange(start, end, step).shape


def test_arange_of_large_ints_is_exact():
    assert RULES["arange"]("arange", 2**62, 2**62 + 3, 2, dtype=INT) == (2,)
    assert RULES["arange"]("arange", 3) == (3,)


# ------------------------------------------------------------------------------------------------------- fixed outcomes


@pytest.mark.parametrize(
    ("rule", "arguments", "expected"),
    [
        ("same", (s(2, 3),), (2, 3)),
        ("broadcast", (s(2, 1), s(3)), (2, 3)),
        ("broadcast", (s(2), 1.5), (2,)),
        ("reduction", (s(2, 3), ()), ()),
        ("reduction", (s(2, 3), [], True), (1, 1)),
        ("reduction", (s(), 0), ()),
        ("reduction", (s(), -1, True), ()),
        ("dimwise", (s(), 0), ()),
        ("dimwise", (s(3, 0), 1), (3, 0)),
        ("squeeze", (s(1, 2, 1), 0), (2, 1)),
        ("squeeze", (s(1, 2, 1), (0, 1)), (2, 1)),
        ("squeeze", (s(1, 2, 1), ()), (1, 2, 1)),
        ("squeeze", (s(), 0), ()),
        ("transpose", (s(), 0, -1), ()),
        ("expand", (s(1, 3), (4, -1)), (4, 3)),
        ("expand", (s(3), 3), (3,)),
        ("expand", (s(1), (0,)), (0,)),
        ("input_sizes", (s(2), (4, 5), 0, 1), (4, 5)),
        ("linear", (s(5, 2, 3), s(4, 3), s(4)), (5, 2, 4)),
        ("linear", (s(3), s(4, 3)), (4,)),
        ("linear", (s(2, 3), s(3)), (2,)),
        ("sized", ([2, 3], 7.0), (2, 3)),
        ("sized", (np.int64(4),), (4,)),
        ("eye", (3,), (3, 3)),
        ("eye", (3, 0), (3, 0)),
        ("randperm", (0,), (0,)),
        ("write", (s(2), 3.0), (2,)),
        ("index", (s(2, 3), [s(2, 3, dtype=BOOL)]), None),
        ("index", (s(4, 3), [s(2, 2, dtype=dt.uint8)]), (2, 2, 3)),
        ("index", (s(4, 3, 2), [s(2, dtype=INT), None, s(2, dtype=INT)]), (2, 3)),
        ("index", (s(4, 3), [None, None]), (4, 3)),
    ],
)
def test_outcome(rule, arguments, expected):
    assert RULES[rule](rule, *arguments) == expected


@pytest.mark.parametrize("size", [-1, (2, -3)])
def test_a_bad_size_is_what_pytorch_and_numpy_raise(size):
    with pytest.raises(RuntimeError):
        as_sizes("zeros", size)
    with pytest.raises(ValueError, match="negative"):
        as_sizes("zeros", size)


def test_helpers():
    assert as_sizes("zeros", np.array([2, 3]).tolist()) == (2, 3)
    assert normalize_dim("sum", -1, 0) == 0
    assert normalize_dims("sum", None, 3) == (0, 1, 2)
    assert normalize_dims("sum", -1, 3) == (2,)
    with pytest.raises(ArgumentError, match=re.escape("zeros: size must be an int, not '23' (str)")):
        as_sizes("zeros", "23")
