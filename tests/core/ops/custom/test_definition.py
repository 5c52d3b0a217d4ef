"""``custom_op``: from a function to an operator, again from the same cell, and what is refused."""

from __future__ import annotations

import copy
import inspect
import pickle
import types

import numpy as np
import pytest

import tensorplay as tp
from tensorplay_core.dispatch.keys import DispatchKey
from tensorplay_core.dispatch.registry import REGISTRY

custom_op = tp.library.custom_op


def module(name, source, file=None):
    """Runs source as a module of its own; again with the module of an earlier run, as a notebook does."""
    made = types.ModuleType(name) if isinstance(name, str) else name
    made.tp = tp
    exec(compile(source, file or f"{made.__name__}.py", "exec", dont_inherit=True), made.__dict__)
    return made


CELL = """
@tp.library.custom_op("cell::scaled", mutates_args=())
def scaled(x: tp.Tensor, by: float = 2.0) -> tp.Tensor:
    return tp.from_numpy(x.numpy() * by)
"""


def test_a_function_becomes_an_operator():
    @custom_op("t::scaled", mutates_args=())
    def scaled(x: tp.Tensor, by: float = 2.0, *, shift: int | float = 0) -> tp.Tensor:
        """Scales and shifts."""
        return tp.from_numpy(x.numpy() * by + shift)

    x = tp.tensor([1.0, 2.0])
    assert scaled(x).tolist() == tp.ops.t.scaled(x).tolist() == tp.ops.t.scaled.default(x).tolist() == [2.0, 4.0]
    assert scaled(x, 3, shift=1).tolist() == scaled(x, by=3.0, shift=1).tolist() == [4.0, 7.0]
    assert str(scaled._opoverload._schema) == "t::scaled(Tensor x, float by=2.0, *, Scalar shift=0) -> Tensor"
    assert scaled._opoverload is tp.ops.t.scaled.default
    assert (
        (scaled.__name__, scaled.__doc__)
        == ("scaled", "Scales and shifts.")
        == (
            "scaled",
            tp.ops.t.scaled.default.__doc__,
        )
    )
    assert list(inspect.signature(scaled).parameters) == ["x", "by", "shift"]
    assert repr(scaled) == "<CustomOpDef(t::scaled)>"
    op = REGISTRY.find("t::scaled")
    assert op.composite == "explicit" and op.where.startswith(__file__)
    assert op.kernel_at(int(DispatchKey.Composite)).where.startswith(__file__)


def test_it_can_be_called_with_the_function_and_have_overloads():
    def double(x: tp.Tensor) -> tp.Tensor:
        return x + x

    def repeat(x: tp.Tensor, n: int) -> tp.Tensor:
        return x * n

    custom_op("t::more", double, mutates_args=())
    custom_op("t::more.times", repeat, mutates_args=(), tags=("pointwise",))
    assert tp.ops.t.more(tp.ones(1)).item() == 2.0 and tp.ops.t.more(tp.ones(1), 5).item() == 5.0
    assert sorted(tp.ops.t.more.overloads()) == ["default", "times"]
    assert tp.ops.t.more.times.tags == ("pointwise",)


def test_a_schema_may_be_given_instead_of_hints():
    @custom_op("t::pair", mutates_args=(), schema="(Tensor x, int n=2) -> (Tensor low, Tensor high)")
    def pair(x, n):
        return x - n, x + n

    low, high = pair(tp.ones(1))
    assert (low.item(), high.item(), pair(tp.ones(1)).high.item()) == (-1.0, 3.0, 3.0)

    custom_op("t::named", lambda x: x + 1, mutates_args=(), schema="t::named(Tensor x) -> Tensor")
    assert tp.ops.t.named(tp.ones(1)).item() == 2.0
    with pytest.raises(tp.SchemaError, match=r"schema= says that x is written to, mutates_args that nothing is"):
        custom_op("t::bad", lambda x: None, mutates_args=(), schema="(Tensor(a!) x) -> ()")
    with pytest.raises(tp.SchemaError, match=r"the signature without a name"):
        custom_op("t::bad", lambda x: x, mutates_args=(), schema="other(Tensor x) -> Tensor")
    assert "t::bad" not in REGISTRY.operators


def test_every_type_of_argument_arrives_as_its_hint_says():
    seen = []

    @custom_op("t::all", mutates_args=())
    def every(
        x: tp.Tensor,
        y: tp.Tensor | None,
        xs: list[tp.Tensor],
        n: int,
        f: float,
        b: bool,
        s: str,
        k: int | float,
        d: tp.dtype,
        place: tp.device,
        ints: list[int],
        shape: tuple[int, ...],
        floats: list[float] | None = None,
        *,
        last: tp.dtype = tp.float16,
    ) -> int:
        seen[:] = [y, xs, n, f, b, s, k, d, place, ints, shape, floats, last]
        return 7

    x = tp.ones(2)
    assert every(x, None, (x, x), 3, 2, True, "s", 1.5, tp.int8, "cpu", (1, 2), [3, 4], [1, 0.5]) == 7
    y, xs, n, f, b, s, k, d, place, ints, shape, floats, last = seen
    assert y is None and xs.__class__ is list and xs[0] is x
    assert (n, f, f.__class__, b, s, k, d) == (3, 2.0, float, True, "s", 1.5, tp.int8)
    assert (place, ints, shape, floats, last) == (tp.device("cpu"), [1, 2], (3, 4), [1.0, 0.5], tp.float16)
    every(x, x, [], 3, 2, True, "s", 1, tp.int8, tp.device("cpu"), [], [], last=tp.float64)
    assert seen[0] is x and seen[-2:] == [None, tp.float64]
    for position, wrong in [(0, 3.0), (1, "x"), (2, x), (3, 1.5), (4, "x"), (6, 3), (10, ["a"]), (12, "ab"), (12, 3)]:
        args = [x, None, [x], 3, 2, True, "s", 1, tp.int8, "cpu", [1], [2], [1.0]]
        args[position] = wrong
        with pytest.raises(TypeError, match="t::all: "):
            every(*args)


def test_results_of_every_type():
    @custom_op("t::results", mutates_args=())
    def results(x: tp.Tensor, n: int) -> tuple[tp.Tensor, list[tp.Tensor], int, float]:
        return x + 1, [x * i for i in range(n)], np.int64(n), 0.5

    y, ys, n, f = results(tp.ones(1), 2)
    assert (y.item(), [t.item() for t in ys], n, n.__class__, f) == (2.0, [0.0, 1.0], 2, int, 0.5)

    @custom_op("t::nothing", mutates_args=())
    def nothing(x: tp.Tensor) -> None: ...

    @custom_op("t::many", mutates_args=())
    def many(x: tp.Tensor, n: int) -> list[tp.Tensor]:
        return [x * i for i in range(n)]

    assert nothing(tp.ones(1)) is None
    assert [t.item() for t in many(tp.ones(1), 3)] == [0.0, 1.0, 2.0] and many(tp.ones(1), 0) == []


def test_an_operator_without_tensors_is_called_on_the_device_that_is_named():
    @custom_op("t::made", mutates_args=(), device_types="cpu")
    def made(n: int, device: tp.device) -> tp.Tensor:
        return tp.ones(n, device=device)

    made.register_kernel("loopback", lambda n, device: tp.zeros(n, device=device))
    assert made(2, "cpu").tolist() == [1.0, 1.0] and made(2, tp.device("loopback")).tolist() == [0.0, 0.0]
    with pytest.raises(tp.RegistrationError, match="no call can choose a kernel by device"):

        @custom_op("t::nowhere", mutates_args=(), device_types="cpu")
        def nowhere(n: int) -> tp.Tensor: ...

    assert "t::nowhere" not in REGISTRY.operators


def test_string_annotations_are_resolved_also_those_of_local_names():
    from tensorplay import Tensor as T

    @custom_op("t::local", mutates_args=())
    def local(x: T) -> T:
        return x + 1

    assert local(tp.ones(1)).item() == 2.0


def test_pickles_and_copies_are_the_same_operator():
    made = module("pickled", CELL)
    assert copy.deepcopy(made.scaled) is made.scaled is pickle.loads(pickle.dumps(made.scaled))
    gone = pickle.dumps(made.scaled).replace(b"cell::scaled", b"cell::scalet")
    with pytest.raises(tp.ArgumentError, match=r"cell::scalet is not defined in this process[^$]*import the module"):
        pickle.loads(gone)


# -------------------------------------------------------------------------------------------------------- run again


def test_c01_a_cell_that_defines_an_operator_runs_again():
    made = module("notebook", CELL)
    first, old = made.scaled, tp.ops.cell.scaled.default
    module(made, CELL.replace("* by", "* by + 1"))
    assert made.scaled is not first and tp.ops.cell.scaled.default is old
    for op in (made.scaled, first, old, tp.ops.cell.scaled):
        assert op(tp.ones(1)).item() == 3.0
    assert len(REGISTRY.find("cell::scaled").table[int(DispatchKey.Composite)]) == 1


def test_what_the_cell_registers_no_longer_is_gone():
    more = """
scaled.register_kernel("cpu", lambda x, by: x * 0)
scaled.register_fake(lambda x, by: tp.empty_like(x))
scaled.register_autograd(lambda ctx, grad: (grad * 5, None))
"""
    made = module("notebook", CELL + more)
    x = tp.ones(1, requires_grad=True)
    made.scaled(x).backward()
    assert x.grad.item() == 5.0 and made.scaled(x).item() == 0.0
    module(made, CELL + more)
    table = REGISTRY.find("cell::scaled").table
    assert {len(stack) for slot, stack in table.items() if slot != "Autograd"} == {1} and len(table["Autograd"]) == 2
    module(made, CELL)
    assert made.scaled(x).item() == 2.0
    with pytest.raises(tp.AutogradError, match="has no gradient formula"):
        made.scaled(x).backward()
    slots = set(REGISTRY.find("cell::scaled").table) - {"Vmap"}  # which it has once a program has used vmap
    assert slots == {int(DispatchKey.Composite), "Autograd"}


def test_another_signature_or_another_module_is_an_error_that_names_both_places():
    made = module("notebook", CELL)
    with pytest.raises(tp.RegistrationError, match=r"cell::scaled is defined at notebook.py:2.*notebook.py:2"):
        module(made, CELL.replace("by: float = 2.0", "by: int = 2"))
    with pytest.raises(tp.RegistrationError, match=r"notebook.py:2 by notebook.*stranger.py:2 \(stranger\)"):
        module("stranger", CELL)
    assert made.scaled(tp.ones(1)).item() == 2.0 and tp.ops.cell.scaled(tp.ones(1)).item() == 2.0


def test_a_definition_that_fails_changes_nothing():
    made = module("notebook", CELL)
    with pytest.raises(tp.RegistrationError, match="no device type 'cpuu'"):
        module(made, CELL.replace("mutates_args=()", "mutates_args=(), device_types=['cpu', 'cpuu']"))
    assert made.scaled(tp.ones(1)).item() == 2.0
    with pytest.raises(tp.RegistrationError, match="no device type 'cpuu'"):
        custom_op("t::fresh", lambda x: x, mutates_args=(), device_types="cpuu", schema="(Tensor x) -> Tensor")
    with pytest.raises(tp.RegistrationError, match=r"(?s)the kernel's signature is \(x\).*t::fresh\(Tensor x, int n\)"):
        custom_op("t::fresh", lambda x: x, mutates_args=(), schema="(Tensor x, int n) -> Tensor")
    assert "t::fresh" not in REGISTRY.operators


@pytest.mark.parametrize("name", ["op", "::op", "ns::", "ns::op.a.b", "ns::1op", "n-s::op", "ns:op", 3])
def test_names_that_are_none(name):
    with pytest.raises(tp.ArgumentError, match=r"an operator's name is 'namespace::name' or"):
        custom_op(name, lambda x: x, mutates_args=(), schema="(Tensor x) -> Tensor")


def test_the_built_in_namespace_is_not_for_custom_operators():
    with pytest.raises(tp.RegistrationError, match="the namespace tp is the built-in operators'"):
        custom_op("tp::mine", lambda x: x, mutates_args=(), schema="(Tensor x) -> Tensor")
    with pytest.raises(tp.ArgumentError, match="custom_op takes a function, not 3"):
        custom_op("t::three", 3, mutates_args=())


def test_a_new_operator_leaves_nothing_costly_in_the_import_of_the_package():
    import subprocess
    import sys

    code = "import sys, tensorplay; print([m for m in sys.modules if 'ops.custom' in m or 'opcheck' in m])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"
