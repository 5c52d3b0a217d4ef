"""``tp.ops``: built-in and custom operators are equals."""

from __future__ import annotations

import copy
import pickle
from contextlib import closing

import pytest

import tensorplay as tp
from tensorplay_core.dispatch.key_set import KeySet
from tensorplay_core.dispatch.keys import DispatchKey
from tensorplay_core.errors import ArgumentError, AutogradError, RegistrationError

Library = tp.library.Library


@pytest.fixture
def mine():
    with closing(Library("mine", "DEF")) as lib:
        lib.define("twice(Tensor x) -> Tensor")
        lib.impl("twice", lambda x: x + x, "Composite")
        lib.define("scale(Tensor x, Scalar by) -> Tensor")
        lib.define("scale.Tensor(Tensor x, Tensor by, *, int times=1) -> Tensor")
        lib.impl("scale", lambda x, by: x * by, "Composite")
        lib.impl("scale.Tensor", lambda x, by, *, times=1: x * by * times, "Composite")
        yield lib


def test_namespaces_packets_and_overloads(mine):
    x = tp.tensor([1.0, 2.0])
    assert tp.ops.mine.twice(x).tolist() == tp.ops.mine.twice.default(x).tolist() == [2.0, 4.0]
    assert tp.ops.tp.add(x, x).tolist() == tp.ops.tp.add.default(x, x).tolist() == [2.0, 4.0]
    assert tp.ops.mine.scale(x, 3).tolist() == [3.0, 6.0]
    assert tp.ops.mine.scale(x, x).tolist() == [1.0, 4.0]
    assert tp.ops.mine.scale(x, x, times=2).tolist() == [2.0, 8.0]
    assert tp.ops.mine.scale.Tensor(x, by=x).tolist() == [1.0, 4.0]
    assert sorted(tp.ops.mine.scale.overloads()) == ["Tensor", "default"]
    assert {"mine", "tp"} <= set(dir(tp.ops)) and {"twice", "scale"} == set(dir(tp.ops.mine))
    assert "add" in dir(tp.ops.tp)


def test_an_operator_tells_its_schema_and_its_kernels(mine):
    assert str(tp.ops.mine.scale.Tensor._schema) == "scale.Tensor(Tensor x, Tensor by, *, int times=1) -> Tensor"
    twice, add = tp.ops.mine.twice.default, tp.ops.tp.add.default
    assert twice.has_kernel("Composite") and twice.has_kernel("Autograd") and not twice.has_kernel("CPU")
    assert add.has_kernel("CPU") and add.has_kernel("Autograd") and not add.has_kernel("AutogradCPU")
    with pytest.raises(RegistrationError, match="no dispatch key"):
        add.has_kernel("CPUU")
    assert repr(twice) == "<OpOverload mine::twice>" and "scale" in repr(tp.ops.mine.scale)


def test_an_overload_is_one_object_that_knows_its_names(mine):
    overload, packet = tp.ops.mine.scale.Tensor, tp.ops.mine.scale
    assert tp.ops.mine.scale.Tensor is overload and tp.ops.mine.scale is packet is overload.overloadpacket
    assert {overload: 1}[tp.ops.mine.scale.Tensor] == 1 and overload != tp.ops.mine.scale.default
    assert (overload.name(), overload.namespace) == ("mine::scale.Tensor", "mine")
    assert (overload._overloadname, tp.ops.mine.twice.default._overloadname) == ("Tensor", "default")
    assert (overload.__name__, packet.__name__) == ("scale.Tensor", "scale")
    assert (tp.ops.tp.add.default.__name__, tp.ops.tp.add.default.name()) == ("add.default", "tp::add")
    assert "pointwise" in tp.ops.tp.add.default.tags and overload.tags == ()
    assert tp.ops.tp.add.default.__doc__ == tp.add.__doc__ and "other" in tp.add.__doc__
    assert {"Tensor", "default", "overloads"} <= set(dir(packet))
    assert copy.copy(overload) is copy.deepcopy(overload) is pickle.loads(pickle.dumps(overload)) is overload


def test_what_tp_ops_knows_changes_with_the_operators(mine):
    assert "later" not in dir(tp.ops.mine)
    mine.define("later(Tensor x) -> Tensor")
    packet = tp.ops.mine.later
    assert "later" in dir(tp.ops.mine) and packet.overloads() == ["default"]
    mine.define("later.more(Tensor x, int n) -> Tensor")
    assert packet.overloads() == ["default", "more"]
    with closing(Library("soon", "DEF")) as lib:
        lib.define("op(Tensor x) -> Tensor")
        assert "soon" in dir(tp.ops)
    assert "soon" not in dir(tp.ops)


def test_names_that_do_not_exist_are_answered_with_the_nearest(mine):
    for access, near in [
        (lambda: tp.ops.mien, "'mine'"),
        (lambda: tp.ops.mine.twize, "'twice'"),
        (lambda: tp.ops.mine.scale.Tensr, "'Tensor'"),
        (lambda: tp.ops.tp.addd, "'add'"),
    ]:
        with pytest.raises(AttributeError, match=near):
            access()


def test_arguments_that_no_overload_takes_list_them_all(mine):
    with pytest.raises(ArgumentError) as info:
        tp.ops.mine.scale("x")
    assert "scale(Tensor x, Scalar by)" in str(info.value) and "scale.Tensor(" in str(info.value)
    with pytest.raises(ArgumentError, match=r"mine::twice: argument 'x' is missing"):
        tp.ops.mine.twice()
    with pytest.raises(ArgumentError, match=r"mine::twice: x must be a Tensor, not str"):
        tp.ops.mine.twice("x")


def test_redispatch_continues_at_the_keys_that_are_left(mine):
    x = tp.ones(1, requires_grad=True)
    y = tp.ops.tp.mul.default.redispatch(KeySet.of(DispatchKey.CPU), x, x)
    assert y.item() == 1.0 and not y.requires_grad
    z = tp.ops.tp.mul.default.redispatch(KeySet.of(DispatchKey.CPU, DispatchKey.AutogradCPU), x, x)
    assert z.requires_grad


def test_a_custom_operator_works_on_every_device_and_in_every_mode(mine):
    for device in ("cpu", "loopback"):
        x = tp.ones(2, device=device)
        assert tp.ops.mine.twice(x).device == x.device
        with tp.inference_mode():
            assert tp.ops.mine.twice(x).tolist() == [2.0, 2.0]
            assert tp.ops.mine.twice(tp.ones(2, device=device)).is_inference()


def test_c02_backward_through_an_operator_without_a_formula_raises_and_names_it(mine):
    x = tp.ones(2, requires_grad=True)
    y = tp.ops.mine.twice(x).sum()
    assert y.item() == 4.0
    with pytest.raises(RuntimeError, match=r"mine::twice") as info:
        y.backward()
    assert isinstance(info.value, AutogradError)
    assert 'tp.library.register_autograd("mine::twice", backward, setup_context=...)' in str(info.value)
    assert x.grad is None
    with tp.no_grad():
        assert not tp.ops.mine.twice(x).requires_grad
    tp.ops.mine.twice(x.detach()).sum()


def test_c02_also_for_a_built_in_kernel_of_arrays_and_for_several_results(mine):
    mine.define("both(Tensor x) -> (Tensor a, Tensor b)")
    mine.impl("both", lambda x: (x + 1, x * 2), "CPU")
    mine.define("flat(Tensor[] xs) -> Tensor")
    mine.impl("flat", lambda xs: xs[0] + xs[1], "Composite")
    x = tp.ones(2, requires_grad=True)
    a, b = tp.ops.mine.both(x)
    for y, name in ((a, "both"), (b, "both"), (tp.ops.mine.flat([tp.ones(2), x]), "flat")):
        assert y.requires_grad
        with pytest.raises(AutogradError, match=f"mine::{name}"):
            y.sum().backward()
    assert x.grad is None


def test_results_that_carry_no_gradient_need_no_formula(mine):
    mine.define("count(Tensor x) -> int")
    mine.impl("count", lambda x: x.numel(), "Composite")
    mine.define("look(Tensor x) -> ()")
    mine.impl("look", lambda x: None, "Composite")
    mine.define("where(Tensor x) -> Tensor")
    mine.impl("where", lambda x: x > 0, "Composite")
    x = tp.ones(2, requires_grad=True)
    assert tp.ops.mine.count(x) == 2
    assert tp.ops.mine.look(x) is None
    assert not tp.ops.mine.where(x).requires_grad


def test_a_custom_in_place_operator_bumps_and_is_checked(mine):
    mine.define("inc_(Tensor(a!) x) -> Tensor(a!)")
    mine.impl("inc_", lambda x: x.add_(1), "Composite")
    x = tp.zeros(2)
    assert tp.ops.mine.inc_(x) is x and x.tolist() == [1.0, 1.0]
    leaf = tp.zeros(2, requires_grad=True)
    with pytest.raises(AutogradError, match="leaf"):
        tp.ops.mine.inc_(leaf)
    assert leaf.tolist() == [0.0, 0.0]


def test_an_autograd_kernel_of_ones_own_gives_a_gradient(mine):
    """What register_autograd spells for most operators: here a kernel made of differentiable ones."""
    mine.impl("twice", lambda x: x * 2, "AutogradCPU")
    x = tp.ones(2, requires_grad=True)
    tp.ops.mine.twice(x).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]


def test_an_operator_may_join_the_built_in_namespace():
    with closing(Library("tp", "FRAGMENT")) as lib:
        lib.define("my_extra(Tensor x) -> Tensor")
        lib.impl("my_extra", lambda x: x * 5, "Composite")
        assert tp.ops.tp.my_extra(tp.ones(1)).item() == 5.0
    with pytest.raises(AttributeError):
        _ = tp.ops.tp.my_extra


def test_they_copy_and_pickle_by_name(mine):
    assert pickle.loads(pickle.dumps(tp.ops.mine)).twice(tp.ones(1)).tolist() == [2.0]
    for thing in (tp.ops.mine.scale, tp.ops.mine.scale.Tensor, tp.ops.tp.add.default):
        assert repr(copy.copy(thing)) == repr(copy.deepcopy(thing)) == repr(pickle.loads(pickle.dumps(thing)))
    assert pickle.loads(pickle.dumps(tp.ops.mine.twice.default))(tp.ones(1)).tolist() == [2.0]


def test_a_missing_formula_may_also_be_a_kernel_of_another_library(mine):
    op = mine.define("thrice(Tensor x) -> Tensor")
    mine.impl("thrice", lambda x: x * 3, "Composite")
    x = tp.ones(2, requires_grad=True)
    with pytest.raises(AutogradError, match="mine::thrice has no gradient formula"):
        tp.ops.mine.thrice(x).sum().backward()
    placeholder = op.kernel_at("Autograd")
    with closing(Library("mine", "IMPL")) as another:
        another.impl("thrice", lambda keys, x: x * 3, "Autograd", with_keyset=True)
        tp.ops.mine.thrice(x).sum().backward()
        assert x.grad.tolist() == [3.0, 3.0]
    assert op.kernel_at("Autograd") is placeholder


def test_a_kernel_that_returns_its_input_leaves_that_alone(mine):
    mine.define("same(Tensor x) -> Tensor")
    mine.impl("same", lambda x: x, "Composite")
    mine.define("pair(Tensor x) -> (Tensor a, Tensor b)")
    mine.impl("pair", lambda x: (x, x + 1), "Composite")
    x = tp.ones(2, requires_grad=True)
    y, (a, b) = tp.ops.mine.same(x), tp.ops.mine.pair(x)
    assert y is not x and a is not x and x.is_leaf and x.grad_fn is None
    for result in (y, a, b):
        with pytest.raises(AutogradError, match="mine::"):
            result.sum().backward()
    (x * 3).sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]
