"""Which calls of the losses are worth trying; what tables are for is in :mod:`sample_rules`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tensorplay_core.testing.sample_maker import Maker
from tensorplay_core.testing.sample_specs import Sample

_REDUCTIONS = ("none", "sum", "mean")
_CHANCES = [0.125, 0.25, 0.5, 0.75, 0.875]
_SIGNS = [1.0, -1.0]

# The options of losses of two tensors, besides the reduction.
_OPTIONS: dict[str, tuple[dict[str, Any], ...]] = {
    "huber_loss": ({"delta": 2.0},),
    "kl_div": ({"reduction": "batchmean"}, {"log_target": True}),
    "poisson_nll_loss": ({"log_input": False}, {"full": True}, {"log_input": False, "full": True, "eps": 0.5}),
    "hinge_embedding_loss": ({"margin": 2.5},),
    "smooth_l1_loss": ({"beta": 2.5}, {"beta": 0.0}),
}
_WEIGHTED = {"mse_loss", "l1_loss", "huber_loss", "binary_cross_entropy", "binary_cross_entropy_with_logits"}
_INPUTS = {"binary_cross_entropy": _CHANCES, "poisson_nll_loss": [0.25, 0.5, 1.0, 2.0, 3.0]}
_TARGETS: dict[str, list[float]] = {
    **dict.fromkeys(("binary_cross_entropy", "binary_cross_entropy_with_logits", "kl_div"), _CHANCES),
    **dict.fromkeys(("hinge_embedding_loss", "soft_margin_loss"), _SIGNS),
    "poisson_nll_loss": [0.5, 1.5, 2.0, 3.0],
}
_CHOOSING = {"hinge_embedding_loss"}
"""Losses whose target chooses, so that they jump where it changes."""


def pair(make: Maker) -> Iterator[Sample]:
    """An input and a target, each reduction, each option."""

    def tensors(shape: tuple[int, ...], layout: str = "c") -> list[Any]:
        return [
            make.tensor(shape, layout, fill=_INPUTS.get(make.name)),
            make.tensor(shape, argument="target", fill=_TARGETS.get(make.name)),
        ]

    smooth = make.name not in _CHOOSING
    for shape in ((3,), (2, 3), ()):
        yield make.sample(f"shape {shape}", *tensors(shape), smooth=smooth)
    for reduction in _REDUCTIONS:
        yield make.sample(f"reduction {reduction}", *tensors((2, 3)), reduction=reduction, smooth=smooth)
        if make.name in _WEIGHTED:
            weight = make.tensor((2, 3), fill=[0.5, 1.0, 2.0])
            options = {"reduction": reduction, "weight": weight}
            yield make.sample(f"weight, {reduction}", *tensors((2, 3)), smooth=smooth, **options)
    for options in _OPTIONS.get(make.name, ()):
        yield make.sample(f"{options}", *tensors((2, 3)), smooth=smooth, **options)
    if make.name == "binary_cross_entropy_with_logits":
        yield make.sample("pos_weight", *tensors((2, 3)), pos_weight=make.tensor((3,), fill=[0.5, 1.0, 2.0]))
    if make.name == "kl_div":
        targets = make.tensor((2, 3), argument="target", fill=[0.0, 1.0, 0.5])
        yield make.sample("targets of 0", make.tensor((2, 3)), targets, smooth=False)
    yield make.sample("empty", *tensors((0, 3)), reduction="sum")
    yield make.sample("strided", *tensors((4, 3), "strided"), smooth=smooth)
    if make.name == "hinge_embedding_loss":  # its target has no zeros
        signs = make.tensor((2, 3), argument="target", fill=_SIGNS)
        yield make.sample("equal elements and zeros", make.tensor((2, 3), fill=(0, 1)), signs, smooth=False)
    if make.name not in _INPUTS:
        yield make.sample("expanded", *tensors((3, 4), "expanded"), smooth=False)
    if make.name == "binary_cross_entropy":
        edges = [
            make.integers([0.0, 1.0, 0.0, 1.0], make.dtype.name),
            make.integers([0.0, 0.0, 1.0, 1.0], make.dtype.name),
        ]
        yield make.sample("equal elements and zeros", *edges, reduction="none", smooth=False)


def nll_loss(make: Maker) -> Iterator[Sample]:
    """Weights, the class that is ignored, further dims."""
    log_p = make.tensor((3, 4))
    classes = make.integers([1, 0, 3])
    weight = make.integers([0.5, 1.0, 2.0, 0.25], make.dtype.name)
    for reduction in _REDUCTIONS:
        yield make.sample(f"reduction {reduction}", log_p, classes, reduction=reduction)
        yield make.sample(f"weight, {reduction}", log_p, classes, weight, reduction=reduction)
    yield make.sample("ignore_index", log_p, make.integers([1, -100, 3]))
    yield make.sample("ignore_index 0, weight", log_p, make.integers([1, 0, 3]), weight, ignore_index=0)
    yield make.sample("no examples", make.tensor((0, 4)), make.integers([]), reduction="sum")
    yield make.sample("one example", make.tensor((4,)), make.integers(2))
    yield make.sample("pixels", make.tensor((2, 3, 2)), make.integers([[0, 2], [1, 1]]), reduction="none")
    yield make.sample("strided", make.tensor((4, 3), "strided"), make.integers([0, 2, 1, 0]))


def rows(make: Maker) -> Iterator[Sample]:
    """Logits and classes; the gradient takes one number a row first."""
    backward = make.rule == "cross_entropy_rows_backward"

    def call(name: str, shape: tuple[int, int], classes: Any, *rest: Any, layout: str = "c") -> Sample:
        grads = [make.tensor(shape[:1], argument="grad_out")] if backward else []
        return make.sample(name, *grads, make.tensor(shape, layout), make.integers(classes), *rest)

    yield call("classes", (3, 4), [1, 0, 3], -100, 0.0)
    yield call("smoothing", (3, 4), [1, 0, 3], -100, 0.25)
    yield call("ignored", (3, 4), [1, -100, 3], -100, 0.0)
    yield call("ignored and smoothing", (4, 3), [0, 1, 2, 1], 1, 0.5)
    yield call("one class", (2, 1), [0, 0], -100, 0.0)
    yield call("no rows", (0, 3), [], -100, 0.0)
    yield call("strided", (4, 3), [2, 2, 0, 1], -100, 0.0, layout="strided")


def gaussian_nll_loss(make: Maker) -> Iterator[Sample]:
    """A variance for each element, for each row, and one that is too small."""
    positive = [0.25, 0.5, 1.0, 2.0, 4.0]
    for shape, of in (((2, 3), (2, 3)), ((2, 3), (2,)), ((2, 3), (2, 1)), ((3,), (3,)), ((), ())):
        tensors = [make.tensor(shape), make.tensor(shape), make.tensor(of, fill=positive)]
        yield make.sample(f"shape {shape} var {of}", *tensors)
        yield make.sample(f"shape {shape} var {of}, full", *tensors, True, reduction="none")
    tensors = [make.tensor((2, 3)), make.tensor((2, 3)), make.tensor((2, 3), fill=[0.0, 1.0, 2.0])]
    yield make.sample("equal elements and zeros", *tensors, eps=0.5, reduction="sum", smooth=False)
    yield make.sample("empty", *[make.tensor((0, 3)) for _ in range(3)], reduction="sum")
    strided = [make.tensor((4, 3), "strided"), make.tensor((4, 3)), make.tensor((4, 3), fill=positive)]
    yield make.sample("strided", *strided)


def ranking(make: Maker) -> Iterator[Sample]:
    """Two inputs and a sign: of margins, and of angles between rows."""
    angles = make.name == "cosine_embedding_loss"

    def tensors(shape: tuple[int, ...], layout: str = "c") -> list[Any]:
        pair = [make.tensor(shape, layout, argument=name) for name in ("input1", "input2")]
        return [*pair, make.tensor(shape[:-1] if angles else shape, fill=_SIGNS)]

    for shape in ((2, 3), (3,)):
        for options in ({}, {"margin": 0.25}, {"reduction": "none"}, {"reduction": "sum"}):
            yield make.sample(f"shape {shape} {options}", *tensors(shape), smooth=not angles, **options)
    yield make.sample("empty", *tensors((0, 3)), reduction="sum", smooth=not angles)
    if angles:
        equal = [make.tensor((4, 2), fill=(0, 0, 0, 1)), make.tensor((4, 2), fill=(0, 0, 2, 1))]
        yield make.sample("rows of zeros", *equal, make.tensor((4,), fill=_SIGNS), smooth=False)
    else:
        yield make.sample("shape ()", *tensors(()))
    yield make.sample("strided", *tensors((4, 3), "strided"), smooth=not angles)


def triplet_margin_loss(make: Maker) -> Iterator[Sample]:
    """Norms, the exchange of anchor and positive, reductions."""
    for shape in ((2, 3), (3,)):
        tensors = [make.tensor(shape) for _ in range(3)]
        for options in ({"margin": 9.0}, {"p": 1.0, "margin": 9.0}, {"p": 3.0}, {"swap": True}, {"reduction": "none"}):
            yield make.sample(f"shape {shape} {options}", *tensors, smooth="margin" in options, **options)
    yield make.sample("empty", *[make.tensor((0, 3)) for _ in range(3)], reduction="sum")
    yield make.sample("strided", make.tensor((4, 3), "strided"), make.tensor((4, 3)), make.tensor((4, 3)), margin=9.0)


BY_RULE = dict.fromkeys(("cross_entropy_rows", "cross_entropy_rows_backward"), rows)
BY_NAME = {
    **dict.fromkeys(
        (
            *(
                "binary_cross_entropy",
                "binary_cross_entropy_with_logits",
                "hinge_embedding_loss",
                "huber_loss",
                "kl_div",
            ),
            *("l1_loss", "mse_loss", "poisson_nll_loss", "smooth_l1_loss", "soft_margin_loss"),
        ),
        pair,
    ),
    **dict.fromkeys(("cosine_embedding_loss", "margin_ranking_loss"), ranking),
    "gaussian_nll_loss": gaussian_nll_loss,
    "nll_loss": nll_loss,
    "triplet_margin_loss": triplet_margin_loss,
}
