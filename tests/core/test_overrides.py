"""Handlers of public functions: who is asked, in what order, and what comes back. The rules are PyTorch's."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import tensorplay as tp
from tensorplay_core.dispatch.context import STATE


class Base(tp.Tensor):
    pass


class Kept(Base):
    """With attributes of its own."""

    def __init__(self):
        self.label = "a"


def maker(name, answer, base=tp.Tensor):
    """Returns a subclass whose handler notes that it was asked, and answers."""

    def handler(cls, func, types, args=(), kwargs=None):
        asked.append((name, func, types))
        return answer

    return type(name, (base,), {"__tensorplay_function__": classmethod(handler)})


asked = []


@pytest.fixture(autouse=True)
def _fresh():
    asked.clear()


def of(cls, *values):
    return tp.tensor(list(values) or [1.0, 2.0]).as_subclass(cls)


A = maker("A", NotImplemented)
B = maker("B", "B's answer")
C = maker("C", NotImplemented, base=A)


def names():
    return [name for name, _, _ in asked]


def test_the_first_answer_from_left_to_right_counts():
    assert tp.add(of(A), of(B)) == "B's answer"
    assert names() == ["A", "B"]
    assert asked[0][2] == (A, B)
    asked.clear()
    assert tp.add(of(B), of(A)) == "B's answer"
    assert names() == ["B"]


def test_a_subclass_is_asked_before_what_it_derives_from():
    with pytest.raises(TypeError):
        tp.add(of(A), of(C))
    assert names() == ["C", "A"]


def test_one_of_each_class_is_asked_also_in_lists():
    assert tp.cat([tp.ones(2), of(A), of(A), of(B)]) == "B's answer"
    assert names() == ["A", "B"]
    assert asked[0][1] is tp.cat


def test_nobody_answers():
    with pytest.raises(TypeError, match=r"add: __tensorplay_function__ of C, A returned NotImplemented"):
        of(A) + of(C)


@pytest.mark.parametrize(
    "call",
    [
        lambda x: x + 1,
        lambda x: 1 + x,
        lambda x: tp.add(x, 1),
        lambda x: x.add(1),
        lambda x: tp.ones(2) + x,
        lambda x: tp.Tensor.add(tp.ones(2), x),
        lambda x: tp.ones(2).add(other=x),
        lambda x: tp.ops.tp.add.default(x, tp.ones(2)),
    ],
)
def test_one_function_stands_for_every_spelling(call):
    assert call(of(B)) == "B's answer"
    assert [func for _, func, _ in asked] == [tp.add]


@pytest.mark.parametrize(
    ("call", "func"),
    [
        (lambda x: x[0], tp.Tensor.__getitem__),
        (lambda x: x.T, tp.Tensor.T.fget),
        (lambda x: x.grad, tp.Tensor.grad.fget),
        (lambda x: x.to(tp.float64), tp.Tensor.to),
        (lambda x: x.view(2, 1), tp.Tensor.view),
        (lambda x: x.detach(), tp.Tensor.detach),
        (lambda x: x.backward(), tp.Tensor.backward),
        (lambda x: x.item(), tp.Tensor.item),
        (lambda x: x.tolist(), tp.Tensor.tolist),
        (lambda x: x.new_zeros(2), tp.Tensor.new_zeros),
        (lambda x: x.add_(1), tp.Tensor.add_),
        (lambda x: x.sum(0), tp.sum),
        (lambda x: x.max(0), tp.max),
        (lambda x: tp.zeros_like(x), tp.zeros_like),
        (lambda x: tp.rand_like(x), tp.rand_like),
        (lambda x: tp.einsum("i,i->", tp.ones(2), x), tp.einsum),
        (lambda x: tp.meshgrid(tp.ones(2), x), tp.meshgrid),
        (lambda x: tp.linalg.norm(x), tp.linalg.norm),
        (lambda x: tp.nn.functional.relu(x), tp.relu),
        (lambda x: tp.nn.functional.conv1d(tp.ones(1, 1, 3), x), tp.nn.functional.conv1d),
        (lambda x: tp.nn.functional.max_pool2d(x, 2), tp.nn.functional.max_pool2d),
        (lambda x: tp.nn.functional.cross_entropy(x, tp.tensor(1)), tp.nn.functional.cross_entropy),
        (lambda x: tp.autograd.grad(x, x), tp.autograd.grad),
        (lambda x: tp.ones(2)[x], tp.Tensor.__getitem__),
        (lambda x: tp.ones(2)[0, x], tp.Tensor.__getitem__),
        (lambda x: tp.add(tp.ones(2), 1, out=x), tp.add),
    ],
)
def test_what_is_intercepted_and_under_which_name(call, func):
    assert call(of(B)) == "B's answer"
    assert [seen for _, seen, _ in asked] == [func]


def test_an_assignment_is_intercepted():
    x = of(B)
    x[0] = 5
    tp.ones(2)[0] = x
    assert [func for _, func, _ in asked] == [tp.Tensor.__setitem__] * 2


def test_what_the_handler_gets_is_what_was_written():
    seen = []

    class Noting(tp.Tensor):
        @classmethod
        def __tensorplay_function__(cls, func, types, args=(), kwargs=None):
            seen.append((args[1:], kwargs))

    x = of(Noting)
    for _ in range(2):
        x * 2.0
    x.sum()
    x.sum(0, True)
    tp.add(x, 3, alpha=2)
    assert seen == [((2.0,), {})] * 2 + [((), {}), ((0, True), {}), ((3,), {"alpha": 2})]


def test_metadata_is_not_intercepted():
    x = of(B)
    assert (x.shape, x.dtype, x.ndim, x.requires_grad, len(x), x.is_contiguous()) == (
        (2,),
        tp.float32,
        1,
        False,
        2,
        True,
    )
    assert not asked


def test_a_class_that_is_no_tensor_has_a_say_too():
    class Duck:
        @classmethod
        def __tensorplay_function__(cls, func, types, args=(), kwargs=None):
            return func.__name__, types

    assert tp.add(tp.ones(2), Duck()) == ("add", (Duck,))
    assert tp.cat([Duck(), tp.ones(2)]) == ("cat", (Duck,))
    assert tp.overrides.is_tensor_like(Duck())
    with pytest.raises(TypeError, match="must be a Tensor"):
        tp.add(tp.ones(2), object())


def test_without_a_handler_results_keep_the_class():
    x = of(Base)
    for y in (x + 1, 1 - x, x.exp(), x[0], x.T, x.view(2, 1), tp.cat([tp.ones(2), x]), x.clone(), x.to(tp.float64)):
        assert type(y) is Base
    assert all(type(y) is Base for y in (*x.split(1), *x.max(0), *x, *tp.meshgrid(x, x)))
    assert type(x.max(0)).__name__ == "max"  # still named
    x += 1
    assert type(x) is Base
    assert type(of(Kept) + x) is Kept  # the more derived
    assert type(tp.tensor(x)) is tp.Tensor  # as in PyTorch
    assert type(tp.ones_like(x)) is Base
    assert x.tolist() == [2.0, 3.0]


def test_two_strange_classes_do_not_mix():
    class Other(tp.Tensor):
        pass

    with pytest.raises(TypeError, match="add: __tensorplay_function__ of Base, Other returned NotImplemented"):
        of(Base) + of(Other)


def test_a_disabled_class_is_as_fast_and_plain_as_tensor():
    class Quiet(tp.Tensor):
        __tensorplay_function__ = tp.overrides.DISABLED

    x = of(Quiet)
    assert x._type is tp.ones(2)._type
    assert type(x + 1) is tp.Tensor


def test_gradients_pass_through():
    leaf = tp.tensor([1.0, 2.0], requires_grad=True)
    x = leaf.as_subclass(Base)
    assert not x.is_leaf
    assert x._base is leaf
    (x * x).sum().backward()
    np.testing.assert_array_equal(leaf.grad.numpy(), [2.0, 4.0])
    own = of(Base).requires_grad_()
    assert own.is_leaf
    (own * tp.tensor([3.0, 4.0])).sum().backward()
    np.testing.assert_array_equal(own.grad.numpy(), [3.0, 4.0])
    (grad,) = tp.autograd.grad((own**3).sum(), own, create_graph=True)
    (second,) = tp.autograd.grad(grad.sum(), own)
    np.testing.assert_array_equal(second.detach().numpy(), [6.0, 12.0])


def test_a_write_to_the_view_is_seen_in_the_base_and_differentiated():
    leaf = tp.tensor([1.0, 2.0], requires_grad=True)
    base = leaf * 1
    x = base.as_subclass(Base)
    x.mul_(tp.tensor([10.0, 100.0]))
    np.testing.assert_array_equal(base.detach().numpy(), [10.0, 200.0])
    base.sum().backward()
    np.testing.assert_array_equal(leaf.grad.numpy(), [10.0, 100.0])


def test_new_leaves_of_a_subclass():
    class Weight(tp.Tensor):
        def __new__(cls, data):
            return tp.Tensor._make_subclass(cls, data, True)

    w = Weight(tp.ones(2))
    assert type(w) is Weight
    assert w.is_leaf
    assert w.requires_grad
    assert type(tp.Tensor._make_subclass(Weight, tp.ones(2))) is Weight
    with pytest.raises(TypeError, match="takes a subclass of Tensor, not int"):
        tp.ones(2).as_subclass(int)


def test_copies_and_pickles_keep_class_and_attributes():
    x = of(Kept).requires_grad_()
    x.label, x.tags = "b", [1]
    for made, shares in ((copy.copy(x), True), (copy.deepcopy(x), False), (pickle.loads(pickle.dumps(x)), False)):
        assert type(made) is Kept
        assert (made.label, made.tags, made.requires_grad, made.is_leaf) == ("b", [1], True, True)
        assert (made.tags is x.tags) is shares
        assert made.detach().tolist() == [1.0, 2.0]
        assert type(made * 2) is Kept
    assert repr(x) == "Kept([1., 2.], requires_grad=True)"


def test_slots_of_a_subclass_are_kept():
    made = pickle.loads(pickle.dumps(slotted()))
    assert (made.unit, copy.copy(slotted()).unit, copy.deepcopy(slotted()).unit) == ("m", "m", "m")


class Slotted(tp.Tensor):
    __slots__ = ("unit",)


def slotted():
    x = of(Slotted)
    x.unit = "m"
    return x


def test_disabling():
    x = of(B)
    with tp.overrides.DisableTensorPlayFunction():
        assert type(x + 1) is tp.Tensor
        with Noting():
            x + 1
    with tp.overrides.DisableTensorPlayFunctionSubclass(), Noting() as mode:
        assert type(x + 1) is tp.Tensor
    assert mode.seen == [tp.add]
    assert not asked


class Noting(tp.overrides.TensorPlayMode):
    def __init__(self, answer=None):
        self.seen, self.answer = [], answer

    def __tensorplay_function__(self, func, types, args=(), kwargs=None):
        self.seen.append(func)
        return func(*args, **(kwargs or {})) if self.answer is None else self.answer


def test_modes_nest_and_the_inner_is_asked_first():
    with Noting() as outer, Noting() as inner:
        tp.ones(2).exp()
    assert inner.seen == outer.seen == [tp.ones, tp.exp]
    with Noting() as outer, Noting("mine") as inner:
        assert tp.ones(2) == "mine"
    assert outer.seen == []


def test_a_mode_comes_before_a_class_and_can_leave_the_call_to_it():
    x = of(B)
    with Noting("mine"):
        assert x + 1 == "mine"
    with Noting(NotImplemented) as mode:
        assert x + 1 == "B's answer"
    assert mode.seen == [tp.add]
    with Noting(NotImplemented), pytest.raises(TypeError, match="of the mode Noting returned NotImplemented"):
        tp.ones(2)


def test_a_mode_is_off_in_its_own_handler():
    class Twice(tp.overrides.TensorPlayMode):
        calls = 0

        def __tensorplay_function__(self, func, types, args=(), kwargs=None):
            self.calls += 1
            assert not STATE.get().modes.functions
            return func(*args, **(kwargs or {})) * 2

    with Twice() as mode:
        y = tp.ones(2) + 1
    assert y.tolist() == [6.0, 6.0]
    assert mode.calls == 2


def test_a_mode_sees_creation_numbers_and_backward():
    x = tp.ones(2, requires_grad=True)
    with Noting() as mode:
        tp.tensor([1.0])
        tp.zeros(2, 3)
        tp.arange(3)
        (x * 2.0).sum().backward()
    assert mode.seen == [tp.tensor, tp.zeros, tp.arange, tp.mul, tp.sum, tp.Tensor.backward]


def test_an_exception_leaves_the_state_as_it_was():
    before = STATE.get()
    with pytest.raises(tp.ShapeError), Noting():
        tp.ones(2) + tp.ones(3)
    with pytest.raises(ZeroDivisionError), Noting(), Noting():
        raise ZeroDivisionError
    assert STATE.get() is before
    assert tp.ones(2) is not None


def test_one_mode_can_be_entered_twice_and_again():
    mode = Noting()
    with mode, mode:
        tp.ones(2)
    assert len(mode.seen) == 2
    with mode:
        tp.ones(2)
    assert len(mode.seen) == 3


def test_other_threads_do_not_see_a_mode():
    import threading

    with Noting() as mode:
        thread = threading.Thread(target=lambda: tp.ones(2))
        thread.start()
        thread.join()
    assert mode.seen == []


def test_functions_of_ones_own():
    @tp.overrides.overridable
    def norm(x):
        return (x * x).sum().sqrt()

    assert norm(tp.tensor([3.0, 4.0])).item() == 5.0
    assert norm(of(B)) == "B's answer"
    assert asked[0][1] is norm
    with Noting() as mode:
        norm(tp.tensor([3.0, 4.0]))
    assert mode.seen == [tp.tensor, norm]
