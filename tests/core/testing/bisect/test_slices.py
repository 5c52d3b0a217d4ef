"""Smaller calls: how tensors are laid out again, and how far a call is reduced."""

from __future__ import annotations

import pytest

import tensorplay as tp
from tensorplay_core.testing.bisect.moving import host_of
from tensorplay_core.testing.bisect.slices import Laid, descriptions, each, laid, smallest

BASE = tp.arange(48.0, device="loopback").reshape(2, 4, 6)


@pytest.mark.parametrize(
    "take",
    [
        lambda x: x,
        lambda x: x.T,
        lambda x: x.permute(1, 0, 2),
        lambda x: x[..., ::2],
        lambda x: x[:, ::2],
        lambda x: x[0].T[::2],
        lambda x: x[0, 0],
        lambda x: x[0, 0, 0],
        lambda x: x[:, :1].expand(2, 5, 6),
        lambda x: x[0, :1].expand(3, 6),
        lambda x: tp.tensor(2.0, device="loopback").expand(3, 2),
        lambda x: x[:0],
    ],
)
def test_a_tensor_is_built_again_with_its_elements_and_its_kind_of_layout(take):
    tensor = take(BASE)
    one = Laid.of(tensor, host_of(tensor))
    made = one.build()
    assert made.tolist() == tensor.tolist()
    assert made.device == tensor.device
    assert made.is_contiguous() == tensor.is_contiguous()
    order = lambda t: sorted(range(t.ndim), key=lambda d: -t.stride(d))  # noqa: E731
    assert order(made) == order(tensor) or tensor.is_contiguous()
    assert [s == 0 for s in made.stride()] == [s == 0 for s in tensor.stride()] or not tensor.numel()
    names = {"data": tp.from_numpy(one.memory())}
    assert eval(f"data{one.steps()}", names).tolist() == tensor.tolist()  # as a program writes it
    assert one.contiguous().build().is_contiguous()


def call(*tensors):
    return laid((tensors, {}), (tensors, {}))


def test_the_smallest_call_has_what_shows_it():
    x = tp.zeros(16, 16)
    x[5, 11] = 1.0
    found = smallest(call(x, tp.zeros(16, 3)), lambda c: bool((descriptions(c)[0].host == 1).any()))
    assert descriptions(found)[0].host.tolist() == [[1.0]]


def test_dims_of_one_size_go_together_where_they_must():
    a, b = tp.ones(4, 8), tp.ones(8, 2)

    def shows(smaller):
        one, other = (laid_out.host for laid_out in descriptions(smaller))
        return bool((one @ other).sum() > 0)  # raises where the sizes do not fit

    assert [one.host.shape for one in descriptions(smallest(call(a, b), shows))] == [(1, 1), (1, 1)]


def test_a_layout_that_matters_is_kept():
    x = tp.ones(4, 4).T
    found = smallest(call(x), lambda c: not descriptions(c)[0].plain)
    assert descriptions(found)[0].order == (1, 0)


def test_lists_and_keywords():
    pair = [tp.ones(4), tp.ones(4)]
    described = laid(((pair, 0), {"out": tp.ones(2)}), ((pair, 0), {"out": tp.ones(2)}))
    assert len(descriptions(described)) == 3
    built = each(described, Laid.build)
    assert [t.tolist() for t in built[0][0]] == [[1.0] * 4] * 2
