"""The samples: every operator of the contract has some, and each is a call that its shape rule accepts."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from tensorplay_core import errors
from tensorplay_core.codegen.context import CodegenContext
from tensorplay_core.ops.shapes import RULES, Shaped
from tensorplay_core.testing.sample_specs import Named, TensorSpec
from tensorplay_core.testing.samples import BY_NAME, BY_RULE, samples
from tensorplay_core.types import dtype as dt
from tensorplay_core.types.schema import parse_schema

CONTRACT = CodegenContext.load().contract.functions
BY_OP = {op.schema.base_name: op for op in CONTRACT}
DTYPES = ["bool", "uint8", "int64", "float16", "bfloat16", "float32", "float64", "complex64"]


class Numpy:
    """NumPy in the place of ``tensorplay``: just enough to build samples."""

    class Array(np.ndarray):
        def expand(self, shape):
            return np.broadcast_to(self, shape)

        def reshape(self, shape):
            return super().reshape(shape)

    @staticmethod
    def tensor(data, dtype, device):
        assert device == "here"
        return np.array(data, dtype).view(Numpy.Array)

    def __getattr__(self, name):
        return np.dtype("float32" if name == "bfloat16" else name)


def shaped(value):
    """Returns what a shape rule sees of an argument."""
    if isinstance(value, Named) and value.kind == "dtype":
        return dt.by_name(value.name)
    if isinstance(value, TensorSpec):
        return Shaped(value.shape, dt.by_name(value.dtype))
    return [shaped(item) for item in value] if isinstance(value, list) else value


def test_every_operator_of_the_contract_has_samples():
    short = {}
    for op in CONTRACT:
        count = max(len(list(samples(op, dtype=dtype))) for dtype in ("float32", "int64"))  # some take integers alone
        if count < 3:
            short[op.schema.base_name] = count
    assert len(CONTRACT) > 50
    assert not short, f"too few samples (operator: how many): {short}"


def test_every_shape_rule_has_a_table():
    assert set(BY_RULE) == set(RULES)
    assert {op.schema.name.removesuffix("_") for op in CONTRACT if op.shape is None} <= set(BY_NAME)
    assert set(BY_NAME) <= {name for op in CONTRACT for name in (op.schema.name, op.schema.base_name)}


@pytest.mark.parametrize("name", sorted(BY_OP))
def test_samples_bind_to_the_schema_and_pass_the_shape_rule(name):
    op = BY_OP[name]
    for dtype in DTYPES:
        seen = set()
        for sample in samples(op, dtype=dtype):
            assert sample.name not in seen
            seen.add(sample.name)
            assert len(sample.args) <= len(op.schema.positional)
            assert all(op.schema.argument(keyword) for keyword in sample.kwargs)
            given = {a.name for a in op.schema.positional[: len(sample.args)]} | set(sample.kwargs)
            assert all(a.default is not None or a.name in given for a in op.schema.arguments)
            if op.shape:
                RULES[op.shape](name, *map(shaped, sample.args), **{k: shaped(v) for k, v in sample.kwargs.items()})


def check(spec, built):
    """That a built tensor is what its description says."""
    assert built.shape == spec.shape
    expected = np.array(spec.data, built.dtype).reshape(spec.shape)
    assert np.array_equal(built, expected, equal_nan=built.dtype.kind in "fc")
    if spec.layout == "strided" and built.size:
        assert not built.flags.c_contiguous
    if spec.layout == "expanded" and built.size:
        assert built.strides[0] == 0


@pytest.mark.parametrize("name", sorted(BY_OP))
def test_samples_build(name):
    for dtype in DTYPES:
        for sample in samples(BY_OP[name], dtype=dtype):
            args, kwargs = sample.build(Numpy(), "here")
            for spec, built in [
                *zip(sample.args, args, strict=True),
                *((v, kwargs[k]) for k, v in sample.kwargs.items()),
            ]:
                if isinstance(spec, TensorSpec):
                    check(spec, built)
                elif isinstance(spec, Named):
                    assert built == ("here" if spec.kind == "device" else getattr(Numpy(), spec.name))


DIMS = ("dim", "dims", "dim0", "dim1", "dim2", "dimension", "source", "destination", "start_dim")


def tells_dims_apart(shape, dims):
    """Whether one of the dims is not also its own negative, as 0 is, and 1 of two; for those a wrong sign is right."""
    return 0 not in shape and any(dim % len(shape) != -dim % len(shape) for dim in dims if shape)


@pytest.mark.parametrize("name", sorted(BY_OP))
def test_some_sample_is_along_a_dim_that_its_negative_is_not(name):
    op = BY_OP[name]
    wanted = {a.name for a in op.schema.arguments if a.name in DIMS and "int" in str(a.type)}
    for sample in [sample for dtype in ("float32", "int64") for sample in samples(op, dtype=dtype)]:
        bound = dict(zip([a.name for a in op.schema.positional], sample.args, strict=False)) | sample.kwargs
        first = bound.get("input_sizes", sample.args[0])
        first = first[0] if isinstance(first, list) and first else first
        shape = getattr(first, "shape", first)
        for dim in [dim for dim in wanted if bound.get(dim) is not None]:
            dims = bound[dim] if isinstance(bound[dim], (tuple, list)) else [bound[dim]]
            if isinstance(shape, tuple) and tells_dims_apart(shape, dims):
                wanted.discard(dim)
    assert not wanted, f"no sample of {name} has a dim in the middle: {wanted}"


def test_the_same_seed_gives_the_same_samples():
    add = BY_OP["add"]
    assert list(samples(add)) == list(samples(add))
    assert list(samples(add)) != list(samples(add, seed=1))


def test_smooth_samples_stay_away_from_kinks_and_edges():
    for name in ("abs", "relu", "max", "log", "sqrt", "pow", "div"):
        for sample in samples(BY_OP[name]):
            for spec in sample.args:
                if sample.smooth and isinstance(spec, TensorSpec):
                    flat = np.ravel(spec.data)
                    assert np.isfinite(flat).all()
                    assert (flat != 0).all()
                    if name in ("max", "abs", "relu"):
                        assert len(set(flat)) == len(flat)
                    if name in ("log", "sqrt") or (name == "pow" and spec is sample.args[0]):
                        assert (flat > 0).all()


def test_dtypes_that_an_operator_does_not_take_give_no_samples():
    assert list(samples(BY_OP["lt"], dtype="complex64")) == []
    assert list(samples(BY_OP["mean"], dtype="int64")) == []
    assert list(samples(BY_OP["exp"], dtype="int64"))


def test_further_arguments_are_filled_in_from_the_schema():
    schema = parse_schema(
        "softplus(Tensor self, Scalar beta, float threshold, bool exact, int[2] k, Tensor? w) -> Tensor"
    )
    sample = next(samples(SimpleNamespace(schema=schema, shape="same", tags=())))
    assert sample.args[1:] == (2, 0.5, False, [1, 1], None)


def test_an_operator_without_a_table_says_what_to_do():
    odd = SimpleNamespace(schema=parse_schema("odd(Tensor self) -> Tensor"), shape=None, tags=())
    with pytest.raises(errors.ArgumentError, match="add one to BY_NAME or BY_RULE"):
        next(samples(odd))
    text = SimpleNamespace(schema=parse_schema("odd(Tensor self, str mode) -> Tensor"), shape="same", tags=())
    with pytest.raises(errors.ArgumentError, match="no sample value for str mode"):
        next(samples(text))
