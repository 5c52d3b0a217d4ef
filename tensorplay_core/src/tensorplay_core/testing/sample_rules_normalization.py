"""Which calls of the normalisations are worth trying; what tables are for is in :mod:`sample_rules`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tensorplay_core.testing.sample_maker import Maker
from tensorplay_core.testing.sample_specs import Sample

# (shape, dims, shape of weight and bias or None)
_STANDARDIZED: tuple[tuple[tuple[int, ...], list[int], tuple[int, ...] | None], ...] = (
    ((4,), [0], None),
    ((3, 4), [1], (4,)),
    ((3, 4), [-1], None),
    ((4, 3), [0], (3,)),
    ((2, 3, 4), [1, 2], (3, 4)),
    ((2, 2, 2, 3), [-2, -1], (2, 2, 1)),
    ((3, 2, 4), [0, 2], (2, 1)),
    ((2, 4, 3), [1], (3,)),
    ((3, 2, 2), [0, 2], (2, 2)),
    ((0, 3), [1], (3,)),
)


def standardize(make: Maker) -> Iterator[Sample]:
    """Statistics of the last dims, of the first, of some between, with and without a weight."""
    for shape, dims, affine in _STANDARDIZED:
        given = [None, None] if affine is None else [make.tensor(affine), make.tensor(affine)]
        yield make.sample(f"shape {shape} dim {dims}", make.tensor(shape), *given, dims, 0.125)
    yield make.sample("weight alone", make.tensor((2, 4)), make.tensor((4,)), None, [1], 1e-5)
    yield make.sample("bias alone", make.tensor((2, 4)), None, make.tensor((4,)), [1], 1e-5)
    yield make.sample("strided", make.tensor((4, 3), "strided"), make.tensor((3,)), make.tensor((3,)), [0], 0.125)
    yield make.sample("expanded", make.tensor((3, 4), "expanded"), None, None, [1], 0.125, smooth=False)


def standardize_backward(make: Maker) -> Iterator[Sample]:
    """The same, and each gradient left out."""
    for shape, dims, affine in _STANDARDIZED:
        kept = tuple(1 if d in [k % len(shape) for k in dims] else n for d, n in enumerate(shape))
        arguments: list[Any] = [make.tensor(shape), make.tensor(shape), *_statistics(make, kept)]
        arguments += [None if affine is None else make.tensor(affine), dims, affine or (), 0.125]
        yield make.sample(f"shape {shape} dim {dims}", *arguments, [True, affine is not None, affine is not None])
    for mask in ([True, False, False], [False, True, False], [False, False, True]):
        arguments = [make.tensor((2, 4)), make.tensor((2, 4)), *_statistics(make, (2, 1)), make.tensor((4,))]
        yield make.sample(f"mask {mask}", *arguments, [1], (4,), 0.125, mask)


def _statistics(make: Maker, shape: tuple[int, ...]) -> list[Any]:
    """A mean and a variance, which is not negative."""
    return [make.tensor(shape), make.tensor(shape, fill=[0.5, 1.0, 2.0, 4.0])]


def last_dims(make: Maker) -> Iterator[Sample]:
    """Over the last dims: one, several, all; ``layer_norm`` and ``rms_norm``."""
    several = make.name == "layer_norm"
    for shape, sizes in (((3, 4), [4]), ((2, 3, 2), [3, 2]), ((5,), [5]), ((2, 2, 3), [3])):
        given = [make.tensor(tuple(sizes)) for _ in range(1 + several)]
        yield make.sample(f"shape {shape} over {sizes}", make.tensor(shape), sizes, *given)
        yield make.sample(f"shape {shape} over {sizes}, plain", make.tensor(shape), sizes)
    yield make.sample("eps", make.tensor((3, 4)), [4], eps=0.5)
    yield make.sample("no rows", make.tensor((0, 4)), [4])
    yield make.sample("strided", make.tensor((4, 3), "strided"), [3], make.tensor((3,)))
    yield make.sample("expanded", make.tensor((3, 4), "expanded"), [4], smooth=False)


def group_norm(make: Maker) -> Iterator[Sample]:
    """One group, groups of some channels and of one, with and without dims behind the channels."""
    for shape, groups in (((2, 4), 2), ((2, 4, 3), 1), ((2, 4, 3), 2), ((1, 2, 2, 3), 2), ((2, 3, 4), 3)):
        affine = [make.tensor((shape[1],)), make.tensor((shape[1],))]
        yield make.sample(f"shape {shape} groups {groups}", make.tensor(shape), groups, *affine, eps=0.125)
    yield make.sample("plain", make.tensor((2, 4, 3)), 2)
    yield make.sample("no examples", make.tensor((0, 4, 3)), 2)
    yield make.sample("strided", make.tensor((4, 2, 3), "strided"), 1, make.tensor((2,)))


def instance_norm(make: Maker) -> Iterator[Sample]:
    """With and without a weight; by given statistics."""
    for shape in ((2, 3, 4), (1, 2, 2, 3)):
        affine = [make.tensor((shape[1],)), make.tensor((shape[1],))]
        yield make.sample(f"shape {shape}", make.tensor(shape), None, None, *affine, eps=0.125)
    yield make.sample("plain", make.tensor((2, 3, 4)))
    yield make.sample("no examples", make.tensor((0, 3, 4)), weight=make.tensor((3,)))
    yield make.sample("strided", make.tensor((4, 2, 3), "strided"), weight=make.tensor((2,)))
    statistics = [make.integers([0.5, -1.0], make.dtype.name), make.integers([1.0, 4.0], make.dtype.name)]
    yield make.sample("by statistics", make.tensor((2, 2, 3)), *statistics, use_input_stats=False)


def batch_norm(make: Maker) -> Iterator[Sample]:
    """Training without running statistics, which it would write to, and evaluation with them."""
    for shape in ((4, 3), (3, 2, 4), (2, 2, 2, 2)):
        affine = [make.tensor((shape[1],)), make.tensor((shape[1],))]
        yield make.sample(f"training, shape {shape}", make.tensor(shape), None, None, *affine, True, eps=0.125)
    yield make.sample("training, plain", make.tensor((4, 3)), None, None, training=True)
    yield make.sample("strided", make.tensor((4, 2, 3), "strided"), None, None, make.tensor((2,)), training=True)
    statistics = [make.integers([0.5, -1.0, 2.0], make.dtype.name), make.integers([1.0, 4.0, 0.5], make.dtype.name)]
    for shape in ((4, 3), (2, 3, 2), (0, 3)):
        affine = [make.tensor((3,)), make.tensor((3,))]
        yield make.sample(f"evaluation, shape {shape}", make.tensor(shape), *statistics, *affine)
    yield make.sample("evaluation, plain", make.tensor((2, 3)), *statistics)


BY_RULE = {"standardize": standardize, "standardize_backward": standardize_backward}
BY_NAME = {
    "batch_norm": batch_norm,
    "group_norm": group_norm,
    "instance_norm": instance_norm,
    "layer_norm": last_dims,
    "rms_norm": last_dims,
}
