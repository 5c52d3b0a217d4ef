"""The functions that write: one for each record that asks for it, and none that could write twice."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

import pytest

import tensorplay as tp
from tensorplay_core.codegen.context import CodegenContext
from tensorplay_core.codegen.generate import texts
from tensorplay_core.codegen.targets.schemas import inplace_name
from tensorplay_core.dispatch.library import Library

FUNCTION = re.compile(r"^def (\w+)\(.*?(?=^def |\Z)", re.M | re.S)


def bodies(context: CodegenContext) -> dict[str, str]:
    files = texts(context, ("inplace",))
    return {m[1]: m[0] for text in files.values() for m in FUNCTION.finditer(text)}


def test_there_is_one_for_each_record_that_writes_or_asks_for_it(ours: CodegenContext) -> None:
    wanted = {inplace_name(f).partition(".")[0] for f in ours.contract.functions if f.inplace}
    wanted |= {f.name for f in ours.contract.functions if f.schema.is_inplace}
    assert (
        {name for name in bodies(ours) if "; see :func:`" not in bodies(ours)[name]}
        == wanted
        >= {"add_", "exp_", "relu_", "copy_", "zero_"}
    )
    assert all(callable(getattr(tp.Tensor, name)) for name in wanted)


def test_it_writes_and_returns_its_first_argument() -> None:
    x = tp.tensor([1.0, 4.0])
    assert x.sqrt_() is x and x.add_(1).mul_(tp.tensor([2.0, 3.0])) is x
    assert x.tolist() == [4.0, 9.0]
    assert x.add_(x, alpha=2) is x and x.tolist() == [12.0, 27.0]


def test_they_take_no_out_and_say_what_they_are(ours: CodegenContext) -> None:
    for record in ours.contract.functions:
        if record.inplace:
            function = getattr(tp.Tensor, inplace_name(record).partition(".")[0])
            assert "out" not in inspect.signature(function).parameters
            doc = inspect.getdoc(function) or ""
            assert f"The in-place form of :func:`{record.name}`" in doc or (
                len(ours.overloads(record)) > 1 and "Writes to the first argument and returns it." in doc
            )
    assert "Writes 0 into every element" in (inspect.getdoc(tp.Tensor.zero_) or "")


def test_the_kernel_is_the_last_thing_that_can_fail(ours: CodegenContext) -> None:
    """The slow path runs after the fast one only when the fast one has written nothing."""
    for name, body in bodies(ours).items():
        if "    try:\n" not in body:
            continue
        assert body.count("except (AttributeError, Unresolved):  # raised before anything is written") == 1, name
        own = re.sub(r"^_(\w+)__default$", r"\1", name)  # the function of an overload
        after = body.partition(f"            t.k_{own}(")[2].partition("except")[0].splitlines()
        assert [line.strip() for line in after[1:]][:3] == ["if v is not None:", "v[0] += 1", "return input"], name


def test_what_shares_its_memory_or_records_takes_the_slow_path(ours: CodegenContext) -> None:
    body = bodies(ours)["add_"]
    for condition in (
        "alpha == 1",
        "active.special or active.inference",
        "t.inference",
        "(v is None or not v[1] or not is_viewed(v))",
        "(input._edge is None and other._edge is None or active.grad_off and not STATE.get().grad)",
        "(other._array.shape == input._array.shape or not other._array.shape)",
    ):
        assert condition in body
    with pytest.raises(RuntimeError, match="leaf"):
        tp.ones(2, requires_grad=True).exp_()


@pytest.mark.parametrize(
    ("shape", "condition", "call"),
    [
        ("same", 'mode == "x" and k is None and flag is False', "t.k_f_(input._array)"),
        (
            "matmul",
            "mode.__class__ is str and (k is None or k.__class__ is int) and flag.__class__ is bool",
            "t.k_f_(input._array, mode=mode, k=k, flag=flag)",
        ),
    ],
)
def test_a_keyword_is_compared_where_the_kernel_may_be_a_ufunc_and_passed_elsewhere(
    small: Callable[..., CodegenContext], shape: str, condition: str, call: str
) -> None:
    schema = 'f(Tensor self, *, str mode="x", int? k=None, bool flag=False) -> Tensor'
    (body,) = bodies(small(f"- func: {schema}\n  inplace: true\n  promote: keep\n  shape: {shape}\n")).values()
    assert condition in " ".join(body.split())
    assert call in body


def test_every_argument_reaches_the_kernel(package: Callable[..., Any]) -> None:
    """On the fast path and on the slow one, whatever lies between the tensors."""
    made = package(
        "- func: put::mix(Tensor self, int k, Tensor other, float w=0.5) -> Tensor\n"
        "  inplace: true\n  shape: mixed\n  promote: default\n",
        shapes="def mixed(op, self, k, other, w=0.5):\n    return self.shape\n",
    )
    lib = Library("put", "IMPL")
    lib.impl("mix", lambda x, k, y, w: x * k + y * w, "CPU", level="array")
    for slow in (True, False, False, False):
        with tp.testing.force_slow_path() if slow else tp.enable_grad():
            x, y = tp.tensor([1.0, 2.0]), tp.tensor([4.0, 8.0])
            assert made.mix_(x, 3, y) is x and x.tolist() == [5.0, 10.0]
            assert made.mix_(tp.tensor([1.0]), 2, tp.tensor([4.0]), 0.25).item() == 3.0
    lib.close()


def test_overloads_share_one_function(small: Callable[..., CodegenContext]) -> None:
    context = small(
        "- func: f.Tensor(Tensor self, Tensor other) -> Tensor\n  inplace: true\n  variants: function, method\n"
        "- func: f.Scalar(Tensor self, Scalar other) -> Tensor\n  inplace: true\n  variants: function, method\n"
        "- func: f_.from(Tensor(a!) self, int from, str to) -> Tensor(a!)\n  variants: method\n"
    )
    text = texts(context)["_generated_inplace_small.py"]
    assert text.count("@overload\ndef f_(") == 3 and text.count("\ndef f_(*args: Any, **kwargs: Any)") == 1
    assert "{F__TENSOR: _f___Tensor, F__SCALAR: _f___Scalar, F__FROM: _f___from}" in " ".join(text.split())
    assert "return known(*args, **kwargs) if known is not None else _F__OVERLOADS.call(args, kwargs)" in text
    assert "def f_(input: Tensor, from_: int, to: str) -> Tensor: ..." in text
    assert texts(context)["_generated_methods.py"].count(" f_ = _generated_inplace_small.f_\n") == 1


def test_what_writes_to_a_list_or_returns_nothing(small: Callable[..., CodegenContext]) -> None:
    context = small(
        "- func: f_(Tensor(a!)[] tensors, Scalar k) -> ()\n- func: g_(Tensor(a!) self, int[] sizes) -> Tensor(a!)\n"
        "  variants: method\n"
    )
    found = bodies(context)
    assert found["f_"].startswith("def f_(tensors: Sequence[Tensor], k: Number) -> None:")
    assert "return call(F_, (tensors, k))" in found["f_"]
    assert "def g_(input: Tensor, *sizess_: int | Sequence[int], sizes" in found["g_"] or "*sizes_:" in found["g_"]
    assert '"f_",' in texts(context)["_generated_public.py"] and '"g_",' not in texts(context)["_generated_public.py"]
