"""Which calls of embeddings, attention and dropout are worth trying; what tables are for is in :mod:`sample_rules`."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from tensorplay_core.testing.sample_maker import Maker
from tensorplay_core.testing.sample_specs import Sample

_INDICES: tuple[tuple[Any, tuple[int, ...]], ...] = (
    ([0, 2, 2, 3], (4,)),
    ([[1, 1], [3, 0]], (2, 2)),
    (1, ()),
    ([], (0,)),
    ([[0, 1, 2]], (1, 3)),
)


def embedding(make: Maker) -> Iterator[Sample]:
    """Indices of several shapes, repeated ones, a padding row, gradients divided by counts."""
    public = make.rule is None
    for indices, shape in _INDICES:
        tensors = [make.tensor((4, 3), argument="weight"), make.integers(indices)]
        for padding, counts in ((-1, False), (2, False), (-1, True), (0, True)):
            name = f"shape {shape} padding {padding} counts {counts}"
            if public:
                options: dict[str, Any] = {} if padding < 0 else {"padding_idx": padding}
                yield make.sample(
                    name, *tensors[::-1], scale_grad_by_freq=counts, smooth=padding < 0 and not counts, **options
                )
            else:
                yield make.sample(name, *tensors, padding, counts, smooth=padding < 0 and not counts)
    if public:
        yield make.sample(
            "negative padding", make.integers([3, 3, 0]), make.tensor((4, 3)), padding_idx=-1, smooth=False
        )
        yield make.sample("strided", make.integers([2, 0]), make.tensor((4, 3), "strided"))
        yield make.sample("no rows", make.integers([]), make.tensor((0, 3)))
    else:
        yield make.sample("no rows", make.tensor((0, 3)), make.integers([]), -1, False)
        yield make.sample("strided", make.tensor((4, 3), "strided"), make.integers([2, 0]), -1, False)
        yield make.sample("int32", make.tensor((4, 3)), make.integers([2, 0], "int32"), -1, False)


def embedding_backward(make: Maker) -> Iterator[Sample]:
    """The same, from the other side."""
    for indices, shape in _INDICES:
        for padding, counts in ((-1, False), (2, False), (-1, True), (0, True)):
            grad = make.tensor((*shape, 3), argument="grad_output")
            name = f"shape {shape} padding {padding} counts {counts}"
            yield make.sample(name, grad, make.integers(indices), 4, padding, counts)
    yield make.sample("strided", make.tensor((4, 3), "strided"), make.integers([1, 1, 0, 1]), 2, -1, False)
    yield make.sample(
        "expanded", make.tensor((4, 3), "expanded"), make.integers([1, 1, 0, 1]), 2, -1, False, smooth=False
    )


def one_hot(make: Maker) -> Iterator[Sample]:
    """Classes of several shapes, a number of classes that is given or not."""
    for shape in ((3,), (2, 3), ()):
        classes = make.tensor(shape, fill=[0, 2, 1])
        yield make.sample(f"shape {shape}", classes)
        yield make.sample(f"shape {shape} of 4", classes, 4)
    yield make.sample("empty", make.tensor((0, 2)), 3)


def attention(make: Maker) -> Iterator[Sample]:
    """Batches and heads, masks of both kinds, causal, a scale, heads that are shared."""

    def tensors(*shapes: tuple[int, ...], layout: str = "c") -> list[Any]:
        names = ("query", "key", "value")
        return [make.tensor(shape, layout, argument=name) for shape, name in zip(shapes, names, strict=True)]

    plain = ((2, 3), (4, 3), (4, 2))
    yield make.sample("matrices", *tensors(*plain), scale=0.125)
    yield make.sample("default scale", *tensors((2, 4), (3, 4), (3, 4)))
    yield make.sample("heads", *tensors((2, 2, 3, 2), (2, 2, 4, 2), (2, 2, 4, 2)), scale=0.25)
    yield make.sample("broadcast", *tensors((2, 2, 3), (1, 4, 3), (4, 2)), scale=0.25)
    yield make.sample("causal", *tensors((3, 2), (4, 2), (4, 2)), is_causal=True, scale=0.125)
    yield make.sample("bool mask", *tensors(*plain), make.integers([[True, False] * 2, [False, True] * 2], "bool"))
    nowhere = make.integers([[True] * 4, [False] * 4], "bool")
    yield make.sample("a row that looks nowhere", *tensors(*plain), nowhere, scale=0.125)
    yield make.sample("mask that is added", *tensors(*plain), make.tensor((2, 4)), scale=0.125)
    yield make.sample("shared heads", *tensors((4, 2, 3), (2, 3, 3), (2, 3, 2)), scale=0.125, enable_gqa=True)
    yield make.sample("no queries", *tensors((0, 3), (4, 3), (4, 2)))
    yield make.sample("strided", *tensors((4, 3), (4, 3), (4, 2), layout="strided"), scale=0.125)


def attention_kernel(make: Maker) -> Iterator[Sample]:
    """The same of one batch, and from the other side: a gradient of the result's shape first."""
    backward = make.rule == "attention_backward"
    nowhere = [0.0, -math.inf] * 2 + [-math.inf] * 4

    def sample(name: str, batch: tuple[int, ...], sizes: tuple[int, ...], *rest: Any, layout: str = "c") -> Sample:
        length, size, others, width = sizes
        shapes = {"query": (length, size), "key": (others, size), "value": (others, width)}
        shapes = {"grad_out": (length, width), **shapes} if backward else shapes
        tensors = [make.tensor((*batch, *shape), layout, argument=which) for which, shape in shapes.items()]
        return make.sample(name, *tensors, *rest)

    plain = (2, 3, 4, 2)
    yield sample("matrices", (), plain, None, False, 0.125)
    yield sample("batch", (2,), plain, None, False, 0.25)
    yield sample("heads", (2, 2), (3, 2, 2, 1), None, False, 0.25)
    yield sample("causal", (), (3, 2, 4, 2), None, True, 0.125)
    yield sample(
        "a row that looks nowhere", (), plain, make.tensor((2, 4), argument="attn_mask", fill=nowhere), False, 0.125
    )
    yield sample("mask that is added", (2,), plain, make.tensor((2, 4), argument="attn_mask"), False, 0.125)
    yield sample("mask of a batch", (2,), plain, make.tensor((2, 1, 4), argument="attn_mask"), False, 0.125)
    yield sample("no queries", (), (0, 3, 4, 2), None, False, 1.0)
    yield sample("no keys", (), (2, 3, 0, 2), None, False, 1.0)
    yield sample("strided", (), (4, 3, 4, 2), None, False, 0.125, layout="strided")


def dropout(make: Maker) -> Iterator[Sample]:
    """Everything is dropped: what else is drawn is no function of the arguments, and for other tests."""
    shapes = {"dropout1d": ((2, 3, 2), (3, 4)), "dropout2d": ((2, 3, 2, 2), (2, 3, 2))}
    shapes["dropout3d"] = ((1, 2, 2, 1, 2), (2, 1, 2, 2))
    for shape in shapes.get(make.name, ((3,), (2, 3), (), (0, 2))):
        yield make.sample(f"shape {shape}", make.tensor(shape), 1.0, True)
    if make.name == "native_dropout":
        yield make.sample("not training", make.tensor((2, 3)), 0.5, False)
    layout = (4, *shapes.get(make.name, ((2, 3),))[0][1:])
    yield make.sample("strided", make.tensor(layout, "strided"), 1.0, True)


def dropout_backward(make: Maker) -> Iterator[Sample]:
    """A mask and a scale."""
    for shape in ((3,), (2, 3), (), (0, 2)):
        mask = make.tensor(shape, dtype="bool", fill=[True, False, True])
        yield make.sample(f"shape {shape}", make.tensor(shape, argument="grad_output"), mask, 1.25)
    mask = make.tensor((4, 3), dtype="bool", fill=[True, False])
    yield make.sample("strided", make.tensor((4, 3), "strided"), mask, 2.0)


BY_RULE = {
    **dict.fromkeys(("attention", "attention_backward"), attention_kernel),
    "dropout": dropout,
    "dropout_backward": dropout_backward,
    "embedding": embedding,
    "embedding_backward": embedding_backward,
}
BY_NAME = {
    **dict.fromkeys(("dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout"), dropout),
    "embedding": embedding,
    "one_hot": one_hot,
    "scaled_dot_product_attention": attention,
}
