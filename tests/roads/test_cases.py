"""Small inputs from public bug reports of other frameworks, with the right value; each test carries the case's id.

Those cases are here whose operators exist; ``LATER`` names the others with what they wait for, and fails when that
has come.
"""

from __future__ import annotations

import pytest

import tensorplay as tp

LATER = {
    "D01": "array_api",
    "D02": "array_api",
    "D03": "array_api",
}


@pytest.mark.parametrize(("case", "name"), LATER.items())
def test_cases_that_wait_for_an_operator(case, name):
    found = tp
    for part in name.split("."):
        found = getattr(found, part, None)
    assert found is None, f"tp.{name} exists: move case {case} from LATER to a test of its own"


def test_C03_a_new_tensor_is_written_to_under_vmap():
    def function(x):
        m = tp.zeros(2)
        m[0] = x.sum()
        return m

    found = tp.vmap(function)(tp.tensor([[1.0, 2.0], [3.0, 4.0]]))
    assert found.tolist() == [[3, 0], [7, 0]]


def test_A01_the_gradient_of_a_product_with_zeros():
    x = tp.tensor([0.0, 2.0, 3.0], requires_grad=True)
    x.prod().backward()
    z = tp.tensor([0.0, 0.0, 3.0], requires_grad=True)
    z.prod().backward()
    assert x.grad.tolist() == [6, 0, 0]
    assert z.grad.tolist() == [0, 0, 0]


def test_A01_the_whole_kind_a_cumulative_product():
    x = tp.tensor([2.0, 0.0, 0.0, 3.0], requires_grad=True)
    x.cumprod(0).sum().backward()
    assert x.grad.tolist() == [1, 2, 0, 0]


def test_A02_gradients_in_the_tails_of_sigmoid_and_tanh():
    x = tp.tensor(40.0, dtype=tp.float64, requires_grad=True)
    r = tp.autograd.grad(tp.sigmoid(x), x)[0]
    y = tp.tensor(20.0, dtype=tp.float64, requires_grad=True)
    r2 = tp.autograd.grad(tp.tanh(y), y)[0]
    tp.testing.assert_close(r.item(), 4.248354255291589e-18, rtol=1e-12, atol=0.0)
    tp.testing.assert_close(r2.item(), 1.6993417021166355e-17, rtol=1e-12, atol=0.0)


@pytest.mark.parametrize(("function", "slope"), [(tp.sigmoid, lambda e: e), (tp.tanh, lambda e: 4 * e**2)])
def test_A02_the_whole_kind_both_tails_and_both_orders(function, slope):
    import math

    for sign in (1, -1):
        x = tp.tensor(sign * 30.0, dtype=tp.float64, requires_grad=True)
        (g,) = tp.autograd.grad(function(x), x, create_graph=True)
        tp.testing.assert_close(g.item(), slope(math.exp(-30.0)), rtol=1e-12, atol=0.0)
        (h,) = tp.autograd.grad(g, x)
        order = 1 if function is tp.sigmoid else 2
        tp.testing.assert_close(h.item(), -sign * order * slope(math.exp(-30.0)), rtol=1e-12, atol=0.0)


def test_A02_the_whole_kind_log_softmax_and_cross_entropy():
    x = tp.tensor([[40.0, 0.0]], dtype=tp.float64, requires_grad=True)
    tp.nn.functional.cross_entropy(x, tp.tensor([0])).backward()
    tp.testing.assert_close(x.grad.tolist()[0][1], 4.248354255291589e-18, rtol=1e-12, atol=0.0)


def test_A03_a_gather_with_a_repeated_index_adds_up():
    x = tp.tensor([1.0, 2.0, 3.0], requires_grad=True)
    (x[tp.tensor([0, 0, 2])] * tp.tensor([1.0, 10.0, 100.0])).sum().backward()
    assert x.grad.tolist() == [11.0, 0.0, 100.0]


def test_A03_the_whole_kind_rows_lists_negative_indices_and_many_of_them():
    w = tp.ones(3, 2, requires_grad=True)
    (w[[2, -1, 2]] * tp.tensor([[1.0], [10.0], [100.0]])).sum().backward()
    assert w.grad.tolist() == [[0.0, 0.0], [0.0, 0.0], [111.0, 111.0]]
    w = tp.ones(5, 4, requires_grad=True)
    index = tp.arange(5000) * 0 + 3
    w[index].sum().backward()
    assert w.grad.sum().item() == 20_000
    assert w.grad[3].tolist() == [5000.0] * 4


def test_A04_in_place_on_an_expanded_tensor():
    x = tp.tensor(0.25)
    with pytest.raises(RuntimeError, match=r"(?s)overlaps itself.*clone\(\)"):
        x.expand(3).exp_()
    assert x.item() == 0.25


def test_A05_avg_pool2d_divides_a_window_beyond_the_end_by_what_it_has():
    x = tp.arange(49.0).reshape(1, 1, 7, 7).requires_grad_()
    r = tp.nn.functional.avg_pool2d(x, 2, stride=3, ceil_mode=True)
    r.sum().backward()
    assert r[0, 0].tolist() == [[4.0, 7.0, 9.5], [25.0, 28.0, 30.5], [42.5, 45.5, 48.0]]
    assert x.grad[0, 0, [0, 0, 6], [0, 6, 6]].tolist() == [0.25, 0.5, 1.0]


def test_A05_the_whole_kind_one_and_three_dims_with_padding():
    x = tp.arange(7.0).reshape(1, 7).requires_grad_()
    r = tp.nn.functional.avg_pool1d(x, 3, stride=3, padding=1, ceil_mode=True)
    # windows: (pad, 0, 1) of 3, (2, 3, 4), (5, 6, pad): the padding counts
    tp.testing.assert_close(r, tp.tensor([[1 / 3, 3.0, 11 / 3]]))
    y = tp.ones(1, 3, 3, 3)
    assert set(tp.nn.functional.avg_pool3d(y, 2, 2, ceil_mode=True).reshape(-1).tolist()) == {1.0}


def test_A06_third_and_fourth_derivative_of_a_power_at_zero():
    x = tp.tensor(0.0, dtype=tp.float64, requires_grad=True)
    y = tp.exp(-(x**2))
    r = []
    for _ in range(4):
        (y,) = tp.autograd.grad(y, x, create_graph=True)
        r.append(y.item())
    assert r == [0, -2, 0, 12]


@pytest.mark.parametrize("exponent", [0, 1, 2, 3, 0.0, 1.0, 2.0, 3.0])
def test_A06_the_whole_kind_every_power_at_zero(exponent):
    x = tp.tensor(0.0, dtype=tp.float64, requires_grad=True)
    y = x**exponent
    expected = {0: [0, 0, 0, 0], 1: [1, 0, 0, 0], 2: [0, 2, 0, 0], 3: [0, 0, 6, 0]}[int(exponent)]
    for value in expected:
        (y,) = tp.autograd.grad(y, x, create_graph=True, allow_unused=True, materialize_grads=True)
        assert y.item() == value
        if not y.requires_grad:
            break


def test_C01_a_notebook_cell_that_registers_an_operator_runs_twice():
    def cell():
        lib = tp.library.Library("nb", "FRAGMENT")
        lib.define("sq(Tensor x) -> Tensor")
        lib.impl("sq", lambda x: x * x, "CPU")
        return lib

    keep = cell()
    keep = cell()
    assert tp.ops.nb.sq(tp.tensor([3.0])).tolist() == [9.0]
    other = tp.library.Library("nb", "FRAGMENT")
    with pytest.raises(tp.RegistrationError, match=r"test_cases.py:\d+.*test_cases.py:\d+"):
        other.define("sq(Tensor x, Tensor y) -> Tensor")
    del keep, other
    with pytest.raises(AttributeError):
        _ = tp.ops.nb.sq


def run(code):
    """Runs a case's code as it stands, in a module of its own, and returns that module's names."""
    scope = {"__name__": "case"}
    exec(compile(code, "case.py", "exec", dont_inherit=True), scope)
    return scope


@pytest.fixture
def leave_no_operator_behind():
    """Custom operators stay for the process; those of a test leave with it."""
    from tensorplay_core.ops.custom.registration import DEFINITIONS

    before = set(DEFINITIONS)
    yield
    for name in set(DEFINITIONS) - before:
        DEFINITIONS.pop(name)._lib.close()


C01 = (
    "import tensorplay as tp\n"
    "def cell():\n"
    "    lib = tp.library.Library('nb', 'FRAGMENT'); lib.define('sq(Tensor x) -> Tensor'); "
    "lib.impl('sq', lambda x: x * x, 'CPU'); return lib\n"
    "keep = cell(); keep = cell(); r = tp.ops.nb.sq(tp.tensor([3.]))"
)

C02 = """import tensorplay as tp
@tp.library.custom_op('my::twice', mutates_args=())
def twice(x: tp.Tensor) -> tp.Tensor: return tp.from_numpy(2 * x.detach().numpy())
x = tp.ones(2, requires_grad=True); y = tp.ops.my.twice(x).sum()
try: y.backward(); r = x.grad
except RuntimeError as e: r = str(e)"""


@pytest.mark.parametrize("quiet", [tp.no_grad, tp.inference_mode])
def test_C04_a_weight_that_was_cast_without_gradient_has_one_later(quiet):
    w = tp.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    x = tp.tensor([[1.0, 1.0]])
    with tp.autocast("cpu", dtype=tp.bfloat16):
        with quiet():
            x @ w
        y = x @ w
    y.float().sum().backward()
    assert y.dtype is tp.bfloat16
    assert w.grad.dtype is tp.float32 and w.grad.tolist() == [[1.0, 1.0], [1.0, 1.0]]


C05 = """import tensorplay as tp
@tp.library.custom_op('my::mut', mutates_args=())
def mut(x: tp.Tensor) -> tp.Tensor: x.add_(1); return x.clone()
@tp.library.custom_op('my::ident', mutates_args=())
def ident(x: tp.Tensor) -> tp.Tensor: return x
for op in (mut, ident):
    try: tp.library.opcheck(op, (tp.ones(2),)); print('missed')
    except Exception as e: print(e)"""


def test_C01_as_it_was_reported():
    found = run(C01)
    assert found["r"].tolist() == [9.0]
    found.clear()
    with pytest.raises(AttributeError):
        _ = tp.ops.nb.sq


def test_C02_as_it_was_reported(leave_no_operator_behind):
    found = run(C02)
    assert found["y"].item() == 4 and found["x"].grad is None
    assert "my::twice" in found["r"] and "register_autograd" in found["r"]


def test_C05_as_it_was_reported(leave_no_operator_behind, capsys):
    run(C05)
    said = capsys.readouterr().out
    mut, ident = said.index("my::mut"), said.index("my::ident")
    for text, remedy in [(said[mut:ident], "Tensor(a!) x"), (said[ident:], "clone()")]:
        assert "argument x" in text and remedy in text
    assert "missed" not in said


@pytest.mark.parametrize("where", ["Composite", "CPU", "arrays"])
@pytest.mark.parametrize("wrong", ["writes", "writes through NumPy", "returns it", "returns a view of it"])
def test_C05_the_whole_kind(where, wrong):
    """Wherever the kernel is registered, whatever it takes, and also behind a list, opcheck names the argument."""
    import numpy as np

    arrays = where == "arrays"

    def kernel(xs):
        x = xs[1]
        array = x if arrays else x.numpy()
        if wrong == "writes" and not arrays:
            x.add_(1)
        elif wrong.startswith("writes"):
            np.add(array, 1, out=array)
        if wrong.startswith("writes"):
            return x + 0
        return x if wrong == "returns it" else x[:1]

    lib = tp.library.Library("whole", "DEF")
    lib.define("kind(Tensor[] xs) -> Tensor")
    lib.impl("kind", kernel, "CPU" if arrays else where, level="array" if arrays else None)
    x, y = tp.ones(2), tp.ones(2)
    with pytest.raises((tp.OpCheckError, tp.KernelError), match=r"whole::kind") as info:
        tp.library.opcheck(tp.ops.whole.kind, ([x, y],))
    assert "argument xs[1]" in str(info.value) and "fix: " in str(info.value)
    assert x.tolist() == y.tolist() == [1.0, 1.0]
    lib.close()


def test_C02_an_operator_without_a_formula_never_loses_a_gradient():
    lib = tp.library.Library("my", "DEF")
    lib.define("twice(Tensor x) -> Tensor")
    lib.impl("twice", lambda x: tp.from_numpy(2 * x.detach().numpy()), "CPU")
    x = tp.ones(2, requires_grad=True)
    y = tp.ops.my.twice(x).sum()
    assert y.item() == 4
    with pytest.raises(RuntimeError, match=r"(?s)my::twice.*register_autograd"):
        y.backward()
    assert x.grad is None
    with tp.no_grad():
        assert not tp.ops.my.twice(x).requires_grad
    lib.close()


def test_E01_a_reused_intermediate():
    a = tp.tensor(2.0, requires_grad=True)
    b = tp.tensor(3.0, requires_grad=True)
    c = a + b
    d = a * b
    (c + d + c * d).backward()
    assert (a.grad.item(), b.grad.item()) == (25, 19)


def test_E02_sum_starts_at_zero_and_gradients_fit_their_leaf():
    s = sum([tp.ones(2), tp.ones(2)])
    a = tp.tensor([3.0], requires_grad=True)
    b = tp.tensor([[1.0, 2.0]], requires_grad=True)
    (a * b).sum().backward()
    assert (s.dtype, a.grad.shape, a.grad.tolist(), a.grad.dtype) == (tp.float32, (1,), [3.0], tp.float32)


def test_E03_integers_divide_to_floats_and_are_not_truncated_in_place():
    r = tp.tensor([1]) / tp.tensor([2])
    assert (r.dtype, r.tolist()) == (tp.float32, [0.5])
    x = tp.tensor([1, 2])
    with pytest.raises(RuntimeError, match=r"float32.*int64"):
        x += 1.5
    with pytest.raises(RuntimeError, match=r"float32.*int64"):
        x.add_(1.5)
    with pytest.raises(RuntimeError, match=r"float32.*int64"):
        x.mul_(tp.tensor(0.5))
    with pytest.raises(RuntimeError, match=r"float32.*int64"):
        tp.add(x, 1.5, out=x)
    assert x.tolist() == [1, 2]
