"""The fast path against the slow one, for every operator; and how many Python frames a fast call enters.

Both paths must give the same value bit for bit, dtype, shape, ``requires_grad``, inference mark and gradients, whatever
mode is on. The operators come from the registry, so a new one is compared the moment it exists.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import nullcontext
from keyword import iskeyword
from typing import Any

import numpy as np
import pytest

import tensorplay as tp
from tensorplay_core.dispatch.registry import REGISTRY
from tensorplay_core.dispatch.tensor_type import unresolved
from tensorplay_core.testing import force_slow_path
from tensorplay_core.testing.samples import samples

pytestmark = pytest.mark.filterwarnings("error")  # no warning of NumPy reaches the user

OPERATORS = {op.display_name: op for op in REGISTRY.operators.values() if op.namespace == "tp"}
DTYPES = ("bool", "int8", "int64", "uint8", "float16", "bfloat16", "float32", "float64", "complex64")
MODES = {"gradients": nullcontext, "no_grad": tp.no_grad, "inference_mode": tp.inference_mode}
COUNTS: Counter[str] = Counter()


def tensors_of(values: Any) -> Iterator[tp.Tensor]:
    for value in values:
        if isinstance(value, (list, tuple)):
            yield from tensors_of(value)
        elif isinstance(value, tp.Tensor):
            yield value


def bits(tensor: tp.Tensor | None) -> Any:
    if tensor is None:
        return None
    host = tensor.numpy(force=True)
    return (host.tobytes(), tensor.shape, tensor.dtype, str(tensor.device), tensor.is_inference())


def outcome(op: Any, sample: Any, device: str, mode: Any, grad: bool) -> Any:
    """Calls an operator and returns all that can be seen of the result, gradients included."""
    tp.manual_seed(0)
    args, kwargs = sample.build(tp, device)
    leaves = [t for t in tensors_of((*args, *kwargs.values())) if t.dtype.is_inexact and not t.requires_grad]
    if grad:
        for leaf in leaves:
            leaf.requires_grad_()
    with mode():
        if op.is_inplace:
            args = (
                args[0] + tp.zeros((), dtype=args[0].dtype, device=device) if args[0].shape else args[0].clone(),
                *args[1:],
            )
        try:
            result = op.function(*args, **kwargs)
        except (tp.ShapeError, tp.DTypeError, tp.AutogradError) as error:
            if not op.is_inplace:
                raise
            return (type(error), str(error))
    results = list(tensors_of((result,)))
    seen: list[Any] = [*([] if op.name == "empty" else map(bits, results)), [y.requires_grad for y in results]]
    seen.append([y.grad_fn.name if y.grad_fn is not None else None for y in results])
    roots = [y for y in results if y.requires_grad]
    if grad and roots:
        cotangents = [y.detach().new_ones(y.shape) for y in roots]
        try:
            found = tp.autograd.grad(roots, leaves, cotangents, allow_unused=True) if leaves else ()
        except tp.AutogradError as error:
            if not op.is_inplace or (op.functional or op).node is not None:  # one whose result has no gradient says so
                raise
            return [*seen, str(error)]
        seen.append([bits(g) for g in found])
        COUNTS["gradients"] += len(found)
    COUNTS["calls"] += 1
    return seen


def device_dtypes(device: str) -> tuple[str, ...]:
    return DTYPES if device == "cpu" else ("int64", "float32", "float64", "complex64")


@pytest.mark.parametrize("device", ["cpu", "loopback"])
@pytest.mark.parametrize("name", OPERATORS)
def test_both_paths_agree(name, device):
    op = OPERATORS[name]
    seen = 0
    for dtype in device_dtypes(device):
        for sample in samples(op.functional or op, dtype=dtype):
            for mode_name, mode in MODES.items() if dtype == "float32" else (("gradients", nullcontext),):
                grad = mode_name == "gradients"
                if op.fast:
                    outcome(op, sample, device, mode, grad)  # fills the slot; what follows may be fast
                fast = outcome(op, sample, device, mode, grad)
                with tp.testing.force_slow_path():
                    slow = outcome(op, sample, device, mode, grad)
                assert repr(fast) == repr(slow), f"{name}, {dtype}, {device}, {mode_name}, sample {sample.name!r}"
                seen += 1
    assert seen > 2
    COUNTS["comparisons"] += seen


@pytest.mark.parametrize("name", [name for name, op in OPERATORS.items() if op.fast])
def test_the_fast_path_is_really_taken(name):
    """An operator that is marked as fast has its slot filled after a call that the fast path could serve."""
    op = OPERATORS[name]
    asked = op.functional or op
    for sample in [*samples(asked, dtype="float32")] or [*samples(asked, dtype="int64")]:
        args, kwargs = sample.build(tp)
        if op.is_inplace:
            args = (args[0].clone(), *args[1:])
        try:
            op.function(*args, **kwargs)
        except tp.ShapeError:
            continue
    kinds = (tp.float32, tp.int64)  # some take counts alone
    assert any(getattr(tp.zeros(1, dtype=dtype)._type, op.slot) is not unresolved for dtype in kinds)


def frames(function: Any, *args: Any, **kwargs: Any) -> list[str]:
    """The Python functions that a call enters, after a few calls that warm it up."""
    for _ in range(3):
        function(*args, **kwargs)
    entered: list[str] = []

    def profile(frame: Any, event: str, argument: Any) -> None:
        if event == "call":
            entered.append(frame.f_code.co_name)

    sys.setprofile(profile)
    try:
        function(*args, **kwargs)
    finally:
        sys.setprofile(None)
    return entered


@pytest.fixture
def xy():
    return tp.tensor([1.0, 2.0, 3.0, 4.0]), tp.tensor([4.0, 3.0, 2.0, 1.0])


def kernel_frames(op: str, *args: Any) -> int:
    """How many frames the kernel enters when it is called on its own: none for a ufunc."""
    kernel = getattr(tp.zeros(1)._type, OPERATORS[op].slot)
    return len(frames(kernel, *[a._array if isinstance(a, tp.Tensor) else a for a in args]))


@pytest.mark.parametrize("name", ["add", "sub", "mul", "div"])
def test_a_fast_call_enters_one_frame_binary(name, xy):
    assert frames(getattr(tp, name), *xy) == [name]


@pytest.mark.parametrize("name", ["exp", "sqrt", "neg", "relu", "sigmoid"])
def test_a_fast_call_enters_one_frame_unary(name, xy):
    entered = frames(getattr(tp, name), xy[0])
    assert len(entered) == 1 + kernel_frames(name, xy[0]), entered


@pytest.mark.parametrize("name", ["sum", "mean"])
def test_a_fast_call_enters_one_frame_reduction(name, xy):
    entered = frames(getattr(tp, name), xy[0])
    assert len(entered) == 1 + kernel_frames(name, xy[0], None, False), entered


def test_a_fast_call_enters_one_frame_matmul_and_where(xy):
    a, b = tp.ones(2, 3), tp.ones(3, 2)
    entered = frames(tp.matmul, a, b)
    assert len(entered) == 1 + kernel_frames("matmul", a, b), entered
    condition = xy[0] > xy[1]
    entered = frames(tp.where, condition, *xy)
    assert len(entered) == 1 + kernel_frames("where", condition, *xy), entered


VIEW_FRAMES = 2
"""``share`` and ``version_of``: a view shares its base's version cell."""


def test_a_fast_call_enters_one_frame_and_the_sharing_of_a_version_reshape():
    a = tp.ones(2, 3)
    entered = frames(tp.reshape, a, (3, 2))
    allowed = 1 + SPREAD_FRAMES + ALIAS_FRAMES + VIEW_FRAMES + kernel_frames("reshape", a, (3, 2))
    assert len(entered) <= allowed, entered


ALIAS_FRAMES = 3
"""``share_if_aliased``, the device's ``may_alias``, NumPy's own: reshape may copy; only a view shares a version."""
SPREAD_FRAMES = 1
"""``spread``: sizes may be given as several arguments or as one sequence."""


def test_an_operator_of_python_enters_one_frame(xy):
    x, y = xy
    assert len(frames(lambda: x + y)) == 2  # the lambda is one
    assert len(frames(lambda: x - y)) == 2
    assert len(frames(lambda: x * y)) == 2


def test_recording_a_gradient_of_add_enters_one_frame(xy):
    x, y = xy
    x.requires_grad_()
    assert frames(tp.add, x, y) == ["add"]
    assert len(frames(lambda: x + y)) == 2


def test_recording_a_gradient_of_mul_which_saves_its_inputs_enters_one_frame(xy):
    x, y = xy
    x.requires_grad_()
    assert frames(tp.mul, x, y) == ["mul"]
    y.requires_grad_()
    assert frames(tp.mul, x, y) == ["mul"]
    assert len(frames(lambda: x * y)) == 2


def test_no_grad_and_inference_mode_stay_fast(xy):
    x, y = xy
    x.requires_grad_()
    with tp.no_grad():
        assert frames(tp.add, x, y) == ["add"]
    with tp.inference_mode():
        assert frames(tp.add, x, y) == ["add"]


def test_a_scalar_operand_stays_fast(xy):
    assert frames(tp.mul, xy[0], 2.0) in (["mul"], ["mul", "scalar_like"])


def test_a_number_that_no_call_was_given_before_stays_fast(xy):
    numbers = iter([0.37 * n for n in range(1, 100)] + [*range(1000, 1100)])
    for _ in range(2):
        for function in (tp.mul, tp.pow, tp.maximum, tp.atan2, tp.lt, lambda x, n: x + n, lambda x, n: n - x):
            assert "call" not in frames(lambda x, f=function: f(x, next(numbers)), xy[0])
        for _ in range(40):  # from floats to integers
            next(numbers)


@pytest.mark.parametrize(
    ("name", "bad"), [("hardtanh", (2, 1)), ("celu", (0.0,)), ("hardshrink", (-1.0,)), ("softshrink", (-1.0,))]
)
def test_numbers_that_the_shape_rule_looks_at_are_fast_by_their_defaults_and_refused_ever_after(name, bad, xy):
    x = xy[0]
    for function in (getattr(tp.nn.functional, name), OPERATORS[f"{name}_"].function):
        assert "call" not in frames(function, x.clone())
        for _ in range(3):
            with pytest.raises(tp.TensorPlayError, match=name):
                function(x, *bad)
    assert x.tolist() == [1.0, 2.0, 3.0, 4.0]


VALUES = ("BOOL", "INT", "FLOAT", "SCALAR", "STR")
STRANGE = (
    lambda: tp.tensor(0.5, requires_grad=True),
    lambda: tp.tensor(1),
    lambda: tp.tensor(True),
    lambda: tp.ones(2),
    lambda: "?",
    lambda: object(),
    lambda: None,
    lambda: [1],
    lambda: 1.5,
    lambda: 1,
    lambda: True,
    lambda: 1j,
    lambda: np.float64(0.5),
    lambda: np.int64(1),
    lambda: np.bool_(True),
    lambda: np.ones(1),
    lambda: [tp.tensor(0.5, requires_grad=True)],
    lambda: ["?"],
    lambda: (1.5,),
    lambda: [None, None],
    lambda: (True,),
    lambda: [tp.tensor(1), np.int64(0)],
)


def places_of_values(op: Any, sample: Any) -> Iterator[tuple[int | str, str]]:
    """Where a call of a sample has numbers, a bool or a text, or could have one, and what it is called."""
    given = len(sample.build(tp)[0])
    for i, argument in enumerate(op.schema.arguments):
        if argument.type.base.name in VALUES and not iskeyword(argument.name):
            yield (i if i < given and not argument.kwarg_only else argument.name), argument.name


def refusal(op: Any, sample: Any, place: int | str, value: Any) -> Any:
    """What comes of a call with a strange value: the error, or that there is a result."""
    args, kwargs = sample.build(tp)
    args = tuple(value if i == place else one for i, one in enumerate(args))
    kwargs = kwargs | ({place: value} if isinstance(place, str) else {})
    tp.manual_seed(0)
    try:
        op.function(*args, **kwargs)
    except tp.TensorPlayError as error:
        return type(error), str(error).partition(" at 0x")[0]
    return "a result"


@pytest.mark.parametrize("name", [name for name, op in OPERATORS.items() if op.function is not None])
def test_a_value_of_another_class_is_refused_at_every_call_or_at_none(name: str) -> None:
    op = OPERATORS[name]
    tried: set[str] = set()
    for sample in samples(op.functional or op, dtype="float64"):
        places = [(place, label) for place, label in places_of_values(op, sample) if label not in tried]
        try:
            for _ in range(3 * bool(places)):
                op.function(*sample.build(tp)[0], **sample.build(tp)[1])
        except tp.TensorPlayError:  # an in-place form of a sample that it cannot take
            continue
        for place, label in places:
            tried.add(label)
            for make in STRANGE:
                fast = refusal(op, sample, place, make())
                with force_slow_path():
                    slow = refusal(op, sample, place, make())
                assert fast == slow, (label, make())


def test_report(capsys):
    """Prints what was compared; the last test of the file."""
    with capsys.disabled():
        print(f"\nfast and slow: {', '.join(f'{name}: {n}' for name, n in sorted(COUNTS.items()))}")


def test_arguments_that_an_array_library_would_take_and_we_do_not() -> None:
    x = tp.arange(6.0).reshape(2, 3)
    for device in ("cpu", "loopback"):
        y = x.to(device)
        for _ in range(3):
            y.select(0, 1), y.softmax(0), y.log_softmax(0)
        for index in ([0, 1], None, True, slice(None), tp.tensor([0, 1])):
            with pytest.raises(TypeError, match="select"):
                y.select(0, index)  # type: ignore[arg-type]
        for dim in (None, (0, 1)):
            for name in ("softmax", "log_softmax"):
                with pytest.raises(TypeError, match=name):
                    getattr(y, name)(dim)


def test_a_list_that_the_caller_changes_later_does_not_reach_the_gradient() -> None:
    x = tp.zeros(2, 2, 2, requires_grad=True)
    weight = tp.arange(8.0).reshape(2, 2, 2)
    for _ in range(2):
        dims = [2, 0, 1]
        y = x.permute(dims)
        dims[:] = [0, 1, 2]
        assert tp.autograd.grad((y * weight).sum(), x)[0].tolist() == weight.permute(1, 2, 0).tolist()
        dims = [0, 1]
        y = x.sum(dims)
        dims[:] = [1, 2]
        (grad,) = tp.autograd.grad((y * tp.tensor([1.0, 2.0])).sum(), x)
        assert grad.tolist() == [[[1.0, 2.0]] * 2] * 2
