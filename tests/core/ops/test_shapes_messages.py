"""The exact messages of the shape rules: operator, shapes, dim, valid range and remedy."""

from __future__ import annotations

import math

import pytest

from tensorplay_core.errors import ArgumentError, DimError, DTypeError, ShapeError, ValueRangeError
from tensorplay_core.ops.shapes import RULES, Shaped
from tensorplay_core.types import dtype as dt

INT, BOOL = dt.int64, dt.bool_


def s(*shape, dtype=dt.float32):
    return Shaped(shape, dtype)


MESSAGES = [
    (
        "broadcast",
        "add",
        (s(2, 3), s(4)),
        ShapeError,
        (
            "add: shapes (2, 3) and (4,) do not broadcast: dim 1 is 3 against 4, and neither is 1\n"
            "fix: dims are matched from the last one; give the tensor that should repeat a size of 1 there"
        ),
    ),
    (
        "broadcast",
        "add",
        (s(2, 3), s(2)),
        ShapeError,
        (
            "add: shapes (2, 3) and (2,) do not broadcast: dim 1 is 3 against 2, and neither is 1\n"
            "fix: dims are matched from the last one; if (2,) belongs to the first dims, make it (2, 1): "
            "unsqueeze(-1)"
        ),
    ),
    (
        "broadcast",
        "add_",
        (s(3), s(2, 3)),
        ShapeError,
        (
            "add_: shape (2, 3) does not broadcast to (3,), the shape of the tensor that is written to; an in-"
            "place operation never changes a shape\n"
            "fix: use the operator without the underscore, or expand the tensor that is written to first"
        ),
    ),
    (
        "addmm",
        "addmm",
        (s(3, 3), s(2, 4), s(4, 2)),
        ShapeError,
        (
            "addmm: self has shape (3, 3), which does not broadcast to (2, 2), the shape of the product\n"
            "fix: dims are matched from the last one; give self a size of 1 where it should repeat"
        ),
    ),
    (
        "reduction",
        "sum",
        (s(2, 3), 2),
        DimError,
        "sum: Dimension out of range (expected to be in range of [-2, 1], but got 2): the tensor has 2 dims",
    ),
    (
        "reduction",
        "sum",
        (s(), 1),
        DimError,
        "sum: Dimension out of range (expected to be in range of [-1, 0], but got 1): the tensor has 0 dims",
    ),
    (
        "reduction",
        "sum",
        (s(2, 3), (0, -2)),
        ShapeError,
        "sum: dim 0 appears multiple times in the list of dims (0, -2): 0 and -2 are the same",
    ),
    (
        "reduction",
        "sum",
        (s(2, 3), 1.0),
        ArgumentError,
        ("sum: dim must be an int, not 1.0 (float)\nfix: write 1"),
    ),
    (
        "reduction",
        "sum",
        (s(2, 3), (0, True)),
        ArgumentError,
        ("sum: dim[1] must be an int, not True (bool)\nfix: write 1"),
    ),
    (
        "reduction",
        "argmax",
        (s(0, 3), 0),
        DimError,
        (
            "argmax: Expected reduction dim 0 to have non-zero size: dim 0 of a tensor of shape (0, 3) cannot be "
            "reduced, since no elements have no argmax\n"
            "fix: reduce a dim that is not empty: [1]"
        ),
    ),
    (
        "reduction",
        "max",
        (s(0),),
        ShapeError,
        (
            "max: Expected reduction dim 0 to have non-zero size: all elements of a tensor of shape (0,) cannot "
            "be reduced, since no elements have no max\n"
            "fix: check for x.numel() == 0 before"
        ),
    ),
    (
        "max_dim",
        "max.dim",
        (s(0, 3), -2),
        DimError,
        (
            "max.dim: Expected reduction dim 0 to have non-zero size: dim 0 of a tensor of shape (0, 3) cannot be "
            "reduced, since no elements have no max\n"
            "fix: reduce a dim that is not empty: [1]"
        ),
    ),
    (
        "reshape",
        "reshape",
        (s(2, 3), (2, 4)),
        ShapeError,
        "reshape: shape (2, 4) is invalid for a tensor of shape (2, 3): 8 elements against 6",
    ),
    (
        "reshape",
        "reshape",
        (s(2, 3), (-1, 4)),
        ShapeError,
        (
            "reshape: shape (-1, 4) is invalid for a tensor of shape (2, 3): its 6 elements do not divide by 4, "
            "so no size fits the -1"
        ),
    ),
    (
        "reshape",
        "reshape",
        (s(2, 3), (-1, -1)),
        ValueRangeError,
        "reshape: only one dimension can be inferred, but shape (-1, -1) has -1 at dims [0, 1]",
    ),
    (
        "reshape",
        "reshape",
        (s(0, 3), (-1, 0)),
        ShapeError,
        (
            "reshape: cannot reshape a tensor of shape (0, 3) (0 elements) into shape (-1, 0) because the size -1 "
            "can be any value and is ambiguous\n"
            "fix: write the size instead of -1"
        ),
    ),
    (
        "reshape",
        "reshape",
        (s(2, 3), (-2, 3)),
        ValueRangeError,
        "reshape: invalid size -2 at dim 0 of shape (-2, 3); sizes start at 0, or are -1",
    ),
    (
        "permute",
        "permute",
        (s(2, 3), (0,)),
        ShapeError,
        "permute: dims (0,) must name each of the 2 dims of a tensor of shape (2, 3) once, but names 1",
    ),
    (
        "permute",
        "permute",
        (s(2, 3), (1, 1)),
        ShapeError,
        "permute: dim 1 appears multiple times in the list of dims (1, 1): 1 twice",
    ),
    (
        "transpose",
        "transpose",
        (s(2, 3), 0, 2),
        DimError,
        (
            "transpose: Dimension out of range (expected to be in range of [-2, 1], but got 2): dim1 is a dim of "
            "a tensor that has 2 dims"
        ),
    ),
    (
        "expand",
        "expand",
        (s(2, 3), (2, 4)),
        ShapeError,
        (
            "expand: The expanded size of the tensor (4) must match the existing size (3) at non-singleton "
            "dimension 1. Target sizes: (2, 4). Tensor sizes: (2, 3)"
        ),
    ),
    (
        "expand",
        "expand",
        (s(3), (-1, 3)),
        ShapeError,
        (
            "expand: the expanded size of the tensor (-1) isn't allowed in a leading, non-existing dim 0. Target "
            "sizes: (-1, 3). Tensor sizes: (3,)"
        ),
    ),
    (
        "select",
        "select",
        (s(2, 3), 0, 5),
        DimError,
        "select: index 5 is out of range at dim 0 of shape (2, 3) (valid: -2 to 1)",
    ),
    (
        "select",
        "select",
        (s(), 0, 0),
        DimError,
        ("select: a 0-d tensor has no dim to index\nfix: use .item() for its value"),
    ),
    (
        "slice",
        "slice",
        (s(3), 0, None, None, -1),
        ValueRangeError,
        "slice: step must be greater than zero, but is -1",
    ),
    (
        "cat",
        "cat",
        ([],),
        ValueRangeError,
        "cat: expected a non-empty list of tensors",
    ),
    (
        "cat",
        "cat",
        ([s(2, 3), s(2, 4)],),
        ShapeError,
        (
            "cat: sizes must match except in dim 0: tensor 0 has shape (2, 3), tensor 1 has shape (2, 4); dim 1 "
            "is 3 against 4"
        ),
    ),
    (
        "cat",
        "cat",
        ([s(2), s()],),
        ShapeError,
        (
            "cat: zero-dimensional tensor (at position 1) cannot be concatenated\n"
            "fix: give it a dim first: x.reshape(1) or x.unsqueeze(0)"
        ),
    ),
    (
        "index",
        "index",
        (s(3), [s(2)]),
        DTypeError,
        (
            "index: tensors used as indices must be integer or bool, but index 0 is float32\n"
            "fix: convert it: .to(tp.int64)"
        ),
    ),
    (
        "index",
        "index",
        (s(3), [s(2, dtype=BOOL)]),
        DimError,
        "index: the shape of the mask (2,) at index 0 does not match (3,), dim 0 of the indexed tensor (3,)",
    ),
    (
        "index",
        "index",
        (s(3), [None, s(2, dtype=INT)]),
        DimError,
        "index: too many indices for a tensor of 1 dims (shape (3,))",
    ),
    (
        "index",
        "index",
        (s(3, 3), [s(2, dtype=INT), s(3, dtype=INT)]),
        DimError,
        (
            "index: shape mismatch: indexing tensors could not be broadcast together with shapes (2,), (3,)\n"
            "fix: index tensors are matched element by element; for a grid give them shapes (n, 1) and (m,)"
        ),
    ),
    (
        "matmul",
        "matmul",
        (s(2, 3), s(4, 5)),
        ShapeError,
        (
            "matmul: shapes (2, 3) and (4, 5) cannot be multiplied: the last size of self is 3, the second to "
            "last size of other is 4\n"
            "fix: make both 3 or both 4"
        ),
    ),
    (
        "matmul",
        "matmul",
        (s(2, 3), s(2, 3)),
        ShapeError,
        (
            "matmul: shapes (2, 3) and (2, 3) cannot be multiplied: the last size of self is 3, the second to "
            "last size of other is 2\n"
            "fix: other.transpose(-1, -2) would fit"
        ),
    ),
    (
        "matmul",
        "matmul",
        (s(), s(2)),
        ShapeError,
        ("matmul: both arguments need to be at least 1-d, but they are 0-d and 1-d\nfix: use *"),
    ),
    (
        "linear",
        "linear",
        (s(2, 3), s(3, 4)),
        ShapeError,
        (
            "linear: input of shape (2, 3) has 3 features, but weight of shape (3, 4) takes 4\n"
            "fix: weight is (out_features, in_features): transpose it"
        ),
    ),
    (
        "linear",
        "linear",
        (s(2, 3), s(4, 3), s(3)),
        ShapeError,
        "linear: bias must have shape (4,), one for each output feature, but has (3,)",
    ),
    (
        "sized",
        "zeros",
        ((2, -3),),
        ValueRangeError,
        "zeros: size (2, -3) has a negative size -3 at dim 1; sizes start at 0",
    ),
    (
        "sized",
        "zeros",
        (True,),
        ArgumentError,
        ("zeros: size must be an int, not True (bool)\nfix: write 1"),
    ),
    (
        "sized",
        "zeros",
        ((2, 2.5),),
        ArgumentError,
        (
            "zeros: size[1] must be an int, not 2.5 (float)\n"
            "fix: round it yourself: int(...) cuts, round(...) rounds, // divides integers"
        ),
    ),
    (
        "sized",
        "zeros",
        ((2**40, 2**40),),
        ShapeError,
        (
            "zeros: shape (1099511627776, 1099511627776) is too large: 1208925819614629174706176 elements (about "
            "1.2e+24) are more than 2**63 - 1"
        ),
    ),
    (
        "sized",
        "zeros",
        ((1,) * 65,),
        ShapeError,
        "zeros: the result would have 65 dims; a tensor has at most 64",
    ),
    (
        "randperm",
        "randperm",
        (-1,),
        ValueRangeError,
        "randperm: n must not be negative, but is -1",
    ),
    (
        "eye",
        "eye",
        (2, -1),
        ValueRangeError,
        "eye: m must not be negative, but is -1",
    ),
    (
        "arange",
        "arange",
        (0, 3, 0),
        ValueRangeError,
        "arange: step must be nonzero",
    ),
    (
        "arange",
        "arange",
        (0, 3, -1),
        ValueRangeError,
        (
            "arange: upper bound and lower bound inconsistent with step sign: from 0 to 3 by -1\n"
            "fix: use step=1, or exchange start and end"
        ),
    ),
    (
        "arange",
        "arange",
        (0, math.inf, 1),
        ValueRangeError,
        "arange: end must be finite, but is inf",
    ),
    (
        "arange",
        "arange",
        (math.nan, 1, 1),
        ValueRangeError,
        "arange: start must be finite, but is nan",
    ),
    (
        "arange",
        "arange",
        (0, 1j, 1),
        ArgumentError,
        "arange: end must be an int or a float, not 1j (complex)",
    ),
    (
        "arange",
        "arange",
        (0, 10**400, 1),
        ShapeError,
        None,
    ),
    (
        "arange",
        "arange",
        (0, 1e300, 1e-300),
        ShapeError,
        None,
    ),
]


@pytest.mark.parametrize(("rule", "op", "arguments", "error", "message"), MESSAGES)
def test_message(rule, op, arguments, error, message):
    with pytest.raises(error) as caught:
        RULES[rule](op, *arguments)
    if message is not None:
        assert str(caught.value) == message
