"""Kernels of custom operators: results that break the schema, shared and written memory, tensors without data."""

from __future__ import annotations

import numpy as np
import pytest

import tensorplay as tp

custom_op = tp.library.custom_op


def make(kernel, schema="(Tensor x) -> Tensor", mutates=()):
    return custom_op("t::op", kernel, mutates_args=mutates, schema=schema)


@pytest.mark.parametrize(
    ("schema", "result", "message"),
    [
        ("(Tensor x) -> Tensor", lambda x: None, r"returned None; .*\n?.*return a Tensor"),
        ("(Tensor x) -> Tensor", lambda x: 3, "returned int"),
        ("(Tensor x) -> Tensor", lambda x: x.numpy() * 2, "returned ndarray"),
        ("(Tensor x) -> Tensor", lambda x: (x + 1,), "returned a tuple of 1"),
        ("(Tensor x) -> ()", lambda x: x + 1, "returned Tensor"),
        ("(Tensor x) -> (Tensor, Tensor)", lambda x: x + 1, "returned Tensor"),
        ("(Tensor x) -> (Tensor, Tensor)", lambda x: (x + 1,), "returned a tuple of 1"),
        ("(Tensor x) -> (Tensor, int)", lambda x: (x + 1, x), "returned Tensor as result 1"),
        ("(Tensor x) -> Tensor[]", lambda x: [x + 1, 3], "returned a list of 2"),
        ("(Tensor x) -> Tensor[]", lambda x: x + 1, "returned Tensor"),
        ("(Tensor x) -> int", lambda x: 1.5, "returned float"),
        ("(Tensor x) -> bool", lambda x: 1, "returned int"),
    ],
)
def test_a_result_that_is_not_what_the_schema_says(schema, result, message):
    op = make(result, schema)
    with pytest.raises(tp.KernelError, match=rf"(?s)t::op: its kernel .*test_kernels.py:\d+\) {message}") as info:
        op(tp.ones(2))
    assert schema in str(info.value) and "\nfix: " in str(info.value)


@pytest.mark.parametrize(
    ("schema", "kernel", "message"),
    [
        ("(Tensor x) -> Tensor", lambda x: x, "its result is the argument x itself"),
        ("(Tensor x) -> Tensor", lambda x: x[0], "its result shares memory with the argument x"),
        ("(Tensor x) -> Tensor", lambda x: tp.from_numpy(x.numpy()), "its result shares memory with the argument x"),
        ("(Tensor x) -> (Tensor, Tensor)", lambda x: (x + 1, x), "its result 1 is the argument x itself"),
        ("(Tensor x) -> Tensor[]", lambda x: [x + 1, x.t()], "its result shares memory with the argument x"),
        (
            "(Tensor x) -> (Tensor, Tensor)",
            lambda x: ((y := x + 1), y[0]),
            "its result 1 shares memory with its result 0",
        ),
    ],
)
def test_c05_a_result_that_shares_memory_is_refused_at_every_call(schema, kernel, message):
    op = make(kernel, schema)
    for _ in range(2):
        with pytest.raises(tp.KernelError, match=message) as info:
            op(tp.ones(2, 2))
        assert "clone()" in str(info.value)


def test_an_item_of_a_list_is_named_by_its_place():
    op = make(lambda xs: xs[1], "(Tensor[] xs) -> Tensor")
    with pytest.raises(tp.KernelError, match=r"its result is the argument xs\[1\] itself"):
        op([tp.ones(1), tp.ones(1)])


def test_a_declared_view_shares_the_version_whatever_made_it():
    op = make(lambda x: tp.from_numpy(x.numpy()[:1]), "(Tensor(a) x) -> Tensor(a)")
    x = tp.ones(2)
    y = op(x)
    assert y._version is x._version and y._version[1]
    y.add_(1)
    assert x.tolist() == [2.0, 1.0] and x._version[0] == 1


def test_a_declared_result_is_the_argument_that_was_written_to():
    def inc(x):
        a = x.numpy()
        a += 1
        return x

    op = make(inc, "(Tensor(a!) x) -> Tensor(a!)", {"x"})
    x = tp.zeros(2)
    assert op(x) is x and x.tolist() == [1.0, 1.0]
    op = make(lambda x: x.add_(1) + 0, "(Tensor(a!) x) -> Tensor(a!)", {"x"})
    with pytest.raises(tp.KernelError, match="did not return its argument x"):
        op(x)


def test_the_arguments_own_memory_is_no_result():
    @custom_op("t::mutating", mutates_args={"x"})
    def mutating(x: tp.Tensor) -> tp.Tensor:
        return x.add_(1)

    with pytest.raises(
        tp.KernelError, match=r"its result is the argument x itself[^$]*the caller has the argument already"
    ):
        mutating(tp.ones(2))


# ------------------------------------------------------------------------------------------------------ writing


def write(out, value):
    array = out.numpy()
    array[...] = value


@pytest.fixture
def fill():
    @custom_op("t::fill", mutates_args={"out", "more"})
    def fill(value: float, x: tp.Tensor, more: list[tp.Tensor], *, out: tp.Tensor) -> None:
        for tensor in (out, *more):
            write(tensor, value)

    return fill


def test_a_write_to_any_argument_is_counted_once(fill):
    x, y, out = tp.ones(2), tp.ones(2), tp.ones(2)
    for t in (x, y, out):
        t.requires_grad_(False)
        t._version = [5, False]
    assert fill(3.0, x, [y], out=out) is None
    assert (x.tolist(), y.tolist(), out.tolist()) == ([1.0, 1.0], [3.0, 3.0], [3.0, 3.0])
    assert (x._version[0], y._version[0], out._version[0]) == (5, 6, 6)

    inner = make(lambda x: (x.add_(1), None)[1], "(Tensor(a!) x) -> ()", {"x"})
    inner(y)
    assert y._version[0] == 7
    with tp.inference_mode():
        inner(y)
    assert y._version[0] == 8


def test_a_saved_tensor_that_an_operator_has_written_to_is_noticed(fill):
    a = tp.ones(2, requires_grad=True)
    x = a * 1
    y = x * x
    with tp.no_grad():
        fill(3.0, tp.ones(2), [], out=x)
    with pytest.raises(tp.AutogradError, match=r"mul saved '\w+' .* modified in place since"):
        y.sum().backward()


def test_a_leaf_that_requires_grad_is_not_written_to(fill):
    leaf = tp.ones(2, requires_grad=True)
    for args, out in [((3.0, tp.ones(2), []), leaf), ((3.0, tp.ones(2), [tp.ones(2), leaf]), tp.ones(2))]:
        with pytest.raises(tp.AutogradError, match="t::fill: the tensor is a leaf that requires grad"):
            fill(*args, out=out)
    assert leaf.tolist() == [1.0, 1.0]
    with tp.no_grad():
        fill(3.0, tp.ones(2), [], out=leaf)
    assert leaf.tolist() == [3.0, 3.0] and leaf.is_leaf and leaf.requires_grad


def test_what_was_written_to_has_no_known_gradient(fill):
    a = tp.ones(2, requires_grad=True)
    out = tp.ones(2)
    fill(3.0, a * 2, [], out=out)
    assert out.requires_grad
    with pytest.raises(tp.AutogradError, match=r"(?s)t::fill has no gradient formula.*an operator that returns new"):
        out.sum().backward()
    assert a.grad is None


def test_memory_that_cannot_be_written_to(fill):
    with pytest.raises(tp.ShapeError, match="overlaps itself"):
        fill(3.0, tp.ones(2), [], out=tp.ones(1).expand(3))
    with tp.inference_mode():
        inference = tp.ones(2)
    x = tp.ones(2)
    for _ in range(2):  # a refused call leaves no mark of a running kernel: the second is refused in the same words
        with pytest.raises(tp.AutogradError, match="made in inference mode"):
            fill(3.0, x, [], out=inference)


@pytest.mark.parametrize(
    ("signature", "kernel", "expected"),
    [
        ("(Tensor x, *, Tensor(a!) out) -> Tensor(a!)", lambda x, *, out: np.copyto(out, x + 1), "out"),
        ("(Tensor(a!) out, Tensor x) -> ()", lambda out, x: np.copyto(out, x + 1), None),
        ("(Tensor x, Tensor(a!) out) -> (Tensor(a!), Tensor)", lambda x, out: (np.copyto(out, x + 1), x * 2), "both"),
        ("(Tensor x, Tensor(a!) out) -> int", lambda x, out: (np.copyto(out, x + 1), np.int64(7))[1], 7),
    ],
)
def test_a_kernel_on_arrays_may_write_to_any_argument_too(signature, kernel, expected):
    with_close = tp.library.Library("t", "FRAGMENT")
    op = with_close.define(f"arrays{signature}")
    with_close.impl("arrays", kernel, "CPU", level="array")
    x, out = tp.ones(2), tp.zeros(2)
    out._version = [0, False]
    named = {a.name: {"x": x, "out": out}[a.name] for a in op.schema.arguments}
    result = tp.ops.t.arrays(**named)
    assert out.tolist() == [2.0, 2.0] and out._version[0] == 1
    if expected == "out":
        assert result is out
    elif expected == "both":
        assert result[0] is out and result[1].tolist() == [2.0, 2.0]
    else:
        assert result == expected
    leaf = tp.zeros(2, requires_grad=True)
    with pytest.raises(tp.AutogradError, match="is a leaf that requires grad"):
        tp.ops.t.arrays(**{**named, "out": leaf})
    with_close.close()


def test_a_kernel_on_arrays_may_return_lists_numbers_and_nothing():
    lib = tp.library.Library("t", "FRAGMENT")
    for schema, kernel in {
        "halves(Tensor x) -> Tensor[]": lambda x: [x / 2, x * 2],
        "total(Tensor x) -> float": lambda x: x.sum(),
        "look(Tensor x) -> ()": lambda x: None,
    }.items():
        lib.define(schema)
        lib.impl(schema.partition("(")[0], kernel, "CPU", level="array")
    x = tp.ones(2)
    assert [t.tolist() for t in tp.ops.t.halves(x)] == [[0.5, 0.5], [2.0, 2.0]]
    assert tp.ops.t.total(x) == 2.0 and tp.ops.t.total(x).__class__ is float and tp.ops.t.look(x) is None
    lib.close()


# ---------------------------------------------------------------------------------------------- below autograd


def test_a_kernel_sees_the_data_of_tensors_that_require_grad():
    seen = []

    @custom_op("t::numpy", mutates_args=())
    def op(x: tp.Tensor) -> tp.Tensor:
        seen.append(tp.is_grad_enabled())
        return tp.from_numpy(np.sin(x.numpy()))

    x = tp.ones(2, requires_grad=True)
    assert op(x).tolist() == pytest.approx([np.sin(1.0)] * 2) and seen == [False]
    with pytest.raises(tp.AutogradError, match=r"call .detach\(\).numpy\(\)"):
        x.numpy()
    with tp.no_grad():
        assert x.numpy().tolist() == [1.0, 1.0]  # as in PyTorch


def test_a_kernel_that_needs_data_says_how_to_do_without():
    @custom_op("t::data", mutates_args=())
    def op(x: tp.Tensor) -> tp.Tensor:
        return tp.from_numpy(x.numpy() * 2)

    meta = tp.ones(2, 3, device="meta")
    with pytest.raises(tp.KernelMissing, match=r'(?s)test_kernels.py:\d+.*register_fake\("t::data"\)'):
        op(meta)
    op.register_fake(lambda x: x.new_empty(x.shape))
    assert op(meta).shape == (2, 3) and op(meta).device.type == "meta"


def test_a_kernel_of_operators_needs_no_fake():
    op = make(lambda x: x * 2 + 1)
    assert op(tp.ones(2, 3, device="meta")).shape == (2, 3)


def test_a_tensor_that_another_call_has_returned_is_refused_because_it_has_that_calls_gradient():
    kept = []

    def cached(x):
        kept.append(x * 2)
        return kept[0]

    op = make(cached)
    first = op(tp.ones(2, requires_grad=True))
    assert first.grad_fn is not None
    with pytest.raises(tp.KernelError, match=r"(?s)requires grad already.*fix: return a new tensor, or a detach"):
        op(tp.ones(2, requires_grad=True))
    weight = tp.ones(2, requires_grad=True)
    with pytest.raises(tp.KernelError, match="requires grad already"):
        make(lambda x: weight)(tp.ones(2))


def test_so_is_one_in_a_list():
    weight = tp.ones(2, requires_grad=True)
    with pytest.raises(tp.KernelError, match="requires grad already"):
        make(lambda x: [x + 1, weight], "(Tensor x) -> Tensor[]")(tp.ones(2))


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (lambda x: [x + 1, x], r"item 1 of its result is the argument x itself"),
        (
            lambda x: (lambda y: [y, x + 1, y[:1]])(x * 2),
            r"item 2 of its result shares memory with item 0 of its result",
        ),
        (lambda x: [x + 1, None], r"a list of 2, with None at 1; .*return a list of Tensors"),
    ],
)
def test_of_a_list_the_item_is_named_that_is_wrong(result, message):
    with pytest.raises(tp.KernelError, match=f"(?s){message}"):
        make(result, "(Tensor x) -> Tensor[]")(tp.ones(2))


def fake_of(fake, schema="(Tensor x) -> Tensor"):
    op = make(lambda x: None, schema)
    op.register_fake(fake)
    return op(tp.ones(2, device="meta"))


@pytest.mark.parametrize("fake", [lambda x: x if x.sum() > 0 else x * 2, lambda x: tp.from_numpy(x.numpy())])
def test_a_fake_that_asks_for_elements_is_named_with_what_it_may_ask_for(fake):
    with pytest.raises(tp.NoDataError, match=r"(?s)t::op: its fake \(.*test_kernels.py:\d+\) asks.*shapes, dtypes"):
        fake_of(fake)


def test_a_fake_that_returns_something_else_is_called_a_fake():
    with pytest.raises(tp.KernelError, match=r"its fake .* returned a tensor on cpu, where a fake's are on meta"):
        fake_of(lambda x: tp.ones(2))
    with pytest.raises(tp.KernelError, match=r"its fake .* returned ndarray"):
        fake_of(lambda x: np.ones(2))


def test_a_fake_that_gives_back_its_argument_tells_of_another_tensor():
    op = make(lambda x: None, "(Tensor x) -> (Tensor, Tensor[])")
    op.register_fake(lambda x: (x, [x, x[:1]]))
    x = tp.ones(2, device="meta")
    first, (second, third) = op(x)
    first.add_(1), second.add_(1), third.add_(1)
    assert len({id(x), id(first), id(second), id(third)}) == 4 and x._version[0] == 0 and third.shape == (1,)


def test_an_argument_named_by_a_word_of_python_has_an_underscore_in_functions():
    schema = "(Tensor x, int from, *, int lambda=3) -> Tensor"
    op = make(lambda x, from_, *, lambda_: x * from_ + lambda_, schema)
    op.register_fake(lambda x, from_, *, lambda_: x.new_empty((from_, lambda_)))
    assert op(tp.ones(1), 2).tolist() == [5.0] and op(tp.ones(1), from_=2, lambda_=4).tolist() == [6.0]
    assert op(tp.ones(1, device="meta"), 2, lambda_=4).shape == (2, 4)
    assert make(lambda x, a, **rest: x * rest["lambda"], schema)(tp.ones(1), 2).tolist() == [3.0]
    with pytest.raises(tp.RegistrationError, match="lambda"):
        make(lambda x, a, *, lambd: x, schema)
