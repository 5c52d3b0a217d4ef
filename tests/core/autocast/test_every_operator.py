"""Every operator of the contract under autocast, against the same call with its inputs cast by hand.

What a policy does is said here once more, in a few lines that share nothing with the kernels: which inputs are cast to
what. The call by hand runs with autocast off; results and gradients must be the same bits. float64, integers and
complex numbers must come out as without autocast. An implicit operator without a policy is what it calls, so of these
the test asks that values agree to the precision of the half.
"""

from __future__ import annotations

from collections import Counter
from contextlib import nullcontext
from itertools import islice
from typing import Any

import numpy as np
import pytest

import tensorplay as tp
from tensorplay_core.dispatch.registry import REGISTRY
from tensorplay_core.testing.samples import samples

MOST = 3
"""How many samples of each operator and dtype are tried: the suite has to be done some time."""
OPERATORS = {op.display_name: op for op in REGISTRY.operators.values() if op.namespace == "tp"}
HALVES = (tp.float16, tp.bfloat16)
UNTOUCHED = ("float64", "int64", "bool", "complex64")
WIDTH = {tp.float16: 1, tp.bfloat16: 1, tp.float32: 2, tp.float64: 3}
COUNTS: Counter[str] = Counter()


def mapped(value: Any, change: Any) -> Any:
    if isinstance(value, (list, tuple)):
        kind = list if isinstance(value, list) else tuple  # results are named tuples
        return kind(mapped(one, change) for one in value)
    return change(value) if isinstance(value, tp.Tensor) else value


def tensors(*values: Any) -> list[tp.Tensor]:
    found: list[tp.Tensor] = []
    mapped(list(values), found.append)
    return found


def by_hand(policy: str, half: Any, inputs: list[tp.Tensor]) -> Any:
    """What the policy makes of one input, given all of them."""
    floating = {t.dtype for t in inputs if t.is_floating_point()}
    if policy == "lower_precision_fp":
        return lambda t: t.to(half) if t.is_floating_point() and t.dtype is not tp.float64 else t
    if policy == "fp32":
        return lambda t: t.to(tp.float32) if t.dtype in HALVES else t
    if policy == "promote" and len(floating) > 1:
        widest = max(floating, key=WIDTH.__getitem__)
        if floating == set(HALVES):
            widest = tp.float32
        return lambda t: t.to(widest) if t.is_floating_point() else t
    if policy == "banned" and floating & {*HALVES}:
        raise tp.AutocastError("halves are refused")
    return lambda t: t


def built(op: Any, sample: Any, change: Any, device: str = "cpu") -> tuple[list[Any], dict[str, Any], list[tp.Tensor]]:
    """A sample's arguments after a change of dtype, with leaves that require a gradient, and these leaves."""
    tp.manual_seed(0)
    args, kwargs = sample.build(tp, device)
    leaves: list[tp.Tensor] = []

    def leaf(tensor: tp.Tensor) -> tp.Tensor:
        tensor = change(tensor)
        if not tensor.dtype.is_inexact or op.is_inplace:
            return tensor
        leaves.append(tensor.detach().requires_grad_())
        return leaves[-1]

    args = mapped(list(args), leaf)
    if op.is_inplace:
        args[0] = args[0].clone()
    return args, {name: mapped(value, leaf) for name, value in kwargs.items()}, leaves


def outcome(op: Any, sample: Any, change: Any, region: Any, cast: Any = None, device: str = "cpu") -> list[Any]:
    """Results and gradients as bits and dtypes, or the error, with autocast or with inputs cast by hand."""
    args, kwargs, leaves = built(op, sample, change, device)
    with region:
        try:
            if cast is not None:
                cast = cast(tensors(args, *kwargs.values()))
                args, kwargs = mapped(args, cast), {name: mapped(value, cast) for name, value in kwargs.items()}
            results = tensors(op.function(*args, **kwargs))
        except (tp.ShapeError, tp.DTypeError, tp.AutogradError, tp.ValueRangeError, tp.AutocastError) as error:
            return [type(error).__name__]
    seen: list[Any] = [] if op.name == "empty" else [bits(y) for y in results]
    roots = [y for y in results if y.requires_grad]
    if roots and leaves:
        ones = [y.detach().new_ones(y.shape) for y in roots]
        with region:
            try:
                grads = tp.autograd.grad(roots, leaves, ones, allow_unused=True)
            except (tp.AutogradError, tp.DTypeError, tp.KernelMissing) as error:
                return [*seen, type(error).__name__]
        for leaf, grad in zip(leaves, grads, strict=True):
            assert grad is None or grad.dtype is leaf.dtype, f"the gradient of {leaf.dtype} is {grad.dtype}"
            COUNTS["gradients"] += grad is not None
            seen.append(bits(grad))
    return seen


def bits(tensor: Any) -> Any:
    return None if tensor is None else (tensor.dtype, tensor.shape, tensor.numpy(force=True).tobytes())


def as_is(tensor: tp.Tensor) -> tp.Tensor:
    return tensor


def to(dtype: Any) -> Any:
    return lambda t: t.to(dtype) if t.is_floating_point() else t


def mixed(half: Any) -> Any:
    """Makes every second floating tensor a half, beginning with the first."""
    seen = Counter()

    def change(tensor: tp.Tensor) -> tp.Tensor:
        if not tensor.is_floating_point():
            return tensor
        seen["n"] += 1
        return tensor.to(half) if seen["n"] % 2 else tensor

    return change


def decomposes(op: Any) -> bool:
    """Whether autocast sees what the operator calls in its place."""
    return op.composite == "implicit" and op.autocast == "none"


@pytest.mark.parametrize("name", OPERATORS)
def test_autocast_is_a_cast_by_the_policy(name: str) -> None:
    op = OPERATORS[name]
    calls = 0
    for half in HALVES:
        for sample in islice(samples(op.functional or op, dtype="float32"), MOST):
            for kind, change in (("float32", lambda _: as_is), (half.name, to), ("mixed", mixed)):
                manual = lambda given: by_hand(op.autocast, half, given)  # noqa: B023, E731
                if decomposes(op):
                    assert_close_to_off(op, sample, change, half)
                else:
                    found = outcome(op, sample, change(half), tp.autocast("cpu", half))
                    expected = outcome(op, sample, change(half), nullcontext(), manual)
                    assert found == expected, f"{name}, {kind} in {half.name}, sample {sample.name!r}"
                calls += 1
    COUNTS["calls"] += calls
    COUNTS[f"operators, {op.autocast}"] += 1


def assert_close_to_off(op: Any, sample: Any, change: Any, half: Any) -> None:
    if "random" in op.tags or op.is_inplace:
        return
    seen = []
    for region in (tp.autocast("cpu", half), nullcontext()):
        args, kwargs, _ = built(op, sample, change(half))
        with region:
            try:
                seen.append(tensors(op.function(*args, **kwargs)))
            except (tp.ShapeError, tp.DTypeError, tp.ValueRangeError):
                return
    for on, off in zip(*seen, strict=True):
        assert on.dtype.kind == off.dtype.kind and on.shape == off.shape
        if op.name != "empty" and off.dtype.is_inexact:
            wide = tp.complex128 if off.is_complex() else tp.float64
            a, b = (t.detach().to(wide).numpy() for t in (on, off))
            scale = np.abs(b[np.isfinite(b)]).max(initial=1.0)
            np.testing.assert_allclose(a, b, rtol=0.02, atol=0.02 * scale, err_msg=f"{op.display_name}, {sample.name}")


@pytest.mark.parametrize("name", OPERATORS)
def test_wide_floats_integers_and_complex_numbers_are_untouched(name: str) -> None:
    op = OPERATORS[name]
    for dtype in UNTOUCHED:
        for sample in islice(samples(op.functional or op, dtype=dtype), MOST):
            specs = {t.dtype for t in tensors(*sample.build(tp)[0], *sample.build(tp)[1].values())}
            if specs & {tp.float32, *HALVES}:
                continue  # a sample of several dtypes
            found = outcome(op, sample, as_is, tp.autocast("cpu", tp.bfloat16))
            assert found == outcome(op, sample, as_is, nullcontext()), f"{name}, {dtype}, sample {sample.name!r}"
            COUNTS["untouched"] += 1


@pytest.mark.parametrize("name", [name for name, op in OPERATORS.items() if op.autocast != "none"])
def test_a_third_partys_device(name: str) -> None:
    """loopback is on a page of keys of its own, and has one half."""
    op = OPERATORS[name]
    for sample in islice(samples(op.functional or op, dtype="float32"), MOST):
        for change in (lambda: as_is, lambda: to(tp.float16), lambda: mixed(tp.float16)):
            manual = lambda given: by_hand(op.autocast, tp.float16, given)  # noqa: E731
            found = outcome(op, sample, change(), tp.autocast("loopback"), device="loopback")
            expected = outcome(op, sample, change(), nullcontext(), manual, "loopback")
            assert found == expected, f"{name}, sample {sample.name!r}"
            COUNTS["calls on loopback"] += 1


def test_the_numbers() -> None:
    """Prints what the tests above have done in this process."""
    print(f"\nautocast: {', '.join(f'{name}: {n}' for name, n in sorted(COUNTS.items()))}")
