"""What samples try, and the samples that are derived where a table leaves something out."""

from __future__ import annotations

from types import SimpleNamespace

from tensorplay_core.testing.sample_features import completed, features, is_finite
from tensorplay_core.testing.sample_specs import Sample, TensorSpec
from tensorplay_core.types.schema import parse_schema

SUM = SimpleNamespace(schema=parse_schema("total(Tensor self, int[]? dim=None) -> Tensor"), shape=None, tags=())


def spec(data, shape, layout="c", dtype="float64"):
    return TensorSpec(shape, data, dtype, layout)


def test_features():
    def found(*args):
        return features(SUM, Sample(args, {}, "sample"))

    assert found(spec(1.5, ())) == {"0-d"}
    assert found(spec([], (0,))) == {"empty"}
    assert found(spec([1.0, 2.0], (2,), "strided")) == {"strided"}
    assert found(spec([0.0, 1.0, 1.0], (3,))) == {"ties", "zeros"}
    assert found(spec([1.0], (1,)), [0, -1]) == {"negative dim"}
    assert found([spec([1.0], (1,)), spec([1.0, 2.0], (2,))]) == {"broadcast"}
    assert found(spec([1, 1], (2,), dtype="int64")) == set()


def test_what_a_table_leaves_out_is_derived_from_its_largest_smooth_sample():
    table = [Sample((spec([1.0], (1,)),), {}, "small"), Sample((spec([1.0, 2.0, 3.0], (3,)), 0), {}, "large")]
    assert [s.name for s in completed(SUM, table)] == ["small", "large", "gaps in memory", "equal elements and zeros"]
    gaps, tied = list(completed(SUM, table))[2:]
    assert gaps.args == (spec([1.0, 2.0, 3.0], (3,), "strided"), 0)
    assert tied.args == (spec([0.0, 1.0, 1.0], (3,)), 0) and not tied.smooth
    full = [*table, Sample((spec([0.0, 0.0], (2,), "strided"),), {}, "all")]
    assert list(completed(SUM, full)) == full
    assert list(completed(SUM, [])) == []


def test_infinities_have_no_gradient():
    assert is_finite(Sample((spec([1.0], (1,)), 2), {}, "finite"))
    assert not is_finite(Sample((spec([float("inf")], (1,)),), {}, "infinite"))
    assert not is_finite(Sample(([spec([float("nan")], (1,))],), {}, "nan"))
