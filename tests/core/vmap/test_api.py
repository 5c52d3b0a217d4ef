"""``tp.vmap``: where the batch is, what may be passed and returned, and what is refused with which words."""

from __future__ import annotations

from collections import OrderedDict, defaultdict, namedtuple

import numpy as np
import pytest

import tensorplay as tp
from tensorplay_core.dispatch.key_set import KeySet
from tensorplay_core.dispatch.keys import DispatchKey
from tensorplay_core.errors import TransformError

X = np.arange(24.0).reshape(2, 3, 4)


def tensor(array=X):
    return tp.tensor(array.tolist(), dtype=tp.float64)


def same(found, wanted):
    assert found.shape == wanted.shape and np.array_equal(found.numpy(), wanted)


@pytest.mark.parametrize("dim", [0, 1, 2, -1, -3])
def test_in_dims_and_out_dims(dim):
    same(tp.vmap(lambda x: x * 2, dim, dim)(tensor()), X * 2)
    same(tp.vmap(lambda x: x.sum(), dim)(tensor()), X.sum(tuple({0, 1, 2} - {dim % 3})))
    same(tp.vmap(lambda x: x, dim, 0)(tensor()), np.moveaxis(X, dim, 0))


def test_a_shared_argument_is_not_batched():
    same(tp.vmap(lambda x, w: x @ w, (0, None))(tensor(), tensor(X[0].T)), X @ X[0].T)
    same(tp.vmap(lambda w, x: x @ w, (None, 1), 1)(tensor(X[0].T), tensor()), X @ X[0].T)


def test_nested_arguments_and_results():
    Pair = namedtuple("Pair", "a b")

    def function(tree, scale):
        return {"sum": tree["x"][0] + tree["y"], "pair": Pair(tree["x"][0] * scale, tree["y"])}

    tree = {"x": [tensor()], "y": tensor(X[:, :, :1])}
    found = tp.vmap(function, in_dims=({"x": 0, "y": 0}, None), out_dims={"sum": 1, "pair": (0, 2)})(tree, 10)
    same(found["sum"], np.moveaxis(X + X[:, :, :1], 0, 1))
    assert found["pair"].__class__ is Pair
    same(found["pair"].a, X * 10)
    same(found["pair"].b, np.moveaxis(X[:, :, :1], 0, 2))


def test_keywords_and_values_that_are_no_tensors_pass_through():
    found = tp.vmap(lambda x, n, *, w: x * n + w)(tensor(), 3, w=tensor(X[0]))
    same(found, X * 3 + X[0])


def test_nesting_to_any_depth():
    x = tensor()
    outer = tp.vmap(tp.vmap(lambda a, b: a * b.sum(), (None, 0)), (0, None))(x[0], x[0])
    same(outer, X[0][:, None] * X[0].sum(1)[None, :, None])
    same(tp.vmap(tp.vmap(tp.vmap(tp.sin)))(x), np.sin(X))


def test_an_inner_function_sees_the_batch_of_the_outer_one():
    found = tp.vmap(lambda a: tp.vmap(lambda b: a.sum() + b)(a))(tensor(X[0]))
    same(found, X[0].sum(1, keepdims=True) + X[0])


@pytest.mark.parametrize("chunk_size", [1, 2, 5])
def test_chunks_give_the_same(chunk_size):
    def function(x, w):
        return x @ w, x.sum()

    whole = tp.vmap(function, (1, None), (1, 0))(tensor(), tensor(X[0].T))
    parts = tp.vmap(function, (1, None), (1, 0), chunk_size=chunk_size)(tensor(), tensor(X[0].T))
    assert all(tp.equal(a, b) for a, b in zip(whole, parts, strict=True))


@pytest.mark.parametrize("chunk_size", [1, 2, 3])
def test_chunks_draw_the_same_where_that_is_asked_for(chunk_size):
    draw = lambda x: x * 0 + tp.rand((), dtype=tp.float64)  # noqa: E731
    tp.manual_seed(3)
    whole, after = tp.vmap(draw, randomness="same")(tensor()), tp.rand(2)
    tp.manual_seed(3)
    parts = tp.vmap(draw, randomness="same", chunk_size=chunk_size)(tensor())
    assert tp.equal(parts, whole) and len(set(parts.flatten().tolist())) == 1
    assert tp.equal(tp.rand(2), after)
    parts = tp.vmap(draw, randomness="different", chunk_size=1)(tensor())
    assert not tp.equal(parts[0], parts[1])


@pytest.mark.parametrize("kind", [dict, OrderedDict, lambda items: defaultdict(list, items)])
def test_dims_of_a_dict_go_by_its_keys(kind):
    tree = kind([("a", tensor(X[:, 0])), ("b", tensor(X[:, 0].T))])
    dims = kind([("b", 1), ("a", 0)])
    same(tp.vmap(lambda d: d["a"] + d["b"], (dims,))(tree), 2 * X[:, 0])
    found = tp.vmap(lambda d: d, (kind([("a", 0), ("b", 1)]),), dims)(tree)
    same(found["a"], X[:, 0])
    same(found["b"], X[:, 0].T)


def test_a_result_that_is_the_same_for_all():
    same(tp.vmap(lambda x: tensor(X[0]))(tensor()), np.broadcast_to(X[0], (2, 3, 4)))
    same(tp.vmap(lambda x: tensor(X[0]), out_dims=None)(tensor()), X[0])
    with pytest.raises(TransformError, match="out_dim=None for a result that is batched"):
        tp.vmap(lambda x: x, out_dims=None)(tensor())


def test_a_batch_without_elements():
    empty = tp.zeros(0, 3)
    assert tp.vmap(lambda x: x.sum())(empty).shape == (0,)
    assert tp.vmap(lambda x: x.reshape(-1, 1) @ x.reshape(1, -1))(empty).shape == (0, 3, 3)


def test_the_key_set_of_a_batched_tensor_is_backend_and_vmap():
    sets = []
    x = tp.ones(2, 3, requires_grad=True)
    tp.vmap(lambda a: sets.append(a._type.key_set) or a)(x)
    assert sets == [KeySet(1 << DispatchKey.CPU | 1 << DispatchKey.VmapCPU)]


def test_what_is_asked_of_a_batched_tensor_is_asked_of_one_element():
    def function(x):
        assert (x.shape, x.ndim, x.numel(), len(x), x.dtype) == ((3, 4), 2, 12, 3, tp.float64)
        assert x.stride() == (4, 1) and x.is_contiguous() and x.device.type == "cpu"
        assert "BatchedTensor(level=1, batch_dim=0" in repr(x)
        return x

    tp.vmap(function)(tensor())


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x if x.sum() > 0 else -x,
        lambda x: x * float(x.sum()),
        lambda x: x.sum().item() * x,
        lambda x: tp.tensor(x.tolist()),
        lambda x: x * int(x.sum()),
        lambda x: [x] if x.any() else x,
        lambda x: tp.zeros(int(x.sum())),
        lambda x: x.numpy(),
    ],
    ids=["if", "float", "item", "tolist", "int", "any", "size", "numpy"],
)
def test_the_values_of_a_batch_cannot_decide_about_the_program(function):
    with pytest.raises(TransformError, match=r"(?s)elements of a batched tensor.*fix: .*tp\.where"):
        tp.vmap(function)(tensor())


def test_a_batched_tensor_means_nothing_outside():
    kept = []
    tp.vmap(lambda x: kept.append(x) or x)(tensor())
    with pytest.raises(TransformError, match="has returned"):
        kept[0] + 1
    with pytest.raises(TransformError, match="has returned"):
        kept[0].sum().item()
    assert "closed" in repr(kept[0])
    for out_dims in (0, None):
        with pytest.raises(TransformError, match="has returned"):
            tp.vmap(lambda x: kept[0], out_dims=out_dims)(tensor())


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda x: tp.vmap(3), tp.errors.ArgumentError, "takes a function"),
        (lambda x: tp.vmap(tp.sin, 3)(x), IndexError, "in_dim=3 is out of range"),
        (lambda x: tp.vmap(tp.sin, None)(x), TypeError, "in_dims is an int or a tuple"),
        (lambda x: tp.vmap(tp.sin, (None,))(x), TypeError, "no tensor among the arguments is batched"),
        (lambda x: tp.vmap(tp.add, (0, 0, 0))(x, x), TypeError, "does not go with the arguments"),
        (lambda x: tp.vmap(tp.add, (0, 1))(x, x), RuntimeError, "different sizes: 2, 3"),
        (lambda x: tp.vmap(tp.add, (0, 0))(x, 2), TypeError, "no tensor but int"),
        (lambda x: tp.vmap(lambda: 1)(), TypeError, "no argument that could be batched"),
        (lambda x: tp.vmap(lambda x: 1)(x), TypeError, "must return tensors, and returned int"),
        (lambda x: tp.vmap(lambda x: None)(x), TypeError, "must return tensors, and returned NoneType"),
        (lambda x: tp.vmap(tp.sin, 0, 5)(x), IndexError, "out_dim=5 is out of range"),
        (lambda x: tp.vmap(tp.sin, 0, (0, 0))(x), TypeError, "does not go with the result"),
        (lambda x: tp.vmap(tp.sin, randomness="other")(x), ValueError, "not 'other'"),
        (lambda x: tp.vmap(tp.sin, chunk_size=0)(x), ValueError, "chunk_size is None or a positive int"),
        (lambda x: tp.vmap(tp.sin, chunk_size=True)(x), ValueError, "a positive int, not True"),
        (lambda x: tp.vmap(tp.sin)(x.sum()), IndexError, "out of range for a tensor of shape"),
    ],
)
def test_what_does_not_fit_is_refused(call, error, words):
    with pytest.raises(error, match=words):
        call(tensor())


def test_the_state_is_restored_whatever_is_raised():
    from tensorplay_core.dispatch import active
    from tensorplay_core.dispatch.context import STATE
    from tensorplay_core.dispatch.wrapped import INNERMOST

    before, special = STATE.get(), active.special

    def fail(x):
        raise KeyError("own")

    with pytest.raises(KeyError, match="own"):
        tp.vmap(tp.vmap(fail))(tensor())
    assert STATE.get() == before and INNERMOST.get() is None and active.special == special


def test_errors_of_operators_name_the_operator():
    with pytest.raises(tp.errors.ShapeError, match="matmul"):
        tp.vmap(lambda x: x @ x)(tensor())
    with pytest.raises(
        tp.errors.DimError, match=r"sum: Dimension out of range \(expected to be in range of \[-2, 1\], but got 5\)"
    ):
        tp.vmap(lambda x: x.sum(5))(tensor())


@pytest.mark.parametrize("make", [lambda x: x.requires_grad_(), lambda x: tp.zeros(2, requires_grad=True)])
def test_nothing_is_recorded_of_a_batched_tensor_itself(make):
    with pytest.raises(TransformError, match=r"(?s)nothing is recorded.*fix: differentiate with tp\.func\.grad"):
        tp.vmap(lambda x: make(x) * 2)(tensor())


def test_as_strided_counts_from_each_element():
    found = tp.vmap(lambda x: tp.as_strided(x, (3,), (2,), 1))(tensor())
    same(found, np.stack([X[i].ravel()[1::2][:3] for i in range(2)]))


def test_devices_and_dtypes_change_inside():
    found = tp.vmap(lambda x: x.to(tp.float32).half() if hasattr(x, "half") else x.to(tp.float16))(tensor())
    assert found.dtype is tp.float16 and found.shape == (2, 3, 4)
