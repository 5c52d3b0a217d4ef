"""Bad calls: each must raise an error of TensorPlay's, with its inputs as they were; none may end the interpreter."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import Any

from tensorplay_core.dispatch.operator import Operator
from tensorplay_core.errors import KernelError, TensorPlayError
from tensorplay_core.testing.references.rounding import round_to
from tensorplay_core.testing.sample_maker import Maker
from tensorplay_core.testing.sample_specs import Named
from tensorplay_core.testing.samples import samples
from tensorplay_core.testing.suite.calls import Judge, Made, Skip, over
from tensorplay_core.testing.suite.cases import Case, on_samples, suited
from tensorplay_core.testing.suite.further_bad_calls import (
    BAD_ARGS,
    BAD_CALLS,
    DEVICE,
    NAMED,
    NO_INT,
    OUT_OF_RANGE,
    Args,
    X,
)
from tensorplay_core.testing.suite.further_bad_calls import ints as _i
from tensorplay_core.testing.suite.further_bad_calls import mask as _mask
from tensorplay_core.testing.suite.further_bad_calls import row as _row
from tensorplay_core.testing.suite.further_bad_calls import t as _t
from tensorplay_core.testing.suite.given import Given, described
from tensorplay_core.testing.suite.outcome import Outcome
from tensorplay_core.testing.suite.subject import Subject, inplace_of, operators

REFUSED = ("int32", "uint8", "complex64")
"""Dtypes of the kinds that some operators do not take; what works on bool by the way is left open."""
FAR, ONE_OF_MANY = "an index far out of range", "a bad item in a batch"
SAID = {FAR: (("7", "2"), ("9", "5")), ONE_OF_MANY: (("5",),)}
"""The numbers that a message must have, any one of the groups: an index with the size of its dim, an item's number."""
OF_A_DTYPE = "tensors of "
"""How the cases begin whose dtype an operator does not take."""
RIGHT = 4
"""How many calls that are right come before the bad ones."""
Bad = tuple[Args, dict[str, Any]]
ROWS = ((0, _row(0, 2, 1)), (0, _row(0, -3, 1)), (1, _row(3, 0)), (2, _row(0)), (0, _i(0)))
"""A dim of ``X`` and indices along it that it has not."""


def _broadcast(op: Operator) -> Iterator[Bad]:
    if sum(a.type.is_tensor for a in op.schema.positional) == 3:
        yield (Given((4,), [True] * 4, "bool"), X, X), {}
    else:
        yield (X, _t(4, 5)), {}
        yield (X, _t(2)), {}


def _scatter(op: Operator) -> Iterator[Bad]:
    bad: dict[str, tuple[tuple[Any, ...], ...]] = {
        "index_backward": ((_t(1), (5,), [_i(9)]), (_t(1), (5,), [_i(-6)]), (_t(3), (5,), [_i(1, 2)]),
                           (_t(5), (5,), [None, None]), (_t(4), (5,), [None]), (_t(1), (5,), [_i(1, 2)])),
        "select_backward": ((_t(3), (2, 3), 0, 2), (_t(3), (2, 3), 0, -3), (_t(1), (2, 3), 0, 0)),
        "slice_backward": (
            *((_t(n), (5,), 0, 0, 5, 1) for n in (3, 1)), *((_t(5), (5,), 0, 0, 5, step) for step in (0, -1)),
            (_t(5), (5,), 0, None, None, -1),
        ),
    }  # fmt: skip
    for args in bad.get(op.name, ()):
        yield args, {}


def _sized(op: Operator) -> Iterator[Bad]:
    rest = (1,) if op.schema.argument("fill_value") is not None else ()
    yield ((-1, 2), *rest), DEVICE
    if "random" in op.tags:
        yield ((2,),), {"dtype": Named("dtype", "int32"), **DEVICE}


def _write(op: Operator) -> Iterator[Bad]:
    if op.name == "copy_":
        yield (X, _t(4)), {}
    elif op.name == "fill_":
        yield (X, "x"), {}


def _each(*bad: Args) -> Callable[[Operator], Iterator[Bad]]:
    return lambda op: ((args, {}) for args in bad)


BAD: dict[str, Callable[[Operator], Iterator[Bad]]] = {
    "broadcast": _broadcast, "input_sizes": _scatter, "sized": _sized, "write": _write,
    "reduction": lambda op: ((args, {}) for args in OUT_OF_RANGE if op.schema.argument("dim") is not None),
    "max_dim": _each(*OUT_OF_RANGE, (_t(0, 3), 0)),
    "dimwise": _each(*OUT_OF_RANGE, *NO_INT),
    "norm": _each(*((x, 2, dim) for x, dim in OUT_OF_RANGE), (_t(0, 3), math.inf, 0), (X, 2, (0, 0))),
    "topk": _each((X, 4), (X, 3, 0), (X, -1), (X, 1, 2), (_t(), 2), (_t(), 1, 1)),
    "searchsorted": _each((X, _t(3)), (X, _t(3, 3)), (_t(), X), (_t(2, 2, 3), X)),
    "bincount": _each((X,), (_t(3),), (_i(1, -1),), (_i(1, 2), _t(3)), (_i(1, 2), None, -1), (_i(), X)),
    "kthvalue": _each((X, 0), (X, 4), (X, 1, 2), (_t(0, 3), 1, 0), (_t(), 2)),
    "median.dim": _each(*OUT_OF_RANGE, (_t(0, 3), 0)),
    "quantile": _each((X, _t(2)), (X, X), (X, _i(0)), (X, _t(), 2), (_t(0, 3), _t())),
    "quantile.scalar": _each((X, 1.5), (X, -0.5), (X, 0.5, 2)),
    "diff": _each((X, -1), (X, 1, 2), (_t(),), (X, 1, -1, _t(3)), (X, 1, 0, _t(2, 2))),
    "norm.str": _each((X, "nuc"), (X, "fro", 2)),
    "bucketize.Tensor": _each((X, X), (X, _t())),
    "sort.stable": lambda op: (((x,), {"stable": True, "dim": dim}) for x, dim in OUT_OF_RANGE),
    "argsort": _each(*OUT_OF_RANGE),
    "matmul": _each((X, X), (_t(3), _t(4)), (X, _t()), (_t(2, 2, 3), _t(3, 3, 2))),
    "linear": _each((X, _t(4, 5)), (X, _t(4, 3), _t(5))),
    "reshape": _each((X, (4,)), (X, (-1, -1)), (X, (-1, 4)), (X, (-2, 3))),
    "permute": _each((X, (0, 0)), (X, (0,)), (X, (0, 2))),
    "transpose": _each((X, 0, 2), (X, -3, 0), (_t(), 0, 1), (_t(), -2, 0)),
    "expand": _each((X, (4, 3)), (X, (3,)), (_t(1), (-2,)), (X, (0, 3)), (X, (2, 0))),
    "squeeze": _each(*OUT_OF_RANGE, (X, (0, 0)), (X, (0, -2)), (_t(1, 1), (0, -2)), (_t(), (0, 1))),
    "unsqueeze": _each((X, 3), (X, -4), (_t(), 1), (_t(), -2), *NO_INT),
    "select": _each((X, 0, 2), (X, 0, -3), (X, 2, 0), (_t(), 0, 0), (X, 0, None), (X, 0, [1])),
    "slice": _each((X, 2), (X, 0, 0, 2, 0), (X, 0, 0, 2, -1), (_t(), 0)),
    "cat": _each(([X, _t(2, 4)], 0), ([X, X], 2), ([], 0), ([X, _t(3)], 0)),
    "index": _each(
        *((X, [_i(*wrong)]) for wrong in ((2,), (0, -3))), (X, [None, _i(3)]), (X, [_i(0), _i(0), _i(0)]),
        *((X, [_mask(*shape)]) for shape in ((3,), (2, 2))), (X, [_mask(2), _mask(2)]), (_t(), [_i(0)]),
        (X, [_i(0, 1), _i(0, 1, 2)]), (X, [None, None, None]),
    ),
    "arange": lambda op: iter([((0, 5, 0), DEVICE), ((0, -5, 1), DEVICE)]),
    "eye": lambda op: iter([((-1,), DEVICE), ((2, -1), DEVICE)]),
    "randperm": lambda op: iter([((-1,), DEVICE)]),
    "as_strided": _each(
        (X, (2, 4), (4, 1)), (X, (2,), (1,), 5), (X, (2,), (1,), -1), (X, (2,), (-1,)), (X, (-2,), (1,)),
        (X, (2,), (1, 1)), (_t(3, 0), (1,), (1,)), (_t(0, 3), (1,), (1,)),
    ),
    "diagonal": _each((X, 0, 0, 0), (X, 0, 1, -1), (X, 0, 2, 0), (X, 0, 0, -3), (_t(3),), (_t(),)),
    "flip": _each((X, (0, 0)), (X, (0, -2)), (X, (2,)), (X, (-3,)), (_t(), (1,)), (_t(), (-2,))),
    "unbind": _each((X, 2), (X, -3), (_t(),)),
    "split_with_sizes": _each((X, (1, 2)), (X, (1,)), (X, (3, -1)), (X, (1, 1), 2), (_t(), (1,))),
    "select_scatter": _each((X, _t(3), 0, 2), (X, _t(3), 0, -3), (X, _t(2), 0, 0), (X, _t(1), 0, 0), (X, _t(3), 2, 0)),
    "slice_scatter": _each((X, _t(1, 3)), (X, _t(2, 3), 2), *((X, X, 0, 0, 2, step) for step in (0, -1))),
    "diagonal_scatter": _each((X, _t(3)), (X, _t(1)), (X, _t(2), 0, 1, 1)),
    "as_strided_scatter": _each((X, _t(2), (3,), (1,)), (X, _t(7), (7,), (1,)), (X, _t(1), (2,), (1,))),
    "index_put": _each(
        *((X, [_i(*wrong)], _t(3), add) for wrong in ((2,), (0, -3)) for add in (False, True)),
        *((X, picked, values, add) for add in (False, True) for picked, values in (
            ([_i(0)], _t(4)), ([_i(0, 1)], _t(3, 3)), ([None, _i(3)], _t(1)), ([None, None], _t(4)),
            ([_mask(3)], _t(3)), ([_mask(2, 3)], _t(5)), ([_i(0), _i(0), _i(0)], _t(1)),
            ([_i(0, 1), _i(0, 1, 2)], _t(1)), ([None, None, None], _t(1)),
            ([None], _t(1, 2, 3)), ([_i(0)], _t(1, 1, 3)), ([_mask(2, 3)], _t(1, 6)), ([_mask(2)], _t(1, 2, 3)),
            ([None, _mask(3)], _t(1, 2, 3)), ([_mask(2), _i(0)], _t(1, 2)),
        )),
    ),
    "index_select": _each((X, 0, _i(2)), (X, 0, _i(-3)), (X, 2, _i(0)), (X, 0, _t(2))),
    "masked_select": _each((X, _mask(4)), (X, _mask(3, 3)), (X, X)),
    "masked_fill.Scalar": _each((X, _mask(4), 1.0), (X, X, 1.0)),
    "masked_fill.Tensor": _each((X, _mask(4), _t()), (X, _mask(2, 3), _t(2)), (X, X, _t())),
    "masked_scatter": _each((X, _mask(2, 3), _t(5)), (X, _mask(4), X), (X, X, X)),
    "gather": _each(*((X, dim, index) for dim, index in ROWS)),
    "scatter.src": _each(*((X, dim, index, X) for dim, index in ROWS), (X, 0, _row(0, 1, 0, 1), X),
                         (X, 0, _row(0, 1, 0, 1), _t(2, 4))),
    "scatter.value": _each(*((X, dim, index, 1.0) for dim, index in ROWS), (X, 0, _row(0, 1, 0, 1), 1.0)),
    "scatter_add": _each(*((X, dim, index, X) for dim, index in ROWS), (X, 0, _row(0, 1, 0, 1), X),
                         (X, 0, _row(0, 1, 0, 1), _t(2, 4))),
    "take": _each((X, _i(6)), (X, _i(0, -7)), (X, _t(1))),
    "split": _each((X, -1), (X, 1, 2), (_t(), 1)),
    "split.sizes": _each((X, (1, 2)), (X, (3, -1)), (X, (1, 1), 2)),
    "chunk": _each((X, 0), (X, -1), (X, 2, 2), (_t(), 1)),
    "narrow": _each((X, 0, 1, 2), (X, 0, -3, 1), (X, 0, 3, 0), (X, 0, 0, -1), (X, 2, 0, 1), (_t(), 0, 0, 1)),
    "movedim": _each((X, 0, 2), (X, -3, 0), (X, (0, 0), (0, 1)), (X, (0, 1), (1,))),
    "flatten": _each((X, 1, 0), (X, 0, 2), (X, -3)),
    "unflatten": _each((X, 0, (3,)), (X, 2, (1, 1)), (X, 0, (-1, -1)), (X, 0, ())),
    "t": _each((_t(2, 2, 2),)),
    "stack": _each(([X, _t(3)], 0), ([X, _t(3, 2)], 0), ([], 0), ([X, X], 3), ([X, X], -4)),
}  # fmt: skip


_W = _t(2, 5)
BEYOND: dict[str, tuple[Args, ...]] = {
    "index": (
        (_W, [_i(7)]),
        (_W, [None, _i(9)]),
        (_W, [_i(1), _i(-9)]),
        (_W, [_mask(2), _i(0, 9)]),
        (_W, [None, _i(4, -9)]),
        (_W, [None, _i(-4, 9)]),
        (_W, [_i(-2), _i(9)]),
        (_t(2, 2, 5), [_mask(2, 2), _i(9)]),
        (_t(1, 5), [_mask(1), _i(9)]),
    ),
    "index_put": ((_W, [_i(7)], _t(5)), (_W, [None, _i(9)], _t(2, 1)), (_W, [_i(1), _i(-9)], _t(1), True)),
    "index_select": ((_W, 1, _i(9)), (_W, 0, _i(-7)), (_W, 1, _i(4, -9))),
    "gather": ((_W, 1, _row(9)), (_W, 0, _row(-7)), (_W, 1, _row(4, -9))),
    "scatter_reduce": (
        (_W, 1, _row(9), _W, "sum"),
        (_W, 0, _row(-7), _W, "sum"),
        (_W, 1, _row(4, -9), _W, "sum"),
        (_W, 1, _row(-4, 9), _W, "sum"),
    ),
    "select": ((_W, 0, 7), (_W, -1, -9)),
}
"""Calls with an index far beyond its dim, 7 of 2 or 9 of 5: the message must have both numbers in it."""


def bad_calls(op: Operator) -> Iterator[Case]:
    """Yields calls of an operator that must raise."""
    if op.name == "cross_entropy":
        yield Case("a class out of range", (X, _i(0, 3)), {}, "float32")
        yield Case("too few classes", (X, _i(0)), {}, "float32")
    for args in BEYOND.get(op.shape or op.display_name, ()):
        yield Case(FAR, args, {}, "float32")
    for args in NAMED.get(op.display_name, ()):
        yield Case(ONE_OF_MANY, args, {}, "float32")
    for args, kwargs in (*BAD.get(op.shape or op.display_name, _each())(op), *_own(op)):
        yield Case("a bad call", args, kwargs, "float32")
    asks = any(a.default is None for a in op.schema.keyword_only)
    if op.schema.positional and op.schema.positional[0].type.is_tensor and not asks:
        rest = [X if a.type.is_tensor else 1 for a in op.schema.positional[1:] if a.default is None]
        yield Case("no tensor", ("x", *rest), {}, "float32")
    yield from refused_dtypes(op)


def _own(op: Operator) -> Iterator[Bad]:
    """Yields calls of the further tables, which have rules as well where no operator is called so."""
    for key in {op.display_name, op.shape} - {name for name in operators() if name != op.display_name}:
        yield from ((args, {}) for args in BAD_ARGS.get(key or "", ()))
    yield from ((args, kwargs) for name, args, kwargs in BAD_CALLS if name == op.display_name)


def refused_dtypes(op: Operator) -> Iterator[Case]:
    """Yields calls with tensors of dtypes that an operator does not take: what has no order, no mean or no sign."""
    if "random" in op.tags:
        return
    cases = [*_on_float32(op)]
    without_dims = (case for case in cases if not any(given.shape for given in case.tensors))
    for case in [*cases[:1], *islice(without_dims, 1)]:
        for dtype in REFUSED:
            if not Maker(op, dtype, 0).supported:
                yield case.replaced(partial(_in, dtype), f"{OF_A_DTYPE}{dtype}")._replace(dtype=dtype)


def _in(dtype: str, given: Given) -> Given:
    return given._replace(dtype=dtype, data=round_to([*map(abs, given.data)], dtype))


def _on_float32(op: Operator) -> Iterator[Case]:
    for sample in samples(op, dtype="float32"):
        args, kwargs = tuple(map(described, sample.args)), {k: described(v) for k, v in sample.kwargs.items()}
        case = Case(sample.name, args, kwargs, "float32")
        if case.tensors and all(given.dtype == "float32" and given.data for given in case.tensors):
            yield case


def errors(subject: Subject, op: Operator) -> Iterator[Outcome]:
    """Every bad call of an operator, and of its in-place variant, which must not have written by then."""
    judge, variant = Judge(subject, op), inplace_of(op)
    writes = None if variant is None else Judge(subject, variant)
    for one in (op, variant):
        if one is not None and one.function is not None:
            _well(subject, op, one.function)

    def check(case: Case) -> None:
        fitting = suited(subject, case)
        if fitting is None:
            raise Skip
        refuses(judge, fitting)
        if writes is not None:
            refuses(writes, fitting)

    yield from over(judge, "errors", "", bad_calls(op), check)


def _well(subject: Subject, op: Operator, function: Callable[..., Any]) -> None:
    """Makes some calls that are right, after which bad ones may take the fast path, where only the kernel looks."""
    if not subject.has("float32"):
        return
    for case in islice(on_samples(subject, op, "float32", "errors"), RIGHT):
        with suppress(Exception):  # their own check tells of it
            made = Made(subject, op, case)
            for _ in range(2):
                function(*made.args, **made.kwargs)


def refuses(judge: Judge, case: Case) -> None:
    """Makes a bad call twice, so that the fast path meets it too.

    Raises:
        Finding: it does not raise, or raises what is not TensorPlay's, or what the kernel did not mean to raise, or has
            written to an input.
    """
    for _ in range(2):
        made = Made(judge.subject, judge.op, case)
        assert judge.op.function is not None
        try:
            result = judge.op.function(*made.args, **made.kwargs)
        except TensorPlayError as error:
            judge.calls += 1
            if isinstance(error, KernelError):
                judge.wrong(case, f"is refused as a failure of the kernel, not for what is wrong with it: {error}")
            said = SAID.get(case.name)
            if said and not any(all(re.search(rf"\b{n}\b", str(error)) for n in numbers) for numbers in said):
                what = "both the index and the size of its dim" if case.name == FAR else "which item it is"
                judge.wrong(case, f"names not {what}: {error}")
        except Exception as error:
            judge.wrong(case, f"raised {type(error).__name__}, which is not TensorPlay's: {error}")
        else:
            judge.wrong(case, f"must raise, and gives {type(result).__name__}")
        judge.inputs(case, made, " raised, and before that it")
