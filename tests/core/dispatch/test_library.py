"""Libraries: operators and kernels that come at run time, take effect at once, and leave without a trace."""

from __future__ import annotations

import gc
import subprocess
import sys
from contextlib import closing

import numpy as np
import pytest

import tensorplay as tp
from tensorplay_core.dispatch import blocks
from tensorplay_core.dispatch.context import Scope
from tensorplay_core.dispatch.keys import DispatchKey
from tensorplay_core.dispatch.registry import REGISTRY
from tensorplay_core.errors import ArgumentError, BackendConflict, KernelMissing, RegistrationError, SchemaError

Library = tp.library.Library
ADD = REGISTRY.find("add")


def cell():
    """A notebook cell: every run makes new function objects from the same lines."""
    lib = Library("nb", "FRAGMENT")
    lib.define("sq(Tensor x) -> Tensor")
    lib.impl("sq", lambda x: x * x, "CPU")
    return lib


def nb_operators():
    gc.collect()
    return [name for name in REGISTRY.operators if name.startswith("nb::")]


def test_c01_a_notebook_cell_can_be_run_twice():
    keep = cell()
    keep = cell()
    assert tp.ops.nb.sq(tp.tensor([3.0])).tolist() == [9.0]
    assert len(REGISTRY.find("nb::sq").table[int(DispatchKey.CPU)]) == 1
    del keep
    assert nb_operators() == []


def test_c01_the_first_run_may_be_closed_after_the_second():
    first, second = cell(), cell()
    first.close()
    assert tp.ops.nb.sq(tp.tensor([3.0])).tolist() == [9.0]
    second.close()
    assert nb_operators() == []


def test_c01_another_schema_or_another_owner_is_refused_with_both_places():
    with closing(cell()) as lib:
        here = f"{__file__}:"
        with closing(Library("nb")) as again:
            with pytest.raises(RegistrationError, match="nb::sq is defined at") as info:
                again.define("sq(Tensor x, Tensor y) -> Tensor")
            assert str(info.value).count(here) == 2 and "sq(Tensor x, Tensor y)" in str(info.value)
        stranger = {"tp": tp, "__name__": "stranger"}
        exec(compile("lib = tp.library.Library('nb')", "stranger.py", "exec"), stranger)
        with pytest.raises(RegistrationError, match="nb::sq is defined at"):
            stranger["lib"].define("sq(Tensor x) -> Tensor")
        with pytest.raises(BackendConflict) as conflict:
            stranger["lib"].impl("sq", lambda x: x, "CPU")
        assert str(conflict.value).count(here) == 2 and "override=True" in str(conflict.value)
        assert tp.ops.nb.sq(tp.tensor([3.0])).tolist() == [9.0]
        del lib


def test_nothing_is_left_after_a_library_is_dropped():
    before = dict(ADD.table)
    lib = Library("tp", "IMPL")
    lib.impl("add", lambda a, b: a, "CPU", override=True)
    assert len(ADD.table[0]) == 2
    del lib
    gc.collect()
    assert dict(ADD.table) == before


def test_a_library_that_could_not_be_made_is_dropped_in_silence():
    code = "import tensorplay as tp\ntry:\n    tp.library.Library('x', 'BAD')\nexcept TypeError as e:\n    print(e)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stderr == "" and "'DEF', 'FRAGMENT' or 'IMPL', not 'BAD'" in done.stdout


def test_wrong_use_is_answered():
    with pytest.raises(ArgumentError, match="a namespace is an identifier"):
        Library("not one")
    with closing(Library("lib", "IMPL")) as lib:
        with pytest.raises(RegistrationError, match="defines no operators"):
            lib.define("op(Tensor x) -> Tensor")
        with pytest.raises(ArgumentError, match="which dispatch key"):
            lib.impl("op", len)
        with pytest.raises(RegistrationError, match="no operator 'lib::op'"):
            lib.impl("op", len, "CPU")
    with closing(Library("lib")) as lib, pytest.raises(SchemaError):
        lib.define("op(Tensr x) -> Tensor")
    assert "lib::op" not in REGISTRY.operators


def test_a_dispatch_key_given_once_serves_every_kernel():
    with closing(Library("tp", "IMPL", "CPU")) as lib:
        lib.impl("add", lambda a, b: a + b + 1, override=True)
        assert (tp.ones(1) + tp.ones(1)).item() == 3.0


# -------------------------------------------------------------------------------------------- built-in operators


def test_an_override_takes_effect_at_once_and_vanishes_on_close():
    x = tp.tensor([1.0, 2.0])
    for _ in range(3):  # the slot is filled and emptied in turn
        assert (x + x).tolist() == [2.0, 4.0] and (x + x).tolist() == [2.0, 4.0]
        with closing(Library("tp", "IMPL")) as lib:
            lib.impl("add", lambda a, b: a * 0 + 7, "CPU", override=True)
            assert (x + x).tolist() == [7.0, 7.0] and (x + x).tolist() == [7.0, 7.0]


def test_an_override_serves_the_in_place_variant_too():
    x = tp.tensor([1.0, 2.0])
    x.add_(x)
    with closing(Library("tp", "IMPL")) as lib:
        lib.impl("add", lambda a, b: a * 0 + 7, "CPU", override=True)
        assert x.clone().add_(x).tolist() == [7.0, 7.0]
    assert x.clone().add_(x).tolist() == [4.0, 8.0]


def test_a_taken_slot_is_a_conflict_that_names_both():
    tp.ones(1)
    with closing(Library("tp", "IMPL")) as lib, pytest.raises(BackendConflict) as info:
        lib.impl("add", lambda a, b: a, "CPU")
    message = str(info.value)
    assert "tensorplay-cpu" in message and f"{__file__}:" in message and "plugin.py:" in message


@pytest.mark.parametrize("with_grad", [False, True])
def test_an_exact_autograd_kernel_takes_effect_on_the_fast_path_at_once(with_grad):
    x = tp.tensor([0.5], requires_grad=with_grad)
    expected = np.tanh(0.5)
    x.tanh(), x.tanh()
    seen = []

    def spy(keys, self):
        seen.append(keys.highest)
        return tp.ops.tp.tanh.default.redispatch(keys.below(keys.highest), self)

    with closing(Library("tp", "IMPL")) as lib:
        lib.impl("tanh", spy, "AutogradCPU", with_keyset=True)
        assert x.tanh().item() == pytest.approx(expected) and tp.tanh(x).item() == pytest.approx(expected)
        assert seen == [7, 7]
        tp.ones(1, device="loopback").tanh()
        assert seen == [7, 7]  # another device has another key
    y = x.tanh()
    assert len(seen) == 2 and y.requires_grad is with_grad


def test_a_shared_autograd_override_serves_every_device_and_vanishes_on_close():
    seen = []

    def spy(keys, self):
        seen.append(keys.page)
        return tp.ops.tp.exp.default.redispatch(keys.below(keys.highest), self)

    x, y = tp.zeros(1), tp.zeros(1, device="loopback")
    x.exp(), y.exp()
    with closing(Library("tp", "IMPL")) as lib:
        with pytest.raises(BackendConflict, match="tensorplay-core"):
            lib.impl("exp", spy, "Autograd", with_keyset=True)
        lib.impl("exp", spy, "Autograd", with_keyset=True, override=True)
        assert (x.exp().item(), y.exp().item()) == (1.0, 1.0)
        assert seen[0] == 0 and seen[1] >= 1
        with tp.inference_mode():  # excludes the family
            x.exp()
        assert len(seen) == 2
    leaf = tp.zeros(1, requires_grad=True)
    leaf.exp().backward()
    assert leaf.grad.tolist() == [1.0] and len(seen) == 2


def test_a_layer_excludes_its_family_below_it_and_restores_it():
    inside = []

    def spy(keys, self):
        inside.append(tp.is_grad_enabled())
        return tp.ops.tp.exp.default.redispatch(keys.below(keys.highest), self)

    def kernel(self):
        inside.append(tp.is_grad_enabled())
        return self * 2

    with closing(Library("tp", "IMPL")) as lib:
        lib.impl("exp", spy, "AutogradCPU", with_keyset=True)
        lib.impl("exp", kernel, "CPU", level="tensor", override=True)
        y = tp.ones(1, requires_grad=True).exp()
        assert inside == [True, False] and tp.is_grad_enabled() and not y.requires_grad and y.item() == 2.0


# ------------------------------------------------------------------------------------------------------- fallback


def test_a_fallback_serves_every_operator_that_has_no_kernel_there():
    seen = []

    def fallback(op, keys, *args, **kwargs):
        seen.append(op._schema.name if hasattr(op._schema, "name") else str(op))
        return op.redispatch(keys.below(DispatchKey.AutocastCPU), *args, **kwargs)

    x = tp.tensor([2.0])
    with closing(Library("tp", "IMPL")) as lib:
        lib.impl("mul", lambda a, b: tp.tensor([99.0]), "AutocastCPU")
        lib.fallback(fallback, "AutocastCPU")
        assert (-x).item() == -2.0 and seen == []  # the key is not in the set
        with Scope(autocast={"cpu": tp.bfloat16}):
            assert (-x).item() == -2.0
            assert (x * x).item() == 99.0
            assert x.clone().item() == 2.0
            assert (x + x).item() == 4.0  # its policy has a kernel there
        assert {"neg", "clone"} <= set(seen) and "add" not in seen
    with Scope(autocast={"cpu": tp.bfloat16}):
        assert (x * x).item() == 4.0


def test_a_fallback_does_not_hide_autograds_kernels():
    def fallback(op, keys, *args):
        raise AssertionError("Autograd is never empty")

    with closing(Library("tp", "IMPL")) as lib:
        lib.fallback(fallback, "AutogradCPU")
        lib.fallback(fallback, "Autograd")
        x = tp.ones(2, requires_grad=True)
        (x * 3).sum().backward()
        assert x.grad.tolist() == [3.0, 3.0]


@pytest.mark.parametrize("key", ["CPU", "loopback", "Composite"])
def test_a_fallback_below_the_layers_is_refused(key):
    with closing(Library("tp", "IMPL")) as lib, pytest.raises(RegistrationError, match="above the backends"):
        lib.fallback(lambda op, keys, *args: None, key)


# --------------------------------------------------------------------------------------------------------- whose it is


def test_a_plugins_module_registers_as_its_plugin_and_any_other_above_all_plugins(monkeypatch):
    asked = []

    def plugin_of(module):
        asked.append(module)
        return ("foo", "tensorplay-foo", 7) if module.startswith("tensorplay_foo") else None

    monkeypatch.setattr(blocks, "plugin_of", plugin_of)
    made = {}
    for module in ("tensorplay_foo.extra", "tensorplay_foo", "zoo.mine", "__main__"):
        names = {"tp": tp, "__name__": module}
        exec(compile("lib = tp.library.Library('tp', 'IMPL', 'CPU')", f"{module}.py", "exec"), names)
        made[module] = names["lib"]
        made[module].impl("exp", lambda x: x, override=True)
    try:
        stack = [(r.owner, r.distribution, r.priority, r.run_time) for r in REGISTRY.find("exp").table[0]]
        assert stack[:3] == [
            ("zoo.mine", "zoo", 0, True), ("__main__", "__main__", 0, True), ("foo", "tensorplay-foo", 7, False)
        ]  # fmt: skip
        assert len(stack) == 4 and asked == ["tensorplay_foo.extra", "tensorplay_foo", "zoo.mine"]
    finally:
        for lib in made.values():
            lib.close()


def test_opting_out_of_composite_ends_with_the_library():
    x = tp.ones(1, 2)
    with closing(Library("tp", "IMPL")) as lib:
        with pytest.raises(RegistrationError, match="only a backend's key can opt out"):
            lib.without_composite("linear", "Autograd")
        with pytest.raises(RegistrationError, match="no operator 'tp::linera'"):
            lib.without_composite("linera", "CPU")
        lib.without_composite("linear", "CPU")
        (one,) = REGISTRY.find("linear").without_composite[0]
        assert one.where.startswith(f"{__file__}:") and one.owner == __name__
        with pytest.raises(KernelMissing):
            tp.linear(x, x)
    assert tp.linear(x, x).tolist() == [[2.0]]


def test_one_module_at_a_time_defines_a_namespace():
    code = "from tensorplay.library import Library\n\nlib = Library('owned', 'DEF')\n"
    theirs = {"__name__": "other_module"}
    exec(compile(code, "other_module.py", "exec"), theirs)
    with pytest.raises(RegistrationError) as info:
        Library("owned", "DEF")
    assert "defined by other_module (other_module.py:3)" in str(info.value)
    assert str(info.value).endswith("\nfix: Library('owned', 'FRAGMENT') adds operators to it, 'IMPL' kernels.")
    Library("owned", "FRAGMENT").close()
    exec(compile(code, "other_module.py", "exec"), theirs)  # as a cell that is run twice
    theirs["lib"].close()
    with closing(Library("owned", "DEF")), closing(Library("owned", "DEF")):
        pass
    with closing(Library("owned", "DEF")):  # it is free again, also of one that was never closed
        pass
    with pytest.raises(RegistrationError, match="'tp' is that of TensorPlay's own operators"):
        Library("tp", "DEF")
