"""Which calls of convolutions are worth trying: every argument, alone and with others, in one to three dims.

The other tables, and what they are for, are in :mod:`sample_rules`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from tensorplay_core.ops.shapes_convolution import geometry
from tensorplay_core.testing.sample_maker import Maker
from tensorplay_core.testing.sample_specs import Sample

Shape = tuple[int, ...]

# name: input, weight, bias, stride, padding, dilation, transposed, output_padding, groups
_ROWS: dict[str, tuple[Shape, Shape, bool, Shape, Shape, Shape, bool, Shape, int]] = {
    "1-d": ((2, 1, 3), (2, 1, 2), True, (1,), (0,), (1,), False, (0,), 1),
    "1-d stride": ((1, 1, 4), (1, 1, 2), False, (2,), (1,), (1,), False, (0,), 1),
    "plain": ((1, 2, 2, 2), (1, 2, 2, 1), True, (1, 1), (0, 0), (1, 1), False, (0, 0), 1),
    "padding": ((1, 1, 2, 1), (1, 1, 3, 2), True, (1, 1), (1, 1), (1, 1), False, (0, 0), 1),
    "stride": ((1, 1, 5, 2), (1, 1, 2, 1), False, (2, 3), (0, 0), (1, 1), False, (0, 0), 1),
    "dilation": ((1, 1, 3, 2), (1, 1, 2, 2), False, (1, 1), (0, 1), (2, 3), False, (0, 0), 1),
    "groups": ((1, 4, 1, 2), (2, 2, 1, 2), True, (1, 1), (0, 0), (1, 1), False, (0, 0), 2),
    "depthwise": ((1, 2, 2, 1), (4, 1, 2, 1), True, (2, 1), (1, 0), (1, 1), False, (0, 0), 2),
    "pointwise": ((2, 2, 1, 1), (2, 2, 1, 1), True, (1, 1), (0, 0), (1, 1), False, (0, 0), 1),
    "pointwise groups stride": ((1, 2, 3, 1), (2, 1, 1, 1), False, (2, 2), (0, 0), (1, 1), False, (0, 0), 2),
    "more padding than kernel": ((1, 1, 1, 2), (1, 1, 1, 2), False, (1, 1), (0, 2), (1, 1), False, (0, 0), 1),
    "the kernel is all": ((2, 1, 1, 2), (1, 1, 1, 2), False, (1, 1), (0, 0), (1, 1), False, (0, 0), 1),
    "3-d": ((1, 1, 2, 1, 3), (1, 1, 2, 1, 1), True, (1, 1, 2), (0, 0, 0), (1, 1, 1), False, (0, 0, 0), 1),
    "empty batch": ((0, 2, 3, 3), (2, 2, 2, 2), True, (1, 1), (0, 0), (1, 1), False, (0, 0), 1),
    "transposed": ((1, 2, 1, 2), (2, 1, 2, 1), True, (1, 1), (0, 0), (1, 1), True, (0, 0), 1),
    "transposed stride": ((1, 1, 2, 1), (1, 1, 2, 1), True, (2, 3), (1, 0), (1, 1), True, (1, 2), 1),
    "transposed dilation": ((1, 1, 2, 1), (1, 1, 2, 2), False, (1, 1), (1, 0), (2, 1), True, (1, 0), 1),
    "transposed groups": ((1, 2, 1, 2), (2, 2, 1, 2), True, (1, 2), (0, 1), (1, 1), True, (0, 0), 2),
    "transposed pointwise": ((1, 2, 1, 1), (2, 2, 1, 1), True, (1, 1), (0, 0), (1, 1), True, (0, 0), 1),
    "transposed 1-d": ((2, 1, 2), (1, 2, 2), False, (2,), (0,), (1,), True, (1,), 1),
    "transposed empty batch": ((0, 1, 3), (1, 2, 2), False, (2,), (0,), (1,), True, (0,), 1),
}

# the same, of a kernel of one place that is no product of matrices, and of more samples, channels and groups at once
_FURTHER: dict[str, tuple[Shape, Shape, bool, Shape, Shape, Shape, bool, Shape, int]] = {
    "pointwise padded": ((1, 1, 2), (2, 1, 1), True, (1,), (1,), (1,), False, (0,), 1),
    "transposed pointwise, output padded": ((1, 1, 2), (1, 2, 1), True, (1,), (0,), (2,), True, (1,), 1),
    "samples and groups": ((2, 4, 3), (4, 2, 2), True, (1,), (1,), (1,), False, (0,), 2),
    "samples and groups stride": ((2, 4, 3), (4, 2, 2), True, (2,), (1,), (1,), False, (0,), 2),
    "samples and groups transposed": ((2, 4, 2), (4, 2, 2), True, (2,), (1,), (1,), True, (1,), 2),
    "samples and groups pointwise": ((2, 4, 3), (4, 2, 1), True, (1,), (0,), (1,), False, (0,), 2),
    "three places": ((1, 2, 4), (2, 2, 3), True, (1,), (0,), (1,), False, (0,), 1),
    "no channels": ((1, 0, 3), (2, 0, 2), True, (1,), (0,), (1,), False, (0,), 1),
    "no channels of the result": ((1, 2, 3), (0, 2, 2), False, (1,), (0,), (1,), False, (0,), 1),
}


def _called(make: Maker, rows: dict[str, Any]) -> Iterator[Sample]:
    for name, (x, w, bias, *rest) in rows.items():
        channels = w[1] * rest[-1] if rest[3] else w[0]
        added = make.tensor((channels,), argument="bias") if bias else None
        yield make.sample(name, make.tensor(x, argument="input"), make.tensor(w, argument="weight"), added, *rest)


def convolution(make: Maker) -> Iterator[Sample]:
    """The general convolution."""
    yield from _called(make, _ROWS)
    sizes = ((1, 1), (0, 0), (1, 1), False, (0, 0), 1)
    for layout in ("strided", "expanded"):
        one, other = make.tensor((3, 1, 1, 3), layout, argument="input"), make.tensor((2, 1, 1, 2), "strided")
        yield make.sample(layout, one, other, None, *sizes, smooth=layout == "strided")
    # Enough channels for products of which no place is copied.
    one, other = make.tensor((1, 16, 1, 2), fill=(1, 2, 0)), make.tensor((1, 16, 1, 2), fill=(1, 0, 2))
    yield make.sample("many channels", one, other, None, (1, 1), (0, 1), (1, 1), False, (0, 0), 1, smooth=False)
    yield from _called(make, _FURTHER)


def convolution_backward(make: Maker) -> Iterator[Sample]:
    """The gradients of the same calls, all three and some of them."""
    masks = ([True, True, True], [True, False, False], [False, True, True])
    for i, (name, (x, w, bias, *rest)) in enumerate({**_ROWS, **_FURTHER}.items()):
        found = geometry(make.name, x, w, None, *rest)  # type: ignore[arg-type]
        grad = make.tensor(found.shape, argument="grad_output")
        tensors = (make.tensor(x, argument="input"), make.tensor(w, argument="weight"))
        sizes = (found.shape[1],) if bias else None
        mask = masks[0] if name in _FURTHER else masks[i % 3]
        yield make.sample(name, grad, *tensors, sizes, *rest, mask)
    if make.inexact and not make.dtype.is_complex:
        # The second element of the weight never meets what is infinite, though that lies beside what it meets.
        beside = make.tensor((2, 1, 3), fill=(1, 2, 3, math.inf, 2, 1))
        grad, weight = make.tensor((2, 1, 2), argument="grad_output"), make.tensor((1, 1, 2), argument="weight")
        plain = (None, (1,), (0,), (1,), False, (0,), 1, [True, True, False])
        yield make.sample("infinite", grad, beside, weight, *plain, smooth=False)


# name: input, weight, bias, further arguments by name
_BY_DIMS: dict[int, dict[str, tuple[Shape, Shape, bool, dict[str, Any]]]] = {
    1: {
        "plain": ((2, 1, 2), (1, 1, 2), False, {}),
        "all arguments": ((1, 2, 3), (2, 1, 2), True, {"stride": 2, "padding": (1,), "dilation": 2, "groups": 2}),
        "one sample": ((2, 2), (1, 2, 2), True, {}),
    },
    2: {
        "plain": ((1, 1, 2, 2), (1, 1, 2, 1), False, {}),
        "all arguments": (
            (1, 2, 2, 1),
            (2, 1, 2, 1),
            True,
            {"stride": (2, 1), "padding": (1, 0), "dilation": 2, "groups": 2},
        ),
        "one sample": ((2, 1, 2), (1, 2, 1, 2), True, {"padding": (0, 1)}),
    },
    3: {
        "plain": ((1, 1, 2, 2, 1), (1, 1, 2, 1, 1), False, {}),
        "all arguments": (
            (1, 2, 2, 1, 1),
            (2, 1, 2, 1, 1),
            True,
            {"stride": (2, 1, 1), "padding": (1, 0, 0), "groups": 2},
        ),
        "one sample": ((1, 1, 1, 2), (1, 1, 1, 1, 2), True, {}),
    },
}
_TRANSPOSED = {"stride": 2, "output_padding": 1, "groups": 2, "dilation": 1}
_EMPTY = (0, 1, 2, 3, 2)
_NAMED: dict[str, dict[str, Any]] = {
    "valid": {"padding": "valid", "stride": 2},
    "same": {"padding": "same"},
    "same, dilated": {"padding": "same", "dilation": 2},
}


def by_dims(make: Maker) -> Iterator[Sample]:
    """The convolutions of one to three dims, transposed or not, batches and single samples."""
    count = int(make.name.partition(".")[0][-2])
    transposed = "transpose" in make.name
    if make.schema.overload == "padding":
        x, w, _, _ = _BY_DIMS[count]["plain"]
        yield _strided(make, x, w, None, padding="same")
        for name, given in _NAMED.items():
            tensors = make.tensor(x, argument="input"), make.tensor(w, argument="weight")
            yield make.sample(name, *tensors, None, **given)
        nothing = make.tensor(_EMPTY[: count + 2], argument="input")
        yield make.sample("empty batch", nothing, make.tensor(w, argument="weight"), None, padding="same")
        return
    for name, (x, w, bias, given) in _BY_DIMS[count].items():
        if transposed:
            w = (x[-count - 1], w[1], *w[2:])
            given = {**_TRANSPOSED, "padding": (1, 0, 0)[:count]} if name == "all arguments" else {}
        channels = w[1] * given.get("groups", 1) if transposed else w[0]
        added = make.tensor((channels,), argument="bias") if bias else None
        tensors = make.tensor(x, argument="input"), make.tensor(w, argument="weight")
        yield make.sample(name, *tensors, added, **given)
        if name == "plain":
            yield _strided(make, x, w)
    empty = make.tensor(_EMPTY[: count + 2], argument="input"), make.tensor((1, 1, *(1,) * count), argument="weight")
    yield make.sample("empty batch", *empty)


def _strided(make: Maker, x: Shape, w: Shape, *rest: Any, **given: Any) -> Sample:
    """Two examples with a gap between them."""
    two = make.tensor((2, *x[1:]), "strided", argument="input")
    return make.sample("strided", two, make.tensor(w, argument="weight"), *rest, **given)


BY_RULE = {"convolution": convolution, "convolution_backward": convolution_backward}
BY_NAME = {f"{name}{n}d": by_dims for n in (1, 2, 3) for name in ("conv", "conv_transpose")}
