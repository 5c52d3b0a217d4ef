"""Writing in place under autograd: right, or refused with a message that says what and why; never silently wrong."""

from __future__ import annotations

import pytest

import tensorplay as tp
from tensorplay_core.dispatch.registry import REGISTRY
from tensorplay_core.testing.samples import samples

IN_PLACE = {n: op for n, op in REGISTRY.operators.items() if op.namespace == "tp" and op.functional is not None}
SAVING = [
    n
    for n, op in REGISTRY.operators.items()
    if op.node is not None and op.node.kind and not op.is_inplace and not op.schema.is_view
]


def leaf(data):
    return tp.tensor(data, dtype=tp.float64, requires_grad=True)


# ------------------------------------------------------------------------------------------------------- versions


def test_every_write_bumps_the_version():
    x = tp.zeros(2, 3)
    assert x._version_number == 0
    writes = [
        lambda: x.add_(1),
        lambda: x.mul_(tp.ones(3)),
        lambda: x.copy_(tp.ones(2, 3)),
        lambda: x.fill_(2),
        lambda: x.zero_(),
        lambda: x.__setitem__(0, 1.0),
        lambda: x.__setitem__((slice(None), 1), tp.ones(2)),
        lambda: tp.exp(x, out=x),
        lambda: x[1].add_(1),
        lambda: x.T.mul_(2),
        lambda: x.detach().sub_(1),
        lambda: x.reshape(3, 2).neg_(),
        lambda: x.add_(1, alpha=2),
        lambda: x.add_(tp.ones(2, 3, dtype=tp.float64)),
    ]
    for number, write in enumerate(writes, 1):
        write()
        assert x._version_number == number


def test_writes_in_no_grad_and_inference_mode_bump_the_version_too():
    x = tp.zeros(2)
    assert x._version_number == 0
    with tp.no_grad():
        x.add_(1)
    with tp.inference_mode():
        x.add_(1)
    assert x._version_number == 2


def test_reads_do_not_bump_the_version():
    x = tp.ones(2, 3)
    before = x._version_number
    _ = x + 1, x[0], x.T, x.reshape(6), x.sum(), x.numpy(), x.tolist(), x.detach(), x.clone()
    assert x._version_number == before


@pytest.mark.parametrize("name", SAVING)
def test_a_saved_tensor_that_was_modified_makes_backward_raise(name):
    """Backward either raises, naming operator and versions, or gives what it gave before the write."""
    op = REGISTRY.operators[name]
    raised = 0
    for sample in samples(op, dtype="float64"):
        if not sample.smooth or op.is_inplace:
            continue
        found = {}
        for write in ("nothing", "inputs", "result"):
            args, kwargs = sample.build(tp)
            leaves = [t for t in tensors_of(args) if t.dtype.is_inexact]
            for t in leaves:
                t.requires_grad_()
            result = op.function(*args, **kwargs)
            results = [y for y in tensors_of((result,)) if y.requires_grad]
            if not results:
                continue
            ones = [y.detach().new_ones(y.shape) for y in results]
            if write == "inputs":
                with tp.no_grad():
                    for t in tensors_of(args):
                        t.copy_(t.clone() if t.dtype.is_bool else t + 1)
            elif write == "result":
                for y in tensors_of((result,)):
                    y.detach().copy_(y.detach() + 1)
            try:
                grads = tp.autograd.grad(results, leaves, ones, allow_unused=True)
                found[write] = [None if g is None else g.tolist() for g in grads]
            except tp.AutogradError as error:
                text = str(error)
                assert op.display_name in text, text
                assert "version" in text, text
                assert "fix: clone()" in text, text
                raised += 1
            else:
                assert found[write] == found["nothing"], f"{name}, {sample.name}: silently wrong after a write"
    if op.node.saves_input:
        assert raised, f"{name} saves a tensor, and nobody noticed that it was written to"


def tensors_of(values):
    for value in values:
        if isinstance(value, (list, tuple)):
            yield from tensors_of(value)
        elif isinstance(value, tp.Tensor):
            yield value


def test_the_message_names_operator_input_and_both_versions():
    x = leaf([1.0, 2.0])
    y = x * 1
    z = y * y
    y.add_(1)
    y.add_(1)
    with pytest.raises(tp.AutogradError) as caught:
        z.sum().backward()
    text = str(caught.value).replace("'other'", "'self'")
    assert "mul saved 'self' (float64, shape (2,)) for its gradient at version 0" in text
    assert "it is at version 2 now" in text
    assert x.grad is None


# --------------------------------------------------------------------------------------------------- what is right


@pytest.mark.parametrize("name", [n for n, op in IN_PLACE.items() if op.functional.differentiable != (False,)])
def test_in_place_and_functional_form_have_the_same_gradients(name):
    op = IN_PLACE[name]
    compared = 0
    for sample in samples(op.functional, dtype="float64"):
        found = []
        for in_place in (False, True):
            args, kwargs = sample.build(tp)
            leaves = [t for t in tensors_of(args) if t.dtype.is_inexact]
            for t in leaves:
                t.requires_grad_()
            first = args[0] * 1
            try:
                y = (op if in_place else op.functional).function(first, *args[1:], **kwargs)
            except (tp.ShapeError, tp.DTypeError):
                assert in_place
                break
            if y.shape != first.shape or y.dtype is not first.dtype:
                break
            assert (y is first) is in_place
            (g,) = [tp.autograd.grad(y, leaves, tp.ones(y.shape, dtype=y.dtype), allow_unused=True)]
            found.append([repr(t if t is None else t.tolist()) for t in (y, *g)])
        if len(found) == 2:
            assert found[0] == found[1], f"{name}, {sample.name}"
            compared += 1
    assert compared > 3


def test_a_chain_of_writes():
    x, w = leaf([1.0, 2.0]), leaf(3.0)
    y = x * 1
    y.mul_(w)
    y.add_(x)
    y.exp_()
    y.sum().backward()
    e = [2.718281828459045**4, 2.718281828459045**8]
    tp.testing.assert_close(x.grad.tolist(), [4 * e[0], 4 * e[1]], rtol=1e-12, atol=0.0)
    tp.testing.assert_close(w.grad.item(), e[0] + 2 * e[1], rtol=1e-12, atol=0.0)


def test_a_tensor_without_a_gradient_gets_one_from_what_is_written():
    x = leaf([1.0, 2.0])
    y = tp.zeros(2, dtype=tp.float64)
    y.add_(x)
    assert y.requires_grad
    y.mul_(x)
    y.sum().backward()
    assert x.grad.tolist() == [2.0, 4.0]


def test_what_was_overwritten_has_no_gradient_left():
    x, z = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    y = x * 2
    y.copy_(z)
    y.sum().backward()
    assert z.grad.tolist() == [1.0, 1.0]
    assert x.grad is None or x.grad.tolist() == [0.0, 0.0]
    w = leaf([1.0, 2.0])
    y = w * 2
    y.zero_()
    y.sum().backward()
    assert w.grad is None or w.grad.tolist() == [0.0, 0.0]
    y = w * 2
    y.fill_(5)
    (y * w).sum().backward()
    assert w.grad.tolist() == [5.0, 5.0]


def test_copy_of_another_dtype_and_shape():
    x = tp.tensor([1.0, 2.0], requires_grad=True)
    y = tp.zeros(3, 2, dtype=tp.float64)
    y.copy_(x)
    (y * y).sum().backward()
    assert x.grad.dtype is tp.float32
    assert x.grad.tolist() == [6.0, 12.0]


def square(y):
    return y.mul_(y)


def times_its_detached_self(y):
    return y.mul_(y.detach())


def times_a_detached_alias_of_the_base(y):
    alias = y.detach()
    return y.mul_(alias)


def plus_itself(y):
    return y.add_(y, alpha=3)


def minus_its_detached_self(y):
    return y.sub_(y.detach())


def over_itself(y):
    return y.div_(y)


def power_of_itself(y):
    return y.pow_(y)


@pytest.mark.parametrize(
    ("write", "value", "slope"),
    [
        (square, lambda v: v * v, lambda v: 2 * v),
        (times_its_detached_self, lambda v: v * v, lambda v: v),
        (times_a_detached_alias_of_the_base, lambda v: v * v, lambda v: v),
        (plus_itself, lambda v: 4 * v, lambda v: 4.0),
        (minus_its_detached_self, lambda v: 0.0, lambda v: 1.0),
        (over_itself, lambda v: 1.0, lambda v: 0.0),
        (power_of_itself, lambda v: v**v, lambda v: v**v * (1 + __import__("math").log(v))),
    ],
)
def test_a_write_that_reads_what_it_overwrites_is_right_or_raises(write, value, slope):
    x = leaf([1.5, 2.0, 3.0])
    y = x * 1
    try:
        write(y)
        tp.testing.assert_close(y.tolist(), [value(v) for v in (1.5, 2.0, 3.0)], rtol=1e-12, atol=1e-12)
        y.sum().backward()
    except tp.AutogradError:
        return
    tp.testing.assert_close(x.grad.tolist(), [slope(v) for v in (1.5, 2.0, 3.0)], rtol=1e-12, atol=1e-12)


def test_a_write_that_reads_a_transposed_self_is_right_or_raises():
    x = leaf([[1.0, 2.0], [3.0, 4.0]])
    y = x * 1
    try:
        y.mul_(y.T)
        y.sum().backward()
    except tp.AutogradError as error:
        assert "view" in str(error)
        return
    assert x.grad.tolist() == [[2.0, 6.0], [4.0, 8.0]]


def test_without_a_gradient_a_write_that_reads_a_view_of_itself_is_right():
    for device in ("cpu", "loopback"):
        x = tp.tensor([[1.0, 2.0], [3.0, 4.0]], device=device)
        x.mul_(x.T)
        assert x.tolist() == [[1.0, 6.0], [6.0, 16.0]]
        y = tp.tensor([1.0, 2.0, 3.0, 4.0], device=device)
        y[1:].add_(y[:-1])
        assert y.tolist() == [1.0, 3.0, 5.0, 7.0]
        y = tp.tensor([1.0, 2.0, 3.0, 4.0], device=device)
        y[1:] = y[:-1]
        assert y.tolist() == [1.0, 1.0, 2.0, 3.0]
        y = tp.tensor([1.0, 2.0, 3.0, 4.0], device=device)
        tp.exp(y[:-1] * 0, out=y[1:])
        assert y.tolist() == [1.0, 1.0, 1.0, 1.0]


# ------------------------------------------------------------------------------------------------- what is refused


def test_a_leaf_that_requires_grad_cannot_be_written_to():
    x = leaf([1.0, 2.0])
    for write in (lambda: x.add_(1), lambda: x.copy_(tp.ones(2)), lambda: x.zero_(), lambda: x.__setitem__(0, 1.0)):
        with pytest.raises(tp.AutogradError, match=r"leaf that requires grad|view"):
            write()
    assert x.tolist() == [1.0, 2.0]
    with tp.no_grad():
        x.add_(1)
        x[0] = 5.0
    assert x.tolist() == [5.0, 3.0]
    assert x.is_leaf
    (x * x).sum().backward()
    assert x.grad.tolist() == [10.0, 6.0]


def test_a_write_through_a_detached_view_is_seen():
    x = leaf([1.0, 2.0, 3.0])
    y = x * 1
    z = (y * y).sum()
    y.detach()[0] = 9.0
    with pytest.raises(tp.AutogradError, match="modified in place"):
        z.backward()
    h = x.exp()
    h.data.mul_(0)
    with pytest.raises(tp.AutogradError, match="exp saved 'result'"):
        h.sum().backward()


def test_writing_to_a_view_taken_in_no_grad_is_seen():
    x = leaf([1.0, 2.0, 3.0])
    y = x * 1
    z = (y * y).sum()
    with tp.no_grad():
        y[1:].zero_()
    with pytest.raises(tp.AutogradError, match="modified in place"):
        z.backward()


def test_in_place_results_keep_shape_and_dtype_or_are_refused_before_anything_is_written():
    x = tp.tensor([1, 2])
    for write in (lambda: x.add_(1.5), lambda: x.mul_(0.5), lambda: x.div_(2), lambda: x.exp_()):
        with pytest.raises(tp.DTypeError, match=r"float32.*int64"):
            write()
    with pytest.raises(tp.ShapeError, match=r"\(3, 2\)"):
        x.add_(tp.ones(3, 2, dtype=tp.int64))
    assert x.tolist() == [1, 2]
    assert x._version_number == 0
    b = tp.tensor([True, False])
    with pytest.raises(tp.DTypeError):
        b.add_(1)
    f = tp.ones(2)
    with pytest.raises(tp.DTypeError):
        f.mul_(1j)
    f.mul_(tp.tensor([2, 3]))
    assert f.tolist() == [2.0, 3.0]


def test_an_expanded_tensor_is_not_written_to():
    x = tp.tensor(0.25)
    for write in (
        lambda v: v.exp_(),
        lambda v: v.add_(1),
        lambda v: v.copy_(tp.ones(3)),
        lambda v: v.fill_(1),
        lambda v: v.zero_(),
        lambda v: v.__setitem__(slice(None), 2.0),
        lambda v: tp.exp(v, out=v),
    ):
        with pytest.raises(tp.ShapeError, match=r"(?s)overlaps itself.*clone\(\) it first"):
            write(x.expand(3))
    assert x.item() == 0.25
    tp.zeros(0, 3).add_(1)  # nothing to overlap


def test_inference_tensors_are_written_to_in_inference_mode_only():
    with tp.inference_mode():
        x = tp.ones(2)
        x.add_(1)
    with pytest.raises(tp.AutogradError, match=r"(?s)made in inference mode.*clone"):
        x.add_(1)
    assert x.tolist() == [2.0, 2.0]
    y = x.clone()
    y.add_(1)
    assert y.tolist() == [3.0, 3.0]


def test_an_inference_tensor_cannot_be_saved():
    with tp.inference_mode():
        x = tp.ones(2, dtype=tp.float64)
    w = leaf([1.0, 2.0])
    with pytest.raises(tp.AutogradError, match=r"(?s)made in inference mode cannot be saved.*clone"):
        w * x
    y = w * 1
    with pytest.raises(tp.AutogradError, match="cannot be saved"):
        y.mul_(x)
    assert y.tolist() == [1.0, 2.0]
    assert (w + x).requires_grad  # nothing is saved here
    with tp.no_grad():
        assert not (w * x).requires_grad
