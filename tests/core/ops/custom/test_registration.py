"""Kernels, fakes, definitions and functions registered by name: for whom, for how long, and for which devices."""

from __future__ import annotations

import types

import pytest

import tensorplay as tp
from tensorplay_core.dispatch.keys import DispatchKey, backend_key
from tensorplay_core.dispatch.registry import REGISTRY


@pytest.fixture
def double():
    @tp.library.custom_op("t::double", mutates_args=())
    def double(x: tp.Tensor) -> tp.Tensor:
        return x * 2

    return double


def elsewhere(function, module="elsewhere"):
    """The same function, as if another module had it."""
    function.__module__ = module
    return function


def test_a_kernel_for_some_devices_takes_precedence_there(double):
    @tp.library.register_kernel("t::double", ["cpu", "loopback"])
    def both(x):
        return x * 20

    assert double(tp.ones(1)).item() == double(tp.ones(1, device="loopback")).item() == 20.0
    op = REGISTRY.find("t::double")
    for key in (int(DispatchKey.CPU), backend_key("loopback")):
        (kernel,) = op.table[key]
        assert kernel.where.startswith(__file__) and kernel.level == "tensor" and "both" in kernel.kernel_name
    double.register_kernel("loopback", lambda x: x * 30)
    assert double(tp.ones(1)).item() == 20.0 and double(tp.ones(1, device="loopback")).item() == 30.0


@pytest.mark.parametrize("how", ["name", "overload", "packet", "definition", "default"])
def test_an_operator_may_be_named_in_any_way(double, how):
    op = {
        "name": "t::double",
        "overload": tp.ops.t.double.default,
        "packet": tp.ops.t.double,
        "definition": double,
        "default": "t::double.default",
    }[how]
    tp.library.register_kernel(op, "cpu", lambda x: x * 3)
    tp.library.register_fake(op, lambda x: tp.empty_like(x))
    tp.library.register_autograd(op, lambda ctx, grad: grad * 3)
    x = tp.ones(1, requires_grad=True)
    double(x).backward()
    assert x.grad.item() == 3.0 and double(tp.ones(2, device="meta")).shape == (2,)


def test_what_is_no_operator_is_answered(double):
    with pytest.raises(tp.RegistrationError, match=r"no operator 't::dubble'. Did you mean 't::double'"):
        tp.library.register_kernel("t::dubble", "cpu", lambda x: x)
    with pytest.raises(tp.ArgumentError, match=r"(?s)has several overloads.*name one of default, dim"):
        tp.library.register_fake(tp.ops.tp.max, lambda x: x)
    with pytest.raises(tp.ArgumentError, match="or what custom_op returned; not int"):
        tp.library.register_fake(3, lambda x: x)


@pytest.mark.parametrize(
    ("devices", "message"),
    [
        ("cpuu", "there is no device type 'cpuu'. Did you mean 'cpu'"),
        (["cpu", "lopback"], "there is no device type 'lopback'. Did you mean 'loopback'"),
        ("zzz", "there is no device type 'zzz'. There are: cpu, cuda, meta"),
        ("AutogradCPU", "'AutogradCPU' is a dispatch key and no device type"),
        ("Autograd", "'Autograd' is a dispatch key and no device type"),
    ],
)
def test_device_types_that_are_none(double, devices, message):
    with pytest.raises(tp.RegistrationError, match=message):
        double.register_kernel(devices, lambda x: x * 2)
    slots = set(REGISTRY.find("t::double").table) - {"Vmap"}  # which it has once a program has used vmap
    assert slots == {int(DispatchKey.Composite), "Autograd"}
    with pytest.raises(tp.ArgumentError, match="a device type is a string such as 'cpu', not 3"):
        double.register_kernel([3], lambda x: x)


def test_a_kernel_whose_arguments_do_not_fit_is_refused_with_both_signatures(double):
    for register in (lambda f: double.register_kernel("cpu", f), double.register_fake):
        with pytest.raises(
            tp.RegistrationError, match=r"(?s)signature is \(x, y\) \(.*test_registration.py:\d+\).*t::double\("
        ):
            register(lambda x, y: x)
        with pytest.raises(tp.RegistrationError, match=r"a (kernel|fake) is a callable, not 3"):
            register(3)


def test_a_fake_returns_tensors_without_data_and_its_promises_are_kept(double):
    double.register_fake(lambda x: x.new_empty((1, *x.shape)))
    assert double(tp.ones(2, device="meta")).shape == (1, 2)
    double.register_fake(lambda x: x)
    assert double(tp.ones(2, device="meta")).shape == (2,)  # what a fake shares means nothing
    double.register_fake(lambda x: None)
    with pytest.raises(tp.KernelError, match="returned None"):
        double(tp.ones(2, device="meta"))


# ------------------------------------------------------------------------------------------------- whose, how long


def test_another_modules_registration_is_its_own(double):
    tp.library.register_kernel("t::double", "cpu", elsewhere(lambda x: x * 5))
    with pytest.raises(tp.BackendConflict, match=r"(?s)t::double at CPU is taken by elsewhere .*override=True"):
        double.register_kernel("cpu", lambda x: x * 6)
    double.register_kernel("cpu", lambda x: x * 7, override=True)
    assert double(tp.ones(1)).item() == 7.0
    tp.library.register_kernel("t::double", "cpu", elsewhere(lambda x: x * 8))  # run again: replaces its own, beneath
    assert double(tp.ones(1)).item() == 7.0
    assert [r.owner for r in REGISTRY.find("t::double").table[0]] == [__name__, "elsewhere"]


def test_a_definition_run_again_keeps_what_others_registered():
    def define():
        return tp.library.custom_op("t::again", lambda x: x * 2, mutates_args=(), schema="(Tensor x) -> Tensor")

    define()
    tp.library.register_kernel("t::again", "cpu", elsewhere(lambda x: x * 5))
    op = define()
    assert op(tp.ones(1)).item() == 5.0


def test_a_registration_leaves_with_the_library_that_it_is_given(double):
    lib = tp.library.Library("t", "FRAGMENT")
    tp.library.register_kernel("t::double", "cpu", lambda x: x * 5, lib=lib)
    tp.library.register_fake("t::double", lambda x: x.new_empty(7), lib=lib)
    tp.library.register_autograd("t::double", lambda ctx, grad: grad * 5, lib=lib)
    x = tp.ones(1, requires_grad=True)
    double(x).backward()
    assert x.grad.item() == 5.0 and double(tp.ones(1, device="meta")).shape == (7,)
    lib.close()
    assert double(x).item() == 2.0 and double(tp.ones(1, device="meta")).shape == (1,)
    with pytest.raises(tp.AutogradError, match="no gradient formula"):
        double(x).backward()


def test_callables_without_a_module_belong_to_the_operators_owner(double):
    class Kernel:
        def __call__(self, x):
            return x * 9

    kernel = Kernel()
    kernel.__module__ = None
    double.register_kernel("cpu", kernel)
    assert double(tp.ones(1)).item() == 9.0 and REGISTRY.find("t::double").table[0][0].owner == __name__


# ------------------------------------------------------------------------------------------------- define and impl


def test_definitions_without_a_library_object():
    tp.library.define("t::plain", "(Tensor x, int n=3) -> Tensor", tags=("pointwise",))
    assert REGISTRY.find("t::plain").where.startswith(__file__) and tp.ops.t.plain.default.tags == ("pointwise",)

    @tp.library.impl("t::plain", "default")
    def plain(x, n):
        return x * n

    tp.library.impl("t::plain", ["cpu", "loopback"], lambda x, n: x * 0)
    assert tp.ops.t.plain(tp.ones(1)).item() == 0.0 and plain(2, 3) == 6
    assert tp.ops.t.plain(tp.ones(1, device="meta")).shape == (1,)
    tp.library.define("t::plain", "(Tensor x, int n=3) -> Tensor")  # a cell run again
    with pytest.raises(tp.RegistrationError, match=r"t::plain is defined at .*test_registration.py:\d+"):
        tp.library.define("t::plain", "(Tensor x) -> Tensor")
    with pytest.raises(tp.SchemaError, match="the schema begins with its arguments"):
        tp.library.define("t::plain2", "plain2(Tensor x) -> Tensor")
    with pytest.raises(tp.ArgumentError, match="an operator's name is"):
        tp.library.define("plain2", "(Tensor x) -> Tensor")
    lib = tp.library.Library("t", "FRAGMENT")
    tp.library.define("t::short", "(Tensor x) -> Tensor", lib=lib)
    lib.close()
    assert "t::short" not in REGISTRY.operators


def test_names_of_the_library_module():
    for name in ("custom_op", "CustomOpDef", "register_fake", "infer_schema", "opcheck", "define", "impl"):
        assert name in dir(tp.library) and callable(getattr(tp.library, name))
    assert isinstance(tp.library, types.ModuleType)
    with pytest.raises(AttributeError, match=r"no attribute 'custom_opp'. Did you mean 'custom_op'"):
        _ = tp.library.custom_opp


def test_the_overload_without_a_name_may_be_called_default_everywhere():
    made = tp.library.custom_op("t::plain.default", lambda x: x * 2, mutates_args=(), schema="(Tensor x) -> Tensor")
    assert made._opoverload is tp.ops.t.plain.default and tp.ops.t.plain.overloads() == ["default"]
    tp.library.register_fake("t::plain.default", lambda x: x.new_empty((7,)))
    assert tp.ops.t.plain(tp.ones(2, device="meta")).shape == (7,)


def test_a_name_of_several_overloads_asks_which_one_and_of_one_means_that_one():
    tp.library.custom_op("t::pick.one", lambda x: x * 2, mutates_args=(), schema="(Tensor x) -> Tensor")
    tp.library.register_fake("t::pick", lambda x: x.new_empty((7,)))
    assert tp.ops.t.pick.one(tp.ones(2, device="meta")).shape == (7,)
    tp.library.custom_op("t::pick.two", lambda x, n: x * n, mutates_args=(), schema="(Tensor x, int n) -> Tensor")
    with pytest.raises(tp.ArgumentError, match=r"t::pick has several overloads\nfix: name one of one, two"):
        tp.library.register_fake("t::pick", lambda x: x)


def test_one_tag_may_be_written_alone():
    made = tp.library.custom_op(
        "t::noise", lambda x: x * 2, mutates_args=(), schema="(Tensor x) -> Tensor", tags="random"
    )
    lib = tp.library.Library("t", "FRAGMENT")
    tp.library.define("t::defined", "(Tensor x) -> Tensor", tags="random", lib=lib)
    assert made._opoverload.tags == tp.ops.t.defined.default.tags == ("random",)
    lib.close()


def test_a_wrong_device_type_is_offered_each_near_one_once(double):
    with pytest.raises(tp.RegistrationError, match=r"no device type 'cudda'. Did you mean 'cuda'\?$"):
        double.register_kernel("cudda", lambda x: x)
